"""DQN on a small partially seen maze of our own, with SB3. Usage: maze_dqn.py train | maze_dqn.py show"""
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.wrappers import TimeLimit
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

WALLS = """
#########
#...#...#
#.#.#.#.#
#.#...#.#
#.#####.#
#.......#
#########
""".strip().splitlines()
MOVES = [(-1, 0), (0, 1), (1, 0), (0, -1)]
TOTAL_STEPS = 200_000


class Maze(gym.Env):
    def __init__(self):
        self.free = [(r, c) for r, row in enumerate(WALLS) for c, cell in enumerate(row) if cell == "."]
        self.observation_space = gym.spaces.Box(0.0, 1.0, (9 + 4,), np.float32)
        self.action_space = gym.spaces.Discrete(4)

    def _look(self):
        r, c = self.at
        seen = [float(WALLS[r + i][c + j] == "#") for i in (-1, 0, 1) for j in (-1, 0, 1)]
        place = [r / 8, c / 8, self.goal[0] / 8, self.goal[1] / 8]
        return np.array(seen + place, np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        first, second = self.np_random.choice(len(self.free), 2, replace=False)
        self.at, self.goal = self.free[first], self.free[second]
        return self._look(), {}

    def step(self, action):
        r, c = self.at
        dr, dc = MOVES[int(action)]
        if WALLS[r + dr][c + dc] != "#":
            self.at = (r + dr, c + dc)
        terminated = self.at == self.goal
        return self._look(), 1.0 if terminated else -0.01, terminated, False, {}


class EpsilonPrinter(BaseCallback):
    def _on_step(self) -> bool:
        if self.n_calls % 20_000 == 0:
            print(self.num_timesteps, "epsilon", round(self.model.exploration_rate, 3))
        return True


def build(seed: int) -> gym.Env[Any, Any]:
    env = Monitor(TimeLimit(Maze(), 100))
    env.reset(seed=seed)
    return env


def train():
    env, eval_env = build(1), build(2)
    model = DQN(
        "MlpPolicy",
        env,
        learning_rate=5e-4,
        buffer_size=50_000,
        learning_starts=2_000,
        batch_size=64,
        gamma=0.97,
        target_update_interval=1_000,
        train_freq=4,
        exploration_fraction=0.2,
        exploration_initial_eps=1.0,
        exploration_final_eps=0.05,
        policy_kwargs={"net_arch": [128, 128], "activation_fn": torch.nn.ReLU},
        seed=1,
    )
    watch = EvalCallback(eval_env, best_model_save_path="maze", eval_freq=5_000, n_eval_episodes=30)
    model.learn(TOTAL_STEPS, callback=[watch, EpsilonPrinter()])


def show():
    env = build(3)
    model = DQN.load("maze/best_model", env=env)
    mean, std = evaluate_policy(model, env, n_eval_episodes=100, deterministic=True)
    print(f"return {mean:.2f} +- {std:.2f}")


if __name__ == "__main__":
    train() if sys.argv[1:] == ["train"] else show()
