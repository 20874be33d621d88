"""Trials over several environments: wrong verdicts, what one environment hides, power beside pooling and beside one environment, intervals.

The decision is `treatment.trial.environments.decide` at the bounds of `sequential.Rule`; intervals and equivalence are made from made-up
runs by `environments.SeveralStanding`.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.proof import parallel, scenarios, trials
from benchmarks.proof.scenarios import Draws
from benchmarks.proof.trials import Draw, draw_ends, draw_exponential, draw_heavy, draw_pair, row
from rlclinic.config import Config, load, set_values
from rlclinic.treatment.trial import analysis, arms, conduct, environments, sequential
from rlclinic.treatment.trial.environments import MIXED, SeveralStanding
from rlclinic.treatment.trial.models import Observation, TrialPlan
from rlclinic.treatment.trial.sequential import BETTER, OPEN, WORSE, Rule

FASTER: Final = draw_pair({}, {"median": 0.5})
FASTEST: Final = draw_pair({}, {"median": 0.1})
EQUAL: Final = draw_pair({})
WIDE: Final = draw_pair({"spread": 1.0})
NULLS: Final[dict[str, list[Draw]]] = {
    "two alike": [EQUAL] * 2,
    "spreads 0.2, 0.4 and 1": [draw_pair({"spread": spread}) for spread in (0.2, 0.4, 1.0)],
    "censored 0, 50 and 90 %": [EQUAL, *(draw_pair({}, horizon=scenarios.find_horizon(arriving)) for arriving in (0.5, 0.1))],
    "ties: five values, and evaluations as far apart as the median": [draw_pair({}, spacing=0.4), draw_pair({}, spacing=1.0)],
    "20 % and 50 % never arrive": [draw_pair({"arriving": 0.8}), draw_pair({"arriving": 0.5, "spread": 1.0})],
    "returns at a cap, 10 % and 20 % collapse": [draw_ends(0.1, 30.0), draw_ends(0.2)],
    "tails as heavy as Cauchy's, and exponential": [draw_heavy, draw_exponential],
    "spread 0.2 against 1 in all three": [draw_pair({"spread": 0.2}, {"spread": 1.0})] * 3,
    "spread 0.2 against 1, and the other way round": [
        draw_pair({"spread": 0.2}, {"spread": 1.0}),
        draw_pair({"spread": 1.0}, {"spread": 0.2}),
    ],
    "five, one of them never solved": [EQUAL, WIDE, EQUAL, draw_ends(0.2), draw_pair({}, horizon=1e-9)],
    "eight": [EQUAL, WIDE] * 4,
}
"""Neither arm is better in any environment."""
ONE_SIDED: Final[dict[str, tuple[list[Draw], int]]] = {
    "one helps a lot, one is equal": ([FASTEST, EQUAL], MIXED),
    "one helps a lot, two are equal": ([FASTEST, EQUAL, WIDE], MIXED),
    "one helps a lot, four are equal": ([FASTEST, EQUAL, WIDE, EQUAL, WIDE], MIXED),
    "one hurts a lot, two are equal": ([draw_pair({}, {"median": 10.0}), EQUAL, WIDE], MIXED),
    "one hurts a lot, four are equal": ([draw_pair({}, {"median": 10.0}), EQUAL, WIDE, EQUAL, WIDE], MIXED),
    "all help": ([FASTER, draw_pair({}, {"median": 0.9}), WIDE], MIXED),
}
"""No environment is worse, or none is better: "helps here, hurts there" is wrong."""


def carry_out(
    draws: Sequence[Draw], simulations: int, rule: Rule | None = None, *, arrival: bool = True, each: bool = True, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What so many trials come to (as `environments.decide` calls it), and with how many seeds an arm in each environment.

    `each` False: by the average alone, with no look at the environments one by one.
    """
    rule = rule or Rule(environments=len(draws))
    rng = np.random.default_rng(seed)
    drawn = [draw(rng, (simulations, rule.looks * rule.per_look)) for draw in draws]
    return look_at(drawn, rule, arrival=arrival, each=each)


