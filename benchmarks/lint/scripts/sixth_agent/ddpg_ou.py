"""DDPG agent with Ornstein-Uhlenbeck exploration."""
import copy
import os
import random
from collections import deque, namedtuple

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim

CONFIG = {
    "buffer": 100_000,
    "batch": 64,
    "gamma": 0.99,
    "tau": 1e-2,
    "lr_actor": 1e-4,
    "lr_critic": 1e-3,
    "weight_decay": 1e-4,
    "warmup": int(os.environ.get("WARMUP", 1_000)),
    "episodes": int(os.environ.get("EPISODES", 150)),
    "seed": 7,
}


class Actor(nn.Module):
    def __init__(self, state_size, action_size, max_action):
        super().__init__()
        self.fc1 = nn.Linear(state_size, 128)
        self.fc2 = nn.Linear(128, 128)
        self.fc3 = nn.Linear(128, action_size)
        self.max_action = max_action
        nn.init.uniform_(self.fc3.weight, -3e-3, 3e-3)

    def forward(self, state):
        x = F.relu(self.fc1(state))
        x = F.relu(self.fc2(x))
        return self.max_action * torch.tanh(self.fc3(x))


class Critic(nn.Module):
    def __init__(self, state_size, action_size):
        super().__init__()
        self.fcs1 = nn.Linear(state_size, 128)
        self.fc2 = nn.Linear(128 + action_size, 128)
        self.fc3 = nn.Linear(128, 1)

    def forward(self, state, action):
        xs = F.relu(self.fcs1(state))
        x = torch.cat((xs, action), dim=1)
        return self.fc3(F.relu(self.fc2(x)))


class OUNoise:
    def __init__(self, size, mu=0.0, theta=0.15, sigma=0.2, seed=0):
        self.mu = mu * np.ones(size)
        self.theta, self.sigma = theta, sigma
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.state = copy.copy(self.mu)

    def sample(self):
        x = self.state
        dx = self.theta * (self.mu - x) + self.sigma * self.rng.standard_normal(len(x))
        self.state = x + dx
        return self.state


class ReplayBuffer:
    Experience = namedtuple("Experience", ["state", "action", "reward", "next_state", "terminal"])

    def __init__(self, capacity, batch_size):
        self.memory = deque(maxlen=capacity)
        self.batch_size = batch_size

    def add(self, state, action, reward, next_state, terminal):
        self.memory.append(self.Experience(state, action, reward, next_state, terminal))

    def sample(self):
        picked = random.sample(self.memory, k=self.batch_size)
        states = torch.from_numpy(np.vstack([e.state for e in picked])).float()
        actions = torch.from_numpy(np.vstack([e.action for e in picked])).float()
        rewards = torch.from_numpy(np.vstack([e.reward for e in picked])).float()
        next_states = torch.from_numpy(np.vstack([e.next_state for e in picked])).float()
        terminals = torch.from_numpy(np.vstack([e.terminal for e in picked]).astype(np.uint8)).float()
        return states, actions, rewards, next_states, terminals

    def __len__(self):
        return len(self.memory)


class DDPGAgent:
    def __init__(self, state_size, action_size, max_action, cfg):
        self.cfg = cfg
        self.max_action = max_action
        self.actor_local = Actor(state_size, action_size, max_action)
        self.actor_target = copy.deepcopy(self.actor_local)
        self.critic_local = Critic(state_size, action_size)
        self.critic_target = copy.deepcopy(self.critic_local)
        self.actor_optimizer = optim.Adam(self.actor_local.parameters(), lr=cfg["lr_actor"])
        self.critic_optimizer = optim.Adam(self.critic_local.parameters(), lr=cfg["lr_critic"], weight_decay=cfg["weight_decay"])
        self.noise = OUNoise(action_size, seed=cfg["seed"])
        self.memory = ReplayBuffer(cfg["buffer"], cfg["batch"])

    def act(self, state, add_noise=True):
        state = torch.from_numpy(state).float().unsqueeze(0)
        self.actor_local.eval()
        with torch.no_grad():
            action = self.actor_local(state).squeeze(0).numpy()
        self.actor_local.train()
        if add_noise:
            action = action + self.max_action * self.noise.sample()
        return np.clip(action, -self.max_action, self.max_action)

    def step(self, state, action, reward, next_state, terminal):
        self.memory.add(state, action, reward, next_state, terminal)
        if len(self.memory) > max(self.cfg["batch"], self.cfg["warmup"]):
            self.learn(self.memory.sample())

    def learn(self, experiences):
        states, actions, rewards, next_states, terminals = experiences

        with torch.no_grad():
            actions_next = self.actor_target(next_states)
            q_next = self.critic_target(next_states, actions_next)
            q_targets = rewards + self.cfg["gamma"] * q_next * (1 - terminals)
        q_expected = self.critic_local(states, actions)
        critic_loss = F.mse_loss(q_expected, q_targets)
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        torch.nn.utils.clip_grad_norm_(self.critic_local.parameters(), 1.0)
        self.critic_optimizer.step()

        actions_pred = self.actor_local(states)
        actor_loss = -self.critic_local(states, actions_pred).mean()
        self.actor_optimizer.zero_grad()
        actor_loss.backward()
        self.actor_optimizer.step()

        self.soft_update(self.critic_local, self.critic_target)
        self.soft_update(self.actor_local, self.actor_target)

    def soft_update(self, local_model, target_model):
        tau = self.cfg["tau"]
        for target_param, local_param in zip(target_model.parameters(), local_model.parameters()):
            target_param.data.copy_(tau * local_param.data + (1.0 - tau) * target_param.data)

    def save(self, path):
        torch.save({"actor": self.actor_local.state_dict(), "critic": self.critic_local.state_dict()}, path)


def test(agent, env_name, n_episodes=5):
    env = gym.make(env_name)
    scores = []
    for i in range(n_episodes):
        state, _ = env.reset(seed=500 + i)
        score = 0.0
        while True:
            state, reward, terminated, truncated, _ = env.step(agent.act(state, add_noise=False))
            score += reward
            if terminated or truncated:
                break
        scores.append(score)
    env.close()
    return np.mean(scores)


def main(env_name="Pendulum-v1"):
    random.seed(CONFIG["seed"])
    np.random.seed(CONFIG["seed"])
    torch.manual_seed(CONFIG["seed"])
    env = gym.make(env_name)
    agent = DDPGAgent(env.observation_space.shape[0], env.action_space.shape[0], float(env.action_space.high[0]), CONFIG)

    window = deque(maxlen=20)
    for episode in range(1, CONFIG["episodes"] + 1):
        state, _ = env.reset(seed=CONFIG["seed"] if episode == 1 else None)
        agent.noise.reset()
        score = 0.0
        while True:
            action = agent.act(state)
            next_state, reward, terminated, truncated, _ = env.step(action)
            agent.step(state, action, reward, next_state, terminated)
            state = next_state
            score += reward
            if terminated or truncated:
                break
        window.append(score)
        if episode % 10 == 0:
            print(f"Episode {episode}\tAverage {np.mean(window):.1f}\tTest {test(agent, env_name):.1f}")
    agent.save("ddpg.pth")
    env.close()


if __name__ == "__main__":
    main()
