"""Keep a tank's level with a pump: an environment of our own, PPO, VecNormalize, callbacks."""
import argparse
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, CheckpointCallback, EvalCallback
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize


class TankEnv(gym.Env):
    """The pump fills, a leak drains; the level must stay at a set point that changes between episodes."""

    metadata = {"render_modes": []}

    def __init__(self, horizon=200, dt=0.1):
        super().__init__()
        self.horizon = horizon
        self.dt = dt
        self.action_space = spaces.Box(-1.0, 1.0, shape=(1,), dtype=np.float32)
        self.observation_space = spaces.Box(-np.inf, np.inf, shape=(3,), dtype=np.float32)

    def _get_obs(self):
        return np.array([self.level, self.setpoint, self.level - self.setpoint], dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level = self.np_random.uniform(0.5, 1.5)
        self.setpoint = self.np_random.uniform(0.6, 1.4)
        self.t = 0
        return self._get_obs(), {}

    def step(self, action):
        pump = 0.5 * (float(np.clip(action[0], -1.0, 1.0)) + 1.0)
        leak = 0.4 * np.sqrt(max(self.level, 0.0))
        self.level += self.dt * (pump - leak)
        self.t += 1
        error = abs(self.level - self.setpoint)
        terminated = bool(self.level <= 0.0 or self.level >= 2.0)
        truncated = self.t >= self.horizon
        reward = -error - (5.0 if terminated else 0.0)
        info = {"error": error}
        return self._get_obs(), reward, terminated, truncated, info


class ErrorLogger(BaseCallback):
    """Logs the mean control error of every rollout."""

    def __init__(self, verbose=0):
        super().__init__(verbose)
        self.errors = []

    def _on_step(self) -> bool:
        self.errors += [info["error"] for info in self.locals["infos"] if "error" in info]
        return True

    def _on_rollout_end(self) -> None:
        self.logger.record("rollout/control_error", float(np.mean(self.errors)))
        self.errors = []


def make_env(seed, rank, horizon=200):
    def _init():
        env = Monitor(TankEnv(horizon=horizon))
        env.reset(seed=seed + rank)
        env.action_space.seed(seed + rank)
        return env

    return _init


def linear(initial):
    def schedule(progress_remaining):
        return progress_remaining * initial

    return schedule


def train(args, folder):
    set_random_seed(args.seed)
    check_env(TankEnv())
    venv = DummyVecEnv([make_env(args.seed, rank) for rank in range(args.n_envs)])
    venv = VecNormalize(venv, norm_obs=True, norm_reward=True, clip_obs=10.0, gamma=0.98)
    eval_env = DummyVecEnv([make_env(args.seed + 1_000, 0)])
    eval_env = VecNormalize(eval_env, training=False, norm_obs=True, norm_reward=False, clip_obs=10.0)

    callbacks = CallbackList([
        ErrorLogger(),
        CheckpointCallback(save_freq=max(args.save_freq // args.n_envs, 1), save_path=str(folder / "checkpoints"), save_vecnormalize=True),
        EvalCallback(eval_env, best_model_save_path=str(folder / "best"), eval_freq=max(args.eval_freq // args.n_envs, 1),
                     n_eval_episodes=5, deterministic=True),
    ])
    model = PPO(
        "MlpPolicy",
        venv,
        learning_rate=linear(3e-4),
        n_steps=256,
        batch_size=64,
        n_epochs=10,
        gamma=0.98,
        gae_lambda=0.95,
        clip_range=0.2,
        ent_coef=0.0,
        vf_coef=0.5,
        max_grad_norm=0.5,
        seed=args.seed,
        verbose=0,
    )
    model.learn(total_timesteps=args.timesteps, callback=callbacks)
    model.save(folder / "final")
    venv.save(str(folder / "vecnormalize.pkl"))
    venv.close()


def test(args, folder):
    env = DummyVecEnv([make_env(args.seed + 2_000, 0)])
    env = VecNormalize.load(str(folder / "vecnormalize.pkl"), env)
    env.training = False
    env.norm_reward = False
    model = PPO.load(folder / "final", env=env)
    mean, std = evaluate_policy(model, env, n_eval_episodes=args.test_episodes, deterministic=True)
    print(f"return {mean:.2f} +- {std:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--timesteps", type=int, default=300_000)
    parser.add_argument("--n-envs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save-freq", type=int, default=50_000)
    parser.add_argument("--eval-freq", type=int, default=10_000)
    parser.add_argument("--test-episodes", type=int, default=20)
    parser.add_argument("--folder", default="tank")
    args = parser.parse_args()
    folder = Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    train(args, folder)
    test(args, folder)
