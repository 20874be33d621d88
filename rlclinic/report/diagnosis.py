"""A diagnosis as a document: the answer that a terminal and a tool give, and the sections of a report."""

from collections.abc import Sequence
from functools import partial
from typing import Final, Literal

from rlclinic.actions import Action, Change
from rlclinic.diagnosis.causes import HEALTHY, NO_REFERENCE, UNKNOWN, kind_of
from rlclinic.diagnosis.findings import Cause, Diagnosis, Facts, Witness
from rlclinic.diagnosis.logging_snippets import recipe
from rlclinic.report import charts, evidence, films
from rlclinic.report.document import (
    VERDICT_TONES,
    Block,
    Card,
    Code,
    Commands,
    Figure,
    Figures,
    Gap,
    Heading,
    Points,
    Rows,
    Table,
    Text,
    Tone,
    Verdict,
)
from rlclinic.report.evidence import usual_band
from rlclinic.report.format import (
    ago,
    clip,
    count,
    describe_goal,
    describe_outcome,
    describe_success,
    duration,
    listed,
    number,
    percent,
    plural,
    short,
    step_unit,
)
from rlclinic.report.models import Comparable, DiagnosisReport, KeyMetric, Recommendation, SeedCurve, Suspect, TopFinding
from rlclinic.treatment.prescription.prescription import worded

Detail = Literal["brief", "short", "whole"]
"""How much is said: `brief` to a language model, `short` on a terminal, `whole` in a report."""
SEVERITY_TONES: Final[dict[str, Tone]] = {"high": "bad", "medium": "warn", "low": "quiet"}
PRIORITY_TONES: Final[dict[str, Tone]] = {"critical": "bad", "high": "warn", "medium": "note", "low": "quiet"}
LEAST: Final = 0.02
"""Causes below this probability are not named."""
LIKELY: Final = 0.15
"""Causes below this probability are named without their story, except in a report."""
_TOPICS: Final = {"learning": "Learning", "stability": "Stability", "value": "Value function", "gradients": "Gradients"}
_PURPOSES: Final = {"status": "look", "trial": "prove it", "train": "use it", "rules": "why", "optimize": "search", "lint": "look"} | {
    "evaluate": "watch",
    "diagnose": "judge it",
}
"""By command: what it is for."""


# ── the answer ──


def answer(report: DiagnosisReport, detail: Detail = "short") -> list[Block]:
    """Header, verdict, curve, causes, what was ruled out, what could not be judged, what to change, what to watch."""
    diagnosis = report.diagnosis
    first = diagnosis.causes[0]
    blocks: list[Block] = [Text(describe_runs(diagnosis.facts, report.ended_seconds_ago)), verdict(diagnosis)]
    if report.changed_code is not None:
        blocks.append(Rows([("changed", report.changed_code)]))
    if detail != "brief":
        blocks.append(Rows([("note", note) for note in diagnosis.facts.notes]))
        blocks += [_curve(report)] if diagnosis.causes[0].id != HEALTHY else []
    blocks.append(Gap())
    blocks += [*describe_doubt(diagnosis, detail), *describe_witness(diagnosis)]
    if first.id == HEALTHY:
        blocks.append(
            Verdict("HEALTHY", "nothing that needs a change was found")
            if len(diagnosis.causes) == 1
            else Verdict("DOES WELL", "and yet this is wrong:")
        )
    elif first.calm:
        blocks.append(Text(first.title))
    if first.id == NO_REFERENCE and diagnosis.findings:
        # Without a threshold nothing is called a cause; what the user set oddly is worth a look all the same.
        blocks.append(Points([f"{finding.text} ({finding.rule})" for finding in diagnosis.findings], "Noticed", 3))
    blocks += describe_causes(diagnosis, detail)
    blocks += films.rows(report.films) if report.films is not None and detail != "brief" else []
    blocks += _ruled_out(diagnosis, detail)
    blocks += _unassessable(diagnosis, detail)
    if report.switched is not None:
        rules = report.switched
        names = [f"only {', '.join(rules.select)}" * bool(rules.select), f"not {', '.join(rules.ignore)}" * bool(rules.ignore), rules.note]
        blocks.append(Points([f"{' · '.join(name for name in names if name)}  ({rules.file})"], "Rules"))
    for card in suspects(report.suspects, detail):
        blocks += [Gap(), card]
    if report.recommendations and not evidence.needs_no_change(diagnosis):
        blocks += [Gap(), *recommendations(report, detail)]
    return [*blocks, *_watches(report), *(_best_group(report.comparable) if report.comparable and detail != "brief" else [])]


