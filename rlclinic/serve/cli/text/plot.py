"""A learning curve in characters: return against env steps, with the seeds' band and the threshold."""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rlclinic.report.charts import value_range
from rlclinic.report.format import duration, number, short

if TYPE_CHECKING:
    from rlclinic.report.charts import Bar, TimelineBar
    from rlclinic.report.models import Curve

BAND, THRESHOLD, MARKED = "░", "┄", "▒"
BLOCKS = "▁▂▃▄▅▆▇█"
HALF = 18
"""Characters on each side of a tornado's middle."""
Row = Callable[[float], int]
"""The grid row of a return; row 0 is the top."""


def curve_lines(
    curve: "Curve", width: int = 78, height: int = 8, budget: float | None = None, marked: tuple[float, float] | None = None, note: str = ""
) -> list[str]:
    """The curve as text lines of at most `width`, y labels on the left and the last env step at the end of the axis; [] without data.

    `budget`: the axis ends there, and a run that is still going grows towards it. `marked`: env steps that get a strip below
    the curve, with `note` at its end.
    """
    points = [(s, v) for s, v in zip(curve.steps, curve.center, strict=True) if v is not None and math.isfinite(v)]
    if not points:
        return []
    low, high = value_range(curve, air=0.0)

    def row(value: float) -> int:
        # Clamped before it is rounded: a log may hold 1e308, which no picture shows.
        share = min(max(0.0, (value - low) / (high - low)), 1.0)
        return height - 1 - round(share * (height - 1))

    labels = _labels(curve, low, high, row, height)
    beside = max(len(" threshold"), len(note) + 1 if marked is not None else 0)
    columns = max(min(width - max(map(len, labels)) - len("   ┤") - beside, 120), 8)
    last = points[-1][0]
    end = max(last, budget or 0.0)
    grid = [[" "] * columns for _ in range(height)]

    if curve.threshold is not None:
        grid[row(curve.threshold)] = [THRESHOLD] * columns
    # Column c stands for the env step at its right edge; before the first evaluation there is nothing to draw.
    edges = [end * (column + 1) / columns for column in range(columns)]
    at = [edge for edge in edges if edge <= last + end / columns]
    if len(curve.seeds) > 1:
        _draw_band(grid, curve, at, row)
    _draw_line(grid, points, at, row)
    notes = [""] * height
    notes[-1] = f" {short(end)}"
    if curve.threshold is not None:
        notes[row(curve.threshold)] = f" threshold{notes[row(curve.threshold)]}"
    margin = max(map(len, labels))
    lines = [f"  {label:>{margin}} ┤{''.join(cells)}{end}".rstrip() for label, cells, end in zip(labels, grid, notes, strict=True)]
    return lines if marked is None else [*lines, f"  {'':>{margin}}  {_strip(edges, marked)} {note}".rstrip()]


def _strip(edges: Sequence[float], marked: tuple[float, float]) -> str:
    """The columns that hold any of the marked env steps."""
    width = edges[0]
    cells = [MARKED if edge > marked[0] and edge - width < marked[1] else " " for edge in edges]
    return "".join(cells if MARKED in cells else [*cells[:-1], MARKED])


def _labels(curve: "Curve", low: float, high: float, row: Row, height: int) -> list[str]:
    """The y axis: top, middle, bottom and the threshold, which wins where two fall on one line."""
    labels = [""] * height
    for line in (0, height // 2, height - 1):
        labels[line] = number(high - (high - low) * line / (height - 1))
    if curve.threshold is not None:
        labels[row(curve.threshold)] = number(curve.threshold)
    return labels


def _value_at(points: Sequence[tuple[float, float]], step: float) -> float | None:
    """The last value at or before a step: evaluations are a staircase, not a line."""
    index = bisect_right([s for s, _ in points], step + 1e-9)
    return points[index - 1][1] if index else None


def _draw_band(grid: list[list[str]], curve: "Curve", at: Sequence[float], row: Row) -> None:
    edges = [
        (step, (low, high))
        for step, low, high in zip(curve.steps, curve.low, curve.high, strict=True)
        if low is not None and high is not None and math.isfinite(low) and math.isfinite(high)
    ]
    steps = [step for step, _ in edges]
    for column, step in enumerate(at):
        if index := bisect_right(steps, step + 1e-9):
            low, high = edges[index - 1][1]
            for line in range(row(high), row(low) + 1):
                grid[line][column] = BAND


def _draw_line(grid: list[list[str]], points: Sequence[tuple[float, float]], at: Sequence[float], row: Row) -> None:
    before: int | None = None
    for column, step in enumerate(at):
        value = _value_at(points, step)
        if value is None:
            continue
        now = row(value)
        if before is None or before == now:
            grid[now][column] = "─"
        else:
            # Rows count downwards: a smaller row is a higher return.
            grid[before][column], grid[now][column] = ("╯", "╭") if now < before else ("╮", "╰")
            for between in range(min(before, now) + 1, max(before, now)):
                grid[between][column] = "│"
        before = now


def sparkline(values: Sequence[float | None], width: int = 24) -> str:
    """A series in one line of block characters; a gap where there is no number."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return ""
    low, high = min(known), max(known)
    picked = values if len(values) <= width else [values[round(i * (len(values) - 1) / (width - 1))] for i in range(width)]
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if value is None or not math.isfinite(value) else BLOCKS[round((value - low) * scale)] for value in picked)


def tornado_lines(bars: "Sequence[Bar]") -> list[str]:
    """Effects under each other, better to the left and worse to the right; settings are set apart."""
    lines, group = [f"{'':<24}{'better':>{HALF}}│worse"], ""
    for bar in bars:
        lines += [""] if group and bar.group != group else []
        group = bar.group
        drawn = ("█" if bar.certain else "░") * round(abs(bar.place) * HALF)
        left, right = (drawn, "") if bar.place < 0 else ("", drawn)
        lines.append(f"{bar.label:<24}{left:>{HALF}}│{right:<{HALF}}  {bar.text}")
    return lines


PHASES = {"env": "█", "act": "▓", "learn": "▒"}
"""Of a timeline; what else a process does with its time is REST, and what it does in no phase is OTHER."""
REST, OTHER = "░", "·"


def timeline_lines(bars: "Sequence[TimelineBar]", seconds: float, width: int) -> list[str]:
    """Processes under each other, each from when it began to when it ended; the signs are shares of its time."""
    if not bars:
        return []
    labels = min(max(len(bar.label) for bar in bars), 24)
    columns = max(width - labels - 16, 16)
    whole = max(seconds, *(bar.began + bar.seconds for bar in bars), 1e-9)
    lines = []
    for bar in bars:
        start = min(round(bar.began / whole * columns), columns - 1)
        length = max(1, min(round(bar.seconds / whole * columns), columns - start))
        signs, at = "", 0.0
        for name, share in bar.phases.items():
            at += share
            signs += PHASES.get(name, OTHER if name == "other" else REST) * (round(min(at, 1.0) * length) - len(signs))
        drawn = f"{' ' * start}{signs.ljust(length, OTHER)}"
        lines.append(f"  {bar.label[:labels]:<{labels}} │{drawn:<{columns}}│ {duration(bar.seconds)}{f' {bar.text}' if bar.text else ''}")
    legend = "  ".join([*(f"{sign} {name}" for name, sign in PHASES.items()), f"{REST} eval, writing and the like", f"{OTHER} no phase"])
    return [*lines, f"  {'':<{labels}}  {legend}"]
