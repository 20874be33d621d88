"""The numbers and small pictures behind a diagnosis: how the key metrics went, and the series that are evidence."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from rlclinic import metrics, stats
from rlclinic.diagnosis import columns
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.causes import NO_REFERENCE
from rlclinic.diagnosis.findings import Cause, Diagnosis, Evidence, GroupFinding
from rlclinic.diagnosis.forecast import growth
from rlclinic.diagnosis.registry import CONFIG
from rlclinic.diagnosis.signals import detect
from rlclinic.report.charts import LARGEST
from rlclinic.report.format import short, step_unit
from rlclinic.report.models import Curve, Healthy, Interval, KeyMetric, Panel, SeedCurve

POINTS: Final = 64
MOST: Final = 6
TERMS: Final = "train/terms/"
BEYOND_TERMS: Final = "train/terms_beyond/advantage"

_KEY: Final = {
    "learning": (columns.EVAL_RETURN, columns.RETURN, columns.LENGTH, columns.SUCCESS, columns.POLICY_LOSS, columns.TOTAL_LOSS),
    "stability": (columns.KL, columns.CLIP_FRACTION, columns.ENTROPY, columns.sentinel("entropy_relative"), columns.ACTION_STD),
    "value": (columns.EXPLAINED_VARIANCE, columns.VALUE_LOSS),
    "gradients": (columns.GRAD_NORM, columns.GRAD_P95, columns.GRAD_CLIPPED),
}


def first_cause(diagnosis: Diagnosis) -> Cause | None:
    """The likeliest explanation; None where nothing needs one."""
    return next((cause for cause in diagnosis.causes if not cause.calm and cause.rules), None)


def needs_no_change(diagnosis: Diagnosis) -> bool:
    """Whether changes are not talked about: all is well or cannot be told. Without a threshold nobody knows, and they may be of use."""
    return diagnosis.causes[0].calm and diagnosis.causes[0].id != NO_REFERENCE


def standing(cases: Sequence[Case]) -> str:
    """How the runs stand: "2 stuck, 1 collapsed"."""
    counts = Counter(case.standing for case in cases)
    return ", ".join(f"{amount} {name}" if len(cases) > 1 else name for name, amount in counts.most_common())


def curve(diagnosis: Diagnosis, seeds: Sequence[SeedCurve]) -> Curve:
    """The diagnosis' own curve, for a picture. The band is drawn where several seeds make one."""
    drawn = diagnosis.curve
    return Curve(
        label=drawn.label,
        steps=list(drawn.steps),
        center=list(drawn.values),
        low=list(drawn.low),
        high=list(drawn.high),
        seeds=list(seeds),
        threshold=diagnosis.facts.threshold,
        step_unit=step_unit(diagnosis.facts.algo),
    )


# ── key metrics ──


def key_metrics(cases: Sequence[Case]) -> list[KeyMetric]:
    """Start, end, range and trend of the metrics that every report is asked for, where they were logged."""
    rows = [_key_metric(cases, name, topic) for topic, wanted in _KEY.items() for name in wanted]
    return [row for row in rows if row is not None]


def _key_metric(cases: Sequence[Case], name: str, topic: str) -> KeyMetric | None:
    drawn = [case.signal(name) for case in cases if case.has(name)]
    if not drawn:
        return None
    ends = [(signal.share(0.0, 0.1).median, signal.share(0.9).median) for signal in drawn]
    start, end = (detect.median([pair[place] for pair in ends]) for place in (0, 1))
    low, high = min(float(signal.values.min()) for signal in drawn), max(float(signal.values.max()) for signal in drawn)
    broken = sum(len(case.history.series[name].broken) for case in cases if name in case.history.series)
    return KeyMetric(name=name, topic=topic, start=start, end=end, low=low, high=high, trend=_shape(drawn), broken=broken)


