"""A two-joint arm reaches for a point: SAC and TD3 of Stable-Baselines3 on the same task."""
import os
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.noise import NormalActionNoise

STEPS = int(os.environ.get("STEPS", 40_000))
STARTS = int(os.environ.get("STARTS", 1_000))
SEED = 11


class Reach2D(gym.Env):
    links = (0.6, 0.4)

    def __init__(self, max_steps: int = 100):
        self.max_steps = max_steps
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = spaces.Box(-5.0, 5.0, (8,), np.float32)

    def _tip(self) -> np.ndarray:
        a, b = self.q[0], self.q[0] + self.q[1]
        return np.array([self.links[0] * np.cos(a) + self.links[1] * np.cos(b), self.links[0] * np.sin(a) + self.links[1] * np.sin(b)])

    def _obs(self) -> np.ndarray:
        return np.concatenate([np.cos(self.q), np.sin(self.q), self.goal, self.goal - self._tip()]).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.q = self.np_random.uniform(-np.pi, np.pi, size=2)
        angle, radius = self.np_random.uniform(-np.pi, np.pi), self.np_random.uniform(0.3, 0.9)
        self.goal = radius * np.array([np.cos(angle), np.sin(angle)])
        self.steps = 0
        return self._obs(), {}

    def step(self, action):
        self.q = self.q + 0.1 * np.asarray(action, dtype=np.float64)
        self.steps += 1
        distance = float(np.linalg.norm(self._tip() - self.goal))
        reached = distance < 0.05
        reward = -distance - 0.01 * float(np.square(action).sum()) + (10.0 if reached else 0.0)
        return self._obs(), reward, reached, self.steps >= self.max_steps, {"is_success": reached}


class SuccessRate(BaseCallback):
    def __init__(self, window: int = 100):
        super().__init__()
        self.window = window
        self.ends: list[float] = []

    def _on_step(self) -> bool:
        for done, info in zip(self.locals["dones"], self.locals["infos"]):
            if done:
                self.ends.append(float(info["is_success"]))
        if self.ends:
            self.logger.record("rollout/own_success", float(np.mean(self.ends[-self.window :])))
        return True


def train_sac():
    env = make_vec_env(Reach2D, n_envs=1, seed=SEED)
    model = SAC(
        "MlpPolicy",
        env,
        learning_rate=3e-4,
        buffer_size=100_000,
        learning_starts=STARTS,
        batch_size=256,
        tau=0.005,
        gamma=0.98,
        train_freq=1,
        gradient_steps=1,
        ent_coef="auto",
        target_entropy="auto",
        seed=SEED,
    )
    model.set_logger(configure("logs/sac", ["csv"]))
    model.learn(total_timesteps=STEPS // 2, callback=SuccessRate())
    model.save("sac_reach")
    model.save_replay_buffer("sac_reach_buffer")
    env.close()

    # go on where we stopped, as after a night's break
    env = make_vec_env(Reach2D, n_envs=1, seed=SEED + 1)
    model = SAC.load("sac_reach", env=env)
    model.load_replay_buffer("sac_reach_buffer")
    model.learn(total_timesteps=STEPS // 2, callback=SuccessRate(), reset_num_timesteps=False)
    env.close()
    return model


def train_td3():
    env = make_vec_env(Reach2D, n_envs=1, seed=SEED)
    n_actions = env.action_space.shape[-1]
    noise = NormalActionNoise(mean=np.zeros(n_actions), sigma=0.1 * np.ones(n_actions))
    model = TD3(
        "MlpPolicy",
        env,
        action_noise=noise,
        learning_rate=1e-3,
        buffer_size=100_000,
        learning_starts=STARTS,
        batch_size=100,
        gamma=0.98,
        policy_delay=2,
        target_policy_noise=0.2,
        target_noise_clip=0.5,
        seed=SEED,
    )
    model.learn(total_timesteps=STEPS, callback=SuccessRate())
    env.close()
    return model


if __name__ == "__main__":
    for name, train in (("SAC", train_sac), ("TD3", train_td3)):
        model = train()
        test_env = make_vec_env(Reach2D, n_envs=1, seed=SEED + 10_000)
        mean, std = evaluate_policy(model, test_env, n_eval_episodes=10, deterministic=True)
        print(f"{name}: {mean:.2f} +- {std:.2f}")
        test_env.close()
