"""Train TD3 on Walker2d, keep the best model, and report how it does on environments it was not trained on."""
import argparse
import os

import gymnasium as gym
import numpy as np
from stable_baselines3 import TD3
from stable_baselines3.common.callbacks import CallbackList, CheckpointCallback, EvalCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv


def make_env(seed):
    def _f():
        env = Monitor(gym.make("Walker2d-v5"))
        env.reset(seed=seed)
        return env

    return _f


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="out/walker_td3")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)

    train_env = DummyVecEnv([make_env(args.seed)])
    eval_env = DummyVecEnv([make_env(args.seed + 100)])

    n_actions = train_env.action_space.shape[0]
    noise = NormalActionNoise(mean=np.zeros(n_actions), sigma=0.1 * np.ones(n_actions))

    model = TD3(
        "MlpPolicy",
        train_env,
        learning_rate=3e-4,
        buffer_size=1_000_000,
        learning_starts=25_000,
        batch_size=256,
        tau=0.005,
        gamma=0.99,
        train_freq=1,
        gradient_steps=1,
        action_noise=noise,
        policy_delay=2,
        policy_kwargs=dict(net_arch=[400, 300]),
        seed=args.seed,
        verbose=1,
    )
    callbacks = CallbackList([
        EvalCallback(eval_env, best_model_save_path=args.out, eval_freq=10_000, n_eval_episodes=10, deterministic=True),
        CheckpointCallback(save_freq=100_000, save_path=args.out),
    ])
    model.learn(total_timesteps=args.steps, callback=callbacks)
    model.save(os.path.join(args.out, "last"))

    best = TD3.load(os.path.join(args.out, "best_model"))
    mean, std = evaluate_policy(best, eval_env, n_eval_episodes=20, deterministic=True)
    print(f"best model: {mean:.0f} +- {std:.0f}")


if __name__ == "__main__":
    main()
