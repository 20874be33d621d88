"""PPO for continuous actions, one environment; the advantages come from a function that gets lists."""

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Normal

ENV_ID, SEED, STEPS, UPDATES = "Pendulum-v1", 3, 2048, 150
GAMMA, LAMBDA, CLIP, LR, EPOCHS, MINIBATCH = 0.95, 0.95, 0.2, 3e-4, 10, 64


class Agent(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.actor_mean = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, n_act))
        self.actor_logstd = nn.Parameter(torch.zeros(1, n_act))
        self.critic = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def distribution(self, x):
        mean = self.actor_mean(x)
        return Normal(mean, self.actor_logstd.expand_as(mean).exp())

    def value(self, x):
        return self.critic(x).squeeze(-1)


def compute_gae(rewards, values, next_values, terminals, ends):
    """`terminals` stop the bootstrap, `ends` (terminal or time limit) stop the trace."""
    advantages = np.zeros(len(rewards), dtype=np.float32)
    running = 0.0
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + GAMMA * next_values[t] * (1.0 - terminals[t]) - values[t]
        running = delta + GAMMA * LAMBDA * (1.0 - ends[t]) * running
        advantages[t] = running
    return advantages


def main():
    torch.manual_seed(SEED)
    env = gym.make(ENV_ID)
    agent = Agent(env.observation_space.shape[0], env.action_space.shape[0])
    optimizer = torch.optim.Adam(agent.parameters(), lr=LR, eps=1e-5)
    obs, _ = env.reset(seed=SEED)
    for update in range(UPDATES):
        observations, actions, logprobs, rewards, values, next_values, terminals, ends = [], [], [], [], [], [], [], []
        for step in range(STEPS):
            x = torch.as_tensor(obs, dtype=torch.float32)
            with torch.no_grad():
                dist = agent.distribution(x.unsqueeze(0))
                action = dist.sample()
                logprob = dist.log_prob(action).sum(-1)
                value = agent.value(x.unsqueeze(0))
            clipped = np.clip(action[0].numpy(), env.action_space.low, env.action_space.high)
            next_obs, reward, terminated, truncated, _ = env.step(clipped)
            with torch.no_grad():
                next_value = agent.value(torch.as_tensor(next_obs, dtype=torch.float32).unsqueeze(0))
            observations.append(x)
            actions.append(action[0])
            logprobs.append(logprob[0])
            rewards.append(float(reward))
            values.append(value.item())
            next_values.append(next_value.item())
            terminals.append(float(terminated))
            ends.append(float(terminated or truncated))
            obs = next_obs
            if terminated or truncated:
                obs, _ = env.reset()

        advantages = compute_gae(rewards, values, next_values, terminals, ends)
        b_obs, b_actions, b_logprobs = torch.stack(observations), torch.stack(actions), torch.stack(logprobs)
        b_advantages = torch.as_tensor(advantages)
        b_returns = b_advantages + torch.as_tensor(values, dtype=torch.float32)
        for epoch in range(EPOCHS):
            for idx in torch.randperm(STEPS).split(MINIBATCH):
                dist = agent.distribution(b_obs[idx])
                new_logprob = dist.log_prob(b_actions[idx]).sum(-1)
                ratio = torch.exp(new_logprob - b_logprobs[idx])
                adv = b_advantages[idx]
                adv = (adv - adv.mean()) / (adv.std() + 1e-8)
                policy_loss = -torch.min(ratio * adv, torch.clamp(ratio, 1 - CLIP, 1 + CLIP) * adv).mean()
                value_loss = (agent.value(b_obs[idx]) - b_returns[idx]).pow(2).mean()
                loss = policy_loss + 0.5 * value_loss - 0.001 * dist.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()


if __name__ == "__main__":
    main()
