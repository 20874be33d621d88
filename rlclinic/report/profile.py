"""Performance profiles over several environments: which share of an arm's runs did so well, each environment counting the same.

With a threshold, a run does so well by arriving within that share of its environment's budget; without one, by a return at or above a
level between the lowest and the highest run of its environment. The profile is the mean over environments of the share of runs (Agarwal et
al. 2021), and its band redraws the runs within each environment.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rlclinic.comparison.models import Band
from rlclinic.errors import RlclinicError
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.treatment.trial import outcomes
from rlclinic.treatment.trial.models import CENSORED_OUTCOMES, ArmResult, Trial

POINTS: Final = 61
REDRAWN: Final = 400
Scores = NDArray[np.float64]


def profile(store: Store, trial: Trial) -> list[Band]:
    """One band for each arm; none where runs are no more in the store."""
    grid = np.linspace(0.0, 1.0, POINTS)
    times = trial.outcome in CENSORED_OUTCOMES
    scores: dict[str, list[Scores]] = {}
    for part in trial.parts:
        own = {arm.name: _measure(store, part, arm) for arm in part.arms}
        if not times:
            own = _between_lowest_and_highest(own)
        for name, values in own.items():
            if len(values):
                scores.setdefault(name, []).append(values)
    axis = "share of the budget" if times else "relative return"
    bands = []
    for name, environments in scores.items():
        center = _average(environments, grid, times)
        rng = np.random.default_rng(20_210_830)
        redrawn = [_average([rng.choice(values, len(values)) for values in environments], grid, times) for _ in range(REDRAWN)]
        low, high = np.quantile(redrawn, (0.025, 0.975), axis=0)
        runs = sum(map(len, environments))
        bands.append(Band(label=name, axis=axis, x=grid.tolist(), center=center.tolist(), low=low.tolist(), high=high.tolist(), runs=runs))
    return bands


def _average(environments: Sequence[Scores], grid: Scores, times: bool) -> Scores:
    """The mean over environments of the share of runs that did so well."""
    shares = [((values[:, None] <= grid) if times else (values[:, None] >= grid)).mean(axis=0) for values in environments]
    result: Scores = np.mean(shares, axis=0)
    return result


def _measure(store: Store, part: Trial, arm: ArmResult) -> Scores:
    """Times as shares of the budget, infinite for runs that never arrived; or returns, the lowest for runs that have none."""
    values = []
    for name in arm.runs:
        try:
            seen = outcomes.observe(Run(store.root / name), part.threshold, by_evaluation=arm.evaluated)
        except (RlclinicError, OSError):
            continue
        if part.outcome in CENSORED_OUTCOMES:
            values.append(np.inf if seen.reached_at is None else seen.reached_at / (part.horizon or seen.env_steps or 1))
        else:
            value = seen.success if part.outcome == "success" else seen.final
            values.append(-np.inf if value is None else value)
    return np.array(values, dtype=np.float64)


def _between_lowest_and_highest(arms: dict[str, Scores]) -> dict[str, Scores]:
    together = np.concatenate([np.empty(0), *arms.values()])
    known = together[np.isfinite(together)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    wide = high - low if high > low else 1.0
    return {name: np.where(np.isfinite(values), (values - low) / wide, -1.0) for name, values in arms.items()}
