"""Trials: wrong verdicts of equal arms, adoption of arms that fail, power, equivalence, extensions, power that was promised.

Bounds, statistic and decision are those of `treatment.trial.sequential`, which `rlclinic trial` uses; verdicts that need runs are made by
`treatment.trial.analysis.Standing` from made-up observations.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.proof import parallel, scenarios
from benchmarks.proof.scenarios import COLLAPSED, SOLVED, Draws
from rlclinic.config import Config
from rlclinic.runs.outcome import usual_margin
from rlclinic.treatment.trial import analysis, arms, conduct, power, sequential
from rlclinic.treatment.trial.analysis import Standing
from rlclinic.treatment.trial.models import Extension, Observation, TrialPlan
from rlclinic.treatment.trial.sequential import Arrivals, Bounds, Rule

Draw = Callable[[np.random.Generator, tuple[int, ...]], tuple[Draws, Draws]]
"""Scores of control and treatment, infinite where a run did not get there."""
RULE: Final = Rule()
CONFIG: Final = Config(
    env={"id": "CartPole-v1"}, spec={"threshold": 475.0}, run={"max_env_steps": 100_000, "eval_every_env_steps": 1_000, "eval_episodes": 5}
)


def draw_pair(control: dict[str, Any], treatment: dict[str, Any] | None = None, *, horizon: float = math.inf, spacing: float = 0.0) -> Draw:
    """Two arms of log-normal times; the treatment is the control's twin where nothing is said of it."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Draws, Draws]:
        sides = [scenarios.draw_times(rng, shape, **side) for side in (control, control if treatment is None else treatment)]
        if spacing:
            sides = [scenarios.round_up(side, spacing) for side in sides]
        return scenarios.censor(sides[0], horizon), scenarios.censor(sides[1], horizon)

    return draw


def draw_heavy(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Draws, Draws]:
    """Times with tails as heavy as Cauchy's."""
    return np.exp(rng.standard_cauchy(shape).clip(-50, 50)), np.exp(rng.standard_cauchy(shape).clip(-50, 50))


def draw_exponential(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Draws, Draws]:
    return rng.exponential(size=shape), rng.exponential(size=shape)


