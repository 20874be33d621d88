"""regress: how often it passes a candidate whose seeds collapse, and alarms about one that is as good as the baseline.

Cases are ended by `power.run_gate`, look by look, as `rlclinic regress` ends one; a fresh baseline and a fresh candidate in each.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.proof import parallel, scenarios
from benchmarks.proof.scenarios import Draws
from benchmarks.proof.shares import describe_share, describe_value
from rlclinic import stats
from rlclinic.comparison import power, regression
from rlclinic.comparison.regression import Gate, GateOutcome
from rlclinic.runs.outcome import usual_margin

HORIZON: Final = 5.0
BASELINE: Final = 16
USUAL: Final = usual_margin("steps")
Draw = Callable[[np.random.Generator, tuple[int, int]], Draws]


class Case(NamedTuple):
    """A gate, and what a baseline and a candidate are drawn from: one number for each run, larger is worse."""

    rule: Gate
    seeds: int
    """Of the baseline."""
    baseline: Draw
    candidate: Draw


class Ends(NamedTuple):
    """Shares of all cases."""

    passed: float
    alarmed: float


def make_rule(outcome: GateOutcome, looks: int, per_look: int, *, margin: float = 0.1, seeds: int = BASELINE) -> Gate:
    """The rule as `regression.gate` makes it for a baseline of so many seeds."""
    information = [1 / (1 / seeds + 1 / (per_look * (look + 1))) for look in range(looks)]
    return Gate(outcome, margin, 0.05, looks, per_look, stats.obrien_fleming_bounds(looks, 0.1, information))


def _returns(collapsing: float, noise: float) -> Draw:
    return lambda rng, shape: -scenarios.draw_returns(rng, shape, collapsing=collapsing, noise=noise)


def _steps(**how: float) -> Draw:
    return lambda rng, shape: scenarios.censor(scenarios.draw_times(rng, shape, **how), HORIZON)


def collapsing(share: float, noise: float, looks: int, per_look: int, seeds: int = BASELINE) -> Case:
    """A baseline that holds its return, and a candidate of which a share collapses."""
    return Case(make_rule("return", looks, per_look, seeds=seeds), seeds, _returns(0.0, noise), _returns(share, noise))


def arriving(share: float, looks: int, per_look: int, *, median: float = 1.0, margin: float = USUAL, seeds: int = BASELINE) -> Case:
    """A baseline that always arrives, and a candidate that does so in a share of its seeds."""
    rule = make_rule("steps", looks, per_look, margin=margin, seeds=seeds)
    return Case(rule, seeds, _steps(), _steps(arriving=share, median=median))


EQUAL: Final[dict[str, Case]] = {
    **{
        f"returns, noise {noise:g}, {looks} x {per}": collapsing(0.0, noise, looks, per)
        for noise in (0.0, 5.0)
        for looks, per in ((1, 8), (4, 8))
    },
    **{
        f"returns, a tenth collapses in both, {looks} x {per}": Case(
            make_rule("return", looks, per), BASELINE, _returns(0.1, 5.0), _returns(0.1, 5.0)
        )
        for looks, per in ((1, 8), (4, 8))
    },
    **{f"steps, {looks} x {per}": arriving(1.0, looks, per) for looks, per in ((1, 8), (4, 8))},
    **{
        f"steps, a fifth never arrives in both, {looks} x {per}": Case(
            make_rule("steps", looks, per, seeds=seeds), seeds, _steps(arriving=0.8), _steps(arriving=0.8)
        )
        for looks, per, seeds in ((1, 8, 16), (1, 16, 32), (4, 8, 16))
    },
}
WAYS_TO_FAIL: Final[dict[str, Callable[[int, int], Case]]] = {
    "a quarter collapses, the rest tied": lambda looks, per: collapsing(0.25, 0.0, looks, per),
    "a quarter collapses, noise": lambda looks, per: collapsing(0.25, 5.0, looks, per),
    "a quarter never arrives": lambda looks, per: arriving(0.75, looks, per),
    "a quarter never arrives, the rest 40 % faster": lambda looks, per: arriving(0.75, looks, per, median=0.6),
}
QUARTER: Final[dict[str, tuple[Case, float]]] = {
    f"{what}, {looks} x {per}": (make(looks, per), bar)
    for looks, per, bar in ((1, 8, 0.12), (1, 16, 0.03), (2, 8, 0.03), (4, 8, 0.03))
    for what, make in WAYS_TO_FAIL.items()
}


def end(case: Case, cases: int, seed: int = 0) -> Ends:
    """How the cases end."""
    rng = np.random.default_rng(seed)
    before = case.baseline(rng, (cases, case.seeds))
    after = case.candidate(rng, (cases, case.rule.looks * case.rule.per_look))
    alarmed, passed, _ = power.run_gate(before, after, case.rule, HORIZON)
    return Ends(float(passed.mean()), float(alarmed.mean()))


def count_settled(rng: np.random.Generator, cases: int) -> tuple[int, int]:
    """Undecided cases (30 % margin, 16 seeds a side, losses of 0 to 30 %): those that the suggested seeds settle, and all."""
    rule = make_rule("steps", 1, 16, margin=0.3)
    held, all_of_them = 0, 0
    for _ in range(cases):
        loss = rng.uniform(0.0, 0.3)
        before, after = _keep(_steps()(rng, (1, 16))[0]), _keep(_steps(median=1 + loss)(rng, (1, 16))[0])
        look = regression.judge(before, after, rule, 1)
        needed = power.seeds_needed(before, rule, look) if look.decision == "undecided" else None
        if needed is None:
            continue
        more = _keep(np.concatenate([_values(after), _steps(median=1 + loss)(rng, (1, needed[0] - 16))[0]]))
        base = _keep(np.concatenate([_values(before), _steps()(rng, (1, needed[1] - 16))[0]]))
        final = regression.judge(base, more, make_rule("steps", 1, needed[0], margin=0.3, seeds=needed[1]), 1)
        all_of_them += 1
        held += final.decision != "undecided" or min(final.alarm or 0.0, final.passing or 0.0) > final.bound
    return held, all_of_them


def _values(kept: regression.Baseline) -> Draws:
    return regression.values(kept, "steps", HORIZON)


def _keep(steps: Draws) -> regression.Baseline:
    seeds = [
        regression.SeedResult(
            run="run",
            final=None,
            reached=None if np.isinf(time) else float(time),
            followed=HORIZON,
            seconds=None,
            success=None,
            failed=False,
        )
        for time in steps
    ]
    return regression.Baseline(
        name="simulated",
        env=None,
        algo=None,
        measure="evaluation",
        threshold=475.0,
        env_steps=HORIZON,
        fingerprint="",
        settings={},
        versions={},
        seeds=seeds,
    )


def rows(simulations: int) -> Iterator[dict[str, Any]]:
    """The worst of each kind, and each scenario."""
    equal = parallel.evaluate({name: partial(end, case, simulations) for name, case in EQUAL.items()})
    worst = max(equal, key=lambda name: equal[name].alarmed)
    yield describe_value(f"regress, false alarms, worst of {len(equal)} ({worst})", equal[worst].alarmed, simulations, 0.055, 0.05)
    ended = parallel.evaluate({name: partial(end, case, simulations) for name, (case, _) in QUARTER.items()})
    quarter = {name: ends.passed for name, ends in ended.items()}
    for seeds, looks in (("8 seeds", ("1 x 8",)), ("16 seeds or more", ("1 x 16", "2 x 8", "4 x 8"))):
        name = max((name for name in quarter if name.endswith(looks)), key=lambda name: quarter[name])
        yield describe_value(
            f"regress, passed although a quarter fails, {seeds}, worst ({name})", quarter[name], simulations, QUARTER[name][1], None
        )
    for name, share in quarter.items():
        yield describe_value(f"regress, passed: {name}", share, simulations, QUARTER[name][1], None)
    for name, ends in equal.items():
        yield describe_value(f"regress, false alarms: {name}", ends.alarmed, simulations, 0.055, 0.05)
    for noise in (0.0, 5.0, 20.0):
        share = end(collapsing(0.0, noise, 4, 8), simulations).passed
        yield describe_value(
            f"regress, identical, all hold, noise {noise:g}: passed within 32 seeds", share, simulations, 0.8, 0.95, "higher"
        )
    for margin in (0.1, 0.3, USUAL):
        share = end(arriving(1.0, 4, 8, margin=margin), simulations).passed
        yield describe_value(
            f"regress, identical, steps, margin {margin:.2g}: passed within 32 seeds",
            share,
            simulations,
            0.8 if margin == USUAL else None,
            None,
            "higher",
        )
    held, asked = parallel.add_up(count_settled, simulations, 0, 250)
    yield describe_share("regress, the seeds that would settle it settle it", int(held), int(asked), 0.8, better="higher")