def ending(report: DiagnosisReport, seconds: float) -> list[Block]:
    """What to type next, and where all of it is."""
    commands = [(purpose_of(action), action) for action in report.next]
    took = ("all of it", f"{report.files[0]}      {duration(seconds)}") if report.files else ("took", duration(seconds))
    took = took if report.not_written is None else ("not kept", report.not_written)
    return [Gap(), Commands(commands), Commands([took])] if commands else [Commands([took])]


def purpose_of(action: Action) -> str:
    """What a next step is for, in a word or two."""
    if "film" in action.options:
        return "watch"
    return "go on" if "resume" in action.options else _PURPOSES.get(action.command, "next")


def top_finding(finding: TopFinding | None) -> list[Block]:
    """The answer in three lines, for the end of `train`; nothing for healthy runs, which are not talked about."""
    if finding is None or kind_of(finding.cause) == "nothing wrong":
        return []
    agree = f", {finding.agree} of {plural(finding.of, 'seed')}" if finding.of > 1 else ""
    odds = f"p {finding.probability:.2f} {finding.severity.upper()}  " if finding.rule else ""
    rows = [("cause", f"{odds}{finding.title}" + (f"  {finding.rule}{agree}" if finding.rule else ""))]
    rows += [("try", finding.change)] if finding.change else []
    return [Rows(rows), Commands([("next", finding.command)])]


_STATES = {"unknown": "ended or not: its log does not say"}
"""States that are no words for a reader."""


def describe_runs(facts: Facts, ended_seconds_ago: float | None = None) -> str:
    """g7k2 · PPO · CartPole-v1 · 8 seeds · 100,096/100,096 env steps · finished 2 min ago."""
    steps = f"{count(facts.env_steps)}/{count(facts.max_env_steps)}" if facts.max_env_steps else count(facts.env_steps)
    ours = facts.source == "rlclinic"
    ended = "" if ended_seconds_ago is None else f" {ago(ended_seconds_ago)}"
    what = [facts.id, (facts.algo or "unknown algorithm").upper(), facts.env or "unknown environment"]
    parts = [
        *what,
        plural(facts.runs, "seed" if ours else "run"),
        f"{steps} {step_unit(facts.algo)}",
        _STATES.get(facts.state, facts.state) + ended,
    ]
    return " · ".join([*parts, *([] if ours else [f"read as {facts.source}"])])


def verdict(diagnosis: Diagnosis) -> Verdict:
    """NOT SOLVED  1 of 8 seeds reached 475 · return 212 [164, 268] (IQM, 95 %) · gap 263 (55 %) · best 488 at 31k."""
    facts = diagnosis.facts
    goal, success = describe_goal(facts.threshold, facts.required_success), describe_success(facts.success)
    last, best = (facts.last, facts.low, facts.high), (facts.best, facts.best_at)
    text = describe_outcome(facts.runs, facts.reached, facts.lost, goal, facts.threshold, success, last, best)
    return Verdict(diagnosis.verdict, text, VERDICT_TONES.get(diagnosis.verdict, "plain"))


def _curve(report: DiagnosisReport) -> Figure:
    seeds = [SeedCurve(seed=place, steps=[], values=[]) for place in range(report.diagnosis.facts.runs)]
    curve = evidence.curve(report.diagnosis, seeds)
    return Figure(
        partial(charts.svg, curve, report.marked), f"Return against {curve.step_unit}.", None, charts.CurveDrawing(curve, 5, report.marked)
    )


# ── causes ──


