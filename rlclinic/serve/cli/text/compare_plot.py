"""Curves of several sides in characters: each side is drawn with its own letter, over its shaded band."""

from bisect import bisect_right
from collections.abc import Sequence

from rlclinic.comparison.models import Band, Course
from rlclinic.report.charts import extent
from rlclinic.report.format import duration, number, short
from rlclinic.serve.cli.text.plot import BLOCKS, THRESHOLD, Row

BOTH = "*"
SHADES = "░▒"


def lines(bands: Sequence[Band], threshold: float | None, width: int = 78, height: int = 10, line: str = "threshold") -> list[str]:
    """The curves as text; [] without data. Where two meet stands `*`; bands are shaded for up to two sides; `line` names the dashes."""
    bands = [band for band in bands if band.x]
    if not bands:
        return []
    last, low, high = extent(bands, threshold)

    def row(value: float) -> int:
        return height - 1 - min(max(round((value - low) / (high - low) * (height - 1)), 0), height - 1)

    labels = [""] * height
    for level in (0, height // 2, height - 1):
        labels[level] = number(high - (high - low) * level / (height - 1))
    if threshold is not None:
        labels[row(threshold)] = number(threshold)
    margin = max(map(len, labels))
    columns = max(width - margin - 16, 16)
    grid = [[" "] * columns for _ in range(height)]
    if threshold is not None:
        grid[row(threshold)] = [THRESHOLD] * columns
    edges = [last * (column + 1) / columns for column in range(columns)]
    places = [[_index(band, edge) for edge in edges] for band in bands]
    if len(bands) <= len(SHADES):
        for shade, band, place in zip(SHADES, bands, places, strict=False):
            _shade(grid, band, place, row, shade)
    for band, place in zip(bands, places, strict=True):
        _letters(grid, band, place, row)
    axis = bands[0].axis
    end = short(last) if axis.endswith("steps") else f"{last:.0f} {axis}" if axis == "seeds an arm" else duration(last)
    notes = [""] * height
    if threshold is not None:
        notes[row(threshold)] = f" {line}"
    notes[-1] += f" {end}"
    return [f"  {label:>{margin}} ┤{''.join(cells)}{note}".rstrip() for label, cells, note in zip(labels, grid, notes, strict=True)]


def _index(band: Band, edge: float) -> int | None:
    """The last point at or before an edge; None before the first, and behind a curve that has ended."""
    index = bisect_right(band.x, edge * (1 + 1e-9)) - 1
    step = band.x[-1] - band.x[-2] if len(band.x) > 1 else 0.0
    return index if index >= 0 and edge <= band.x[-1] + max(step, 0.02 * band.x[-1]) else None


def _shade(grid: list[list[str]], band: Band, places: Sequence[int | None], row: Row, shade: str) -> None:
    if band.runs < 2:
        return
    for column, place in enumerate(places):
        if place is not None:
            for line in range(row(band.high[place]), row(band.low[place]) + 1):
                grid[line][column] = shade


def _letters(grid: list[list[str]], band: Band, places: Sequence[int | None], row: Row) -> None:
    before: int | None = None
    for column, place in enumerate(places):
        if place is None:
            before = None
            continue
        now = row(band.center[place])
        # A steep rise is drawn as a column, so that the line does not fall apart.
        span = range(min(now, before), max(now, before) + 1) if before is not None and abs(now - before) > 1 else (now,)
        for line in span:
            taken = grid[line][column]
            grid[line][column] = BOTH if taken.isalpha() and taken != band.label[0] else band.label[0]
        before = now


def course_lines(course: Course) -> list[str]:
    """A schedule in a line for each side, all on one scale from 0: A ▇▆▄▃▁, B ▂▂▂▂▂."""
    highest = max(max(map(abs, line)) for line in course.sides.values()) or 1.0
    drawn = []
    for label, line in course.sides.items():
        picked = line[:: max(len(line) // 20, 1)]
        drawn.append(f"{label} " + "".join(BLOCKS[round(abs(value) / highest * (len(BLOCKS) - 1))] for value in picked))
    return drawn
