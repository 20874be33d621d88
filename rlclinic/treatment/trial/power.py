"""What a trial can see before it starts: simulated with the same statistic, the same bounds and the same second outcome.

Times are log-normal and censored at the budget, with the spread that runs like the control's have shown; returns are normal, and their
effects counted in standard deviations over seeds; for stability, the spread itself is made smaller.

The spread of times is that of all runs: those that did not arrive say "longer than this" (a censored likelihood; the arrived ones alone are
the fast ones, and lie closer together than all do). Eight runs know it badly, so a chance comes with the range that the spreads which
fit these runs leave open.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from rlclinic import stats
from rlclinic.treatment.trial import environments, sequential
from rlclinic.treatment.trial.models import CENSORED_OUTCOMES, Kind, PlanRow, Power, TrialOutcome, TrialPlan
from rlclinic.treatment.trial.sequential import Arrivals, Numbers, Rule

EFFECTS: Final[dict[Kind, tuple[float, ...]]] = {"time": (0.5, 0.3, 0.1), "shift": (1.0, 0.7, 0.3), "spread": (0.75, 0.5, 0.25)}
"""Shares of the steps (or of the spread) that a treatment saves, or deviations that it gains; the last one is small."""
PLANNED: Final[dict[Kind, tuple[float, ...]]] = {
    "time": (0.5, 0.3, 0.2, 0.1),
    "shift": (1.5, 1.0, 0.7, 0.3),
    "spread": (0.75, 0.5, 0.25, 0.1),
}
"""Effects that `--plan` shows."""
USUAL_SIGMA: Final = 0.40
"""Spread of the log of steps to a threshold over seeds where nothing was measured: the median over benchmarks/results."""
USUAL_REACHING: Final = 0.85
TRIALS: Final = 2_000
RANGE_TRIALS: Final = 600
_FEWEST: Final = 4
_SIGMAS: Final = np.geomspace(0.05, 2.0, 75)
_MOST_SHARE: Final = 0.99
_UNSURE: Final = 0.08
"""A range wider than this, to either side, is printed."""
# Before anything is measured, spreads are about the usual one, give or take a factor of 2.5: two or three runs must not say too much.
_PRIOR: Final = 0.9
_RANGE: Final = 1.35
"""Half of 1.64 squared: how far the log-likelihood may fall within the range, a 90 % interval."""


class Spread(NamedTuple):
    """How runs like the control's spread: of log steps, the share that arrives, and what else would fit as well."""

    sigma: float
    reaching: float
    assumed: bool
    """Nothing was measured: usual values."""
    low: tuple[float, float]
    """(sigma, reaching) at the calm end of what fits."""
    high: tuple[float, float]


def power(
    rule: Rule,
    steps: Sequence[float | None] = (),
    arms: int = 1,
    outcome: TrialOutcome = "steps",
    horizon: float | None = None,
    effects: Sequence[float] | None = None,
) -> Power:
    """Power against some effects, the smallest last: by default a large, a middling and a small one.

    `steps` are measured ones of a group like the control (None: not within `horizon` env steps).
    """
    kind: Kind = "time" if outcome in CENSORED_OUTCOMES else "spread" if outcome == "stability" else "shift"
    known = measure_spread(steps, horizon)
    alone = replace(rule, alpha=rule.alpha / arms)
    simulated = {
        effect: _simulate(alone, round(known.sigma, 2), round(known.reaching, 2), effect, kind) for effect in effects or EFFECTS[kind]
    }
    ranges = {}
    if kind == "time" and not known.assumed:
        for effect, (chance, _, _) in simulated.items():
            ends = [_simulate(alone, round(sigma, 2), round(share, 2), effect, kind, RANGE_TRIALS)[0] for sigma, share in known[3:]]
            if max(abs(end - chance) for end in ends) > _UNSURE:
                ranges[f"{effect:g}"] = (min(*ends, chance), max(*ends, chance))
    return Power(
        kind=kind,
        by_effect={f"{effect:g}": chance for effect, (chance, _, _) in simulated.items()},
        range_by_effect=ranges,
        seeds_by_effect={f"{effect:g}": seeds for effect, (_, seeds, _) in simulated.items()},
        seeds_for_small=_seeds_for(alone, list(simulated.values())[-1][2]),
        sigma=known.sigma,
        reaching=known.reaching,
        assumed=known.assumed,
    )


