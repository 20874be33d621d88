"""Which files of a folder tree belong to one run of SB3.

SB3 writes what it is told to where it is told to: the log, the monitors, the evaluations and TensorBoard's events of one run
may lie in one folder, in folders side by side (`monitor/`, `eval/`, `tb/`), or (rl-zoo3) in two trees. A part of the tree is one
run if no kind of file occurs in two of its folders and the folders are called what parts of a run are called; otherwise its
subfolders are looked at one by one. What then still lacks a log is joined with the event files that were begun when it started.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rlclinic.readers import episodes, sb3_settings, sidecar, tensorboard
from rlclinic.readers.trackers import tfevents

MAX_DEPTH: Final = 6
MAX_FOLDERS: Final = 5_000
MAX_MONITORS: Final = 1_024
JOIN_SECONDS: Final = 600.0
"""Events and monitors of one run are begun within this time."""
_PROGRESS: Final = ("progress.csv", "progress.json")
_TEXTS: Final = ("log.txt", "console.txt", "stdout.txt", "output.log", "train.log", "console.log")
_PART: Final = re.compile(
    r"(.*[_-])?(monitors?|evals?|evaluations?|tb|tensorboard|logs?|csv|progress|results?|train|training|events?|stats|metrics|models?|checkpoints?)"
    r"([_-](logs?|data|results?|env|envs|files))?"
)
"""What folders with a part of a run are called."""
MAX_SIBLINGS: Final = 64
_EVENT_TIME: Final = re.compile(r"tfevents\.(\d{9,11})\b")


@dataclass
class Files:
    """The files of one run."""

    root: Path
    progress: list[Path] = field(default_factory=list)
    monitors: list[Path] = field(default_factory=list)
    evaluations: list[Path] = field(default_factory=list)
    events: list[Path] = field(default_factory=list)
    configs: list[Path] = field(default_factory=list)
    """Folders with rl-zoo3's config.yml and args.yml."""
    models: list[Path] = field(default_factory=list)
    texts: list[Path] = field(default_factory=list)
    sentinel_files: list[Path] = field(default_factory=list)
    """Settings that rlclinic's callback wrote."""

    @property
    def logged(self) -> bool:
        return bool(self.progress or self.monitors or self.evaluations or self.events)

    @property
    def everything(self) -> list[Path]:
        """In the order in which a report names them."""
        logs = [*self.progress, *self.events, *self.evaluations, *self.monitors]
        return [*logs, *self.configs, *self.models, *self.texts, *self.sentinel_files]

    def take(self, other: "Files") -> None:
        for kind in KINDS:
            getattr(self, kind).extend(getattr(other, kind))

    def holds(self, path: Path) -> bool:
        return any(path == file for file in self.everything)


KINDS: Final = ("progress", "monitors", "evaluations", "events", "configs", "models", "texts", "sentinel_files")
_LOGS: Final = ("progress", "monitors", "evaluations", "events")


@dataclass
class _Node:
    """One folder with what lies in it and below it."""

    files: Files
    children: list["_Node"] = field(default_factory=list)

    def below(self) -> Iterator[Files]:
        yield self.files
        for child in self.children:
            yield from child.below()


def find_runs(path: Path) -> list[Files]:
    """The runs in a folder tree, in order of their paths."""
    found = list(_split_runs(_read_tree(path)))
    return _join_by_time(found) if len(found) > 1 else found


def _read_tree(path: Path) -> _Node:
    nodes: dict[Path, _Node] = {}
    for root, below, names in os.walk(path):
        folder = Path(root)
        below[:] = sorted(name for name in below if not name.startswith("."))
        if len(folder.relative_to(path).parts) >= MAX_DEPTH or len(nodes) >= MAX_FOLDERS:
            below.clear()
        nodes[folder] = _Node(_sort_files(folder, sorted(names)))
        if folder != path:
            nodes[folder.parent].children.append(nodes[folder])
    return nodes.get(path) or _Node(Files(path))


