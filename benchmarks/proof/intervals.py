"""Whether intervals cover what they are intervals of: every kind that compare, regress and the reports of groups print, in every scenario.

Below 8 seeds an interquartile mean has a range and no interval, and a mean never has one: they promise nothing, and are not in here.
Each value that an interval should hold is computed from a million draws.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

import numpy as np

from benchmarks.proof import parallel, scenarios
from benchmarks.proof.scenarios import Draws
from benchmarks.proof.shares import describe_value
from rlclinic import stats
from rlclinic.comparison import pairs
from rlclinic.stats import estimates

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
PROMISED: Final = ("normal", "exponential", "capped at 500", "30 % collapse, wide")
"""What a difference that "would be seen" is asked of."""
_AT_ONCE: Final = 1_000
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


def bound_iqms(sides: Sequence[Draws], level: float = stats.LEVEL) -> tuple[Draws, Draws]:
    """The ends of `stats.estimate` (one side) and `stats.estimate_difference` (two) of each row of the sides, all rows at once.

    The rows that a bootstrap draws are the same for every sample, and the IQM adds up sorted values with fixed weights: so what is
    resampled (of the samples in order) is a product with a matrix. tests/comparison/test_error_rates.py holds it to the functions.
    """
    least = min(side.shape[1] for side in sides)
    weights = [_weigh_draws(side.shape[1], place) for place, side in enumerate(sides)]
    tail = 100.0 * estimates._tail(level, least)
    ends = []
    for start in range(0, len(sides[0]), _AT_ONCE):
        parts = [np.sort(side[start : start + _AT_ONCE], axis=1) @ own for side, own in zip(sides, weights, strict=True)]
        drawn = parts[0] if len(parts) == 1 else parts[0] - parts[1]
        ends.append(np.percentile(drawn, [tail, 100.0 - tail], axis=1))
    low, high = np.concatenate(ends, axis=1)
    return low, high


@cache
def _weigh_draws(seeds: int, place: int) -> Draws:
    """[seeds, resamples]: by how much each of the sorted values counts in each resampled IQM."""
    steps = np.tril(np.ones((seeds + 1, seeds)), -1)[:, ::-1]  # 0 ... 0, then 1 from the last place on, from the last two on, ...
    weights = np.diff(stats.iqm(steps, axis=-1))[::-1]
    rows = np.sort(estimates.draws(seeds, RESAMPLES, place), axis=1)
    found = np.zeros((RESAMPLES, seeds))
    np.add.at(found, (np.arange(RESAMPLES)[:, None], rows), weights)
    return found.T


def _share_held(low: Draws, truth: float, high: Draws) -> float:
    slack = 1e-9 * max(1.0, abs(truth))
    return float(((low - slack <= truth) & (truth <= high + slack)).mean())


def cover_iqm(draw: Draw, seeds: int, cases: int, seed: int = 0) -> float:
    """Of `stats.estimate`: the returns of a group, points of its curve."""
    low, high = bound_iqms([draw(np.random.default_rng(seed), (cases, seeds))])
    return _share_held(low, _true_iqm(draw), high)


def cover_difference(draws: tuple[Draw, Draw], seeds: int, cases: int, level: float = stats.LEVEL, seed: int = 0) -> float:
    """Of `stats.estimate_difference`: IQMs of returns and, as logs, ratios of steps, in compare and regress."""
    rng = np.random.default_rng(seed)
    low, high = bound_iqms([draw(rng, (cases, seeds)) for draw in draws], level)
    return _share_held(low, _true_iqm(draws[0]) - _true_iqm(draws[1]), high)


def cover_improvement(draws: tuple[Draw, Draw], seeds: int, cases: int, seed: int = 0) -> float:
    """Of P(improvement)."""
    truth, rng = _true_improvement(draws), np.random.default_rng(seed)
    sides = [draw(rng, (cases, seeds)) for draw in draws]
    found = [stats.improvement(*samples) for samples in zip(*sides, strict=True)]
    return float(np.mean([_holds(each.low, truth, each.high) for each in found]))


def cover_median(draw: Draw, seeds: int, cases: int, seed: int = 0) -> float:
    """Of the median: steps to the threshold."""
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


def keep_promise(draw: Draw, seeds: int, cases: int, seed: int = 0) -> float:
    """How often a difference that "would be seen in 8 of 10 cases" is seen, in fresh seeds."""
    rng = np.random.default_rng(seed)
    before, after = draw(rng, (cases, seeds)), draw(rng, (cases, seeds))
    promised = np.array([pairs.find_detectable(*sides, 1) for sides in zip(before.tolist(), after.tolist(), strict=True)])
    p = stats.compare_means_by_row(draw(rng, (cases, seeds)) + promised[:, None], draw(rng, (cases, seeds)))[1]
    return float((p < pairs.ALPHA).mean())


def rows(simulations: int) -> Iterator[dict[str, Any]]:
    """The worst of each kind of interval, then each; intervals of shares are counted exactly."""
    yield from describe(SCENARIOS, PAIRS, SIZES, simulations)


def describe(
    scenarios_: Mapping[str, Draw], pairs_: Mapping[str, tuple[Draw, Draw]], sizes: Sequence[int], cases: int, about: str = "intervals"
) -> Iterator[dict[str, Any]]:
    """The figures of some worlds."""
    enough = [n for n in sizes if n >= stats.LEAST_SEEDS]
    asked: dict[str, dict[str, Callable[[], float]]] = {
        "IQM": {f"{name}, {n} seeds": partial(cover_iqm, draw, n, cases) for name, draw in scenarios_.items() for n in enough},
        "difference of IQMs, and ratio": {
            f"{name}, {n} seeds": partial(cover_difference, pair, n, cases) for name, pair in pairs_.items() for n in enough
        },
        "P(improvement)": {
            f"{name}, {n} seeds": partial(cover_improvement, pair, n, cases) for name, pair in pairs_.items() for n in sizes
        },
        "median": {f"{name}, {n} seeds": partial(cover_median, draw, n, cases) for name, draw in scenarios_.items() for n in sizes},
        "share": {f"{share:g}, {n} seeds": partial(cover_share, share, n) for share in SHARES for n in sizes},
        "difference of shares": {
            f"{one:g} and {other:g}, {n} seeds": partial(cover_share_difference, (one, other), n)
            for one in SHARES
            for other in SHARES
            for n in sizes
        },
    }
    for draw in [*scenarios_.values(), *(draw for pair in pairs_.values() for draw in pair)]:
        _many(draw)  # once, not once in every process
    kinds = {kind: parallel.evaluate(tasks) for kind, tasks in asked.items()}
    worst = {kind: min(found, key=lambda name: found[name]) for kind, found in kinds.items()}
    least = min(worst, key=lambda kind: kinds[kind][worst[kind]])
    every = f"{about}, coverage of every kind, worst ({least}, {worst[least]})"
    yield describe_value(every, kinds[least][worst[least]], cases, 0.92, 0.94, "higher")
    for kind, name in worst.items():
        yield describe_value(f"{about}, {kind}, worst ({name})", kinds[kind][name], cases, 0.92, 0.94, "higher")
    ninety = parallel.evaluate(
        {f"{name}, {n} seeds": partial(cover_difference, pair, n, cases, 0.9) for name, pair in pairs_.items() for n in enough}
    )
    name = min(ninety, key=lambda name: ninety[name])
    yield describe_value(f"{about}, regress's effect at 90 %, worst ({name})", ninety[name], cases, 0.9, None, "higher")
    if about != "intervals":
        return
    for kind, found in kinds.items():
        for name, value in found.items():
            yield describe_value(f"{about}, {kind}: {name}", value, cases, 0.92, 0.94, "higher")
    promised = parallel.evaluate(
        {(name, n): partial(keep_promise, scenarios_[name], n, cases) for name in PROMISED if name in scenarios_ for n in sizes}
    )
    for (name, n), value in promised.items():
        promise = f"compare, a difference that would be seen in 8 of 10 cases is seen: {name}, {n} seeds"
        yield describe_value(promise, value, cases, 0.75, 0.8, "higher")
