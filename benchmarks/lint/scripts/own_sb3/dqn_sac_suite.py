"""A small suite: DQN on MountainCar and SAC on Pendulum with an environment of our own."""
import argparse

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise


class Tank(gym.Env):
    """Keep the level of a tank at a set point."""

    def __init__(self, limit: int = 200):
        super().__init__()
        self.action_space = spaces.Box(-1.0, 1.0, shape=(1,), dtype=np.float32)
        self.observation_space = spaces.Box(-np.inf, np.inf, shape=(3,), dtype=np.float32)
        self.limit = limit
        self.level = 0.0
        self.goal = 0.0
        self.steps = 0

    def _obs(self):
        return np.array([self.level, self.goal, self.goal - self.level], dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level = self.np_random.uniform(-1.0, 1.0)
        self.goal = self.np_random.uniform(-1.0, 1.0)
        self.steps = 0
        return self._obs(), {}

    def step(self, action):
        self.level += 0.1 * float(action[0])
        self.steps += 1
        error = abs(self.goal - self.level)
        terminated = error < 0.01
        truncated = self.steps >= self.limit
        return self._obs(), -error, terminated, truncated, {}


class LogReturns(BaseCallback):
    def __init__(self):
        super().__init__()
        self.returns = []

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.returns.append(info["episode"]["r"])
        return True


def train_dqn(seed):
    env = Monitor(gym.make("MountainCar-v0"))
    model = DQN(
        "MlpPolicy", env, learning_rate=4e-3, buffer_size=10_000, learning_starts=1_000, batch_size=128, gamma=0.98,
        train_freq=16, gradient_steps=8, target_update_interval=600, exploration_fraction=0.2, exploration_final_eps=0.07,
        policy_kwargs=dict(net_arch=[256, 256]), seed=seed,
    )
    model.learn(120_000, callback=LogReturns())
    return model


def train_sac(seed):
    env = Monitor(Tank())
    model = SAC(
        "MlpPolicy", env, learning_rate=3e-4, buffer_size=100_000, learning_starts=1_000, batch_size=256, tau=0.005, gamma=0.98,
        train_freq=1, gradient_steps=1, ent_coef="auto", action_noise=NormalActionNoise(np.zeros(1), 0.1 * np.ones(1)), seed=seed,
    )
    model.learn(total_timesteps=50_000)
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for train, make in ((train_dqn, lambda: gym.make("MountainCar-v0")), (train_sac, Tank)):
        model = train(args.seed)
        mean, std = evaluate_policy(model, Monitor(make()), n_eval_episodes=20, deterministic=True)
        print(train.__name__, mean, std)


if __name__ == "__main__":
    main()