def _sort_files(folder: Path, names: list[str]) -> Files:
    found = Files(folder)
    for name in names:
        path = folder / name
        if name in _PROGRESS:
            found.progress.append(path)
        elif name.endswith(episodes.MONITOR):
            found.monitors.append(path)
        elif name == episodes.EVALUATIONS:
            found.evaluations.append(path)
        elif tfevents.NAME in name:
            found.events.append(path)
        elif name.endswith(".zip"):
            found.models.append(path)
        elif name in _TEXTS:
            found.texts.append(path)
        elif name == sidecar.SENTINEL_FILE:
            found.sentinel_files.append(path)
    if sb3_settings.CONFIG in names and sb3_settings.ARGUMENTS in names:
        found.configs.append(folder)
    # 10.monitor.csv comes after 9.monitor.csv.
    found.monitors = sorted(found.monitors, key=lambda path: (len(path.name), path.name))[:MAX_MONITORS]
    return found


def _split_runs(node: _Node) -> Iterator[Files]:
    if _is_one_run(node):
        whole = _collect(node)
        if whole.logged:
            yield whole
        return
    own = node.files
    for child in node.children:
        inner = list(_split_runs(child))
        if own.logged and len(inner) <= 1 and _is_part_of(child, own):
            # A folder with settings only, as rl-zoo3 makes one below the run, or with a part that the run lacks.
            own.take(_collect(child))
        else:
            yield from inner
    if own.logged:
        yield own


def _collect(node: _Node) -> Files:
    files = Files(node.files.root)
    for part in node.below():
        files.take(part)
    return files


def _is_one_run(node: _Node) -> bool:
    parts = list(node.below())
    if any(sum(bool(getattr(part, kind)) for part in parts) > 1 for kind in _LOGS):
        return False
    strangers = [child for child in node.children if _collect(child).logged and not _PART.fullmatch(child.files.root.name.lower())]
    return len(strangers) <= (0 if node.files.logged else 1)


def _is_part_of(child: _Node, own: Files) -> bool:
    found = _collect(child)
    if not found.logged:
        return True
    return bool(_PART.fullmatch(child.files.root.name.lower())) and not any(getattr(found, kind) and getattr(own, kind) for kind in _LOGS)


def add_siblings(files: Files) -> Files:
    """The run that a part of a run (a folder with monitors or evaluations only) belongs to, if it lies beside the rest of it."""
    parent = files.root.parent
    if files.progress or files.events or not _PART.fullmatch(files.root.name.lower()) or _is_crowded(parent):
        return files
    whole = [other for other in find_runs(parent) if all(other.holds(file) for file in [*files.monitors, *files.evaluations])]
    return whole[0] if whole else files


def _is_crowded(folder: Path) -> bool:
    """Not the folder of a run: a home folder, or one for everything."""
    try:
        return len(list(folder.iterdir())) > MAX_SIBLINGS
    except OSError:
        return True


def _join_by_time(found: list[Files]) -> list[Files]:
    """Give event files without anything else to the run that was started just before them and has no log."""
    waiting = [files for files in found if not files.progress and not files.events and files.monitors]
    events = [files for files in found if files.events and not (files.progress or files.monitors or files.evaluations)]
    for files in waiting:
        started = find_start(files)
        fitting = [(age, other) for other in events if (age := _compute_age(other, started)) is not None]
        if fitting:
            nearest = min(fitting, key=lambda pair: pair[0])[1]
            files.take(nearest)
            events.remove(nearest)
            found.remove(nearest)
    return found


def find_start(files: Files) -> float | None:
    """Unix seconds at which the newest of a run's monitors was opened."""
    starts = [start for path in files.monitors if (start := episodes.read_start_time(path)) is not None]
    return max(starts, default=None)


def _compute_age(files: Files, started: float | None) -> float | None:
    times = [float(match[1]) for path in files.events if (match := _EVENT_TIME.search(path.name))]
    if started is None or not times:
        return None
    age = min(times) - started
    return abs(age) if -5.0 <= age <= JOIN_SECONDS else None


def find_events_elsewhere(files: Files, notes: list[str]) -> list[Path]:
    """Event files in the other tree that rl-zoo3 was told to use, if they were begun when this run was."""
    for folder in files.configs:
        place = sb3_settings.find_tensorboard_folder(folder, notes)
        if place is None:
            continue
        for ancestor in list(folder.parents)[:6]:
            if (ancestor / place).is_dir():
                candidates = [Files(path, events=found) for path, found in tensorboard.find_folders(ancestor / place).items()]
                started = find_start(files)
                fitting = [(age, other.events) for other in candidates if (age := _compute_age(other, started)) is not None]
                if fitting:
                    return min(fitting, key=lambda pair: pair[0])[1]
    return []
