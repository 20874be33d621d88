"""Learning curves as pictures: SVG for reports (no dependency), PNG through matplotlib."""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rlclinic.comparison.models import Band, Course
from rlclinic.errors import UsageError
from rlclinic.report.format import duration, name_band, number, short

if TYPE_CHECKING:
    from rlclinic.report.models import Curve, Interval, Panel

WIDTH, HEIGHT = 760, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 16, 48
LINE, SEED, THRESHOLD = "#2563eb", "#93b4f5", "#c2410c"
MARK, HEALTHY = "#d97706", "#16a34a"
PANEL_WIDTH, PANEL_HEIGHT = 300, 150
MOST_POINTS = 600
LARGEST = 1e100
PANEL_LEFT, PANEL_RIGHT, PANEL_TOP, PANEL_BOTTOM = 46, 8, 8, 22


class Scale(NamedTuple):
    """Maps data to pixels along one axis."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def held(self, value: float) -> float:
        """The nearest value inside."""
        return min(max(value, self.low), self.high)


class CurveDrawing(NamedTuple):
    """A learning curve for whoever draws it in characters."""

    curve: "Curve"
    height: int = 8
    marked: "Interval | None" = None


class BandsDrawing(NamedTuple):
    """Curves of several sides for whoever draws them in characters."""

    bands: Sequence[Band]
    """Each is drawn with the first letter of its label."""
    threshold: float | None
    line: str = "threshold"
    """What the line of dashes is called."""


class Bar(NamedTuple):
    """One bar of a tornado: to the left of the middle (-1) is better, to the right (1) worse."""

    group: str
    label: str
    place: float
    certain: bool
    text: str


class TornadoDrawing(NamedTuple):
    """Effects on both sides of a middle for whoever draws them in characters."""

    bars: Sequence[Bar]


class TimelineBar(NamedTuple):
    """One process of a timeline."""

    label: str
    began: float
    """Seconds after the first one."""
    seconds: float
    phases: Mapping[str, float]
    """Shares of its time, in the order in which they are drawn; together 1 at most."""
    text: str = ""


class TimelineDrawing(NamedTuple):
    """Processes over time for whoever draws them in characters."""

    bars: Sequence[TimelineBar]
    seconds: float


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
    finite = [v for v in values if v is not None and _drawable(v)] or [0.0, 1.0]
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
    return 0.0, max([*filter(_drawable, ends), 1.0])


def svg(curve: "Curve", marked: "Interval | None" = None) -> str:
    """A self-contained <svg> of the curve, the evidence interval shaded; colours work on light and dark pages."""
    x = Scale(*step_range(curve), LEFT, WIDTH - RIGHT)
    y = Scale(*value_range(curve), HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(curve.label, quote=True)} against {curve.step_unit}" font-family="system-ui, sans-serif" font-size="12">'
    ]
    if marked is not None:
        parts.append(_marked(marked.start, marked.end, marked.text, x, (TOP, HEIGHT - BOTTOM)))
    parts += _axes(curve, x, y)
    for seed in curve.seeds:
        parts.append(_path(seed.steps, seed.values, x, y, SEED, 1.0, f"seed {seed.seed}"))
    if len(curve.seeds) > 1:
        parts.append(_band(curve, x, y))
    parts.append(_path(curve.steps, curve.center, x, y, LINE, 2.2, "interquartile mean"))
    parts.append("</svg>")
    return "\n".join(part for part in parts if part)


def panel(drawn: "Panel") -> str:
    """A small <svg> of a series: its middle over runs, their range, the healthy band, and the evidence interval."""
    bottom = PANEL_HEIGHT - PANEL_BOTTOM
    x = Scale(*_widened(min(0.0, drawn.steps[0]), drawn.steps[-1]), PANEL_LEFT, PANEL_WIDTH - PANEL_RIGHT)
    y = Scale(*_panel_range(drawn), bottom, PANEL_TOP)
    box = f'viewBox="0 0 {PANEL_WIDTH} {PANEL_HEIGHT}" role="img" aria-label="{escape(drawn.label, quote=True)} against env steps"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="system-ui, sans-serif" font-size="11">']
    if drawn.start is not None and drawn.end is not None:
        parts.append(_marked(drawn.start, drawn.end, drawn.text, x, (PANEL_TOP, bottom)))
    if drawn.band is not None:
        top, foot = (y(y.held(end)) for end in (drawn.band[1], drawn.band[0]))
        shape = f'x="{PANEL_LEFT}" width="{PANEL_WIDTH - PANEL_RIGHT - PANEL_LEFT}" y="{top:.1f}" height="{max(foot - top, 1.0):.1f}"'
        parts.append(f'<rect {shape} fill="{HEALTHY}" fill-opacity="0.13"><title>where healthy runs usually are</title></rect>')
    parts.append(_healthy(drawn, x, y))
    for value in (y.low, y.high):
        line = f'x1="{PANEL_LEFT}" x2="{PANEL_WIDTH - PANEL_RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"'
        parts.append(f'<line {line} stroke="#888" stroke-opacity="0.3"/>')
        parts.append(f'<text x="{PANEL_LEFT - 5}" y="{y(value):.1f}" dy="4" text-anchor="end" fill="#777">{number(value, 2)}</text>')
    parts.append(f'<text x="{PANEL_WIDTH - PANEL_RIGHT}" y="{PANEL_HEIGHT - 6}" text-anchor="end" fill="#777">{short(x.high)}</text>')
    upper, lower = (list(zip(drawn.steps, edge, strict=True)) for edge in (drawn.high, drawn.low))
    edge = " ".join(f"{x(s):.1f},{y(y.held(v)):.1f}" for s, v in [*upper, *reversed(lower)])
    parts.append(f'<polygon points="{edge}" fill="{LINE}" fill-opacity="0.18"><title>range of the runs</title></polygon>')
    parts.append(_path(drawn.steps, [y.held(value) for value in drawn.center], x, y, LINE, 1.8, "middle of the runs"))
    return "\n".join(part for part in [*parts, "</svg>"] if part)


def _healthy(drawn: "Panel", x: Scale, y: Scale) -> str:
    if drawn.healthy is None or len(drawn.healthy.steps) < 2:
        return ""
    known = drawn.healthy
    upper, lower = (list(zip(known.steps, edge, strict=True)) for edge in (known.high, known.low))
    edge = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in [*upper, *reversed(lower)])
    return f'<polygon points="{edge}" fill="{HEALTHY}" fill-opacity="0.16"><title>{known.runs} healthy runs</title></polygon>'


def _panel_range(drawn: "Panel") -> tuple[float, float]:
    """What must be seen: where the middle usually is, the runs' range as far as it does not squash that, and the band's nearer end.

    A spike under way is cut off at the edge: at its own height the rest would be a line along the bottom.
    """
    ordered = sorted(drawn.center)
    usual = [ordered[round(share * (len(ordered) - 1))] for share in (0.05, 0.95)]
    room = max(usual[1] - usual[0], 1e-12)
    # Where it came from and where it went is no spike.
    ends = (drawn.center[0], drawn.center[-1])
    low, high = min(max(min(drawn.low), usual[0] - room), *ends), max(min(max(drawn.high), usual[1] + room), *ends)
    if drawn.band is not None:
        low, high = (min(low, drawn.band[0]), high) if drawn.band[1] > high else (low, max(high, drawn.band[1]))
    if drawn.healthy is not None and drawn.healthy.steps:
        low, high = min(low, *drawn.healthy.low), max(high, *drawn.healthy.high)
    return _widened(low, high)


def _widened(low: float, high: float) -> tuple[float, float]:
    """A range that is one: a constant gets air."""
    return (low, high) if high > low else (low - max(abs(low) * 0.1, 1e-9), high + max(abs(high) * 0.1, 1e-9))


def _marked(start: float, end: float, text: str, x: Scale, rows: tuple[float, float]) -> str:
    left, right = (x(x.held(at)) for at in (start, end))
    shape = f'x="{left:.1f}" width="{max(right - left, 2.0):.1f}" y="{rows[0]}" height="{rows[1] - rows[0]}"'
    line = (
        f'<line x1="{left:.1f}" x2="{left:.1f}" y1="{rows[0]}" y2="{rows[1]}" stroke="{MARK}" stroke-opacity="0.6" stroke-dasharray="3 3"/>'
    )
    return f'<rect {shape} fill="{MARK}" fill-opacity="0.10"><title>{escape(text)}</title></rect>{line}'


def _axes(curve: "Curve", x: Scale, y: Scale) -> list[str]:
    parts = []
    for value in ticks(y.low, y.high):
        at = f"{y(value):.1f}"
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}" stroke="#888" stroke-opacity="0.25"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at}" dy="4" text-anchor="end" fill="#777">{number(value, 4)}</text>')
    for value in ticks(x.low, x.high):
        at = f"{x(value):.1f}"
        parts.append(f'<text x="{at}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#777">{short(value)}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle" fill="#777">{curve.step_unit}</text>')
    turned = f'x="14" y="{HEIGHT / 2}" transform="rotate(-90 14 {HEIGHT / 2})"'
    parts.append(f'<text {turned} text-anchor="middle" fill="#777">{escape(curve.label)}</text>')
    if curve.threshold is not None and _drawable(curve.threshold):
        at = f"{y(curve.threshold):.1f}"
        dashes = f'stroke="{THRESHOLD}" stroke-width="1.5" stroke-dasharray="6 4"'
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}" {dashes}/>')
        parts.append(f'<text x="{LEFT + 6}" y="{at}" dy="-5" fill="{THRESHOLD}">threshold {number(curve.threshold, 4)}</text>')
    return parts


def _points(steps: Sequence[float], values: Sequence[float | None]) -> list[tuple[float, float]]:
    return [(s, v) for s, v in zip(steps, values, strict=True) if v is not None and _drawable(v) and _drawable(s)]


def _drawable(value: float) -> bool:
    """Finite, and small enough for differences and scales to stay finite."""
    return abs(value) < LARGEST


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """No more points than a screen has columns: of each stretch the lowest and the highest, so that a spike stays one."""
    if len(points) <= MOST_POINTS:
        return points
    size = -(-len(points) // (MOST_POINTS // 2))
    kept = [points[0]]
    for start in range(0, len(points), size):
        stretch = points[start : start + size]
        kept += sorted({min(stretch, key=lambda point: point[1]), max(stretch, key=lambda point: point[1])})
    return [*kept, points[-1]]


def _path(steps: Sequence[float], values: Sequence[float | None], x: Scale, y: Scale, colour: str, width: float, title: str) -> str:
    points = _thinned(_points(steps, values))
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
    return f'<polygon points="{line}" fill="{LINE}" fill-opacity="0.18"><title>{name_band(len(curve.seeds))}</title></polygon>'


def png(curve: "Curve", path: Path, title: str, marked: "Interval | None" = None) -> None:
    """Write the curve to a PNG, the evidence interval shaded. Needs matplotlib, which is imported here and never through pyplot."""
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
    if marked is not None:
        axes.axvspan(marked.start, marked.end, color=MARK, alpha=0.10, linewidth=0, zorder=0, label="evidence")
    for seed in curve.seeds:
        axes.plot(seed.steps, _floats(seed.values), color=SEED, linewidth=0.8, zorder=1)
    _plot_center(axes, curve)
    if curve.threshold is not None:
        label = f"threshold {number(curve.threshold, 4)}"
        axes.axhline(curve.threshold, color=THRESHOLD, linestyle="--", linewidth=1.3, zorder=2, label=label)
    axes.set(xlim=step_range(curve), ylim=value_range(curve), xlabel=curve.step_unit, ylabel=curve.label, title=title)
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
        axes.fill_between(curve.steps, low, high, color=LINE, alpha=0.18, linewidth=0, zorder=2, label=name_band(len(curve.seeds)))
    mark = "o" if len(curve.steps) == 1 else None  # a line of one point would be invisible
    axes.plot(curve.steps, _floats(curve.center), color=LINE, linewidth=2, marker=mark, zorder=3, label=label)


def _floats(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


COLOURS = ("#2563eb", "#d97706", "#16a34a", "#9333ea", "#dc2626", "#0891b2", "#64748b", "#a16207")


_UNITS: dict[str, Callable[[float], str]] = {
    "env steps": short,
    "gradient steps": short,
    "gradient and env steps": short,
    "wall seconds": duration,
    "seeds an arm": lambda seeds: f"{seeds:.0f}",
}


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


def bands_svg(
    bands: Sequence[Band], order: Sequence[str], threshold: float | None, measure: str = "return", line: str = "threshold"
) -> str:
    """One <svg>; `order` are the sides' labels, which decide the colours; `line` names the dashes. Empty without a curve."""
    if not bands:
        return ""
    last, low, high = extent(bands, threshold)
    air = 0.06 * (high - low)
    x, y = Scale(0.0, last, LEFT, WIDTH - RIGHT), Scale(low - air, high + air, HEIGHT - BOTTOM, TOP)
    axis = bands[0].axis
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(measure)} against {escape(axis)}" font-family="system-ui, sans-serif" font-size="12">'
    ]
    parts += _bands_axes(x, y, axis, threshold, line)
    for band in bands:
        parts += _drawn(band, x, y, colour(order.index(band.label)))
    return "\n".join([*parts, "</svg>"])


