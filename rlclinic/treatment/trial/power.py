"""What a trial can see before it starts: simulated with the same statistic and the same bounds.

Times are censored log-normal with the spread that runs like the control's have shown; returns are normal, and their effects
counted in standard deviations over seeds; for stability, the spread itself is made smaller.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rlclinic import stats
from rlclinic.treatment.trial import sequential
from rlclinic.treatment.trial.models import CENSORED_OUTCOMES, Kind, Outcome, Power
from rlclinic.treatment.trial.sequential import Rule

EFFECTS: Final[dict[Kind, tuple[float, ...]]] = {"time": (0.5, 0.3, 0.1), "shift": (1.0, 0.7, 0.3), "spread": (0.75, 0.5, 0.25)}
"""Shares of the steps (or of the spread) that a treatment saves, or deviations that it gains; the last one is small."""
USUAL_SIGMA: Final = 0.40
"""Spread of the log of steps to a threshold over seeds where nothing was measured: the median over benchmarks/results."""
USUAL_REACHING: Final = 0.85
TRIALS: Final = 2_000
_FEWEST: Final = 5
_SIGMAS: Final = (0.10, 1.5)


def power(rule: Rule, steps: Sequence[float | None] = (), arms: int = 1, outcome: Outcome = "steps") -> Power:
    """Power against a large, a middling and a small effect; `steps` are measured ones of a group like the control (None: never)."""
    kind: Kind = "time" if outcome in CENSORED_OUTCOMES else "spread" if outcome == "stability" else "shift"
    sigma, reaching, assumed = spread(steps)
    alone = Rule(rule.looks, rule.per_look, rule.alpha / arms, rule.margin, rule.kind)
    found = {effect: _simulated(alone, round(sigma, 2), round(reaching, 2), effect, kind) for effect in EFFECTS[kind]}
    return Power(
        kind=kind,
        by_effect={f"{effect:g}": chance for effect, (chance, _, _) in found.items()},
        seeds_by_effect={f"{effect:g}": seeds for effect, (_, seeds, _) in found.items()},
        seeds_for_small=_seeds_for(alone, found[EFFECTS[kind][-1]][2]),
        sigma=sigma,
        reaching=reaching,
        assumed=assumed,
    )


def spread(steps: Sequence[float | None]) -> tuple[float, float, bool]:
    """Spread of log steps and share of runs that got there; usual values where too few did."""
    known = np.array([step for step in steps if step is not None and step > 0])
    if len(known) < _FEWEST:
        return USUAL_SIGMA, USUAL_REACHING, True
    low, high = _SIGMAS
    sigma = float(np.clip(np.std(np.log(known), ddof=1), low, high))
    return sigma, float(np.clip(len(known) / len(steps), 0.05, 0.99)), False


@lru_cache(maxsize=256)
def _simulated(rule: Rule, sigma: float, reaching: float, effect: float, kind: Kind) -> tuple[float, float, float]:
    """(power, mean seeds an arm, mean statistic at the last look) of trials whose treatment has this effect."""
    control, treatment = _drawn((rule.looks, TRIALS, rule.per_look), sigma, reaching, effect, kind)
    stopped, better = np.full(TRIALS, rule.looks), np.zeros(TRIALS, dtype=bool)
    z = np.zeros(TRIALS)
    for look in range(rule.looks, 0, -1):
        now = sequential.statistics(control[:look], treatment[:look])
        z = now if look == rule.looks else z
        crossed = np.abs(now) > rule.bounds[look - 1]
        stopped, better = np.where(crossed, look, stopped), np.where(crossed, now > 0, better)
    return float(better.mean()), float(stopped.mean() * rule.per_look), float(z.mean())


def _drawn(
    shape: tuple[int, int, int], sigma: float, reaching: float, effect: float, kind: Kind
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores of control and treatment [looks, trials, seeds], always the same ones."""
    rng = np.random.default_rng(7)
    theirs, ours = (rng.standard_normal(shape) for _ in range(2))
    if kind == "shift":
        return theirs, ours - effect
    if kind == "spread":
        scaled = (1.0 - effect) * ours
        return np.abs(theirs - np.median(theirs, axis=-1, keepdims=True)), np.abs(scaled - np.median(scaled, axis=-1, keepdims=True))
    # The horizon is where the control's share that gets there is as asked.
    horizon = math.exp(sigma * stats.normal_quantile(min(max(reaching, 1e-6), 1 - 1e-6)))
    control, treatment = np.exp(sigma * theirs), (1.0 - effect) * np.exp(sigma * ours)
    return np.where(control > horizon, np.inf, control), np.where(treatment > horizon, np.inf, treatment)


def _seeds_for(rule: Rule, mean_z: float, wanted: float = 0.8) -> int:
    """Seeds an arm at which the same rule sees an effect whose statistic now averages `mean_z` at the last look."""
    low, high = 0.0, 12.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if stats.crossing_probability(rule.bounds, drift=middle) < wanted else (low, middle)
    return math.ceil(rule.looks * rule.per_look * (high / max(mean_z, 1e-3)) ** 2)
