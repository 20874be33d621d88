"""REINFORCE with all episodes of a batch in one padded tensor; returns by a reversed cumulative sum of discounted rewards."""
import gymnasium as gym
import torch

GAMMA, LONGEST, BATCH = 0.98, 500, 10
torch.manual_seed(0)
env = gym.make("CartPole-v1")
policy = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2))
opt = torch.optim.Adam(policy.parameters(), lr=4e-3)
powers = GAMMA ** torch.arange(LONGEST)


def returns_to_go(rewards):
    """[B, T], zero after the end. sum_{k>=t} g^k r_k, divided by g^t."""
    return (rewards * powers).flip(1).cumsum(1).flip(1) / powers


env.reset(seed=0)
for it in range(60):
    rewards, logp, alive = torch.zeros(BATCH, LONGEST), [], torch.zeros(BATCH, LONGEST)
    for b in range(BATCH):
        obs, _ = env.reset()
        mine = []
        for t in range(LONGEST):
            d = torch.distributions.Categorical(logits=policy(torch.from_numpy(obs)))
            a = d.sample()
            mine.append(d.log_prob(a))
            obs, r, terminated, truncated, _ = env.step(a.item())
            rewards[b, t], alive[b, t] = r, 1.0
            if terminated or truncated:
                break
        logp.append(torch.nn.functional.pad(torch.stack(mine), (0, LONGEST - len(mine))))
    G = returns_to_go(rewards)
    # the baseline of step t is the mean over the episodes that are still running then
    baseline = (G * alive).sum(0) / alive.sum(0).clamp(min=1.0)
    loss = -(torch.stack(logp) * (G - baseline) * alive).sum() / BATCH / 50
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 10 == 0:
        print(it, alive.sum().item() / BATCH)
