"""dm_env style: each time step carries its own discount (0 at a terminal state, 1 elsewhere), so that no 'done' appears in the learning code."""
import os
from dataclasses import dataclass

import numpy as np


@dataclass
class TimeStep:
    first: bool
    last: bool
    reward: float
    discount: float
    observation: int


class RiverSwim:
    """Six cells; swimming right is hard. Nothing is terminal: after 60 steps the clock stops with discount 1."""

    def __init__(self, n=6, horizon=60, seed=0):
        self.n, self.horizon = n, horizon
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.state, self.clock = 0, 0
        return TimeStep(True, False, 0.0, 1.0, self.state)

    def step(self, action):
        reward = 0.0
        if action == 0:
            if self.state == 0:
                reward = 0.005
            self.state = max(0, self.state - 1)
        else:
            if self.state == self.n - 1:
                reward = 1.0
            move = self.rng.choice([-1, 0, 1], p=[0.05, 0.55, 0.4])
            self.state = int(np.clip(self.state + move, 0, self.n - 1))
        self.clock += 1
        return TimeStep(False, self.clock >= self.horizon, reward, 1.0, self.state)


class ExpectedSarsa:
    def __init__(self, n_states, n_actions, step_size=0.1, gamma=0.95, epsilon=0.2, optimism=20.0, seed=1):
        self.q = np.full((n_states, n_actions), optimism)  # optimistic start: it explores by being disappointed
        self.step_size, self.gamma, self.epsilon = step_size, gamma, epsilon
        self.rng = np.random.default_rng(seed)

    def probabilities(self, s):
        p = np.full(self.q.shape[1], self.epsilon / self.q.shape[1])
        best = np.flatnonzero(self.q[s] == self.q[s].max())
        p[best] += (1 - self.epsilon) / len(best)
        return p

    def act(self, s):
        return int(self.rng.choice(self.q.shape[1], p=self.probabilities(s)))

    def observe(self, s, a, step: TimeStep):
        expected = self.probabilities(step.observation) @ self.q[step.observation]
        self.q[s, a] += self.step_size * (step.reward + self.gamma * step.discount * expected - self.q[s, a])


env, agent = RiverSwim(), ExpectedSarsa(6, 2)
for episode in range(int(os.environ.get("EPISODES", 500))):
    step, total = env.reset(), 0.0
    while not step.last:
        state = step.observation
        action = agent.act(state)
        step = env.step(action)
        agent.observe(state, action, step)
        total += step.reward
    if episode % 50 == 0:
        print(episode, round(total, 3))
print(agent.q.round(2))
