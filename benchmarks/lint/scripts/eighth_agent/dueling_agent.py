import random
from typing import List, Tuple

import gymnasium as gym
import numpy as np
import torch
from torch import nn


class DuelingNet(nn.Module):
    def __init__(self, state_size: int, action_size: int, hidden: int = 64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(state_size, hidden), nn.ReLU())
        self.value_head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.advantage_head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, action_size))

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        h = self.trunk(state)
        value = self.value_head(h)
        advantage = self.advantage_head(h)
        return value + advantage - advantage.mean(dim=1, keepdim=True)


class Memory:
    """Fixed-size memory; the oldest experience is overwritten."""

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.items: List[Tuple] = []
        self.where = 0

    def remember(self, *experience) -> None:
        if len(self.items) < self.capacity:
            self.items.append(experience)
        else:
            self.items[self.where] = experience
        self.where = (self.where + 1) % self.capacity

    def recall(self, n: int):
        states, actions, rewards, next_states, dones = zip(*random.sample(self.items, n))
        return (
            torch.from_numpy(np.stack(states)).float(),
            torch.tensor(actions, dtype=torch.int64).unsqueeze(1),
            torch.tensor(rewards, dtype=torch.float32).unsqueeze(1),
            torch.from_numpy(np.stack(next_states)).float(),
            torch.tensor(dones, dtype=torch.float32).unsqueeze(1),
        )

    def __len__(self) -> int:
        return len(self.items)


class DuelingAgent:
    def __init__(self, state_size, action_size, *, gamma=0.99, lr=5e-4, batch_size=64, capacity=20_000, learn_every=4,
                 sync_every=400, epsilon=1.0, epsilon_min=0.02, epsilon_decay=0.995):
        self.action_size = action_size
        self.gamma = gamma
        self.batch_size = batch_size
        self.learn_every = learn_every
        self.sync_every = sync_every
        self.epsilon, self.epsilon_min, self.epsilon_decay = epsilon, epsilon_min, epsilon_decay
        self.local = DuelingNet(state_size, action_size)
        self.target = DuelingNet(state_size, action_size)
        self.target.load_state_dict(self.local.state_dict())
        self.optimizer = torch.optim.Adam(self.local.parameters(), lr=lr)
        self.memory = Memory(capacity)
        self.steps = 0

    def act(self, state: np.ndarray, greedy: bool = False) -> int:
        if not greedy and random.random() < self.epsilon:
            return random.randrange(self.action_size)
        with torch.no_grad():
            q = self.local(torch.from_numpy(state).float().unsqueeze(0))
        return int(q.argmax(dim=1).item())

    def step(self, state, action, reward, next_state, terminated) -> None:
        self.memory.remember(state, action, reward, next_state, terminated)
        self.steps += 1
        if self.steps % self.learn_every == 0 and len(self.memory) >= 10 * self.batch_size:
            self.learn()
        if self.steps % self.sync_every == 0:
            self.target.load_state_dict(self.local.state_dict())

    def learn(self) -> None:
        states, actions, rewards, next_states, dones = self.memory.recall(self.batch_size)
        next_actions = self.local(next_states).argmax(dim=1, keepdim=True)
        next_q = self.target(next_states).gather(1, next_actions).detach()
        targets = rewards + self.gamma * next_q * (1.0 - dones)
        predicted = self.local(states).gather(1, actions)
        loss = nn.functional.huber_loss(predicted, targets)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.local.parameters(), 10.0)
        self.optimizer.step()

    def end_episode(self) -> None:
        self.epsilon = max(self.epsilon_min, self.epsilon * self.epsilon_decay)


def run_episode(env, agent, learn=True, seed=None) -> float:
    state, _ = env.reset(seed=seed)
    total, finished = 0.0, False
    while not finished:
        action = agent.act(state, greedy=not learn)
        next_state, reward, terminated, truncated, _ = env.step(action)
        if learn:
            agent.step(state, action, reward, next_state, terminated)
        state = next_state
        total += float(reward)
        finished = terminated or truncated
    if learn:
        agent.end_episode()
    return total


def main(episodes: int = 500) -> None:
    random.seed(7)
    np.random.seed(7)
    torch.manual_seed(7)
    env, test_env = gym.make("CartPole-v1"), gym.make("CartPole-v1")
    agent = DuelingAgent(env.observation_space.shape[0], int(env.action_space.n))
    scores = []
    for episode in range(1, episodes + 1):
        scores.append(run_episode(env, agent, seed=7 if episode == 1 else None))
        if episode % 50 == 0:
            tested = np.mean([run_episode(test_env, agent, learn=False, seed=100 + k) for k in range(5)])
            print(f"{episode:4d}  train {np.mean(scores[-50:]):6.1f}  test {tested:6.1f}  epsilon {agent.epsilon:.2f}")


if __name__ == "__main__":
    import sys

    main(*map(int, sys.argv[1:]))
