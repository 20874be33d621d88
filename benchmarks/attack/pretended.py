"""Stands in for `python -m rlclinic.training` where kills are tried by the hundred: a run is a function of its config and seed, and
takes some tenths of a second. Folders, rows, locks, launchers, trials and searches around it are the real ones.
"""

import fcntl
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from rlclinic.config import Config
from rlclinic.runs.record import Run
from rlclinic.runs.writer import RunWriter

COLUMNS: Final = [
    *("time", "total_timesteps", "epoch", "total_episodes", "train/roll/ep_rew_mean", "train/roll/ep_len_mean"),
    *("train/metrics/kl_divergence", "train/metrics/clip_fraction", "train/metrics/entropy", "train/hp/learning_rate"),
    *("val/roll/ep_rew_mean", "val/roll/ep_rew_std", "time/fps", "time/env", "time/learn"),
]
ROWS: Final = 20
ROW_SECONDS: Final = 0.01


def main() -> None:
    """Train the folders named on the command line, each from its beginning: there are no checkpoints."""
    for path in (Path(argument) for argument in sys.argv[1:] if argument != "--resume"):
        # A trainer goes on from a checkpoint, so that one which comes late finds nothing left to do. This one begins anew: it waits for
        # a process that outlived its parent by a moment, and only then looks whether the run has finished.
        with (path / "pretended.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if Run(path).status.state != "finished":
                train(Run(path))


def train(run: Run) -> None:
    """Write the rows that belong to a config and a seed, one after the other."""
    config = run.config
    rows, reached = compute_rows(config, run.seed)
    with RunWriter(run.path, COLUMNS, 0) as writer:
        for row in rows:
            time.sleep(ROW_SECONDS)
            writer.row(row)
            writer.status("running", int(row["total_timesteps"]), return_mean=row["train/roll/ep_rew_mean"])
        last, steps = rows[-1]["val/roll/ep_rew_mean"], int(rows[-1]["total_timesteps"])
        writer.status("finished", steps, return_mean=last, eval_mean=last, best_eval=last, fps=1000.0, threshold_reached_at=reached)


def compute_rows(config: Config, seed: int) -> tuple[list[dict[str, float]], int | None]:
    """The rows of a run, and where it reached its threshold. Rates up to a hundredth learn; others never do."""
    given: Any = config.algo.learning_rate
    rate = float(getattr(given, "start", given))
    share = None if rate > 0.01 else min(0.9, 0.3 + 0.1 * abs(float(np.log10(rate / 1e-3))))
    noise = np.random.default_rng(seed)
    kl = min(0.01 * (rate / 1e-3) ** 2, 2.0)
    rows: list[dict[str, float]] = []
    reached = None
    for row in range(1, ROWS + 1):
        steps = config.run.max_env_steps * row // ROWS
        value = 20.0 if share is None else min(500.0, 20.0 + 480.0 * row / ROWS / share)
        value = min(500.0, value + float(noise.normal(0, 4)))
        done = share is not None and row / ROWS >= share + float(noise.uniform(0, 0.05))
        cells = {"time": 1e9 + row, "total_timesteps": steps, "epoch": row, "total_episodes": 20 * row, "train/roll/ep_rew_mean": value}
        cells |= {"train/roll/ep_len_mean": value, "train/metrics/kl_divergence": kl, "train/metrics/clip_fraction": min(5 * kl, 0.6)}
        cells |= {"train/metrics/entropy": 0.6, "train/hp/learning_rate": rate, "val/roll/ep_rew_mean": 500.0 if done else value}
        rows.append(cells | {"val/roll/ep_rew_std": 1.0, "time/fps": 1000.0, "time/env": 0.4, "time/learn": 0.5})
        reached = reached or (steps if done else None)
        if done and config.run.stop_at_threshold:
            break
    return rows, reached


if __name__ == "__main__":
    main()
