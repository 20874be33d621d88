"""Arms of the user's own training command: one process a run, its log collected by the readers, stored as runs of the trial.

Each run has a folder of its own, {out} in the command and RLCLINIC_OUT in its environment; the working folder stays the user's.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final

from rlclinic import readers, trust
from rlclinic.actions import Action
from rlclinic.errors import RlclinicError
from rlclinic.launch.batch import OBSERVE_SECONDS, RESTARTS, Interrupted, Killed
from rlclinic.runs import disk, trials
from rlclinic.runs.history import History
from rlclinic.runs.record import Group
from rlclinic.treatment.trial.arms import Arm, filled
from rlclinic.treatment.trial.models import ArmProgress
from rlclinic.treatment.trial.running import Job

POLL_SECONDS: Final = 0.05
OUT: Final = "out"
_ENDED: Final = "ended.json"
_KILLED: Final = (-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGKILL, 128 + signal.SIGTERM)
"""Exit codes of a command, or of the shell around it, that was killed: that says nothing about its arm."""
_SHELL: Final = "rlclinic.treatment.trial.command_shell"


@dataclass
class Call:
    """One run of a command."""

    arm: Arm
    seed: int
    folder: Path
    """Holds the user's `files/`, what the command printed, and how it ended."""
    process: "subprocess.Popen[bytes] | None" = None
    started: float = 0.0
    killed: int = 0
    """How often the machine, or a person, ended it: it is started again."""

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def log(self) -> Path:
        return self.folder / "stdout.log"

    @property
    def ended(self) -> dict[str, Any] | None:
        """How it ended; None if it has not, or was killed with the trial."""
        return disk.read_json(self.folder / _ENDED)


def run_look(job: Job, look: int, arms: Sequence[Arm]) -> dict[str, Group]:
    """Run every arm's seeds of a look, at most one process a core; Interrupted if somebody stops it.

    Untrusted for a command that only the trial's record names: whoever typed it has approved it.
    """
    trust.check(*dict.fromkeys(f"{trust.COMMAND}{arm.command}" for arm in arms))
    known = {group.label: group for group in trials.groups(job.store, job.tid)}
    calls = {arm.name: _calls(job, look, arm) for arm in arms if job.label(arm, look) not in known}
    waiting = [call for group in calls.values() for call in group if call.ended is None]
    _run(job, look, waiting, [call for group in calls.values() for call in group])
    for arm in arms:
        label = job.label(arm, look)
        if label not in known:
            known[label] = _stored(job, calls[arm.name], label)
    return {arm.name: known[job.label(arm, look)] for arm in arms}


def _calls(job: Job, look: int, arm: Arm) -> list[Call]:
    root = trials.folder(job.store, job.tid).resolve() / OUT
    place = [each.name for each in job.plan.arms].index(arm.name)
    return [Call(arm, seed, root / f"{arm.name}-s{seed}") for seed in job.plan.seeds(job.seed0, look, place)]


def _run(job: Job, look: int, waiting: list[Call], everything: Sequence[Call]) -> None:
    running: list[Call] = []
    began, shown = time.monotonic(), 0.0
    try:
        while waiting or running:
            if job.stop is not None and job.stop():
                raise Interrupted(f"trial {job.tid} was interrupted in look {look}.\n  Go on: ", Action("trial", resume=job.tid))
            while waiting and len(running) < job.cores:
                running.append(_start(waiting.pop(0)))
            over = [call for call in running if _finished(call, job.plan.timeout_seconds)]
            running = [call for call in running if call.process is not None]
            waiting += [call for call in over if call.ended is None]
            if any(call.killed > RESTARTS for call in waiting):
                raise Killed(
                    f"a run of trial {job.tid} was killed each time that it was started, in look {look}.\n"
                    "  That says nothing about its arm, and without it there is no verdict.\n  Go on: ",
                    Action("trial", resume=job.tid),
                )
            if time.monotonic() >= shown:
                shown = time.monotonic() + OBSERVE_SECONDS
                job.tell(look, _progress(everything), time.monotonic() - began)
            time.sleep(POLL_SECONDS)
    finally:
        for call in running:
            _kill(call)


def _start(call: Call) -> Call:
    with disk.guarded(call.folder):
        # Half a run of a killed trial: its log must not mix with the new one's.
        shutil.rmtree(call.folder, ignore_errors=True)
        call.files.mkdir(parents=True)
    text = filled(call.arm, call.seed, str(call.files))
    limits = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment = {**limits, **os.environ, "RLCLINIC_OUT": str(call.files), "RLCLINIC_SEED": str(call.seed), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "rlclinic.launch.child", str(os.getpid()), _SHELL, text]
    with call.log.open("wb") as log:
        call.process = _spawn(command, log, environment)
    call.started = time.monotonic()
    return call


