"""Actor-critic where only the policy shapes the features: the value head reads a detached trunk.

One optimizer holds everything. As the value loss ends at the detached features, the two losses do not fight over the
trunk, and no coefficient between them is needed.
"""
import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical


class Net(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_obs, 96), nn.Tanh(), nn.Linear(96, 96), nn.Tanh())
        self.policy_head = nn.Linear(96, n_act)
        self.value_head = nn.Sequential(nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 1))

    def forward(self, x):
        features = self.trunk(x)
        return Categorical(logits=self.policy_head(features)), self.value_head(features.detach()).squeeze(-1)


def main(iterations=3_000, n_steps=32, gamma=0.99, lam=0.95):
    torch.manual_seed(4)
    env = gym.make("CartPole-v1")
    net = Net(4, 2)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    obs, _ = env.reset(seed=4)
    score, scores = 0.0, []

    for iteration in range(1, iterations + 1):
        log_probs, values, entropies, deltas, keeps = [], [], [], [], []
        for _ in range(n_steps):
            dist, value = net(torch.from_numpy(obs))
            action = dist.sample()
            obs, reward, terminated, truncated, _ = env.step(action.item())
            score += reward
            with torch.no_grad():
                follow = 0.0 if terminated else net(torch.from_numpy(obs))[1].item()
            log_probs.append(dist.log_prob(action))
            entropies.append(dist.entropy())
            values.append(value)
            deltas.append(reward + gamma * follow - value.item())
            keeps.append(0.0 if terminated or truncated else 1.0)
            if terminated or truncated:
                scores.append(score)
                score = 0.0
                obs, _ = env.reset()

        advantage, advantages = 0.0, []
        for delta, keep in zip(reversed(deltas), reversed(keeps)):
            advantage = delta + gamma * lam * keep * advantage
            advantages.insert(0, advantage)
        advantages = torch.tensor(advantages)
        values = torch.stack(values)

        policy_loss = -(torch.stack(log_probs) * advantages).mean()
        value_loss = (values - (values.detach() + advantages)).pow(2).mean()
        loss = policy_loss + value_loss - 0.01 * torch.stack(entropies).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()

        if iteration % 300 == 0 and scores:
            print(f"{iteration}: {sum(scores[-20:]) / len(scores[-20:]):.1f}")


if __name__ == "__main__":
    main()
