"""A diagnosis as the sections of a report: summary, key metrics, bottlenecks, recommendations, next steps, and a suspected bug."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from rlclinic.diagnosis.findings import Cause, Diagnosis
from rlclinic.diagnosis.logging_snippets import most_useful
from rlclinic.report import charts
from rlclinic.report.document import Block, Card, Code, Figure, Figures, Heading, Points, Table, Text
from rlclinic.report.evidence import CALM, usual_band
from rlclinic.report.format import number, percent, plural, short
from rlclinic.report.models import Comparable, DiagnosisReport, KeyMetric, Recommendation, Suspect

SEVERITY: Final = {"high": "#b91c1c", "medium": "#b45309", "low": "#6b7280"}
PRIORITY: Final = {"critical": "#b91c1c", "high": "#b45309", "medium": "#2563eb", "low": "#6b7280"}
GOOD: Final = "#15803d"
LEAST: Final = 0.02
"""Causes below this probability are not told."""
_LOOP: Final = (
    "from rlclinic.sentinels.torch_loop import Sentinels",
    "sentinels = Sentinels(agent, optimizer, max_grad_norm=args.max_grad_norm)  # once",
    "sentinels.rollout(obs=obs, actions=actions, logprobs=logprobs, advantages=advantages, returns=returns, values=values,",
    "                  rewards=rewards, starts=dones)  # when advantages and returns are there",
    "sentinels.minibatch(ratio=ratio, advantages=mb_advantages)  # in the minibatch loop, when the ratio is there",
    "sentinels.row(writer, global_step)  # after the update",
)
_CALLBACKS: Final = {
    "sb3": ("from rlclinic.sentinels.sb3 import SentinelCallback", "model.learn(total_timesteps, callback=SentinelCallback())"),
    "cleanrl": _LOOP,
}
_TOPICS: Final = {"learning": "Learning", "stability": "Stability", "value": "Value function", "gradients": "Gradients"}


# ── the first thing to read ──


def bottleneck(found: DiagnosisReport) -> Card:
    """The primary bottleneck and the first change, in a few lines."""
    cause = found.diagnosis.causes[0]
    if cause.id in CALM:
        return Card("", found.diagnosis.answer, [("checks", checks(found.diagnosis))], GOOD if cause.id == "healthy" else SEVERITY["low"])
    first = found.recommendations[0] if found.recommendations else None
    lines = [("what moved first", cause.moved_first), ("because", cause.because)]
    lines += [("first thing to try", first.change)] if first else []
    return Card(_odds(cause), f"Primary bottleneck: {cause.title}", _said(lines), SEVERITY[cause.severity.value])


def _odds(cause: Cause) -> str:
    return f"p {cause.probability:.2f}" + (f" · {cause.severity.value.upper()}" if cause.rules else "")


def _said(lines: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, text) for name, text in lines if text]


# ── 1 ──


def assessment(found: DiagnosisReport) -> list[Block]:
    """Success or failure, the gap, and the shape of the curves."""
    facts = found.diagnosis.facts
    said = []
    if facts.threshold is not None and facts.reached is not None:
        said.append(f"{facts.reached} of {plural(facts.runs, 'run')} reached {number(facts.threshold, 4)}")
        if facts.last is not None and facts.last < facts.threshold:
            gap = facts.threshold - facts.last
            said.append(f"the gap is {number(gap)}" + (f" ({percent(gap / abs(facts.threshold))})" if facts.threshold else ""))
    if found.standing:
        said.append(f"how the runs stand: {found.standing}")
    blocks: list[Block] = [Heading("Performance assessment", 3), Text("; ".join(said) + "." if said else "No return was logged.")]
    return [*blocks, *([Points(list(facts.notes))] if facts.notes else [])]


# ── 2 ──


def key_metrics(found: DiagnosisReport) -> list[Block]:
    """Pictures of the series that are evidence, a table of the metrics that every report is asked for, and all findings."""
    blocks: list[Block] = []
    if found.panels:
        parts = [Figure(partial(charts.panel, panel), f"**{panel.label}**: {panel.text}") for panel in found.panels]
        blocks += [Figures(parts), Text(_legend(found), quiet=True)]
    rows = [_metric_row(row) for row in found.metrics]
    if rows:
        heads = ("metric", "about", "start", "end", "range", "trend", "usual")
        blocks.append(Table(heads, rows))
    return [*blocks, *_findings(found.diagnosis)]


def _legend(found: DiagnosisReport) -> str:
    band = "; green: where healthy runs usually are" if any(panel.band or panel.healthy for panel in found.panels) else ""
    return f"Line: middle of the runs; blue: their range; shaded: where the evidence lies{band}. Env steps from left to right."


def _metric_row(row: KeyMetric) -> list[str]:
    band = usual_band(row.name)
    usual = f"{number(band[0], 2)} to {number(band[1], 2)}" if band else ""
    broken = f", {plural(row.broken, 'value')} not finite" if row.broken else ""
    span = f"{number(row.low)} to {number(row.high)}"
    return [f"`{row.name}`", _TOPICS[row.topic], number(row.start), number(row.end), span, row.trend + broken, usual]


def _findings(found: Diagnosis) -> list[Block]:
    if not found.findings:
        return []
    rows = [
        [f"`{each.rule}` {each.name}", each.severity.value, f"{len(each.runs)} of {each.judged}", short(each.onset), each.text]
        for each in found.findings
    ]
    return [Heading("Diagnostic findings", 3), Table(("finding", "severity", "runs", "from", "evidence"), rows)]


# ── 3 ──


def bottlenecks(found: DiagnosisReport) -> list[Block]:
    """Causes, the likeliest first, with the order of events; what was ruled out, what could not be judged, what others show."""
    said = found.diagnosis
    blocks: list[Block] = []
    for place, cause in enumerate(worth_telling(said)):
        blocks.append(_cause_card(place, cause))
    blocks = [Heading("Root cause hypothesis", 3), *blocks] if blocks else [Text(f"None: {said.answer}.")]
    if said.ruled_out:
        blocks += [Heading("Ruled out", 3), Points([f"{each.title}: {each.because}" for each in said.ruled_out])]
    blocks += _unassessable(said)
    blocks.append(Text(checks(said), quiet=True))
    return [*blocks, *_comparable(found.comparable)]


def worth_telling(found: Diagnosis) -> list[Cause]:
    """Causes that need a cure: not those that hardly anything speaks for, and "unknown" only where it is likely."""
    told = [cause for cause in found.causes if cause.id not in CALM and cause.probability >= LEAST]
    return [cause for cause in told if cause.id != "unknown" or cause is found.causes[0] or cause.probability >= 0.1]


def _cause_card(place: int, cause: Cause) -> Card:
    rank = "Primary" if place == 0 else "Consequence" if cause.consequence_of else "Secondary"
    rules = ", ".join(f"`{rule}`" for rule in cause.rules[:4])
    lines = [
        ("moved first", cause.moved_first if not cause.consequence_of else ""),
        ("with it", " · ".join(text for text in ((cause.moved_first if cause.consequence_of else ""), cause.with_it) if text)),
        ("because", cause.because),
        ("a consequence of", f"{cause.consequence_of}: it did not begin earlier" if cause.consequence_of else ""),
        ("agree", f"{cause.agree} of {plural(cause.of, 'run')}" if cause.rules else ""),
        ("rules", rules),
    ]
    title = "unknown: no check explains it" if cause.id == "unknown" else cause.title
    return Card(_odds(cause), f"{rank}: {title}", _said(lines), SEVERITY[cause.severity.value])


def _unassessable(found: Diagnosis) -> list[Block]:
    if not found.unassessable:
        return []
    names = ", ".join(f"`{each.rule}` {each.name}" for each in found.unassessable)
    blocks: list[Block] = [Heading("Not assessable", 3), Text(f"The log lacks what these checks need: {names}.")]
    return [*blocks, Text("To judge them, put this into your script:"), Code("\n".join(pasted(found)), "python")]


def pasted(found: Diagnosis) -> list[str]:
    """Lines for the user's script that make the checks possible: a callback where there is one, else what to log."""
    known = _CALLBACKS.get(found.facts.source)
    return list(known) if known else most_useful(each.paste for each in found.unassessable)


