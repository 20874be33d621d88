"""One run or group as a page shows it, and what its newest checkpoint holds."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rlclinic import plain_files
from rlclinic.actions import Action
from rlclinic.config import describe
from rlclinic.diagnosis.checkpoints import inspect_run
from rlclinic.diagnosis.checkpoints.inspect_run import Inspection
from rlclinic.errors import NotFound, RlclinicError
from rlclinic.ops.runs.listing import list_checkpoints
from rlclinic.ops.runs.requests import MOST_LOG_BYTES, TagRequest
from rlclinic.report.group import describe_group
from rlclinic.report.models import CheckpointRow, GroupReport, Result, ResultPart, State, state_of
from rlclinic.runs import coerce, history, notes
from rlclinic.runs.listed import describe_run
from rlclinic.runs.metrics_file import rows
from rlclinic.runs.record import METRICS, Checkpoint, Group, Run, settings
from rlclinic.runs.store import Store

APPLIED: Final = "train/hp/"
"""Columns of the numbers that an iteration used."""


class NotesView(Result):
    """What people keep about a run or a group."""

    id: str
    tags: list[str]
    note: str


class TagResult(Result):
    """Runs and groups whose tags were set."""

    of: list[str]
    changed: list[str]
    """Those that did not have them so."""


class CurrentNumber(ResultPart):
    """What a number of the algorithm was in the last row of each run: schedules and changes while it ran included."""

    low: float
    high: float
    """Lowest and highest over runs; equal for one run."""
    changed_at: int | None
    """The env step at which somebody last changed it while it ran; None: nobody did."""


class RunDetail(Result):
    """One run: what it was asked to do, how it stands, what it kept."""

    id: str
    group: str | None
    name: str
    env: str
    algo: str
    seed: int
    state: State
    reason: str | None
    created: float
    started: float | None
    heartbeat: float
    """Unix seconds."""
    resumes: int
    env_steps: int
    max_env_steps: int | None
    return_mean: float | None
    eval_mean: float | None
    best_eval: float | None
    threshold: float | None
    threshold_reached_at: int | None
    lost: bool | None
    """It reached the threshold, and ended clearly below it; None: not known."""
    success_rate: float | None
    """Of the last evaluation; None where the environment reports no success."""
    steps_per_second: float | None
    episodes: int | None
    parent: str | None
    prescription: str | None
    trial: str | None
    tags: list[str]
    note: str
    config: dict[str, Any]
    origins: dict[str, str]
    """By dotted setting: where its value came from."""
    derived: dict[str, Any]
    """Numbers that follow from the config; empty for imported runs."""
    versions: dict[str, Any]
    engine: Any
    interventions: list[dict[str, Any]]
    current: dict[str, CurrentNumber]
    """By setting: algo.learning_rate and so on."""
    checkpoints: list[CheckpointRow]


class GroupDetail(Result):
    """A group: its report with every seed's curve and the band over them, and what its config is made of."""

    report: GroupReport
    label: str | None
    created: float
    trial: str | None
    prescription: str | None
    source: str | None
    tags: list[str]
    note: str
    origins: dict[str, str]
    derived: dict[str, Any]
    current: dict[str, CurrentNumber]
    """By setting: algo.learning_rate and so on."""
    files: list[str]
    """Result files that can be fetched: report.md, curve.png, solution.yaml, …"""


class LogPage(Result):
    """A part of a run's log, by bytes."""

    run: str
    lines: list[str]
    start: int
    """The byte that `lines` begin at; ask `before` it for what comes before."""
    end: int
    """The byte after them; ask `after` it for what comes next."""
    size: int


def run_detail(run: Run) -> RunDetail:
    """Everything about a run but its series."""
    listed, kept = describe_run(run), notes.read(run.path)
    return RunDetail(
        **listed.pick(RunDetail.model_fields.keys() - {"state"}),
        state=state_of(listed.state),
        prescription=coerce.text(run.record.get("prescription")),
        tags=list(kept.tags),
        note=kept.note,
        config=settings(run.record),
        origins=_origins(run),
        derived=_derived(run),
        versions=run.record.get("versions") or {},
        engine=run.record.get("engine"),
        interventions=run.interventions,
        current=_current([run]),
        checkpoints=list_checkpoints(run.id, run.path.parent).checkpoints,
    )


def group_detail(group: Group) -> GroupDetail:
    """Everything about a group."""
    kept, source = notes.read(group.path), group.record.get("source")
    return GroupDetail(
        report=describe_group(group),
        label=group.label,
        created=group.created,
        trial=coerce.text(group.record.get("trial")),
        prescription=coerce.text(group.record.get("prescription")),
        source=coerce.text(source.get("framework")) if isinstance(source, dict) else None,
        tags=list(kept.tags),
        note=kept.note,
        origins=_origins(group),
        derived=_derived(group),
        current=_current(group.runs),
        files=sorted(file.name for file in group.path.iterdir() if file.is_file() and not file.name.startswith(".")),
    )


