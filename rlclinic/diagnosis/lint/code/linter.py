"""Puts every check to every script and sorts what they find."""

import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rlclinic.diagnosis.findings import DiagnosisPart, Evidence, Finding, Remedy, Severity
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.checks import Check
from rlclinic.diagnosis.lint.code import precedents
from rlclinic.diagnosis.lint.code.reading import sources
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, position
from rlclinic.diagnosis.lint.code.reading.sources import Source
from rlclinic.diagnosis.lint.code.symbolic import semantics
from rlclinic.errors import UsageError

LONGEST_WAIVED: Final = 8
"""Lines of a statement on which the mark is looked for; a whole loop or class is not waived by one inside it."""
SAID_ONCE: Final = frozenset({"COD101"})
"""Checks whose finding is said for the first file of a folder only."""
SAID_BY_ANOTHER: Final = {
    "COD454": ("COD101", "COD503"),
    "COD512": ("COD504", "COD505"),
    "COD536": ("COD121", "COD122", "COD123"),
    "COD122": ("COD121", "COD123"),
    "COD132": ("COD121", "COD122", "COD123"),
    "COD210": ("COD206", "COD521"),
    "COD406": ("COD405",),
    "COD517": ("COD121", "COD122", "COD123"),
    "COD528": ("COD405",),
    "COD711": ("COD405", "COD406"),
}
"""Checks whose formulas see the same mistake from another side: they are silent where those speak."""
SECOND: Final = frozenset({"COD454"})
"""Checks that see the effect of a mistake alone: where those of SAID_BY_ANOTHER speak, they say nothing at all."""
_TESTS: Final = re.compile(r"(^|[/\\])(tests?[/\\][^/\\]*|conftest|test_[^/\\]*|[^/\\]*_test)\.py$")
_WAIVED: Final = re.compile(r"#\s*rlclinic:\s*ignore\b((?:[,\s]+[A-Z]{3}\d{3})*)")


class Skipped(DiagnosisPart):
    """A file that could not be checked, and why."""

    file: str
    why: str


class CodeLint(DiagnosisPart):
    """What the scripts show."""

    target: str
    files: int
    lines: int
    checks: int
    findings: tuple[Finding, ...]
    """The severe first, then by place."""
    skipped: tuple[Skipped, ...] = ()


def lint_code(target: str, *, select: Sequence[str] | None = None, ignore: Sequence[str] | None = None) -> CodeLint:
    """Check a script, a notebook, or all of them below a folder.

    A single file that is no Python raises UsageError with the line; in a folder it is listed as skipped.
    """
    asked = checks.selected("COD", select, ignore)
    findings, skipped, lines = [], [], 0
    read = sources.read(target)
    for source in read:
        try:
            script = parse(source)
        except UsageError as reason:
            if len(read) == 1:
                raise
            skipped.append(Skipped(file=source.name, why=str(reason).splitlines()[0]))
            continue
        lines += source.text.count("\n")
        findings += [finding for question in asked for finding in _examine_quietly(question, script)]
    ordered = sorted(findings, key=lambda finding: (-finding.severity.rank, finding.run, finding.evidence[0].numbers["line"], finding.rule))
    ordered = _say_once(ordered)
    return CodeLint(
        target=target, files=len(read) - len(skipped), lines=lines, checks=len(asked), findings=tuple(ordered), skipped=tuple(skipped)
    )


def _say_once(findings: list[Finding]) -> list[Finding]:
    """One note where many files of a folder do what most published scripts do; it says how many."""
    notes = [finding for finding in findings if finding.rule in SAID_ONCE]
    if len(notes) < 2:
        return findings
    others = len({note.run for note in notes}) - 1
    if not others:
        return findings
    once = notes[0].model_copy(update={"text": f"{notes[0].text} (and in {others} more files)"})
    return [once if each is notes[0] else each for each in findings if each is notes[0] or each.rule not in SAID_ONCE]