def draw_ends(collapsing: float, noise: float = 0.0) -> Draw:
    """Minus the return at the end: capped, with a share that has collapsed, in both arms alike."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Draws, Draws]:
        sides = [-scenarios.draw_returns(rng, shape, collapsing=collapsing, noise=noise) for _ in range(2)]
        return sides[0], sides[1]

    return draw


NULLS: Final[dict[str, Draw]] = {
    "log-normal times": draw_pair({}),
    "exponential times": draw_exponential,
    "tails as heavy as Cauchy's": draw_heavy,
    "ties: evaluations as far apart as the median": draw_pair({}, spacing=1.0),
    "ties: five values": draw_pair({}, spacing=0.4),
    "15 % censored": draw_pair({}, horizon=scenarios.find_horizon(0.85)),
    "50 % censored": draw_pair({}, horizon=scenarios.find_horizon(0.5)),
    "90 % censored": draw_pair({}, horizon=scenarios.find_horizon(0.1)),
    "20 % never arrive": draw_pair({"arriving": 0.8}),
    "50 % never arrive, wide": draw_pair({"arriving": 0.5, "spread": 1.0}),
    "returns at a cap, 20 % collapse": draw_ends(0.2),
    "returns below a cap, 10 % collapse": draw_ends(0.1, 30.0),
    "spread 0.2 against 1": draw_pair({"spread": 0.2}, {"spread": 1.0}),
    "spread 1 against 0.2, 10 % never arrive": draw_pair({"spread": 1.0, "arriving": 0.9}, {"spread": 0.2, "arriving": 0.9}),
}
"""Neither arm is better: P(a treated run does better) is one half."""
COLLAPSES: Final[dict[str, tuple[Draw, float]]] = {
    "half the steps, arrival 100 -> 75 %": (draw_pair({}, {"median": 0.5, "arriving": 0.75}), 0.12),
    "a third of the steps, arrival 100 -> 75 %": (draw_pair({}, {"median": 1 / 3, "arriving": 0.75}), 0.12),
    "a tenth of the steps, arrival 100 -> 75 %": (draw_pair({}, {"median": 0.1, "arriving": 0.75}), 0.12),
    "a third of the steps, arrival 100 -> 65 %": (draw_pair({}, {"median": 1 / 3, "arriving": 0.65}), 0.05),
    "a tenth of the steps, arrival 100 -> 65 %": (draw_pair({}, {"median": 0.1, "arriving": 0.65}), 0.05),
}
"""Faster, but less reliable: an ADOPT is wrong; and how often it may happen."""


def carry_out(
    draw: Draw, simulations: int, rule: Rule = RULE, *, arrival: bool = True, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What so many trials come to (as `sequential.decide` calls it), and with how many seeds an arm."""
    rng = np.random.default_rng(seed)
    control, treatment = draw(rng, (rule.looks, simulations, rule.per_look))
    calls, seeds = np.zeros(simulations, dtype=np.int64), np.full(simulations, rule.looks * rule.per_look)
    for look in range(1, rule.looks + 1):
        count = look * rule.per_look
        hits = [np.isfinite(side[:look]).sum((0, 2)) for side in (control, treatment)]
        arrivals = Arrivals(hits[0], count, hits[1], count) if arrival else None
        z, bounds = sequential.statistics(control[:look], treatment[:look]), rule.bounds[look - 1]
        if rule.per_look < sequential.NORMAL_FROM:
            stretch = sequential.stretch_by_ties(control[:look], treatment[:look])
            bounds = Bounds(*(stretch * side for side in bounds))  # type: ignore[arg-type]  # one for each trial
        now = sequential.decide(z, bounds, arrivals, 0.10, last=look == rule.looks)
        fresh = (calls == sequential.OPEN) & (now != sequential.OPEN)
        calls[fresh], seeds[fresh] = now[fresh], count
    return calls, seeds


def find_false_verdicts(draw: Draw, simulations: int) -> float:
    """Share of trials of equal arms that call one of them better or worse."""
    calls, _ = carry_out(draw, simulations)
    return float(np.isin(calls, (sequential.BETTER, sequential.WORSE)).mean())


# ── the whole decision, of many trials at once ──

AT_ONCE: Final = 4_000
"""Trials that fit into memory."""
EQUIVALENT, FUTILE = 4, 5
"""Beside what `sequential.decide` calls an arm."""
STEPS: Final = 50_000.0
"""Env steps that a time of 1 stands for, where trials have a budget and evaluations."""


class Ends(NamedTuple):
    """What runs of control and treatment came to, [looks, trials, seeds], and on what scale trials of them may call them equivalent."""

    control: Draws
    treatment: Draws
    """Scores, lower is better; infinite where a run has none."""
    arrived: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    margin: float
    """The largest effect that counts as none: a log ratio where scores are times, else a difference."""
    spacing: float | None = None
    """Env steps between evaluations, where scores are env steps; None where they are not."""
    horizon: float = math.inf


def end_steps(control: Draws, treatment: Draws, *, unit: float = STEPS, budget: float = 100_000.0, spacing: float = 1_000.0) -> Ends:
    """Times as a trial by env steps sees them: rounded up to the next evaluation, and cut at the budget."""
    sides = [scenarios.censor(scenarios.round_up(side * unit, spacing), budget) for side in (control, treatment)]
    arrived = np.isfinite(sides[0]), np.isfinite(sides[1])
    return Ends(sides[0], sides[1], arrived, math.log1p(usual_margin("steps")), spacing, budget)


def end_returns(control: Draws, treatment: Draws, threshold: float = 475.0) -> Ends:
    """Final returns as a trial by returns sees them."""
    return Ends(-control, -treatment, (control >= threshold, treatment >= threshold), usual_margin("return") * threshold)


