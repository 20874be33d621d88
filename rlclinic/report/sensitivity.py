"""A sensitivity study as a document: the tornado picture, and what it shows."""

import html
import math
from collections.abc import Mapping
from functools import partial
from typing import Final

from rlclinic.report import charts
from rlclinic.report.document import Block, Figure, Gap, Points, Table, Text, render_page
from rlclinic.report.format import count, number, plural, short, step_unit
from rlclinic.treatment.prescription.prescription import worded
from rlclinic.treatment.sensitivity import effects
from rlclinic.treatment.sensitivity.study import Row, Sensitivity

WIDTH: Final = 860
LEFT: Final = 190
RIGHT: Final = 210
ROW: Final = 20
VERDICTS: Final = {"no difference seen": "not shown"}
"""How a verdict is said where it differs from the stored word: that nothing was shown does not mean that nothing is there."""
COLOURS: Final = {"better": "#2a7f4f", "worse": "#b5423a", "no difference seen": "#9aa0a6"}


def ordered(found: Sensitivity) -> list[Row]:
    """Rows by setting, those that matter most first, and within one from the smallest factor to the largest."""
    places = {setting: place for place, (setting, _) in enumerate(found.ranking)}
    return sorted(found.rows, key=lambda row: (places.get(row.arm.setting, len(places)), row.arm.setting, row.arm.factor))


def position(found: Sensitivity, value: float) -> float:
    """Where an effect lies between -1 (all the way better) and 1 (all the way worse)."""
    reach = extent(found)
    given = math.log(max(value, 1e-9)) if found.measure == "steps" else -value
    return min(max(given / reach, -1.0), 1.0)


def extent(found: Sensitivity) -> float:
    """The largest effect, which the picture's half is wide."""
    ends = [end for row in found.rows for end in (row.effect, row.low, row.high) if end is not None and math.isfinite(end)]
    sizes = [abs(math.log(max(end, 1e-9))) if found.measure == "steps" else abs(end) for end in ends]
    return max([*sizes, math.log(1.25) if found.measure == "steps" else 1e-9])


def describe_effect(found: Sensitivity, row: Row) -> str:
    """An effect with its interval: "1.8x [1.2, 2.6]", "-31 [-60, -4]"."""
    if row.effect is None:
        return "–"
    unit = "x" if found.measure == "steps" else ""
    sign = "+" if found.measure != "steps" and row.effect > 0 else ""
    interval = f" [{number(row.low, 2)}, {number(row.high, 2)}]" if row.low is not None and row.high is not None else ""
    return f"{sign}{number(row.effect, 2)}{unit}{interval}"


def label(row: Row) -> str:
    """ "learning_rate /4"."""
    return row.arm.name.partition(".")[2]


def svg(found: Sensitivity) -> str:
    """One bar a value: to the left what is better, to the right what is worse; the line across is its interval."""
    rows = ordered(found)
    middle, half = LEFT + (WIDTH - LEFT - RIGHT) / 2, (WIDTH - LEFT - RIGHT) / 2
    height = 60 + ROW * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img"',
        ' font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{html.escape(_title(found))}</title>",
        f'<text x="{middle - 8}" y="16" text-anchor="end" fill="{COLOURS["better"]}">better</text>',
        f'<text x="{middle + 8}" y="16" fill="{COLOURS["worse"]}">worse</text>',
        f'<line x1="{middle}" y1="22" x2="{middle}" y2="{height - 26}" stroke="#444"/>',
        *_axis(found, middle, half, height - 8),
    ]
    for place, row in enumerate(rows):
        parts += _bar(found, row, 28 + ROW * place, middle, half)
    return "\n".join([*parts, "</svg>"])


def _axis(found: Sensitivity, middle: float, half: float, foot: float) -> list[str]:
    """How much the ends and the middle of the picture are."""
    reach = extent(found)
    steps = found.measure == "steps"
    texts = [f"{number(math.exp(end), 2)}x" if steps else f"{-end:+.3g}" if end else "0" for end in (-reach, 0.0, reach)]
    places = (middle - half, middle, middle + half)
    style = 'text-anchor="middle" fill="#666"'
    return [f'<text x="{place}" y="{foot}" {style}>{text}</text>' for place, text in zip(places, texts, strict=True)]


def shown(found: Sensitivity) -> list[str]:
    """Settings of which at least one value is shown to make a difference, those that matter most first."""
    certain = {row.arm.setting for row in found.rows if row.verdict != "no difference seen"}
    return [setting for setting, _ in found.ranking if setting in certain]


def _bar(found: Sensitivity, row: Row, top: float, middle: float, half: float) -> list[str]:
    text = f'<text x="{LEFT - 8}" y="{top + 13}" text-anchor="end">{html.escape(label(row))}</text>'
    if row.effect is None:
        return [text]
    end = middle + half * position(found, row.effect)
    parts = [
        text,
        f'<rect x="{min(middle, end):.1f}" y="{top + 3}" width="{max(abs(end - middle), 1):.1f}" height="{ROW - 8}"',
        f' fill="{COLOURS[row.verdict]}"><title>{html.escape(worded(row.arm.value))}</title></rect>',
        f'<text x="{WIDTH - RIGHT + 10}" y="{top + 13}">{html.escape(describe_effect(found, row))}{_reached(row)}</text>',
    ]
    if row.low is not None and row.high is not None:
        low, high = (middle + half * position(found, edge) for edge in (row.low, row.high))
        parts.append(f'<line x1="{low:.1f}" y1="{top + 9}" x2="{high:.1f}" y2="{top + 9}" stroke="#222"/>')
    return parts


