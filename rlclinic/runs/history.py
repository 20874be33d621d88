"""What a run's log says, in one form whoever wrote it: settings by our dotted names, metrics by our names, env steps on the axis.

Diagnosis and comparison work on a `History`. `of_run` makes one from a run folder of ours; rlclinic.readers makes them from
the folders, files and console output of other frameworks.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlclinic import metrics
from rlclinic.errors import RlclinicError
from rlclinic.runs import control, lease, record
from rlclinic.runs.coerce import one_line, real, whole
from rlclinic.runs.goal import Goal, make_goal
from rlclinic.runs.metrics_file import table
from rlclinic.runs.record import Run

Column = NDArray[np.float64]

SOURCES: Final = (
    *("rlclinic", "sb3", "cleanrl", "gymnasium-solver", "rllib", "pufferlib", "tianshou", "skrl", "rsl_rl", "sample_factory", "d3rlpy"),
    *("wandb", "mlflow", "tensorboard", "csv", "console"),
)
STATES: Final = ("finished", "running", "stopped", "failed", "unknown")
LOG_TAIL_LINES: Final = 200
_STATES: Final = {"queued": "running", "crashed": "failed"}
_RESUMED: Final = re.compile(r"^.{0,40}\b(?:resume|extend|fork) from env step (\d+)", re.MULTILINE)
_SECTIONS: Final = ("spec", "env", "algo", "net", "data", "bonus", "cost", "curriculum", "run")  # as in config, which is slow to import


def _nothing() -> Column:
    return np.empty(0)


BY_USER: Final = ("interrupted", control.ASKED, lease.WITH_ITS_PROCESS)
"""Why a run stopped that its user knows."""


@dataclass(frozen=True, eq=False)
class Series:
    """One metric over env steps. Every number is finite; `steps` never fall."""

    steps: Column
    values: Column
    name: str
    """The column or tag that it was read from."""
    estimator: str = ""
    """How the source computed it, where that is not the metric dictionary's own way."""
    rounded: bool = False
    """Small numbers were rounded off in the source: 0 means "below print precision"."""
    broken: Column = field(default_factory=_nothing)
    """Env steps at which the source wrote NaN or infinity: evidence by itself, and left out of `values`."""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def last(self) -> float | None:
        return float(self.values[-1]) if len(self.values) else None


@dataclass(frozen=True, eq=False)
class History:
    """What is known of one run. None and absent keys mean that the source does not say."""

    id: str
    source: str
    """One of SOURCES."""
    path: Path | None = None
    env_id: str | None = None
    algo: str | None = None
    """ppo, a2c, reinforce, dqn, sac, td3, ..."""
    seed: int | None = None
    threshold: float | None = None
    success: float | None = None
    """The share of successful episodes that counts as solved; None: see `rlclinic.runs.goal`."""
    max_env_steps: int | None = None
    env_steps: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """By dotted name of our config: "algo.learning_rate" (a number, or a schedule as a dict), "env.n_envs". Only what the source says."""
    series: Mapping[str, Series] = field(default_factory=dict)
    """By canonical name. A series may be empty of values only if all of them were broken."""
    state: str = "unknown"
    """One of STATES."""
    reason: str | None = None
    """Why it stopped or failed."""
    segments: tuple[float, ...] = ()
    """Env steps at which it was restarted, resumed or changed by hand; a curve may jump there. In order."""
    log_tail: str = ""
    """The last lines that it printed."""
    notes: tuple[str, ...] = ()
    """What was joined, guessed, converted or skipped while reading."""
    derived: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    """What others have made of it, by what they call it, so that it is made once. A copy with other numbers begins with none."""

    @property
    def stopped_because(self) -> str | None:
        """Why it stopped by itself, in a line; None where it did not, or where its user asked for it."""
        by_itself = self.state == "stopped" and self.reason and self.reason not in BY_USER
        return str(self.reason).splitlines()[0].rstrip(".") if by_itself else None

    @property
    def goal(self) -> Goal:
        """What it is to reach."""
        return make_goal(self.env_id, self.threshold, self.success, whole(self.settings.get("run.eval_episodes")))

    def __getitem__(self, name: str) -> Series:
        return self.series[name]

    def __contains__(self, name: object) -> bool:
        return name in self.series


def make_series(steps: Any, values: Any, name: str, *, estimator: str = "", rounded: bool = False) -> Series | None:
    """A Series of whatever was logged: pairs without a finite step are dropped, broken values are set aside. None if nothing is left.

    Steps that fall are sorted (stably): where a falling step means a restart, the reader must have said so before.
    """
    at, numbers = np.asarray(steps, dtype=np.float64), np.asarray(values, dtype=np.float64)
    known = np.isfinite(at)
    if not known.all():
        at, numbers = at[known], numbers[known]
    if not len(at):
        return None
    if (at[1:] < at[:-1]).any():
        order = np.argsort(at, kind="stable")
        at, numbers = at[order], numbers[order]
    finite = np.isfinite(numbers)
    if finite.all():
        return Series(at, numbers, name, estimator, rounded)
    return Series(at[finite], numbers[finite], name, estimator, rounded, at[~finite])


