"""Effects of many values against one base, all asked together: equal ones are called different in at most 5 % of studies.

Every arm trains on the seeds of the base, so an effect is a mean over seeds of differences d_ks = x_ks - x_0s. Here x is the log of the
steps to the threshold (a run that never gets there counts as twice the budget), or the final return. The statistic is
u_k = sum_s d_ks / sqrt(sum_s d_ks^2), which orders arms as Student's t does. If no value matters, the sign of a seed's differences is
chance: turning the signs of whole seeds, in all arms at once, gives the distribution of the largest |u| over the arms (max-T of Westfall
and Young 1993, by sign flips). An arm is shown to differ where its |u| passes the 95 % point of that. Its interval is the mean plus and
minus the same point, as Student's t, times the standard error, so that all intervals hold together.

With n seeds there are 2^n flips, and two of them are as extreme as what was seen: fewer than six seeds can show nothing.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

ALPHA: Final = 0.05
MISSED: Final = 2.0
"""A run that never gets there counts as so many budgets (PAR2, as in algorithm configuration)."""
MOST_EXACT: Final = 12
"""Seeds up to which all flips are tried."""
FLIPS: Final = 4_096
POWER: Final = {8: (0.93, 0.25), 12: (0.99, 0.64), 16: (0.99, 0.87)}
"""Share of studies of 24 values in which a factor of 4, and of 2, is shown, by seeds (`python -m benchmarks.proof --only sensitivity`)."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Effect:
    """What one arm does against the base, on the scale of its scores; an end is None where these seeds give no interval."""

    value: float
    low: float | None
    high: float | None
    shown: bool
    """It differs from the base, by a test that all arms of the study share."""


def fewest_seeds(alpha: float = ALPHA) -> int:
    """Seeds below which no difference could be shown, however large: two flips of all are as extreme as what was seen."""
    return math.ceil(math.log2(2.0 / alpha))


def as_scores(steps: Sequence[int | None], horizon: float) -> list[float]:
    """Logs of steps to the threshold; a run that never got there counts as twice the horizon."""
    return [math.log(MISSED * horizon if step is None else max(step, 1)) for step in steps]


def compare(
    base: Mapping[int, float], arms: Sequence[Mapping[int, float]], resolution: float = 0.0, alpha: float = ALPHA
) -> list[Effect | None]:
    """The effect of every arm against the base; scores are by seed, and a seed that is missing on either side is left out.

    `resolution`: what the scale cannot tell apart (the spacing of evaluations); no interval is narrower. None for an arm without a pair.
    """
    seeds = sorted(base)
    differences = np.array([[arm[seed] - base[seed] if seed in arm else 0.0 for seed in seeds] for arm in arms])
    paired = np.array([[seed in arm for seed in seeds] for arm in arms])
    if not len(arms) or not seeds:
        return [None for _ in arms]
    limit = critical_value(differences, alpha)
    return [
        _estimate(row[known], statistics(row[None, None])[0, 0], limit, len(seeds), resolution, alpha) if known.any() else None
        for row, known in zip(differences, paired, strict=True)
    ]


def _estimate(differences: Numbers, statistic: float, limit: float, seeds: int, resolution: float, alpha: float) -> Effect:
    value, n = float(differences.mean()), len(differences)
    passed = abs(statistic) > limit + 1e-9
    deviation = float(differences.std(ddof=1)) if n > 1 else 0.0
    if seeds < fewest_seeds(alpha) or n < 2 or (deviation == 0 and resolution == 0):
        return Effect(value, None, None, passed)
    half = max(as_student(limit, seeds) * deviation / math.sqrt(n), resolution)
    if not math.isfinite(half):
        return Effect(value, None, None, passed)
    return Effect(value, value - half, value + half, passed and abs(value) > half)


def as_student(statistic: float, n: int) -> float:
    """Student's t that belongs to a statistic u of n differences."""
    rest = n - statistic**2
    return math.inf if rest <= 1e-12 else statistic * math.sqrt((n - 1) / rest)


def critical_value(differences: Numbers, alpha: float = ALPHA) -> float:
    """What |u| must pass; `differences` is [arms, seeds]."""
    return float(critical_values(differences[None], alpha)[0])


def critical_values(differences: Numbers, alpha: float = ALPHA) -> Numbers:
    """The same for many studies [studies, arms, seeds]."""
    signs = _signs(differences.shape[-1])
    sums = np.abs(differences @ signs.T)  # [studies, arms, flips]
    largest = (sums / _norms(differences)[..., None]).max(axis=1)
    place = math.floor(alpha * len(signs))
    found: Numbers = -np.partition(-largest, place, axis=-1)[:, place]
    return found


def statistics(differences: Numbers) -> Numbers:
    """u of each arm: about as large as a standard normal number where an arm is equal to the base, at most the root of the seeds."""
    found: Numbers = differences.sum(-1) / _norms(differences)
    return found


def _norms(differences: Numbers) -> Numbers:
    norms = np.sqrt((differences**2).sum(-1))
    return np.where(norms > 0, norms, np.inf)


@cache
def _signs(n: int) -> Numbers:
    """Flips of n seeds, one of each pair of opposite ones: |u| is the same for both. The first leaves all as they are."""
    if n <= MOST_EXACT:
        return np.array([(1.0, *rest) for rest in itertools.product((1.0, -1.0), repeat=n - 1)])
    rng = np.random.default_rng(20_261_116)
    drawn = rng.choice(np.array([1.0, -1.0]), size=(FLIPS, n))
    drawn[0] = 1.0
    return drawn
