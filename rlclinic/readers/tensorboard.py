"""TensorBoard folders: CleanRL's, SB3's, and those of other frameworks whose tags are known."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from rlclinic.actions import Argument
from rlclinic.errors import RlclinicError, UsageError
from rlclinic.readers import csv_jsonl, hyperparameters, metric_aliases, rllib, sidecar
from rlclinic.readers.metric_aliases import Framework
from rlclinic.readers.options import Options
from rlclinic.readers.raw_log import RawLog
from rlclinic.readers.trackers import tagged_logs, tfevents
from rlclinic.runs.history import History

MAX_TAGS: Final = 4_096
MAX_DEPTH: Final = 6
MAX_FOLDERS: Final = 2_000
_FLUSH: Final = 8_192
_TEXTS: Final = ("hyperparameters", "args", "config", "hparams", "params", "arguments", "cfg", "settings")
"""What scripts call the text with their settings."""
_CUT: Final = ("ray/tune/",)


@dataclass
class Events:
    """What the event files of one run hold."""

    raw_log: RawLog
    texts: dict[str, str] = field(default_factory=dict)
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def matches(path: Path) -> bool:
    """An event file, or a folder with one in it or below it."""
    return tfevents.is_event_file(path) if path.is_file() else bool(find_folders(path))


def read(path: Path, options: Options) -> list[History]:
    """A history for every folder that has event files of its own."""
    if path.is_file():
        return [read_run(path.parent, [path], options)]
    found = [
        _read_tune_trial(folder, options) or read_run(folder, files, options, required=False)
        for folder, files in find_folders(path).items()
    ]
    kept = [history for history in found if history.series]
    if not kept and found:
        raise _make_error(path, found)
    return kept


def _read_tune_trial(folder: Path, options: Options) -> History | None:
    """A trial of Ray Tune by its rows, which have all that its events have, and env steps; None if there are none."""
    if not (folder / rllib.FILE).is_file():
        return None
    try:
        return csv_jsonl.read(folder / rllib.FILE, options)[0]
    except RlclinicError:
        return None


def find_folders(path: Path) -> dict[Path, list[Path]]:
    """Event files by run. What lies below a folder with event files belongs to it: writers make such folders for hyperparameters."""
    runs: dict[Path, list[Path]] = {}
    for count, (root, below, names) in enumerate(os.walk(path)):
        folder = Path(root)
        below[:] = sorted(name for name in below if not name.startswith(".") or name == sidecar.SUMMARY)
        if len(folder.relative_to(path).parts) >= MAX_DEPTH or count > MAX_FOLDERS:
            below.clear()
        files = [folder / name for name in sorted(names) if tfevents.NAME in name]
        if files:
            owner = next((parent for parent in folder.parents if parent in runs), folder)
            runs.setdefault(owner, []).extend(files)
    return runs


def read_events(files: Iterable[Path], episodic: Iterable[str] = ()) -> Events:
    """Every scalar of some event files, one after the other, as one log."""
    events = Events(RawLog(metric_aliases.EPISODIC | frozenset(episodic)))
    buffers: dict[str, tuple[list[int], list[int], list[float]]] = {}
    order = 0
    for file in files:
        for item in tfevents.read_items(file, events.notes):
            if isinstance(item, tfevents.Scalar):
                buffer = buffers.get(item.tag)
                if buffer is None:
                    if len(buffers) >= MAX_TAGS:
                        continue
                    buffer = buffers[item.tag] = ([], [], [])
                buffer[0].append(order)
                buffer[1].append(item.step)
                buffer[2].append(item.value)
                order += 1
                if len(buffer[0]) >= _FLUSH:
                    _flush(events.raw_log, item.tag, buffer)
            elif isinstance(item, tfevents.Text):
                events.texts.setdefault(item.tag.removesuffix("/text_summary"), item.text)
            else:
                events.hyperparameters |= item.values
    for tag, buffer in buffers.items():
        _flush(events.raw_log, tag, buffer)
    if len(buffers) >= MAX_TAGS:
        events.notes.append(f"only the first {MAX_TAGS:,} tags were read")
    return events


def _flush(raw_log: RawLog, tag: str, buffer: tuple[list[int], list[int], list[float]]) -> None:
    if buffer[0]:
        name = next((tag.removeprefix(cut) for cut in _CUT if tag.startswith(cut)), tag)
        raw_log.add_points(name, *(np.array(column, dtype=np.float64) for column in buffer))
        for column in buffer:
            column.clear()


def read_run(folder: Path, files: list[Path], options: Options, *, required: bool = True) -> History:
    """The history in the event files of one folder."""
    events = read_events(files, options.episodic)
    names = events.raw_log.names
    settings, notes = find_settings(events, folder, metric_aliases.recognize(names))
    if (folder / sidecar.SENTINEL_FILE).is_file():
        settings |= sidecar.read_sentinel_file(folder / sidecar.SENTINEL_FILE, notes).settings
    if len(files) > 1:
        events.notes.insert(0, f"{len(files)} event files of {folder.name} were joined")
    made = tagged_logs.make_history(
        sidecar.find_run_folder(folder).name, "tensorboard", folder, events.raw_log, settings, options, notes=notes, last_notes=events.notes
    )
    if required and not made.series:
        raise _make_error(folder, [made], names)
    return made


def find_settings(events: Events, folder: Path, framework: Framework | None) -> tuple[dict[str, Any], list[str]]:
    """Hyperparameters from the text or the plugin that holds them, and from CleanRL's folder name."""
    table = next((found for name in _TEXTS if (found := hyperparameters.parse_written(events.texts.get(name, "")))), {})
    settings, notes = tagged_logs.translate_settings(table, folder.name), []
    if events.hyperparameters:
        settings = {**hyperparameters.translate_usual(events.hyperparameters), **settings}
        notes.append("settings from TensorBoard's hyperparameters")
    if framework is not None and framework.source == "cleanrl" and "algo.vf_coef" in settings:
        notes.append("CleanRL logs half the squared error as value loss: doubled here; algo.vf_coef is as you wrote it")
    return settings, notes


def _make_error(path: Path, found: list[History], names: Iterable[str] = ()) -> UsageError:
    seen = sorted(names)[:8]
    notes = "; ".join(found[0].notes) if found else ""
    what = f"its tags are {', '.join(seen)}" if seen else notes or "it holds no scalars"
    return UsageError(
        f"{path}: no tag is known as a metric ({what}).\n  Nothing can be said about the run.\n  Say which tag is which: ",
        Argument("map", "return=TAG"),
        " ",
        Argument("map", "kl=TAG"),
    )
