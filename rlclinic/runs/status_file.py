"""Where a run stands: status.json, and what to make of one whose process is gone."""

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rlclinic.runs import coerce, disk, lock

NAME: Final = "status.json"
HEARTBEAT_SECONDS: Final = 120.0
"""A run on another host that has been silent for longer counts as crashed."""

FINAL: Final = frozenset({"finished", "stopped", "failed", "crashed"})
STATES: Final = frozenset({"queued", "running"}) | FINAL - {"crashed"}
"""What a writer may write. `crashed` is never written: it is how `running` reads when the process is gone."""


@dataclass(frozen=True, slots=True)
class Status:
    """One status.json. Numbers are None until there is something to report."""

    state: str = "queued"
    heartbeat: float = 0.0
    """Unix seconds of the last write."""
    env_steps: int = 0
    eval_env_steps: int | None = None
    """Env steps of evaluations: they come on top of `env_steps`, and a budget is charged for both."""
    max_env_steps: int | None = None
    pid: int | None = None
    host: str | None = None
    process_started: int | None = None
    """The process's start in clock ticks since boot: with the pid it names one process for good."""
    started: float | None = None
    """Unix seconds of the first start; a resume keeps it."""
    resumes: int = 0
    """How often it was started again."""
    reason: str | None = None
    """Why the run stopped or failed."""
    return_mean: float | None = None
    """Mean return of the last 100 training episodes."""
    eval_mean: float | None = None
    best_eval: float | None = None
    episodes: int | None = None
    fps: float | None = None
    """Env steps per second, training only."""
    success_rate: float | None = None
    """Share of the last evaluation's episodes that succeeded; None where the environment reports no success."""
    threshold_reached_at: int | None = None
    """Env step of the first evaluation that reached the threshold (and the required success)."""
    lost: bool | None = None
    """Whether a run that has ended reached the threshold and lost it again; None: not known. See `rlclinic.runs.outcome`."""

    @property
    def live(self) -> bool:
        """Whether the run may still change by itself."""
        return self.state not in FINAL

    @property
    def used_env_steps(self) -> int:
        """Env steps of training and of evaluations."""
        return self.env_steps + (self.eval_env_steps or 0)

    @property
    def silent_seconds(self) -> float:
        return max(0.0, time.time() - self.heartbeat)


FIELDS: Final = frozenset(Status.__slots__)
_COUNTS: Final = frozenset(
    {"env_steps", "eval_env_steps", "max_env_steps", "pid", "process_started", "resumes", "episodes", "threshold_reached_at"}
)


def read(folder: Path) -> Status:
    """The status as it is now: a run that says `running` but whose process is gone reads as `crashed`."""
    status = raw(folder)
    if status.state != "running" or alive(status):
        return status
    where = f"process {status.pid} on {status.host}"
    return replace(status, state="crashed", reason=status.reason or f"{where} ended without a word (killed, or out of memory?)")


def raw(folder: Path) -> Status:
    """The status as it was written. A missing file is a run that nobody has started."""
    record = disk.read_json(folder / NAME)
    if record is None:
        return Status() if not (folder / NAME).exists() else Status(state="failed", reason=f"{NAME} is not readable")
    return Status(**{key: value for key, value in record.items() if key in FIELDS and _fits(key, value)})


def _fits(key: str, value: Any) -> bool:
    """Whether a value is of its field's kind: someone may have edited the file, and one run must not end a list of them."""
    if key in ("state", "host", "reason"):
        return value is None or isinstance(value, str)
    if key == "lost":
        return value is None or isinstance(value, bool)
    return value is None or (key in _COUNTS and coerce.whole(value) == value) or (key not in _COUNTS and coerce.real(value) is not None)


def alive(status: Status) -> bool:
    """Whether the process that wrote this is still there: looked up on this host, judged by the heartbeat elsewhere."""
    if status.pid is None or status.host != lock.HOST:
        return status.silent_seconds < HEARTBEAT_SECONDS
    started = lock.started(status.pid)
    return started is not None and status.process_started in (None, started)


def write(folder: Path, status: Status) -> None:
    """Replace status.json at once, without the fields that say nothing."""
    values: dict[str, Any] = {name: getattr(status, name) for name in Status.__slots__}
    disk.write_json(folder / NAME, {key: value for key, value in values.items() if _says_something(value)})


def _says_something(value: Any) -> bool:
    # Not a number is not JSON either; scripts in other languages read this file.
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))
