"""Who did what: an audit line for every start, stop, adjustment and adoption, and a ledger of what was tried and what came of it."""

import time
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from rlclinic.report.jobs.daily_report import LedgerLine
from rlclinic.report.models import Result, ResultPart
from rlclinic.runs import jobs
from rlclinic.runs.database import audit_lines
from rlclinic.runs.store import Store

Face = Literal["cli", "mcp", "http", "page", "python"]
Action = Literal["start", "stop", "adjust", "adopt", "import", "evaluate", "budget", "remove"]


class Caller(ResultPart):
    """On whose behalf something is done."""

    face: Face = "python"
    name: str = "user"
    """A token's name, an account, or "agent"."""
    budgeted: bool = False
    """Whether it may only use what a person allowed: agents. People at a terminal or in the browser are not limited."""
    own_only: bool = False
    """Whether it may stop, change and remove only what it has started itself: agents, and tokens of scope `own`."""


class AuditLine(ResultPart):
    """One line of the audit log."""

    time: float
    action: Action
    face: str
    name: str
    target: str
    """Run, group, trial, search, job or file."""
    about: dict[str, Any]


class AuditLog(Result):
    """What was done, newest first."""

    lines: list[AuditLine]
    total: int


class Ledger(Result):
    """What was tried in a store, newest first."""

    entries: list[LedgerLine]
    total: int


def audit(store: Store, by: Caller, action: Action, target: str, **about: Any) -> None:
    """Write down that somebody did something, before or right after it is done."""
    line = AuditLine(time=time.time(), action=action, face=by.face, name=by.name, target=target, about=about)
    audit_lines.add(store, line.model_dump(mode="json"))


def audit_log(runs_dir: Path = Path("runs"), *, limit: int = 50) -> AuditLog:
    """The last `limit` lines of the audit log."""
    lines, total = audit_lines.read_last(Store(runs_dir), limit)
    return AuditLog(lines=[line for record in lines if (line := _line(record)) is not None], total=total)


def _line(record: dict[str, Any]) -> AuditLine | None:
    try:
        return AuditLine.model_validate(record)
    except ValidationError:
        return None  # written by another version, or by hand: it must not hide all others


def record_start(store: Store, entry: LedgerLine) -> None:
    """Open an entry of the ledger."""
    jobs.append(store, jobs.LEDGER, entry.model_dump(mode="json", exclude_none=True))


def record_outcome(store: Store, job: str, outcome: str, verdict: str | None, env_steps: int | None) -> None:
    """Close an entry of the ledger."""
    jobs.append(store, jobs.LEDGER, close_entry(job, outcome, verdict, env_steps))


def close_entry(job: str, outcome: str, verdict: str | None, env_steps: int | None) -> dict[str, Any]:
    """The line that closes an entry of the ledger now."""
    return {"job": job, "outcome": outcome, "verdict": verdict, "env_steps": env_steps, "ended": time.time()}


def get_ledger(runs_dir: Path = Path("runs"), *, limit: int | None = 50) -> Ledger:
    """What was tried, newest first: a line that opens an entry and the lines that close it are joined."""
    by_job: dict[str, dict[str, Any]] = {}
    for line in jobs.lines(Store(runs_dir), jobs.LEDGER):
        by_job.setdefault(str(line.get("job")), {}).update(line)
    entries = [LedgerLine(**entry) for entry in reversed(by_job.values()) if "kind" in entry]
    return Ledger(entries=entries if limit is None else entries[:limit], total=len(entries))
