"""Train DQN, SAC or TD3 with Stable-Baselines3 and rl-zoo3's settings, as a user would write it: the other side of off_policy_speed.py.

Runs in an interpreter that has stable-baselines3; several seeds train one after the other. Prints one JSON line: env steps and
wall time of each seed's training, from the first gradient step to the end.
"""

import argparse
import json
import time
from importlib import metadata
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from benchmarks.sb3.off_policy_steps import SETTINGS, make_model


class LearningClock(BaseCallback):
    """Notes the time and the env steps when learning begins and at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: list[tuple[float, int]] = []

    def _on_step(self) -> bool:
        if not self.marks and self.num_timesteps > self.model.learning_starts:  # type: ignore[attr-defined]
            self.marks.append((time.perf_counter(), self.num_timesteps))
        return True

    def _on_training_end(self) -> None:
        self.marks.append((time.perf_counter(), self.num_timesteps))

    def loop(self) -> dict[str, float]:
        (start, first), (end, last) = self.marks[0], self.marks[-1]
        return {"env_steps": last - first, "wall_seconds": end - start}


def train(task: str, seed: int, steps: int, learning_starts: int) -> dict[str, float]:
    """One seed to the end of its budget; the steps and seconds in which it learned."""
    clock = LearningClock()
    model = make_model(task, make_vec_env(task.rpartition(":")[0], 1, seed=1000 * seed), seed)
    model.learning_starts = learning_starts
    model.learn(steps, callback=clock)
    return clock.loop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=list(SETTINGS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--learning-starts", type=int, required=True)
    args = parser.parse_args()
    loops: list[dict[str, Any]] = [train(args.task, seed, args.steps, args.learning_starts) for seed in args.seeds]
    versions = {name: metadata.version(name) for name in ("stable-baselines3", "torch", "gymnasium", "numpy")}
    print(json.dumps({"loops": loops, "versions": versions}))


if __name__ == "__main__":
    main()
