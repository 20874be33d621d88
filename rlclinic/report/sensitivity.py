"""The tornado picture of a sensitivity study: as an SVG, and as the HTML page around it."""

import html
import math
from typing import Final

from rlclinic.report.format import number, plural, short
from rlclinic.treatment.prescription.prescription import worded
from rlclinic.treatment.sensitivity.study import Row, Sensitivity

WIDTH: Final = 860
LEFT: Final = 190
RIGHT: Final = 210
ROW: Final = 20
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


def said(found: Sensitivity, row: Row) -> str:
    """An effect with its interval: "1.8x [1.2, 2.6]", "-31 [-60, -4]"."""
    if row.effect is None:
        return "–"
    unit = "x" if found.measure == "steps" else ""
    sign = "+" if found.measure == "return" and row.effect > 0 else ""
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
        f'<text x="{WIDTH - RIGHT + 10}" y="{top + 13}">{html.escape(said(found, row))}{_reached(row)}</text>',
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
    """What is shown to matter, in a sentence."""
    names = [setting.partition(".")[2] for setting in shown(found)]
    if names:
        return f"shown to matter: {', '.join(names)}"
    largest = [setting.partition(".")[2] for setting, _ in found.ranking[:3]]
    return f"nothing is shown to matter with these seeds (largest effects: {', '.join(largest)}; --seeds 8 sees more)"


def page(found: Sensitivity) -> str:
    """The study as one HTML file."""
    what = "env steps to the threshold, relative to the config as it is" if found.measure == "steps" else "change of the final return"
    skipped = "".join(f"<li>{html.escape(text)}</li>" for text in found.skipped)
    size = f"{plural(len(found.arms), 'arm')} x {plural(len(found.seeds), 'seed')}, {short(found.used_env_steps)} env steps"
    style = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}svg{max-width:100%}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(_title(found))}</title>"
        f"<style>{style}</style></head><body>"
        f"<h1>{html.escape(_title(found))}</h1><p>{html.escape(what)}, 95 % intervals. {html.escape(size)}; all arms share their seeds. "
        f"Bars: the effect; lines: its interval; grey: the interval includes no effect. {html.escape(summary(found))}.</p>"
        f"{svg(found)}" + (f"<h2>Left out</h2><ul>{skipped}</ul>" if skipped else "") + "</body></html>\n"
    )
