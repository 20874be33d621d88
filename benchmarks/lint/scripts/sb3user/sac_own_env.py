# SAC on a home-made heating control env. Checks the env, trains, evaluates, resumes from disk.
import os
from typing import Optional

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from stable_baselines3 import SAC
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

STEPS = int(os.environ.get("STEPS", 30_000))


class HeatingEnv(gym.Env):
    """Keep a room at 21 C. Action in [-1, 1] is scaled to 0..3 kW of heating power."""

    metadata = {"render_modes": []}

    def __init__(self, outside_mean: float = 5.0):
        super().__init__()
        self.outside_mean = outside_mean
        self.action_space = spaces.Box(low=-1.0, high=1.0, shape=(1,), dtype=np.float32)
        self.observation_space = spaces.Box(low=-np.inf, high=np.inf, shape=(3,), dtype=np.float32)
        self.room = 0.0
        self.outside = 0.0
        self.last_power = 0.0

    def _obs(self):
        return np.array(
            [(self.room - 21.0) / 5.0, (self.outside - 5.0) / 10.0, self.last_power / 3.0], dtype=np.float32
        )

    def reset(self, *, seed: Optional[int] = None, options: Optional[dict] = None):
        super().reset(seed=seed)
        self.room = float(self.np_random.uniform(14.0, 26.0))
        self.outside = self.outside_mean + float(self.np_random.normal(0.0, 4.0))
        self.last_power = 0.0
        return self._obs(), {}

    def step(self, action):
        power = 1.5 * (float(np.clip(action[0], -1.0, 1.0)) + 1.0)
        self.room += 0.1 * (self.outside - self.room) * 0.5 + 0.6 * power
        self.outside += float(self.np_random.normal(0.0, 0.1))
        self.last_power = power
        comfort = -abs(self.room - 21.0)
        cost = -0.05 * power
        terminated = bool(self.room < -5.0 or self.room > 45.0)
        reward = comfort + cost
        if terminated:
            reward -= 100.0
        return self._obs(), float(reward), terminated, False, {"room": self.room}


def make_env(seed: int):
    env = HeatingEnv()
    env = TimeLimit(env, max_episode_steps=200)
    env = Monitor(env)
    env.reset(seed=seed)
    env.action_space.seed(seed)
    return env


def rollout(model, env, episodes=3):
    """My own evaluation loop, because I want to see the temperatures."""
    for ep in range(episodes):
        obs, _ = env.reset(seed=300 + ep)
        total, temps, done = 0.0, [], False
        while not done:
            action, _ = model.predict(obs, deterministic=True)
            obs, reward, terminated, truncated, info = env.step(action)
            temps.append(info["room"])
            total += reward
            done = terminated or truncated
        print(f"episode {ep}: return {total:.1f}, mean temp {np.mean(temps):.1f}, end temp {temps[-1]:.1f}")


if __name__ == "__main__":
    check_env(HeatingEnv(), warn=True)

    train_env = make_env(seed=1)
    eval_env = make_env(seed=77)

    model = SAC(
        "MlpPolicy",
        train_env,
        learning_rate=3e-4,
        buffer_size=100_000,
        learning_starts=min(1000, STEPS // 4),
        batch_size=256,
        tau=0.005,
        gamma=0.98,
        train_freq=1,
        gradient_steps=1,
        ent_coef="auto",
        seed=1,
        verbose=0,
    )
    model.learn(total_timesteps=STEPS, log_interval=20)
    model.save("/tmp/heating_sac")
    model.save_replay_buffer("/tmp/heating_sac_buffer")

    mean, std = evaluate_policy(model, eval_env, n_eval_episodes=10, deterministic=True)
    print("eval", round(mean, 2), "+-", round(std, 2))
    rollout(model, eval_env)

    # continue another time from disk
    again = SAC.load("/tmp/heating_sac", env=train_env)
    again.load_replay_buffer("/tmp/heating_sac_buffer")
    again.learn(total_timesteps=STEPS // 2, reset_num_timesteps=False)
    mean, std = evaluate_policy(again, eval_env, n_eval_episodes=10, deterministic=True)
    print("after resume", round(mean, 2), "+-", round(std, 2))
