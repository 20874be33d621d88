"""Stable-Baselines3 and rl-zoo3: every file of a run, joined."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from rlclinic.errors import UsageError
from rlclinic.readers import (
    assembling,
    console,
    episodes,
    hyperparameters,
    lines,
    metric_aliases,
    rows,
    sb3_tree,
    tensorboard,
    testimony,
    zoo,
)
from rlclinic.readers.csv_jsonl import table_blocks
from rlclinic.readers.options import Options
from rlclinic.readers.recording import Recording
from rlclinic.readers.sb3_tree import Files
from rlclinic.runs.coerce import whole
from rlclinic.runs.history import History, Series

STEPS: Final = "time/total_timesteps"
_TAIL_BYTES: Final = 65_536
_EVENT_BYTES: Final = 32 << 20
"""Beside a CSV log, event files are read for what else they hold; more than this is not worth the wait."""


def matches(path: Path) -> bool:
    """A folder or a file of SB3's, other than event files alone (they are read as any TensorBoard folder)."""
    if path.is_file():
        return _is_ours(path)
    return any(_is_ours(file) for files in sb3_tree.runs(path) for file in [*files.progress, *files.monitors, *files.evaluations])


def _is_ours(path: Path) -> bool:
    """A progress.csv may be anybody's: SB3's has sections in its column names."""
    if path.name in ("progress.csv", "progress.json"):
        return b"time/total_timesteps" in lines.head(path)
    return path.name == episodes.EVALUATIONS or episodes.is_monitor(path)


def read(path: Path, options: Options) -> list[History]:
    """A history for every run in a tree; for a file, of the run that it belongs to."""
    if path.is_file():
        folder = path.parent
        found = [files for files in sb3_tree.runs(folder) if files.holds(path)] or [_alone(path)]
    else:
        folder = path
        found = sb3_tree.runs(path)
        if not found and (path / zoo.CONFIG).is_file():
            found = sb3_tree.runs(path.parent)
    found = [sb3_tree.with_siblings(found[0])] if len(found) == 1 else found
    histories = [history for files in found if (history := _read_run(files, options, folder)) is not None]
    if not histories:
        raise UsageError(
            f"{path}: its files hold no numbers (yet).\n  Nothing can be said about it.\n  Wait for the first rows, or give another folder"
        )
    return histories


def _alone(path: Path) -> Files:
    files = Files(path.parent)
    (files.progress if path.name.startswith("progress.") else files.monitors).append(path)
    return files


def _read_run(files: Files, options: Options, folder: Path) -> History | None:
    notes: list[str] = []
    if not files.progress and not files.events:
        files.events.extend(sb3_tree.events_elsewhere(files, notes))
    settings = _settings(files, notes)
    told = testimony.read(files.testimonies[-1], notes) if files.testimonies else testimony.Testimony()
    settings |= told.settings
    found = episodes.monitors([path for path in files.monitors if episodes.is_monitor(path)])
    notes += found.notes
    told_by_monitors = {"env.id": found.env_id, "env.n_envs": found.n_envs or found.silent}
    settings = {name: value for name, value in told_by_monitors.items() if value} | settings
    main, events = _main(files, options, notes)
    names = main.names
    algo = assembling.algorithm(
        settings.get("algo.name"), files.root.name, files.root.parent.name, *(path.parent.name for path in files.events)
    )
    algo = hyperparameters.agreed(algo, names)
    series = main.series(options.table(metric_aliases.SB3.table(algo)), settings)
    if events is not None:
        series = {**events.series(options.table(metric_aliases.SB3.table(algo)), settings), **series}
    series = _with_evaluations(files, series, main, notes)
    if found.n_envs:
        found.recording.align(main)
        series = {**found.recording.series(episodes.MONITOR_TAGS, settings), **series}
    if not series:
        return None
    if found.silent:
        series = _silence(series) | series
    assembling.rollout(main, settings, algo)
    recording = main if len(main) else found.recording
    joined = _joined(files, folder)
    if joined:
        notes.insert(0, joined)
    history = assembling.assemble(
        *(files.root.name, "sb3", files.root, recording, series, settings),
        algo=algo,
        notes=notes,
        log=_log(files),
        env_steps=_env_steps(series),
    )
    return replace(history, state="failed", reason=told.broken) if told.broken and history.state == "unknown" else history


