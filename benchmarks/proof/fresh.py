"""Worlds on which no bound, limit or margin was ever tuned: written down before they were measured, and measured once.

The scenarios beside this module are those by which the rules were shaped, so that what holds there could hold there alone. These have other
distributions (Weibull, gamma, Pareto, beta, mixtures of fast and slow seeds), other shares that are censored, never arrive or collapse
(part of them to anything low, not to one number), other evaluation grids, and other numbers of seeds and looks.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.proof import compare, environments, intervals, parallel, race, regress, scenarios, sensitivity, trials
from benchmarks.proof.compare import Pair
from benchmarks.proof.scenarios import Draws
from benchmarks.proof.shares import describe_share, describe_value
from benchmarks.proof.trials import EQUIVALENT, Ends, end_returns, end_steps, end_successes, row
from rlclinic.comparison.regression import GateOutcome
from rlclinic.treatment.race.rule import PER_ROUND
from rlclinic.treatment.race.rule import Rule as RaceRule
from rlclinic.treatment.trial import sequential
from rlclinic.treatment.trial.environments import MIXED
from rlclinic.treatment.trial.sequential import Rule

Shape = tuple[int, ...]
Draw = Callable[[np.random.Generator, Shape], Draws]


# ── what runs come to ──


def weibull(rng: np.random.Generator, shape: Shape) -> Draws:
    """Times of which the fast half lies close together, and the slow half far apart."""
    return rng.weibull(0.7, shape)


def gamma(rng: np.random.Generator, shape: Shape) -> Draws:
    return rng.gamma(2.0, 0.6, shape)


def pareto(rng: np.random.Generator, shape: Shape) -> Draws:
    """Times without a mean to speak of."""
    return 0.5 * (1.0 + rng.pareto(1.1, shape))


def two_speeds(rng: np.random.Generator, shape: Shape, *, slow: float = 0.3, factor: float = 5.0, spread: float = 0.2) -> Draws:
    """Seeds that find the way at once, and those that take `factor` times as long."""
    return np.exp(spread * rng.standard_normal(shape)) * np.where(rng.random(shape) < slow, factor, 1.0)


def log_t(rng: np.random.Generator, shape: Shape) -> Draws:
    return np.exp(0.6 * rng.standard_t(2, shape).clip(-60, 60))


def log_uniform(rng: np.random.Generator, shape: Shape) -> Draws:
    return np.exp(rng.uniform(-0.5, 0.5, shape))


def beta_returns(rng: np.random.Generator, shape: Shape, *, falling: float = 0.0, floor: tuple[float, float] = (0.0, 120.0)) -> Draws:
    """Returns near 500, skewed to below; a share has collapsed, to anything low."""
    held = 500.0 * rng.beta(60.0, 1.0, shape)
    return np.where(rng.random(shape) < falling, rng.uniform(*floor, shape), held)


def counted_returns(rng: np.random.Generator, shape: Shape) -> Draws:
    """Returns that are small whole numbers, as points in a game are."""
    return rng.poisson(4.0, shape).astype(np.float64)


def two_levels(rng: np.random.Generator, shape: Shape) -> Draws:
    """Runs that find one of two policies."""
    return np.where(rng.random(shape) < 0.4, 180.0, 320.0) + 25.0 * rng.standard_normal(shape)


def seen(draw: Draw, *, censored: float = 0.0, failing: float = 0.0, grid: float = 0.0) -> Draw:
    """Times as a budget and evaluations show them: `censored` of them later than the budget, `failing` never, in steps of `grid`."""
    horizon = float(np.quantile(draw(np.random.default_rng(0), (200_000,)), 1.0 - censored)) if censored else math.inf

    def cut(rng: np.random.Generator, shape: Shape) -> Draws:
        times = scenarios.censor(np.where(rng.random(shape) < failing, np.inf, draw(rng, shape)), horizon)
        return scenarios.round_up(times, grid) if grid else times

    return cut


def usual(spread: float = 0.4, median: float = 1.0, arriving: float = 1.0) -> Draw:
    return lambda rng, shape: scenarios.draw_times(rng, shape, median=median, spread=spread, arriving=arriving)


def alike(draw: Draw) -> trials.Draw:
    return lambda rng, shape: (draw(rng, shape), draw(rng, shape))


def apart(one: Draw, other: Draw) -> trials.Draw:
    return lambda rng, shape: (one(rng, shape), other(rng, shape))


def minus(draw: Draw) -> Draw:
    """Returns as scores."""
    return lambda rng, shape: -draw(rng, shape)


# ── trials ──

NULLS: Final[dict[str, tuple[trials.Draw, Rule]]] = {
    "Weibull times": (alike(weibull), Rule()),
    "gamma times, 25 % censored": (alike(seen(gamma, censored=0.25)), Rule()),
    "Pareto times": (alike(pareto), Rule(looks=3, per_look=6)),
    "logs of Student's t, 2 degrees": (alike(log_t), Rule()),
    "fast and slow seeds": (alike(two_speeds), Rule()),
    "fast and slow seeds, 2 looks of 12, the slow ones censored": (alike(seen(two_speeds, censored=0.3)), Rule(looks=2, per_look=12)),
    "spread 0.25, evaluations at 0.15 of the median": (alike(seen(usual(0.25), grid=0.15)), Rule()),
    "evaluations at 0.7 of the median, 35 % censored": (alike(seen(usual(), censored=0.35, grid=0.7)), Rule()),
    "spread 0.8, 65 % censored, 5 looks of 5": (alike(seen(usual(0.8), censored=0.65)), Rule(looks=5, per_look=5)),
    "80 % censored, evaluations at a quarter of the median": (alike(seen(usual(), censored=0.8, grid=0.25)), Rule()),
    "35 % never arrive, evaluations at a fifth of the median": (alike(seen(usual(0.3), failing=0.35, grid=0.2)), Rule()),
    "70 % never arrive, 3 looks of 16": (alike(seen(usual(), failing=0.7)), Rule(looks=3, per_look=16)),
    "beta returns, 15 % collapse to anything low": (alike(minus(partial(beta_returns, falling=0.15))), Rule()),
    "returns that are small whole numbers": (alike(minus(counted_returns)), Rule(looks=4, per_look=6)),
    "returns of two policies": (alike(minus(two_levels)), Rule()),
    "spread 0.3 against 0.9": (apart(usual(0.3), usual(0.9)), Rule()),
    "spread 1.2 against 0.15, 30 % never arrive in both": (
        apart(seen(usual(1.2), failing=0.3), seen(usual(0.15), failing=0.3)),
        Rule(),
    ),
    "uniform against normal logs of times": (apart(log_uniform, usual(0.7)), Rule(looks=4, per_look=10)),
}
"""Neither arm is better: P(a treated run does better) is one half."""


class Fall(NamedTuple):
    """A treatment that is worse in what matters, and how often a trial may call it better, or equivalent."""

    draw: Callable[[np.random.Generator, Shape], Ends]
    bar: float = 0.05
    calls: tuple[int, ...] = (EQUIVALENT, sequential.BETTER)
    rule: Rule = Rule()


def by_steps(
    control: Draw, treatment: Draw, unit: float = 30_000.0, spacing: float = 1_000.0
) -> Callable[[np.random.Generator, Shape], Ends]:
    return lambda rng, shape: end_steps(control(rng, shape), treatment(rng, shape), unit=unit, spacing=spacing)


def by_returns(control: Draw, treatment: Draw) -> Callable[[np.random.Generator, Shape], Ends]:
    return lambda rng, shape: end_returns(control(rng, shape), treatment(rng, shape), threshold=400.0)


def by_success(control: float, treatment: float, episodes: int = 20) -> Callable[[np.random.Generator, Shape], Ends]:
    """Success rates of so many episodes: a run has learnt the task (0.95 of its episodes succeed) or not (0.1)."""

    def draw(rng: np.random.Generator, shape: Shape) -> Ends:
        sides = [rng.binomial(episodes, np.where(rng.random(shape) < share, 0.95, 0.1)) / episodes for share in (control, treatment)]
        return end_successes(sides[0], sides[1])

    return draw


FALLS: Final[dict[str, Fall]] = {
    "returns, a fifth collapses to anything low": Fall(by_returns(beta_returns, partial(beta_returns, falling=0.2))),
    "returns, 35 % fall to about half": Fall(by_returns(beta_returns, partial(beta_returns, falling=0.35, floor=(200.0, 300.0)))),
    "returns, collapse 5 -> 30 %": Fall(by_returns(partial(beta_returns, falling=0.05), partial(beta_returns, falling=0.3))),
    "returns, collapse 0 -> 25 %, 2 looks of 12": Fall(
        by_returns(beta_returns, partial(beta_returns, falling=0.25)), rule=Rule(looks=2, per_look=12)
    ),
    "success, runs that learn it 0.95 -> 0.75": Fall(by_success(0.95, 0.75)),
    "success, runs that learn it 0.8 -> 0.55": Fall(by_success(0.8, 0.55)),
    "equal steps, arrival 100 -> 80 %": Fall(by_steps(usual(), usual(arriving=0.8))),
    "equal steps, arrival 95 -> 72 %, coarse evaluations": Fall(
        by_steps(usual(0.3, arriving=0.95), usual(0.3, arriving=0.72), spacing=5_000.0)
    ),
    "a quarter of the treated runs takes six times the steps, all arrive": Fall(
        by_steps(usual(0.3), partial(two_speeds, slow=0.25, factor=6.0, spread=0.3), unit=10_000.0)
    ),
    "0.4 of the steps, arrival 100 -> 75 %, spread 0.2": Fall(
        by_steps(usual(0.2), usual(0.2, median=0.4, arriving=0.75)), 0.12, (sequential.BETTER,)
    ),
    "0.2 of the steps, arrival 100 -> 75 %, spread 0.8": Fall(
        by_steps(usual(0.8), usual(0.8, median=0.2, arriving=0.75), unit=10_000.0), 0.12, (sequential.BETTER,)
    ),
    "0.25 of the steps, arrival 100 -> 65 %, gamma times": Fall(
        by_steps(gamma, lambda rng, shape: 0.25 * seen(gamma, failing=0.35)(rng, shape), unit=15_000.0), 0.05, (sequential.BETTER,)
    ),
    "0.3 of the steps, arrival 100 -> 60 %, coarse evaluations": Fall(
        by_steps(usual(), usual(median=0.3, arriving=0.6), spacing=6_000.0), 0.05, (sequential.BETTER,)
    ),
}
"""What must hardly ever be called better or equivalent."""
HOLDS: Final[dict[str, Fall]] = {
    "beta returns, all hold": Fall(by_returns(beta_returns, beta_returns), 0.8, (EQUIVALENT,)),
    "gamma steps, all arrive": Fall(by_steps(gamma, gamma, unit=8_000.0), 0.0, (EQUIVALENT,)),
    "usual steps, all arrive": Fall(by_steps(usual(), usual(), unit=12_000.0), 0.8, (EQUIVALENT,)),
}
"""Identical arms: how often EQUIVALENT must be said (gamma times scatter by 0.8 in the log, which 32 seeds do not resolve)."""


def find_false(draw: trials.Draw, rule: Rule, simulations: int) -> float:
    calls, _ = trials.carry_out(draw, simulations, rule)
    return float(np.isin(calls, (sequential.BETTER, sequential.WORSE)).mean())


# ── compare ──


def two(draw: Draw, m: int, n: int) -> Pair:
    return lambda rng, cases: (draw(rng, (cases, m)), draw(rng, (cases, n)))


def scaled(m: int, n: int, wide: float) -> Pair:
    return lambda rng, cases: (wide * rng.laplace(size=(cases, m)), rng.laplace(size=(cases, n)))


def logs(draw: Draw, horizon: float) -> Draw:
    return lambda rng, shape: np.log(np.minimum(draw(rng, shape), horizon))


SIDES: Final[dict[str, Pair]] = {
    "gamma, 6 against 10": two(gamma, 6, 10),
    "Laplace, 7 against 7": scaled(7, 7, 1.0),
    "Laplace, 3 against 12, three times the spread": scaled(3, 12, 3.0),
    "Laplace, 12 against 3, three times the spread": scaled(12, 3, 3.0),
    "Laplace, 8 against 24, twice the spread": scaled(8, 24, 2.0),
    "log-normal, 5 against 20": two(usual(1.0), 5, 20),
    "uniform, 4 against 4": two(lambda rng, shape: rng.random(shape), 4, 4),
    "beta returns, 15 % collapse, 10 against 10": two(partial(beta_returns, falling=0.15), 10, 10),
    "beta returns, 30 % collapse, 5 against 9": two(partial(beta_returns, falling=0.3), 5, 9),
    "small whole numbers, 9 against 15": two(counted_returns, 9, 15),
    "two policies, 6 against 6": two(two_levels, 6, 6),
    "Student's t, 2 degrees, 10 against 14": two(lambda rng, shape: rng.standard_t(2, shape), 10, 14),
    "log steps, 40 % censored, 10 against 10": two(logs(usual(), scenarios.find_horizon(0.6)), 10, 10),
    "log steps, 75 % censored, 12 against 20": two(logs(usual(), scenarios.find_horizon(0.25)), 12, 20),
    "log steps, a quarter never arrives, coarse, 8 against 16": two(logs(seen(usual(), failing=0.25, grid=0.3), 4.0), 8, 16),
}
"""Sides with equal means."""


def falling(n: int, share: float) -> Pair:
    """The first side collapses in part of its seeds; the second has the higher mean."""
    return lambda rng, cases: (beta_returns(rng, (cases, n), falling=share), beta_returns(rng, (cases, n)))


FALLING: Final[dict[str, Pair]] = {
    f"{100 * share:.0f} % collapse to anything low, {n} a side": falling(n, share) for n in (6, 10, 20) for share in (0.15, 0.3, 0.5)
}

# ── regress ──


def gate(outcome: GateOutcome, looks: int, per_look: int, seeds: int, before: Draw, after: Draw, margin: float = 0.1) -> regress.Case:
    return regress.Case(regress.make_rule(outcome, looks, per_look, margin=margin, seeds=seeds), seeds, before, after)


SAME: Final[dict[str, regress.Case]] = {
    "beta returns, 2 x 12, baseline of 24": gate("return", 2, 12, 24, minus(beta_returns), minus(beta_returns)),
    "beta returns, 15 % collapse in both, 3 x 8": gate(
        "return", 3, 8, 16, minus(partial(beta_returns, falling=0.15)), minus(partial(beta_returns, falling=0.15))
    ),
    "small whole numbers, 1 x 10": gate("return", 1, 10, 20, minus(counted_returns), minus(counted_returns)),
    "gamma steps, 4 x 6": gate("steps", 4, 6, 16, seen(gamma), seen(gamma), regress.USUAL),
    "fast and slow seeds, 2 x 8": gate("steps", 2, 8, 16, seen(two_speeds, censored=0.1), seen(two_speeds, censored=0.1), regress.USUAL),
}
COLLAPSING: Final[dict[str, Callable[[int, int], regress.Case]]] = {
    "beta returns, a quarter collapses": lambda looks, per: gate(
        "return", looks, per, 20, minus(beta_returns), minus(partial(beta_returns, falling=0.25))
    ),
    "gamma steps, a quarter never arrives": lambda looks, per: gate(
        "steps", looks, per, 20, seen(gamma), seen(gamma, failing=0.25), regress.USUAL
    ),
    "half the steps, a quarter never arrives": lambda looks, per: gate(
        "steps", looks, per, 20, usual(0.6), usual(0.6, median=0.5, arriving=0.75), regress.USUAL
    ),
}
FAILING: Final[dict[str, tuple[regress.Case, float]]] = {
    f"{what}, {looks} x {per}": (make(looks, per), bar)
    for looks, per, bar in ((1, 8, 0.12), (1, 16, 0.03), (2, 10, 0.03))
    for what, make in COLLAPSING.items()
}

# ── intervals ──

SPREAD_OUT: Final[dict[str, Draw]] = {
    "gamma": gamma,
    "log-normal, spread 0.8": usual(0.8),
    "beta returns": beta_returns,
    "beta returns, 15 % collapse": partial(beta_returns, falling=0.15),
    "beta returns, 25 % collapse": partial(beta_returns, falling=0.25),
    "small whole numbers": counted_returns,
    "two policies": two_levels,
    "log steps, 20 % censored": logs(usual(), scenarios.find_horizon(0.8)),
}
SPREAD_PAIRS: Final[dict[str, tuple[Draw, Draw]]] = {
    "gamma against twice it": (gamma, lambda rng, shape: 2.0 * gamma(rng, shape)),
    "beta returns, 25 % collapse against 5 %": (partial(beta_returns, falling=0.25), partial(beta_returns, falling=0.05)),
    "small whole numbers": (counted_returns, counted_returns),
    "log steps, 15 % never arrive against none": (logs(usual(arriving=0.85), 5.0), logs(usual(median=0.8), 5.0)),
}
SIZES: Final = (5, 6, 8, 12, 16)

# ── several environments, races, sensitivity ──

PLACES: Final[dict[str, list[trials.Draw]]] = {
    "Weibull, gamma and Pareto times": [alike(weibull), alike(gamma), alike(pareto)],
    "fast and slow seeds, and 65 % censored": [alike(two_speeds), alike(seen(usual(0.8), censored=0.65))],
    "beta returns of which 15 % collapse, small whole numbers": [
        alike(minus(partial(beta_returns, falling=0.15))),
        alike(minus(counted_returns)),
    ],
    "four, spreads 0.3 against 0.9 in two": [
        apart(usual(0.3), usual(0.9)),
        apart(usual(0.9), usual(0.3)),
        alike(seen(usual(), failing=0.35, grid=0.2)),
        alike(log_t),
    ],
}
FIELDS: Final[dict[str, tuple[int, Draw]]] = {
    "4 arms, gamma times, 25 % censored": (4, seen(gamma, censored=0.25)),
    "6 arms, fast and slow seeds": (6, two_speeds),
    "8 arms, beta returns of which 15 % collapse": (8, minus(partial(beta_returns, falling=0.15))),
    "7 arms, 35 % never arrive, evaluations at a fifth of the median": (7, seen(usual(0.3), failing=0.35, grid=0.2)),
}
STUDIES: Final[dict[str, Draw]] = {
    "gamma times": lambda rng, shape: np.log(gamma(rng, shape)),
    "fast and slow seeds": lambda rng, shape: np.log(two_speeds(rng, shape)),
    "beta returns, 15 % collapse": partial(beta_returns, falling=0.15),
    "small whole numbers": counted_returns,
}


def _race(draw: Draw) -> Callable[[np.random.Generator], race.Draw]:
    return lambda rng: lambda _: draw(rng, (PER_ROUND,))


def _count_shown(draw: Draw, seeds: int, rng: np.random.Generator, studies: int) -> int:
    return int(sensitivity.shown(draw(rng, (studies, sensitivity.VALUES + 1, seeds))).any(axis=1).sum())


def rows(simulations: int) -> Iterator[dict[str, Any]]:
    """All worlds of this module."""
    for rule in {rule for _, rule in NULLS.values()} | {Rule(environments=len(draws)) for draws in PLACES.values()}:
        _ = rule.bounds  # simulated once, not once in every process
    nulls = parallel.evaluate({name: partial(find_false, draw, rule, simulations) for name, (draw, rule) in NULLS.items()})
    what = f"fresh, trial: false verdicts, worst of {len(nulls)} null scenarios"
    yield row(what, max(nulls.values()), 0.055, stretch=0.05, each=nulls)
    for about, falls in (("wrongly better or equivalent", FALLS), ("EQUIVALENT for identical arms", HOLDS)):
        asked = {name: partial(trials.count_calls, fall.draw, simulations, *fall.calls, rule=fall.rule) for name, fall in falls.items()}
        for name, value in parallel.evaluate(asked).items():
            yield row(f"fresh, trial: {about}, {name}", value, falls[name].bar, "lower" if falls is FALLS else "higher")
    called = parallel.evaluate({name: partial(compare.different, pair, simulations) for name, pair in (SIDES | FALLING).items()})
    equal = {name: sum(called[name]) for name in SIDES}
    yield row(f"fresh, compare: equal sides called different, worst of {len(SIDES)}", max(equal.values()), 0.06, stretch=0.05, each=equal)
    wrong = {name: called[name][1] for name in FALLING}
    what = f"fresh, compare: the side with the higher mean called worse, worst of {len(FALLING)}"
    yield row(what, max(wrong.values()), 0.025, stretch=0.02, each=wrong)
    ended = parallel.evaluate({name: partial(regress.end, case, simulations) for name, case in SAME.items()})
    alarms = {name: ends.alarmed for name, ends in ended.items()}
    yield row(f"fresh, regress: false alarms, worst of {len(SAME)}", max(alarms.values()), 0.055, stretch=0.05, each=alarms)
    ended = parallel.evaluate({name: partial(regress.end, case, simulations) for name, (case, _) in FAILING.items()})
    for name, ends in ended.items():
        yield describe_value(f"fresh, regress: passed, {name}", ends.passed, simulations, FAILING[name][1], None)
    yield from intervals.describe(SPREAD_OUT, SPREAD_PAIRS, SIZES, simulations, "fresh, intervals")
    calls = (sequential.BETTER, sequential.WORSE, MIXED)
    several = parallel.evaluate({name: partial(environments.count_calls, draws, simulations, *calls) for name, draws in PLACES.items()})
    what = f"fresh, environments: false verdicts, worst of {len(PLACES)}"
    yield row(what, max(several.values()), 0.055, stretch=0.05, each=several)
    races = max(20, simulations // 4)
    for arms, _ in FIELDS.values():
        RaceRule(arms).bound(2, 1, 1)
    for place, (name, (arms, draw)) in enumerate(FIELDS.items()):
        count = int(parallel.add_up(partial(race.count_false, arms, _race(draw)), races, 200 + place, 50))
        yield describe_share(f"fresh, race: equal arms told apart, {name}", count, races, 0.055, 0.05)
    for place, (name, draw) in enumerate(STUDIES.items()):
        count = int(parallel.add_up(partial(_count_shown, draw, 8), simulations, 300 + place, 1_000))
        yield describe_share(
            f"fresh, sensitivity: studies of equal values that show one to matter, 8 seeds, {name}", count, simulations, 0.05
        )
