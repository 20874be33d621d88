#!/usr/bin/env python
"""TD3 agent, object-oriented. Usage: td3_walker.py [env] [episodes]"""
import copy
import logging
import sys

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

log = logging.getLogger("td3")


class ReplayMemory:
    def __init__(self, capacity: int, n_obs: int, n_act: int):
        self.capacity = capacity
        self.count = 0
        self.state = np.zeros((capacity, n_obs), dtype=np.float32)
        self.new_state = np.zeros((capacity, n_obs), dtype=np.float32)
        self.action = np.zeros((capacity, n_act), dtype=np.float32)
        self.reward = np.zeros((capacity, 1), dtype=np.float32)
        self.terminal = np.zeros((capacity, 1), dtype=bool)

    def __len__(self) -> int:
        return min(self.count, self.capacity)

    def store(self, state, action, reward, new_state, terminal):
        index = self.count % self.capacity
        self.state[index] = state
        self.new_state[index] = new_state
        self.action[index] = action
        self.reward[index] = reward
        self.terminal[index] = terminal
        self.count += 1

    def sample(self, batch_size: int):
        batch = np.random.choice(len(self), batch_size)
        to = torch.as_tensor
        return (to(self.state[batch]), to(self.action[batch]), to(self.reward[batch]),
                to(self.new_state[batch]), to(self.terminal[batch]))


class Actor(nn.Module):
    def __init__(self, n_obs: int, n_act: int, max_action: float):
        super().__init__()
        self.l1 = nn.Linear(n_obs, 128)
        self.l2 = nn.Linear(128, 128)
        self.l3 = nn.Linear(128, n_act)
        self.max_action = max_action

    def forward(self, state):
        a = F.relu(self.l1(state))
        a = F.relu(self.l2(a))
        return self.max_action * torch.tanh(self.l3(a))


class Critic(nn.Module):
    def __init__(self, n_obs: int, n_act: int):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(n_obs + n_act, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(),
                                   nn.Linear(128, 1))
        self.second = nn.Sequential(nn.Linear(n_obs + n_act, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(),
                                    nn.Linear(128, 1))

    def forward(self, state, action):
        sa = torch.cat([state, action], dim=1)
        return self.first(sa), self.second(sa)

    def q1(self, state, action):
        return self.first(torch.cat([state, action], dim=1))


class Agent:
    def __init__(self, n_obs, n_act, max_action, gamma=0.99, tau=0.005, noise=0.1, smoothing=0.2,
                 smoothing_clip=0.5, delay=2, lr=1e-3, batch_size=100, warmup=1000):
        self.actor = Actor(n_obs, n_act, max_action)
        self.actor_target = copy.deepcopy(self.actor)
        self.critic = Critic(n_obs, n_act)
        self.critic_target = copy.deepcopy(self.critic)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=lr)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=lr)
        self.memory = ReplayMemory(200_000, n_obs, n_act)
        self.n_act, self.max_action = n_act, max_action
        self.gamma, self.tau, self.noise = gamma, tau, noise
        self.smoothing, self.smoothing_clip, self.delay = smoothing, smoothing_clip, delay
        self.batch_size, self.warmup = batch_size, warmup
        self.learn_steps = 0
        self.env_steps = 0

    def act(self, observation, evaluate: bool = False) -> np.ndarray:
        if not evaluate:
            self.env_steps += 1
            if self.env_steps <= self.warmup:
                return np.random.uniform(-self.max_action, self.max_action, self.n_act).astype(np.float32)
        with torch.no_grad():
            action = self.actor(torch.as_tensor(observation, dtype=torch.float32)).numpy()
        if not evaluate:
            action = action + np.random.normal(0.0, self.noise * self.max_action, self.n_act)
        return np.clip(action, -self.max_action, self.max_action).astype(np.float32)

    def remember(self, state, action, reward, new_state, terminal):
        self.memory.store(state, action, reward, new_state, terminal)

    def learn(self):
        if len(self.memory) < max(self.batch_size, self.warmup):
            return None
        state, action, reward, new_state, terminal = self.memory.sample(self.batch_size)
        with torch.no_grad():
            eps = torch.randn_like(action) * self.smoothing * self.max_action
            eps = eps.clamp(-self.smoothing_clip * self.max_action, self.smoothing_clip * self.max_action)
            new_action = (self.actor_target(new_state) + eps).clamp(-self.max_action, self.max_action)
            q1_new, q2_new = self.critic_target(new_state, new_action)
            q_new = torch.min(q1_new, q2_new)
            q_new[terminal] = 0.0
            target = reward + self.gamma * q_new

        q1, q2 = self.critic(state, action)
        critic_loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()

        self.learn_steps += 1
        if self.learn_steps % self.delay == 0:
            actor_loss = -self.critic.q1(state, self.actor(state)).mean()
            self.actor_optimizer.zero_grad()
            actor_loss.backward()
            self.actor_optimizer.step()
            self.update_target(self.actor, self.actor_target)
            self.update_target(self.critic, self.critic_target)
        return critic_loss.item()

    def update_target(self, online: nn.Module, target: nn.Module):
        for w, w_target in zip(online.parameters(), target.parameters()):
            w_target.data.mul_(1 - self.tau).add_(self.tau * w.data)


def play(agent, env, training, seed=None):
    observation, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        action = agent.act(observation, evaluate=not training)
        new_observation, reward, terminated, truncated, _ = env.step(action)
        if training:
            agent.remember(observation, action, reward, new_observation, terminated)
            agent.learn()
        observation = new_observation
        total += float(reward)
        over = terminated or truncated
    return total


def main(env_name="Pendulum-v1", episodes=150):
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    np.random.seed(3)
    torch.manual_seed(3)
    env, eval_env = gym.make(env_name), gym.make(env_name)
    agent = Agent(env.observation_space.shape[0], env.action_space.shape[0], float(env.action_space.high[0]),
                  warmup=1000 if episodes > 10 else 100)
    for episode in range(episodes):
        score = play(agent, env, training=True, seed=3 if episode == 0 else None)
        if (episode + 1) % 10 == 0:
            test = np.mean([play(agent, eval_env, training=False, seed=900 + k) for k in range(5)])
            log.info("episode %d train %.1f test %.1f", episode + 1, score, test)
    env.close()


if __name__ == "__main__":
    main(*(sys.argv[1:2] or ["Pendulum-v1"]), episodes=int(sys.argv[2]) if len(sys.argv) > 2 else 150)
