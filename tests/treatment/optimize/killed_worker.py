"""Stands in for `python -m rlclinic.training` without torch; the kernel's out-of-memory killer stands beside it.

The worker of each run of the arm that $KILLED names is killed (SIGKILL) in the middle of it, the first time.
"""

import os
import signal
import sys
from pathlib import Path

from rlclinic.runs.record import Run
from rlclinic.runs.writer import RunWriter
from tests.treatment.pretended_training import COLUMNS, Pretended


def learns_below_a_hundredth(config) -> float | None:
    return 0.3 if float(getattr(config.algo.learning_rate, "start", config.algo.learning_rate)) <= 0.01 else None


def main() -> None:
    """Train the folders named on the command line."""
    trainer = Pretended(learns_below_a_hundredth)
    for run in (Run(Path(argument)) for argument in sys.argv[1:] if argument != "--resume"):
        if run.status.state == "finished":
            continue
        label, marker = str(run.record.get("label")), run.path / "killed"
        if os.environ["KILLED"] in label and not marker.exists():
            marker.touch()
            with RunWriter(run.path, COLUMNS) as writer:
                writer.status("running", 40)
                os.kill(os.getpid(), signal.SIGKILL)
        trainer._train(run)


if __name__ == "__main__":
    main()
