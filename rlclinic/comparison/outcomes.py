"""What each run came to: returns, when it reached the threshold, wall time, falls. The raw material of every test.

All sides are judged by the same return: evaluations if every side made some, else training returns. A run without any return
(it broke before its first one) is not dropped, which would flatter its side: it counts as the lowest return of the comparison.
A run that failed never reaches the threshold; one that was stopped, or still runs, is censored where it stands.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from rlclinic import stats
from rlclinic.comparison.models import Interval, SideOutcome
from rlclinic.comparison.sides import Side
from rlclinic.metrics import EVAL_RETURN, TRAIN_RETURN
from rlclinic.runs.history import Column, History, Series
from rlclinic.runs.outcome import RETURNS, ReturnSource, measure_log

SUCCESS: Final = ("val/roll/success_rate", "train/roll/success_rate")
FPS: Final = "time/fps"
PHASE: Final = "time/"


@dataclass(frozen=True, eq=False)
class Reading:
    """One run, as far as outcomes go."""

    run: str
    failed: bool
    running: bool
    steps: Column
    returns: Column
    followed: float
    """The env step up to which it is known."""
    common: float | None
    """Return at the common env step."""
    area: float | None
    """Mean return over the common env steps."""
    reached: float | None
    """Env step of the first return at or above the threshold."""
    reached_seconds: float | None
    seconds: float | None
    """Wall seconds at its end."""
    lost: bool = False
    """It reached the threshold, and ended clearly below it (`rlclinic.runs.outcome`)."""

    @property
    def last(self) -> float | None:
        return float(self.returns[-1]) if len(self.returns) else None

    @property
    def best(self) -> float | None:
        return float(self.returns.max()) if len(self.returns) else None


def measure_of(sides: Sequence[Side]) -> ReturnSource | None:
    """The return that every side with runs has."""
    trained = [side for side in sides if len(side)]
    for source, name in RETURNS.items():
        if trained and all(any(_has(history, name) for history in side.histories) for side in trained):
            return source
    return None


def _has(history: History, name: str) -> bool:
    return name in history and len(history[name]) > 0


def common_steps(sides: Sequence[Side], measure: ReturnSource) -> float | None:
    """The env step up to which every side has returns: the end of the side that was trained for the fewest.

    A side whose runs stop at the threshold counts as trained to the end of its budget: it stopped because it was done.
    """
    ends = []
    for side in sides:
        known = [float(history[RETURNS[measure]].steps[-1]) for history in side.histories if _has(history, RETURNS[measure])]
        if known:
            ends.append(max([*known, float(side.budget or 0)]) if stops_at_threshold(side) else max(known))
    return min(ends) if ends else None


def stops_at_threshold(side: Side) -> bool:
    """Whether runs end as soon as they have reached the threshold."""
    return side.settings.get("run.stop_at_threshold") is True


def readings(side: Side, measure: ReturnSource, common: float, threshold: float | None) -> list[Reading]:
    """Every run of a side. One that failed counts as followed for as long as the others of its side were."""
    others = [float(history.env_steps or 0) for history in side.histories if history.state != "failed"]
    planned = [float(side.budget or 0)] if stops_at_threshold(side) or not others else []
    longest = max([common, *others, *planned])
    return [_reading(history, measure, common, threshold, longest) for history in side.histories]


def _reading(history: History, measure: ReturnSource, common: float, threshold: float | None, longest: float) -> Reading:
    came = measure_log(history, replace(history.goal, threshold=threshold), measure)
    steps, returns, reached = came.steps, came.returns, came.reached_at
    seen = steps <= common
    failed = history.state == "failed"
    ends = [float(history.env_steps or 0), *(steps[-1:].tolist())]
    seconds = wall_clock(history)
    return Reading(
        run=history.id,
        failed=failed,
        running=history.state == "running",
        steps=steps,
        returns=returns,
        # A run that failed will never get there: it counts as followed to the end without.
        followed=longest if failed else max(ends),
        common=_value_at(steps, returns, common),
        area=_area(steps[seen], returns[seen], common),
        reached=reached,
        reached_seconds=_seconds_at(seconds, reached),
        seconds=_seconds_at(seconds, float("inf")),
        lost=came.lost,
    )


def _value_at(steps: Column, values: Column, at: float) -> float | None:
    """The last value at or before a step (a run that ended early keeps its last one); its first where all lie behind."""
    if not len(values):
        return None
    return float(values[max(int(np.searchsorted(steps, at, side="right")) - 1, 0)])


def _area(steps: Column, values: Column, end: float) -> float | None:
    """Mean of the staircase from the first value to `end`; the last value is held for a run that ended early."""
    if not len(values):
        return None
    widths = np.diff(np.append(steps, max(end, float(steps[-1]))))
    return float(values @ widths / widths.sum()) if widths.sum() > 0 else float(values[-1])


def wall_clock(history: History) -> Series | None:
    """Seconds of work against env steps: our rows say what each phase took, others' say steps per second since the start."""
    phases = [series for name, series in history.series.items() if name.startswith(PHASE) and name != FPS and len(series)]
    if phases and history.source == "rlclinic":
        steps = np.unique(np.concatenate([series.steps for series in phases]))
        spent = np.zeros(len(steps))
        for series in phases:
            np.add.at(spent, np.searchsorted(steps, series.steps), np.maximum(series.values, 0.0))
        return Series(steps, np.cumsum(spent), "time")
    fps = history.series.get(FPS)
    if fps is None or not np.any(fps.values > 0):
        return None
    known = fps.values > 0
    return Series(fps.steps[known], np.maximum.accumulate(fps.steps[known] / fps.values[known]), FPS)


