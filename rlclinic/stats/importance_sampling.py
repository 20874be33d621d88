"""What another policy would have earned in recorded episodes, by how likely it was to act as they did.

An episode counts by the product of pi(a|s) / mu(a|s) over its steps, where pi is the policy in question and mu the one that recorded it.
That product has exponentially many ways to be nearly nothing: the effective sample size says how many episodes are left, and below
FEWEST of them an estimate is somebody's luck.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["FEWEST", "Estimate", "Steps", "doubly_robust", "effective_size", "per_decision", "weighted"]

FEWEST: Final = 10.0
"""Episodes that must be left."""
RESAMPLES: Final = 500
Floats = NDArray[np.float64]


class Steps(NamedTuple):
    """Recorded episodes side by side, [E, T]; behind an episode's end rewards and log ratios are 0."""

    reward: Floats
    log_ratio: Floats
    """log pi(a|s) - log mu(a|s)."""
    going: NDArray[np.bool_]
    """Where there was a step."""


class Estimate(NamedTuple):
    """A discounted return, its 95 % interval over resampled episodes, and how many episodes it rests on."""

    value: float
    low: float
    high: float
    effective: float


def effective_size(weight: Floats) -> Floats:
    """(sum w)^2 / sum w^2 over the first axis: how many equal weights would tell as much."""
    return np.square(weight.sum(0)) / np.maximum(np.square(weight).sum(0), 1e-300)


def weighted(steps: Steps, gamma: float, seed: int = 0) -> Estimate:
    """Weighted importance sampling (Precup et al. 2000): sum_i w_i G_i / sum_i w_i over whole episodes."""
    total = steps.log_ratio.sum(1)
    earned = steps.reward @ gamma ** np.arange(steps.reward.shape[1])
    return _resample(
        lambda chosen: float(np.average(earned[chosen], weights=_weigh(total[chosen]))),
        len(total),
        float(effective_size(_weigh(total))),
        seed,
    )


def per_decision(steps: Steps, gamma: float, seed: int = 0) -> Estimate:
    """Per-decision importance sampling, weights normalized at every step: a reward is weighed by what led to it, not by what came after."""
    logs = np.cumsum(steps.log_ratio, 1)
    discounted = steps.reward * gamma ** np.arange(steps.reward.shape[1])

    def estimate(chosen: NDArray[np.int64]) -> float:
        own = _weigh(logs[chosen])
        return float(((own / own.sum(0)) * discounted[chosen]).sum())

    return _resample(estimate, len(logs), _least_effective(_weigh(logs), gamma), seed)


def doubly_robust(steps: Steps, q: Floats, value: Floats, next_value: Floats, gamma: float, seed: int = 0) -> Estimate:
    """Weighted doubly robust (Thomas & Brunskill 2016, arXiv:1604.00923): a model's values, corrected where data says otherwise.

    q and value [E, T]: Q(s, a) and V(s) of the policy at recorded steps; next_value: V(s') with 0 behind a terminal state.
    """
    logs = np.cumsum(steps.log_ratio, 1)
    surprise = (steps.reward + gamma * next_value - q) * steps.going * gamma ** np.arange(steps.reward.shape[1])

    def estimate(chosen: NDArray[np.int64]) -> float:
        own = _weigh(logs[chosen])
        return float(value[chosen, 0].mean() + ((own / own.sum(0)) * surprise[chosen]).sum())

    return _resample(estimate, len(logs), _least_effective(_weigh(logs), gamma), seed)


def _weigh(logs: Floats) -> Floats:
    """Weights by their logarithms over the first axis, the largest 1: among resampled episodes, too, or all could vanish at once."""
    found: Floats = np.exp(logs - logs.max(0))
    return found


def _least_effective(weight: Floats, gamma: float) -> float:
    """The least effective sample size of the steps that count: those before 1 / (1 - gamma)."""
    horizon = weight.shape[1] if gamma >= 1 else min(weight.shape[1], max(1, round(1 / (1 - gamma))))
    return float(effective_size(weight)[:horizon].min())


def _resample(estimate: Callable[[NDArray[np.int64]], float], episodes: int, effective: float, seed: int) -> Estimate:
    draw = np.random.default_rng(seed)
    found = [estimate(draw.integers(0, episodes, episodes)) for _ in range(RESAMPLES)]
    low, high = np.quantile(found, [0.025, 0.975])
    return Estimate(estimate(np.arange(episodes)), float(low), float(high), effective)
