"""What lint found, as text for people. Nothing here decides anything."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rlclinic.report.format import BLANK, count, duration, interval, number, percent, plural
from rlclinic.serve.cli import console
from rlclinic.serve.cli.text.results import bare_table, print_lines

if TYPE_CHECKING:
    from rlclinic.diagnosis.findings import Finding
    from rlclinic.diagnosis.lint.config.linter import Lint
    from rlclinic.diagnosis.lint.env import EnvLint
    from rlclinic.ops.diagnose.lint import CodeLintReport, EnvLintReport, LintReport

STYLES = {"high": "bold red", "medium": "bold yellow", "low": "dim"}
MOST_DIMENSIONS = 16
SUMMED_UP = ("mean of it", "deviation of it", "lowest of it", "highest of it")
UNITS = {
    "horizon_steps": "1/(1 - gamma), steps that count",
    "gae_horizon_steps": "1/(1 - gamma lambda), steps that an advantage looks ahead",
    "samples_per_gradient_step": "rollout / gradient steps on it",
}


def print_settings(result: "LintReport") -> None:
    """`lint CONFIG`."""
    for found in (result.lint, *result.more):
        for finding in found.findings:
            _print_finding(finding, "")
            how = "try --set '{}'" if result.ours else "try {}"
            print_lines([f"         {how.format(remedy.override)}   {remedy.text}" for remedy in finding.remedies if remedy.override])
            print_lines([f"         {remedy.text}" for remedy in finding.remedies if not remedy.override])
        print_lines([f"{found.name or result.ref}: {_alarm(found.findings)}, {plural(found.checks, 'check')} of the settings"])
        print_lines([*_derived(found)])
    print_lines(_explain([finding for found in (result.lint, *result.more) for finding in found.findings]))


def _derived(found: "Lint") -> Iterator[str]:
    for name, value in found.derived.items():
        said = percent(value) if name.endswith("share_of_budget") else f"{value:g}" if "learning_rate" in name else number(value, 4)
        label = name.removesuffix("_percent").replace("_", " ") + (" %" if name.endswith("_percent") else "")
        yield f"  {label:<28}{said:<12}{UNITS.get(name, '')}".rstrip()


def _print_finding(finding: "Finding", place: str) -> None:
    from rich.text import Text

    severity = finding.severity.value
    line = Text(f"{severity.upper():<8} ", style=STYLES[severity])
    line.append(f"{place}{finding.rule} {finding.name}: {finding.text}", style="default")
    console.results().print(line, soft_wrap=True)


def _alarm(findings: "Sequence[Finding]") -> str:
    counts = [(level, sum(finding.severity.value == level for finding in findings)) for level in ("high", "medium", "low")]
    told = ", ".join(f"{many} {level}" for level, many in counts if many)
    return f"{plural(len(findings), 'finding')} ({told})" if findings else "nothing found"


def _explain(findings: "Sequence[Finding]") -> list[str]:
    return [f"why       rlclinic rules {findings[0].rule}"] if findings else []


# ── scripts ──


def print_code(result: "CodeLintReport") -> None:
    """`lint --code FILE`."""
    found = result.lint
    for finding in found.findings:
        _print_finding(finding, f"{finding.evidence[0].series.removeprefix('code:')}  ")
        print_lines([f"         | {finding.evidence[0].text}", *(f"         fix: {remedy.text}" for remedy in finding.remedies)])
    print_lines([f"skipped  {each.file}: {each.why}" for each in found.skipped])
    size = f"{plural(found.files, 'file')}, {count(found.lines)} lines, {plural(found.checks, 'check')}"
    print_lines([f"{found.target}: {_alarm(found.findings)}; {size}", *_explain(found.findings)])


# ── environments ──


def print_env(result: "EnvLintReport") -> None:
    """`lint --env ID`."""
    found = result.lint
    for finding in found.findings:
        _print_finding(finding, "")
        print_lines([f"         fix: {remedy.text}" for remedy in finding.remedies])
    print_lines([f"{found.name}: {_alarm(found.findings)}; {plural(found.checks, 'check')} in {duration(found.seconds)}"])
    print_lines([*_spaces(found)])
    _print_played(found)
    _print_dimensions(found)
    print_lines([f"  skipped        {phase}: {why}" for phase, why in found.skipped.items() if phase != "scripted actions"])
    print_lines(_explain(found.findings))


def _spaces(found: "EnvLint") -> Iterator[str]:
    limit = f"{found.time_limit} steps" if found.time_limit else "none"
    ends = ", ".join(f"{many} {kind}" for kind, many in found.ends.items())
    yield f"  observation    {found.observation}"
    yield f"  action         {found.action}"
    yield f"  episodes       time limit {limit}; random ones: {ends}" + (
        f"; step() after the end {found.step_after_end}" if found.step_after_end else ""
    )
    if found.rewards:
        told = found.rewards
        spread = f"{number(told['min'])} to {number(told['max'])}, mean {number(told['mean'])}"
        yield f"  reward         {spread}; {percent(told['nonzero'])} of steps not 0, {number(told['distinct'])} values"
    if found.success is not None:
        yield f"  success        {percent(found.success)} of random episodes"
    if found.steps_per_second:
        million = duration(1e6 / found.steps_per_second)
        yield f"  speed          {count(found.steps_per_second)} steps/s: a million steps in {million}, one copy, no learning"


def _print_played(found: "EnvLint") -> None:
    table = bare_table("  actions", ">return", "95 %", ">length", ">episodes")
    for each in found.played:
        open_end = f"{each.unfinished_steps}+ steps, no end" if not each.episodes else BLANK
        length = BLANK if each.length is None else number(each.length)
        table.add_row(
            f"  {each.label}",
            number(each.mean) if each.mean is not None else open_end,
            interval(each.low, each.high),
            length,
            str(each.episodes),
        )
    if found.played:
        console.results().print(table)


def _print_dimensions(found: "EnvLint") -> None:
    if not found.dimensions:
        return
    table = bare_table("  observation", ">mean", ">deviation", ">lowest", ">highest")
    for place, each in enumerate(found.dimensions[:MOST_DIMENSIONS]):
        label = SUMMED_UP[place] if found.summed_up else f"[{place}]"
        table.add_row(f"  {label}", *(number(each[key]) for key in ("mean", "std", "min", "max")))
    console.results().print(table)
    if len(found.dimensions) > MOST_DIMENSIONS:
        print_lines([f"  … and {len(found.dimensions) - MOST_DIMENSIONS} more: --json"])