def of_run(run: Run) -> History:
    """The history of one of our own runs, as its files are now. What is half written or damaged is left out, with a note.

    NotFound if the folder is no run.
    """
    notes: list[str] = []
    about = _record(run, notes)
    status = run.status
    found = run.metrics
    if found.skipped:
        notes.append(f"{found.skipped} damaged lines of {record.METRICS} were left out")
    source = _section(about, "source")
    if (cut := record.describe_cut(status, found)) and not source:
        notes.append(cut)
    spec, limits = _section(about, "spec"), _section(about, "run")
    log = run.log
    return History(
        id=run.id,
        source=str(source.get("framework", "rlclinic")),
        path=run.path,
        env_id=one_line(_section(about, "env").get("id")),
        algo=one_line(_section(about, "algo").get("name")),
        seed=whole(about.get("seed")),
        threshold=real(spec.get("threshold")),
        success=real(spec.get("success")),
        max_env_steps=whole(limits.get("max_env_steps")) or whole(status.max_env_steps),
        env_steps=_env_steps(status.env_steps, found),
        settings=dotted(record.settings(about)) | _spaces(about),
        series=_series(found, source),
        state=str(source.get("state") or _STATES.get(status.state, status.state)),
        reason=status.reason,
        segments=_segments(run, log, source),
        log_tail=tail(log),
        notes=(*(str(note) for note in _list(source.get("notes"))), *notes),
    )


def _spaces(about: Mapping[str, Any]) -> dict[str, Any]:
    """What training has recorded of the environment: bounds of continuous actions, how many numbers are observed and how many are yes or
    no, which terms of the reward are potentials; and how it began, where it continues another run."""
    engine = _section(about, "engine")
    action = _section(engine, "action")
    low, high, flags = real(action.get("low")), real(action.get("high")), real(engine.get("obs_flags"))
    bounds: dict[str, Any] = {} if low is None or high is None else {"about.action_low": low, "about.action_high": high}
    if (discount := real(engine.get("potential_gamma"))) is not None:
        bounds |= {"about.potential_gamma": discount, "about.potentials": [str(name) for name in _list(engine.get("potentials"))]}
    shape = engine.get("obs_shape")
    size = real(shape[0]) if isinstance(shape, list) and len(shape) == 1 else None
    bounds |= {} if not about.get("start") else {"about.start": one_line(about["start"])}
    return bounds | {f"about.obs_{name}": value for name, value in (("flags", flags), ("size", size)) if value is not None}


def dotted(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings nested as in YAML, by dotted name. Schedules and other values that are mappings themselves stay whole."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if key in _SECTIONS and isinstance(value, Mapping):
            found |= {f"{key}.{name}": inner for name, inner in value.items()}
        else:
            found[key] = value
    return found


def group_by_config(histories: Sequence[History]) -> list[list[History]]:
    """Runs that differ in their seed only belong together: what they agree on is no accident."""
    groups: dict[str, list[History]] = {}
    for history in histories:
        settings = {key: value for key, value in history.settings.items() if key not in ("seed", "name")}
        key = json.dumps([history.source, history.env_id, history.algo, settings], sort_keys=True, default=str)
        groups.setdefault(key, []).append(history)
    return list(groups.values())


def tail(log: str) -> str:
    """The last lines of a log."""
    return "\n".join(log.rstrip("\n").rsplit("\n", LOG_TAIL_LINES)[-LOG_TAIL_LINES:])


def _record(run: Run, notes: list[str]) -> dict[str, Any]:
    try:
        # Read again: training adds to it what it found out about the environment, after the run was opened.
        return Run(run.path).record
    except RlclinicError:
        if not (run.path / record.CONFIG).exists():
            raise
        notes.append(f"{record.CONFIG} cannot be read: the settings are unknown")
        return {}


def _section(about: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = about.get(name)
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _env_steps(reported: Any, found: table.Table) -> int:
    """The larger of what the status and the table say: the one or the other may be a moment older."""
    logged = found[table.STEPS] if table.STEPS in found else _nothing()
    logged = logged[np.isfinite(logged)]
    return max(whole(reported) or 0, int(logged.max()) if len(logged) else 0)


def _series(found: table.Table, source: Mapping[str, Any]) -> dict[str, Series]:
    """Every column with a number in it; an imported run also knows what its columns were called and how they were made."""
    origin = _section(source, "series")
    series = {}
    logged = np.asarray((~found.blank).any(axis=0))
    for name, written in zip(found.names, logged, strict=True):
        if name == table.STEPS or not written or metrics.find(name) is None:
            continue
        more = _section(origin, name)
        steps, values = found.series(name)
        made = make_series(
            steps, values, str(more.get("name", name)), estimator=str(more.get("estimator", "")), rounded=bool(more.get("rounded"))
        )
        if made is not None:
            series[name] = made
    return series


def _segments(run: Run, log: str, source: Mapping[str, Any]) -> tuple[float, ...]:
    """Resumes as run.log tells them, changes of numbers, and what an imported run brought along."""
    resumed = [float(match) for match in _RESUMED.findall(log)]
    changed = [change.get("env_steps") for change in run.interventions]
    known = [*resumed, *changed, *_list(source.get("segments"))]
    return tuple(sorted({step for given in known if (step := real(given)) is not None}))
