"""PPO with observation and reward normalisation (Stable-Baselines3).

    python ppo_vecnorm.py --timesteps 300000 --logdir runs/pendulum
"""
import argparse
import os

import gymnasium as gym
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, EvalCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize


def make_env(env_id, rank, seed=0, monitor_dir=None):
    def _init():
        env = gym.make(env_id)
        path = os.path.join(monitor_dir, str(rank)) if monitor_dir else None
        env = Monitor(env, path)
        env.reset(seed=seed + rank)
        env.action_space.seed(seed + rank)
        return env

    return _init


def linear_schedule(initial_value):
    def schedule(progress_remaining):
        # progress_remaining goes from 1 (start) to 0 (end)
        return progress_remaining * initial_value

    return schedule


class SaveVecNormalizeCallback(BaseCallback):
    """Keep the running statistics next to the best model."""

    def __init__(self, save_path, verbose=0):
        super().__init__(verbose)
        self.save_path = save_path

    def _on_step(self) -> bool:
        self.model.get_vec_normalize_env().save(self.save_path)
        return True


class RewardSpreadCallback(BaseCallback):
    def __init__(self, every=10_000):
        super().__init__()
        self.every = every
        self.last = 0

    def _on_step(self) -> bool:
        if self.num_timesteps - self.last >= self.every:
            self.last = self.num_timesteps
            returns = [ep["r"] for ep in self.model.ep_info_buffer]
            if returns:
                self.logger.record("custom/return_std", float(np.std(returns)))
        return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="Pendulum-v1")
    parser.add_argument("--timesteps", type=int, default=300_000)
    parser.add_argument("--n-envs", type=int, default=4)
    parser.add_argument("--n-steps", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--logdir", default="runs/ppo_vecnorm")
    args = parser.parse_args()
    os.makedirs(args.logdir, exist_ok=True)
    set_random_seed(args.seed)

    train_env = DummyVecEnv([make_env(args.env, i, args.seed, args.logdir) for i in range(args.n_envs)])
    train_env = VecNormalize(train_env, norm_obs=True, norm_reward=True, clip_obs=10.0, gamma=0.95)

    eval_env = DummyVecEnv([make_env(args.env, 0, args.seed + 1000)])
    eval_env = VecNormalize(eval_env, training=False, norm_obs=True, norm_reward=False, clip_obs=10.0)

    best_stats = os.path.join(args.logdir, "best_vecnormalize.pkl")
    eval_callback = EvalCallback(
        eval_env,
        callback_on_new_best=SaveVecNormalizeCallback(best_stats),
        best_model_save_path=args.logdir,
        log_path=args.logdir,
        eval_freq=max(10_000 // args.n_envs, 1),
        n_eval_episodes=10,
        deterministic=True,
        verbose=0,
    )

    model = PPO(
        "MlpPolicy",
        train_env,
        learning_rate=linear_schedule(1e-3),
        n_steps=args.n_steps,
        batch_size=64,
        n_epochs=10,
        gamma=0.95,
        gae_lambda=0.95,
        clip_range=0.2,
        ent_coef=0.0,
        use_sde=True,
        sde_sample_freq=4,
        seed=args.seed,
        verbose=0,
        device="cpu",
    )
    model.learn(total_timesteps=args.timesteps, callback=CallbackList([eval_callback, RewardSpreadCallback()]))

    model_path = os.path.join(args.logdir, "final_model")
    stats_path = os.path.join(args.logdir, "vecnormalize.pkl")
    model.save(model_path)
    train_env.save(stats_path)

    # load everything again, as one would in another process
    test_env = DummyVecEnv([make_env(args.env, 0, args.seed + 2000)])
    test_env = VecNormalize.load(stats_path, test_env)
    test_env.training = False
    test_env.norm_reward = False
    loaded = PPO.load(model_path, env=test_env, device="cpu")
    mean, std = evaluate_policy(loaded, test_env, n_eval_episodes=10, deterministic=True)
    print(f"mean return {mean:.1f} +- {std:.1f}")

    train_env.close()
    eval_env.close()
    test_env.close()


if __name__ == "__main__":
    main()
