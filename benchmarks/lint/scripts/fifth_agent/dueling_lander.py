"""Dueling double DQN for LunarLander."""
import argparse
import random
from collections import deque, namedtuple

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

BUFFER_SIZE = 100_000
BATCH_SIZE = 64
GAMMA = 0.99
TAU = 1e-3
LR = 5e-4
UPDATE_EVERY = 4

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class DuelingNet(nn.Module):
    def __init__(self, state_size, action_size, hidden=64):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(state_size, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.value = nn.Linear(hidden, 1)
        self.advantage = nn.Linear(hidden, action_size)

    def forward(self, state):
        x = self.features(state)
        adv = self.advantage(x)
        return self.value(x) + adv - adv.mean(dim=1, keepdim=True)


class ReplayBuffer:
    def __init__(self, buffer_size, batch_size, seed):
        self.memory = deque(maxlen=buffer_size)
        self.batch_size = batch_size
        self.experience = namedtuple("Experience", ["state", "action", "reward", "next_state", "done"])
        self.rng = random.Random(seed)

    def add(self, state, action, reward, next_state, done):
        self.memory.append(self.experience(state, action, reward, next_state, done))

    def sample(self):
        experiences = self.rng.sample(self.memory, k=self.batch_size)
        states = torch.from_numpy(np.vstack([e.state for e in experiences])).float().to(device)
        actions = torch.from_numpy(np.vstack([e.action for e in experiences])).long().to(device)
        rewards = torch.from_numpy(np.vstack([e.reward for e in experiences])).float().to(device)
        next_states = torch.from_numpy(np.vstack([e.next_state for e in experiences])).float().to(device)
        dones = torch.from_numpy(np.vstack([e.done for e in experiences]).astype(np.uint8)).float().to(device)
        return states, actions, rewards, next_states, dones

    def __len__(self):
        return len(self.memory)


class Agent:
    def __init__(self, state_size, action_size, seed):
        self.action_size = action_size
        self.rng = random.Random(seed)
        self.qnetwork_local = DuelingNet(state_size, action_size).to(device)
        self.qnetwork_target = DuelingNet(state_size, action_size).to(device)
        self.qnetwork_target.load_state_dict(self.qnetwork_local.state_dict())
        self.qnetwork_target.eval()
        self.optimizer = optim.Adam(self.qnetwork_local.parameters(), lr=LR)
        self.memory = ReplayBuffer(BUFFER_SIZE, BATCH_SIZE, seed)
        self.t_step = 0

    def remember(self, state, action, reward, next_state, done):
        self.memory.add(state, action, reward, next_state, done)
        self.t_step = (self.t_step + 1) % UPDATE_EVERY
        if self.t_step == 0 and len(self.memory) > BATCH_SIZE:
            self.learn(self.memory.sample())

    def act(self, state, eps=0.0):
        if self.rng.random() < eps:
            return self.rng.randrange(self.action_size)
        state = torch.from_numpy(state).float().unsqueeze(0).to(device)
        self.qnetwork_local.eval()
        with torch.no_grad():
            action_values = self.qnetwork_local(state)
        self.qnetwork_local.train()
        return int(action_values.argmax(dim=1).item())

    def learn(self, experiences):
        states, actions, rewards, next_states, dones = experiences

        with torch.no_grad():
            next_actions = self.qnetwork_local(next_states).argmax(dim=1, keepdim=True)
            q_targets_next = self.qnetwork_target(next_states).gather(1, next_actions)
            q_targets = rewards + GAMMA * q_targets_next * (1 - dones)

        q_expected = self.qnetwork_local(states).gather(1, actions)
        loss = F.mse_loss(q_expected, q_targets)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(self.qnetwork_local.parameters(), 100)
        self.optimizer.step()

        self.soft_update(self.qnetwork_local, self.qnetwork_target, TAU)

    def soft_update(self, local_model, target_model, tau):
        for target_param, local_param in zip(target_model.parameters(), local_model.parameters()):
            target_param.data.copy_(tau * local_param.data + (1.0 - tau) * target_param.data)

    def save(self, path):
        torch.save(self.qnetwork_local.state_dict(), path)


def train(agent, env, n_episodes, max_t=1000, eps_start=1.0, eps_end=0.01, eps_decay=0.995, seed=0):
    scores = []
    scores_window = deque(maxlen=100)
    eps = eps_start
    for i_episode in range(1, n_episodes + 1):
        state, _ = env.reset(seed=seed if i_episode == 1 else None)
        score = 0
        for _ in range(max_t):
            action = agent.act(state, eps)
            next_state, reward, terminated, truncated, _ = env.step(action)
            agent.remember(state, action, reward, next_state, terminated)
            state = next_state
            score += reward
            if terminated or truncated:
                break
        scores_window.append(score)
        scores.append(score)
        eps = max(eps_end, eps_decay * eps)
        if i_episode % 100 == 0:
            print(f"Episode {i_episode}\tAverage Score: {np.mean(scores_window):.2f}\teps {eps:.3f}")
        if len(scores_window) == 100 and np.mean(scores_window) >= 200.0:
            print(f"Solved in {i_episode} episodes")
            agent.save("checkpoint.pth")
            break
    return scores


def watch(agent, env_name, episodes=3):
    env = gym.make(env_name)
    results = []
    for k in range(episodes):
        state, _ = env.reset(seed=400 + k)
        total, over = 0.0, False
        while not over:
            state, reward, terminated, truncated, _ = env.step(agent.act(state))
            total += reward
            over = terminated or truncated
        results.append(total)
    env.close()
    return np.mean(results)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--env", default="LunarLander-v3")
    ap.add_argument("--episodes", type=int, default=1500)
    ap.add_argument("--seed", type=int, default=0)
    opt = ap.parse_args()
    torch.manual_seed(opt.seed)
    env = gym.make(opt.env)
    agent = Agent(env.observation_space.shape[0], int(env.action_space.n), opt.seed)
    train(agent, env, opt.episodes, seed=opt.seed)
    env.close()
    print("greedy score", watch(agent, opt.env))