def worth_telling(diagnosis: Diagnosis) -> list[Cause]:
    """Causes that need a cure: not those that hardly anything speaks for, and "unknown" only where it is likely."""
    causes = [cause for cause in diagnosis.causes if not cause.calm and cause.probability >= LEAST]
    return [cause for cause in causes if cause.id != UNKNOWN or cause is diagnosis.causes[0] or cause.probability >= 0.1]


def describe_doubt(diagnosis: Diagnosis, detail: Detail) -> list[Block]:
    """Where the log cannot tell what is wrong: what it lacks, and what to add."""
    doubt = diagnosis.cannot_tell
    if doubt is None:
        return []
    blocks: list[Block] = [Verdict("CANNOT TELL", doubt.text.removeprefix("cannot tell "), "warn")]
    # On a terminal the same lines stand below, with the checks that they make possible.
    blocks += [Code("\n".join(doubt.paste), "python", "add this to your script", 6)] if detail == "whole" and doubt.paste else []
    blocks += [Commands([("look", doubt.find)])] if doubt.find is not None and detail != "brief" else []
    return blocks


def _describe_unseen(witness: Witness) -> str:
    """What it means that nothing was seen."""
    for phase in EXAMINED:
        if phase in witness.skipped:
            return f"it could not be examined: {witness.skipped[phase]}"
    broken = next((phase for phase, why in witness.skipped.items() if why in ("it did not come back", "the process died")), None)
    if broken in BEFORE_ALL_WAS_SEEN:
        return f"only a part of it could be examined: {witness.skipped[broken]} while {broken} was looked at"
    late = sum(why in ("no time left", "too slow") for why in witness.skipped.values())
    if late >= FEW:
        return f"too slow to be examined: {late} looks at it did not fit into the time"
    return "nothing was seen in it that explains the runs"


FEW: Final = 2
"""Looks that may be missing where nothing was seen."""
BEFORE_ALL_WAS_SEEN: Final = ("seeding", "resets", "effects", "constant actions", "inside")
EXAMINED: Final = ("making", "contract", "random actions")
"""Phases without which next to nothing is known of an environment."""


def describe_witness(diagnosis: Diagnosis) -> list[Block]:
    """What was seen in the environment itself, where it was examined."""
    witness = diagnosis.witness
    if witness is None:
        return []
    rows = [("environment", text) for text in witness.seen or (_describe_unseen(witness),)]
    rows += [("evaluation", text) for text in witness.differences]
    rows += [("evaluation", "no difference was seen")] if witness.evaluation is not None and not witness.differences else []
    rows += [("contradicts", text) for text in witness.contradictions]
    rows += [("not seen", f"{phase}: {why}") for phase, why in witness.skipped.items()]
    return [Rows([(f"{label} {witness.env}" if place == 0 else label, text) for place, (label, text) in enumerate(rows)], 13)]


def _describe_possible(cause: Cause, detail: Detail) -> list[tuple[str, str]]:
    """What may lie behind a symptom, what tells, and the command that finds out."""
    if detail == "brief":
        named = [f"{each.title} (p {each.probability:.2f})" for each in cause.possible[:4]]
        return [("may be", " · ".join(named))] if named else []
    code = "`" if detail == "whole" else ""
    lines = []
    for place, each in enumerate(cause.possible[: None if detail == "whole" else 4]):
        find = f" → {code}{each.find}{code}" if each.find is not None else ""
        lines.append(("may be" if place == 0 or detail == "whole" else "", f"p {each.probability:.2f} {each.title}: {each.tells}{find}"))
    return lines


