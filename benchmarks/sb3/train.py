"""Train PPO with Stable-Baselines3 and rl-zoo3's settings, as a user would write it: the other side of speed.py.

Runs in an interpreter that has stable-baselines3; several seeds train one after the other. Prints one JSON line: env steps and
wall time of each seed's training loop, from the end of the first iteration to the end of the last.
"""

import argparse
import json
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

from benchmarks.sb3.steps_to_threshold import SETTINGS, hyperparameters, training_env


class IterationClock(BaseCallback):
    """Notes the time and the env steps at every iteration's end: SB3 starts a rollout where it ended an update."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: list[tuple[float, int]] = []

    def _on_rollout_start(self) -> None:
        self.marks.append((time.perf_counter(), self.num_timesteps))

    def _on_training_end(self) -> None:
        self.marks.append((time.perf_counter(), self.num_timesteps))

    def _on_step(self) -> bool:
        return True

    def loop(self) -> dict[str, float]:
        (start, first), (end, last) = self.marks[1], self.marks[-1]  # marks[0] is the start of the first iteration
        return {"env_steps": last - first, "wall_seconds": end - start}


def train(env_id: str, seed: int, steps: int, out: Path) -> dict[str, float]:
    """One seed to the end of its budget, saved; the training loop's steps and seconds."""
    clock = IterationClock()
    model = PPO("MlpPolicy", training_env(env_id, seed), seed=seed, device="cpu", **hyperparameters(env_id))
    model.learn(steps, callback=clock)
    model.save(out / f"{env_id}-{seed}")
    return clock.loop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", choices=list(SETTINGS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder for the trained models")
    args = parser.parse_args()
    loops: list[dict[str, Any]] = [train(args.env, seed, args.steps, args.out) for seed in args.seeds]
    versions = {name: metadata.version(name) for name in ("stable-baselines3", "torch", "gymnasium", "numpy")}
    print(json.dumps({"loops": loops, "versions": versions}))


if __name__ == "__main__":
    main()
