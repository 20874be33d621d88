"""Two tabular agents behind one interface, on FrozenLake: run `python tabular_agents.py sarsa` or `... qlearning`."""
import sys
from abc import ABC, abstractmethod
from collections import defaultdict

import gymnasium as gym
import numpy as np


class TabularAgent(ABC):
    def __init__(self, n_actions, learning_rate=0.1, discount_factor=0.98, epsilon=1.0, epsilon_decay=0.9995, min_epsilon=0.02, seed=0):
        self.n_actions = n_actions
        self.learning_rate = learning_rate
        self.discount_factor = discount_factor
        self.epsilon = epsilon
        self.epsilon_decay = epsilon_decay
        self.min_epsilon = min_epsilon
        self.rng = np.random.default_rng(seed)
        self.q_values = defaultdict(lambda: np.zeros(n_actions))

    def greedy(self, obs):
        row = self.q_values[obs]
        return int(self.rng.choice(np.flatnonzero(row == row.max())))

    def act(self, obs):
        if self.rng.random() < self.epsilon:
            return int(self.rng.integers(self.n_actions))
        return self.greedy(obs)

    def end_episode(self):
        self.epsilon = max(self.min_epsilon, self.epsilon * self.epsilon_decay)

    def _move(self, obs, action, target):
        error = target - self.q_values[obs][action]
        self.q_values[obs][action] += self.learning_rate * error
        return error

    @abstractmethod
    def update(self, obs, action, reward, terminated, next_obs, next_action): ...


class QLearning(TabularAgent):
    def update(self, obs, action, reward, terminated, next_obs, next_action):
        future = (not terminated) * np.max(self.q_values[next_obs])
        return self._move(obs, action, reward + self.discount_factor * future)


class Sarsa(TabularAgent):
    def update(self, obs, action, reward, terminated, next_obs, next_action):
        future = 0.0
        if not terminated:
            future = self.q_values[next_obs][next_action]
        return self._move(obs, action, reward + self.discount_factor * future)


class Trainer:
    def __init__(self, agent, env, test_env):
        self.agent, self.env, self.test_env = agent, env, test_env
        self.returns = []

    def run_episode(self, seed=None):
        obs, _ = self.env.reset(seed=seed)
        action = self.agent.act(obs)
        total, over = 0.0, False
        while not over:
            next_obs, reward, terminated, truncated, _ = self.env.step(action)
            next_action = self.agent.act(next_obs)
            self.agent.update(obs, action, reward, terminated, next_obs, next_action)
            obs, action = next_obs, next_action
            total += reward
            over = terminated or truncated
        self.agent.end_episode()
        self.returns.append(total)

    def test(self, n=200):
        won = 0.0
        for k in range(n):
            obs, _ = self.test_env.reset(seed=50_000 + k)
            over = False
            while not over:
                obs, reward, terminated, truncated, _ = self.test_env.step(self.agent.greedy(obs))
                won += reward
                over = terminated or truncated
        return won / n


if __name__ == "__main__":
    kind = {"sarsa": Sarsa, "qlearning": QLearning}[sys.argv[1] if len(sys.argv) > 1 else "qlearning"]
    env, test_env = gym.make("FrozenLake-v1", is_slippery=True), gym.make("FrozenLake-v1", is_slippery=True)
    trainer = Trainer(kind(env.action_space.n), env, test_env)
    for episode in range(12_000):
        trainer.run_episode(seed=0 if episode == 0 else None)
        if (episode + 1) % 3_000 == 0:
            print(episode + 1, f"train {np.mean(trainer.returns[-500:]):.3f}  greedy {trainer.test():.3f}  epsilon {trainer.agent.epsilon:.3f}")
