"""Why a run does not learn: reading what it left behind, examining it, and writing the answer beside our own groups."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlclinic.diagnosis import engine, rule
from rlclinic.diagnosis.findings import Cause, Diagnosis
from rlclinic.diagnosis.lint import Lint, lint_config
from rlclinic.errors import UsageError
from rlclinic.ops.results import Part, Result
from rlclinic.references import cite
from rlclinic.runs import history
from rlclinic.runs.history import History
from rlclinic.runs.record import Checkpoint, Group, Run
from rlclinic.runs.store import Store

FILE = "diagnosis.json"
SECTION = "## Diagnosis"


class DiagnosisReport(Result):
    """A diagnosis, what it is about, and what to type next."""

    target: str
    group: str | None
    """Id of our own group, if it is one."""
    diagnosis: Diagnosis
    more: tuple[Diagnosis, ...] = ()
    """Of the other configs, where a folder holds runs of several."""
    next: list[str]
    files: list[str]
    """What was written."""


class LintReport(Result):
    """What a config shows before anything is trained."""

    ref: str
    lint: Lint


class RuleRow(Part):
    """One line of `rules`."""

    id: str
    name: str
    family: str
    severity: str
    title: str
    needs: list[str]
    algos: list[str]


class RulePage(Result):
    """All about one rule."""

    rule: RuleRow
    doc: str
    references: list[str]


class RuleList(Result):
    """Every rule."""

    rules: list[RuleRow]


def diagnose(
    target: str = "@last",
    runs_dir: Path = Path("runs"),
    *,
    threshold: float | None = None,
    budget: int | None = None,
    mapping: Sequence[str] = (),
    select: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    write: bool = True,
) -> DiagnosisReport:
    """Diagnose a group, a run, another framework's folder or file, or what comes in on stdin ("-").

    Our own folders get a diagnosis.json and a section of report.md; nothing else is ever written to. A folder with runs of
    several configs gives one diagnosis for each.
    """
    owner, groups = _read(target, runs_dir, threshold, budget, mapping)
    ignored = [*(ignore or ()), *_ignored_here()]
    found, *more = [engine.diagnose(group, select=select, ignore=ignored) for group in groups or [[]]]
    if isinstance(owner, Group):
        found = found.model_copy(update={"facts": found.facts.model_copy(update={"id": owner.id})})
    whole = not select and not ignore and threshold is None and budget is None
    files = _write(owner, found) if owner is not None and write and whole else []
    return DiagnosisReport(
        target=target,
        group=owner.id if isinstance(owner, Group) else None,
        diagnosis=found,
        more=tuple(more),
        next=_next(owner, found),
        files=[str(file) for file in files],
    )


def top_finding(group: Group) -> str | None:
    """One line for the end of `train`: the likeliest cause and the first change; None where nothing is wrong."""
    return headline(engine.diagnose([history.of_run(run) for run in group.runs])) if group.runs else None


def headline(found: Diagnosis) -> str | None:
    """The answer in a line; None for healthy runs."""
    first = found.causes[0]
    if first.id in ("healthy", "no-reference", "no-return", "too-early"):
        return None
    if first.id == "unknown":
        return f"cause unknown: {found.checks.total} checks, none of them explains it"
    change = next((remedy.override for remedy in first.remedies if remedy.override), None)
    tail = f" · try --set {change}" if change else ""
    return f"{first.title} (p {first.probability:.2f}, {first.agree} of {first.of} seeds) {first.rules[0] if first.rules else ''}{tail}"


def lint(
    ref: str,
    changes: Sequence[str] = (),
    runs_dir: Path = Path("runs"),
    *,
    select: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
) -> LintReport:
    """Check a config: a variant, a YAML file, a run or a group."""
    from rlclinic.config import from_record
    from rlclinic.ops.catalog import show_config

    view = show_config(ref, changes, runs_dir)
    return LintReport(ref=ref, lint=lint_config(from_record(view.config), select=select, ignore=ignore))


def list_rules() -> RuleList:
    """Every rule, by family."""
    return RuleList(rules=[_row(each) for each in rule.rules()])


def explain_rule(id_or_name: str) -> RulePage:
    """What a rule looks for, why it hurts, when it is fine, and where that is known from."""
    each = rule.find(id_or_name)
    return RulePage(rule=_row(each), doc=each.doc, references=[str(cite(key)) for key in each.cites])


def _row(each: rule.Rule) -> RuleRow:
    return RuleRow(
        id=each.id,
        name=each.name,
        family=each.family,
        severity=each.severity.value,
        title=each.title,
        needs=[" or ".join(options) for options in each.needs],
        algos=list(each.algos),
    )


def _ignored_here() -> list[str]:
    """Rules that the project in this folder switches off: `ignore = ["THR"]` under [tool.rlclinic] of its pyproject.toml."""
    import tomllib

    try:
        read = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return []
    table = read.get("tool", {}).get("rlclinic", {})
    wanted = table.get("ignore", []) if isinstance(table, dict) else []
    return [str(each) for each in wanted] if isinstance(wanted, list) else []


# ── reading ──


def _read(
    target: str, runs_dir: Path, threshold: float | None, budget: int | None, mapping: Sequence[str]
) -> tuple[Run | Group | None, list[list[History]]]:
    """Whose folder it is (None: not ours), and the histories, one list for each config."""
    owner = _ours(target, runs_dir)
    if owner is None:
        # Imported here: reading our own runs must not wait for the formats of others.
        from rlclinic import readers

        return None, _by_config(readers.read(target, threshold=threshold, budget=budget, mapping=list(mapping)))
    runs = owner.runs if isinstance(owner, Group) else [owner]
    more: dict[str, Any] = {} if threshold is None else {"threshold": threshold}
    more |= {} if budget is None else {"max_env_steps": budget}
    found = [replace(each, **more) if more else each for each in map(history.of_run, runs)]
    return owner, [found] if found else []


def _by_config(found: Sequence[History]) -> list[list[History]]:
    """Runs that differ in their seed only belong together: what they agree on is no accident."""
    groups: dict[str, list[History]] = {}
    for each in found:
        settings = {key: value for key, value in each.settings.items() if key not in ("seed", "name")}
        key = json.dumps([each.source, each.env_id, each.algo, settings], sort_keys=True, default=str)
        groups.setdefault(key, []).append(each)
    return list(groups.values())


def _ours(target: str, runs_dir: Path) -> Run | Group | None:
    """The run or group that the target names; None if it is a path (or stdin) that is not ours."""
    path = Path(target)
    if target == "-":
        return None
    if (path / "group.json").is_file():
        return Group(path)
    if (path / "config.json").is_file() and (path / "status.json").is_file():
        return Run(path)
    if path.exists() and not (runs_dir / path.name / "config.json").is_file():
        return None
    try:
        found = Store(runs_dir).resolve(target)
    except UsageError:
        if "/" in target:
            # Neither a selector nor a path: the reader says that it does not exist.
            return None
        raise
    return found.run if isinstance(found, Checkpoint) else found


# ── writing ──


def _write(owner: Run | Group, found: Diagnosis) -> list[Path]:
    written = [owner.write_report(FILE, found.model_dump_json(indent=2) + "\n")]
    report = owner.path / "report.md"
    if isinstance(owner, Group) and report.is_file():
        text = report.read_text(encoding="utf-8", errors="replace")
        written.append(owner.write_report("report.md", with_section(text, markdown(found))))
    return written


def with_section(report: str, section: str) -> str:
    """report.md with its diagnosis replaced, or put before the seeds."""
    parts = ("\n" + report).split("\n## ")
    kept = [part for part in parts if not part.startswith(SECTION.removeprefix("## ") + "\n")]
    place = next((index for index, part in enumerate(kept) if part.startswith("Seeds")), len(kept))
    kept.insert(place, section.removeprefix("## ").rstrip() + "\n")
    return "\n## ".join(kept).removeprefix("\n")


def markdown(found: Diagnosis) -> str:
    """The diagnosis as a section of report.md."""
    lines = [SECTION, "", f"**{found.answer}**", ""]
    for cause in found.causes:
        lines += _cause_lines(cause)
    if found.ruled_out:
        lines += ["Ruled out: " + "; ".join(f"{each.title} ({each.because})" for each in found.ruled_out) + ".", ""]
    if found.findings:
        lines += ["| finding | severity | runs | evidence |", "|---|---|---|---|"]
        lines += [
            f"| {each.rule} {each.name} | {each.severity.value} | {len(each.runs)} of {each.judged} | {each.text} |"
            for each in found.findings
        ]
        lines.append("")
    counts = found.checks
    lines.append(f"{counts.total} checks: {counts.failed} found something, {counts.passed} passed, {counts.not_assessable} not assessable.")
    return "\n".join(lines) + "\n"


def _cause_lines(cause: Cause) -> list[str]:
    note = f", a consequence of {cause.consequence_of}" if cause.consequence_of else ""
    lines = [f"- **{cause.title}** p {cause.probability:.2f} ({cause.agree} of {cause.of} runs{note}) {', '.join(cause.rules[:3])}"]
    lines += [
        f"  - {label}: {text}"
        for label, text in (("moved first", cause.moved_first), ("with it", cause.with_it), ("because", cause.because))
        if text
    ]
    lines += [f"  - remedy: {remedy.text}" + (f" (`--set {remedy.override}`)" if remedy.override else "") for remedy in cause.remedies]
    return [*lines, ""]


# ── what next ──


def _next(owner: Run | Group | None, found: Diagnosis) -> list[str]:
    """Commands that exist and help, the most useful first."""
    commands = []
    remedy = next((each for each in found.remedies if each.override), None)
    if owner is not None and remedy is not None:
        name = owner.id
        if remedy.setting == "run.max_env_steps":
            commands.append(f"rlclinic train --resume {name} --max-env-steps {remedy.value}" + _flag(owner))
        else:
            commands.append(f"rlclinic train {name} --seeds {found.facts.runs} --set '{remedy.override}'" + _flag(owner))
    top = next((cause.rules[0] for cause in found.causes if cause.rules), None)
    if top is not None:
        commands.append(f"rlclinic rules {top}")
    return commands


def _flag(owner: Run | Group) -> str:
    """A command must find the same runs again, from the same shell."""
    root = owner.path.parent.parent if isinstance(owner, Group) else owner.path.parent
    return "" if root in (Path("runs"), Path(os.environ.get("RLCLINIC_RUNS", "runs"))) else f" --runs-dir {root}"