def read_log(run: Run, *, after: int | None = None, before: int | None = None, most_bytes: int = 65_536) -> LogPage:
    """Whole lines of a run's log: its end, what came `after` a byte, or what lies `before` one."""
    most_bytes = min(most_bytes, MOST_LOG_BYTES)
    path = run.path / "run.log"
    try:
        with plain_files.open_plain(path) as file:
            size = path.stat().st_size
            end = size if before is None else min(before, size)
            start = min(after, size) if after is not None else max(0, end - most_bytes)
            file.seek(start)
            block = file.read(min(most_bytes, end - start if after is None else most_bytes))
    except FileNotFoundError:
        return LogPage(run=run.id, lines=[], start=0, end=0, size=0)
    # Beginnings and ends of lines that the window cuts belong to another page.
    skipped = block.find(b"\n") + 1 if after is None and start > 0 else 0
    whole = block[skipped : block.rfind(b"\n") + 1]
    text = whole.decode("utf-8", errors="replace")
    return LogPage(run=run.id, lines=text.splitlines(), start=start + skipped, end=start + skipped + len(whole), size=size)


def annotate(selector: str, runs_dir: Path = Path("runs"), *, tags: list[str] | None = None, note: str | None = None) -> NotesView:
    """Replace the tags or the note of a run or group; None leaves them as they are."""
    selected = Store(runs_dir).resolve(selector)
    owner = selected.run if isinstance(selected, Checkpoint) else selected
    old = notes.read(owner.path)
    new = notes.Notes(old.tags if tags is None else tuple(sorted(set(tags))), old.note if note is None else note)
    notes.write(owner.path, new)
    return NotesView(id=owner.id, tags=list(new.tags), note=new.note)


def tag(request: TagRequest) -> TagResult:
    """Add tags to runs or groups, or take them away. All names are resolved before anything is written."""
    store = Store(request.runs_dir)
    selected = [store.resolve(selector) for selector in request.of]
    owners = {owner.path: owner for named in selected for owner in [named.run if isinstance(named, Checkpoint) else named]}
    changed = []
    for owner in owners.values():
        old = notes.read(owner.path)
        new = replace(old, tags=tuple(sorted((set(old.tags) | set(request.add)) - set(request.remove))))
        if new != old:
            notes.write(owner.path, new)
            changed.append(owner.id)
    return TagResult(of=[owner.id for owner in owners.values()], changed=changed)


def _origins(owner: Run | Group) -> dict[str, str]:
    origins = owner.record.get("origins")
    return {str(key): str(value) for key, value in origins.items()} if isinstance(origins, dict) else {}


def _derived(owner: Run | Group) -> dict[str, Any]:
    try:
        return describe(owner.config)
    except RlclinicError:
        # Imported, or written by another version: what is known of it is shown all the same.
        return {}


def _current(runs: Sequence[Run]) -> dict[str, CurrentNumber]:
    applied: dict[str, list[float]] = {}
    changed: dict[str, int] = {}
    for run in runs:
        for column, value in rows.latest(run.path / METRICS).items():
            if column.startswith(APPLIED) and math.isfinite(value):
                applied.setdefault(f"algo.{column.removeprefix(APPLIED)}", []).append(value)
        for intervention in run.interventions:
            if isinstance(intervention.get("set"), dict):
                changed |= {f"algo.{str(key).removeprefix('algo.')}": int(intervention.get("env_steps", 0)) for key in intervention["set"]}
    return {name: CurrentNumber(low=min(each), high=max(each), changed_at=changed.get(name)) for name, each in sorted(applied.items())}


class InspectionReport(Result):
    """An inspection of saved weights."""

    inspection: Inspection


def inspect_checkpoints(selector: str = "@last", runs_dir: Path = Path("runs")) -> InspectionReport:
    """The newest checkpoint of a run, or a .safetensors file of anyone's. NotFound if nothing was saved."""
    path = Path(selector)
    if path.is_file():
        return InspectionReport(inspection=inspect_run.inspect_file(path))
    run = Store(runs_dir).run(selector)
    inspection = inspect_run.inspect(run, history.of_run(run))
    if inspection is None:
        raise NotFound(
            f"run {run.id} has no checkpoint yet.\n  There is nothing to inspect.\n  See how far it is: ", Action("status", run.id)
        )
    return InspectionReport(inspection=inspection)
