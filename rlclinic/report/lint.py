"""What lint found, as documents: in settings, in scripts, in an environment."""

from collections.abc import Iterator, Sequence
from typing import Final

from rlclinic.actions import Action, Change
from rlclinic.diagnosis.findings import Finding, Remedy
from rlclinic.diagnosis.lint.code import CodeLint
from rlclinic.diagnosis.lint.config.linter import Lint
from rlclinic.diagnosis.lint.env import EnvLint
from rlclinic.report.diagnosis import SEVERITY_TONES
from rlclinic.report.document import Block, Commands, Rows, Table, Text, Verdict
from rlclinic.report.format import BLANK, count, duration, interval, number, percent, plural

MOST_DIMENSIONS: Final = 16
SUMMED_UP: Final = ("mean of it", "deviation of it", "lowest of it", "highest of it")
UNITS: Final = {
    "horizon_steps": "1/(1 - gamma), steps that count",
    "gae_horizon_steps": "1/(1 - gamma lambda), steps that an advantage looks ahead",
    "samples_per_gradient_step": "rollout / gradient steps on it",
}


def describe_settings(lints: Sequence[Lint], ref: str, ours: bool) -> list[Block]:
    """Findings with what to set, and the numbers that follow from the settings. `ours`: they can be changed here."""
    blocks: list[Block] = []
    for lint in lints:
        for finding in lint.findings:
            blocks += _describe_finding(finding, "", [_describe_remedy(fix, ours) for fix in finding.remedies])
        blocks.append(Text(f"{lint.name or ref}: {_count_findings(lint.findings)}, {plural(lint.checks, 'check')} of the settings"))
        blocks.append(Rows([_describe_derived(name, value) for name, value in lint.derived.items()], 28, 2))
    return [*blocks, *_explain([finding for lint in lints for finding in lint.findings])]


def _describe_remedy(fix: Remedy, ours: bool) -> str:
    if not fix.override:
        return fix.text
    return f"try {Change.typed([fix.override], quoted=True) if ours else fix.override}   {fix.text}"


def _describe_derived(name: str, value: float) -> tuple[str, str]:
    shown = percent(value) if name.endswith("share_of_budget") else f"{value:g}" if "learning_rate" in name else number(value, 4)
    label = name.removesuffix("_percent").replace("_", " ") + (" %" if name.endswith("_percent") else "")
    return label, f"{shown:<12}{UNITS.get(name, '')}".rstrip()


def _describe_finding(finding: Finding, place: str, lines: Sequence[str]) -> list[Block]:
    severity = finding.severity.value
    text = f"{place}{finding.rule} {finding.name}: {finding.text}"
    return [Verdict(severity.upper(), text, SEVERITY_TONES[severity], 9), Rows([("", line) for line in lines], 0, 9)]


def _count_findings(findings: Sequence[Finding]) -> str:
    counts = [(level, sum(finding.severity.value == level for finding in findings)) for level in ("high", "medium", "low")]
    levels = ", ".join(f"{many} {level}" for level, many in counts if many)
    return f"{plural(len(findings), 'finding')} ({levels})" if findings else "nothing found"


def _explain(findings: Sequence[Finding]) -> list[Block]:
    return [Commands([("why", Action("rules", findings[0].rule))])] if findings else []


def describe_code(lint: CodeLint) -> list[Block]:
    """Findings with their lines and fixes, and what was looked at."""
    blocks: list[Block] = []
    for finding in lint.findings:
        line = finding.evidence[0]
        others = [f"| {each.series.removeprefix('code:')}  {each.text}" for each in finding.evidence[1:]]
        fixes = [f"| {line.text}", *others, *(f"fix: {remedy.text}" for remedy in finding.remedies)]
        blocks += _describe_finding(finding, f"{line.series.removeprefix('code:')}  ", fixes)
    blocks.append(Rows([("skipped", f"{skipped.file}: {skipped.why}") for skipped in lint.skipped], 9))
    size = f"{plural(lint.files, 'file')}, {count(lint.lines)} lines, {plural(lint.checks, 'check')}"
    return [*blocks, Text(f"{lint.target}: {_count_findings(lint.findings)}; {size}"), *_explain(lint.findings)]


def describe_env(lint: EnvLint, *, whole: bool = True) -> list[Block]:
    """Findings; spaces, rewards and ends; returns of simple actions; if `whole`, every number of the observation."""
    blocks: list[Block] = []
    for finding in lint.findings:
        lines = [f"| {each.series.removeprefix('code:')}  {each.text}" for each in finding.evidence if each.series.startswith("code:")]
        blocks += _describe_finding(finding, "", [*lines, *(f"fix: {remedy.text}" for remedy in finding.remedies)])
    blocks.append(Text(f"{lint.name}: {_count_findings(lint.findings)}; {plural(lint.checks, 'check')} in {duration(lint.seconds)}"))
    blocks.append(Rows(list(_describe_spaces(lint)), 15, 2))
    if lint.played:
        rows = []
        for played in lint.played:
            mean = number(played.mean) if played.mean is not None else BLANK
            mean = mean if played.episodes else f"{played.unfinished_steps}+ steps, no end"
            length = BLANK if played.length is None else number(played.length)
            rows.append([f"  {played.label}", mean, interval(played.low, played.high), length, str(played.episodes)])
        blocks.append(Table(["  actions", ">return", "95 %", ">length", ">episodes"], rows))
    if lint.dimensions and whole:
        rows = []
        for place, numbers in enumerate(lint.dimensions[:MOST_DIMENSIONS]):
            label = SUMMED_UP[place] if lint.summed_up else f"[{place}]"
            rows.append([f"  {label}", *(number(numbers[key]) for key in ("mean", "std", "min", "max"))])
        blocks.append(Table(["  observation", ">mean", ">deviation", ">lowest", ">highest"], rows))
        if len(lint.dimensions) > MOST_DIMENSIONS:
            blocks.append(Rows([("", f"… and {len(lint.dimensions) - MOST_DIMENSIONS} more: --json")], 0, 2))
    skipped = [("skipped", f"{phase}: {why}") for phase, why in lint.skipped.items() if phase != "scripted actions"]
    return [*blocks, Rows(skipped, 15, 2), *_explain(lint.findings)]


def _describe_spaces(lint: EnvLint) -> Iterator[tuple[str, str]]:
    limit = f"{lint.time_limit} steps" if lint.time_limit else "none"
    ends = ", ".join(f"{many} {kind}" for kind, many in lint.ends.items())
    after = f"; step() after the end {lint.step_after_end}" if lint.step_after_end else ""
    yield "observation", lint.observation
    yield "action", lint.action
    yield "episodes", f"time limit {limit}; random ones: {ends}{after}"
    if lint.rewards:
        rewards = lint.rewards
        spread = f"{number(rewards['min'])} to {number(rewards['max'])}, mean {number(rewards['mean'])}"
        yield "reward", f"{spread}; {percent(rewards['nonzero'])} of steps not 0, {number(rewards['distinct'])} values"
    if lint.success is not None:
        yield "success", f"{percent(lint.success)} of random episodes"
    if lint.steps_per_second:
        million = duration(1e6 / lint.steps_per_second)
        yield "speed", f"{count(lint.steps_per_second)} steps/s: a million steps in {million}, one copy, no learning"
