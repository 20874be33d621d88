#!/usr/bin/env python3
"""SAC + hindsight replay on a point that must be steered to a goal, then TD3 on a plain version; goals move outwards over time."""
import os
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import SAC, TD3, HerReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise

STEPS = int(os.environ.get("STEPS", 40_000))
RADIUS = 0.05


class PointGoal(gym.Env):
    def __init__(self, reach: float = 0.3, horizon: int = 50) -> None:
        self.reach, self.horizon = reach, horizon
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        point = spaces.Box(-1.5, 1.5, (2,), np.float32)
        self.observation_space = spaces.Dict(
            {
                "observation": spaces.Box(-1.5, 1.5, (4,), np.float32),
                "achieved_goal": point,
                "desired_goal": point,
            }
        )

    def _obs(self) -> dict[str, np.ndarray]:
        return {
            "observation": np.concatenate([self.pos, self.vel]).astype(np.float32),
            "achieved_goal": self.pos.astype(np.float32),
            "desired_goal": self.goal.astype(np.float32),
        }

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.pos = np.zeros(2)
        self.vel = np.zeros(2)
        angle = self.np_random.uniform(0.0, 2.0 * np.pi)
        self.goal = self.reach * np.array([np.cos(angle), np.sin(angle)])
        self.t = 0
        return self._obs(), {}

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        distance = np.linalg.norm(achieved_goal - desired_goal, axis=-1)
        return -(distance > RADIUS).astype(np.float32)

    def step(self, action: np.ndarray):
        self.vel = np.clip(0.8 * self.vel + 0.05 * np.asarray(action, dtype=np.float64), -0.3, 0.3)
        self.pos = np.clip(self.pos + self.vel, -1.5, 1.5)
        self.t += 1
        obs = self._obs()
        reward = float(self.compute_reward(obs["achieved_goal"], obs["desired_goal"], {}))
        # the point may stay at its goal and collect zeros: nothing terminates here
        return obs, reward, False, self.t >= self.horizon, {"is_success": reward == 0.0}


class GrowReach(BaseCallback):
    """Sets goals further away as training goes on."""

    def __init__(self, env: PointGoal, start: float, end: float, total: int) -> None:
        super().__init__()
        self.env, self.start, self.end, self.total = env, start, end, total

    def _on_step(self) -> bool:
        share = min(1.0, self.num_timesteps / (0.5 * self.total))
        self.env.reach = self.start + share * (self.end - self.start)
        return True


def success_rate(model, env: gym.Env, episodes: int = 20) -> float:
    wins = 0
    for k in range(episodes):
        obs, _ = env.reset(seed=2_000 + k)
        over = False
        while not over:
            action, _ = model.predict(obs, deterministic=True)
            obs, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        wins += int(info["is_success"])
    return wins / episodes


def run_her() -> SAC:
    core = PointGoal(reach=0.3)
    env = Monitor(core, info_keywords=("is_success",))
    model = SAC(
        "MultiInputPolicy",
        env,
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs=dict(n_sampled_goal=4, goal_selection_strategy="future"),
        learning_rate=1e-3,
        buffer_size=200_000,
        learning_starts=min(1_000, STEPS // 4),
        batch_size=256,
        tau=0.02,
        gamma=0.95,
        train_freq=2,
        gradient_steps=2,
        ent_coef="auto",
        policy_kwargs=dict(net_arch=[64, 64]),
        seed=1,
        device="cpu",
    )
    model.learn(STEPS, callback=GrowReach(core, 0.3, 1.0, STEPS))
    return model


class Flat(gym.ObservationWrapper):
    """One vector, and a dense reward, for algorithms without goals."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.observation_space = spaces.Box(-3.0, 3.0, (6,), np.float32)

    def observation(self, observation):
        return np.concatenate([observation["observation"], observation["desired_goal"] - observation["achieved_goal"]])

    def step(self, action):
        obs, _, terminated, truncated, info = super().step(action)
        return obs, -float(np.linalg.norm(obs[4:])), terminated, truncated, info


def run_td3() -> TD3:
    env = Monitor(Flat(PointGoal(reach=1.0)))
    n_actions = env.action_space.shape[0]
    noise = NormalActionNoise(mean=np.zeros(n_actions), sigma=0.1 * np.ones(n_actions))
    model = TD3(
        "MlpPolicy",
        env,
        learning_rate=1e-3,
        action_noise=noise,
        buffer_size=100_000,
        learning_starts=min(500, STEPS // 4),
        batch_size=128,
        gamma=0.95,
        tau=0.005,
        policy_delay=2,
        target_policy_noise=0.2,
        target_noise_clip=0.5,
        train_freq=(1, "step"),
        policy_kwargs=dict(net_arch=dict(pi=[64, 64], qf=[64, 64])),
        seed=1,
        device="cpu",
    )
    model.learn(total_timesteps=STEPS)
    return model


if __name__ == "__main__":
    her = run_her()
    print("SAC + HER:", success_rate(her, PointGoal(reach=1.0)))
    td3 = run_td3()
    print("TD3:", success_rate(td3, Flat(PointGoal(reach=1.0))))
