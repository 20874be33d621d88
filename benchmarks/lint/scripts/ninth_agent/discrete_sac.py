import argparse
import copy
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    """A small body with as many outputs as there are actions; policy and critics are all of this shape."""

    def __init__(self, obs_size, action_size):
        super().__init__()
        self.fc1 = nn.Linear(obs_size, 128)
        self.fc2 = nn.Linear(128, 128)
        self.fc3 = nn.Linear(128, action_size)

    def forward(self, obs):
        h = torch.relu(self.fc1(obs))
        h = torch.relu(self.fc2(h))
        return self.fc3(h)


class Experience:
    def __init__(self, maxlen=100_000):
        self.items = deque(maxlen=maxlen)

    def append(self, *item):
        self.items.append(item)

    def batch(self, size):
        obs, action, reward, next_obs, terminated = zip(*random.sample(self.items, size))
        return (
            torch.tensor(np.array(obs), dtype=torch.float32),
            torch.tensor(action),
            torch.tensor(reward, dtype=torch.float32),
            torch.tensor(np.array(next_obs), dtype=torch.float32),
            torch.tensor(terminated, dtype=torch.float32),
        )


class DiscreteSAC:
    """Soft actor-critic for discrete actions (Christodoulou 2019): expectations are sums over the actions."""

    def __init__(self, obs_size, action_size, gamma=0.99, tau=0.005, lr=3e-4, entropy_share=0.5):
        self.gamma, self.tau = gamma, tau
        self.policy = Net(obs_size, action_size)
        self.critics = nn.ModuleList([Net(obs_size, action_size), Net(obs_size, action_size)])
        self.target_critics = copy.deepcopy(self.critics)
        for p in self.target_critics.parameters():
            p.requires_grad_(False)
        self.log_alpha = torch.tensor(0.0, requires_grad=True)
        # a share of the entropy of the uniform policy, which is the largest there is
        self.target_entropy = entropy_share * np.log(action_size)
        self.policy_optim = torch.optim.Adam(self.policy.parameters(), lr=lr)
        self.critic_optim = torch.optim.Adam(self.critics.parameters(), lr=lr)
        self.alpha_optim = torch.optim.Adam([self.log_alpha], lr=lr)

    @property
    def alpha(self):
        return self.log_alpha.exp()

    def select_action(self, obs, greedy=False):
        with torch.no_grad():
            logits = self.policy(torch.as_tensor(obs, dtype=torch.float32))
        if greedy:
            return int(logits.argmax())
        return int(torch.distributions.Categorical(logits=logits).sample())

    def probabilities(self, obs):
        log_probs = torch.log_softmax(self.policy(obs), dim=-1)
        return log_probs.exp(), log_probs

    def soft_value(self, obs):
        """V(s) = sum_a pi(a|s) (min Q(s, a) - alpha log pi(a|s)), by the target critics."""
        probs, log_probs = self.probabilities(obs)
        first, second = (critic(obs) for critic in self.target_critics)
        return (probs * (torch.min(first, second) - self.alpha * log_probs)).sum(dim=-1)

    def critic_update(self, obs, action, reward, next_obs, terminated):
        with torch.no_grad():
            backup = reward + self.gamma * (1 - terminated) * self.soft_value(next_obs)
        loss = 0.0
        for critic in self.critics:
            chosen = critic(obs).gather(1, action.view(-1, 1)).view(-1)
            loss = loss + nn.functional.mse_loss(chosen, backup)
        self.critic_optim.zero_grad()
        loss.backward()
        self.critic_optim.step()
        return loss.item()

    def policy_update(self, obs):
        probs, log_probs = self.probabilities(obs)
        with torch.no_grad():
            q = torch.min(self.critics[0](obs), self.critics[1](obs))
        loss = (probs * (self.alpha.detach() * log_probs - q)).sum(dim=-1).mean()
        self.policy_optim.zero_grad()
        loss.backward()
        self.policy_optim.step()
        return -(probs * log_probs).sum(dim=-1).mean().detach()

    def alpha_update(self, entropy):
        # too little entropy: log_alpha must grow
        loss = self.log_alpha * (entropy - self.target_entropy)
        self.alpha_optim.zero_grad()
        loss.backward()
        self.alpha_optim.step()

    def blend_targets(self):
        with torch.no_grad():
            for old, new in zip(self.target_critics.parameters(), self.critics.parameters()):
                old.copy_((1 - self.tau) * old + self.tau * new)

    def learn(self, batch):
        critic_loss = self.critic_update(*batch)
        entropy = self.policy_update(batch[0])
        self.alpha_update(entropy)
        self.blend_targets()
        return critic_loss, entropy.item()


class Trainer:
    def __init__(self, env_id, seed, batch_size=128, start_after=1_000):
        self.env = gym.make(env_id)
        self.batch_size, self.start_after = batch_size, start_after
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        self.seed = seed
        self.agent = DiscreteSAC(self.env.observation_space.shape[0], self.env.action_space.n)
        self.experience = Experience()

    def run(self, steps):
        obs, _ = self.env.reset(seed=self.seed)
        episode_return, log = 0.0, []
        for step in range(steps):
            if step < self.start_after:
                action = self.env.action_space.sample()
            else:
                action = self.agent.select_action(obs)
            next_obs, reward, terminated, truncated, _ = self.env.step(action)
            self.experience.append(obs, int(action), reward, next_obs, terminated)
            episode_return += reward
            obs = next_obs
            if terminated or truncated:
                log.append(episode_return)
                episode_return = 0.0
                obs, _ = self.env.reset()
                if len(log) % 20 == 0:
                    print(f"step {step}  last 20 returns {np.mean(log[-20:]):.1f}  alpha {self.agent.alpha.item():.3f}")
            if step >= self.start_after:
                self.agent.learn(self.experience.batch(self.batch_size))
        return log


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--env", default="CartPole-v1")
    ap.add_argument("--steps", type=int, default=50_000)
    ap.add_argument("--start-after", type=int, default=1_000)
    ap.add_argument("--seed", type=int, default=3)
    a = ap.parse_args()
    Trainer(a.env, a.seed, start_after=a.start_after).run(a.steps)