def _seconds_at(clock: Series | None, step: float | None) -> float | None:
    if clock is None or step is None or not len(clock):
        return None
    if step >= clock.steps[-1]:
        return float(clock.values[-1])
    return float(np.interp(step, np.append(0.0, clock.steps), np.append(0.0, clock.values)))


def times(readings: Sequence[Reading], horizon: float = math.inf) -> stats.Times:
    """Env steps to the threshold, censored where a run was followed no further, and at the horizon."""
    reached = [reading.reached if arrived(reading, horizon) else None for reading in readings]
    return stats.Times.of(reached, [min(reading.followed, horizon) for reading in readings])


def arrived(reading: Reading, horizon: float) -> bool:
    """Whether a run reached the threshold within the horizon."""
    return reading.reached is not None and reading.reached <= horizon


def wall_times(readings: Sequence[Reading]) -> stats.Times | None:
    """Seconds to the threshold; None where a clock is missing. A run that failed is censored at its side's longest clock."""
    known = [reading.seconds for reading in readings if reading.seconds is not None]
    if len(known) < len(readings) or not known:
        return None
    longest = max(known)
    followed = [longest if reading.failed else float(reading.seconds or 0) for reading in readings]
    return stats.Times.of([reading.reached_seconds for reading in readings], followed)


def fill(values: Sequence[float | None], lowest: float) -> list[float]:
    """Returns with the runs that have none counted as the lowest."""
    return [lowest if value is None else value for value in values]


def lowest_return(groups: Sequence[Sequence[Reading]]) -> float:
    """The lowest return at the common step in the whole comparison; 0 if nobody has one."""
    return min((reading.common for readings in groups for reading in readings if reading.common is not None), default=0.0)


