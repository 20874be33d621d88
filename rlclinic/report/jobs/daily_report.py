"""What happened in a store while nobody looked: what ran, what was found, what is adopted, what is left to do and to spend."""

import time
from collections.abc import Callable

from rlclinic.actions import Action
from rlclinic.report.document import Block, Gap, Heading, Points, Text
from rlclinic.report.format import count, duration, plural, short
from rlclinic.report.models import Result, ResultPart


class LedgerLine(ResultPart):
    """Something that was tried: its hypothesis and change when it began, its outcome once it is known."""

    job: str
    kind: str
    started: float
    by: str
    target: str
    hypothesis: str
    change: list[str]
    outcome: str | None = None
    """None while it runs."""
    verdict: str | None = None
    env_steps: int | None = None
    ended: float | None = None


class Budget(Result):
    """What was allowed, what is used, what running jobs hold, and what is left. None: no limit of that kind."""

    allowed: bool
    """Whether a person has set one at all: without it agents start nothing."""
    env_steps: int | None = None
    wall_seconds: float | None = None
    used_env_steps: int = 0
    held_env_steps: int = 0
    """What running jobs may still use."""
    used_wall_seconds: float = 0.0
    left_env_steps: int | None = None
    left_wall_seconds: float | None = None
    set_at: float | None = None


class Ran(ResultPart):
    """Something that was started."""

    job: str
    kind: str
    refers: str | None
    state: str
    target: str
    env_steps: int
    wall_seconds: float
    reason: str | None


class MorningReport(Result):
    """What happened in a store since a time."""

    since: float
    ran: list[Ran]
    found: list[LedgerLine]
    """Outcomes with their hypotheses, newest first."""
    adopted: list[LedgerLine]
    left: list[str]
    """What is open: things to take up again, verdicts that nobody used."""
    budget: Budget
    text: str
    """All of it as Markdown."""


def describe(report: MorningReport, say: Callable[[Action], str] = str) -> list[Block]:
    """The report as a document. `say`: how its reader says a next step."""
    ran = []
    for job in report.ran:
        target = f" of {job.target}" if job.target else ""
        cost = f"{short(job.env_steps)} env steps, {duration(job.wall_seconds)}"
        ran.append(f"{job.kind} {job.refers or job.job}{target}: {job.state}, {cost}")
    outcomes = []
    for line in report.found:
        tried = " · ".join(part for part in (f"“{line.hypothesis}”" if line.hypothesis else "", "; ".join(line.change)) if part)
        outcomes.append(f"{tried} → {line.outcome}" if tried else str(line.outcome))
    adopted = [f"{line.outcome} (trial {line.target}): {'; '.join(line.change) or 'no change'}" for line in report.adopted]
    return [
        Heading("Morning report", 1),
        Text(f"Since {time.strftime('%Y-%m-%d %H:%M', time.localtime(report.since))}."),
        Gap(),
        Heading("What ran"),
        Points(ran or ["nothing"]),
        Gap(),
        Heading("What was found"),
        Points(outcomes or ["nothing yet"]),
        Gap(),
        Heading("What is adopted"),
        Points(adopted or ["nothing"]),
        Gap(),
        Heading("What is left"),
        Points([*list_open(report, say), f"budget: {describe_budget(report.budget)}"]),
    ]


def list_open(report: MorningReport, say: Callable[[Action], str] = str) -> list[str]:
    """What somebody should look at, the most urgent first."""
    points = []
    for job in report.ran:
        name = f"{job.kind} {job.refers or job.job}"
        if job.state in ("crashed", "failed", "stopped"):
            points.append(f"{name} {job.state}{f' ({job.reason})' if job.reason else ''}: start it again to go on")
        elif job.state == "queued":
            points.append(f"{name} {job.reason}")
        elif job.state in ("starting", "running"):
            points.append(f"{name} still runs")
    trials = {job.job: job.refers for job in report.ran}
    adopted = {line.target for line in report.adopted}
    for line in report.found:
        trial = trials.get(line.job)
        if line.verdict == "adopt" and trial is not None and trial not in adopted:
            points.append(f"trial {trial} says adopt, and nobody has: {say(Action('adopt', trial, as_='ENV:NAME'))}")
        if line.verdict == "undecided":
            points.append(f"trial {trial or line.job} is undecided: more seeds, or another change")
    return points


def describe_budget(budget: Budget) -> str:
    """What is left of what a person allowed, in a sentence."""
    if not budget.allowed:
        return "none was set: agents may start nothing"
    steps, wall = "no limit of env steps", "no limit of time"
    if budget.left_env_steps is not None:
        steps = f"{count(budget.left_env_steps)} of {count(budget.env_steps)} env steps"
    if budget.left_wall_seconds is not None:
        wall = f"{duration(budget.left_wall_seconds)} of {duration(budget.wall_seconds)}"
    held = f" ({plural(budget.held_env_steps, 'env step')} held by running jobs)" if budget.held_env_steps else ""
    return f"{steps} and {wall} left{held}"
