"""Stands in for `python -m rlclinic.training`: writes the same folders in a moment, obeys signals, needs no torch.

A run whose label is "slow" goes on until it is asked to stop, "stubborn" until it is killed; "broken" fails; "crash" ends
without a word.
"""

import signal
import sys
import time
from pathlib import Path

from rlclinic.runs.record import Run
from rlclinic.runs.writer import RunWriter
from tests.ops.recorded import COLUMNS


def main() -> int:
    """Train the folders named on the command line."""
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: stopped.append(number))
    runs = [Run(Path(argument)) for argument in sys.argv[1:] if argument != "--resume"]
    label = runs[0].record.get("label")
    if label == "crash":
        print("the simulator is on fire")
        return 7
    offset = 0 if "--resume" in sys.argv else None
    writers = [RunWriter(run.path, COLUMNS, offset) for run in runs]
    budget = runs[0].config.run.max_env_steps
    steps = 0
    while steps < budget and not stopped:
        steps += budget // 4
        for writer in writers:
            writer.row(
                {
                    "total_timesteps": steps,
                    "val/roll/ep_rew_mean": (9.0 if label == "broken" else 500.0) * steps / budget,
                    "time/fps": 1000.0,
                    "time/learn": 0.1,
                }
            )
            writer.status("running", steps, return_mean=1.0, fps=1000.0)
        while label == "stubborn" or (label == "slow" and not stopped):
            time.sleep(0.01)
    state = "failed" if label == "broken" else "stopped" if stopped else "finished"
    for writer in writers:
        writer.status(state, steps, eval_mean=500.0, best_eval=500.0, reason="reward is NaN\n  look at it" if state == "failed" else None)
        writer.close()
    return int(state == "failed")


if __name__ == "__main__":
    sys.exit(main())