def end_successes(control: Draws, treatment: Draws) -> Ends:
    """Shares of successful episodes as a trial by success sees them; a run below one half has not got there."""
    return Ends(-control, -treatment, (control >= 0.5, treatment >= 0.5), usual_margin("success"))


def end_trials(ends: Ends, rule: Rule = RULE) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What trials come to, EQUIVALENT and FUTILE among it, and with how many seeds an arm: as `analysis.Standing` ends one.

    tests/treatment/trial/test_proof.py holds it to `Standing`, trial by trial.
    """
    simulations = ends.control.shape[1]
    calls, seeds = np.zeros(simulations, dtype=np.int64), np.full(simulations, rule.looks * rule.per_look)
    for look in range(1, rule.looks + 1):
        count, last = look * rule.per_look, look == rule.looks
        control, treatment = ends.control[:look], ends.treatment[:look]
        hits = [side[:look].sum((0, 2)) for side in ends.arrived]
        arrivals = Arrivals(hits[0], count, hits[1], count)
        z = sequential.statistics(control, treatment)
        now = sequential.decide(z, rule.bounds[look - 1], arrivals, rule.arrival_margin, last=last)
        if ends.spacing is None:
            test = sequential.shift_test(control, treatment)
        else:
            test = sequential.ratio_test(control, treatment, ends.horizon, ends.spacing)
        alike = sequential.refuses_both(test, ends.margin, rule.equivalence_bounds[look - 1])
        alike &= sequential.excludes_a_drop(arrivals, rule.arrival_margin)
        whole = [np.moveaxis(side, 0, 1).reshape(simulations, count) for side in (control, treatment)]
        if ends.spacing is None:
            alike &= np.isfinite(np.concatenate(whole, axis=1)).all(1) & sequential.means_within(whole[0], whole[1], ends.margin)
        else:
            alike &= ~sequential.is_too_coarse(np.concatenate(whole, axis=1), ends.spacing)
            theirs, ours = (sequential.log_times(side, ends.horizon) for side in whole)
            alike &= sequential.means_within(theirs, ours, ends.margin)
        now = np.where((now == sequential.OPEN) & alike, EQUIVALENT, now)
        if not last:
            apart = sequential.tell_apart(test, ends.margin)
            futile = sequential.is_futile(z, look / rule.looks, rule.bounds[-1], apart, rule.equivalence_bounds[-1])
            now = np.where((now == sequential.OPEN) & futile, FUTILE, now)
        fresh = (calls == sequential.OPEN) & (now != sequential.OPEN)
        calls[fresh], seeds[fresh] = now[fresh], count
    return calls, seeds


def count_calls(draw: Callable[[np.random.Generator, tuple[int, ...]], Ends], simulations: int, *wanted: int, rule: Rule = RULE) -> float:
    """Share of trials that end in one of these calls."""
    rng, found = np.random.default_rng(1), 0
    for start in range(0, simulations, AT_ONCE):
        ends = draw(rng, (rule.looks, min(AT_ONCE, simulations - start), rule.per_look))
        found += int(np.isin(end_trials(ends, rule)[0], wanted).sum())
    return found / simulations


# ── trials from their runs ──


def make_plan(**options: Any) -> TrialPlan:
    """A trial of one change, as `rlclinic trial` plans it."""
    return conduct.plan(arms.control(CONFIG), [arms.changed(CONFIG, ["algo.learning_rate=1e-5"], "rx1")], **options)


def observe(reached: float | None = None, final: float | None = None, success: float | None = None) -> Observation:
    """A run that came to this."""
    return Observation.model_construct(
        run="r", seed=0, state="finished", env_steps=100_000, reached_at=None if reached is None else int(reached), lost=False, final=final,
        success=success, seconds=10.0, seconds_per_100k=10.0, guards={}, evaluated=True, reason=None,
    )  # fmt: skip


def observe_returns(returns: Draws) -> list[Observation]:
    """Runs that ended like this; those at 475 or above had got there, and stayed."""
    return [observe(50_000 if value >= 475.0 else None, float(value)) for value in returns]


def observe_steps(times: Draws, median: float = 50_000.0) -> list[Observation]:
    """Runs that got there at these times, as evaluations every 1,000 env steps see them."""
    seen = np.ceil(times * median / 1_000) * 1_000
    return [observe(None if value > 100_000 else value, SOLVED if value <= 100_000 else COLLAPSED) for value in seen]


def find_verdict(plan: TrialPlan, draw: Callable[[str, int], list[Observation]]) -> Standing:
    """A trial to its end; `draw(arm, seeds)` makes the runs."""
    standing = Standing(plan)
    while not standing.decided:
        number = len(standing.data) + 1
        count = plan.per_look if number <= plan.looks else plan.extensions[number - plan.looks - 1].seeds
        standing.add({name: draw(name, count) for name in ["control", *standing.active]})
    return standing


def returns_with_collapse(share: float, noise: float = 5.0) -> Callable[[np.random.Generator, tuple[int, ...]], Ends]:
    """The control always solves its task; of the treatment a share collapses."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Ends:
        sides = [scenarios.draw_returns(rng, shape, collapsing=own, noise=noise) for own in (0.0, share)]
        return end_returns(sides[0], sides[1])

    return draw


