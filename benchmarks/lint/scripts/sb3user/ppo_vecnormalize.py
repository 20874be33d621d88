#!/usr/bin/env python
"""PPO + VecNormalize on BipedalWalker-like tasks; save, load and evaluate properly."""
import argparse
import os

import gymnasium as gym
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize, sync_envs_normalization

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="Pendulum-v1")
parser.add_argument("--timesteps", type=int, default=200_000)
parser.add_argument("--n-envs", type=int, default=4)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--out", default="/tmp/ppo_run")


class EpisodeTimeCallback(BaseCallback):
    """Logs the mean length of finished episodes and stops when the target return is reached."""

    def __init__(self, target_return=None, verbose=0):
        super().__init__(verbose)
        self.target_return = target_return

    def _on_step(self) -> bool:
        if len(self.model.ep_info_buffer) == 0:
            return True
        mean_len = np.mean([ep["l"] for ep in self.model.ep_info_buffer])
        mean_ret = np.mean([ep["r"] for ep in self.model.ep_info_buffer])
        self.logger.record("custom/mean_len", mean_len)
        if self.target_return is not None and mean_ret >= self.target_return:
            print("target reached at", self.num_timesteps)
            return False
        return True


def build_envs(args):
    train_env = make_vec_env(args.env, n_envs=args.n_envs, seed=args.seed)
    train_env = VecNormalize(train_env, norm_obs=True, norm_reward=True, clip_obs=10.0, gamma=0.98)
    eval_env = make_vec_env(args.env, n_envs=1, seed=args.seed + 1000)
    eval_env = VecNormalize(eval_env, norm_obs=True, norm_reward=False, clip_obs=10.0, training=False)
    return train_env, eval_env


def main():
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    train_env, eval_env = build_envs(args)

    model = PPO(
        "MlpPolicy",
        train_env,
        n_steps=512,
        batch_size=64,
        n_epochs=10,
        learning_rate=3e-4,
        gamma=0.98,
        gae_lambda=0.95,
        clip_range=0.2,
        ent_coef=0.0,
        policy_kwargs=dict(net_arch=dict(pi=[64, 64], vf=[64, 64])),
        seed=args.seed,
        verbose=0,
    )

    # EvalCallback synchronises the running statistics of train_env into eval_env
    eval_cb = EvalCallback(
        eval_env,
        best_model_save_path=os.path.join(args.out, "best"),
        n_eval_episodes=5,
        eval_freq=max(10_000 // args.n_envs, 1),
        deterministic=True,
    )
    ckpt_cb = CheckpointCallback(
        save_freq=max(50_000 // args.n_envs, 1),
        save_path=os.path.join(args.out, "ckpt"),
        save_vecnormalize=True,
    )
    model.learn(args.timesteps, callback=[EpisodeTimeCallback(), eval_cb, ckpt_cb])

    model_path = os.path.join(args.out, "final_model.zip")
    stats_path = os.path.join(args.out, "vecnormalize.pkl")
    model.save(model_path)
    train_env.save(stats_path)

    sync_envs_normalization(train_env, eval_env)
    mean, std = evaluate_policy(model, eval_env, n_eval_episodes=10, deterministic=True)
    print(f"before saving: {mean:.1f} +- {std:.1f}")
    train_env.close()

    # ---- a fresh process would do this ----
    fresh = make_vec_env(args.env, n_envs=1, seed=args.seed + 2000)
    fresh = VecNormalize.load(stats_path, fresh)
    fresh.training = False
    fresh.norm_reward = False
    loaded = PPO.load(model_path, env=fresh)
    mean, std = evaluate_policy(loaded, fresh, n_eval_episodes=10, deterministic=True)
    print(f"after loading: {mean:.1f} +- {std:.1f}")


if __name__ == "__main__":
    main()
