"""
Train PPO (stable-baselines3) to order stock for a small shop.

The shop has two goods. Each day it sells what is asked for, pays for what lies around, and may order more of either,
which comes two days later. Observations and rewards are normalised by VecNormalize while training; the test environment
uses the same statistics without changing them and reports money as it is.
"""
import argparse
import os

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize, sync_envs_normalization

PRICE = np.array([4.0, 7.0])
COST = np.array([2.0, 4.0])
HOLDING = np.array([0.1, 0.15])
DEMAND = np.array([5.0, 3.0])
CAPACITY = 40
ORDER_SIZES = [0, 2, 4, 8]


class ShopEnv(gym.Env):
    """There is no end to it: an episode is cut after `horizon` days, and the days left are nothing the agent can see."""

    metadata = {"render_modes": []}

    def __init__(self, horizon=100):
        super().__init__()
        self.horizon = horizon
        self.day = 0
        # stock, the orders for tomorrow and for the day after, weekday as an angle
        self.observation_space = spaces.Box(-1.0, np.inf, shape=(8,), dtype=np.float32)
        self.action_space = spaces.MultiDiscrete([len(ORDER_SIZES), len(ORDER_SIZES)])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stock = self.np_random.integers(5, 15, size=2).astype(float)
        self.pipeline = np.zeros((2, 2))
        self.day = 0
        self.weekday = int(self.np_random.integers(7))
        return self._obs(), {}

    def _obs(self):
        angle = 2 * np.pi * self.weekday / 7
        return np.concatenate([self.stock, self.pipeline.ravel(), [np.sin(angle), np.cos(angle)]]).astype(np.float32)

    def step(self, action):
        order = np.array([ORDER_SIZES[a] for a in action], dtype=float)

        # what was ordered the day before yesterday comes in, the rest moves up
        self.stock = np.minimum(self.stock + self.pipeline[0], CAPACITY)
        self.pipeline = np.stack([self.pipeline[1], order])

        rate = DEMAND * (1.5 if self.weekday in (4, 5) else 1.0)
        demand = self.np_random.poisson(rate)
        sold = np.minimum(self.stock, demand)
        self.stock = self.stock - sold

        reward = float((PRICE * sold).sum() - (COST * order).sum() - (HOLDING * self.stock).sum())

        self.day += 1
        self.weekday = (self.weekday + 1) % 7
        terminated = False
        truncated = self.day >= self.horizon
        return self._obs(), reward, terminated, truncated, {"sold": sold}


def make_env(rank, seed):
    def _init():
        env = Monitor(ShopEnv())
        env.reset(seed=seed + rank)
        env.action_space.seed(seed + rank)
        return env

    return _init


class TestAndKeepBest(BaseCallback):
    """Every `every` steps: test with frozen statistics; keep the best policy together with them."""

    def __init__(self, test_env, every, folder, episodes=5):
        super().__init__()
        self.test_env = test_env
        self.every = every
        self.folder = folder
        self.episodes = episodes
        self.best = -np.inf
        self.next_test = every

    def _on_step(self):
        if self.num_timesteps >= self.next_test:
            self.next_test += self.every
            sync_envs_normalization(self.training_env, self.test_env)
            mean, std = evaluate_policy(self.model, self.test_env, n_eval_episodes=self.episodes, deterministic=True)
            print(f"{self.num_timesteps:8d} steps: {mean:9.2f} +- {std:.2f}")
            if mean > self.best:
                self.best = mean
                self.model.save(os.path.join(self.folder, "best"))
                self.training_env.save(os.path.join(self.folder, "best_stats.pkl"))
        return True


def linear(start):
    """SB3 hands over what is left of the run: 1 at the beginning, 0 at the end."""

    def schedule(progress_remaining):
        return start * progress_remaining

    return schedule


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400_000)
    parser.add_argument("--n-envs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--folder", default="shop_model")
    parser.add_argument("--every", type=int, default=20_000)
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)

    venv = DummyVecEnv([make_env(i, args.seed) for i in range(args.n_envs)])
    venv = VecNormalize(venv, norm_obs=True, norm_reward=True, clip_obs=10.0, gamma=0.98)

    test_venv = DummyVecEnv([make_env(0, args.seed + 1000)])
    test_venv = VecNormalize(test_venv, norm_obs=True, norm_reward=False, clip_obs=10.0, gamma=0.98, training=False)

    model = PPO(
        "MlpPolicy",
        venv,
        learning_rate=linear(3e-4),
        n_steps=512,
        batch_size=256,
        n_epochs=10,
        gamma=0.98,
        gae_lambda=0.95,
        clip_range=0.2,
        ent_coef=0.005,
        policy_kwargs=dict(net_arch=[64, 64]),
        seed=args.seed,
        verbose=0,
    )
    model.learn(total_timesteps=args.steps, callback=TestAndKeepBest(test_venv, args.every, args.folder))

    # the best one again, in a fresh environment, with the statistics it was trained with
    final = DummyVecEnv([make_env(0, args.seed + 2000)])
    final = VecNormalize.load(os.path.join(args.folder, "best_stats.pkl"), final)
    final.training = False
    final.norm_reward = False
    best = PPO.load(os.path.join(args.folder, "best"), env=final)
    mean, std = evaluate_policy(best, final, n_eval_episodes=10, deterministic=True)
    print(f"best policy: {mean:.2f} +- {std:.2f} per {ShopEnv().horizon} days")


if __name__ == "__main__":
    main()
