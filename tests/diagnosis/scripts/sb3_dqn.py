"""Stable-Baselines3 on one plain environment, trained in several calls, then watched."""

# ruff: noqa: RUF059 — as users write it

import gymnasium as gym
from stable_baselines3 import DQN
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv


def make(rank):
    def build():
        env = Monitor(gym.make("CartPole-v1"))
        env.reset(seed=rank)
        return env

    return build


def main():
    venv = DummyVecEnv([make(rank) for rank in range(2)])
    model = DQN("MlpPolicy", venv, learning_rate=2.3e-3, buffer_size=100_000, learning_starts=1_000, seed=0)
    for part in range(5):
        model.learn(10_000, reset_num_timesteps=False)
        model.save(f"dqn_{part}")
    env = gym.make("CartPole-v1", render_mode="human")
    obs, _ = env.reset(seed=5)
    while True:
        action, _ = model.predict(obs, deterministic=True)
        obs, reward, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            break


if __name__ == "__main__":
    main()
