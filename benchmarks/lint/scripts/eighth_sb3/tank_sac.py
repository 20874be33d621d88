from __future__ import annotations

import pathlib
import tempfile

import gymnasium as gym
import numpy as np
import torch as th
import torch.nn as nn
from gymnasium import spaces
from gymnasium.wrappers import RescaleAction, TimeLimit
from stable_baselines3 import SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecNormalize


class TwoTanks(gym.Env):
    """Water runs from an upper tank into a lower one; a pump (0 to 5 l/s) shall hold the lower level at a set point.

    An overflow ends the episode. There is no clock in here: TimeLimit cuts episodes from outside.
    """

    def __init__(self):
        self.action_space = spaces.Box(0.0, 5.0, shape=(1,), dtype=np.float32)
        self.observation_space = spaces.Dict(
            levels=spaces.Box(0.0, 10.0, shape=(2,), dtype=np.float32),
            error=spaces.Box(-10.0, 10.0, shape=(1,), dtype=np.float32),
        )

    def _obs(self):
        return {
            "levels": self.levels.astype(np.float32),
            "error": np.array([self.setpoint - self.levels[1]], dtype=np.float32),
        }

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.levels = self.np_random.uniform(1.0, 4.0, size=2)
        self.setpoint = self.np_random.uniform(2.0, 6.0)
        return self._obs(), {}

    def step(self, action):
        pump = float(np.clip(action[0], 0.0, 5.0))
        upper, lower = self.levels
        flow = np.sqrt(max(upper, 0.0))
        upper += 0.1 * (pump - flow)
        lower += 0.1 * (flow - np.sqrt(max(lower, 0.0)))
        self.levels = np.clip([upper, lower], 0.0, 10.0)
        overflow = bool(max(upper, lower) >= 10.0)
        reward = -abs(self.setpoint - lower) - 0.01 * pump
        if overflow:
            reward -= 50.0
        return self._obs(), reward, overflow, False, {}


class TankFeatures(BaseFeaturesExtractor):
    def __init__(self, observation_space: spaces.Dict, features_dim: int = 32):
        super().__init__(observation_space, features_dim)
        n_inputs = sum(space.shape[0] for space in observation_space.spaces.values())
        self.net = nn.Sequential(nn.Linear(n_inputs, 64), nn.ReLU(), nn.Linear(64, features_dim), nn.ReLU())

    def forward(self, observations: dict[str, th.Tensor]) -> th.Tensor:
        return self.net(th.cat([observations["levels"], observations["error"]], dim=1))


class LevelLogger(BaseCallback):
    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.logger.record_mean("tank/return_per_step", info["episode"]["r"] / info["episode"]["l"])
        return True


def build() -> gym.Env:
    env = TwoTanks()
    env = RescaleAction(env, np.float32(-1.0), np.float32(1.0))
    env = TimeLimit(env, max_episode_steps=200)
    return Monitor(env)


def lr_schedule(start: float):
    def at(progress_remaining: float) -> float:
        return max(progress_remaining, 0.1) * start

    return at


def agent_of(algorithm: str, env: VecNormalize, steps: int):
    shared = dict(
        gamma=0.98,
        tau=0.005,
        buffer_size=100_000,
        learning_starts=min(2_000, steps // 10),
        batch_size=256,
        train_freq=1,
        gradient_steps=-1,
        learning_rate=lr_schedule(7e-4),
        policy_kwargs=dict(
            features_extractor_class=TankFeatures,
            features_extractor_kwargs=dict(features_dim=32),
            net_arch=[64, 64],
        ),
        seed=11,
        device="cpu",
    )
    if algorithm == "td3":
        noise = NormalActionNoise(mean=np.zeros(1), sigma=0.1 * np.ones(1))
        return TD3("MultiInputPolicy", env, action_noise=noise, policy_delay=2, **shared)
    return SAC("MultiInputPolicy", env, ent_coef="auto", target_entropy="auto", **shared)


def experiment(algorithm: str, steps: int, folder: pathlib.Path) -> float:
    env = VecNormalize(make_vec_env(build, n_envs=4, seed=11), norm_obs=True, norm_reward=False, clip_obs=10.0)
    model = agent_of(algorithm, env, steps)
    model.learn(total_timesteps=steps, callback=LevelLogger(), log_interval=50)
    model.save(folder / f"{algorithm}.zip")
    env.save(str(folder / f"{algorithm}.pkl"))

    judge = VecNormalize.load(str(folder / f"{algorithm}.pkl"), make_vec_env(build, n_envs=2, seed=900))
    judge.training = False
    judge.norm_reward = False
    again = type(model).load(folder / f"{algorithm}.zip", env=judge, device="cpu")
    mean, _ = evaluate_policy(again, judge, n_eval_episodes=10, deterministic=True)
    return mean


if __name__ == "__main__":
    import argparse

    cli = argparse.ArgumentParser()
    cli.add_argument("--steps", type=int, default=60_000)
    cli.add_argument("--algorithms", nargs="+", default=["sac", "td3"])
    options = cli.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.algorithms:
            print(name, experiment(name, options.steps, pathlib.Path(scratch)))
