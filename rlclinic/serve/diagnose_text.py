"""Diagnoses as text for people. Nothing here decides anything."""

from typing import TYPE_CHECKING

from rlclinic.diagnosis.paste import most_useful
from rlclinic.ops.results import Curve, SeedCurve
from rlclinic.ops.wording import count, duration, interval, listed, number, percent, plural, short
from rlclinic.serve import console, plot
from rlclinic.serve.render import STYLES, print_lines

if TYPE_CHECKING:
    from rlclinic.diagnosis.findings import Cause, Diagnosis, Facts, Remedy
    from rlclinic.ops.diagnose import DiagnosisReport, LintReport, RuleList, RulePage

LABEL = 12
CALM = ("healthy", "too-early", "no-reference", "no-return")
HIGH_STYLES = {"high": "bold red", "medium": "bold yellow", "low": "dim"}


def print_diagnosis(result: "DiagnosisReport", seconds: float) -> None:
    """Header, verdict, curve, causes, what was ruled out, what could not be judged, what to type."""
    for found in (result.diagnosis, *result.more):
        print_lines([_header(found.facts)])
        _print_verdict(found)
        if found.answer != "healthy":
            print_lines(plot.curve_lines(_curve(found), height=5))
        print_lines([""])
        calm = found.causes[0].id in CALM
        if calm:
            print_lines([_calm(found)])
        told = [cause for cause in found.causes[calm:] if cause.id != "unknown" or cause is found.causes[0] or cause.probability >= 0.1]
        for place, cause in enumerate(told, 1):
            _print_cause(place, cause)
        print_lines(_excluded(found))
        print_lines(_remedies(found))
    print_lines(_ending(result, seconds))


def _header(facts: "Facts") -> str:
    steps = (
        f"{count(facts.env_steps)}/{count(facts.max_env_steps)} env steps" if facts.max_env_steps else f"{count(facts.env_steps)} env steps"
    )
    runs = plural(facts.runs, "seed") if facts.source == "rlclinic" else plural(facts.runs, "run")
    parts = [facts.id, (facts.algo or "unknown algorithm").upper(), facts.env or "unknown environment", runs, steps, facts.state]
    return " · ".join(parts if facts.source == "rlclinic" else [*parts, f"read as {facts.source}"])


def _print_verdict(found: "Diagnosis") -> None:
    from rich.text import Text

    facts = found.facts
    said = []
    if facts.threshold is not None:
        said.append(f"{facts.reached} of {plural(facts.runs, 'seed')} reached {number(facts.threshold, 4)}")
    if facts.last is not None:
        said.append(
            f"return {number(facts.last)} {interval(facts.low, facts.high)}".strip() + (" (IQM, 95 %)" if facts.low is not None else "")
        )
        gap = None if facts.threshold is None else facts.threshold - facts.last
        if gap is not None and gap > 0 and facts.threshold:
            said.append(f"gap {number(gap)} ({percent(gap / abs(facts.threshold))})")
    if facts.best is not None:
        said.append(f"best {number(facts.best)} at {short(facts.best_at)}")
    line = Text(found.verdict, style=STYLES.get(found.verdict, "bold"))
    line.append("  " + " · ".join(said), style="default")
    console.results().print(line, soft_wrap=True)
    print_lines([f"note      {note}" for note in facts.notes])


def _curve(found: "Diagnosis") -> Curve:
    drawn = found.curve
    # The band is drawn where several runs make one.
    seeds = [SeedCurve(seed=place, steps=[], values=[]) for place in range(found.facts.runs)]
    return Curve(
        label=drawn.label,
        steps=list(drawn.steps),
        center=list(drawn.values),
        low=list(drawn.low),
        high=list(drawn.high),
        seeds=seeds,
        threshold=found.facts.threshold,
    )


def _calm(found: "Diagnosis") -> str:
    """What to say where the returns need no explanation."""
    if found.causes[0].id != "healthy":
        return found.causes[0].title
    return "HEALTHY  nothing that needs a change was found" if len(found.causes) == 1 else "DOES WELL  and yet this is wrong:"


def _print_cause(place: int, cause: "Cause") -> None:
    from rich.text import Text

    if cause.id == "unknown":
        print_lines([f"CAUSE {place}  p {cause.probability:.2f}  unknown: no check explains it"])
        return
    rules = cause.rules[0] if cause.rules else ""
    line = Text(f"CAUSE {place}  p {cause.probability:.2f}  ")
    line.append(f"{cause.severity.value.upper()}", style=HIGH_STYLES[cause.severity.value])
    agree = f"{cause.agree} of {plural(cause.of, 'seed')} agree" if cause.of > 1 else ""
    line.append(f"  {cause.title}  {rules}", style="default")
    line.append(f"   {agree}", style="dim")
    console.results().print(line, soft_wrap=True)
    lines = [
        ("with it" if cause.consequence_of else "moved first", cause.moved_first),
        ("with it", cause.with_it),
        ("because", cause.because),
    ]
    shown = lines if cause.probability >= 0.15 else []
    print_lines([f"  {label:<{LABEL}} {text}" for label, text in shown if text])
    if cause.consequence_of:
        print_lines([f"  {'':<{LABEL}} a consequence of {cause.consequence_of}: it did not begin earlier"])


