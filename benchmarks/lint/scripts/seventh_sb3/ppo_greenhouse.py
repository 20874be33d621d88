"""Heating a greenhouse with PPO: own environment, normalised vector environments, evaluation with the training statistics."""
import argparse
import os

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CallbackList, CheckpointCallback, EvalCallback
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize


class Greenhouse(gym.Env):
    """Keep the plants warm for a day; heating costs money, frost kills."""

    metadata = {"render_modes": []}

    def __init__(self, minutes_per_step: int = 15):
        super().__init__()
        self.dt = minutes_per_step
        self.action_space = spaces.Box(low=-1.0, high=1.0, shape=(2,), dtype=np.float32)  # heater, window
        self.observation_space = spaces.Box(low=-np.inf, high=np.inf, shape=(4,), dtype=np.float32)

    def _outside(self):
        return 6.0 + 9.0 * np.sin(2 * np.pi * (self.minute / 1440.0 - 0.35)) + self.offset

    def _obs(self):
        phase = 2 * np.pi * self.minute / 1440.0
        return np.array([self.inside / 20.0, self._outside() / 20.0, np.sin(phase), np.cos(phase)], dtype=np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.minute = 0
        self.offset = float(self.np_random.normal(0.0, 3.0))
        self.inside = 16.0 + float(self.np_random.normal(0.0, 1.0))
        return self._obs(), {}

    def step(self, action):
        heat = 0.5 * (float(action[0]) + 1.0)
        window = 0.5 * (float(action[1]) + 1.0)
        leak = 0.03 + 0.25 * window
        self.inside += 1.4 * heat + leak * (self._outside() - self.inside)
        self.minute += self.dt
        comfort = np.exp(-(((self.inside - 19.0) / 4.0) ** 2))
        reward = float(comfort - 0.2 * heat)
        terminated = bool(self.inside < 0.0)
        if terminated:
            reward -= 10.0
        truncated = bool(self.minute >= 1440)
        return self._obs(), reward, terminated, truncated, {"inside": self.inside}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--out", default="greenhouse")
    parser.add_argument("--eval-freq", type=int, default=2_000)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)

    check_env(Greenhouse())

    train_env = make_vec_env(Greenhouse, n_envs=4, seed=0)
    train_env = VecNormalize(train_env, norm_obs=True, norm_reward=True, gamma=0.98)

    eval_env = DummyVecEnv([lambda: Monitor(Greenhouse())])
    eval_env.seed(1234)
    eval_env = VecNormalize(eval_env, training=False, norm_obs=True, norm_reward=False, gamma=0.98)

    model = PPO(
        "MlpPolicy",
        train_env,
        learning_rate=3e-4,
        n_steps=512,
        batch_size=128,
        n_epochs=10,
        gamma=0.98,
        gae_lambda=0.95,
        clip_range=0.2,
        ent_coef=0.003,
        vf_coef=0.5,
        max_grad_norm=0.5,
        policy_kwargs=dict(net_arch=dict(pi=[64, 64], vf=[64, 64])),
        seed=0,
        verbose=0,
        device="cpu",
    )
    callbacks = CallbackList(
        [
            EvalCallback(eval_env, eval_freq=args.eval_freq, n_eval_episodes=5, deterministic=True, best_model_save_path=args.out, verbose=0),
            CheckpointCallback(save_freq=25_000, save_path=args.out, save_vecnormalize=True),
        ]
    )
    model.learn(total_timesteps=args.steps, callback=callbacks)

    model.save(os.path.join(args.out, "last"))
    train_env.save(os.path.join(args.out, "vecnormalize.pkl"))

    # a fresh environment, judged on unscaled rewards
    test_env = make_vec_env(Greenhouse, n_envs=1, seed=77)
    test_env = VecNormalize.load(os.path.join(args.out, "vecnormalize.pkl"), test_env)
    test_env.training = False
    test_env.norm_reward = False
    trained = PPO.load(os.path.join(args.out, "last"), env=test_env, device="cpu")
    mean, std = evaluate_policy(trained, test_env, n_eval_episodes=10, deterministic=True)
    print(f"{mean:.1f} +- {std:.1f}")


if __name__ == "__main__":
    main()
