"""Whether a log of another framework is still being written: its own files seldom say so."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from rlclinic.runs.history import History

SILENT_SECONDS: Final = 300.0
"""A log that nobody has written to for longer belongs to a run that has ended."""
DONE: Final = 0.98
"""Share of the budget from which on a run has ended: the last row may lie a rollout before it."""
_MOST_FILES: Final = 500


def is_written(path: Path) -> bool:
    """Whether something in a folder, or a file, has been written to lately."""
    files = [path] if path.is_file() else [file for _, file in zip(range(_MOST_FILES), path.rglob("*"), strict=False)]
    newest = 0.0
    for file in files:
        try:
            newest = max(newest, file.stat().st_mtime)
        except OSError:
            continue
    return newest > time.time() - SILENT_SECONDS


def mark_running(histories: list[History], path: Path) -> list[History]:
    """Runs that are short of a known budget and still written to, as running; all others as they were read."""
    short = [each.state == "unknown" and each.max_env_steps and (each.env_steps or 0) < DONE * each.max_env_steps for each in histories]
    if not any(short) or not is_written(path):
        return histories
    return [replace(each, state="running") if runs else each for each, runs in zip(histories, short, strict=True)]