def _excluded(found: "Diagnosis") -> list[str]:
    lines = []
    if found.ruled_out:
        lines.append("RULED OUT  " + " · ".join(f"{each.title} ({each.because})" for each in found.ruled_out))
    counts = found.checks
    total = f"{counts.total} checks: {counts.failed} found something, {counts.passed} pass, {counts.not_applicable} do not apply"
    if found.unassessable:
        names = listed([f"{each.rule} {each.name}" for each in found.unassessable], 4)
        lines.append(f"NOT ASSESSABLE  {names}")
        pasted = most_useful(each.paste for each in found.unassessable)
        lines += ["  to judge them, log these in your script:", *(f"    {line}" for line in pasted[:6])]
        lines += [f"    … and {len(pasted) - 6} more: --json"] if len(pasted) > 6 else []
    return [*lines, f"{total}, {counts.not_assessable} not assessable"]


def _remedies(found: "Diagnosis") -> list[str]:
    lines = [""] if found.remedies else []
    for place, remedy in enumerate(found.remedies, 1):
        lines += _remedy(place, remedy)
    if found.watch:
        lines.append("watch next time  " + " · ".join(each.text for each in found.watch))
    return lines


def _remedy(place: int, remedy: "Remedy") -> list[str]:
    if remedy.setting is None:
        return [f"REMEDY {place}  {remedy.text}"]
    was = "none" if remedy.current is None else remedy.current
    lines = [f"REMEDY {place}  {remedy.setting} {_plain(was)} → {_plain(remedy.value)}      {remedy.text}"]
    facts = [f"expect {remedy.effect}" if remedy.effect != "unknown" else "", f"risk {remedy.risk}" if remedy.risk else ""]
    told = " · ".join(fact for fact in facts if fact)
    return [*lines, f"          {told}"] if told else lines


def _plain(value: object) -> str:
    if isinstance(value, dict):
        start = value.get("start", "?")
        return f"{start:g}, {value.get('schedule', 'linear')} to {value.get('end', 0):g}" if isinstance(start, int | float) else str(value)
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _ending(result: "DiagnosisReport", seconds: float) -> list[str]:
    lines = [""] if result.next else []
    labels = {"rlclinic train": "try it", "rlclinic rules": "why"}
    for command in result.next:
        label = next((name for start, name in labels.items() if command.startswith(start)), "next")
        lines.append(f"{label:<10}{command}")
    where = f"{'all of it':<10}{result.files[0]}      " if result.files else f"{'took':<10}"
    return [*lines, f"{where}{duration(seconds)}"]


def print_lint(result: "LintReport") -> None:
    """`lint`."""
    found = result.lint
    for finding in found.findings:
        print_lines([f"{finding.severity.value.upper():<7}{finding.rule} {finding.name}: {finding.text}"])
        print_lines([f"       try --set '{remedy.override}'   {remedy.text}" for remedy in finding.remedies if remedy.override])
    alarm = plural(len(found.findings), "finding") if found.findings else "nothing found"
    print_lines([f"{found.name or result.ref}: {alarm}, {plural(found.checks, 'check')} of the config"])
    print_lines([f"  {name.replace('_', ' '):<28}{number(value, 4)}" for name, value in found.derived.items()])


def print_rules(result: "RuleList") -> None:
    """`rules`."""
    family = ""
    for row in result.rules:
        if row.family != family:
            family = row.family
            print_lines(["", family.replace("_", " ").upper()] if row is not result.rules[0] else [family.replace("_", " ").upper()])
        print_lines([f"  {row.id}  {row.severity:<7}{row.title}"])
    print_lines(["", f"{plural(len(result.rules), 'rule')}; explain one: rlclinic rules {result.rules[0].id}"])


def print_rule(page: "RulePage") -> None:
    """`rules ID`."""
    row = page.rule
    lines = [f"{row.id} {row.name}   {row.family.replace('_', ' ')}, up to {row.severity}", "", page.doc]
    lines += ["", "## Needs", *(f"  {need}" for need in row.needs)] if row.needs else []
    lines += ["", "## References", *(f"  {reference}" for reference in page.references)] if page.references else []
    print_lines(lines)
