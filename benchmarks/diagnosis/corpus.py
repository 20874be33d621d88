"""The corpus, and which of its cells count: a planted fault that measurably hurts, or a group that is healthy.

A fault that did no harm joins the healthy ones, as the hardest of them: nothing may be called HIGH there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from benchmarks.diagnosis import packing
from rlclinic.runs import outcome
from rlclinic.runs.history import History

FOLDER: Final = Path(__file__).parent / "corpus"
OFF_POLICY: Final = Path(__file__).parent / "corpus_off_policy"
"""Learners with a replay: fitted with the others, measured apart."""
OFF_POLICY_FRESH: Final = Path(__file__).parent / "corpus_off_policy_fresh"
"""Learners with a replay on tasks that nothing was fitted to, scored before anyone had looked at them."""
HURTS: Final = 0.15
"""Least loss of the normalized score for a fault to count."""
RETURN: Final = "val/roll/ep_rew_mean"

OUTSIDE: Final = frozenset({"observation-noise", "gradients-wrong", "observation-late"})
"""Faults that no rule knows: the right answer is "unknown"."""
Role = Literal["fault", "two", "healthy", "outside", "unclear"]


@dataclass(frozen=True)
class Group:
    """A cell of the corpus after admission."""

    about: dict[str, Any]
    runs: tuple[History, ...]
    role: Role
    """fault: one planted fault that hurts · two: two of them · healthy: solved, whatever was planted · outside: a fault that is not
    in the catalogue · unclear: left out."""
    score: float
    """Median over runs: 0 as at the start, 1 at the threshold."""

    @property
    def id(self) -> str:
        return str(self.about["id"])

    @property
    def split(self) -> str:
        return str(self.about["split"])

    @property
    def causes(self) -> tuple[str, ...]:
        return tuple(self.about["causes"])

    @property
    def accepted(self) -> frozenset[str]:
        """Answers that count as right for a single fault: the class, and those declared to be the same."""
        return frozenset((*self.about["causes"], *self.about["also"]))


def score(run: History, start: float) -> float:
    """How far the last half of the evaluations got: 0 at the start's level, 1 at the threshold, cut off at both ends."""
    series = run.series.get(RETURN)
    if series is None or not len(series.values) or run.threshold is None or run.state == "failed":
        return 0.0
    late = series.values[len(series.values) // 2 :]
    way = run.threshold - start
    return float(np.clip((late - start) / way, 0, 1).mean()) if way > 0 else 0.0


def solved(run: History, start: float) -> bool:
    """Reached its goal, which is the threshold and success where the environment reports it, and is near the threshold at the end."""
    series = run.series.get(RETURN)
    if series is None or run.threshold is None or run.state == "failed":
        return False
    if outcome.measure_log(run, run.goal, "evaluation").reached_at is None:
        return False
    return float(np.median(series.values[-3:])) >= start + 0.8 * (run.threshold - start)


@cache
def load(folder: Path = FOLDER) -> tuple[Group, ...]:
    """Every group of a part of the corpus, in a fixed order."""
    tasks = [packing.load(path) for path in sorted(folder.glob("*.npz"))]
    return tuple(group for entries in tasks for group in (*admit(entries), *_copied(entries)))


def _copied(entries: Sequence[packing.Entry]) -> Iterator[Group]:
    """A seed that is not passed on: the same run again under another name."""
    source = next(entry for entry in entries if entry.about["labels"] == ["as-is-1"])
    runs = tuple(replace(source.runs[0], id=f"copy-{n}", seed=n, settings={**source.runs[0].settings, "seed": n}) for n in range(3))
    task = source.about["task"]
    about = {
        **source.about,
        "id": f"{task}/seeds-identical:copied/test",
        "causes": ["seeds-identical"],
        "labels": ["copied"],
        "kind": "bug",
    }
    yield Group(about, runs, "fault", 1.0)


def admit(entries: Sequence[packing.Entry], outside: frozenset[str] = OUTSIDE) -> Iterator[Group]:
    """The groups of one task, judged against its clean runs."""
    clean = [entry for entry in entries if entry.about["kind"] == "healthy"]
    usual = float(np.median([_start(entry.runs) for entry in clean]))
    level = np.array([score(run, usual) for entry in clean for run in entry.runs])
    for entry in entries:
        start = _own_start(entry, usual)
        scores = [score(run, start) for run in entry.runs]
        well = all(solved(run, start) for run in entry.runs)
        lost = float(np.median(level) - np.median(scores))
        role = _role(entry.about, lost, scores, level, well, outside)
        if entry.about["causes"] == ["schedule-not-followed"]:
            # Wrong wherever there is a schedule to follow, whether it did harm or not.
            role = "fault" if isinstance(entry.runs[0].settings.get("algo.learning_rate"), dict) else "unclear"
        yield Group(entry.about, entry.runs, role, float(np.median(scores)))


def _start(runs: Sequence[History]) -> float:
    found = [run.series["train/sentinel/random_return"].values[0] for run in runs if "train/sentinel/random_return" in run.series]
    return float(np.median(found)) if found else 0.0


def _own_start(entry: packing.Entry, usual: float) -> float:
    """The level of a random policy, in the units of this cell's rewards."""
    scales = {"reward-scale-too-large", "reward-scale-too-small"}
    return _start(entry.runs) if scales & set(entry.about["causes"]) else usual


def _role(
    about: dict[str, Any], lost: float, scores: Sequence[float], level: np.ndarray[Any, Any], well: bool, outside: frozenset[str]
) -> Role:
    if about["kind"] == "healthy":
        return "healthy" if well else "unclear"
    # Below nearly all clean runs, and by more than chance moves a group's median.
    hurts = lost > HURTS and max(scores) < np.quantile(level, 0.25)
    accounting = {"returns-accounting", "kl-negative", "updates-missing", "environment-not-finite"}
    if outside & set(about["causes"]):
        return "outside" if hurts else "unclear"
    if about["kind"] == "two":
        return "two" if hurts else "unclear"
    # Some bugs falsify what is written down, not what is learned: wrong is wrong, harmful or not.
    if hurts or accounting & set(about["causes"]):
        return "fault"
    # A bug that did no harm here is still one: neither an alarm nor silence would be wrong.
    return "healthy" if well and about["kind"] == "user" else "unclear"
