"""Trials: wrong verdicts of equal arms, adoption of arms that fail, power, equivalence, extensions, power that was promised.

Bounds, statistic and decision are those of `treatment.trial.sequential`, which `rlclinic trial` uses; verdicts that need runs are made by
`treatment.trial.analysis.Standing` from made-up observations.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.proof import scenarios
from benchmarks.proof.scenarios import COLLAPSED, SOLVED, Draws
from rlclinic.config import Config
from rlclinic.treatment.trial import analysis, arms, conduct, power, sequential
from rlclinic.treatment.trial.analysis import Standing
from rlclinic.treatment.trial.models import Extension, Observation, TrialPlan
from rlclinic.treatment.trial.sequential import Arrivals, Rule

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
        z = sequential.statistics(control[:look], treatment[:look])
        now = sequential.decide(z, rule.bounds[look - 1], arrivals, 0.10, last=look == rule.looks)
        fresh = (calls == sequential.OPEN) & (now != sequential.OPEN)
        calls[fresh], seeds[fresh] = now[fresh], count
    return calls, seeds


def find_false_verdicts(draw: Draw, simulations: int) -> float:
    """Share of trials of equal arms that call one of them better or worse."""
    calls, _ = carry_out(draw, simulations)
    return float(np.isin(calls, (sequential.BETTER, sequential.WORSE)).mean())


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


def count_verdicts(plan: TrialPlan, draw: Callable[[np.random.Generator, str, int], list[Observation]], trials: int, *wanted: str) -> float:
    """Share of trials whose verdict is one of these."""
    rng = np.random.default_rng(1)
    return sum(analysis.verdict(find_verdict(plan, lambda name, n: draw(rng, name, n)))[0] in wanted for _ in range(trials)) / trials


def ends_with_collapse(share: float) -> Callable[[np.random.Generator, str, int], list[Observation]]:
    """The control always solves its task; of the treatment a share collapses."""

    def draw(rng: np.random.Generator, name: str, count: int) -> list[Observation]:
        return observe_returns(scenarios.draw_returns(rng, (count,), collapsing=0.0 if name == "control" else share, noise=5.0))

    return draw


def arrive_early(factor: float) -> Callable[[np.random.Generator, str, int], list[Observation]]:
    """All runs get there well within the budget; the treatment takes so many times the control's steps."""

    def draw(rng: np.random.Generator, name: str, count: int) -> list[Observation]:
        return observe_steps(scenarios.draw_times(rng, (count,), median=1.0 if name == "control" else factor), 20_000.0)

    return draw


def success_rates(control: float, treatment: float) -> Callable[[np.random.Generator, str, int], list[Observation]]:
    """Runs that succeed or do not."""

    def draw(rng: np.random.Generator, name: str, count: int) -> list[Observation]:
        hits = rng.random(count) < (control if name == "control" else treatment)
        return [observe(50_000 if hit else None, SOLVED if hit else COLLAPSED, float(hit)) for hit in hits]

    return draw


def spreads_alike(kind: str) -> Callable[[np.random.Generator, str, int], list[Observation]]:
    """Final returns of two equal arms, for the outcome stability."""

    def draw(rng: np.random.Generator, name: str, count: int) -> list[Observation]:
        if kind == "exponential":
            values = 400.0 - 60.0 * rng.exponential(size=count)
        elif kind == "bimodal":
            values = np.where(rng.random(count) < 0.3, 100.0, 400.0) + 10.0 * rng.standard_normal(count)
        else:
            values = np.minimum(480.0 + 40.0 * rng.standard_normal(count), 500.0)
        return [observe(50_000, float(value)) for value in values]

    return draw


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


def extended_trials(trials: int) -> float:
    """The same through the runs: equal arms, undecided ones extended twice."""
    rng, plan, wrong = np.random.default_rng(4), make_plan(futility=False), 0
    longer = plan.model_copy(update={"extensions": (Extension(seeds=16, seed0=10**6), Extension(seeds=32, seed0=2 * 10**6))})
    for _ in range(trials):
        standing = find_verdict(longer, lambda _, count: observe_steps(scenarios.draw_times(rng, (count,))))
        wrong += analysis.verdict(standing)[0] in ("adopt", "reject")
    return wrong / trials


def settled_share(trials: int) -> float:
    """Of undecided trials that take as many seeds as would settle them, the share that is then decided; the worst of three effects."""
    rng, plan, shares = np.random.default_rng(7), make_plan(futility=False), []
    for median in (1.0, 0.95, 0.85):
        settled, asked = 0, 0
        for _ in range(trials):

            def draw(name: str, count: int, median: float = median) -> list[Observation]:
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
        shares.append(settled / max(asked, 1))
    return min(shares)


