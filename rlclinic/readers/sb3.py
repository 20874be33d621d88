"""Stable-Baselines3 and rl-zoo3: every file of a run, joined."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from rlclinic import plain_files
from rlclinic.errors import UsageError
from rlclinic.readers import (
    console,
    episodes,
    histories,
    hyperparameters,
    metric_aliases,
    sb3_settings,
    sb3_tree,
    sidecar,
    tables,
    tensorboard,
    text_files,
)
from rlclinic.readers.csv_jsonl import read_table_blocks
from rlclinic.readers.options import Options
from rlclinic.readers.raw_log import RawLog
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
    return any(_is_ours(file) for files in sb3_tree.find_runs(path) for file in [*files.progress, *files.monitors, *files.evaluations])


def _is_ours(path: Path) -> bool:
    """A progress.csv may be anybody's: SB3's has sections in its column names."""
    if path.name in ("progress.csv", "progress.json"):
        return b"time/total_timesteps" in text_files.read_head(path)
    return path.name == episodes.EVALUATIONS or episodes.is_monitor(path)


def read(path: Path, options: Options) -> list[History]:
    """A history for every run in a tree; for a file, of the run that it belongs to."""
    if path.is_file():
        folder = path.parent
        found = [files for files in sb3_tree.find_runs(folder) if files.holds(path)] or [_take_alone(path)]
    else:
        folder = path
        found = sb3_tree.find_runs(path)
        if not found and (path / sb3_settings.CONFIG).is_file():
            found = sb3_tree.find_runs(path.parent)
    found = [sb3_tree.add_siblings(found[0])] if len(found) == 1 else found
    read_runs = [history for files in found if (history := _read_run(files, options, folder)) is not None]
    if not read_runs:
        raise UsageError(
            f"{path}: its files hold no numbers (yet).\n  Nothing can be said about it.\n  Wait for the first rows, or give another folder"
        )
    return read_runs


def _take_alone(path: Path) -> Files:
    files = Files(path.parent)
    (files.progress if path.name.startswith("progress.") else files.monitors).append(path)
    return files


def _read_run(files: Files, options: Options, folder: Path) -> History | None:
    notes: list[str] = []
    if not files.progress and not files.events:
        files.events.extend(sb3_tree.find_events_elsewhere(files, notes))
    settings = _read_settings(files, notes)
    told = sidecar.read_sentinel_file(files.sentinel_files[-1], notes) if files.sentinel_files else sidecar.SentinelFile()
    settings |= told.settings
    found = episodes.read_monitors([path for path in files.monitors if episodes.is_monitor(path)])
    notes += found.notes
    told_by_monitors = {"env.id": found.env_id, "env.n_envs": found.n_envs or found.silent}
    settings = {name: value for name, value in told_by_monitors.items() if value} | settings
    main, events = _read_logs(files, options, notes)
    names = main.names
    algo = histories.find_algorithm(
        settings.get("algo.name"), files.root.name, files.root.parent.name, *(path.parent.name for path in files.events)
    )
    algo = hyperparameters.check_algorithm(algo, names)
    series = main.series(options.table(metric_aliases.SB3.table(algo)), settings)
    if events is not None:
        series = {**events.series(options.table(metric_aliases.SB3.table(algo)), settings), **series}
    series = _add_evaluations(files, series, settings, main, notes)
    if found.n_envs:
        found.raw_log.align(main)
        series = {**found.raw_log.series(episodes.MONITOR_TAGS, settings), **series}
    if not series:
        return None
    if found.silent:
        series = _add_silence(series) | series
    histories.infer_rollout_size(main, settings, algo)
    raw_log = main if len(main) else found.raw_log
    joined = _describe_files(files, folder)
    if joined:
        notes.insert(0, joined)
    history = histories.make_history(
        *(files.root.name, "sb3", files.root, raw_log, series, settings),
        algo=algo,
        notes=notes,
        log=_read_tail(files),
        env_steps=_find_last_step(series),
    )
    return replace(history, state="failed", reason=told.broken) if told.broken and history.state == "unknown" else history


def _add_silence(series: dict[str, Series]) -> dict[str, Series]:
    """The monitors were open all the time: that no episode is in them is something they say."""
    steps = _find_last_step(series)
    return {} if steps is None else {"total_episodes": Series(np.array([0.0, steps]), np.zeros(2), "monitor files")}


def _find_last_step(series: dict[str, Series]) -> int | None:
    ends = [float(found.steps[-1]) for found in series.values() if len(found)]
    return whole(max(ends, default=None))


def _read_settings(files: Files, notes: list[str]) -> dict[str, Any]:
    """From the newest model, and over it from rl-zoo3's files."""
    settings: dict[str, Any] = {}
    models = [path for path in files.models if sb3_settings.is_model(path)]
    if models:
        settings |= sb3_settings.read_model_settings(models[-1], notes)
    for folder in files.configs:
        settings |= sb3_settings.read_zoo_settings(folder, notes)
    return settings