def add_names(svg: str, names: Sequence[str]) -> str:
    """The picture with a line of names in their colours."""
    parts = "".join(f'<tspan dx="12" fill="{colour(place)}" font-weight="600">{escape(name)}</tspan>' for place, name in enumerate(names))
    return svg.replace("</svg>", f'<text x="70" y="14" font-size="12">{parts}</text></svg>')


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


def _bands_axes(x: Scale, y: Scale, axis: str, threshold: float | None, line: str = "threshold") -> list[str]:
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
        parts.append(f'<text x="{LEFT + 6}" y="{at}" dy="-5" fill="{THRESHOLD}">{escape(line)} {number(threshold, 4)}</text>')
    return parts


def _drawn(band: Band, x: Scale, y: Scale, ink: str) -> list[str]:
    name = escape(f"{band.label}: IQM of {band.runs} runs")
    points = list(zip(band.x, band.center, strict=True))
    parts = []
    if band.runs > 1 and len(points) > 1:
        edge = [*zip(band.x, band.high, strict=True), *reversed(list(zip(band.x, band.low, strict=True)))]
        shape = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in edge)
        parts.append(f'<polygon points="{shape}" fill="{ink}" fill-opacity="0.15"><title>{name}, {name_band(band.runs)}</title></polygon>')
    if len(points) == 1:
        (at, value), *_ = points
        return [*parts, f'<circle cx="{x(at):.1f}" cy="{y(value):.1f}" r="3" fill="{ink}"><title>{name}</title></circle>']
    line = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in points)
    stroke = f'stroke="{ink}" stroke-width="2.2" stroke-linejoin="round"'
    return [*parts, f'<polyline points="{line}" fill="none" {stroke}><title>{name}</title></polyline>']