def describe_causes(diagnosis: Diagnosis, detail: Detail) -> list[Card]:
    """A card for each cause, the likeliest first, with the order of events."""
    cards = []
    for place, cause in enumerate(worth_telling(diagnosis)[: 3 if detail == "brief" else None]):
        likely = {"brief": place == 0, "short": cause.probability >= LIKELY, "whole": True}[detail]
        lines = [
            ("with it" if cause.consequence_of else "moved first", cause.moved_first),
            ("with it", cause.with_it),
            ("because", cause.because),
            *_describe_possible(cause, detail),
        ]
        kind, rule, aside = f"{'SYMPTOM' if cause.possible else 'CAUSE'} {place + 1}", cause.rules[0] if cause.rules else "", ""
        if cause.consequence_of:
            aside = f"a consequence of {cause.consequence_of}"
        elif cause.rules and cause.of > 1 and (likely or detail == "brief"):
            aside = f"{cause.agree} of {plural(cause.of, 'seed')} agree"
        if detail == "whole":
            kind, rule = "Primary" if place == 0 else "Consequence" if cause.consequence_of else "Secondary", ""
            lines.append(("rules", ", ".join(f"`{name}`" for name in cause.rules[:4])))
            aside += ": it did not begin earlier" if cause.consequence_of else ""
            aside += " · a symptom, not a cause" if cause.possible else ""
        level = cause.severity.value.upper() if cause.rules and (likely or detail == "brief") else ""
        title = "unknown: no check explains it" if cause.id == UNKNOWN else cause.title
        badges = (f"p {cause.probability:.2f}", level)
        tone = SEVERITY_TONES[cause.severity.value]
        cards.append(Card(kind, title, [line for line in lines if line[1]] if likely else [], badges, tone, rule, aside))
    return cards


def _ruled_out(diagnosis: Diagnosis, detail: Detail) -> list[Block]:
    if not diagnosis.ruled_out:
        return []
    items = [cause.title if detail == "brief" else f"{cause.title} ({cause.because})" for cause in diagnosis.ruled_out]
    return [Points(items, "Ruled out")]


def _unassessable(diagnosis: Diagnosis, detail: Detail) -> list[Block]:
    """How many checks there were, which could not be made, and what would make them possible."""
    total = describe_checks(diagnosis)
    if not diagnosis.unassessable:
        return [Text(total, quiet=True)]
    if detail == "brief":
        rules = listed([check.rule for check in diagnosis.unassessable], 6)
        missing = ", ".join(sorted({name for check in diagnosis.unassessable for name in check.missing}))
        return [Text(total), Points([f"{rules}: not logged: {clip(missing, 150)}"], "Not assessable")]
    code = Code("\n".join(pasted(diagnosis)), "python", "to judge them, put this into your script", 6)
    if detail == "whole":
        names = ", ".join(f"`{check.rule}` {check.name}" for check in diagnosis.unassessable)
        lead = Text(f"The log lacks what these checks need: {names}.")
        return [Heading("Not assessable", 3), lead, code, Text(total, quiet=True)]
    short_names = listed([f"{check.rule} {check.name}" for check in diagnosis.unassessable], 4)
    return [Points([short_names], "Not assessable", None, total), code]


def describe_checks(diagnosis: Diagnosis) -> str:
    """How many checks there were, and how they came out."""
    checks = diagnosis.checks
    counts = f"{checks.total} checks: {checks.failed} fail, {checks.passed} pass, {checks.not_applicable} do not apply"
    return f"{counts}, {checks.not_assessable} not assessable"


def pasted(diagnosis: Diagnosis) -> list[str]:
    """Lines for the user's script that make the checks possible: a callback where there is one, else what to log."""
    return recipe(diagnosis.facts.source, [check.paste for check in diagnosis.unassessable])


def suspects(places: Sequence[Suspect], detail: Detail) -> list[Card]:
    """Where to look for a bug, how to see it again, and what is right."""
    code = "`" if detail == "whole" else ""
    cards = []
    for suspect in places:
        lines = []
        for place in suspect.places:
            file = f"{code}{place.file}{code}" if "." in place.file else place.file
            function = f"{code}{place.function}{code}" if place.function else ""
            lines.append((place.code, " · ".join(part for part in (file, function, place.look) if part)))
        lines += [("reproduce", f"{code}{suspect.reproduce}{code}"), ("proposed fix", suspect.fix)]
        cards.append(Card("BUG?", suspect.title, lines, [f"p {suspect.probability:.2f}"], "bad"))
    return cards


# ── what to change, and what to watch ──


