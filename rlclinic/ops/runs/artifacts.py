"""Runs and an object store: putting there what is new, and bringing runs to this machine to go on with them."""

from collections.abc import Sequence
from pathlib import Path

from rlclinic.errors import UsageError
from rlclinic.report.models import Result
from rlclinic.runs.object_store import artifacts
from rlclinic.runs.record import Checkpoint, Group, Run
from rlclinic.runs.store import Store


class Pushed(Result):
    """What was put into an object store."""

    artifacts: str
    items: list[str]
    """Runs and groups that had something new."""
    looked_at: int


class Pulled(Result):
    """What was brought from an object store."""

    artifacts: str
    items: list[str]


def push_artifacts(targets: Sequence[str] = (), runs_dir: Path = Path("runs")) -> Pushed:
    """Put what is new of runs and groups into the object store; without a name, of all."""
    store = Store(runs_dir)
    items: list[Run | Group] = []
    for target in targets:
        selected = store.resolve(target)
        owner = selected.run if isinstance(selected, Checkpoint) else selected
        items += [*owner.runs, owner] if isinstance(owner, Group) else [owner]
    if not targets:
        items = [*store.runs(), *store.groups()]
    return Pushed(artifacts=_named(), items=artifacts.push(items), looked_at=len(items))


def pull_artifacts(ids: Sequence[str], runs_dir: Path = Path("runs")) -> Pulled:
    """Bring runs and groups whole to this machine: to look at, to play, to go on with."""
    return Pulled(artifacts=_named(), items=artifacts.pull(Store(runs_dir), ids))


def _named() -> str:
    if (named := artifacts.url()) is None:
        raise UsageError(
            f"no object store is named.\n  There is nowhere to put anything, or to read it from.\n"
            f"  Type: export {artifacts.VARIABLE}=s3://BUCKET/PREFIX"
        )
    return named
