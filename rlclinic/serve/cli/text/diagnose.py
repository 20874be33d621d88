"""Diagnoses as text for people. Nothing here decides anything."""

import os
import sys
import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from rlclinic.report import evidence
from rlclinic.report.diagnosis import pasted, plain, worth_telling
from rlclinic.report.document import clean
from rlclinic.report.evidence import CALM
from rlclinic.report.format import ago, count, duration, interval, listed, number, percent, plural, short
from rlclinic.report.models import SeedCurve
from rlclinic.serve.cli import console
from rlclinic.serve.cli.text import plot
from rlclinic.serve.cli.text.results import STYLES

if TYPE_CHECKING:
    from rlclinic.diagnosis.findings import Cause, Diagnosis
    from rlclinic.report.models import Comparable, DiagnosisReport, Place, Recommendation, Suspect

LABEL = 13
AGREE_AT = 76
SHOWN = 0.15
"""Causes below this probability are named, without their story."""
PASTED = 6
NOTICED = 3
LEVEL_STYLES = {"high": "bold red", "medium": "bold yellow", "low": "dim"}
PRIORITY_STYLES = {"critical": "bold red", "high": "bold yellow", "medium": "bold", "low": "dim"}


class Line(NamedTuple):
    """One line: what it says, how far it is indented where it must be wrapped, and a word of it that stands out."""

    text: str
    indent: int = 0
    word: str = ""
    style: str = ""


def print_diagnosis(result: "DiagnosisReport", seconds: float) -> None:
    """Header, verdict, curve, causes, what was ruled out, what could not be judged, what to change, what to type."""
    lines: list[Line] = []
    for found in (result, *result.more):
        lines += [Line("")] if lines else []
        lines += _diagnosis(found)
    _print([*lines, *_ending(result, seconds)])


def _print(lines: Iterable[Line]) -> None:
    """Plain into a pipe, each line whole; on a terminal with colours, wrapped at words under its own text."""
    if not sys.stdout.isatty() and "FORCE_COLOR" not in os.environ:
        # No rich: a script that reads this should not wait for colours.
        sys.stdout.write("".join(f"{clean(line.text)}\n" for line in lines))
        return
    from rich.text import Text

    out = console.results()
    for line in lines:
        text = clean(line.text)
        if line.indent and len(text) > out.width:
            # Commands are copied from here, and have no indent: they are never broken.
            words = textwrap.TextWrapper(out.width, subsequent_indent=" " * line.indent, break_long_words=False, break_on_hyphens=False)
            text = words.fill(text)
        shown = Text(text)
        at = shown.plain.find(line.word) if line.word else -1
        if at >= 0:
            shown.stylize(line.style, at, at + len(line.word))
        out.print(shown, soft_wrap=True)


def _diagnosis(result: "DiagnosisReport") -> Iterator[Line]:
    found = result.diagnosis
    yield Line(_header(result), 2)
    yield Line(_verdict(found), 2, found.verdict, STYLES.get(found.verdict, "bold"))
    yield from (Line(f"note      {note}", 10) for note in found.facts.notes)
    if found.answer != "healthy":
        yield from map(Line, _plot(result))
    yield Line("")
    calm = found.causes[0].id in CALM
    if calm:
        yield Line(_calm(found))
    if found.causes[0].id == "no-reference" and found.findings:
        # Without a threshold nothing is called a cause; what the user set oddly is worth a look all the same.
        yield Line("NOTICED  " + listed([f"{each.text} ({each.rule})" for each in found.findings], NOTICED), 9)
    for place, cause in enumerate(worth_telling(found), 1):
        yield from _cause(place, cause)
    yield from _excluded(found)
    yield from _switched(result)
    for suspect in result.suspects:
        yield from _suspect(suspect)
    if result.recommendations and found.causes[0].id not in ("healthy", "too-early", "no-return"):
        yield Line("")
        for each in result.recommendations:
            yield from _recommendation(each, found.facts.source)
    yield from _watches(result)
    if result.comparable is not None:
        yield from _comparable(result.comparable)


def _header(result: "DiagnosisReport") -> str:
    facts = result.diagnosis.facts
    steps = f"{count(facts.env_steps)}/{count(facts.max_env_steps)}" if facts.max_env_steps else count(facts.env_steps)
    ours = facts.source == "rlclinic"
    runs = plural(facts.runs, "seed" if ours else "run")
    ended = "" if result.ended_seconds_ago is None else f" {ago(result.ended_seconds_ago)}"
    parts = [facts.id, (facts.algo or "unknown algorithm").upper(), facts.env or "unknown environment", runs, f"{steps} env steps"]
    return " · ".join([*parts, facts.state + ended, *([] if ours else [f"read as {facts.source}"])])


def _verdict(found: "Diagnosis") -> str:
    facts = found.facts
    said = []
    if facts.threshold is not None:
        said.append(f"{facts.reached} of {plural(facts.runs, 'seed')} reached {number(facts.threshold, 4)}")
    if facts.last is not None:
        spread = f"{interval(facts.low, facts.high)} (IQM, 95 %)" if facts.low is not None else ""
        said.append(f"return {number(facts.last)} {spread}".strip())
        gap = None if facts.threshold is None else facts.threshold - facts.last
        if gap is not None and gap > 0 and facts.threshold:
            said.append(f"gap {number(gap)} ({percent(gap / abs(facts.threshold))})")
    if facts.best is not None:
        said.append(f"best {number(facts.best)} at {short(facts.best_at)}")
    return f"{found.verdict}  {' · '.join(said)}".rstrip()


