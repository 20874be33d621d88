"""Returns over env steps and over wall time: the IQM over a side's runs with its band, on one grid per side."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from rlclinic import stats
from rlclinic.comparison.models import Axis, Band
from rlclinic.comparison.outcomes import wall_clock
from rlclinic.comparison.sides import Side
from rlclinic.runs.history import Column, History
from rlclinic.runs.outcome import RETURNS, ReturnSource

MAX_POINTS: Final = 200


def bands(sides: Sequence[Side], measure: ReturnSource) -> list[Band]:
    """Each side's curve on env steps, and on wall seconds where every run of the side has a clock."""
    found = []
    axes: tuple[Axis, ...] = ("env steps", "wall seconds")
    for axis in axes:
        for side in sides:
            lines = [line for history in side.histories if (line := _line(history, RETURNS[measure], axis)) is not None]
            complete = len(lines) == len([history for history in side.histories if RETURNS[measure] in history])
            if lines and (axis == "env steps" or complete):
                found.append(make_band(side.label, axis, lines))
    return found


def _line(history: History, name: str, axis: Axis) -> tuple[Column, Column] | None:
    series = history.series.get(name)
    if series is None or not len(series):
        return None
    if axis == "env steps":
        return series.steps, series.values
    clock = wall_clock(history)
    if clock is None:
        return None
    return np.interp(series.steps, np.append(0.0, clock.steps), np.append(0.0, clock.values)), series.values


def make_band(label: str, axis: Axis, lines: Sequence[tuple[Column, Column]], most_points: int = MAX_POINTS) -> Band:
    """The band over runs, each a line of places and values."""
    band = {name: values.tolist() for name, values in stats.band_of_curves(lines, most_points)._asdict().items()}
    return Band(label=label, axis=axis, runs=len(lines), **band)