# ── processes over time ──

BAR_LEFT, BAR_HEIGHT, BAR_TOP = 150, 20, 34
PHASE_COLOURS: Mapping[str, str] = {
    "env": "#2563eb",
    "act": "#0891b2",
    "learn": "#16a34a",
    "exchange": "#d97706",
    "sentinels": "#9333ea",
    "eval": "#dc2626",
    "write": "#a16207",
    "other": "#9ca3af",
}


def timeline_svg(bars: Sequence[TimelineBar], seconds: float, title: str) -> str:
    """One <svg>: a line for each process, from when it began to when it ended, coloured by the shares of its time; empty without bars."""
    if not bars:
        return ""
    height = BAR_TOP + BAR_HEIGHT * len(bars) + 30
    x = Scale(0.0, max(seconds, *(bar.began + bar.seconds for bar in bars), 1e-9), BAR_LEFT, WIDTH - 140)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title, quote=True)}" '
        'font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
    ]
    parts += _timeline_legend([name for name in PHASE_COLOURS if any(bar.phases.get(name) for bar in bars)])
    foot = BAR_TOP + BAR_HEIGHT * len(bars)
    for value in ticks(0.0, x.high):
        at = f"{x(value):.1f}"
        parts.append(f'<line x1="{at}" x2="{at}" y1="{BAR_TOP - 4}" y2="{foot}" stroke="#888" stroke-opacity="0.25"/>')
        parts.append(f'<text x="{at}" y="{foot + 18}" text-anchor="middle" fill="#777">{duration(value)}</text>')
    for place, bar in enumerate(bars):
        parts += _timeline_bar(bar, BAR_TOP + BAR_HEIGHT * place, x)
    return "\n".join([*parts, "</svg>"])


