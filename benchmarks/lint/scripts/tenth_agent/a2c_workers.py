"""Advantage actor-critic with an agent class over a list of environments (no vector wrapper)."""

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


class Net(nn.Module):
    def __init__(self, dim_in: int, dim_out: int):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(dim_in, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh())
        self.actor = nn.Linear(128, dim_out)
        self.critic = nn.Linear(128, 1)

    def forward(self, x):
        z = self.body(x)
        return Categorical(logits=self.actor(z)), self.critic(z).squeeze(-1)


class Storage:
    """What one rollout leaves: lists with one entry per step, each over all workers."""

    def __init__(self):
        self.clear()

    def clear(self):
        self.log_probs, self.values, self.rewards, self.masks, self.entropies = [], [], [], [], []

    def append(self, log_prob, value, reward, mask, entropy):
        self.log_probs.append(log_prob)
        self.values.append(value)
        self.rewards.append(reward)
        self.masks.append(mask)
        self.entropies.append(entropy)


class A2CAgent:
    def __init__(self, env_name, workers=8, horizon=5, gamma=0.99, lr=7e-4, entropy_weight=0.01, value_weight=0.5, max_norm=0.5, seed=0):
        self.envs = [gym.make(env_name) for _ in range(workers)]
        self.eval_env = gym.make(env_name)
        self.horizon = horizon
        self.gamma = gamma
        self.entropy_weight = entropy_weight
        self.value_weight = value_weight
        self.max_norm = max_norm
        n_in = self.envs[0].observation_space.shape[0]
        n_out = self.envs[0].action_space.n
        self.net = Net(n_in, n_out)
        self.optim = torch.optim.RMSprop(self.net.parameters(), lr=lr, eps=1e-5, alpha=0.99)
        self.storage = Storage()
        self.obs = np.stack([env.reset(seed=seed + k)[0] for k, env in enumerate(self.envs)])

    @staticmethod
    def to_tensor(x):
        return torch.as_tensor(np.asarray(x), dtype=torch.float32)

    def step_all(self, actions):
        """One step of each worker; a truncated one is worth its discounted value, which is added to its last reward."""
        obs, rewards, masks = [], [], []
        for env, action in zip(self.envs, actions):
            o, r, terminated, truncated, _ = env.step(int(action))
            if truncated and not terminated:
                with torch.no_grad():
                    r = r + self.gamma * self.net(self.to_tensor(o))[1].item()
            if terminated or truncated:
                o, _ = env.reset()
            obs.append(o)
            rewards.append(r)
            masks.append(0.0 if terminated or truncated else 1.0)
        return np.stack(obs), self.to_tensor(rewards), self.to_tensor(masks)

    def rollout(self):
        self.storage.clear()
        for _ in range(self.horizon):
            dist, value = self.net(self.to_tensor(self.obs))
            action = dist.sample()
            self.obs, reward, mask = self.step_all(action)
            self.storage.append(dist.log_prob(action), value, reward, mask, dist.entropy())

    def returns(self):
        with torch.no_grad():
            _, ret = self.net(self.to_tensor(self.obs))
        out = []
        for reward, mask in zip(reversed(self.storage.rewards), reversed(self.storage.masks)):
            ret = reward + self.gamma * mask * ret
            out.insert(0, ret)
        return torch.stack(out)

    def learn(self):
        self.rollout()
        returns = self.returns()
        values = torch.stack(self.storage.values)
        log_probs = torch.stack(self.storage.log_probs)
        entropy = torch.stack(self.storage.entropies).mean()

        advantage = returns - values
        actor_loss = -(log_probs * advantage.detach()).mean()
        critic_loss = advantage.pow(2).mean()
        loss = actor_loss + self.value_weight * critic_loss - self.entropy_weight * entropy

        self.optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), self.max_norm)
        self.optim.step()
        return loss.item()

    def evaluate(self, episodes=10):
        scores = []
        for k in range(episodes):
            obs, _ = self.eval_env.reset(seed=1000 + k)
            score, finished = 0.0, False
            while not finished:
                with torch.no_grad():
                    dist, _ = self.net(self.to_tensor(obs))
                obs, r, terminated, truncated, _ = self.eval_env.step(int(dist.probs.argmax()))
                score += r
                finished = terminated or truncated
            scores.append(score)
        return float(np.mean(scores))


if __name__ == "__main__":
    torch.manual_seed(0)
    agent = A2CAgent("CartPole-v1")
    for update in range(1, 20001):
        agent.learn()
        if update % 1000 == 0:
            print(update, agent.evaluate())