def look_at(
    drawn: Sequence[tuple[Draws, Draws]], rule: Rule, *, arrival: bool = True, each: bool = True
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The same of runs that were drawn: control and treatment [trials, seeds] of every environment."""
    simulations = len(drawn[0][0])
    calls, seeds = np.zeros(simulations, dtype=np.int64), np.full(simulations, rule.looks * rule.per_look)
    passed = np.zeros(simulations, dtype=bool)
    for look in range(1, rule.looks + 1):
        count = look * rule.per_look
        control, treatment = ([pair[side][:, :count] for pair in drawn] for side in (0, 1))
        z, bounds, last = sequential.statistics(control, treatment), rule.bounds[look - 1], look == rule.looks
        if each:
            seen = environments.measure_each(control, treatment, rule.environment_bounds()[look - 1])
            now = environments.decide(z, bounds, seen, 0.10, last=last, second=arrival, passed=passed)
            passed |= z > bounds.better
        else:
            now = sequential.decide(z, bounds, None, 0.10, last=last)
        fresh = (calls == OPEN) & (now != OPEN)
        calls[fresh], seeds[fresh] = now[fresh], count
    return calls, seeds


def share(calls: NDArray[np.int64], *wanted: int) -> float:
    """The share of trials that were called so."""
    return float(np.isin(calls, wanted).mean())


# ── what one environment hides ──


def hidden(kind: str, environments_: int, elsewhere: float) -> list[Draw]:
    """All environments but the last get faster; the last one gets worse, or part of its runs never arrive."""
    last = {
        "twice the steps": {"median": 2.0},
        "50 % more steps": {"median": 1.5},
        "30 % more steps": {"median": 1.3},
        "arrival 100 -> 75 %": {"median": elsewhere, "arriving": 0.75},
        "arrival 100 -> 65 %": {"median": elsewhere, "arriving": 0.65},
    }[kind]
    return [draw_pair({}, {"median": elsewhere})] * (environments_ - 1) + [draw_pair({}, last)]


BARS: Final = {"twice the steps": 0.01, "50 % more steps": 0.05, "arrival 100 -> 75 %": 0.15, "arrival 100 -> 65 %": 0.05}


def find_hidden(kind: str, simulations: int, *, each: bool = True) -> dict[str, float]:
    """How often an arm is adopted although one environment gets worse, over 2, 3 and 5 environments and three effects elsewhere."""
    return parallel.evaluate(
        {
            f"{count} environments, {elsewhere:.2g} of the steps elsewhere": partial(
                count_calls, hidden(kind, count, elsewhere), simulations, BETTER, each=each
            )
            for count in (2, 3, 5)
            for elsewhere in (0.7, 1 / 3, 0.1)
        }
    )


# ── power ──


CASES: Final[dict[str, tuple[float, tuple[float, ...], int]]] = {
    "two, 0.5 SD": (0.5, (0.4, 0.4), 8),
    "three of spreads 0.2, 0.4, 1, 0.45 SD": (0.45, (0.2, 0.4, 1.0), 8),
    "five of spreads 0.2, 0.4, 1, 0.35 SD": (0.35, (0.2, 0.4, 1.0, 0.2, 0.4), 8),
    "eight of spreads 0.4, 1, 0.28 SD": (0.28, (0.4, 1.0) * 4, 8),
    "two, 4 seeds a look each, 0.7 SD": (0.7, (0.4, 1.0), 4),
    "three, 4 seeds a look each, 0.6 SD": (0.6, (0.4, 1.0, 0.2), 4),
}
"""The effect in standard deviations of the log of steps, the same in all environments; their spreads; seeds of a look."""


def compare_power(name: str, simulations: int, seed: int = 0) -> dict[str, NDArray[np.float64]]:
    """Whether each trial adopts, and the runs an arm that it takes: over environments, of all runs in one heap, and of all on one of them.

    All three see the same runs. In standard deviations all environments have the same effect, and ranks see nothing else: each is the best
    one, and the runs of all, moved to one environment, are what a trial there would have drawn.
    """
    shift, spreads, per_look = CASES[name]
    rng, rule = np.random.default_rng([20_261_116, seed]), Rule(per_look=per_look, environments=len(spreads))
    normal = [[rng.standard_normal((simulations, rule.looks * per_look)) for _ in range(2)] for _ in spreads]
    placed = [
        (10.0**place * np.exp(spread * pair[0]), 10.0**place * np.exp(spread * (pair[1] - shift)))
        for place, (spread, pair) in enumerate(zip(spreads, normal, strict=True))
    ]
    calls, seeds = look_at(placed, rule)
    whole = Rule(per_look=per_look * len(spreads))
    heap = trials.carry_out(lambda _, __: _put_together(placed, rule), simulations, whole)
    single = trials.carry_out(lambda _, __: _put_together([(np.exp(a), np.exp(b - shift)) for a, b in normal], rule), simulations, whole)
    found = {"environments": (calls, seeds * len(spreads)), "heap": heap, "single": single}
    adopts = {f"{way} adopts": (made == BETTER).astype(np.float64) for way, (made, _) in found.items()}
    return adopts | {f"{way} runs": runs.astype(np.float64) for way, (_, runs) in found.items()}


def _put_together(drawn: Sequence[tuple[Draws, Draws]], rule: Rule) -> tuple[Draws, Draws]:
    """The runs of all environments as those of one, [looks, trials, runs of a look]."""
    sides = []
    for side in (0, 1):
        looks = np.stack([pair[side].reshape(len(pair[side]), rule.looks, rule.per_look) for pair in drawn], axis=2)
        sides.append(np.moveaxis(looks, 1, 0).reshape(rule.looks, len(drawn[0][side]), -1))
    return sides[0], sides[1]


def describe_difference(what: str, differences: NDArray[np.float64]) -> dict[str, Any]:
    """A mean difference of the same trials judged in two ways, with its 95 % interval; held to "not less"."""
    mean, error = float(differences.mean()), float(differences.std() / math.sqrt(len(differences)))
    return row(what, mean, 0.0, "higher") | {"interval": [mean - 1.96 * error, mean + 1.96 * error], "simulations": len(differences)}


# ── trials from their runs ──

ENVIRONMENTS: Final = {"CartPole-v1": 50_000.0, "Acrobot-v1": 20_000.0, "MountainCar-v0": 80_000.0}
"""Median env steps of the control in each."""


def make_plan(**options: Any) -> TrialPlan:
    """A trial of one change over three environments, as `rlclinic trial --envs` plans it."""
    short = ["run.max_env_steps=200000", "run.eval_every_env_steps=1000", "run.eval_episodes=5", "algo.learning_rate=1e-3"]
    parts = []
    for env_id in ENVIRONMENTS:
        config: Config = set_values(load(f"{env_id}:ppo").config, short)
        parts.append((arms.control(config), [arms.changed(config, ["algo.learning_rate=1e-5"], "rx1")]))
    return conduct.plan_environments(parts, **options)


def end_trial(plan: TrialPlan, ratios: Sequence[float], spreads: Sequence[float], rng: np.random.Generator) -> SeveralStanding:
    """A trial to its end whose treatment takes so many times the steps in each environment."""

    def runs(count: int, place: int, ratio: float) -> list[Observation]:
        median = list(ENVIRONMENTS.values())[place]
        times = scenarios.draw_times(rng, (count,), median=ratio, spread=spreads[place]) * median
        seen = np.ceil(times / 1_000) * 1_000
        return [trials.observe(None if value > 200_000 else value, 0.0) for value in seen]

    standing = SeveralStanding(plan)
    while not standing.decided:
        names = {"control": [1.0] * len(ratios), **{name: list(ratios) for name in standing.active}}
        standing.add_environments(
            [{name: runs(plan.per_look, place, own[place]) for name, own in names.items()} for place in range(len(ratios))]
        )
    return standing


COVERED: Final = (
    ((1.0, 1.0, 1.0), (0.4, 0.4, 0.4)),
    ((0.7, 0.7, 0.7), (0.2, 0.4, 1.0)),
    ((0.5, 1.0, 1.5), (0.4, 0.4, 0.4)),
    ((0.9, 0.9, 0.3), (0.4, 1.0, 0.4)),
)
"""How many times the steps the treatment takes in three environments, and their spreads."""
_AT_ONCE: Final = 2_000
"""Trials that fit into memory."""


def coverage(ratios: Sequence[float], spreads: Sequence[float], cases: int) -> float:
    """How often the intervals of all environments hold the truth together, and that at every look: wherever the trial stops.

    An interval holds every ratio that the test does not refuse (`sequential.ratio_test` at the bounds of one environment), so the true one
    is asked for. Runs are seen by evaluations every 1,000 env steps up to 200,000.
    """
    rule, rng, held = Rule(environments=3), np.random.default_rng(8), 0
    for start in range(0, cases, _AT_ONCE):
        shape = (min(_AT_ONCE, cases - start), rule.looks * rule.per_look)
        kept = np.ones(shape[0], dtype=bool)
        for median, ratio, spread in zip(ENVIRONMENTS.values(), ratios, spreads, strict=True):
            sides = [scenarios.draw_times(rng, shape, median=own, spread=spread) * median for own in (1.0, ratio)]
            control, treatment = (scenarios.censor(scenarios.round_up(side, 1_000), 200_000) for side in sides)
            for look, bounds in enumerate(rule.environment_bounds(), start=1):
                seen = look * rule.per_look
                z = sequential.ratio_test([control[:, :seen]], [treatment[:, :seen]], 200_000.0, 1_000.0)(np.array(math.log(ratio)))
                kept &= (z <= bounds.better) & (z >= -bounds.worse)
        held += int(kept.sum())
    return held / cases


def count_covered(ratios: Sequence[float], spreads: Sequence[float], rng: np.random.Generator, cases: int) -> int:
    """The same of the intervals that a trial prints where it stopped, from its runs."""
    plan, held = make_plan(), 0
    for _ in range(cases):
        standing = end_trial(plan, ratios, spreads, rng)
        for place, ratio in enumerate(ratios):
            limits = environments.judge_environment(standing, place, "rx1").limits
            made = standing.parts[place].ratio("rx1", limits)
            if made is None or not made.low <= ratio <= made.high:
                break
        else:
            held += 1
    return held


def count_equivalent(ratios: Sequence[float], rng: np.random.Generator, cases: int) -> int:
    """Trials over three environments that end as EQUIVALENT, with so little spread that they can."""
    plan = make_plan(margin=0.2)
    return sum(analysis.verdict(end_trial(plan, ratios, (0.1, 0.1, 0.1), rng))[0] == "equivalent" for _ in range(cases))


def describe_power(name: str, found: dict[str, NDArray[np.float64]]) -> Iterator[dict[str, Any]]:
    """What comes of `compare_power`: the power, its differences, and the runs of a trial."""
    adopts = {way: found[f"{way} adopts"] for way in ("environments", "heap", "single")}
    yield row(f"environments: power, {name}", float(adopts["environments"].mean()), None, "higher") | {"simulations": len(adopts["heap"])}
    for way, what in (("heap", "in one heap"), ("single", "on the best environment")):
        yield describe_difference(f"environments: power over that of all runs {what}, {name}", adopts["environments"] - adopts[way])
    for way, what in (("environments", "over environments"), ("single", "on the best environment")):
        runs = found[f"{way} runs"]
        yield row(f"environments: mean runs an arm {what}, {name}", float(runs.mean()), None) | {"simulations": len(runs)}


def rows(simulations: int) -> Iterator[dict[str, Any]]:
    """All figures about trials over several environments."""
    for count in {len(draws) for draws in NULLS.values()} | {2, 3, 5}:
        for per_look in (4, 8):
            rule = Rule(per_look=per_look, environments=count)
            _ = rule.bounds, rule.environment_bounds()  # simulated once, not once in every process
    asked = {
        (name, per_look): partial(count_calls, draws, simulations, BETTER, WORSE, MIXED, per_look=per_look)
        for name, draws in NULLS.items()
        for per_look in (8, 4)
    }
    nulls = _name_looks(parallel.evaluate(asked))
    yield row("environments: false verdicts, worst of 22 null scenarios", max(nulls.values()), 0.055, stretch=0.05, each=nulls)
    asked = {
        (name, per_look): partial(count_calls, draws, simulations, wrong, per_look=per_look)
        for name, (draws, wrong) in ONE_SIDED.items()
        for per_look in (8, 4)
    }
    mixed = _name_looks(parallel.evaluate(asked))
    yield row('environments: false "helps here, hurts there", worst of 12', max(mixed.values()), 0.05, stretch=0.025, each=mixed)
    slower = {
        f"{count} environments, all slower": [
            draw_pair({}, {"median": 1.1}),
            *[draw_pair({"spread": 1.0}, {"spread": 1.0, "median": 1.2})] * (count - 1),
        ]
        for count in (2, 3, 5)
    }
    ways = parallel.evaluate({name: partial(count_calls, draws, simulations, BETTER) for name, draws in slower.items()})
    yield row("environments: wrong way, worst", max(ways.values()), 0.02, each=ways)
    for kind in ("twice the steps", "50 % more steps", "30 % more steps", "arrival 100 -> 75 %", "arrival 100 -> 65 %"):
        found = find_hidden(kind, simulations)
        yield row(f"environments: ADOPT although one environment has {kind}, worst", max(found.values()), BARS.get(kind), each=found)
        alone = find_hidden(kind, simulations, each=False)
        yield row(f"environments: the same by the average alone, {kind}, worst", max(alone.values()), None, each=alone)
    powers = parallel.evaluate({name: partial(compare_power, name, simulations) for name in CASES})
    for name, power in powers.items():
        yield from describe_power(name, power)
    calls, seeds = carry_out([draw_pair({}, {"median": 0.5}), draw_pair({}, {"median": 1.5}), EQUAL], simulations)
    yield row('environments: "helps here, hurts there" where steps are 0.5, 1.5 and 1 times as many', share(calls, MIXED), 0.8, "higher")
    yield row("environments: seeds an arm in each environment until then", float(seeds.mean()), None)
    calls, _ = carry_out([FASTER, EQUAL, EQUAL], simulations)
    yield row("environments: ADOPT where one of three gets twice as fast and none worse", share(calls, BETTER), None, "higher")
    equal = {
        f"{count} environments, {100 * arriving:.0f} % arrive": [draw_pair({"arriving": arriving}, {"median": 0.7, "arriving": arriving})]
        * count
        for count in (2, 3, 5)
        for arriving in (1.0, 0.95, 0.9)
    }
    both, one = (
        parallel.evaluate({name: partial(count_calls, draws, simulations, BETTER, each=each) for name, draws in equal.items()})
        for each in (True, False)
    )
    losses = {name: one[name] - both[name] for name in equal}
    yield row("environments: power lost to looking into each, arrival equal, worst", max(losses.values()), None, each=losses)
    held = parallel.evaluate({_name_ratios(ratios): partial(coverage, ratios, spreads, simulations) for ratios, spreads in COVERED})
    yield row("environments: all intervals hold together at every look, worst", min(held.values()), 0.92, "higher", 0.95, each=held)
    few = max(simulations // 4, 20)
    held = {}
    for ratios, spreads in COVERED:
        held[_name_ratios(ratios)] = float(parallel.add_up(partial(count_covered, ratios, spreads), few, 8, 25) / few)
    yield row("environments: all intervals hold together, worst", min(held.values()), 0.92, "higher", 0.95, each=held, simulations=few)
    cases = max(simulations // 4, 20)
    for ratios, what, bar, better in (
        ((1.0, 1.0, 1.0), "where arms are equal in all, little spread", 0.8, "higher"),
        ((0.7, 1.0, 1.4), "where steps are 0.7, 1 and 1.4 times as many", 0.05, "lower"),
    ):
        found_alike = int(parallel.add_up(partial(count_equivalent, ratios), cases, 9, 50))
        yield row(f"environments: EQUIVALENT {what}", found_alike / cases, bar, better, simulations=cases)


def count_calls(draws: Sequence[Draw], simulations: int, *wanted: int, per_look: int = 8, each: bool = True) -> float:
    """Share of trials that were called so."""
    return share(carry_out(draws, simulations, Rule(per_look=per_look, environments=len(draws)), each=each)[0], *wanted)


def _name_looks(found: dict[tuple[str, int], float]) -> dict[str, float]:
    return {name if per_look == 8 else f"{name}, {per_look} seeds a look": value for (name, per_look), value in found.items()}


def _name_ratios(ratios: Sequence[float]) -> str:
    return ", ".join(f"{ratio:g}" for ratio in ratios)
