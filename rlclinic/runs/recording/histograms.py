"""Histograms that a run records while it trains (`run.histograms_every_env_steps`): a line of JSON for each time, in histograms.jsonl.

{"env_steps": 2048, "collect": {"advantages": [low, high, [counts]], "action 0": …}, "learn": {"weights actor.0.weight": …}}
"""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rlclinic import plain_files
from rlclinic.runs import disk

FILE: Final = "histograms.jsonl"
PHASES: Final = ("collect", "learn")
"""What was met while acting, and what learning made of it."""
MOST_BYTES: Final = 64 << 20
Counts = tuple[float, float, list[int]]
"""Lowest and highest value, and how many lie in each of equally wide bins between them."""


def append(folder: Path, env_steps: int, found: Mapping[str, Mapping[str, Counts]]) -> None:
    """One more line."""
    line = json.dumps({"env_steps": env_steps, **found}, allow_nan=False, separators=(",", ":"))
    path = folder / FILE
    with disk.guarded(path), path.open("ab") as file:
        file.write(line.encode() + b"\n")


def cut(folder: Path, env_steps: int) -> None:
    """Forget what was recorded after this env step: a resume records it again."""
    path = folder / FILE
    if path.exists():
        kept = [line for line in _lines(path) if line["env_steps"] <= env_steps]
        text = "".join(json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n" for line in kept)
        disk.write(path, text)


def read(folder: Path) -> dict[str, dict[str, list[tuple[int, Counts]]]]:
    """By phase and name: the env steps and what was counted then, in order. Lines that are damaged are left out."""
    found: dict[str, dict[str, list[tuple[int, Counts]]]] = {phase: {} for phase in PHASES}
    for line in _lines(folder / FILE):
        for phase in PHASES:
            named = line.get(phase)
            for name, value in named.items() if isinstance(named, dict) else ():
                if (counts := _check(value)) is not None:
                    found[phase].setdefault(str(name), []).append((line["env_steps"], counts))
    return found


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with plain_files.open_plain(path) as file:
            if os.fstat(file.fileno()).st_size > MOST_BYTES:
                return
            for text in file:
                try:
                    line = json.loads(text)
                except ValueError:
                    continue  # half a line: it is being written, or its writer was killed
                if isinstance(line, dict) and isinstance(line.get("env_steps"), int):
                    yield line
    except FileNotFoundError:
        return


def _check(value: Any) -> Counts | None:
    if not (isinstance(value, Sequence) and len(value) == 3 and isinstance(value[2], list)):
        return None
    low, high, counts = value
    numbers = [low, high, *counts]
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
        return None
    return float(low), float(high), [int(count) for count in counts]
