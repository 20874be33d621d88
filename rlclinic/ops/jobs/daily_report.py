"""The morning report: what ran while nobody looked, what was found, what is adopted, what is left to do and to spend."""

import time
from pathlib import Path

from rlclinic.actions import Action
from rlclinic.ops.jobs import audit, budget, models
from rlclinic.ops.jobs.audit import LedgerLine
from rlclinic.ops.jobs.budget import Budget
from rlclinic.ops.jobs.models import Job
from rlclinic.report.format import count, duration, plural, short
from rlclinic.report.models import Result, ResultPart
from rlclinic.runs.store import Store

NIGHT_SECONDS = 24 * 3600.0


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

    @property
    def adoptable(self) -> dict[str, Action]:
        """By trial whose verdict is adopt and that nobody has adopted: what does it."""
        trials = {job.job: job.refers for job in self.ran}
        used = {line.target for line in self.adopted}
        won = [trials.get(line.job) for line in self.found if line.verdict == "adopt"]
        return {trial: Action("adopt", trial, as_="ENV:NAME") for trial in won if trial is not None and trial not in used}


def morning_report(runs_dir: Path = Path("runs"), *, since_seconds: float = NIGHT_SECONDS) -> MorningReport:
    """What ran, what was found, what is adopted and what is left, over the last day (or another time)."""
    store, since = Store(runs_dir), time.time() - since_seconds
    jobs = [job for job in models.everything(store)[::-1] if (job.ended or job.heartbeat or job.created) >= since]
    ran = [_ran(store, job) for job in jobs if job.kind != "evaluation"]
    lines = [line for line in audit.get_ledger(runs_dir, limit=None).entries if (line.ended or line.started) >= since]
    found = [line for line in lines if line.kind != "adopt" and line.outcome is not None]
    adopted = [line for line in lines if line.kind == "adopt"]
    report = MorningReport(since=since, ran=ran, found=found, adopted=adopted, left=[], budget=budget.get_budget(runs_dir), text="")
    report = report.model_copy(update={"left": _list_open(report)})
    return report.model_copy(update={"text": _markdown(report)})


def _ran(store: Store, job: Job) -> Ran:
    return Ran(
        job=job.id,
        kind=job.kind,
        refers=job.refers,
        state=job.state,
        target=job.target,
        env_steps=budget.used_env_steps(store, job),
        wall_seconds=round(job.wall_seconds, 1),
        reason=None if job.reason is None else job.reason.splitlines()[0],
    )


def _list_open(report: MorningReport) -> list[str]:
    """What somebody should look at, the most urgent first."""
    said = []
    for job in report.ran:
        if job.state in ("crashed", "failed", "stopped"):
            said.append(
                f"{job.kind} {job.refers or job.job} {job.state}{f' ({job.reason})' if job.reason else ''}: start it again to go on"
            )
        elif job.state in models.LIVE:
            said.append(f"{job.kind} {job.refers or job.job} {job.reason if job.state == 'queued' else 'still runs'}")
    trials, adoptable = {job.job: job.refers for job in report.ran}, report.adoptable
    for line in report.found:
        trial = trials.get(line.job)
        if line.verdict == "adopt" and trial is not None and trial in adoptable:
            said.append(f"trial {trial} says adopt, and nobody has: {adoptable[trial]}")
        if line.verdict == "undecided":
            said.append(f"trial {trial or line.job} is undecided: more seeds, or another change")
    return said


def _markdown(report: MorningReport) -> str:
    budget = report.budget
    lines = ["# Morning report", "", f"Since {time.strftime('%Y-%m-%d %H:%M', time.localtime(report.since))}.", "", "## What ran", ""]
    lines += [f"- {job.kind} {job.refers or job.job}{_of(job)}: {job.state}, {_cost(job)}" for job in report.ran] or ["- nothing"]
    lines += ["", "## What was found", ""]
    lines += [f"- {_tried(line)}{line.outcome}" for line in report.found] or ["- nothing yet"]
    lines += ["", "## What is adopted", ""]
    lines += [f"- {line.outcome} (trial {line.target}): {'; '.join(line.change) or 'no change'}" for line in report.adopted] or [
        "- nothing"
    ]
    lines += ["", "## What is left", ""]
    lines += [f"- {text}" for text in report.left]
    lines.append(f"- budget: {budget_text(budget)}")
    return "\n".join(lines) + "\n"


def _of(job: Ran) -> str:
    return f" of {job.target}" if job.target else ""


def _cost(job: Ran) -> str:
    return f"{short(job.env_steps)} env steps, {duration(job.wall_seconds)}"


def _tried(line: LedgerLine) -> str:
    change = "; ".join(line.change)
    said = " · ".join(part for part in (f"“{line.hypothesis}”" if line.hypothesis else "", change) if part)
    return f"{said} → " if said else ""


def budget_text(budget: Budget) -> str:
    """What is left of what a person allowed, in a sentence."""
    if not budget.allowed:
        return "none was set: agents may start nothing"
    steps = (
        "no limit of env steps"
        if budget.left_env_steps is None
        else f"{count(budget.left_env_steps)} of {count(budget.env_steps)} env steps"
    )
    wall = (
        "no limit of time"
        if budget.left_wall_seconds is None
        else f"{duration(budget.left_wall_seconds)} of {duration(budget.wall_seconds)}"
    )
    held = f" ({plural(budget.held_env_steps, 'env step')} held by running jobs)" if budget.held_env_steps else ""
    return f"{steps} and {wall} left{held}"