def outcome(
    side: Side, readings: Sequence[Reading], lowest: float, threshold: float | None, horizon: float, wall_horizon: float | None
) -> SideOutcome:
    """A side's row in the table of outcomes."""
    common = fill([reading.common for reading in readings], lowest)
    judged = threshold is not None
    wall = wall_times(readings) if judged else None
    fps, split, per_100k = throughput(side)
    reached = sum(arrived(reading, horizon) for reading in readings)
    until = times(readings, horizon) if judged else None
    return SideOutcome(
        label=side.label,
        runs=len(readings),
        common=_estimate(common),
        last=_estimate(fill([reading.last for reading in readings], lowest)),
        best=max((reading.best for reading in readings if reading.best is not None), default=None),
        area=_estimate(fill([reading.area for reading in readings], lowest)),
        reached=reached if judged else None,
        reached_share=Interval.of(stats.exact_share_interval(reached, len(readings))) if judged else None,
        kept=sum(arrived(reading, horizon) and not reading.lost for reading in readings) if judged else None,
        steps=_mean_time(until, horizon) if until is not None else None,
        median_steps=stats.median_time(until) if until is not None else None,
        median_steps_interval=stats.median_time_interval(until) if until is not None else None,
        wall=_mean_time(wall, wall_horizon) if wall is not None and wall_horizon else None,
        spread=_spread(common),
        lowest=min(common),
        highest=max(common),
        fall=_estimate_known(
            [reading.best - reading.last if reading.best is not None and reading.last is not None else None for reading in readings]
        ),
        gap=_estimate_known([_gap(history) for history in side.histories]),
        success=_success(side),
        fps=fps,
        seconds_per_100k=per_100k,
        split=split,
    )


def _estimate(values: Sequence[float]) -> Interval:
    return Interval.of(stats.estimate(list(values)))


def _estimate_known(values: Sequence[float | None]) -> Interval | None:
    known = [value for value in values if value is not None]
    return _estimate(known) if known else None


def _mean_time(times: stats.Times, horizon: float) -> Interval:
    """Mean steps or seconds within the horizon, with those of the fastest and of the slowest run."""
    value, ends = stats.restricted_times(times, horizon), np.minimum(times.steps, horizon)
    return Interval(value=value, low=float(ends.min()), high=float(ends.max())) if len(times) > 1 else Interval(value=value)


def _spread(values: Sequence[float]) -> Interval | None:
    """Standard deviation over seeds; None with one seed."""
    return Interval(value=float(np.std(values, ddof=1))) if len(values) > 1 else None


def _gap(history: History) -> float | None:
    """Evaluation minus training return, means over the last third of the run; None where one of them is missing."""
    if not _has(history, EVAL_RETURN) or not _has(history, TRAIN_RETURN):
        return None
    evaluated, trained = history[EVAL_RETURN], history[TRAIN_RETURN]
    start = 2 / 3 * max(float(evaluated.steps[-1]), float(trained.steps[-1]))
    late = [series.values[series.steps >= start] for series in (evaluated, trained)]
    return float(late[0].mean() - late[1].mean()) if all(len(part) for part in late) else None


def success_rate(history: History) -> float | None:
    """The last success rate that the environment reported: of evaluations, or else of training."""
    return next((history[name].last for name in SUCCESS if _has(history, name)), None)


def _success(side: Side) -> Interval | None:
    known = [rate for history in side.histories if (rate := success_rate(history)) is not None]
    if not known:
        return None
    return Interval.of(stats.estimate_mean(known))


def throughput(side: Side) -> tuple[float | None, dict[str, float], float | None]:
    """Env steps per second of a run, the share of each phase in the time, and seconds per 100,000 env steps."""
    rates = [float(history[FPS].values.mean()) for history in side.histories if _has(history, FPS)]
    spent: dict[str, float] = {}
    per_step = []
    for history in side.histories:
        if history.source == "rlclinic":
            for name, series in history.series.items():
                if name.startswith(PHASE) and name != FPS and len(series):
                    key = name.removeprefix(PHASE)
                    spent[key] = spent.get(key, 0.0) + float(np.maximum(series.values, 0.0).sum())
        clock = wall_clock(history)
        if clock is not None and len(clock) and clock.steps[-1] > 0:
            per_step.append(float(clock.values[-1] / clock.steps[-1]))
    total = sum(spent.values())
    split = {name: part / total for name, part in sorted(spent.items(), key=lambda entry: -entry[1]) if part > 0}
    return (float(np.mean(rates)) if rates else None), split, (1e5 * float(np.mean(per_step)) if per_step else None)