def of_plan(plan: TrialPlan) -> Power:
    """The power of a trial, by the runs that it was planned from."""
    horizon = plan.context.get("steps_within") or plan.budget
    return power(plan.sequential, plan.context.get("steps", ()), len(plan.treatments), plan.outcome, horizon)


def plan_rows(plan: TrialPlan, env_steps_per_second: float | None) -> list[PlanRow]:
    """Seeds and time against the effect that would be seen: half, one, two, four and eight times the seeds of a plan."""
    kind: Kind = "time" if plan.outcome in CENSORED_OUTCOMES else "spread" if plan.outcome == "stability" else "shift"
    known = measure_spread(plan.context.get("steps", ()), plan.context.get("steps_within") or plan.budget)
    rows = []
    for per_look in sorted({max(2, plan.per_look * factor // 2) for factor in (1, 2, 4, 8, 16)}):
        rule = replace(plan.sequential, per_look=per_look, alpha=plan.alpha / len(plan.treatments))
        seen = {effect: _simulate(rule, round(known.sigma, 2), round(known.reaching, 2), effect, kind, 1_000) for effect in PLANNED[kind]}
        most = plan.model_copy(update={"per_look": per_look}).max_env_steps
        rows.append(
            PlanRow(
                seeds=plan.looks * per_look,
                power={f"{effect:g}": chance for effect, (chance, _, _) in seen.items()},
                mean_seeds={f"{effect:g}": seeds for effect, (_, seeds, _) in seen.items()},
                max_env_steps=most,
                max_seconds=most / env_steps_per_second if most is not None and env_steps_per_second else None,
            )
        )
    return rows


def measure_spread(steps: Sequence[float | None], horizon: float | None = None) -> Spread:
    """The spread of log steps and the share of runs that arrive, by a censored log-normal likelihood; usual ones where too few did."""
    arrived = np.array([step for step in steps if step is not None and step > 0], dtype=np.float64)
    if not len(arrived) or len(steps) < _FEWEST:
        usual = (USUAL_SIGMA, USUAL_REACHING)
        return Spread(*usual, True, usual, usual)
    missing = len(steps) - len(arrived)
    end = math.log(max(float(arrived.max()), horizon or 0.0))
    logs = np.log(arrived)
    middles = np.linspace(logs.min() - 0.5, end + 2.5, 241)[:, None]
    fit = -len(logs) * np.log(_SIGMAS) - ((logs[:, None, None] - middles) ** 2).sum(0) / (2.0 * _SIGMAS**2)
    if missing:
        fit = fit + missing * np.log(np.maximum(stats.normal_tails((end - middles) / _SIGMAS), 1e-300))
    fit = fit - 0.5 * (np.log(_SIGMAS / USUAL_SIGMA) / _PRIOR) ** 2
    best = fit.max(axis=0)
    fits = np.flatnonzero(best >= best.max() - _RANGE)

    def at(place: int) -> tuple[float, float]:
        sigma, middle = float(_SIGMAS[place]), float(middles[int(fit[:, place].argmax()), 0])
        share = 1.0 - stats.normal_tail((end - middle) / sigma) if missing else _MOST_SHARE
        return sigma, float(np.clip(share, 0.05, _MOST_SHARE))

    return Spread(*at(int(best.argmax())), False, at(int(fits[0])), at(int(fits[-1])))


@lru_cache(maxsize=512)
def _simulate(rule: Rule, sigma: float, reaching: float, effect: float, kind: Kind, trials: int = TRIALS) -> tuple[float, float, float]:
    """(power, mean seeds an arm, mean statistic at the last look) of trials whose treatment has this effect, in every environment."""
    if rule.environments > 1:
        return _simulate_environments(rule, sigma, reaching, effect, kind, trials)
    control, treatment = _draw((rule.looks, trials, rule.per_look), sigma, reaching, effect, kind)
    called, stopped = np.zeros(trials, dtype=np.int64), np.full(trials, rule.looks)
    z = np.zeros(trials)
    for look in range(1, rule.looks + 1):
        z = sequential.statistics(control[:look], treatment[:look])
        seeds = look * rule.per_look
        hits = [np.isfinite(side[:look]).sum((0, 2)) for side in (control, treatment)]
        arrivals = Arrivals(hits[0], seeds, hits[1], seeds) if kind == "time" else None
        now = sequential.decide(z, rule.bounds[look - 1], arrivals, rule.arrival_margin, last=look == rule.looks)
        fresh = (called == sequential.OPEN) & (now != sequential.OPEN)
        called, stopped = np.where(fresh, now, called), np.where(fresh, look, stopped)
    return float((called == sequential.BETTER).mean()), float(stopped.mean() * rule.per_look), float(z.mean())


def _simulate_environments(rule: Rule, sigma: float, reaching: float, effect: float, kind: Kind, trials: int) -> tuple[float, float, float]:
    """The same where each of several environments has so many seeds; all spread alike, since only one was measured, if any."""
    drawn = _draw((rule.environments, trials, rule.looks * rule.per_look), sigma, reaching, effect, kind)
    called, stopped = np.zeros(trials, dtype=np.int64), np.full(trials, rule.looks)
    z, passed = np.zeros(trials), np.zeros(trials, dtype=bool)
    for look in range(1, rule.looks + 1):
        seeds = look * rule.per_look
        control, treatment = (list(side[..., :seeds]) for side in drawn)
        each = environments.measure_each(control, treatment, rule.environment_bounds()[look - 1])
        z = sequential.statistics(control, treatment)
        bounds, last = rule.bounds[look - 1], look == rule.looks
        now = environments.decide(z, bounds, each, rule.arrival_margin, last=last, second=kind == "time", passed=passed)
        passed |= z > bounds.better
        fresh = (called == sequential.OPEN) & (now != sequential.OPEN)
        called, stopped = np.where(fresh, now, called), np.where(fresh, look, stopped)
    return float((called == sequential.BETTER).mean()), float(stopped.mean() * rule.per_look), float(z.mean())


def _draw(shape: tuple[int, int, int], sigma: float, reaching: float, effect: float, kind: Kind) -> tuple[Numbers, Numbers]:
    """Scores of control and treatment [looks or environments, trials, seeds], always the same ones."""
    rng = np.random.default_rng(7)
    theirs, ours = (rng.standard_normal(shape) for _ in range(2))
    if kind == "shift":
        return theirs, ours - effect
    if kind == "spread":
        return sequential.deviations(theirs), sequential.deviations((1.0 - effect) * ours)
    # The horizon is where the control's share that gets there is as asked.
    horizon = math.exp(sigma * stats.normal_quantile(min(max(reaching, 1e-6), 1 - 1e-6)))
    control, treatment = np.exp(sigma * theirs), (1.0 - effect) * np.exp(sigma * ours)
    return np.where(control > horizon, np.inf, control), np.where(treatment > horizon, np.inf, treatment)


def _seeds_for(rule: Rule, mean_z: float, wanted: float = 0.8) -> int:
    """Seeds an arm at which the same rule sees an effect whose statistic now averages `mean_z` at the last look."""
    bounds = [bound.better for bound in rule.bounds]
    low, high = 0.0, 12.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if stats.crossing_probability(bounds, drift=middle) < wanted else (low, middle)
    return math.ceil(rule.looks * rule.per_look * (high / max(mean_z, 1e-3)) ** 2)