def recommendations(report: DiagnosisReport, detail: Detail) -> list[Block]:
    """Each change with its reason, what it should bring, what it may cost and how urgent it is."""
    if not report.recommendations:
        return [Text("None: nothing that needs a change was found." if report.diagnosis.causes[0].id == HEALTHY else "None.")]
    return [_recommendation(rx, report.diagnosis.facts.source, detail) for rx in report.recommendations]


def _recommendation(rx: Recommendation, source: str, detail: Detail) -> Card:
    if detail == "whole":
        typed = Change.typed(rx.overrides, quoted=True)
        kind, lines = f"{rx.number}.", [
            ("change", f"`{typed}`" if typed else "no setting: see the text"),
            ("in your framework", f"`{rx.foreign}`" if rx.foreign else ""),
            ("rationale", rx.rationale),
            ("expected impact", rx.expected),
            ("risk", rx.risk or "none known"),
            ("priority", rx.priority),
            ("held back", rx.held_back or ""),
        ]  # fmt: skip
    else:
        risk = f"          risk  {rx.risk}" if rx.risk else ""
        kind, lines = f"RX {rx.number}", [
            ("why", rx.rationale if detail == "short" and rx.rationale != rx.change else ""),
            ("expect", f"{rx.expected}{risk}" if rx.overrides else ""),
            ("held back", rx.held_back or ""),
            (f"in {source}", rx.foreign or "" if detail == "short" else ""),
        ]  # fmt: skip
    tone = PRIORITY_TONES.get(rx.priority, "quiet")
    return Card(kind, rx.change, [line for line in lines if line[1]], [rx.priority], tone, width=10, indent=6)


def _watches(report: DiagnosisReport) -> list[Block]:
    """Whether what the run's predecessor said to watch has held, and what to watch next time."""
    rows = []
    if report.watched is not None:
        name = f"watched since {report.watched.source} ({report.watched.cause})"
        rows.append((name, " · ".join(check.said for check in report.watched.checks)))
    if report.diagnosis.watch:
        # Only our own runs know what they were made from.
        unasked = "          (the next diagnosis checks this unasked)" if report.diagnosis.facts.source == "rlclinic" else ""
        rows.append(("watch next time", " · ".join(watch.text for watch in report.diagnosis.watch) + unasked))
    return [Rows(rows, 17)] if rows else []


def _best_group(other: Comparable) -> list[Block]:
    settings = [
        f"{difference.setting} {worded(difference.there)} there, {worded(difference.here)} here" for difference in other.differences
    ]
    return [Rows([("best here", f"{other.group}: {other.said}"), *([("", listed(settings, 4, " · "))] if settings else [])], 11)]


# ── sections of a report ──


def bottleneck(report: DiagnosisReport) -> Card:
    """The primary bottleneck and the first change, in a few lines."""
    diagnosis, cause = report.diagnosis, report.diagnosis.causes[0]
    if cause.calm:
        return Card("", diagnosis.answer, [("checks", describe_checks(diagnosis))], tone="good" if cause.id == HEALTHY else "quiet")
    change = report.recommendations[0].change if report.recommendations else ""
    doubt = "" if diagnosis.cannot_tell is None else diagnosis.cannot_tell.text
    lines = [("first of all", doubt), ("what moved first", cause.moved_first), ("because", cause.because), ("first thing to try", change)]
    badges = (f"p {cause.probability:.2f}", cause.severity.value.upper() if cause.rules else "")
    tone = SEVERITY_TONES[cause.severity.value]
    return Card("Primary bottleneck", cause.title, [line for line in lines if line[1]], badges, tone)