def _read_logs(files: Files, options: Options, notes: list[str]) -> tuple[RawLog, RawLog | None]:
    """The log with the training metrics (CSV, then JSON, then the console), and the event files, which may have more tags."""
    large = files.progress and sum(path.stat().st_size for path in files.events) > _EVENT_BYTES
    if large:
        notes.append("the event files are large and were left out: the log has their metrics")
    events = tensorboard.read_events(files.events, options.episodic) if files.events and not large else None
    if events is not None:
        notes += events.notes
    for path in sorted(files.progress, key=lambda path: path.suffix):
        raw_log = read_progress(path, options, notes)
        if len(raw_log):
            return raw_log, events.raw_log if events is not None else None
    if events is not None:
        return events.raw_log, None
    for path in files.texts:
        found = console.read_tables(path, options)
        if len(found.raw_log):
            return found.raw_log, None
    return RawLog(), None


def read_progress(path: Path, options: Options, notes: list[str]) -> RawLog:
    """progress.csv or progress.json: rows on the axis of total_timesteps."""
    raw_log, count = RawLog(options.episodic), tables.LeftOut()
    with text_files.open_text(path) as file:
        for block in read_table_blocks(file, count):
            if STEPS in block.names:
                raw_log.add_rows(block.names, block.values[:, block.names.index(STEPS)], block.values, block.blank)
    if count.skipped:
        notes.append(f"{path.name}: {count.skipped:,} lines that are no rows were left out")
    return raw_log


def _add_evaluations(
    files: Files, series: dict[str, Series], settings: dict[str, Any], main: RawLog, notes: list[str]
) -> dict[str, Series]:
    """evaluations.npz knows every episode: it counts more than the mean in the log, and says how many there were."""
    for path in files.evaluations:
        found = episodes.read_evaluations(path, notes)
        if found is not None:
            raw_log, count = found
            settings.setdefault("run.eval_episodes", count)
            raw_log.align(main)
            return {**series, **raw_log.series(episodes.EVALUATION_TAGS, {})}
    return series


def _describe_files(files: Files, folder: Path) -> str:
    """The note that says what was put together."""
    parts = [_relative_path(path, folder) for path in [*files.progress, *files.events, *files.evaluations]]
    if files.monitors:
        count = len(files.monitors)
        place = _relative_path(files.monitors[0].parent, folder) if count > 1 else ""
        parts.append(
            f"{count} monitor files{' in ' + place if place not in ('', '.') else ''}"
            if count > 1
            else _relative_path(files.monitors[0], folder)
        )
    parts += [f"{_relative_path(path, folder)}/{sb3_settings.CONFIG}" for path in files.configs]
    parts += [_relative_path(path, folder) for path in [*files.models[-1:], *files.sentinel_files[-1:]]]
    return f"joined as one run: {', '.join(parts)}" if len(parts) > 1 else ""


def _relative_path(path: Path, folder: Path) -> str:
    try:
        return path.relative_to(folder).as_posix()
    except ValueError:
        return path.as_posix()


def _read_tail(files: Files) -> str:
    """The end of what the run printed, if that was kept beside it."""
    for path in files.texts:
        try:
            with plain_files.open_plain(path) as file:
                file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
                return file.read().decode("utf-8", errors="replace")
        except OSError:
            continue
    return ""