def promised_power(simulations: int) -> Iterator[tuple[str, float]]:
    """How far `can see` from 16 measured runs is from the truth: outside of what is printed, on average over draws."""
    for spread in (0.2, 0.4, 0.7, 1.0):
        for censored in (0.0, 0.3, 0.7):
            horizon = scenarios.find_horizon(1.0 - censored if censored else 0.999, spread)
            rng = np.random.default_rng(5)
            truth = power._simulate(RULE, spread, min(1.0 - censored, 0.99), 0.3, "time")[0]
            misses = []
            for _ in range(max(10, simulations // 1_000)):
                times = scenarios.censor(scenarios.draw_times(rng, (16,), spread=spread), horizon)
                measured = [float(time) if np.isfinite(time) else None for time in times]
                made = power.power(RULE, measured, horizon=horizon)
                said, (low, high) = made.by_effect["0.3"], made.range_by_effect.get("0.3", (math.nan, math.nan))
                inside = low - 0.1 <= truth <= high + 0.1
                misses.append(0.0 if inside else abs(said - truth))
            yield f"spread {spread:g}, {100 * censored:.0f} % censored", float(np.mean(misses))


def row(what: str, value: float, bar: float | None, better: str = "lower", stretch: float | None = None, **more: Any) -> dict[str, Any]:
    """One figure."""
    return {"what": what, "unit": "", "value": value, "better": better, "bar": bar, "stretch": stretch, **more}


def rows(simulations: int) -> Iterator[dict[str, Any]]:
    """All figures about trials."""
    nulls = {name: find_false_verdicts(draw, simulations) for name, draw in NULLS.items()}
    yield row("trial: false verdicts, worst of 14 null scenarios", max(nulls.values()), 0.055, stretch=0.05, each=nulls)
    for name, (draw, bar) in COLLAPSES.items():
        yield row(f"trial: ADOPT, {name}", float((carry_out(draw, simulations)[0] == sequential.BETTER).mean()), bar)
        alone = float((carry_out(draw, simulations, arrival=False)[0] == sequential.BETTER).mean())
        yield row(f"trial: ADOPT by ranks alone, {name}", alone, None)
    failing = draw_pair({"arriving": 0.9}, {"median": 1 / 3, "arriving": 0.65})
    adopted = float((carry_out(failing, simulations)[0] == sequential.BETTER).mean())
    yield row("trial: ADOPT, a third of the steps, arrival 90 -> 65 %", adopted, None)
    gain = draw_pair({}, {"median": 0.7})
    calls, seeds = carry_out(gain, simulations)
    yield row(
        "trial: power at 30 % fewer steps, usual spread, all arrive", float((calls == sequential.BETTER).mean()), 0.88, "higher", 0.92
    )
    yield row("trial: mean seeds an arm at 30 % fewer steps", float(seeds.mean()), 22.0, stretch=18.0)
    losses = {}
    for arriving in (1.0, 0.95, 0.9, 0.85, 0.7):
        for median in (0.7, 0.5):
            pair = draw_pair({"arriving": arriving}, {"median": median, "arriving": arriving})
            both, one = (float((carry_out(pair, simulations, arrival=arrival)[0] == sequential.BETTER).mean()) for arrival in (True, False))
            losses[f"{100 * arriving:.0f} % arrive, {100 * (1 - median):.0f} % faster"] = one - both
    yield row("trial: power lost to the second outcome where arrival is equal, worst", max(losses.values()), 0.03, each=losses)
    few = max(simulations // 20, 50)
    yield row(
        "trial: EQUIVALENT although 25 % of seeds collapse",
        count_verdicts(make_plan(outcome="return"), ends_with_collapse(0.25), few, "equivalent"),
        0.05,
    )
    yield row(
        "trial: EQUIVALENT although success falls 0.9 -> 0.7",
        count_verdicts(make_plan(outcome="success"), success_rates(0.9, 0.7), few, "equivalent"),
        0.05,
    )
    yield row(
        "trial: EQUIVALENT for identical arms, all arriving, 32 seeds",
        count_verdicts(make_plan(outcome="return"), ends_with_collapse(0.0), few, "equivalent"),
        0.80,
        "higher",
        0.95,
    )
    yield row(
        "trial: EQUIVALENT for identical arms by steps, all arriving, 32 seeds",
        count_verdicts(make_plan(), arrive_early(1.0), few, "equivalent"),
        0.80,
        "higher",
        0.95,
    )
    for factor in (0.7, 1 / 0.7):
        what = f"trial: EQUIVALENT although {'30 % fewer' if factor < 1 else '43 % more'} steps are needed"
        yield row(what, count_verdicts(make_plan(), arrive_early(factor), few, "equivalent"), 0.05)
    for kind in ("exponential", "bimodal", "capped"):
        plan = make_plan(outcome="stability")
        wrong = count_verdicts(plan, spreads_alike(kind), few, "adopt", "reject")
        yield row(f"trial: equal arms called different in stability, {kind}", wrong, 0.05)
    yield row("trial: ADOPTs whose interval reaches no effect, coarse evaluations", find_contradictions(few), 0.02)
    yield row("trial: error over ten extensions, sizes chosen by what was seen", extended_errors(simulations), 0.05)
    yield row("trial: error of trials that are extended twice, from their runs", extended_trials(few), 0.05)
    yield row('trial: "about N more seeds settle it" comes true, worst', settled_share(max(simulations // 400, 10)), 0.80, "higher")
    misses = dict(promised_power(simulations))
    yield row("trial: `can see` from 16 runs beside the truth, worst over spread and censoring", max(misses.values()), 0.1, each=misses)


def find_contradictions(trials: int) -> float:
    """Of trials that end in ADOPT with evaluations as far apart as a third of the median, the share whose ratio's interval holds 1."""
    config = CONFIG.model_copy(update={"run": CONFIG.run.model_copy(update={"eval_every_env_steps": 15_000})})
    plan = conduct.plan(arms.control(config), [arms.changed(config, ["algo.learning_rate=1e-5"], "rx1")])
    rng, adopted, held = np.random.default_rng(6), 0, 0
    for _ in range(trials):

        def draw(name: str, count: int) -> list[Observation]:
            times = scenarios.draw_times(rng, (count,), median=1.0 if name == "control" else 0.65) * 50_000
            seen = np.ceil(times / 15_000) * 15_000
            return [observe(None if value > 100_000 else value, SOLVED) for value in seen]

        standing = find_verdict(plan, draw)
        if analysis.verdict(standing)[0] == "adopt":
            adopted += 1
            ratio = analysis.effects(standing)[0].ratio
            held += ratio is None or ratio.high is None or ratio.high >= 1.0
    return held / max(adopted, 1)
