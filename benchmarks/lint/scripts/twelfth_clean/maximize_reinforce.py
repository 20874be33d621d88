"""REINFORCE with gradient *ascent*: the optimizer is built with maximize=True, so the objective has no minus.

Gradients of several episodes are summed up before a step: backward is called per episode, and zero_grad per batch.
The baseline is the mean return of the other episodes of the batch (leave one out), which does not bias anything.
"""
import gymnasium as gym
import torch
from torch import nn

EPISODES, BATCHES, GAMMA = 8, 150, 0.99


def play(env, policy):
    log_probs, rewards = [], []
    obs, _ = env.reset()
    while True:
        dist = torch.distributions.Categorical(logits=policy(torch.from_numpy(obs)))
        action = dist.sample()
        obs, reward, terminated, truncated, _ = env.step(action.item())
        log_probs.append(dist.log_prob(action))
        rewards.append(float(reward))
        if terminated or truncated:
            return torch.stack(log_probs), rewards


def to_go(rewards):
    out, g = torch.zeros(len(rewards)), 0.0
    for i in range(len(rewards) - 1, -1, -1):
        g = rewards[i] + GAMMA * g
        out[i] = g
    return out


def main():
    torch.manual_seed(6)
    # 200 steps are all that is asked for: the time limit is the end of the task
    env = gym.make("CartPole-v1", max_episode_steps=200)
    env.reset(seed=6)
    policy = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3, maximize=True)

    for batch in range(1, BATCHES + 1):
        episodes = [play(env, policy) for _ in range(EPISODES)]
        returns = [to_go(rewards) for _, rewards in episodes]
        starts = torch.stack([g[0] for g in returns])

        optimizer.zero_grad()
        for k, ((log_probs, _), g) in enumerate(zip(episodes, returns)):
            others = (starts.sum() - starts[k]) / (EPISODES - 1)
            objective = (log_probs * (g - others)).sum() / EPISODES
            objective.backward()  # adds up over the episodes
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 5.0)
        optimizer.step()

        if batch % 10 == 0:
            print(f"batch {batch}: mean length {sum(len(r) for _, r in episodes) / EPISODES:.1f}")


if __name__ == "__main__":
    main()
