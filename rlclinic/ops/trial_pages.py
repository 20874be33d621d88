"""A trial's report: report.md and report.html beside trial.json, with the arms' curves, the effects as a forest, and the looks."""

import math
from html import escape
from pathlib import Path

import numpy as np

from rlclinic import stats
from rlclinic.comparison.models import Band
from rlclinic.ops import blocks, compare_chart, trial_words
from rlclinic.ops.blocks import Block, Code, Figure, Heading, Points, Table, Text
from rlclinic.ops.chart import Scale
from rlclinic.ops.wording import number, percent
from rlclinic.runs import trials
from rlclinic.runs.record import EVAL_RETURN, Run
from rlclinic.runs.store import Store
from rlclinic.runs.summary import TRAIN_RETURN
from rlclinic.treatment.trial_models import ArmResult, Effect, Range, Trial

MAX_POINTS = 120
GOOD, BAD, NEUTRAL = "#15803d", "#b91c1c", "#6b7280"
COLOURS = {"adopt": GOOD, "reject": BAD}
_WIDTH, _ROW, _LEFT, _RIGHT = 760, 34, 150, 190
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; } .quiet, figcaption { color: #777; font-size: .85rem; }
.verdict { color: #fff; padding: .1rem .6rem; border-radius: .4rem; font-weight: 600; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #8883; } td.short { white-space: nowrap; }
pre { background: #8881; padding: .8rem; border-radius: .5rem; overflow-x: auto; font-size: .85rem; }
svg { width: 100%; height: auto; } figure { margin: 1rem 0; } .wide { overflow-x: auto; }
"""


def write(store: Store, trial: Trial) -> list[Path]:
    """Replace the trial's report.md and report.html."""
    found = document(store, trial)
    title = f"Trial {trial.id} · {trial_words.headline(trial)}"
    return [
        trials.write_report(store, trial.id, "report.md", f"# {title}\n\n{blocks.markdown(found)}"),
        trials.write_report(store, trial.id, "report.html", _page(title, trial, blocks.html(found))),
    ]


def _page(title: str, trial: Trial, body: str) -> str:
    colour = COLOURS.get(trial.verdict or "", NEUTRAL)
    word = (trial.verdict or trial.state).upper()
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1><span class="verdict" style="background:{colour}">{escape(word)}</span> {escape(trial.question)}</h1>
{body}
</body>
</html>
"""


def document(store: Store, trial: Trial) -> list[Block]:
    """Everything that the report says."""
    found: list[Block] = [Text(trial.question), Text(f"**{trial_words.headline(trial)}** · {trial_words.used_text(trial)}")]
    found += [Text(note) for note in trial.notes]
    found += _curves(store, trial)
    found += _forest(trial)
    for effect in trial.effects:
        heads = ["", trial.control.name, effect.arm, "effect (95 %, valid after stopping early)"]
        found += [Heading(f"{effect.arm}: {effect.verdict}"), Table(heads, [list(row) for row in trial_words.rows(trial, effect)])]
        found += [Points(_remarks(trial, effect))]
    found += [Heading("Looks"), _looks(trial), Text(f"Rule: {trial_words.rule_text(trial.plan)}.", quiet=True)]
    found += [Heading("Arms"), Table(["arm", "change", "runs", "groups"], [_arm_section(arm) for arm in trial.arms])]
    found += [Heading("Not shown"), Points(trial_words.not_shown(trial))]
    found += [Heading("Again"), Code(f"rlclinic runs list --trial {trial.id}\n{trial_words.repeat(trial)}")]
    return found


def _remarks(trial: Trial, effect: Effect) -> list[str]:
    said = [
        f"guardrails: {trial_words.guardrail_text(effect)}",
        f"{trial_words.probability_text(effect.improvement)}; z {effect.z:.2f}, bound {effect.bound:.2f}, {effect.seeds} seeds an arm",
    ]
    forecast = trial_words.forecast_text(trial, effect)
    return [*said, f"forecast {forecast}"] if forecast else said


def _looks(trial: Trial) -> Table:
    rows = []
    for look in trial.looks:
        z = ", ".join(f"{name} {value:.2f}" for name, value in look.z.items())
        called = ", ".join(f"{name} {word}" for name, word in look.calls.items()) or "nothing yet"
        rows.append([str(look.number), str(look.seeds), z, f"{look.bound:.2f}", called, number(look.seconds)])
    return Table(["look", "seeds an arm", "z", "bound", "called", "seconds"], rows)


def _arm_section(arm: ArmResult) -> list[str]:
    change = arm.command or " ".join(f"`{change}`" for change in arm.changes) or "–"
    return [arm.name, change, str(arm.n), ", ".join(arm.groups)]


# ── pictures ──


def _curves(store: Store, trial: Trial) -> list[Block]:
    bands = [band for arm in trial.arms if (band := _band(store, arm)) is not None]
    if not bands:
        return []
    order = [arm.name for arm in trial.arms]
    text = "Return against env steps: interquartile mean over seeds and its 95 % interval. A run that ended keeps its last value."
    return [Figure(lambda: _coloured(compare_chart.bands_svg(bands, order, trial.threshold), order), text)]


def _coloured(svg: str, order: list[str]) -> str:
    """The picture with a line of names in their colours."""
    names = "".join(
        f'<tspan dx="12" fill="{compare_chart.colour(place)}" font-weight="600">{escape(name)}</tspan>' for place, name in enumerate(order)
    )
    return svg.replace("</svg>", f'<text x="70" y="14" font-size="12">{names}</text></svg>')


def _band(store: Store, arm: ArmResult) -> Band | None:
    curves = []
    for name in arm.runs:
        table = Run(store.root / name).metrics
        steps, values = table.series(EVAL_RETURN)
        steps, values = (steps, values) if len(steps) else table.series(TRAIN_RETURN)
        kept = np.isfinite(values)
        if kept.any():
            curves.append((steps[kept], values[kept]))
    if not curves:
        return None
    start = max(float(steps[0]) for steps, _ in curves)
    grid = np.unique(np.concatenate([steps for steps, _ in curves]))
    grid = grid[grid >= start]
    if len(grid) > MAX_POINTS:
        grid = grid[np.unique(np.linspace(0, len(grid) - 1, MAX_POINTS).round().astype(int))]
    table_of = np.stack([values[np.searchsorted(steps, grid, side="right") - 1] for steps, values in curves])
    center = stats.iqm(table_of, axis=0)
    low, high = stats.bootstrap_band(table_of) if len(curves) > 1 else (center, center)
    return Band(
        label=arm.name, axis="env steps", x=grid.tolist(), center=center.tolist(), low=low.tolist(), high=high.tolist(), runs=len(curves)
    )


class _Axis:
    """Where a value lies in a forest: ratios on a log axis, shares on a plain one; what is beyond the edge is drawn at it."""

    def __init__(self, ratios: bool) -> None:
        self.edges = (1 / 8, 8.0) if ratios else (0.0, 1.0)
        self.middle = 1.0 if ratios else 0.5
        self.ticks = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0) if ratios else (0.0, 0.25, 0.5, 0.75, 1.0)
        self._ratios = ratios
        self._scale = Scale(self._inside(self.edges[0]), self._inside(self.edges[1]), _LEFT, _WIDTH - _RIGHT)

    def __call__(self, value: float | None, otherwise: float) -> float:
        return self._scale(self._inside(otherwise if value is None else value))

    def _inside(self, value: float) -> float:
        kept = min(max(value, self.edges[0]), self.edges[1])
        return math.log2(kept) if self._ratios else kept


def _forest(trial: Trial) -> list[Block]:
    """Effects with their intervals under each other: ratios, or P(improvement) where there are none."""
    if not trial.effects:
        return []
    ratios = all(effect.ratio is not None for effect in trial.effects)
    axis, height = _Axis(ratios), _ROW * len(trial.effects) + 50
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="effects" font-size="12">']
    at = axis(axis.middle, axis.middle)
    parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="10" y2="{height - 30}" stroke="#888" stroke-dasharray="4 3"/>')
    for place, effect in enumerate(trial.effects):
        found = effect.ratio if ratios and effect.ratio is not None else effect.improvement
        parts += _forest_row(effect, found, axis, 28 + _ROW * place, trial_words.effect_text(trial, effect))
    parts += [f'<text x="{axis(tick, tick):.1f}" y="{height - 12}" text-anchor="middle" fill="#777">{tick:g}</text>' for tick in axis.ticks]
    what = "treatment over control, below 1 is better" if ratios else "P(improvement), above 0.5 is better"
    said = "; ".join(f"{effect.arm}: {trial_words.effect_text(trial, effect)}" for effect in trial.effects)
    level = percent(1 - trial.plan.alpha)
    drawn = "\n".join([*parts, "</svg>"])
    return [Figure(lambda: drawn, f"Effects with {level} intervals that hold after an early stop ({what}). {said}.")]


def _forest_row(effect: Effect, found: Range, axis: _Axis, y: int, said: str) -> list[str]:
    ink = COLOURS.get(effect.verdict, NEUTRAL)
    left, right = axis(found.low, axis.edges[0]), axis(found.high, axis.edges[1])
    parts = [
        f'<text x="{_LEFT - 12}" y="{y}" dy="4" text-anchor="end" fill="#777">{escape(effect.arm)}</text>',
        f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{y}" y2="{y}" stroke="{ink}" stroke-width="3"/>',
        f'<text x="{_WIDTH - _RIGHT + 12}" y="{y}" dy="4" fill="#777">{escape(said)}</text>',
    ]
    if found.value is not None:
        parts.append(f'<circle cx="{axis(found.value, axis.middle):.1f}" cy="{y}" r="5" fill="{ink}"/>')
    return parts
