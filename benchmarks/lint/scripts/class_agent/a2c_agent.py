import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class ActorCritic(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, n_act))
        self.critic = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, 1))

    def get_value(self, obs):
        return self.critic(obs).squeeze(-1)

    def get_dist(self, obs):
        return torch.distributions.Categorical(logits=self.policy(obs))


class A2C:
    """n-step advantage actor-critic over a vector of environments, resets in the step after an end."""

    def __init__(self, envs, lr=7e-4, gamma=0.99, n_steps=16, vf_coef=0.5, ent_coef=0.01):
        self.envs, self.gamma, self.n_steps = envs, gamma, n_steps
        self.vf_coef, self.ent_coef = vf_coef, ent_coef
        self.model = ActorCritic(envs.single_observation_space.shape[0], envs.single_action_space.n)
        self.optim = torch.optim.RMSprop(self.model.parameters(), lr=lr, eps=1e-5, alpha=0.99)
        self.obs = torch.as_tensor(envs.reset(seed=0)[0], dtype=torch.float32)

    def rollout(self):
        observations, actions, rewards, terminals = [], [], [], []
        for _ in range(self.n_steps):
            with torch.no_grad():
                action = self.model.get_dist(self.obs).sample()
            next_obs, reward, terminated, truncated, _ = self.envs.step(action.numpy())
            observations.append(self.obs)
            actions.append(action)
            rewards.append(torch.as_tensor(reward, dtype=torch.float32))
            terminals.append(torch.as_tensor(terminated, dtype=torch.float32))
            self.obs = torch.as_tensor(next_obs, dtype=torch.float32)
        return torch.stack(observations), torch.stack(actions), rewards, terminals

    def n_step_returns(self, rewards, terminals):
        with torch.no_grad():
            ret = self.model.get_value(self.obs)
        returns = []
        for reward, terminal in zip(reversed(rewards), reversed(terminals)):
            ret = reward + self.gamma * ret * (1.0 - terminal)
            returns.append(ret)
        returns.reverse()
        return torch.stack(returns)

    def update(self):
        obs, actions, rewards, terminals = self.rollout()
        returns = self.n_step_returns(rewards, terminals)
        dist = self.model.get_dist(obs)
        values = self.model.get_value(obs)
        advantages = returns - values
        policy_loss = -(advantages.detach() * dist.log_prob(actions)).mean()
        value_loss = F.mse_loss(values, returns)
        loss = policy_loss + self.vf_coef * value_loss - self.ent_coef * dist.entropy().mean()
        self.optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        self.optim.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    agent = A2C(gym.make_vec("CartPole-v1", num_envs=8))
    print(np.mean([agent.update() for _ in range(5000)]))
