"""What seeds of two arms may come to, drawn at random: the worlds in which verdicts are simulated.

Runs are rows of the last axis. Times are env steps to the threshold, infinite where a run never got there; returns are those at the end.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from rlclinic import stats

Draws = NDArray[np.float64]

USUAL_SPREAD: Final = 0.40
"""Standard deviation of the log of steps to a threshold over seeds: the median over benchmarks/results."""
SOLVED, COLLAPSED = 500.0, 10.0
"""Returns of a run that has solved its task, and of one that has collapsed."""


def draw_times(
    rng: np.random.Generator, shape: tuple[int, ...], *, median: float = 1.0, spread: float = USUAL_SPREAD, arriving: float = 1.0
) -> Draws:
    """Log-normal times; a share of the runs, independent of how fast they would be, never gets there."""
    times = median * np.exp(spread * rng.standard_normal(shape))
    return np.where(rng.random(shape) < arriving, times, np.inf)


def censor(times: Draws, horizon: float) -> Draws:
    """Times as they are seen by runs of `horizon` steps."""
    return np.where(times > horizon, np.inf, times)


def round_up(times: Draws, spacing: float) -> Draws:
    """Times as they are seen by evaluations every `spacing` steps."""
    return np.where(np.isfinite(times), np.ceil(times / spacing) * spacing, np.inf)


def find_horizon(arriving: float, spread: float = USUAL_SPREAD) -> float:
    """The horizon by which a share of log-normal times of median 1 is reached."""
    return float(np.exp(spread * stats.normal_quantile(arriving)))


def draw_returns(
    rng: np.random.Generator, shape: tuple[int, ...], *, collapsing: float = 0.0, noise: float = 0.0, solved: float = SOLVED
) -> Draws:
    """Returns at the end, capped at `solved`; a share of the runs has collapsed."""
    returns = np.where(rng.random(shape) < collapsing, COLLAPSED, solved)
    return np.minimum(returns - noise * np.abs(rng.standard_normal(shape)), solved)