def _shape(drawn: Sequence[detect.Signal]) -> str:
    """Which way the middle of the runs went, in words; blank where there are too few points to say."""
    long = [signal for signal in drawn if len(signal) >= detect.SHORTEST]
    if not long:
        return ""
    grid = np.linspace(max(float(signal.steps[0]) for signal in long), max(float(signal.steps[-1]) for signal in long), POINTS)
    middle = np.median([np.interp(grid, signal.steps, detect.smoothed(signal.values, max(3, len(signal) // 8))) for signal in long], axis=0)
    first, last, top, bottom = (float(value) for value in (middle[:4].mean(), middle[-4:].mean(), middle.max(), middle.min()))
    span = top - bottom
    if not span > 0.02 * max(abs(top), abs(bottom)):
        return "flat"
    if top - max(first, last) > 0.4 * span:
        return "rises, then falls"
    if min(first, last) - bottom > 0.4 * span:
        return "falls, then rises"
    return "rises" if last - first > 0.3 * span else "falls" if first - last > 0.3 * span else "no clear way"


# ── evidence ──


def marked(diagnosis: Diagnosis, cases: Sequence[Case]) -> Interval | None:
    """Where the evidence for the first cause lies: from its finding's onset (or the evidence's own start) to its end."""
    cause = first_cause(diagnosis)
    end = max((case.span[1] for case in cases), default=0.0)
    if cause is None or end <= 0:
        return None
    speaking = [finding for finding in diagnosis.findings if finding.rule in cause.rules and _series(finding)]
    speaking.sort(key=lambda finding: cause.rules.index(finding.rule))
    for finding in speaking:
        start, stop = _bounds(finding, _series(finding)[0], end)
        return Interval(start=start, end=stop, text=f"evidence for {cause.title} ({finding.rule}): {short(start)} to {short(stop)}")
    return None


def _bounds(finding: GroupFinding, part: Evidence, end: float) -> tuple[float, float]:
    start = finding.onset if finding.onset is not None else part.start if part.start is not None else 0.0
    stop = part.end if part.end is not None and part.end > start else end
    return start, stop


def _series(finding: GroupFinding) -> list[Evidence]:
    return [part for part in finding.evidence if not part.series.startswith(CONFIG)]


def panels(diagnosis: Diagnosis, cases: Sequence[Case]) -> list[Panel]:
    """One picture for each series that the likely causes rest on, those of the first cause first; at most six."""
    order = [rule for cause in diagnosis.causes for rule in cause.rules]
    spoken = sorted(
        (finding for finding in diagnosis.findings if finding.rule in order or finding.severity.rank > 0),
        key=lambda finding: order.index(finding.rule) if finding.rule in order else len(order),
    )
    end = max((case.span[1] for case in cases), default=0.0)
    made: dict[str, Panel] = {}
    grown = growth_panel(diagnosis, cases) if spoken else None
    for finding in spoken:
        for part in _series(finding):
            if part.series not in made and len(made) < MOST and part.series not in (columns.EVAL_RETURN, columns.RETURN):
                panel = _panel(part, _bounds(finding, part, end), cases)
                if panel is not None:
                    made[part.series] = panel
    return [*([grown] if grown is not None else []), *made.values()][:MOST]


def growth_panel(diagnosis: Diagnosis, cases: Sequence[Case]) -> Panel | None:
    """The training return among that of healthy runs; None where no chart of this environment and algorithm is known."""
    known = growth.shipped(diagnosis.facts.env or "", diagnosis.facts.algo or "")
    drawn = _panel(Evidence(series=columns.RETURN, text=""), (0.0, 0.0), cases) if known is not None else None
    if known is None or drawn is None:
        return None
    inside = [place for place, step in enumerate(known.steps) if step <= drawn.steps[-1]]
    low, high = ([known.levels[row][place] for place in inside] for row in (0, -1))
    healthy = Healthy(runs=known.runs, source=known.source, steps=[known.steps[place] for place in inside], low=low, high=high)
    text = f"the green band holds 90 % of {known.runs} healthy runs ({known.source})"
    at = min(drawn.steps[-1], known.steps[-1])
    place = known.percentile(at, float(np.interp(at, drawn.steps, drawn.center)))
    text += "" if place is None else f"; these are at percentile {place:.0f} of them at {short(at)}"
    return drawn.model_copy(update={"label": "training return", "text": text, "healthy": healthy, "start": None, "end": None})


def term_panels(cases: Sequence[Case]) -> list[Panel]:
    """What each term of the reward paid in an episode, and its part of the advantages, where runs log them; at most six of each.

    Where a term's part is drawn, what is learned beside the terms is, too: with it, all sum to 1.
    """
    drawn = [
        panel.model_copy(update={"label": f"{about} {panel.series.split('/')[2]}", "text": text})
        for column, about, text in _OF_A_TERM
        for name in list(_columns_of_terms(cases, column))[:MOST]
        if (panel := draw_series(name, cases)) is not None
    ]
    beyond = draw_series(BEYOND_TERMS, cases)
    if beyond is not None:
        drawn.append(beyond.model_copy(update={"label": "advantage beyond terms", "text": _OF_THE_REST}))
    return drawn


_OF_THE_REST: Final = "what is learned from beside the terms' own: the critic beyond their values, a bonus, a cost"
_OF_A_TERM: Final = (
    ("/return", "term", "what this term of the reward paid in an episode"),
    ("/advantage", "advantage of", "this term's part of the advantages that are learned from: below 0 it pulls against them"),
)


def _columns_of_terms(cases: Sequence[Case], column: str) -> dict[str, None]:
    return dict.fromkeys(name for case in cases for name in case.history.series if name.startswith(TERMS) and name.endswith(column))


def draw_series(name: str, cases: Sequence[Case]) -> Panel | None:
    """Any series of the runs, without a place that is marked; None where fewer than two points are known."""
    drawn = _panel(Evidence(series=name, text=""), (0.0, 0.0), cases)
    return None if drawn is None else drawn.model_copy(update={"start": None, "end": None})


def _panel(part: Evidence, bounds: tuple[float, float], cases: Sequence[Case]) -> Panel | None:
    drawn = [detect.thin(case.signal(part.series), POINTS) for case in cases if case.has(part.series)]
    drawn = [signal for signal in drawn if len(signal) >= 2]
    if not drawn:
        return None
    start, end = min(float(signal.steps[0]) for signal in drawn), max(float(signal.steps[-1]) for signal in drawn)
    grid = np.linspace(start, end, POINTS)
    values = np.stack([np.interp(grid, signal.steps, signal.values) for signal in drawn])
    if max(abs(start), abs(end), float(np.abs(values).max())) > LARGEST:
        return None
    columns = (grid, stats.iqm(values, axis=0), values.min(0), values.max(0))
    steps, center, low, high = ([float(f"{value:.5g}") for value in column] for column in columns)
    return Panel(
        series=part.series,
        label=label(part.series),
        text=part.text,
        steps=steps,
        center=center,
        low=low,
        high=high,
        band=usual_band(part.series),
        start=bounds[0],
        end=bounds[1],
    )


def usual_band(series: str) -> tuple[float, float] | None:
    """Where healthy runs usually are, if that says something: [0, 1] of a share is where it must be anyway."""
    known = metrics.find(series)
    band = known.band if known is not None else None
    if band is None or (band.low, band.high) == (0.0, 1.0) or not math.isfinite(band.high) or band.low == band.high:
        return None
    return band.low, band.high


def label(series: str) -> str:
    """A metric's name without what all of them share."""
    for prefix in ("train/metrics/", "train/sentinel/", "train/loss/", "train/roll/", "train/hp/", "train/", "val/roll/"):
        if series.startswith(prefix):
            told = series.removeprefix(prefix)
            kind = {"train/loss/": " loss", "val/roll/": " (evaluation)", "train/hp/": " (applied)"}.get(prefix, "")
            return told.replace("_", " ").replace("/", " ") + kind
    return series
