"""compare: how often it calls equal sides different, and how often it names the wrong side as the better one.

The tests are `stats.compare_means_by_row` of returns, and of log steps within the horizon: what `rlclinic compare` decides by.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from benchmarks.proof import parallel, scenarios
from benchmarks.proof.scenarios import Draws
from benchmarks.proof.shares import describe_value
from rlclinic import stats

ALPHA: Final = 0.05
Pair = Callable[[np.random.Generator, int], tuple[Draws, Draws]]


def _alike(draw: Callable[[np.random.Generator, tuple[int, int]], Draws], m: int, n: int) -> Pair:
    return lambda rng, cases: (draw(rng, (cases, m)), draw(rng, (cases, n)))


def _normal(m: int, n: int, wide: float) -> Pair:
    return lambda rng, cases: (wide * rng.standard_normal((cases, m)), rng.standard_normal((cases, n)))


def _log_steps(
    m: int, n: int, horizon: float, arriving: float = 1.0, grid: float = 0.05, spreads: tuple[float, float] = (0.4, 0.4)
) -> Pair:
    def draw(rng: np.random.Generator, cases: int) -> tuple[Draws, Draws]:
        sides = [
            scenarios.round_up(scenarios.draw_times(rng, (cases, size), spread=spread, arriving=arriving), grid)
            for size, spread in zip((m, n), spreads, strict=True)
        ]
        return np.log(np.minimum(sides[0], horizon)), np.log(np.minimum(sides[1], horizon))

    return draw


EQUAL: Final[dict[str, Pair]] = {
    "normal, 8 against 8": _normal(8, 8, 1.0),
    "normal, 4 against 16, sd 5 against 1": _normal(4, 16, 5.0),
    "normal, 16 against 4, sd 5 against 1": _normal(16, 4, 5.0),
    "normal, 5 against 5, sd 5 against 1": _normal(5, 5, 5.0),
    "heavy tails (Student's t, 3 degrees), 8 against 8": _alike(lambda rng, shape: rng.standard_t(3, shape), 8, 8),
    "exponential, 5 against 5": _alike(lambda rng, shape: rng.exponential(1.0, shape), 5, 5),
    "exponential, 4 against 16": _alike(lambda rng, shape: rng.exponential(1.0, shape), 4, 16),
    "a fifth collapses, 8 against 8": _alike(lambda rng, shape: scenarios.draw_returns(rng, shape, collapsing=0.2, noise=5), 8, 8),
    "a fifth collapses, 4 against 16": _alike(lambda rng, shape: scenarios.draw_returns(rng, shape, collapsing=0.2, noise=5), 4, 16),
    "a fifth collapses, the rest tied, 24 against 24": _alike(
        lambda rng, shape: scenarios.draw_returns(rng, shape, collapsing=0.2), 24, 24
    ),
    "two fifths collapse, 6 against 12": _alike(lambda rng, shape: scenarios.draw_returns(rng, shape, collapsing=0.4, noise=5), 6, 12),
    "steps, a fifth never arrives, 8 against 8": _log_steps(8, 8, 5.0, arriving=0.8),
    "steps, half censored, 6 against 12": _log_steps(6, 12, 1.0),
    "steps, nine of ten censored, 16 against 16": _log_steps(16, 16, scenarios.find_horizon(0.1)),
    "steps, coarse evaluations, 8 against 8": _log_steps(8, 8, 5.0, grid=0.5),
}
"""Sides with equal means, most of them alike in all."""


def _collapse(n: int, collapsing: float, noise: float, ahead: float = 0.0) -> Pair:
    """The first side collapses in part of its seeds, and is `ahead` where it does not; the second has the higher mean."""

    def draw(rng: np.random.Generator, cases: int) -> tuple[Draws, Draws]:
        falls = scenarios.draw_returns(rng, (cases, n), collapsing=collapsing, noise=noise)
        return falls, scenarios.draw_returns(rng, (cases, n), noise=noise) - ahead

    return draw


COLLAPSING: Final[dict[str, Pair]] = {
    f"{100 * share:.0f} % collapse, {n} a side, noise {noise:g}": _collapse(n, share, noise)
    for n in (5, 8, 16, 24)
    for share in (0.1, 0.2, 0.4)
    for noise in (0.0, 5.0)
}
UNSEEN: Final[dict[str, Pair]] = {
    f"{100 * share:.0f} % collapse, the others are ahead by 10, {n} a side": _collapse(n, share, 5.0, ahead=10.0)
    for n in (8, 16, 24)
    for share in (0.1, 0.2)
}
"""Where none of the seeds drawn collapses, that side is the better one by all that can be seen: no test of so few protects from it."""


def different(pair: Pair, cases: int, seed: int = 0) -> tuple[float, float]:
    """The share of cases in which the second side is called better, and worse."""
    first, second = pair(np.random.default_rng(seed), cases)
    t, p = stats.compare_means_by_row(second, first)
    return float(((p < ALPHA) & (t > 0)).mean()), float(((p < ALPHA) & (t < 0)).mean())


def different_by_welch(pair: Pair, cases: int, seed: int = 0) -> float:
    """What Welch's test alone, at 5 %, calls different."""
    sides = pair(np.random.default_rng(seed), cases)
    return float(np.mean([stats.welch(*samples).p < ALPHA for samples in zip(*sides, strict=True)]))