def arrive_early(factor: float) -> Callable[[np.random.Generator, tuple[int, ...]], Ends]:
    """All runs get there well within the budget; the treatment takes so many times the control's steps."""
    return lambda rng, shape: end_steps(*(scenarios.draw_times(rng, shape, median=own) for own in (1.0, factor)), unit=20_000.0)


def success_rates(control: float, treatment: float) -> Callable[[np.random.Generator, tuple[int, ...]], Ends]:
    """Runs that succeed or do not."""
    return lambda rng, shape: end_successes(*((rng.random(shape) < own).astype(np.float64) for own in (control, treatment)))


SPREADS_ALIKE: Final = ("exponential", "bimodal", "capped")


def draw_finals(kind: str, rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Final returns, for the outcome stability."""
    if kind == "exponential":
        return 400.0 - 60.0 * rng.exponential(size=shape)
    if kind == "bimodal":
        return np.where(rng.random(shape) < 0.3, 100.0, 400.0) + 10.0 * rng.standard_normal(shape)
    return np.minimum(480.0 + 40.0 * rng.standard_normal(shape), 500.0)


def _take_batch(batches: dict[str, Iterator[Any]], name: str, seeds: int) -> list[Observation]:
    return [observe(50_000, float(end)) for end in next(batches[name])]


def count_unequal_spreads(kind: str, rng: np.random.Generator, trials: int, *, looks: int = 4) -> int:
    """Trials of equal arms by stability that call one better or worse.

    The bounds of a spread move out by what 800 deals of the runs of a look show, never in: trials that stay within those of any other
    outcome at every look call nothing, and need no deals.
    """
    plan = make_plan(outcome="stability", looks=looks)
    finals = draw_finals(kind, rng, (2, looks, trials, plan.per_look))
    control, treatment = sequential.deviations(finals)
    near = np.zeros(trials, dtype=bool)
    for look, bounds in enumerate(plan.sequential.bounds, start=1):
        z = sequential.statistics(control[:look], treatment[:look])
        near |= (z > bounds.better) | (z < -bounds.worse)
    wrong = 0
    for case in np.flatnonzero(near):
        batches = {"control": iter(finals[0, :, case]), "rx1": iter(finals[1, :, case])}
        standing = find_verdict(plan, partial(_take_batch, batches))
        wrong += analysis.verdict(standing)[0] in ("adopt", "reject")
    return wrong


def count_refused(rng: np.random.Generator, trials: int, *, spacing: float = 15_000.0) -> tuple[int, int]:
    """Trials with evaluations as far apart as a third of the median that adopt: those whose test refuses "no effect", and all.

    An interval of ratios holds what its test does not refuse (`sequential.invert_ratio`).
    """
    ends = end_steps(*(scenarios.draw_times(rng, (RULE.looks, trials, RULE.per_look), median=own) for own in (1.0, 0.65)), spacing=spacing)
    calls, seeds = end_trials(ends)
    refused = adopted = 0
    for look, bounds in enumerate(RULE.bounds, start=1):
        stopped = (calls == sequential.BETTER) & (seeds == look * RULE.per_look)
        test = sequential.ratio_test(ends.control[:look, stopped], ends.treatment[:look, stopped], ends.horizon, spacing)
        refused += int((test(np.array(0.0)) > bounds.better).sum())
        adopted += int(stopped.sum())
    return refused, adopted


ALIKE: Final[dict[str, tuple[Callable[[np.random.Generator, tuple[int, ...]], Ends], float, str]]] = {
    "although 25 % of seeds collapse": (returns_with_collapse(0.25), 0.05, "lower"),
    "although success falls 0.9 -> 0.7": (success_rates(0.9, 0.7), 0.05, "lower"),
    "although 30 % fewer steps are needed": (arrive_early(0.7), 0.05, "lower"),
    "although 43 % more steps are needed": (arrive_early(1 / 0.7), 0.05, "lower"),
    "for identical arms, all arriving, 32 seeds": (returns_with_collapse(0.0), 0.80, "higher"),
    "for identical arms by steps, all arriving, 32 seeds": (arrive_early(1.0), 0.80, "higher"),
}
"""What EQUIVALENT is said of, how often it may (or must) be, and which is better."""


def extended_errors(simulations: int, extensions: int = 10, sizes: tuple[int, ...] = (8, 16, 64)) -> float:
    """Equal arms: share of trials that ever call one better or worse, when each undecided one is extended again and again.

    The person who extends looks at the statistic first, and takes few seeds where it is near its bound and many where it is not.
    """
    rng, rule = np.random.default_rng(3), RULE
    called = np.zeros(simulations, dtype=bool)
    # The statistic as the Brownian motion that it is: sums of so many seeds.
    total, seeds = np.zeros(simulations), np.zeros(simulations)
    for look in range(1, rule.looks + 1):
        total += rng.standard_normal(simulations) * math.sqrt(rule.per_look)
        seeds += rule.per_look
        z, bounds = total / np.sqrt(seeds), rule.bounds[look - 1]
        called |= (z > bounds.better) | (z < -bounds.worse)
    for number in range(1, extensions + 1):
        levels, z = rule.extension_levels(number), total / np.sqrt(seeds)
        taken = np.select([np.abs(z) > 1.5, np.abs(z) > 0.7], sizes[:2], sizes[2])
        fresh = rng.standard_normal(simulations)
        limits = [sequential.extension_bound(float(each), levels) for each in z]
        called |= ~called & ((fresh > [each.better for each in limits]) | (fresh < [-each.worse for each in limits]))
        total, seeds = total + fresh * np.sqrt(taken), seeds + taken
    return float(called.mean())


def count_extended_errors(rng: np.random.Generator, trials: int) -> int:
    """Trials of equal arms that are extended twice where they are undecided: those that call one better or worse."""
    plan, wrong = make_plan(futility=False), 0
    longer = plan.model_copy(update={"extensions": (Extension(seeds=16, seed0=10**6), Extension(seeds=32, seed0=2 * 10**6))})
    for _ in range(trials):
        standing = find_verdict(longer, lambda _, count: observe_steps(scenarios.draw_times(rng, (count,))))
        wrong += analysis.verdict(standing)[0] in ("adopt", "reject")
    return wrong


def count_settled(median: float, rng: np.random.Generator, trials: int) -> tuple[int, int]:
    """Undecided trials that take as many seeds as would settle them: those that are then decided, and all."""
    plan, settled, asked = make_plan(futility=False), 0, 0
    for _ in range(trials):

        def draw(name: str, count: int) -> list[Observation]:
            return observe_steps(scenarios.draw_times(rng, (count,), median=1.0 if name == "control" else median), 30_000.0)

        ended = find_verdict(plan, draw)
        needed = analysis.effects(ended)[0].seeds_needed if analysis.verdict(ended)[0] == "undecided" else None
        if needed is not None:
            more = max(needed - ended.looks[-1].seeds, 2)
            longer = Standing(plan.model_copy(update={"extensions": (Extension(seeds=more, seed0=10**6),)}))
            for data in ended.data:
                longer.add(data)
            longer.add({name: draw(name, more) for name in ("control", "rx1")})
            asked, settled = asked + 1, settled + (analysis.verdict(longer)[0] != "undecided")
    return settled, asked


def add_misses_of_power(spread: float, censored: float, rng: np.random.Generator, cases: int) -> float:
    """How far `can see` from 16 measured runs is from the truth: outside of what is printed, added up over draws."""
    horizon = scenarios.find_horizon(1.0 - censored if censored else 0.999, spread)
    truth, total = power._simulate(RULE, spread, min(1.0 - censored, 0.99), 0.3, "time")[0], 0.0
    for _ in range(cases):
        times = scenarios.censor(scenarios.draw_times(rng, (16,), spread=spread), horizon)
        made = power.power(RULE, [float(time) if np.isfinite(time) else None for time in times], horizon=horizon, effects=(0.3,))
        said, (low, high) = made.by_effect["0.3"], made.range_by_effect.get("0.3", (math.nan, math.nan))
        total += 0.0 if low - 0.1 <= truth <= high + 0.1 else abs(said - truth)
    return total


def row(what: str, value: float, bar: float | None, better: str = "lower", stretch: float | None = None, **more: Any) -> dict[str, Any]:
    """One figure."""
    return {"what": what, "unit": "", "value": value, "better": better, "bar": bar, "stretch": stretch, **more}


def rows(simulations: int) -> Iterator[dict[str, Any]]:
    """All figures about trials."""
    nulls = parallel.evaluate({name: partial(find_false_verdicts, draw, simulations) for name, draw in NULLS.items()})
    yield row("trial: false verdicts, worst of 14 null scenarios", max(nulls.values()), 0.055, stretch=0.05, each=nulls)
    falls = parallel.evaluate(
        {
            (name, arrival): partial(adopted_share, draw, simulations, arrival=arrival)
            for name, (draw, _) in COLLAPSES.items()
            for arrival in (True, False)
        }
    )
    for name, (_, bar) in COLLAPSES.items():
        yield row(f"trial: ADOPT, {name}", falls[name, True], bar)
        yield row(f"trial: ADOPT by ranks alone, {name}", falls[name, False], None)
    failing = draw_pair({"arriving": 0.9}, {"median": 1 / 3, "arriving": 0.65})
    yield row("trial: ADOPT, a third of the steps, arrival 90 -> 65 %", adopted_share(failing, simulations), None)
    calls, seeds = carry_out(draw_pair({}, {"median": 0.7}), simulations)
    yield row(
        "trial: power at 30 % fewer steps, usual spread, all arrive", float((calls == sequential.BETTER).mean()), 0.88, "higher", 0.92
    )
    yield row("trial: mean seeds an arm at 30 % fewer steps", float(seeds.mean()), 22.0, stretch=18.0)
    pairs = {
        f"{100 * arriving:.0f} % arrive, {100 * (1 - median):.0f} % faster": draw_pair(
            {"arriving": arriving}, {"median": median, "arriving": arriving}
        )
        for arriving in (1.0, 0.95, 0.9, 0.85, 0.7)
        for median in (0.7, 0.5)
    }
    both, one = (
        parallel.evaluate({name: partial(adopted_share, pair, simulations, arrival=arrival) for name, pair in pairs.items()})
        for arrival in (True, False)
    )
    losses = {name: one[name] - both[name] for name in pairs}
    yield row("trial: power lost to the second outcome where arrival is equal, worst", max(losses.values()), 0.03, each=losses)
    ends = parallel.evaluate({name: partial(count_calls, draw, simulations, EQUIVALENT) for name, (draw, _, _) in ALIKE.items()})
    for name, (_, bar, better) in ALIKE.items():
        yield row(f"trial: EQUIVALENT {name}", ends[name], bar, better, 0.95 if better == "higher" else 0.02)
    for kind in SPREADS_ALIKE:
        wrong = parallel.add_up(partial(count_unequal_spreads, kind), simulations, 1, 250)
        yield row(f"trial: equal arms called different in stability, {kind}", float(wrong / simulations), 0.05)
    held, adopted = parallel.add_up(count_contradictions, simulations, 6, 250)
    what = "trial: ADOPTs whose interval reaches no effect, coarse evaluations"
    yield row(what, float(held / max(adopted, 1)), 0.02) | {"simulations": int(adopted)}
    yield row("trial: error over ten extensions, sizes chosen by what was seen", extended_errors(simulations), 0.05)
    wrong = parallel.add_up(count_extended_errors, simulations, 4, 250)
    yield row("trial: error of trials that are extended twice, from their runs", float(wrong / simulations), 0.05)
    found = {median: parallel.add_up(partial(count_settled, median), simulations // 2, 7, 100) for median in (1.0, 0.95, 0.85)}
    shares = {f"{median:g} of the steps": float(settled / max(asked, 1)) for median, (settled, asked) in found.items()}
    what = 'trial: "about N more seeds settle it" comes true, worst'
    yield row(what, min(shares.values()), 0.80, "higher", each=shares) | {"simulations": int(sum(asked for _, asked in found.values()))}
    yield judge_power(simulations)


def judge_power(simulations: int) -> dict[str, Any]:
    """`can see` from measured runs beside the truth, so many draws over all spreads and shares of censored runs."""
    worlds = [(spread, censored) for spread in (0.2, 0.4, 0.7, 1.0) for censored in (0.0, 0.3, 0.7)]
    cases, misses = -(-max(120, simulations) // len(worlds)), {}
    for spread, censored in worlds:
        missed = parallel.add_up(partial(add_misses_of_power, spread, censored), cases, 5, 25)
        misses[f"spread {spread:g}, {100 * censored:.0f} % censored"] = float(missed / cases)
    what = "trial: `can see` from 16 runs beside the truth, worst over spread and censoring"
    return row(what, max(misses.values()), 0.1, each=misses) | {"simulations": cases * len(misses)}


def adopted_share(draw: Draw, simulations: int, *, arrival: bool = True) -> float:
    """How often the treatment is adopted."""
    return float((carry_out(draw, simulations, arrival=arrival)[0] == sequential.BETTER).mean())


def count_contradictions(rng: np.random.Generator, trials: int) -> tuple[int, int]:
    """Trials that end in ADOPT with evaluations as far apart as a third of the median: those whose ratio's interval holds 1, and all."""
    config = CONFIG.model_copy(update={"run": CONFIG.run.model_copy(update={"eval_every_env_steps": 15_000})})
    plan = conduct.plan(arms.control(config), [arms.changed(config, ["algo.learning_rate=1e-5"], "rx1")])
    adopted, held = 0, 0
    for _ in range(trials):

        def draw(name: str, count: int) -> list[Observation]:
            times = scenarios.draw_times(rng, (count,), median=1.0 if name == "control" else 0.65) * 50_000
            seen = np.ceil(times / 15_000) * 15_000
            return [observe(None if value > 100_000 else value, SOLVED) for value in seen]

        standing = find_verdict(plan, draw)
        if analysis.verdict(standing)[0] == "adopt":
            adopted += 1
            ratio = standing.ratio("rx1", analysis.judge_arm(standing, "rx1").limits)
            held += ratio is None or ratio.high >= 1.0
    return held, adopted
