"""Soft actor-critic, compact: two critics, their targets, an automatic temperature."""

import copy

import gymnasium as gym
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal

GAMMA, TAU, LEARNING_STARTS = 0.99, 0.005, 5_000


def mlp(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, n_out))


class Actor(nn.Module):
    def __init__(self, n_obs, n_actions):
        super().__init__()
        self.trunk = mlp(n_obs, 2 * n_actions)

    def forward(self, obs):
        mean, log_std = self.trunk(obs).chunk(2, dim=-1)
        return mean, log_std.clamp(-5, 2)

    def sample(self, obs):
        mean, log_std = self(obs)
        dist = Normal(mean, log_std.exp())
        raw = dist.rsample()
        action = torch.tanh(raw)
        log_prob = dist.log_prob(raw) - torch.log(1 - action.pow(2) + 1e-6)
        return action, log_prob.sum(-1)


class Critic(nn.Module):
    def __init__(self, n_obs, n_actions):
        super().__init__()
        self.q = mlp(n_obs + n_actions, 1)

    def forward(self, obs, action):
        return self.q(torch.cat([obs, action], -1)).squeeze(-1)


def train(buffer, steps=100_000, seed=0):
    torch.manual_seed(seed)
    env = gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), -1.0, 1.0)
    actor = Actor(3, 1)
    qf1, qf2 = Critic(3, 1), Critic(3, 1)
    qf1_target, qf2_target = copy.deepcopy(qf1), copy.deepcopy(qf2)
    log_alpha = torch.zeros(1, requires_grad=True)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)
    q_optimizer = torch.optim.Adam([*qf1.parameters(), *qf2.parameters()], lr=1e-3)
    alpha_optimizer = torch.optim.Adam([log_alpha], lr=1e-3)
    target_entropy = -1.0
    obs, _ = env.reset(seed=seed)
    for step in range(steps):
        if step < LEARNING_STARTS:
            action = env.action_space.sample()
        else:
            with torch.no_grad():
                action = actor.sample(torch.as_tensor(obs).float())[0].numpy()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        buffer.add(obs, next_obs, action, reward, terminated)
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()
        if step < LEARNING_STARTS:
            continue
        batch = buffer.sample(256)
        alpha = log_alpha.exp().detach()
        with torch.no_grad():
            next_action, next_log_pi = actor.sample(batch.next_obs)
            next_q = torch.min(qf1_target(batch.next_obs, next_action), qf2_target(batch.next_obs, next_action)) - alpha * next_log_pi
            target = batch.reward + GAMMA * (1 - batch.terminated) * next_q
        q_loss = F.mse_loss(qf1(batch.obs, batch.action), target) + F.mse_loss(qf2(batch.obs, batch.action), target)
        q_optimizer.zero_grad()
        q_loss.backward()
        q_optimizer.step()

        pi, log_pi = actor.sample(batch.obs)
        actor_loss = (alpha * log_pi - torch.min(qf1(batch.obs, pi), qf2(batch.obs, pi))).mean()
        actor_optimizer.zero_grad()
        actor_loss.backward()
        actor_optimizer.step()

        alpha_loss = -(log_alpha * (log_pi.detach() + target_entropy)).mean()
        alpha_optimizer.zero_grad()
        alpha_loss.backward()
        alpha_optimizer.step()

        for net, target_net in ((qf1, qf1_target), (qf2, qf2_target)):
            for param, target_param in zip(net.parameters(), target_net.parameters(), strict=True):
                target_param.data.lerp_(param.data, TAU)