def different_by_bootstrap(pair: Pair, cases: int, seed: int = 0) -> tuple[float, float]:
    """Where the 95 % percentile bootstrap interval of the difference of IQMs leaves 0 out, as rliable's users read it: above and below.

    `stats.bootstrap_difference` agrees with rliable (tests/stats/test_estimates.py).
    """
    first, second = pair(np.random.default_rng(seed), cases)
    found = [stats.bootstrap_difference(*samples, resamples=2_000) for samples in zip(second, first, strict=True)]
    return float(np.mean([(each.low or 0.0) > 0 for each in found])), float(np.mean([(each.high or 0.0) < 0 for each in found]))


def _by_bootstrap(pair: Pair, cases: int) -> float:
    return sum(different_by_bootstrap(pair, cases))


def rows(simulations: int) -> Iterator[dict[str, Any]]:
    """The worst of each kind, and each scenario."""
    asked = EQUAL | COLLAPSING | UNSEEN
    called = parallel.evaluate({name: partial(different, pair, simulations) for name, pair in asked.items()})
    equal = {name: sum(called[name]) for name in EQUAL}
    wrong = {name: called[name][1] for name in COLLAPSING}
    worst = max(equal, key=lambda name: equal[name])
    yield describe_value(f"compare, equal sides called different, worst of {len(equal)} ({worst})", equal[worst], simulations, 0.06, 0.05)
    worst = max(wrong, key=lambda name: wrong[name])
    yield describe_value(
        f"compare, the side with the higher mean called worse, worst of {len(wrong)} ({worst})", wrong[worst], simulations, 0.025, 0.02
    )
    for name, value in {**equal, **wrong}.items():
        yield describe_value(f"compare: {name}", value, simulations, 0.06 if name in equal else 0.025, 0.05 if name in equal else 0.02)
    for name in UNSEEN:
        yield describe_value(f"compare, called worse although its mean is higher: {name}", called[name][1], simulations, None, None)
    alone = parallel.evaluate({name: partial(different_by_welch, pair, simulations) for name, pair in EQUAL.items()})
    worst = max(alone, key=lambda name: alone[name])
    yield describe_value(f"Welch's test alone, equal sides called different, worst ({worst})", alone[worst], simulations, None, None)
    few = max(50, simulations // 5)
    drawn = parallel.evaluate({name: partial(_by_bootstrap, pair, few) for name, pair in EQUAL.items()})
    worst = max(drawn, key=lambda name: drawn[name])
    yield describe_value(f"bootstrap of IQMs (rliable), equal sides called different, worst ({worst})", drawn[worst], few, None, None)
    ahead = "20 % collapse, the others are ahead by 10, 24 a side"
    share = different_by_bootstrap(UNSEEN[ahead], few)[1]
    yield describe_value(f"bootstrap of IQMs (rliable), the side with the higher mean called worse: {ahead}", share, few, None, None)
    power = different(_thirty_percent, simulations)[0]
    yield describe_value("compare, power at 30 % fewer steps, 16 a side, usual spread", power, simulations, None, None, better="higher")


def _thirty_percent(rng: np.random.Generator, cases: int) -> tuple[Draws, Draws]:
    fast, slow = (np.log(scenarios.draw_times(rng, (cases, 16), median=median)) for median in (0.7, 1.0))
    return fast, slow