def checks(found: Diagnosis) -> str:
    """How many checks there were, and how they came out."""
    counts = found.checks
    parts = [f"{counts.total} checks: {counts.failed} found something", f"{counts.passed} passed"]
    parts.append(f"{counts.not_applicable} do not apply")
    return ", ".join([*parts, f"{counts.not_assessable} not assessable"])


def _comparable(other: Comparable | None) -> list[Block]:
    if other is None:
        return []
    text = f"The best group of this environment and algorithm here is `{other.group}`: {other.said}. That it did better does not say why."
    rows = [[f"`{each.setting}`", plain(each.here), plain(each.there)] for each in other.differences]
    table: list[Block] = [Table(("setting", "here", other.group), rows)] if rows else []
    return [Heading("Compared with the best group in the store", 3), Text(text), *table]


# ── 4, 5, 6 ──


def recommendations(found: DiagnosisReport) -> list[Block]:
    """Each change with its reason, what it should bring, what it may cost and how urgent it is."""
    if not found.recommendations:
        return [Text("None: nothing that needs a change was found." if found.diagnosis.causes[0].id == "healthy" else "None.")]
    return [_recommendation(each) for each in found.recommendations]


def _recommendation(each: Recommendation) -> Card:
    typed = " ".join(f"--set '{override}'" for override in each.overrides)
    lines = [
        ("change", f"`{typed}`" if typed else "no setting: see the text"),
        ("in your framework", f"`{each.foreign}`" if each.foreign else ""),
        ("rationale", each.rationale),
        ("expected impact", each.expected),
        ("risk", each.risk or "none known"),
        ("priority", each.priority),
    ]
    return Card(each.priority, f"{each.number}. {each.change}", _said(lines), PRIORITY.get(each.priority, PRIORITY["low"]))


