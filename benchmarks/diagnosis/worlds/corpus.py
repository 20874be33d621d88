"""The recorded worlds: groups of our trainer, and cells of Stable-Baselines3 in both views, each with what counts as right.

Cells are admitted as everywhere (benchmarks.diagnosis.corpus): a fault counts where it measurably hurts, a harmless one must not be
alarmed about. Worlds of which no healthy groups were recorded are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from benchmarks.diagnosis import corpus, packing
from benchmarks.diagnosis.corpus import Group
from rlclinic.runs.history import History

FOLDER: Final = Path(__file__).with_name("recorded")
OUTSIDE: Final = frozenset({"observation-noise", "gradients-wrong"})
"""Faults that no rule knows: the right answer is "unknown"."""
FEWEST: Final = 3
"""Healthy groups that a world needs to be judged against."""


@cache
def load(part: str, folder: Path = FOLDER) -> tuple[Group, ...]:
    """The groups of a part of the split. What was recorded again, with columns that came later, replaces what was there."""
    by_id = {str(entry.about["id"]): entry for path in _list(folder, part) for entry in packing.load(path)}
    worlds: dict[str, list[packing.Entry]] = {}
    for name in sorted(by_id):
        worlds.setdefault(by_id[name].about["task"], []).append(by_id[name])
    well = {world: sum(entry.about["kind"] == "healthy" for entry in entries) for world, entries in worlds.items()}
    admitted = (group for world, entries in worlds.items() if well[world] >= FEWEST for group in corpus.admit(entries, OUTSIDE))
    return tuple(replace(group, role="unclear") if _pays_otherwise(group) or _lacks_lags(group) else group for group in admitted)


def _list(folder: Path, part: str) -> list[Path]:
    """The files of a part, what was recorded later last."""
    return sorted(folder.glob(f"{part}*.npz"), key=lambda path: path.stem)


def _lacks_lags(group: Group) -> bool:
    """Whether it was recorded before what tells its fault was measured: long lags, distances of rewards. No log of today lacks them."""
    needs = {"observation-late": "train/sentinel/action_lag", "reward-delayed": "train/sentinel/reward_gap"}
    by_the_clock = "20" in group.about["labels"]
    return any(
        cause in group.causes and (by_the_clock or cause == "observation-late") and not any(column in run.series for run in group.runs)
        for cause, column in needs.items()
    )


def _pays_otherwise(group: Group) -> bool:
    """Whether a planted fault changes what evaluations pay, so that a passed threshold does not mean that it did no harm."""
    labels = {f"{cause}:{label}" for cause, label in zip(group.causes, group.about["labels"], strict=True)}
    return group.role == "healthy" and bool(OTHER_UNITS & (labels | set(group.causes)))


OTHER_UNITS: Final = frozenset(
    {"reward-sign:both", "reward-never-seen", "reward-sparse", "reward-noise", "deceptive-reward", "environment-changed:reward"}
)


Role = Literal["fault", "healthy", "outside", "dropped"]


@dataclass(frozen=True)
class Cell:
    """One config of Stable-Baselines3 with its runs."""

    about: dict[str, Any]
    role: Role
    plain: tuple[History, ...]
    """As its own files give it, with the threshold that `diagnose --threshold` is told."""
    sentinels: tuple[History, ...]
    """With our callback's columns."""

    @property
    def accepted(self) -> frozenset[str]:
        return frozenset((self.about["fault"], *self.about["also"]))


@cache
def load_sb3(part: str, folder: Path = FOLDER) -> tuple[Cell, ...]:
    """The cells of a part of the split."""
    views: dict[str, dict[str, packing.Entry]] = {}
    for path in sorted(folder.glob(f"sb3_{part}*.npz")):
        for entry in packing.load(path):
            views.setdefault(entry.about["name"], {})[entry.about["view"]] = entry
    cells = [_cell(views[name]) for name in sorted(views)]
    levels: dict[tuple[str, str], list[float]] = {}
    for cell in cells:
        if cell.about["fault"] == "healthy" and cell.about["name"].endswith("as-it-is"):
            levels[cell.about["algo"], cell.about["task"]] = [_level(run) for run in cell.sentinels]
    return tuple(replace(cell, role=_role(cell, levels.get((cell.about["algo"], cell.about["task"])))) for cell in cells)


def _cell(views: dict[str, packing.Entry]) -> Cell:
    about = {key: value for key, value in views["plain"].about.items() if key not in ("view", "origin", "tails")}
    runs = {}
    for view, entry in views.items():
        origin = entry.about["origin"]
        runs[view] = tuple(
            replace(
                run,
                log_tail=tail,
                series={name: replace(each, name=origin[name][0], estimator=origin[name][1]) for name, each in run.series.items()},
            )
            for run, tail in zip(entry.runs, entry.about["tails"], strict=True)
        )
    plain = tuple(replace(run, threshold=about["threshold"]) for run in runs["plain"])
    return Cell(about, "dropped", plain, runs["sentinels"])


def _level(run: History) -> float:
    """Mean evaluation return over the second half of the run."""
    judged = run.series.get(corpus.RETURN)
    return float(judged.values[len(judged) // 2 :].mean()) if judged is not None and len(judged) else -np.inf


def _solved(run: History, threshold: float) -> bool:
    judged = run.series.get(corpus.RETURN)
    return judged is not None and len(judged) > 0 and float(np.median(judged.values[-3:])) >= threshold


def _role(cell: Cell, healthy: Sequence[float] | None) -> Role:
    """A fault hurts if no seed solves the world, or all end below the worst healthy one by a tenth of the way to the threshold."""
    threshold, fault = cell.about["threshold"], cell.about["fault"]
    if fault == "observation-late" and not any("train/sentinel/action_lag" in run.series for run in cell.sentinels):
        return "dropped"
    solved = [_solved(run, threshold) for run in cell.sentinels]
    if fault == "healthy":
        return "healthy" if all(solved) else "dropped"
    if healthy is None:
        return "dropped"
    other_units = bool(OTHER_UNITS & {fault, f"{fault}:{cell.about['name'].rpartition('_')[2]}"})
    if all(solved):
        return "dropped" if other_units else "healthy"
    scaled = fault in ("reward-scale-too-large", "reward-scale-too-small")
    hurts = scaled or max(_level(run) for run in cell.sentinels) < min(healthy)
    if any(solved) or not (hurts or other_units):
        return "dropped"
    return "outside" if fault in OUTSIDE else "fault"
