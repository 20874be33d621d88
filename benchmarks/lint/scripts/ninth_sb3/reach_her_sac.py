"""SAC with hindsight experience replay on a point mass that must come to a goal; the reward is sparse."""

from __future__ import annotations

import os
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import SAC, HerReplayBuffer
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.monitor import Monitor

BUDGET = int(os.environ.get("BUDGET", 60_000))


class PointReach(gym.Env):
    """A point with inertia on a square table. 0 within `tolerance` of the goal, else -1."""

    def __init__(self, tolerance: float = 0.08, max_steps: int = 60) -> None:
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        goal_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = spaces.Dict(
            observation=spaces.Box(-2.0, 2.0, (4,), np.float32),
            achieved_goal=goal_space,
            desired_goal=goal_space,
        )
        self.position = np.zeros(2, np.float32)
        self.velocity = np.zeros(2, np.float32)
        self.goal = np.zeros(2, np.float32)
        self.steps = 0

    def _get_obs(self) -> dict[str, np.ndarray]:
        return {
            "observation": np.concatenate([self.position, self.velocity]),
            "achieved_goal": self.position.copy(),
            "desired_goal": self.goal.copy(),
        }

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        # called with one goal by step, and with a batch of them by the replay buffer
        distance = np.linalg.norm(achieved_goal - desired_goal, axis=-1)
        return -(distance > self.tolerance).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        self.position = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        self.velocity = np.zeros(2, np.float32)
        self.goal = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        self.steps = 0
        return self._get_obs(), {}

    def step(self, action: np.ndarray):
        push = np.clip(action, -1.0, 1.0)
        self.velocity = (0.8 * self.velocity + 0.05 * push).astype(np.float32)
        self.position = np.clip(self.position + self.velocity, -1.0, 1.0).astype(np.float32)
        self.steps += 1
        obs = self._get_obs()
        reward = float(self.compute_reward(obs["achieved_goal"], obs["desired_goal"], {}))
        # the task goes on at the goal, where the point is to stay: nothing here is terminal
        terminated = False
        truncated = self.steps >= self.max_steps
        return obs, reward, terminated, truncated, {"is_success": reward == 0.0}


def success_rate(model: SAC, episodes: int = 20) -> float:
    env = PointReach()
    successes = 0
    for episode in range(episodes):
        obs, _ = env.reset(seed=50_000 + episode)
        over = False
        while not over:
            action, _ = model.predict(obs, deterministic=True)
            obs, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        successes += int(info["is_success"])
    return successes / episodes


def main() -> None:
    check_env(PointReach())
    env = Monitor(PointReach(), info_keywords=("is_success",))
    model = SAC(
        "MultiInputPolicy",
        env,
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={"n_sampled_goal": 4, "goal_selection_strategy": "future"},
        learning_rate=1e-3,
        buffer_size=200_000,
        learning_starts=1_000,
        batch_size=256,
        tau=0.02,
        gamma=0.95,
        ent_coef="auto",
        policy_kwargs={"net_arch": [128, 128]},
        seed=11,
    )
    print(f"before: {success_rate(model):.0%}")
    model.learn(BUDGET, log_interval=50)
    print(f"after {BUDGET} steps: {success_rate(model):.0%}")
    model.save("reach_her_sac")


if __name__ == "__main__":
    main()