def parse(source: Source) -> Script:
    """The script; UsageError says where it stops being Python."""
    try:
        with warnings.catch_warnings():
            # A stray backslash in somebody's docstring is not what is asked about.
            warnings.simplefilter("ignore")
            return Script(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as reason:
        line = getattr(reason, "lineno", None)
        where = source.place(line) if line else source.name
        text = (getattr(reason, "text", None) or "").strip()[:100]
        raise UsageError(
            f"{where} is not Python that can be read: {getattr(reason, 'msg', reason) or type(reason).__name__}"
            + (f": {text}" if text else "")
            + "\n  Its code cannot be checked.\n  Try: python -m py_compile on it, and mend that line first"
        ) from reason


def _examine_quietly(check: Check, script: Script) -> list[Finding]:
    """What a check says; nothing, where it fails on code that nobody thought of."""
    try:
        return examine(check, script)
    except Exception:  # noqa: BLE001 — a finding less is better than a lint that ends in the middle
        return []


def examine(check: Check, script: Script) -> list[Finding]:
    """What one check says about one script, each thing once; nothing where an expression is nested deeper than Python can follow."""
    try:
        return _examine(check, script)
    except RecursionError:  # tables of polynomials, thousands of terms in one expression: no training script
        return []


def _examine(check: Check, script: Script) -> list[Finding]:
    return _join([_finding(check, script, spot) for spot in heard(check, script)])


def heard(check: Check, script: Script) -> list[Spot]:
    """Every place that a check names, each once, with the law that saw it."""
    if not script.is_read or not _is_about_learning(script):
        return []
    cleared = semantics.cleared(check.id, script)
    others = [each for each in checks.checks("COD") if each.id in SAID_BY_ANOTHER.get(check.id, ())]
    is_second = check.id in SECOND and any(True for each in others for _ in (*each.function(script), *semantics.spots(each.id, script)))
    if is_second:
        return []
    places: set[tuple[int, int]] = set()
    spots: list[Spot] = []
    for spot in check.function(script):
        if position(spot.node) not in places and position(spot.node)[0] not in cleared and not _is_waived(check, script, spot):
            places.add(position(spot.node))
            spots.append(replace(spot, law=check.id))
    if any(True for each in others for _ in each.function(script)):
        return spots
    lines = {line for line, _ in places}
    for spot in semantics.spots(check.id, script):
        if position(spot.node)[0] not in lines and not _is_waived(check, script, spot):
            lines.add(position(spot.node)[0])
            spots.append(spot)
    return spots


def _join(findings: list[Finding]) -> list[Finding]:
    """What is said in the same words of several lines is one finding: where a mistake was written, and where it is felt."""
    joined: dict[tuple[str, Severity], Finding] = {}
    for each in findings:
        first = joined.setdefault((each.text, each.severity), each)
        if first is not each:
            joined[each.text, each.severity] = first.model_copy(update={"evidence": (*first.evidence, *each.evidence)})
    return list(joined.values())


SHORT: Final = 60
"""Lines below which a script is a part of one, and not asked for what it is about."""
_SUBJECT: Final = re.compile(
    r"reward|gym|polic|episode|env|agent|q_?val|advantage|critic|actor|action|rollout|replay|return", re.IGNORECASE
)


def _is_about_learning(script: Script) -> bool:
    """Whether anything in a script speaks of acting: classifiers and generators of images have other rules."""

    def speaks() -> bool:
        return len(script.lines) < SHORT or sum(bool(_SUBJECT.search(word)) for word in script.words) >= 2

    return script.once("about learning", speaks)


def _is_waived(check: Check, script: Script, spot: Spot) -> bool:
    """Whether the author says `# rlclinic: ignore`, for all checks or for the ids that follow, on a line of the statement."""
    first, last = position(spot.node)[0], getattr(spot.node, "end_lineno", None) or position(spot.node)[0]
    last = min(last, first + LONGEST_WAIVED)
    for text in script.lines[first - 1 : last]:
        waiver = _WAIVED.search(text)
        if waiver and (not waiver[1] or check.id in re.split(r"[,\s]+", waiver[1].strip())):
            return True
    return False


def laws_of(check: Check) -> tuple[str, ...]:
    """A check's own function, and what the formulas add to it."""
    return (check.id, *semantics.laws_of(check.id))


def severity_of(check: Check, script: Script, spot: Spot) -> Severity:
    """What a finding would weigh if its law had every precedent."""
    # Tests train for a few steps on purpose, and plant faults to see them caught: what is said of them are notes.
    return check.severity if spot.strength >= 0.5 and not _TESTS.search(script.source.name) else Severity.LOW


def _finding(check: Check, script: Script, spot: Spot) -> Finding:
    line, column = position(spot.node)
    severity = min(severity_of(check, script, spot), precedents.ceiling(spot.law), key=lambda one: one.rank)
    place = script.source.place(line)
    evidence = Evidence(series=f"code:{place}", text=script.line(spot.node), numbers={"line": float(line), "column": float(column + 1)})
    return Finding(
        rule=check.id,
        name=check.name,
        severity=severity,
        strength=spot.strength,
        text=script.names.restore(spot.text),
        evidence=(evidence,),
        remedies=(Remedy(text=script.names.restore(spot.fix) or check.fix),),
        run=script.source.name,
    )