def next_steps(found: DiagnosisReport, commands: Sequence[str]) -> list[Block]:
    """What to type, what to watch, and whether what was to be watched has held."""
    blocks: list[Block] = [Code("\n".join(commands), "sh")] if commands else []
    tried = [each for each in found.recommendations if each.overrides and each.prescribed]
    if found.group and len(tried) > 1 and any(command.startswith("rlclinic trial") for command in commands):
        numbers = ",".join(str(each.number) for each in tried)
        others = "; ".join(each.change for each in tried[1:])
        blocks.append(
            Text(f"**Variations to try**: {others}. All of them against one control: `rlclinic trial {found.group} --rx {numbers}`.")
        )
    if found.diagnosis.watch:
        watch = " · ".join(each.text for each in found.diagnosis.watch)
        unasked = " The next diagnosis of a run made from this one checks it unasked." if found.diagnosis.facts.source == "rlclinic" else ""
        blocks.append(Text(f"**Watch next time**: {watch}.{unasked}"))
    return [*blocks, *watched(found)]


def watched(found: DiagnosisReport) -> list[Block]:
    """Whether what the run's predecessor said to watch has held."""
    if found.watched is None:
        return []
    head = Text(f"**Watched since {found.watched.source}** ({found.watched.cause}):")
    return [head, Points([check.said for check in found.watched.checks])]


def suspects(found: Sequence[Suspect]) -> list[Block]:
    """Where to look for a bug, how to see it again, and what is right."""
    blocks: list[Block] = []
    for suspect in found:
        lines = [(place.code, " · ".join(_where(place.file, place.function, place.look))) for place in suspect.places]
        lines += [("reproduce", f"`{suspect.reproduce}`"), ("proposed fix", suspect.fix)]
        blocks.append(Card(f"p {suspect.probability:.2f}", suspect.title, lines, SEVERITY["high"]))
    return blocks


def _where(file: str, function: str, look: str) -> list[str]:
    place = f"`{file}`" if "." in file else file
    return [place, *([f"`{function}`"] if function else []), look]


def plain(value: Any) -> str:
    """A setting's value in a sentence."""
    if value is None:
        return "none"
    if isinstance(value, dict) and isinstance(value.get("start"), int | float):
        return f"{value['start']:g}, {value.get('schedule', 'linear')} to {value.get('end', 0):g}"
    return f"{value:g}" if isinstance(value, float) else str(value)
