"""Train PPO with Stable-Baselines3 and rl-zoo3's settings on Pong's screen and on HalfCheetah: the other side of images.py and mujoco.py.

Runs in an interpreter that has stable-baselines3, ale-py and MuJoCo. Prints one JSON line, as train.py does: env steps and wall time
of each seed's training loop, from the end of the first iteration to the end of the last.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack, VecNormalize

from benchmarks.sb3.train import IterationClock


def pong(seed: int) -> VecEnv:
    """Eight games in this process, wrapped as rl-zoo3 does: frames skipped by 4, 84x84 and grey, lives, clipped rewards, 4 frames deep."""
    import ale_py
    import gymnasium as gym

    gym.register_envs(ale_py)
    raw = {"frameskip": 1, "repeat_action_probability": 0.0}
    return VecFrameStack(make_atari_env("ALE/Pong-v5", n_envs=8, seed=seed, env_kwargs=raw), n_stack=4)


def half_cheetah(seed: int) -> VecEnv:
    """One robot, with running normalization of observations and rewards."""
    return VecNormalize(make_vec_env("HalfCheetah-v5", n_envs=1, seed=seed), gamma=0.98)


SETTINGS: dict[str, tuple[str, Callable[[int], VecEnv], dict[str, Any]]] = {
    "ALE/Pong-v5": (
        "CnnPolicy", pong,
        {
            "n_steps": 128, "n_epochs": 4, "batch_size": 256, "vf_coef": 0.5, "ent_coef": 0.01,
            "learning_rate": LinearSchedule(2.5e-4, 0.0, 1.0), "clip_range": LinearSchedule(0.1, 0.0, 1.0),
        },
    ),
    "HalfCheetah-v5": (
        "MlpPolicy", half_cheetah,
        {
            "n_steps": 512, "n_epochs": 20, "batch_size": 64, "gamma": 0.98, "gae_lambda": 0.92, "clip_range": 0.1,
            "learning_rate": 2.0633e-05, "ent_coef": 0.000401762, "vf_coef": 0.58096, "max_grad_norm": 0.8,
            "policy_kwargs": {
                "log_std_init": -2, "ortho_init": False, "activation_fn": torch.nn.ReLU, "net_arch": {"pi": [256, 256], "vf": [256, 256]},
            },
        },
    ),
}  # fmt: skip


def train(env_id: str, seed: int, steps: int, out: Path) -> dict[str, float]:
    """One seed to the end of its budget, saved; the training loop's steps and seconds."""
    policy, make, settings = SETTINGS[env_id]
    clock = IterationClock()
    model = PPO(policy, make(seed), seed=seed, device="cpu", **settings)
    model.learn(steps, callback=clock)
    model.save(out / f"{env_id.replace('/', '-')}-{seed}")
    return clock.loop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", choices=list(SETTINGS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder for the trained models")
    args = parser.parse_args()
    print(json.dumps({"loops": [train(args.env, seed, args.steps, args.out) for seed in args.seeds]}))


if __name__ == "__main__":
    main()