def _silence(series: dict[str, Series]) -> dict[str, Series]:
    """The monitors were open all the time: that no episode is in them is something they say."""
    steps = _env_steps(series)
    return {} if steps is None else {"total_episodes": Series(np.array([0.0, steps]), np.zeros(2), "monitor files")}


def _env_steps(series: dict[str, Series]) -> int | None:
    ends = [float(found.steps[-1]) for found in series.values() if len(found)]
    return whole(max(ends, default=None))


def _settings(files: Files, notes: list[str]) -> dict[str, Any]:
    """From the newest model, and over it from rl-zoo3's files."""
    settings: dict[str, Any] = {}
    models = [path for path in files.models if zoo.is_model(path)]
    if models:
        settings |= zoo.model_settings(models[-1], notes)
    for folder in files.configs:
        settings |= zoo.settings(folder, notes)
    return settings


def _main(files: Files, options: Options, notes: list[str]) -> tuple[Recording, Recording | None]:
    """The log with the training metrics (CSV, then JSON, then the console), and the event files, which may have more tags."""
    large = files.progress and sum(path.stat().st_size for path in files.events) > _EVENT_BYTES
    if large:
        notes.append("the event files are large and were left out: the log has their metrics")
    events = tensorboard.collect(files.events, options.episodic) if files.events and not large else None
    if events is not None:
        notes += events.notes
    for path in sorted(files.progress, key=lambda path: path.suffix):
        recording = read_progress(path, options, notes)
        if len(recording):
            return recording, events.recording if events is not None else None
    if events is not None:
        return events.recording, None
    for path in files.texts:
        found = console.tables(path, options)
        if len(found.recording):
            return found.recording, None
    return Recording(), None


def read_progress(path: Path, options: Options, notes: list[str]) -> Recording:
    """progress.csv or progress.json: rows on the axis of total_timesteps."""
    recording, count = Recording(options.episodic), rows.Count()
    with lines.open_text(path) as file:
        for block in table_blocks(file, count):
            if STEPS in block.names:
                recording.rows(block.names, block.values[:, block.names.index(STEPS)], block.values, block.blank)
    if count.skipped:
        notes.append(f"{path.name}: {count.skipped:,} lines that are no rows were left out")
    return recording


def _with_evaluations(files: Files, series: dict[str, Series], main: Recording, notes: list[str]) -> dict[str, Series]:
    """evaluations.npz knows every episode: it counts more than the mean in the log."""
    for path in files.evaluations:
        found = episodes.evaluations(path, notes)
        if found is not None:
            found.align(main)
            return {**series, **found.series(episodes.EVALUATION_TAGS, {})}
    return series


def _joined(files: Files, folder: Path) -> str:
    """The note that says what was put together."""
    parts = [_relative(path, folder) for path in [*files.progress, *files.events, *files.evaluations]]
    if files.monitors:
        count = len(files.monitors)
        place = _relative(files.monitors[0].parent, folder) if count > 1 else ""
        parts.append(
            f"{count} monitor files{' in ' + place if place not in ('', '.') else ''}"
            if count > 1
            else _relative(files.monitors[0], folder)
        )
    parts += [f"{_relative(path, folder)}/{zoo.CONFIG}" for path in files.configs]
    parts += [_relative(path, folder) for path in [*files.models[-1:], *files.testimonies[-1:]]]
    return f"joined as one run: {', '.join(parts)}" if len(parts) > 1 else ""


def _relative(path: Path, folder: Path) -> str:
    try:
        return path.relative_to(folder).as_posix()
    except ValueError:
        return path.as_posix()


def _log(files: Files) -> str:
    """The end of what the run printed, if that was kept beside it."""
    for path in files.texts:
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
                return file.read().decode("utf-8", errors="replace")
        except OSError:
            continue
    return ""
