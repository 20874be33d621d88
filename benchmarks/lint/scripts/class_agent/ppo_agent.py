import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.logits = nn.Linear(64, n_act)
        self.value = nn.Linear(64, 1)

    def forward(self, obs):
        hidden = self.trunk(obs)
        return Categorical(logits=self.logits(hidden)), self.value(hidden).squeeze(-1)


class Rollout:
    def __init__(self):
        self.clear()

    def clear(self):
        self.obs, self.actions, self.log_probs, self.rewards = [], [], [], []
        self.values, self.next_values, self.terminated, self.ended = [], [], [], []

    def add(self, obs, action, log_prob, reward, value, next_value, terminated, ended):
        self.obs.append(obs)
        self.actions.append(action)
        self.log_probs.append(log_prob)
        self.rewards.append(reward)
        self.values.append(value)
        self.next_values.append(next_value)
        self.terminated.append(float(terminated))
        self.ended.append(float(ended))


class PPO:
    def __init__(self, env, gamma=0.99, lam=0.95, clip=0.2, lr=3e-4, epochs=10, minibatch=64, horizon=2048, ent_coef=0.0):
        self.env = env
        self.gamma, self.lam, self.clip = gamma, lam, clip
        self.epochs, self.minibatch, self.horizon, self.ent_coef = epochs, minibatch, horizon, ent_coef
        self.policy = Policy(env.observation_space.shape[0], env.action_space.n)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=lr)
        self.rollout = Rollout()

    @torch.no_grad()
    def select_action(self, obs):
        dist, value = self.policy(torch.as_tensor(obs, dtype=torch.float32))
        action = dist.sample()
        return action.item(), dist.log_prob(action).item(), value.item()

    @torch.no_grad()
    def value_of(self, obs):
        return self.policy(torch.as_tensor(obs, dtype=torch.float32))[1].item()

    def collect(self, obs):
        self.rollout.clear()
        for _ in range(self.horizon):
            action, log_prob, value = self.select_action(obs)
            next_obs, reward, terminated, truncated, _ = self.env.step(action)
            ended = terminated or truncated
            self.rollout.add(obs, action, log_prob, reward, value, self.value_of(next_obs), terminated, ended)
            obs = next_obs
            if ended:
                obs, _ = self.env.reset()
        return obs

    def advantages(self):
        data = self.rollout
        result = np.zeros(len(data.rewards), dtype=np.float32)
        gae = 0.0
        for t in reversed(range(len(data.rewards))):
            delta = data.rewards[t] + self.gamma * data.next_values[t] * (1 - data.terminated[t]) - data.values[t]
            gae = delta + self.gamma * self.lam * (1 - data.ended[t]) * gae
            result[t] = gae
        return torch.from_numpy(result)

    def update(self):
        obs = torch.as_tensor(np.array(self.rollout.obs), dtype=torch.float32)
        actions = torch.as_tensor(self.rollout.actions)
        old_log_probs = torch.as_tensor(self.rollout.log_probs)
        advantages = self.advantages()
        returns = advantages + torch.as_tensor(self.rollout.values, dtype=torch.float32)
        for _ in range(self.epochs):
            order = torch.randperm(len(obs))
            for rows in order.split(self.minibatch):
                dist, values = self.policy(obs[rows])
                log_probs = dist.log_prob(actions[rows])
                ratio = (log_probs - old_log_probs[rows]).exp()
                adv = advantages[rows]
                adv = (adv - adv.mean()) / (adv.std() + 1e-8)
                surrogate = torch.min(ratio * adv, ratio.clamp(1 - self.clip, 1 + self.clip) * adv)
                policy_loss = -surrogate.mean()
                value_loss = nn.functional.mse_loss(values, returns[rows])
                loss = policy_loss + 0.5 * value_loss - self.ent_coef * dist.entropy().mean()
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.policy.parameters(), 0.5)
                self.optimizer.step()

    def train(self, iterations):
        obs, _ = self.env.reset(seed=0)
        for iteration in range(iterations):
            obs = self.collect(obs)
            self.update()
            print(iteration, sum(self.rollout.rewards) / max(1.0, sum(self.rollout.ended)))


if __name__ == "__main__":
    torch.manual_seed(0)
    PPO(gym.make("CartPole-v1")).train(50)
