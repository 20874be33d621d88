"""`import`: runs of other frameworks copied into the store, where they are listed, diagnosed and compared like our own."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rlclinic.actions import Action
from rlclinic.errors import RunError, UsageError
from rlclinic.report.models import Result, ResultPart
from rlclinic.runs.history import History
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store


class ImportedRun(ResultPart):
    """One run, and where it came from."""

    run: str
    group: str | None
    source: str
    """The framework: sb3, cleanrl, gymnasium-solver, tensorboard, csv or console."""
    path: str | None
    env: str | None
    algo: str | None
    seed: int | None
    env_steps: int
    metrics: int
    """How many series were found."""
    notes: list[str]
    """What was joined, guessed, converted or left out."""


class ImportResult(Result):
    """What was copied into the store."""

    path: str
    groups: list[str]
    runs: list[ImportedRun]
    next: list[Action]


def import_path(
    path: str,
    runs_dir: Path = Path("runs"),
    *,
    name: str | None = None,
    threshold: float | None = None,
    budget: int | None = None,
    mapping: Sequence[str] = (),
) -> ImportResult:
    """Copy every run that a folder or file of another framework holds ("-": a log on stdin). The folder itself is only read.

    Runs that differ in their seed only become one group. UsageError if one of them is in the store already.
    """
    from rlclinic import readers

    histories = readers.read(path, threshold=threshold, budget=budget, mapping=list(mapping))
    store = Store(runs_dir)
    _refuse_copies(histories, store)
    runs = readers.import_runs(histories, store, name=name)
    by_source = {(history.id, history.path): history for history in histories}
    rows = [_row(run, by_source[_key(run)]) for run in runs]
    groups = list(dict.fromkeys(row.group for row in rows if row.group))
    return ImportResult(path=path, groups=groups, runs=rows, next=[Action("diagnose", group) for group in groups[:3]])


def _row(run: Run, history: History) -> ImportedRun:
    return ImportedRun(
        run=run.id,
        group=run.group_id,
        source=history.source,
        path=str(history.path) if history.path is not None else None,
        env=history.env_id,
        algo=history.algo,
        seed=history.seed,
        env_steps=history.env_steps or 0,
        metrics=len(history.series),
        notes=list(history.notes),
    )


def _key(run: Run) -> tuple[str, Path | None]:
    source = run.record["source"]
    return source["id"], None if source["path"] is None else Path(source["path"])


def _refuse_copies(histories: Sequence[History], store: Store) -> None:
    """A run that is counted twice makes every statistic too sure of itself."""
    there = {path.resolve(): run for run, path in _sources(store.runs())}
    for history in histories:
        known = there.get(history.path.resolve()) if history.path is not None else None
        if known is not None:
            raise UsageError(
                f"{history.path} is in {store.root} already, as {known.id}.\n  A copy would be counted twice.\n  Look at it: ",
                Action("diagnose", known.group_id or known.id),
                "; to read it again, first: ",
                Action("runs rm", known.id),
            )


def _sources(runs: Iterable[Run]) -> Iterable[tuple[Run, Path]]:
    for run in runs:
        try:
            source = run.record.get("source")
        except RunError:
            continue  # a damaged run is no reason to refuse another
        if isinstance(source, dict) and isinstance(source.get("path"), str):
            yield run, Path(source["path"])
