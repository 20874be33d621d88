"""Stands in for `python -m rlclinic.ops.jobs.worker`: everything of a job is real, apart from its training.

Its work is a line in the file `did` of the store for every step: which attempt wrote it, and when. A job whose hypothesis is "poison"
takes its process down; "20 steps" makes so many, "20 steps on Ray" has them made by a process on a node of the cluster, and "20 steps, away
at first" finds no cluster at its first attempt, "broken at first" no file system and "full at first" no room.
"""

import os
import signal
import sys
import time
from typing import Any

from rlclinic.errors import RlclinicError
from rlclinic.ops.jobs import worker
from rlclinic.ops.jobs.models import Job
from rlclinic.ops.train import signals
from rlclinic.ray_cluster import ClusterAway
from rlclinic.runs import disk
from rlclinic.runs.store import Store

STEP_SECONDS = 0.05


def work(store: Store, job: Job) -> worker.Ending:
    """Make steps until all are made, or somebody wants to stop."""
    if job.hypothesis == "poison":
        os.kill(os.getpid(), signal.SIGKILL)
    if job.hypothesis.endswith("away at first") and sys.argv[3] == "1":
        raise ClusterAway("no node of the Ray cluster that takes work is alive")
    if job.hypothesis.endswith("broken at first") and sys.argv[3] == "1":
        raise OSError(116, "Stale file handle")
    if job.hypothesis.endswith("full at first") and sys.argv[3] == "1":
        with disk.guarded(store.root):
            raise OSError(28, "No space left on device")
    if job.hypothesis.endswith("on Ray"):
        return work_on_ray(store, job)
    with signals.caught_signals() as caught:
        for _ in range(int(job.hypothesis.partition(" ")[0] or 1)):
            disk.append_line(store.root / "did", f"{job.id} {sys.argv[3]} {os.getpid()} {time.time()}")
            time.sleep(STEP_SECONDS)
            if caught:
                return worker.Ending("stopped", None, f"stopped by {caught[0].name}", f"stopped by {caught[0].name}")
    return worker.Ending("finished", None, "did its steps")


def work_on_ray(store: Store, job: Job) -> worker.Ending:
    """The same steps by a process on a node; one that is lost is another attempt's."""
    from rlclinic.config import Config
    from rlclinic.launch import places
    from rlclinic.launch import ray as launcher

    passed_on: Any = launcher
    passed_on._PASSED_ON = (*launcher._PASSED_ON, "PRETEND")
    count = job.hypothesis.partition(" ")[0]
    os.environ.update({places.VARIABLE: "ray", "PRETEND": f"steps {count} {store.root / 'did'} {job.id} {sys.argv[3]}"})
    (run,) = Store(store.root.parent / "on-ray").create_group([Config.model_validate({"env": {"id": "CartPole-v1"}})]).runs
    try:
        with signals.caught_signals() as caught:
            launch = places.start([[run.path]], module="tests.launch.pretended")
            while launch.poll():
                time.sleep(STEP_SECONDS)
                if caught and not launch.stopping:
                    launch.stop()
    except RlclinicError as error:
        return worker.Ending("failed", None, "no node took it", str(error), retry=True, lost=True)
    if launch.stopping:
        return worker.Ending("stopped", None, "stopped by a signal", "stopped by a signal")
    if launch.failed:
        return worker.Ending("failed", None, "its node was lost", f"exit code {launch.failed[0].returncode}", retry=True, lost=True)
    return worker.Ending("finished", None, "did its steps")


if __name__ == "__main__":
    worker._WORK = dict.fromkeys(worker._WORK, work)
    sys.exit(worker.main())