def _spawn(command: list[str], log: IO[bytes], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, process_group=0, env=environment)


def _finished(call: Call, timeout: float | None) -> bool:
    assert call.process is not None
    code, seconds = call.process.poll(), time.monotonic() - call.started
    late = timeout is not None and seconds > timeout
    if code is None and not late:
        return False
    _kill(call)
    call.process = None
    if code in _KILLED:
        call.killed += 1
        return True
    reason = f"stopped after {timeout:g} s, the timeout that was given" if code is None else _why(code, call.log)
    disk.write_json(call.folder / _ENDED, {"code": code, "seconds": seconds, "reason": reason})
    return True


def _why(code: int, log: Path) -> str | None:
    """What a command that failed said last."""
    if code == 0:
        return None
    lines = [line.strip() for line in log.read_bytes().decode("utf-8", errors="replace").splitlines() if line.strip()]
    what = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return ": ".join([what, *lines[-1:]])


def _kill(call: Call) -> None:
    """End what is left of a command and its children."""
    if call.process is None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(call.process.pid, signal.SIGKILL)
    call.process.wait()


def _progress(calls: Sequence[Call]) -> list[ArmProgress]:
    found: dict[str, list[dict[str, Any] | None]] = {}
    for call in calls:
        found.setdefault(call.arm.name, []).append(call.ended)
    return [
        ArmProgress(
            name=name,
            runs=len(ends),
            ended=sum(end is not None for end in ends),
            solved=0,
            failed=sum(bool(end and end["code"]) for end in ends),
            env_steps=0,
            max_env_steps=None,
            return_mean=None,
        )
        for name, ends in found.items()
    ]


# ── what they left behind ──


def _stored(job: Job, calls: Sequence[Call], label: str) -> Group:
    """The runs of one arm as a group of the store; one that left no log is a failed run without numbers."""
    read = [_history(job, call) for call in calls]
    first = next((history for history in read if history.series), read[0])
    settings = {**first.settings, **_known_settings(calls[0].arm)}
    # A script may log its seed or output folder as a setting; the runs of an arm are one group all the same.
    alike = [replace(history, settings=settings, source=first.source, env_id=first.env_id, algo=first.algo) for history in read]
    budget = max((history.max_env_steps or history.env_steps or 0 for history in read), default=0) or None
    alike = [replace(history, max_env_steps=budget) for history in alike]
    runs = readers.import_runs(alike, job.store, extra={"trial": job.tid, "label": label})
    group = runs[0].group
    assert group is not None
    return group


def _history(job: Job, call: Call) -> History:
    ended = call.ended or {"code": None, "reason": "no trace of how it ended"}
    found = next((read for place in _places(call) if (read := _read(place, job.plan.threshold)) is not None), None)
    state, reason = ("finished", None) if ended["code"] == 0 else ("failed", ended["reason"])
    if found is None:
        state, reason = "failed", reason or "it left no log that can be read, neither in {out} nor on stdout"
        found = History(id=call.folder.name, source="console")
    return replace(found, id=call.folder.name, seed=call.seed, threshold=job.plan.threshold, state=state, reason=reason, path=call.folder)


def _places(call: Call) -> Iterator[Path]:
    """Where a log may be, the likeliest first: the run's folder, what was printed, and a table of commas within it."""
    yield call.files
    yield call.log
    lines = call.log.read_text(encoding="utf-8", errors="replace").splitlines() if call.log.exists() else []
    widths = Counter(line.count(",") for line in lines if "," in line)
    if widths:
        width = widths.most_common(1)[0][0]
        table = call.folder / "stdout.csv"
        disk.write(table, "\n".join(line for line in lines if line.count(",") == width) + "\n")
        yield table


def _read(path: Path, threshold: float | None) -> History | None:
    """The longest history in a folder or a log; None if there is none."""
    try:
        found = readers.read(path, threshold=threshold)
    except RlclinicError:
        return None
    usable = [history for history in found if history.series]
    return max(usable, key=lambda history: sum(len(series) for series in history.series.values()), default=None)


def _known_settings(arm: Arm) -> dict[str, Any]:
    """What the arm's placeholders say about settings of ours."""
    found: dict[str, Any] = {}
    for change in arm.changes:
        key, _, text = change.partition("=")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        found[key if "." in key else f"algo.{key}"] = value
    return found
