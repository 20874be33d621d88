"""Growth charts: how the returns of healthy runs rise with env steps, and where a run lies among them.

Like a child's growth chart it says how a run does for its age, and nothing about causes. The bands come from the user's own
solved runs of the same environment and algorithm where there are enough of them, else from growth.json, which
`python -m benchmarks.diagnosis.growth` makes from recorded runs.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np

from rlclinic.diagnosis import columns
from rlclinic.diagnosis.findings import DiagnosisPart
from rlclinic.runs.history import History, Series

QUANTILES: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
POINTS: Final = 24
FEWEST: Final = 8
"""A percentile among fewer runs than this would say more than is known."""


class Chart(DiagnosisPart):
    """Quantiles of the training return by env steps, over healthy runs."""

    env: str
    algo: str
    runs: int
    source: str
    """"your runs" or "recorded runs"."""
    steps: tuple[float, ...]
    levels: tuple[tuple[float, ...], ...]
    """One row for each of QUANTILES."""

    def percentile(self, step: float, value: float) -> float | None:
        """The percentile of a return at an env step, between the outermost quantiles; None outside the chart's steps."""
        if not self.steps or not self.steps[0] <= step <= self.steps[-1]:
            return None
        at = np.array([np.interp(step, self.steps, row) for row in self.levels])
        # Where quantiles coincide (everyone has the best return) a run that has it too is in their middle.
        below, above = np.searchsorted(at, value, side="left"), np.searchsorted(at, value, side="right")
        if below != above:
            return 100 * (QUANTILES[below] + QUANTILES[above - 1]) / 2
        return float(100 * np.interp(value, at, QUANTILES))


@cache
def _shipped() -> Mapping[str, Any]:
    shipped: Mapping[str, Any] = json.loads((files("rlclinic.diagnosis.forecast") / "growth.json").read_text("utf-8"))["charts"]
    return shipped


def shipped(env: str, algo: str) -> Chart | None:
    """The recorded chart of an environment and algorithm; None if there is none."""
    row = _shipped().get(f"{env}:{algo}")
    if row is None:
        return None
    levels = tuple(tuple(each) for each in row["levels"])
    return Chart(env=env, algo=algo, runs=row["runs"], source="recorded runs", steps=tuple(row["steps"]), levels=levels)


def of_runs(env: str, algo: str, histories: Sequence[History], source: str = "your runs", fewest: int = FEWEST) -> Chart | None:
    """A chart of healthy runs; None if there are too few. It ends where the shortest of the longer half of them ends."""
    curves = [curve for history in histories if (curve := returns(history)) is not None and len(curve.values) >= 4]
    if len(curves) < fewest:
        return None
    start, end = float(np.median([curve.steps[0] for curve in curves])), float(np.median([curve.steps[-1] for curve in curves]))
    # Square-spaced: runs differ most in their first part.
    grid = start + (end - start) * np.linspace(0, 1, POINTS) ** 2
    # A run that stopped at the threshold keeps its last return.
    table = np.stack([np.interp(grid, curve.steps, curve.values) for curve in curves])
    levels = np.quantile(table, QUANTILES, axis=0)
    return Chart(
        env=env,
        algo=algo,
        runs=len(curves),
        source=source,
        steps=tuple(float(f"{step:.6g}") for step in grid),
        levels=tuple(tuple(float(f"{value:.5g}") for value in row) for row in levels),
    )


def returns(history: History) -> Series | None:
    """The series that charts are made of: training returns, evaluations where there are none."""
    for name in (columns.RETURN, columns.EVAL_RETURN):
        series = history.series.get(name)
        if series is not None and len(series.values):
            return series
    return None