def _reached(row: Row) -> str:
    return "" if row.reached is None else f"  {row.reached}/{row.n}"


def _title(found: Sensitivity) -> str:
    return f"{found.env_id}: how much each number of {found.target} matters"


def summary(found: Sensitivity) -> str:
    """What is shown to matter, in a sentence; where nothing is, how many seeds could show it."""
    names = [setting.partition(".")[2] for setting in shown(found)]
    if names:
        return f"shown to matter: {', '.join(names)}"
    largest = ", ".join(setting.partition(".")[2] for setting, _ in found.ranking[:3])
    seeds = len(found.seeds)
    if found.fewest_seeds is not None and seeds < found.fewest_seeds:
        return (
            f"not shown: {plural(seeds, 'seed')} cannot show that any of {plural(len(found.arms), 'value')} matters, however much it does "
            f"(largest effects: {largest}; it takes at least {found.fewest_seeds} seeds. {_power(effects.POWER, 8)})"
        )
    more = next((count for count in effects.POWER if count > seeds), None)
    hint = f"; {_power(effects.POWER, more)}" if more is not None else ""
    return f"nothing is shown to matter with these seeds (largest effects: {largest}{hint})"


def _power(table: Mapping[int, tuple[float, float]], seeds: int) -> str:
    """ "8 seeds show a factor of 4 in 92 % of studies, of 2 in 25 %"."""
    four, two = table[seeds]
    return f"{seeds} seeds show a factor of 4 in {four:.0%} of studies of usual spread, of 2 in {two:.0%}".replace("%", " %")


# ── documents ──


def figure(found: Sensitivity) -> Figure:
    """The tornado: what matters most on top, better to the left, worse to the right."""
    bars = []
    for row in ordered(found):
        reached = "" if row.reached is None else f"  {row.reached}/{row.n} reach it"
        place = 0.0 if row.effect is None else position(found, row.effect)
        bars.append(
            charts.Bar(row.arm.setting, label(row), place, row.verdict != "no difference seen", describe_effect(found, row) + reached)
        )
    text = "Bars: the effect; lines: its interval; grey: not shown to differ."
    return Figure(partial(svg, found), text, None, charts.TornadoDrawing(bars))


def answer(found: Sensitivity) -> list[Block]:
    """How the config does as it is, the tornado, and what is shown to matter."""
    base, steps, unit = found.base, found.base.get("steps"), step_unit(found.algo, found.config)
    reach = f"{base['reached']:.0f} of {base['n']:.0f} seeds reach the threshold" if found.measure == "steps" else ""
    mean = f", in {count(steps)} {unit} on average" if steps is not None and found.measure == "steps" else ""
    legend = "█ shown to differ, ░ not shown"
    return [
        Text(f"{found.id}  {found.env_id} · {found.algo} · {found.target}: {reach}{mean}".rstrip(": ")),
        Gap(),
        figure(found),
        Gap(),
        Text(summary(found)),
        Text(f"{legend} · {_level(found)} · {short(found.used_env_steps)} {unit}"),
        *_lost(found),
    ]


def effects_table(found: Sensitivity) -> list[Block]:
    """The tornado in numbers, for whoever sees no picture."""
    rows = [
        [row.arm.name, worded(row.arm.value), describe_effect(found, row), _reached(row).strip(), VERDICTS.get(row.verdict, row.verdict)]
        for row in ordered(found)
    ]
    table = Table(["setting", "value", ">effect", ">reached", "shown"], rows)
    return [Text(f"effect: {_measure(found)}; {_level(found)}"), table, Text(summary(found)), *_lost(found), *_left_out(found)]


def _level(found: Sensitivity) -> str:
    """What the intervals are, and for how many values at once."""
    if not found.simultaneous:
        return "95 % intervals, each for itself"
    if all(row.low is None for row in found.rows):
        return "no intervals from so few seeds"
    asked = f" (the same study was begun {plural(found.asked_before, 'time')} before, and is charged)" if found.asked_before else ""
    return f"{100 * (1 - found.alpha):.3g} % intervals, which hold for all {plural(len(found.rows), 'value')} together{asked}"


def _lost(found: Sensitivity) -> list[Block]:
    lost = sum(row.lost for row in found.rows)
    return [Text(f"{plural(lost, 'run')} killed by the machine each time, and left out")] if lost else []


def _measure(found: Sensitivity) -> str:
    said = {
        "steps": f"{step_unit(found.algo, found.config)} to the threshold, relative to the config as it is",
        "success": "change of the share of episodes that succeed",
        "truth": f"change of {found.truth} at the end",
    }
    return said.get(found.measure, "change of the final return")


def _left_out(found: Sensitivity) -> list[Block]:
    return [Points(list(found.skipped), "Left out")] if found.skipped else []


def page(found: Sensitivity) -> str:
    """The study as one HTML file."""
    used = f"{short(found.used_env_steps)} {step_unit(found.algo, found.config)}"
    size = f"{plural(len(found.arms), 'arm')} x {plural(len(found.seeds), 'seed')}, {used}"
    lead = Text(f"{_measure(found)}; {_level(found)}. {size}; all arms share their seeds. {summary(found)}.")
    return render_page(_title(found), [lead, figure(found), *_left_out(found)])