def assessment(report: DiagnosisReport) -> list[Block]:
    """Success or failure, the gap, and the shape of the curves."""
    facts = report.diagnosis.facts
    parts = []
    if facts.reached is not None:
        lost = f", {facts.lost} lost it again" if facts.lost else ""
        parts.append(
            f"{facts.reached} of {plural(facts.runs, 'run')} reached {describe_goal(facts.threshold, facts.required_success)}{lost}"
        )
        if facts.threshold is not None and facts.last is not None and facts.last < facts.threshold:
            gap = facts.threshold - facts.last
            parts.append(f"the gap is {number(gap)}" + (f" ({percent(gap / abs(facts.threshold))})" if facts.threshold else ""))
    if report.standing:
        parts.append(f"how the runs stand: {report.standing}")
    blocks: list[Block] = [Heading("Performance assessment", 3), Text("; ".join(parts) + "." if parts else "No return was logged.")]
    return [*blocks, *([Points(list(facts.notes))] if facts.notes else [])]


def key_metrics(report: DiagnosisReport) -> list[Block]:
    """Pictures of the series that are evidence, a table of the metrics that every report is asked for, and all findings."""
    blocks: list[Block] = []
    if report.panels:
        figures = [Figure(partial(charts.panel, panel), f"**{panel.label}**: {panel.text}") for panel in report.panels]
        band = "; green: where healthy runs usually are" if any(panel.band or panel.healthy for panel in report.panels) else ""
        legend = f"Line: middle of the runs; blue: their range; shaded: where the evidence lies{band}. Steps from left to right."
        blocks.append(Figures(figures, legend))
    if report.metrics:
        heads = ("metric", "about", "start", "end", "range", "trend", "usual")
        blocks.append(Table(heads, [_metric_cells(row) for row in report.metrics]))
    if report.diagnosis.findings:
        rows = [
            [
                f"`{finding.rule}` {finding.name}",
                finding.severity.value,
                f"{len(finding.runs)} of {finding.judged}",
                short(finding.onset),
                finding.text,
            ]
            for finding in report.diagnosis.findings
        ]
        blocks += [Heading("Diagnostic findings", 3), Table(("finding", "severity", "runs", "from", "evidence"), rows)]
    return blocks


def _metric_cells(row: KeyMetric) -> list[str]:
    band = usual_band(row.name)
    usual = f"{number(band[0], 2)} to {number(band[1], 2)}" if band else ""
    broken = f", {plural(row.broken, 'value')} not finite" if row.broken else ""
    span = f"{number(row.low)} to {number(row.high)}"
    return [f"`{row.name}`", _TOPICS[row.topic], number(row.start), number(row.end), span, row.trend + broken, usual]


def bottlenecks(report: DiagnosisReport) -> list[Block]:
    """Causes; what was ruled out, what could not be judged, what the best group shows."""
    diagnosis, other = report.diagnosis, report.comparable
    cards = describe_causes(diagnosis, "whole")
    blocks: list[Block] = [Heading("Root cause hypothesis", 3), *cards] if cards else [Text(f"None: {diagnosis.answer}.")]
    blocks = [*describe_doubt(diagnosis, "whole"), *describe_witness(diagnosis), *blocks]
    blocks += films.section(report.films) if report.films is not None else []
    blocks += [*_ruled_out(diagnosis, "whole"), *_unassessable(diagnosis, "whole")]
    if other is not None:
        text = (
            f"The best group of this environment and algorithm here is `{other.group}`: {other.said}. That it did better does not say why."
        )
        rows = [[f"`{difference.setting}`", worded(difference.here), worded(difference.there)] for difference in other.differences]
        blocks += [Heading("Compared with the best group in the store", 3), Text(text)]
        blocks += [Table(("setting", "here", other.group), rows)] if rows else []
    return blocks


def next_steps(report: DiagnosisReport, commands: Sequence[Action]) -> list[Block]:
    """What to type, what to watch, and whether what was to be watched has held."""
    blocks: list[Block] = [Commands([("next", command) for command in commands])]
    tried = [rx for rx in report.recommendations if rx.overrides and rx.prescribed]
    if report.group and len(tried) > 1 and any(action.command == "trial" for action in commands):
        together = Action("trial", report.group, rx=",".join(str(rx.number) for rx in tried))
        others = "; ".join(rx.change for rx in tried[1:])
        blocks.append(Text(f"**Variations to try**: {others}. All of them against one control: `{together}`."))
    return [*blocks, *_watches(report)]
