"""Dyna-Q on Sutton's maze, as an exercise with our own environment class."""
import os
import random

import gymnasium as gym
from gymnasium import spaces

MAZE = ["S......X.", "..X....X.", "..X....X.", "..X......", ".....X..G", "........."]


class Maze(gym.Env):
    def __init__(self):
        self.cells = [[c for c in row] for row in MAZE]
        self.h, self.w = len(self.cells), len(self.cells[0])
        self.observation_space = spaces.Discrete(self.h * self.w)
        self.action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.r, self.c = 0, 0
        return self.r * self.w + self.c, {}

    def step(self, action):
        dr, dc = [(-1, 0), (0, 1), (1, 0), (0, -1)][action]
        r, c = self.r + dr, self.c + dc
        if 0 <= r < self.h and 0 <= c < self.w and self.cells[r][c] != "X":
            self.r, self.c = r, c
        goal = self.cells[self.r][self.c] == "G"
        return self.r * self.w + self.c, float(goal), goal, False, {}


class DynaQ:
    def __init__(self, n_s, n_a, alpha=0.1, gamma=0.95, eps=0.1, planning=20, seed=0):
        self.Q = [[0.0] * n_a for _ in range(n_s)]
        self.model = {}
        self.alpha, self.gamma, self.eps, self.planning = alpha, gamma, eps, planning
        self.rng = random.Random(seed)

    def pick(self, s, greedy=False):
        row = self.Q[s]
        if not greedy and self.rng.random() < self.eps:
            return self.rng.randrange(len(row))
        best = max(row)
        return self.rng.choice([a for a, v in enumerate(row) if v == best])

    def _backup(self, s, a, r, s2, end):
        future = 0.0 if end else max(self.Q[s2])
        self.Q[s][a] += self.alpha * (r + self.gamma * future - self.Q[s][a])

    def observe(self, s, a, r, s2, end):
        self._backup(s, a, r, s2, end)
        self.model[s, a] = (r, s2, end)
        for _ in range(self.planning):
            (ps, pa), (pr, ps2, pend) = self.rng.choice(list(self.model.items()))
            self._backup(ps, pa, pr, ps2, pend)


if __name__ == "__main__":
    env = gym.wrappers.TimeLimit(Maze(), max_episode_steps=1_000)
    agent = DynaQ(env.observation_space.n, env.action_space.n)
    for ep in range(int(os.environ.get("EPISODES", 50))):
        s, _ = env.reset(seed=ep)
        n, over = 0, False
        while not over:
            a = agent.pick(s)
            s2, r, terminated, truncated, _ = env.step(a)
            agent.observe(s, a, r, s2, terminated)
            s, n, over = s2, n + 1, terminated or truncated
        print("episode", ep, "steps", n)
