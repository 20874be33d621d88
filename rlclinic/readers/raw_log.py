"""One log on its way to a History: raw tags in, canonical series out."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlclinic.readers.metric_aliases import EPISODE_SERIES, Tag, find_matching
from rlclinic.readers.thinning import Axis, Column, Episodes, Points, find_restarts
from rlclinic.runs.coerce import whole
from rlclinic.runs.history import Series, make_series

_EPISODE_MEANS: Final = ("train/roll/", "val/roll/")
_LEARNING: Final = ("train/loss/", "train/metrics/grad_norm")

Mask = NDArray[np.bool_]


class RawLog:
    """Raw tags with the steps at which they were logged."""

    def __init__(self, episodic: Collection[str] = ()) -> None:
        self._episodic = frozenset(episodic)
        self._points: dict[str, Points] = {}
        self._broken: dict[str, Points] = {}
        self._episodes: dict[str, Episodes] = {}
        self._clock = Points()
        self._order = 0
        self._axis: Axis | None = None
        self.step_factor = 1.0
        """Env steps in one unit of the log's own axis; set before anything is taken out."""

    @property
    def names(self) -> list[str]:
        return sorted(self._points.keys() | self._broken.keys() | self._episodes.keys())

    def __len__(self) -> int:
        return self._order

    def add_rows(self, names: Iterable[str], steps: Column, values: Column, blank: Mask) -> None:
        """Rows of a table with one step each: values and blank are [rows, names]. Rows without a step are left out."""
        known = np.isfinite(steps)
        steps, values, blank = steps[known], values[known], blank[known]
        order = self._take(len(steps))
        self._clock.add(order, steps, steps)
        for place, name in enumerate(names):
            logged = ~blank[:, place]
            if logged.any():
                self._add(name, order[logged], steps[logged], values[logged, place])

    def add_column(self, name: str, steps: Any, values: Any) -> None:
        """Points of one tag that has steps of its own, as in TensorBoard, in the order of the log."""
        at, numbers = np.asarray(steps, dtype=np.float64), np.asarray(values, dtype=np.float64)
        self.add_points(name, self._take(len(at)), at, numbers)

    def add_points(self, name: str, order: Column, steps: Column, values: Column) -> None:
        """As `add_column`, for a log whose tags are interleaved: the caller counts `order` over all tags."""
        known = np.isfinite(steps)
        self._order = max(self._order, int(order[-1]) + 1) if len(order) else self._order
        self._add(name, order[known], steps[known], values[known])

    def _take(self, count: int) -> Column:
        order = np.arange(self._order, self._order + count, dtype=np.float64)
        self._order += count
        return order

    def _add(self, name: str, order: Column, steps: Column, values: Column) -> None:
        finite = np.isfinite(values)
        if not finite.all():
            self._broken.setdefault(name, Points()).add(order[~finite], steps[~finite], values[~finite])
        store = self._episodes.setdefault(name, Episodes()) if name in self._episodic else self._points.setdefault(name, Points())
        store.add(order[finite], steps[finite], values[finite])

    def scale_steps(self, prefix: str, factor: float) -> None:
        """Put the tags with this beginning on another axis: some frameworks count env steps for some tags, and updates for others."""
        for stores in (self._points, self._broken):
            for name, points in stores.items():
                if name.startswith(prefix):
                    points.scale_steps(factor)

    def leave_out(self, patterns: Iterable[str]) -> None:
        """Forget the tags that one of these patterns means."""
        for stores in (self._points, self._broken, self._episodes):
            for name in [name for name in stores if any(fnmatchcase(name, pattern) for pattern in patterns)]:
                del stores[name]

    def count_as_episodes(self, name: str) -> None:
        """Take the points of a tag as single episodes' values, as if that had been known when they were added."""
        if name in self._points:
            self._episodes.setdefault(name, Episodes()).add(*self._points.pop(name).columns)

    # ── out ──

    @property
    def axis(self) -> Axis:
        """The env-step axis with its restarts, told by the rows, or by the tag that was logged most often."""
        if self._axis is None:
            stores = [*self._points.values(), *(episodes.mean for episodes in self._episodes.values())]
            clock = self._clock if self._clock.seen else max(stores, key=lambda points: points.seen, default=self._clock)
            order, steps, _ = clock.columns
            self._axis = Axis(tuple(find_restarts(order, steps)))
        return self._axis

    def align(self, main: "RawLog") -> None:
        """Place this log's segments as those of another log of the same run."""
        self._axis = self.axis.aligned(main.axis)

    @property
    def env_steps(self) -> int | None:
        """The last env step of any tag, over all segments."""
        ends = [steps.max() for points in self._stores() if len(steps := self.axis.place(*points.columns)[0])]
        return whole(float(max(ends)) * self.step_factor) if ends else None

    @property
    def segments(self) -> tuple[float, ...]:
        """Env steps at which the log was restarted."""
        return tuple(boundary * self.step_factor for boundary in self.axis.boundaries)

    @property
    def notes(self) -> list[str]:
        """What happened to the axis, and what was thinned."""
        anew = [restart for restart in self.axis.restarts if restart.anew]
        back = [restart for restart in self.axis.restarts if not restart.anew]
        notes = []
        if anew:
            ends = ", ".join(f"{restart.last:,.0f}" for restart in anew[:4])
            notes.append(f"the step count began again {_times(len(anew))} (after step {ends}): read as one run that goes on, in segments")
        if back:
            places = ", ".join(f"{restart.last:,.0f} to {restart.first:,.0f}" for restart in back[:4])
            notes.append(
                f"the step count went back {_times(len(back))} ({places}): resumed; what was computed twice is read from the later part"
            )
        stride = max((points.stride for points in self._stores()), default=1)
        if stride > 1:
            notes.append(f"a long log: of the densest columns 1 in {stride} values was kept")
        return notes

    def _stores(self) -> list[Points]:
        return [self._clock, *self._points.values(), *(episodes.mean for episodes in self._episodes.values()), *self._broken.values()]

    def raw(self, name: str) -> tuple[Column, Column]:
        """(env steps, values) of a tag as it was logged."""
        steps, values = self.axis.place(*self._points[name].columns) if name in self._points else (np.empty(0), np.empty(0))
        return steps * self.step_factor, values

    def series(self, table: Iterable[Tag], settings: Mapping[str, Any], *, rounded: bool = False) -> dict[str, Series]:
        """Every tag that the table knows, by canonical name; of two tags for one name the table's first one counts."""
        found: dict[str, Series] = {}
        for tag in table:
            if tag.canonical in found:
                continue
            for name in find_matching(tag, self._points.keys() | self._episodes.keys() | self._broken.keys()):
                for canonical, made in self._convert(tag, name, settings, rounded):
                    found.setdefault(canonical, made)
        return self._without_gaps(found)

    def _without_gaps(self, found: dict[str, Series]) -> dict[str, Series]:
        """A mean over episodes is NaN in rows in which none ended. It is a broken number only where learning broke, too, or for good."""
        learning = [series for name, series in found.items() if name.startswith(_LEARNING)]
        if any(len(series.broken) for series in learning):
            return found
        gapped = [name for name, series in found.items() if name.startswith(_EPISODE_MEANS) and len(series.broken)]
        return found | {name: self._without_gap(found[name], bool(learning)) for name in gapped}

    def _without_gap(self, series: Series, learns: bool) -> Series:
        steps, values = self.axis.place(*self._broken[series.name].columns)
        goes_on = learns or (steps * self.step_factor < (series.steps[-1] if len(series) else -np.inf))
        return replace(series, broken=np.sort(steps[np.isinf(values) | np.logical_not(goes_on)] * self.step_factor))

    def _convert(self, tag: Tag, name: str, settings: Mapping[str, Any], rounded: bool) -> Iterable[tuple[str, Series]]:
        factor = tag.scale(settings)
        if factor is None:
            return
        if name in self._episodes:
            parts = EPISODE_SERIES.get(tag.canonical, {"mean": tag.canonical})
            stores = {canonical: getattr(self._episodes[name], part) for part, canonical in parts.items()}
        else:
            stores = {tag.canonical: self._points.get(name, Points())}
        if tag.computed and not any(points.columns[2].any() for points in stores.values()):
            return
        lost, nothing = self.axis.place(*self._broken[name].columns) if name in self._broken else (np.empty(0), np.empty(0))
        for canonical, points in stores.items():
            steps, values = self.axis.place(*points.columns)
            at = np.concatenate([steps, lost]) * self.step_factor
            with np.errstate(all="ignore"):
                scaled = values if canonical == "total_episodes" else factor * values
            made = make_series(at, np.concatenate([scaled, nothing]), name, estimator=tag.estimator, rounded=rounded)
            if made is not None:
                yield canonical, made


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
