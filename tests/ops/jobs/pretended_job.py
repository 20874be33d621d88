"""Stands in for `python -m rlclinic.ops.jobs.worker`: everything of a job is real, apart from its training.

Its work is a line in the file `did` of the store for every step: which attempt wrote it, and when. A job whose hypothesis is "poison"
takes its process down; "20 steps" makes so many.
"""

import os
import signal
import sys
import time

from rlclinic.ops.jobs import worker
from rlclinic.ops.jobs.models import Job
from rlclinic.ops.train import signals
from rlclinic.runs import disk
from rlclinic.runs.store import Store

STEP_SECONDS = 0.05


def work(store: Store, job: Job) -> worker.Ending:
    """Make steps until all are made, or somebody wants to stop."""
    if job.hypothesis == "poison":
        os.kill(os.getpid(), signal.SIGKILL)
    with signals.caught_signals() as caught:
        for _ in range(int(job.hypothesis.partition(" ")[0] or 1)):
            disk.append_line(store.root / "did", f"{job.id} {sys.argv[3]} {os.getpid()} {time.time()}")
            time.sleep(STEP_SECONDS)
            if caught:
                return worker.Ending("stopped", None, f"stopped by {caught[0].name}", f"stopped by {caught[0].name}")
    return worker.Ending("finished", None, "did its steps")


if __name__ == "__main__":
    worker._WORK = dict.fromkeys(worker._WORK, work)
    sys.exit(worker.main())
