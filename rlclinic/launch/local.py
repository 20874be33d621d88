"""Training processes on this machine: started, watched, stopped; none survives its launcher, no death goes unrecorded.

launch = local.start([["runs/g7k2-s0", "runs/g7k2-s1"], ["runs/g7k2-s2"]], parallel=2)
while launch.poll():
    ...  # look at the runs' folders; launch.stop() checkpoints and stops, launch.abort() kills
launch.failed
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, Protocol

from rlclinic.launch import deaths
from rlclinic.runs import launcher_status

TRAINING: Final = "rlclinic.training"
SUPERVISOR: Final = "rlclinic.launch"
POLL_SECONDS: Final = 0.1
STOP_SECONDS: Final = 60.0
"""How long `stop` lets a process finish its iteration and write a checkpoint before it is killed."""


class Process(Protocol):
    """A training process, here or elsewhere: what a launch asks of `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def send_signal(self, sig: int, /) -> None: ...
    def wait(self) -> int | None: ...


@dataclass
class Cohort:
    """One training process and the runs it trains."""

    runs: list[Path]
    process: Process | None = None
    returncode: int | None = None
    log_start: int = 0
    oom_kills: int = 0

    @property
    def log(self) -> Path:
        """What the process prints: beside the first run."""
        return launcher_status.launch_log(self.runs[0])


@dataclass
class Launch:
    """Cohorts that train now, that wait for a core, and that ended."""

    waiting: list[Cohort]
    parallel: int
    resume: bool = False
    threads: int = 1
    module: str = TRAINING
    running: list[Cohort] = field(default_factory=list)
    ended: list[Cohort] = field(default_factory=list)
    stopping: bool = False
    _stop_deadline: float | None = None

    def poll(self) -> bool:
        """Start what has room, record what ended; True while anything trains or waits. Never blocks."""
        for cohort in list(self.running):
            if cohort.process is not None and cohort.process.poll() is not None:
                self._end(cohort)
        if self._stop_deadline is not None and time.monotonic() > self._stop_deadline:
            self.abort()
        while self.waiting and not self.stopping and len(self.running) < self.parallel:
            self._start(self.waiting.pop(0))
        return bool(self.running or self.waiting)

    def wait(self, timeout: float | None = None, tick: Callable[[], None] | None = None) -> bool:
        """Wait until all have ended, at most `timeout` seconds; `tick` is called between looks. True if all ended."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll():
            if deadline is not None and time.monotonic() > deadline:
                return False
            if tick is not None:
                tick()
            time.sleep(POLL_SECONDS)
        return True

    def stop(self, patience: float = STOP_SECONDS) -> None:
        """Ask every process to checkpoint and stop; those that wait never start. After `patience` seconds: abort."""
        self.stopping = True
        self._stop_deadline = time.monotonic() + patience
        self._drop_waiting()
        for cohort in self.running:
            # The process alone, not its group: its env workers must live until the checkpoint is written.
            if cohort.process is not None:
                cohort.process.send_signal(signal.SIGTERM)

    def abort(self) -> None:
        """Kill every process and its workers at once: a resume goes on from the last checkpoint."""
        self.stopping = True
        self._stop_deadline = None
        self._drop_waiting()
        for cohort in list(self.running):
            self._kill(cohort)
            if cohort.process is not None:
                cohort.process.wait()
            self._end(cohort, "aborted before a checkpoint could be written; a resume goes on from the last one")

    @property
    def failed(self) -> list[Cohort]:
        """Cohorts that ended with anything but 0."""
        return [cohort for cohort in self.ended if cohort.returncode != 0]

    def _start(self, cohort: Cohort) -> None:
        cohort.oom_kills = deaths.oom_kills()
        with launcher_status.open_log(cohort.log) as log:
            cohort.log_start = log.tell()
            cohort.process = _spawn(command(self.module, cohort.runs, self.resume), log, self.threads)
        self.running.append(cohort)

    def _end(self, cohort: Cohort, aborted: str | None = None) -> None:
        """Give every run that has no final status one, with the reason, and keep what the process printed last."""
        self.running.remove(cohort)
        self.ended.append(cohort)
        if cohort.process is None:
            return
        cohort.returncode = cohort.process.returncode
        # Env workers share the process's group; one that hangs must not outlive it.
        self._kill(cohort)
        if self.stopping and cohort.returncode == -signal.SIGTERM:
            # It was still importing: nothing was there yet to catch the signal, and nothing to save.
            aborted = aborted or "stopped before it began to train"
        printed = launcher_status.read_log(cohort.log, cohort.log_start)
        reason = aborted or self._explain(cohort, printed)
        for run in cohort.runs:
            launcher_status.close(run, "stopped" if aborted else "failed", reason, "" if aborted else printed)
        launcher_status.drop_empty(cohort.log)

    def _kill(self, cohort: Cohort) -> None:
        if cohort.process is not None:
            try:
                os.killpg(cohort.process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                return

    def _explain(self, cohort: Cohort, printed: str) -> str:
        """Why a process ended that had something to train."""
        return deaths.explain(cohort.returncode or 0, printed, out_of_memory=deaths.oom_kills() > cohort.oom_kills)

    def _drop_waiting(self) -> None:
        for cohort in self.waiting:
            for run in cohort.runs:
                launcher_status.close(run, "stopped", "stopped before it started")
        self.ended += self.waiting
        self.waiting = []


def start(
    cohorts: Sequence[Sequence[Path | str]],
    *,
    parallel: int | None = None,
    resume: bool = False,
    detach: bool = False,
    threads: int = 1,
    module: str = TRAINING,
    device: str = "cpu",
) -> Launch:
    """Train run folders, one process per cohort, at most `parallel` (default: one per core) at a time.

    The processes end with this one, and with the thread that called: keep it alive. With `detach` a small supervisor
    takes over instead, in a session of its own: the Launch that comes back has nothing to poll, and the runs' folders
    tell how they stand. RunBusy, before anything starts, if a run is being written by another process.
    """
    launch = Launch(queue_cohorts(cohorts), parallel or available_cores(), resume, threads, module)
    if detach:
        _detach(launch, device)
        launch.waiting = []
    else:
        launch.poll()
    return launch


def queue_cohorts(cohorts: Sequence[Sequence[Path | str]]) -> list[Cohort]:
    """Mark all runs as waiting for a process."""
    waiting = [Cohort([Path(run).resolve() for run in cohort]) for cohort in cohorts if cohort]
    for run in (run for cohort in waiting for run in cohort.runs):
        launcher_status.queue(run)
    return waiting


def available_cores() -> int:
    """Cores that this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _detach(launch: Launch, device: str) -> None:
    """Hand the cohorts to `python -m rlclinic.launch` in its own session: no terminal, no parent to die with."""
    order = {
        "cohorts": [[str(run) for run in cohort.runs] for cohort in launch.waiting],
        "parallel": launch.parallel,
        "resume": launch.resume,
        "threads": launch.threads,
        "module": launch.module,
        "device": device,
    }
    if not launch.waiting:
        return
    with launcher_status.open_log(launch.waiting[0].log) as log:
        process = subprocess.Popen(
            [sys.executable, "-m", SUPERVISOR, json.dumps(order)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment(launch.threads),
        )
    # It is meant to outlive this process; Popen would warn that nobody waited for it.
    process.returncode = 0


def command(module: str, runs: Sequence[Path | str], resume: bool) -> list[str]:
    """How a training process is started that ends with this one."""
    start = [sys.executable, "-m", "rlclinic.launch.child", str(os.getpid()), module, *map(str, runs)]
    return [*start, *(["--resume"] if resume else [])]


def _spawn(command: list[str], log: IO[bytes], threads: int) -> "subprocess.Popen[bytes]":
    # A process group of its own: Ctrl-C in the terminal reaches the launcher alone, which decides what it means.
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        process_group=0,
        env=environment(threads),
    )


def environment(threads: int) -> dict[str, str]:
    """One process per core: every library that would start a thread per core is told not to."""
    count = str(threads)
    limits = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), count)
    # What one iteration frees, the next one needs: memory that goes back to the system in between is paid for again, page by page.
    kept = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(128 << 20)}
    # Faulthandler: a crash inside a simulator's C code leaves a traceback too.
    return {**kept, **os.environ, **limits, "PYTHONFAULTHANDLER": "1", "PYTHONUNBUFFERED": "1"}
