"""The learning curve as a picture: SVG for reports (no dependency), PNG through matplotlib.

Both draw the same thing: one thin line per seed, the interquartile mean over seeds with its 95 % band, and the
threshold. The scales are computed here once, so that the two agree.
"""

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rlclinic.errors import UsageError
from rlclinic.ops.wording import number, short

if TYPE_CHECKING:
    from rlclinic.ops.results import Curve

WIDTH, HEIGHT = 760, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 16, 48
LINE, SEED, THRESHOLD = "#2563eb", "#93b4f5", "#c2410c"


class Scale(NamedTuple):
    """Maps data to pixels along one axis."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Round numbers inside [low, high]: steps of 1, 2, 2.5 or 5 times a power of ten."""
    raw = (high - low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(step * k, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def value_range(curve: "Curve", air: float = 0.06) -> tuple[float, float]:
    """The returns that must be visible, threshold included, with a little air above and below."""
    values = [v for seed in curve.seeds for v in seed.values]
    values += [*curve.low, *curve.high, *curve.center]
    if curve.threshold is not None:
        values.append(curve.threshold)
    finite = [v for v in values if v is not None and math.isfinite(v)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if curve.return_range is not None:
        lowest, highest = curve.return_range
        # The whole possible range says most, as long as it does not squash the curve to a line.
        if high - low >= 0.2 * (highest - lowest):
            low, high = min(low, lowest), max(high, highest)
    if low == high:
        return low - max(abs(low) * 0.1, 1.0), high + max(abs(high) * 0.1, 1.0)
    return low - air * (high - low), high + air * (high - low)


def step_range(curve: "Curve") -> tuple[float, float]:
    """From the first env step to the last one that was reached (or may be)."""
    ends = [seed.steps[-1] for seed in curve.seeds if seed.steps] + list(curve.steps[-1:])
    return 0.0, max([*ends, 1.0])


def svg(curve: "Curve") -> str:
    """A self-contained <svg> of the curve; colours work on light and dark pages."""
    x = Scale(*step_range(curve), LEFT, WIDTH - RIGHT)
    y = Scale(*value_range(curve), HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(curve.label, quote=True)} against env steps" font-family="system-ui, sans-serif" font-size="12">'
    ]
    parts += _axes(curve, x, y)
    for seed in curve.seeds:
        parts.append(_path(seed.steps, seed.values, x, y, SEED, 1.0, f"seed {seed.seed}"))
    if len(curve.seeds) > 1:
        parts.append(_band(curve, x, y))
    parts.append(_path(curve.steps, curve.center, x, y, LINE, 2.2, "interquartile mean"))
    parts.append("</svg>")
    return "\n".join(part for part in parts if part)


def _axes(curve: "Curve", x: Scale, y: Scale) -> list[str]:
    parts = []
    for value in ticks(y.low, y.high):
        at = f"{y(value):.1f}"
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}" stroke="#888" stroke-opacity="0.25"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at}" dy="4" text-anchor="end" fill="#777">{number(value, 4)}</text>')
    for value in ticks(x.low, x.high):
        at = f"{x(value):.1f}"
        parts.append(f'<text x="{at}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#777">{short(value)}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle" fill="#777">env steps</text>')
    turned = f'x="14" y="{HEIGHT / 2}" transform="rotate(-90 14 {HEIGHT / 2})"'
    parts.append(f'<text {turned} text-anchor="middle" fill="#777">{escape(curve.label)}</text>')
    if curve.threshold is not None:
        at = f"{y(curve.threshold):.1f}"
        dashes = f'stroke="{THRESHOLD}" stroke-width="1.5" stroke-dasharray="6 4"'
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}" {dashes}/>')
        parts.append(f'<text x="{LEFT + 6}" y="{at}" dy="-5" fill="{THRESHOLD}">threshold {number(curve.threshold, 4)}</text>')
    return parts


def _points(steps: Sequence[float], values: Sequence[float | None]) -> list[tuple[float, float]]:
    return [(s, v) for s, v in zip(steps, values, strict=True) if v is not None and math.isfinite(v)]


def _path(steps: Sequence[float], values: Sequence[float | None], x: Scale, y: Scale, colour: str, width: float, title: str) -> str:
    points = _points(steps, values)
    if not points:
        return ""
    if len(points) == 1:  # a line of one point would be invisible
        return f'<circle cx="{x(points[0][0]):.1f}" cy="{y(points[0][1]):.1f}" r="3" fill="{colour}"><title>{title}</title></circle>'
    line = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in points)
    stroke = f'stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"'
    return f'<polyline points="{line}" fill="none" {stroke}><title>{title}</title></polyline>'


def _band(curve: "Curve", x: Scale, y: Scale) -> str:
    upper = _points(curve.steps, curve.high)
    lower = _points(curve.steps, curve.low)
    if len(upper) < 2:
        return ""
    line = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in [*upper, *reversed(lower)])
    return f'<polygon points="{line}" fill="{LINE}" fill-opacity="0.18"><title>95 % interval over seeds</title></polygon>'


def png(curve: "Curve", path: Path, title: str) -> None:
    """Write the curve to a PNG. Needs matplotlib, which is imported here and never through pyplot."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"{path.name} cannot be drawn: {missing.name} is not installed.\n"
            "  The report has the same curve as SVG.\n"
            "  Type: pip install 'rlclinic[train]'"
        ) from missing
    figure = Figure(figsize=(7.6, 4.0), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for seed in curve.seeds:
        axes.plot(seed.steps, _floats(seed.values), color=SEED, linewidth=0.8, zorder=1)
    _plot_center(axes, curve)
    if curve.threshold is not None:
        label = f"threshold {number(curve.threshold, 4)}"
        axes.axhline(curve.threshold, color=THRESHOLD, linestyle="--", linewidth=1.3, zorder=2, label=label)
    axes.set(xlim=step_range(curve), ylim=value_range(curve), xlabel="env steps", ylabel=curve.label, title=title)
    axes.xaxis.set_major_formatter(lambda value, _position: short(value))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="best", fontsize="small")
    figure.savefig(path)


def _plot_center(axes: Any, curve: "Curve") -> None:
    """The line over seeds and, if there are several, its band."""
    label = f"seed {curve.seeds[0].seed}" if len(curve.seeds) == 1 else f"IQM of {len(curve.seeds)} seeds"
    if len(curve.seeds) > 1:
        low, high = _floats(curve.low), _floats(curve.high)
        axes.fill_between(curve.steps, low, high, color=LINE, alpha=0.18, linewidth=0, zorder=2, label="95 % interval")
    mark = "o" if len(curve.steps) == 1 else None  # a line of one point would be invisible
    axes.plot(curve.steps, _floats(curve.center), color=LINE, linewidth=2, marker=mark, zorder=3, label=label)


def _floats(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]
