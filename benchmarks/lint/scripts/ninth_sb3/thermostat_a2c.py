"""Keep a greenhouse at the set temperature: a custom environment, VecNormalize and A2C.

    python thermostat_a2c.py train --steps 300000
    python thermostat_a2c.py play
"""

import argparse
import os

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

MINUTES_PER_STEP = 10
DAY = 24 * 60 // MINUTES_PER_STEP


class Greenhouse(gym.Env):
    """One day in steps of ten minutes. Action: heater power in [-1, 1] (-1 is off). Reward: minus error, minus energy."""

    metadata = {"render_modes": []}

    def __init__(self, setpoint=21.0, energy_price=0.05):
        super().__init__()
        self.setpoint = setpoint
        self.energy_price = energy_price
        self.action_space = spaces.Box(-1.0, 1.0, shape=(1,), dtype=np.float32)
        self.observation_space = spaces.Box(-np.inf, np.inf, shape=(4,), dtype=np.float32)
        self.minute = 0
        self.inside = setpoint
        self.outside = 5.0

    def _weather(self):
        phase = 2 * np.pi * self.minute / DAY
        return 5.0 - 6.0 * np.cos(phase) + self.np_random.normal(0.0, 0.5)

    def _observation(self):
        phase = 2 * np.pi * self.minute / DAY
        return np.array([self.inside - self.setpoint, self.outside, np.sin(phase), np.cos(phase)], dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.minute = 0
        self.inside = self.setpoint + self.np_random.uniform(-5.0, 5.0)
        self.outside = self._weather()
        return self._observation(), {}

    def step(self, action):
        power = 0.5 * (float(np.clip(action[0], -1.0, 1.0)) + 1.0)
        self.minute += 1
        self.outside = self._weather()
        self.inside += 0.1 * (self.outside - self.inside) + 4.0 * power
        error = abs(self.inside - self.setpoint)
        reward = -error - self.energy_price * power
        # the day is over, the greenhouse is not: a time limit
        truncated = self.minute >= DAY
        return self._observation(), reward, False, truncated, {"error": error}


def make_env(rank, seed):
    def _init():
        env = Monitor(Greenhouse())
        env.reset(seed=seed + rank)
        return env

    return _init


def train(args):
    venv = DummyVecEnv([make_env(rank, args.seed) for rank in range(args.n_envs)])
    venv = VecNormalize(venv, norm_obs=True, norm_reward=True, clip_obs=10.0, gamma=0.98)
    model = A2C(
        "MlpPolicy",
        venv,
        learning_rate=7e-4,
        n_steps=16,
        gamma=0.98,
        gae_lambda=0.95,
        ent_coef=0.001,
        vf_coef=0.5,
        max_grad_norm=0.5,
        policy_kwargs=dict(net_arch=[64, 64]),
        seed=args.seed,
        verbose=0,
    )
    os.makedirs(args.folder, exist_ok=True)
    checkpoints = CheckpointCallback(
        save_freq=max(50_000 // args.n_envs, 1), save_path=args.folder, save_vecnormalize=True
    )
    model.learn(total_timesteps=args.steps, callback=checkpoints)
    model.save(os.path.join(args.folder, "greenhouse_a2c"))
    venv.save(os.path.join(args.folder, "vecnormalize.pkl"))
    return model


def play(args):
    venv = DummyVecEnv([make_env(0, 1000)])
    venv = VecNormalize.load(os.path.join(args.folder, "vecnormalize.pkl"), venv)
    # the statistics stay as they were in training, and the score is to be in degrees
    venv.training = False
    venv.norm_reward = False
    model = A2C.load(os.path.join(args.folder, "greenhouse_a2c"), env=venv)
    mean, std = evaluate_policy(model, venv, n_eval_episodes=args.episodes, deterministic=True)
    print(f"return of a day: {mean:.1f} +- {std:.1f}")

    obs = venv.reset()
    errors = []
    for _ in range(DAY):
        action, _ = model.predict(obs, deterministic=True)
        obs, _, _, infos = venv.step(action)
        errors.append(infos[0]["error"])
    print(f"mean error {np.mean(errors):.2f} K, worst {np.max(errors):.2f} K")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["train", "play"])
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--n-envs", type=int, default=8)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--folder", default="greenhouse")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    (train if arguments.mode == "train" else play)(arguments)
