"""REINFORCE with a baseline, continuous actions, an agent class."""

import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Normal


class Room(gym.Env):
    """Keep a temperature: written here, as users do."""

    observation_space = gym.spaces.Box(-40.0, 40.0, (2,))
    action_space = gym.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, max_steps=96):
        self.max_steps = max_steps

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.inside, self.outside = self.np_random.uniform(-6, 6), self.np_random.uniform(-20, 0)
        self.steps = 0
        return self.look(), {}

    def step(self, action):
        self.inside += 0.05 * (self.outside - self.inside) + 1.5 * float(action[0])
        self.steps += 1
        terminated = abs(self.inside) > 40
        truncated = self.steps >= self.max_steps
        return self.look(), -abs(self.inside) / 10, terminated, truncated, {}

    def look(self):
        return torch.tensor([self.inside, self.outside]).numpy()


class Reinforce:
    def __init__(self, gamma=0.99):
        self.gamma = gamma
        self.policy = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 1))
        self.log_std = nn.Parameter(torch.zeros(1))
        self.baseline = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 1))
        self.policy_optimizer = torch.optim.Adam([*self.policy.parameters(), self.log_std], lr=1e-3)
        self.value_optimizer = torch.optim.Adam(self.baseline.parameters(), lr=1e-3)

    def play(self, env):
        log_probs, rewards, seen = [], [], []
        obs, _ = env.reset()
        over = False
        while not over:
            state = torch.as_tensor(obs, dtype=torch.float32)
            dist = Normal(self.policy(state), self.log_std.exp())
            action = dist.sample()
            log_probs.append(dist.log_prob(action).sum())
            seen.append(state)
            obs, reward, terminated, truncated, _ = env.step(action.clamp(-1, 1).numpy())
            rewards.append(reward)
            over = terminated or truncated
        return log_probs, rewards, seen

    def discounted(self, rewards):
        R, returns = 0.0, []
        for r in reversed(rewards):
            R = r + self.gamma * R
            returns.insert(0, R)
        return torch.tensor(returns)

    def learn(self, log_probs, rewards, seen):
        returns = self.discounted(rewards)
        values = self.baseline(torch.stack(seen)).squeeze(-1)
        advantage = (returns - values).detach()
        policy_loss = -(torch.stack(log_probs) * advantage).mean()
        self.policy_optimizer.zero_grad()
        policy_loss.backward()
        nn.utils.clip_grad_norm_(self.policy.parameters(), 0.5)
        self.policy_optimizer.step()

        value_loss = ((values - returns) ** 2).mean()
        self.value_optimizer.zero_grad()
        value_loss.backward()
        self.value_optimizer.step()


def main():
    torch.manual_seed(0)
    env = Room()
    env.reset(seed=0)
    agent = Reinforce()
    for episode in range(2_000):
        agent.learn(*agent.play(env))
        if episode % 100 == 0:
            print(episode)


if __name__ == "__main__":
    main()