def _plot(result: "DiagnosisReport") -> list[str]:
    found, marked = result.diagnosis, result.marked
    curve = evidence.curve(found, [SeedCurve(seed=place, steps=[], values=[]) for place in range(found.facts.runs)])
    bounds = None if marked is None else (marked.start, marked.end)
    return plot.curve_lines(curve, console.chart_width(), height=5, marked=bounds, note=f"{plot.MARKED} evidence")


def _calm(found: "Diagnosis") -> str:
    """What to say where the returns need no explanation."""
    if found.causes[0].id != "healthy":
        return found.causes[0].title
    return "HEALTHY  nothing that needs a change was found" if len(found.causes) == 1 else "DOES WELL  and yet this is wrong:"


def _cause(place: int, cause: "Cause") -> Iterator[Line]:
    lead = f"CAUSE {place}  p {cause.probability:.2f}  "
    if cause.id == "unknown":
        yield Line(f"{lead}unknown: no check explains it")
        return
    likely = cause.probability >= SHOWN
    level = cause.severity.value
    text = f"{lead}{f'{level.upper()}  ' if likely else '':<6}{cause.title}  {cause.rules[0] if cause.rules else ''}"
    tail = f"a consequence of {cause.consequence_of}" if cause.consequence_of else ""
    if likely and not tail and cause.of > 1:
        tail = f"{cause.agree} of {plural(cause.of, 'seed')} agree"
    yield Line(f"{text:<{AGREE_AT - 2}}  {tail}".rstrip(), 9, level.upper(), LEVEL_STYLES[level])
    if likely:
        first = "with it" if cause.consequence_of else "moved first"
        stories = ((first, cause.moved_first), ("with it", cause.with_it), ("because", cause.because))
        yield from (_labelled(label, text) for label, text in stories if text)


def _labelled(label: str, text: str) -> Line:
    return Line(f"  {f'{label}  ' if len(label) >= LABEL else label:<{LABEL}}{text}", LABEL + 2)


def _excluded(found: "Diagnosis") -> Iterator[Line]:
    if found.ruled_out:
        yield Line("RULED OUT  " + " · ".join(f"{each.title} ({each.because})" for each in found.ruled_out), 11)
    counts = found.checks
    total = f"{counts.total} checks: {counts.failed} fail, {counts.passed} pass, {counts.not_applicable} do not apply"
    total += f", {counts.not_assessable} not assessable"
    if not found.unassessable:
        yield Line(total, 2)
        return
    names = listed([f"{each.rule} {each.name}" for each in found.unassessable], 4)
    yield Line(f"NOT ASSESSABLE  {names}        {total}", 16)
    lines = pasted(found)
    yield Line("  to judge them, put this into your script:")
    yield from (Line(f"    {line}") for line in lines[:PASTED])
    if len(lines) > PASTED:
        yield Line(f"    … and {len(lines) - PASTED} more: --json")


def _switched(result: "DiagnosisReport") -> Iterator[Line]:
    switched = result.switched
    if switched is not None:
        said = [
            f"only {', '.join(switched.select)}" if switched.select else "",
            f"not {', '.join(switched.ignore)}" if switched.ignore else "",
        ]
        yield Line(f"RULES  {' · '.join(part for part in (*said, switched.note) if part)}  ({switched.file})", 7)


def _suspect(suspect: "Suspect") -> Iterator[Line]:
    yield Line("")
    yield Line(f"BUG?  p {suspect.probability:.2f}  {suspect.title}", 6, "BUG?", "bold red")
    yield from (_labelled(place.code, _where(place)) for place in suspect.places)
    yield _labelled("see it", suspect.reproduce)
    yield _labelled("right is", suspect.fix)


def _where(place: "Place") -> str:
    return " · ".join(part for part in (place.file, place.function, place.look) if part)


def _recommendation(each: "Recommendation", source: str) -> Iterator[Line]:
    yield Line(f"RX {each.number}  {each.priority:<10}{each.change}", 16, each.priority, PRIORITY_STYLES.get(each.priority, "bold"))
    if each.rationale and each.rationale != each.change:
        yield Line(f"      {'why':<10}{each.rationale}", 16)
    if each.overrides:
        risk = f"          risk  {each.risk}" if each.risk else ""
        yield Line(f"      {'expect':<10}{each.expected}{risk}", 16)
    if each.foreign:
        yield Line(f"      {f'in {source}':<9} {each.foreign}", 16)


def _watches(result: "DiagnosisReport") -> Iterator[Line]:
    if result.watched is not None:
        said = " · ".join(check.said for check in result.watched.checks)
        yield Line(f"watched since {result.watched.source} ({result.watched.cause})  {said}", 2)
    watch = " · ".join(each.text for each in result.diagnosis.watch)
    if watch:
        # Only our own runs know what they were made from.
        unasked = "          (the next diagnosis checks this unasked)" if result.diagnosis.facts.source == "rlclinic" else ""
        yield Line(f"watch next time  {watch}{unasked}", 17)


def _comparable(other: "Comparable") -> Iterator[Line]:
    yield Line(f"best here  {other.group}: {other.said}", 11)
    shown = [f"{each.setting} {plain(each.here)} here, {plain(each.there)} there" for each in other.differences]
    if shown:
        yield Line(f"           {listed(shown, 4)}", 11)


def _ending(result: "DiagnosisReport", seconds: float) -> Iterator[Line]:
    labels = {"rlclinic status": "look", "rlclinic train --resume": "go on", "rlclinic trial": "prove it", "rlclinic train": "use it"}
    labels |= {"rlclinic rules": "why"}
    for place, command in enumerate(result.next):
        label = next((name for start, name in labels.items() if command.startswith(start)), "next")
        yield from [Line("")] if place == 0 else []
        yield Line(f"{label:<10}{command}")
    where = f"{'all of it':<10}{result.files[0]}      " if result.files else f"{'took':<10}"
    yield Line(f"{where}{duration(seconds)}")
