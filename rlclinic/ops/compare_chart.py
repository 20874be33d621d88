"""Curves of several sides in one picture, as SVG without dependencies: a line and a band for each, on env steps or wall time."""

import math
from collections.abc import Callable, Sequence
from html import escape

from rlclinic.comparison.models import Band, Course
from rlclinic.ops.chart import BOTTOM, HEIGHT, LEFT, RIGHT, THRESHOLD, TOP, WIDTH, Scale, ticks
from rlclinic.ops.wording import duration, number, short

COLOURS = ("#2563eb", "#d97706", "#16a34a", "#9333ea", "#dc2626", "#0891b2", "#64748b", "#a16207")


_UNITS: dict[str, Callable[[float], str]] = {"env steps": short, "wall seconds": duration}


def colour(place: int) -> str:
    """The colour of a side, by its place."""
    return COLOURS[place % len(COLOURS)]


def extent(bands: Sequence[Band], threshold: float | None) -> tuple[float, float, float]:
    """The last point on the axis, and the lowest and highest return that must be visible."""
    last = max([band.x[-1] for band in bands if band.x] + [1e-9])
    values = [value for band in bands for value in (*band.low, *band.high) if math.isfinite(value)]
    values += [] if threshold is None else [threshold]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if low == high:
        low, high = low - max(abs(low) * 0.1, 1.0), high + max(abs(high) * 0.1, 1.0)
    return last, low, high


def bands_svg(bands: Sequence[Band], order: Sequence[str], threshold: float | None) -> str:
    """One <svg>; `order` are the sides' labels, which decide the colours. Empty without a curve."""
    if not bands:
        return ""
    last, low, high = extent(bands, threshold)
    air = 0.06 * (high - low)
    x, y = Scale(0.0, last, LEFT, WIDTH - RIGHT), Scale(low - air, high + air, HEIGHT - BOTTOM, TOP)
    axis = bands[0].axis
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="return against {escape(axis)}" font-family="system-ui, sans-serif" font-size="12">'
    ]
    parts += _bands_axes(x, y, axis, threshold)
    for band in bands:
        parts += _drawn(band, x, y, colour(order.index(band.label)))
    return "\n".join([*parts, "</svg>"])


def course_svg(course: Course, order: Sequence[str]) -> str:
    """A schedule over the budget, one line for each side."""
    highest = max(max(line) for line in course.sides.values())
    lowest = min(min(line) for line in course.sides.values())
    top = highest if highest > lowest else lowest + max(abs(lowest), 1e-9)
    x, y = Scale(0.0, 100.0, LEFT, WIDTH - RIGHT), Scale(min(lowest, 0.0), top * 1.06, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(course.key)} over the budget" font-family="system-ui, sans-serif" font-size="12">'
    ]
    parts += _bands_axes(x, y, "% of the budget", None)
    for label, line in course.sides.items():
        points = " ".join(f"{x(100 * place / (len(line) - 1)):.1f},{y(value):.1f}" for place, value in enumerate(line))
        stroke = f'stroke="{colour(order.index(label))}" stroke-width="2.2"'
        parts.append(f'<polyline points="{points}" fill="none" {stroke}><title>{escape(label)}</title></polyline>')
    return "\n".join([*parts, "</svg>"])


def _bands_axes(x: Scale, y: Scale, axis: str, threshold: float | None) -> list[str]:
    parts = []
    for value in ticks(y.low, y.high):
        at = f"{y(value):.1f}"
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}" stroke="#888" stroke-opacity="0.25"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at}" dy="4" text-anchor="end" fill="#777">{number(value, 4)}</text>')
    for value in ticks(x.low, x.high):
        said = _UNITS.get(axis, number)(value) if value else "0"
        parts.append(f'<text x="{x(value):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#777">{said}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle" fill="#777">{escape(axis)}</text>')
    if threshold is not None:
        at = f"{y(threshold):.1f}"
        dashes = f'stroke="{THRESHOLD}" stroke-width="1.5" stroke-dasharray="6 4"'
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}" {dashes}/>')
        parts.append(f'<text x="{LEFT + 6}" y="{at}" dy="-5" fill="{THRESHOLD}">threshold {number(threshold, 4)}</text>')
    return parts


def _drawn(band: Band, x: Scale, y: Scale, ink: str) -> list[str]:
    name = escape(f"{band.label}: IQM of {band.runs} runs")
    points = list(zip(band.x, band.center, strict=True))
    parts = []
    if band.runs > 1 and len(points) > 1:
        edge = [*zip(band.x, band.high, strict=True), *reversed(list(zip(band.x, band.low, strict=True)))]
        shape = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in edge)
        parts.append(f'<polygon points="{shape}" fill="{ink}" fill-opacity="0.15"><title>{name}, 95 % interval</title></polygon>')
    if len(points) == 1:
        (at, value), *_ = points
        return [*parts, f'<circle cx="{x(at):.1f}" cy="{y(value):.1f}" r="3" fill="{ink}"><title>{name}</title></circle>']
    line = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in points)
    stroke = f'stroke="{ink}" stroke-width="2.2" stroke-linejoin="round"'
    return [*parts, f'<polyline points="{line}" fill="none" {stroke}><title>{name}</title></polyline>']
