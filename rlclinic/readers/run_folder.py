"""Our own run folders, groups, and stores."""

from pathlib import Path

from rlclinic.actions import Action
from rlclinic.errors import NotFound
from rlclinic.readers.options import Options
from rlclinic.runs import disk, history
from rlclinic.runs.history import History
from rlclinic.runs.record import CONFIG, GROUP, GROUPS, METRICS, Group, Run
from rlclinic.runs.store import Store


def matches(path: Path) -> bool:
    """A run, its metrics.csv, a group, or a folder of runs that has groups."""
    if path.is_file():
        return path.name == METRICS and _is_run(path.parent)
    return _is_run(path) or (path / GROUP).is_file() or (path / GROUPS).is_dir()


def read(path: Path, options: Options) -> list[History]:
    """The run, every run of the group, or every run of the store."""
    folder = path.parent if path.is_file() else path
    if _is_run(folder):
        runs = [Run(folder)]
    elif (folder / GROUP).is_file():
        runs = Group(folder).runs
    else:
        runs = Store(folder).runs()
    if not runs:
        raise NotFound(f"{path} has no runs.\n  Start something: ", Action("train", "CartPole-v1:ppo"))
    return [history.of_run(run) for run in runs]


def _is_run(folder: Path) -> bool:
    if (folder / "metrics").is_dir() and not (folder / METRICS).exists():
        return False  # what was exported for a hub: a policy with the config of its run, and each run's rows below it
    record = disk.read_json(folder / CONFIG)
    return record is not None and "schema_version" in record