def _timeline_legend(names: Sequence[str]) -> list[str]:
    parts, left = [], BAR_LEFT
    for name in names:
        parts.append(f'<rect x="{left}" y="6" width="10" height="10" fill="{PHASE_COLOURS[name]}"/>')
        parts.append(f'<text x="{left + 14}" y="15" fill="#777">{name}</text>')
        left += 28 + 7 * len(name)
    return parts


def _timeline_bar(bar: TimelineBar, top: float, x: Scale) -> list[str]:
    label = bar.label if len(bar.label) <= 22 else f"{bar.label[:21]}…"
    parts = [f'<text x="{BAR_LEFT - 8}" y="{top + 13}" text-anchor="end" fill="#777">{escape(label)}</text>']
    at = bar.began
    for name, share in bar.phases.items():
        end = at + share * bar.seconds
        shape = f'x="{x(at):.1f}" y="{top + 2}" width="{max(x(end) - x(at), 0.0):.1f}" height="{BAR_HEIGHT - 6}"'
        told = escape(f"{bar.label}: {name} {100 * share:.0f} %, {duration(share * bar.seconds)}")
        parts.append(f'<rect {shape} fill="{PHASE_COLOURS[name]}"><title>{told}</title></rect>')
        at = end
    note = " ".join(part for part in (duration(bar.seconds), bar.text) if part)
    return [*parts, f'<text x="{x(bar.began + bar.seconds) + 5:.1f}" y="{top + 13}" fill="#777">{escape(note)}</text>']
