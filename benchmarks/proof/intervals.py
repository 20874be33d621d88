"""Whether intervals cover what they are intervals of: every kind that compare, regress and the reports of groups print, in every scenario.

Below 8 seeds an interquartile mean has a range and no interval, and a mean never has one: they promise nothing, and are not in here.
Each value that an interval should hold is computed from a million draws.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

import numpy as np

from benchmarks.proof import scenarios
from benchmarks.proof.scenarios import Draws
from benchmarks.proof.shares import describe_value
from rlclinic import stats
from rlclinic.comparison import pairs

SIZES: Final = (5, 8, 16)
RESAMPLES: Final = 2_000
HORIZON: Final = 5.0
Draw = Callable[[np.random.Generator, tuple[int, ...]], Draws]


def _returns(collapsing: float, noise: float) -> Draw:
    return lambda rng, shape: scenarios.draw_returns(rng, shape, collapsing=collapsing, noise=noise)


def _log_steps(horizon: float, arriving: float = 1.0, median: float = 1.0) -> Draw:
    return lambda rng, shape: np.log(np.minimum(scenarios.draw_times(rng, shape, median=median, arriving=arriving), horizon))


SCENARIOS: Final[dict[str, Draw]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "exponential": lambda rng, shape: rng.exponential(1.0, shape),
    "heavy tails (Student's t, 3 degrees)": lambda rng, shape: rng.standard_t(3, shape),
    "capped at 500": lambda rng, shape: np.minimum(480 + 30 * rng.standard_normal(shape), 500.0),
    "10 % collapse": _returns(0.1, 5.0),
    "20 % collapse": _returns(0.2, 5.0),
    "30 % collapse": _returns(0.3, 5.0),
    "30 % collapse, wide": _returns(0.3, 50.0),
    "log steps": _log_steps(HORIZON),
    "log steps, 30 % censored": _log_steps(scenarios.find_horizon(0.7)),
    "log steps, 10 % never arrive": _log_steps(HORIZON, 0.9),
    "log steps, 30 % never arrive": _log_steps(HORIZON, 0.7),
}
PAIRS: Final[dict[str, tuple[Draw, Draw]]] = {
    "normal": (SCENARIOS["normal"], SCENARIOS["normal"]),
    "exponential": (SCENARIOS["exponential"], SCENARIOS["exponential"]),
    "10 % collapse against none": (SCENARIOS["10 % collapse"], _returns(0.0, 5.0)),
    "20 % collapse against none": (SCENARIOS["20 % collapse"], _returns(0.0, 5.0)),
    "30 % collapse against none": (SCENARIOS["30 % collapse"], _returns(0.0, 5.0)),
    "30 % collapse against 30 %": (SCENARIOS["30 % collapse"], SCENARIOS["30 % collapse"]),
    "log steps, 30 % faster": (_log_steps(HORIZON, median=0.7), SCENARIOS["log steps"]),
    "log steps, 30 % never arrive against 10 %": (SCENARIOS["log steps, 30 % never arrive"], SCENARIOS["log steps, 10 % never arrive"]),
}
SHARES: Final = (0.5, 0.7, 0.8, 0.9, 0.95, 0.97)


@cache
def _many(draw: Draw) -> Draws:
    return np.sort(draw(np.random.default_rng(1), (1_000_000,)))


def _true_iqm(draw: Draw) -> float:
    return float(_many(draw)[250_000:750_000].mean())


def _true_improvement(draws: tuple[Draw, Draw]) -> float:
    ours, theirs = _many(draws[0]), _many(draws[1])
    below = np.searchsorted(theirs, ours, "left") + np.searchsorted(theirs, ours, "right")
    return float(below.mean() / (2 * len(theirs)))


def _holds(low: float | None, value: float, high: float | None) -> bool:
    slack = 1e-9 * max(1.0, abs(value))
    return low is not None and high is not None and low - slack <= value <= high + slack


def cover_iqm(name: str, seeds: int, cases: int, seed: int = 0) -> float:
    """Of `stats.estimate`: the returns of a group, points of its curve."""
    draw = SCENARIOS[name]
    truth, samples = _true_iqm(draw), draw(np.random.default_rng(seed), (cases, seeds))
    found = [stats.estimate(sample, resamples=RESAMPLES) for sample in samples]
    return float(np.mean([_holds(each.low, truth, each.high) for each in found]))


def cover_difference(name: str, seeds: int, cases: int, level: float = stats.LEVEL, seed: int = 0) -> float:
    """Of `stats.estimate_difference`: IQMs of returns and, as logs, ratios of steps, in compare and regress."""
    draws = PAIRS[name]
    truth, rng = _true_iqm(draws[0]) - _true_iqm(draws[1]), np.random.default_rng(seed)
    sides = [draw(rng, (cases, seeds)) for draw in draws]
    found = [stats.estimate_difference(*samples, level=level, resamples=RESAMPLES) for samples in zip(*sides, strict=True)]
    return float(np.mean([_holds(each.low, truth, each.high) for each in found]))


def cover_improvement(name: str, seeds: int, cases: int, seed: int = 0) -> float:
    """Of P(improvement)."""
    draws = PAIRS[name]
    truth, rng = _true_improvement(draws), np.random.default_rng(seed)
    sides = [draw(rng, (cases, seeds)) for draw in draws]
    found = [stats.improvement(*samples) for samples in zip(*sides, strict=True)]
    return float(np.mean([_holds(each.low, truth, each.high) for each in found]))


def cover_median(name: str, seeds: int, cases: int, seed: int = 0) -> float:
    """Of the median: steps to the threshold."""
    draw = SCENARIOS[name]
    truth, samples = float(_many(draw)[500_000]), draw(np.random.default_rng(seed), (cases, seeds))
    found = [stats.median_interval(sample) or (math.nan, math.nan) for sample in samples]
    return float(np.mean([_holds(low, truth, high) for low, high in found]))


def cover_share(share: float, seeds: int) -> float:
    """Of a share of seeds, exactly."""
    chances = [math.comb(seeds, hits) * share**hits * (1 - share) ** (seeds - hits) for hits in range(seeds + 1)]
    held = [_holds(*_ends(stats.exact_share_interval(hits, seeds), share)) for hits in range(seeds + 1)]
    return float(np.dot(chances, held))


def cover_share_difference(shares: tuple[float, float], seeds: int) -> float:
    """Of a difference of shares, exactly."""
    chances = [[math.comb(seeds, hits) * share**hits * (1 - share) ** (seeds - hits) for hits in range(seeds + 1)] for share in shares]
    total = 0.0
    for ours in range(seeds + 1):
        for theirs in range(seeds + 1):
            found = stats.share_difference((ours, seeds), (theirs, seeds))
            total += chances[0][ours] * chances[1][theirs] * _holds(*_ends(found, shares[0] - shares[1]))
    return total


def _ends(found: stats.Estimate, truth: float) -> tuple[float | None, float, float | None]:
    return found.low, truth, found.high


def keep_promise(name: str, seeds: int, cases: int, seed: int = 0) -> float:
    """How often a difference that "would be seen in 8 of 10 cases" is seen, in fresh seeds."""
    draw, rng = SCENARIOS[name], np.random.default_rng(seed)
    before, after = draw(rng, (cases, seeds)), draw(rng, (cases, seeds))
    promised = np.array([pairs.find_detectable(*sides, 1) for sides in zip(before.tolist(), after.tolist(), strict=True)])
    p = stats.compare_means_by_row(draw(rng, (cases, seeds)) + promised[:, None], draw(rng, (cases, seeds)))[1]
    return float((p < pairs.ALPHA).mean())


def rows(simulations: int) -> Iterator[dict[str, Any]]:
    """The worst of each kind of interval, then each."""
    cases = max(50, simulations // 10)
    kinds: dict[str, dict[str, float]] = {
        "IQM": {f"{name}, {n} seeds": cover_iqm(name, n, cases) for name in SCENARIOS for n in (8, 16)},
        "difference of IQMs, and ratio": {f"{name}, {n} seeds": cover_difference(name, n, cases) for name in PAIRS for n in (8, 16)},
        "P(improvement)": {f"{name}, {n} seeds": cover_improvement(name, n, cases) for name in PAIRS for n in SIZES},
        "median": {f"{name}, {n} seeds": cover_median(name, n, cases) for name in SCENARIOS for n in SIZES},
        "share": {f"{share:g}, {n} seeds": cover_share(share, n) for share in SHARES for n in SIZES},
        "difference of shares": {
            f"{one:g} and {other:g}, {n} seeds": cover_share_difference((one, other), n)
            for one in SHARES
            for other in SHARES
            for n in SIZES
        },
    }
    worst = {kind: min(found, key=lambda name: found[name]) for kind, found in kinds.items()}
    least = min(worst, key=lambda kind: kinds[kind][worst[kind]])
    every = f"intervals, coverage of every kind, worst ({least}, {worst[least]})"
    yield describe_value(every, kinds[least][worst[least]], cases, 0.92, 0.94, "higher")
    for kind, name in worst.items():
        yield describe_value(f"intervals, {kind}, worst ({name})", kinds[kind][name], cases, 0.92, 0.94, "higher")
    ninety = {f"{name}, {n} seeds": cover_difference(name, n, cases, level=0.9) for name in PAIRS for n in (8, 16)}
    name = min(ninety, key=lambda name: ninety[name])
    yield describe_value(f"intervals, regress's effect at 90 %, worst ({name})", ninety[name], cases, 0.9, None, "higher")
    for kind, found in kinds.items():
        for name, value in found.items():
            yield describe_value(f"intervals, {kind}: {name}", value, cases, 0.92, 0.94, "higher")
    for name in ("normal", "exponential", "capped at 500", "30 % collapse, wide"):
        for n in SIZES:
            promise = f"compare, a difference that would be seen in 8 of 10 cases is seen: {name}, {n} seeds"
            yield describe_value(promise, keep_promise(name, n, cases), cases, 0.75, 0.8, "higher")
