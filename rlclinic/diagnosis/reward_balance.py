"""Which terms of a reward decide what is learned, which of them pull against each other, and whether they go with the task.

Reads `train/terms/NAME/return` and `train/terms/NAME/share`, which training logs of environments that report `info["reward_terms"]`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal

import numpy as np

from rlclinic import stats
from rlclinic.runs.history import History

Verdict = Literal["AGAINST THE TASK", "ONE TERM DECIDES", "CONFLICT", "BALANCED", "NOT ASSESSABLE"]
FEWEST_ROWS: Final = 12
"""Rows of a run below which nothing is said of how its terms move together."""
WINDOWS: Final = 24
"""A run is divided into at most so many: rows are means over the last hundred episodes, so that neighbours say the same."""
STRONG: Final = -0.5
"""Rank correlation from which on two things pull against each other."""
SURE: Final = 3.0
"""Deviations by which a correlation has to lie below that of chance, over all runs together."""
DECIDES: Final = 0.9
"""Share of all sizes from which on a term leaves the others nothing to say."""
END: Final = 0.2
"""The part of a run that is its beginning, and its end."""
RETURN: Final = "train/roll/ep_rew_mean"
REST: Final = 0.01
"""The share of what is paid from which on the part that no term names is spoken of."""
TRUTHS: Final = ("val/roll/success_rate", "train/roll/success_rate")


@dataclass(frozen=True)
class TermBalance:
    """One term over training: medians over runs."""

    name: str
    share: tuple[float, float]
    """Of the sizes of all terms, in the first and the last fifth of training."""
    returns: tuple[float, float]
    """What it added up to in an episode, then and then."""
    with_truth: float | None
    """Rank correlation of its return with success over training; None: success is not logged, or one of them never changes."""
    potential: bool = False
    """It takes back what it pays and leaves the best policy as it is: it is not judged, however large it is."""


@dataclass(frozen=True)
class Conflict:
    """Two terms of which one falls when the other rises."""

    first: str
    second: str
    correlation: float
    start: int
    """The env steps between which it was seen to be strongest: the half of training that it is larger in."""
    end: int


@dataclass(frozen=True)
class Balance:
    """The answer for runs that belong together."""

    verdict: Verdict
    reason: str
    truth: str | None
    """The column that says what is wanted."""
    terms: tuple[TermBalance, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    rest: float | None = None
    """What episodes return beside all terms, at the end of training; None: the terms sum to the return."""


def weigh(histories: Sequence[History], truth: str | None = None) -> Balance:
    """Weigh the terms of runs of one config, beside success or the column `truth`."""
    truths = TRUTHS if truth is None else (truth,)
    logged = [{name.split("/")[2] for name in history.series if name.startswith("train/terms/")} for history in histories]
    names = sorted(set.intersection(*logged)) if logged else []
    if len(names) < 2:
        what = f"the one term {names[0]} has nothing to be weighed against" if names else 'info["reward_terms"] was not logged'
        return Balance("NOT ASSESSABLE", what, None)
    returns = [{name: _windows(history, f"train/terms/{name}/return") for name in names} for history in histories]
    enough = [place for place, series in enumerate(returns) if all(len(values) >= FEWEST_ROWS for values in series.values())]
    if not enough:
        said = next((name for name in truths if all(len(_windows(history, name)) for history in histories)), None)
        return Balance("NOT ASSESSABLE", f"no run has {FEWEST_ROWS} rows with all of its terms", said)
    truth = next((name for name in truths if all(len(_windows(histories[place], name)) >= FEWEST_ROWS for place in enough)), None)
    kept = [(histories[place], returns[place]) for place in enough]
    terms = tuple(sorted((_weigh_term(name, kept, truth) for name in names), key=lambda term: -term.share[1]))
    judged = [term.name for term in terms if not term.potential]
    pairs = (_compare(one, other, kept) for one, other in combinations(sorted(judged), 2))
    conflicts = tuple(sorted((pair for pair in pairs if pair is not None), key=lambda pair: pair.correlation))
    verdict, reason = _decide(terms, conflicts, truth)
    return Balance(verdict, reason, truth, terms, conflicts, _find_rest(names, [history for history, _ in kept]))


def _find_rest(names: Sequence[str], histories: Sequence[History]) -> float | None:
    """The part of the return at the end that no logged term pays: one appeared after the run began, changed its name, or was never told."""
    rests, sizes = [], []
    for history in histories:
        returns, weights = history.series.get(RETURN), history.settings.get("env.term_weights") or {}
        terms = [history.series[f"train/terms/{name}/return"] for name in names]
        if returns is None or not all(np.array_equal(term.steps, returns.steps) for term in terms):
            continue
        told = np.array([float(weights.get(name, 1.0)) * term.values for name, term in zip(names, terms, strict=True)])  # [K, R]
        last = max(1, round(END * len(returns)))
        rests.append(float(np.median((returns.values - told.sum(0))[-last:])))
        sizes.append(float(np.median(np.abs(told).sum(0)[-last:])) + abs(rests[-1]))
    rest = float(np.median(rests)) if rests else 0.0
    return rest if rests and abs(rest) > REST * float(np.median(sizes)) else None


def _windows(history: History, name: str) -> np.ndarray:
    """A column as means over windows of equal length, at most WINDOWS of them; empty where it was not logged."""
    series = history.series.get(name)
    if series is None or not len(series):
        return np.empty(0)
    parts = np.array_split(np.asarray(series.values, float), min(WINDOWS, len(series)))
    return np.array([part.mean() for part in parts])


def _weigh_term(name: str, runs: Sequence[tuple[History, dict[str, np.ndarray]]], truth: str | None) -> TermBalance:
    def ends(column: str) -> tuple[float, float]:
        at = []
        for history, _ in runs:
            values = _windows(history, f"train/terms/{name}/{column}")
            part = max(1, round(END * len(values)))
            if len(values):
                at.append((values[:part].mean(), values[-part:].mean()))
        return (float(np.median([first for first, _ in at])), float(np.median([last for _, last in at]))) if at else (np.nan, np.nan)

    correlations = []
    if truth is not None:
        for history, series in runs:
            wanted = _windows(history, truth)
            size = min(len(wanted), len(series[name]))
            # An evaluation is not in every row: both are read at the same shares of training.
            places = [np.linspace(0, len(values) - 1, size).round().astype(int) for values in (series[name], wanted)]
            correlations.append(stats.rank_correlation(series[name][places[0]], wanted[places[1]]))
    told = [value for value in correlations if value is not None]
    potential = all(name in find_potentials(history) for history, _ in runs)
    return TermBalance(name, ends("share"), ends("return"), float(np.median(told)) if told else None, potential)


def find_potentials(history: History) -> Sequence[str]:
    """The terms of a run's reward that are potentials, by the learner's own discount."""
    known, settings = history.settings.get("about.potentials"), history.settings
    same = settings.get("about.potential_gamma") == settings.get("algo.gamma")
    return known if same and isinstance(known, Sequence) else ()


def _compare(one: str, other: str, runs: Sequence[tuple[History, dict[str, np.ndarray]]]) -> Conflict | None:
    """Whether two terms pull against each other: when one rises from a window to the next, the other falls, in all runs together."""
    correlations, sizes, halves = [], 0, []
    for _, series in runs:
        size = min(len(series[one]), len(series[other]))
        first, second = (np.diff(series[name][:size]) for name in (one, other))
        if (correlation := stats.rank_correlation(first, second)) is None:
            continue
        correlations.append(correlation)
        sizes += len(first) - 1
        middle = len(first) // 2
        halves.append([stats.rank_correlation(first[part], second[part]) or 0.0 for part in (slice(0, middle), slice(middle, None))])
    if not correlations:
        return None
    typical = float(np.median(correlations))
    if typical > STRONG or typical * np.sqrt(sizes) > -SURE:
        return None
    env_steps = max(history.env_steps or 0 for history, _ in runs)
    earlier, later = np.mean(halves, 0)
    start, end = (0, env_steps // 2) if earlier < later else (env_steps // 2, env_steps)
    return Conflict(one, other, typical, start, end)


def _decide(terms: Sequence[TermBalance], conflicts: Sequence[Conflict], truth: str | None) -> tuple[Verdict, str]:
    judged = [term for term in terms if not term.potential]
    if len(judged) < 2:
        only = f"the one term {judged[0].name} has nothing to be weighed against but" if judged else "all terms are"
        return "NOT ASSESSABLE", f"{only} potentials, which take back what they pay"
    whole = sum(term.share[1] for term in judged)
    largest = judged[0]
    grows = largest.returns[1] > largest.returns[0]
    if grows and largest.with_truth is not None and largest.with_truth <= STRONG:
        return (
            "AGAINST THE TASK",
            f"{largest.name}, the largest term, rises while {truth} falls (rank correlation {largest.with_truth:.2f})",
        )
    if whole > 0 and largest.share[1] >= DECIDES * whole:
        others = ", ".join(term.name for term in judged[1:])
        return (
            "ONE TERM DECIDES",
            f"{largest.name} is {largest.share[1] / whole:.0%} of all that is paid at the end: {others} can hardly be heard",
        )
    if conflicts:
        pair = conflicts[0]
        return "CONFLICT", f"when {pair.first} rises, {pair.second} falls (rank correlation of their changes {pair.correlation:.2f})"
    return "BALANCED", f"no term is more than {DECIDES:.0%} of what is paid, and none falls whenever another rises"
