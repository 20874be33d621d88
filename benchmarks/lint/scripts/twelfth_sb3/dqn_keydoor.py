# DQN (stable-baselines3) on a home-made grid: fetch the key, open the door, mind the pits.
# The grid gets larger in three stages; the same model goes on learning from one stage to the next.
from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, CheckpointCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

SIZE = 7
MOVES = [(-1, 0), (0, 1), (1, 0), (0, -1)]
STAGES = [(4, 40_000), (5, 60_000), (7, 100_000)]  # side that is used, steps


@dataclass
class Cells:
    me: tuple[int, int]
    key: tuple[int, int]
    door: tuple[int, int]
    pits: list[tuple[int, int]]


class KeyDoor(gym.Env):
    def __init__(self, side: int = SIZE, limit: int = 80, n_pits: int = 2):
        self.side = side
        self.limit = limit
        self.n_pits = n_pits
        self.has_key = False
        # planes: me, key (empty once it is taken), door, pits, wall; flat, with one more number for the key in hand
        self.observation_space = spaces.Box(0.0, 1.0, (5 * SIZE * SIZE + 1,), np.float32)
        self.action_space = spaces.Discrete(len(MOVES))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        cells = self.np_random.permutation(self.side * self.side)[: 3 + self.n_pits]
        me, key, door, *pits = [(int(c) // self.side, int(c) % self.side) for c in cells]
        self.cells = Cells(me, key, door, pits)
        self.has_key = False
        self.t = 0
        return self._planes(), {}

    def _planes(self):
        planes = np.zeros((5, SIZE, SIZE), dtype=np.float32)
        planes[0][self.cells.me] = 1.0
        if not self.has_key:
            planes[1][self.cells.key] = 1.0
        planes[2][self.cells.door] = 1.0
        for pit in self.cells.pits:
            planes[3][pit] = 1.0
        planes[4, self.side :, :] = 1.0
        planes[4, :, self.side :] = 1.0
        return np.append(planes.ravel(), np.float32(self.has_key))

    def step(self, action):
        self.t += 1
        row, col = self.cells.me
        d_row, d_col = MOVES[int(action)]
        row = min(max(row + d_row, 0), self.side - 1)
        col = min(max(col + d_col, 0), self.side - 1)
        self.cells.me = (row, col)

        reward = -0.01
        terminated = False
        if self.cells.me in self.cells.pits:
            reward, terminated = -1.0, True
        elif self.cells.me == self.cells.key and not self.has_key:
            self.has_key = True
            reward = 0.3
        elif self.cells.me == self.cells.door and self.has_key:
            reward, terminated = 1.0, True

        truncated = not terminated and self.t >= self.limit
        return self._planes(), reward, terminated, truncated, {"is_success": terminated and reward > 0}


class GridExtractor(BaseFeaturesExtractor):
    """Convolutions over the planes; the bit for the key is appended behind them."""

    def __init__(self, observation_space, features_dim: int = 128):
        super().__init__(observation_space, features_dim)
        self.conv = th.nn.Sequential(
            th.nn.Conv2d(5, 16, 3, padding=1),
            th.nn.ReLU(),
            th.nn.Conv2d(16, 16, 3, padding=1),
            th.nn.ReLU(),
            th.nn.Flatten(),
        )
        self.head = th.nn.Sequential(th.nn.Linear(16 * SIZE * SIZE + 1, features_dim), th.nn.ReLU())

    def forward(self, observations):
        planes = observations[:, :-1].reshape(-1, 5, SIZE, SIZE)
        return self.head(th.cat([self.conv(planes), observations[:, -1:]], dim=1))


class SuccessRate(BaseCallback):
    def __init__(self, window: int = 100):
        super().__init__()
        self.window = window
        self.results: list[bool] = []

    def _on_step(self) -> bool:
        for info, done in zip(self.locals["infos"], self.locals["dones"]):
            if done:
                self.results.append(bool(info["is_success"]))
                if len(self.results) % self.window == 0:
                    rate = np.mean(self.results[-self.window :])
                    print(f"{self.num_timesteps} steps, {len(self.results)} episodes, success {rate:.2f}, eps {self.model.exploration_rate:.2f}")
        return True


def make_env(side: int, seed: int):
    env = Monitor(KeyDoor(side), info_keywords=("is_success",))
    env.reset(seed=seed)
    return env


def main(seed: int = 0):
    model = DQN(
        "MlpPolicy",
        make_env(STAGES[0][0], seed),
        learning_rate=5e-4,
        buffer_size=100_000,
        learning_starts=2_000,
        batch_size=64,
        gamma=0.97,
        train_freq=4,
        gradient_steps=1,
        target_update_interval=1_000,
        exploration_fraction=0.6,
        exploration_initial_eps=1.0,
        exploration_final_eps=0.05,
        policy_kwargs=dict(features_extractor_class=GridExtractor, net_arch=[128]),
        seed=seed,
    )

    callbacks = CallbackList([SuccessRate(), CheckpointCallback(50_000, "keydoor", name_prefix="stage")])
    for number, (side, steps) in enumerate(STAGES):
        if number > 0:
            model.set_env(make_env(side, seed + number))
        # the count of steps goes on, so that a later and larger stage begins with a smaller epsilon
        model.learn(total_timesteps=steps, callback=callbacks, reset_num_timesteps=number == 0, progress_bar=False)

        test_env = make_env(side, seed + 100 + number)
        mean, std = evaluate_policy(model, test_env, n_eval_episodes=50, deterministic=True)
        print(f"stage {number} (side {side}): {mean:.2f} +- {std:.2f}")

    model.save("keydoor/final")


if __name__ == "__main__":
    main()
