"""What a race can see before it starts: how often the best of its arms would be named, if it were better than each other by so much.

Statistics of pairs are simulated as normal numbers with the drift that ranks of log-normal times (or normal returns) have, against the
race's own bounds; all arms train on until they are told from the best. What seeds an arm saves by waiting is not counted.
"""

import math
from functools import lru_cache
from typing import Final

import numpy as np

from rlclinic import stats
from rlclinic.treatment.race.models import RacePlan
from rlclinic.treatment.race.rule import Rule
from rlclinic.treatment.trial.models import CENSORED_OUTCOMES, Kind, TrialPart
from rlclinic.treatment.trial.power import EFFECTS, measure_spread

RACES: Final = 2_000
RANKS: Final = 0.955
"""Information that ranks keep of normal numbers."""


class RacePower(TrialPart):
    """What the race can see, by simulation."""

    kind: Kind
    by_effect: dict[str, float]
    """Chance that the best arm is named, by how much better it is than each other: "0.5", "0.3" and "0.1" of the steps."""
    sigma: float
    """Spread of the log of the steps over seeds that was assumed."""
    reaching: float
    assumed: bool
    """The spread is a guess: nothing was measured."""


def of_plan(plan: RacePlan) -> RacePower:
    """The power of a race, by the runs that it was planned from."""
    context = plan.trial.context
    kind: Kind = "time" if plan.outcome in CENSORED_OUTCOMES else "shift"
    known = measure_spread(context.get("steps", ()), context.get("steps_within") or plan.trial.budget)
    sigma, reaching = round(known.sigma, 2), round(known.reaching, 2)
    by_effect = {}
    for effect in EFFECTS[kind]:
        by_effect[f"{effect:g}"] = chance_of_naming(plan.rule, round(_distance(kind, effect, sigma, reaching), 3))
    return RacePower(kind=kind, by_effect=by_effect, sigma=known.sigma, reaching=known.reaching, assumed=known.assumed)


def _distance(kind: Kind, effect: float, sigma: float, reaching: float) -> float:
    """How far ahead the best arm is, in standard deviations; runs that do not get there tell less."""
    if kind != "time":
        return effect
    away = -math.log(1.0 - effect) / sigma
    best = 1.0 - stats.normal_tail(stats.normal_quantile(reaching) + away)
    return away * math.sqrt(0.5 * (reaching + best))


@lru_cache(maxsize=128)
def chance_of_naming(rule: Rule, away: float) -> float:
    """How often an arm is shown to be better than all others that lies so many standard deviations ahead of each."""
    rng = np.random.default_rng(11)
    drift = np.zeros(rule.arms)
    drift[0] = away * math.sqrt(rule.per_round * RANKS)
    sums = np.cumsum(drift + rng.standard_normal((RACES, rule.rounds, rule.arms)), axis=1)
    left = np.ones((RACES, rule.arms - 1), dtype=bool)
    for batches in range(1, rule.rounds + 1):
        ahead = (sums[:, batches - 1, :1] - sums[:, batches - 1, 1:]) / math.sqrt(2 * batches)
        bounds = np.array([rule.bound(max(family, 2), batches, batches) for family in range(rule.arms + 1)])
        for _ in range(rule.arms - 1):
            # The arm that is furthest behind is dropped first; each that goes makes the family smaller.
            worst = np.where(left, ahead, -np.inf).argmax(axis=1)[:, None]
            gone = np.take_along_axis(left, worst, 1) & (np.take_along_axis(ahead, worst, 1) > bounds[left.sum(axis=1) + 1][:, None])
            np.put_along_axis(left, worst, np.take_along_axis(left, worst, 1) & ~gone, 1)
    return float((~left.any(axis=1)).mean())
