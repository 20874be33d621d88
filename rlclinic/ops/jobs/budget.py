"""What agents may use: env steps and hours of work that a person allows once for a store, and that no start exceeds."""

import time
from pathlib import Path
from typing import Final

from rlclinic.actions import Action
from rlclinic.errors import UsageError
from rlclinic.ops.jobs import models
from rlclinic.ops.jobs.audit import Caller, audit
from rlclinic.ops.jobs.models import Job, Planned
from rlclinic.report.format import count, duration
from rlclinic.report.jobs.daily_report import Budget
from rlclinic.runs import jobs, status_file, trials
from rlclinic.runs.store import Store

ALLOW: Final = ("A person allows more: ", Action("agents budget", env_steps="N", wall="2h"))


def set_budget(
    runs_dir: Path = Path("runs"), *, env_steps: int | None = None, wall_seconds: float | None = None, by: Caller | None = None
) -> Budget:
    """Allow agents this much in this store, all starts together; what they have used already counts. A limit not given stays."""
    store = Store(runs_dir)
    known = jobs.budget(store) or {}
    record = {
        "env_steps": known.get("env_steps") if env_steps is None else env_steps,
        "wall_seconds": known.get("wall_seconds") if wall_seconds is None else wall_seconds,
        "set_at": time.time(),
    }
    changed = any(record[key] != known.get(key) for key in ("env_steps", "wall_seconds"))
    if changed:
        jobs.write_budget(store, record)
        audit(
            store, by or Caller(face="cli"), "budget", str(store.root), env_steps=record["env_steps"], wall_seconds=record["wall_seconds"]
        )
    return get_budget(runs_dir)


def get_budget(runs_dir: Path = Path("runs")) -> Budget:
    """How the budget stands now."""
    return standing(Store(runs_dir))


def standing(store: Store) -> Budget:
    """How the budget stands now."""
    record = jobs.budget(store)
    counted = [job for job in models.started(store) if job.by.budgeted]
    used = held = 0
    for job in counted:
        spent = used_env_steps(store, job)
        used += spent
        held += max(0, (job.max_env_steps or 0) - spent) if job.live else 0
    wall = sum(job.wall_seconds for job in counted)
    if record is None:
        return Budget(allowed=False, used_env_steps=used, held_env_steps=held, used_wall_seconds=wall)
    limit, hours = record.get("env_steps"), record.get("wall_seconds")
    return Budget(
        allowed=True,
        env_steps=limit,
        wall_seconds=hours,
        used_env_steps=used,
        held_env_steps=held,
        used_wall_seconds=wall,
        left_env_steps=None if limit is None else max(0, limit - used - held),
        left_wall_seconds=None if hours is None else max(0.0, hours - wall),
        set_at=record.get("set_at"),
    )


def limit_shared(store: Store, by: Caller) -> int | None:
    """Env steps that jobs for any worker may use together: what others have not used or hold. None: no limit for this caller."""
    record = jobs.budget(store) or {}
    if not by.budgeted or record.get("env_steps") is None:
        return None
    taken = 0
    for job in models.started(store):
        if job.by.budgeted and not job.shared:
            spent = used_env_steps(store, job)
            taken += max(spent, job.max_env_steps or 0) if job.live else spent
    return int(record["env_steps"]) - taken


def check(store: Store, by: Caller, planned: Planned) -> None:
    """UsageError, with what is left, if a start would exceed what its caller may use."""
    if not by.budgeted:
        return
    now = standing(store)
    if not now.allowed:
        raise UsageError(
            "nobody has said how much agents may train in this store.\n  Nothing is started without a budget.\n  A person types: ",
            Action("agents budget", env_steps="20M", wall="2h"),
        )
    if now.left_wall_seconds is not None and now.left_wall_seconds <= 0:
        raise UsageError(
            f"the {duration(now.wall_seconds)} of work that a person allowed are used up ({duration(now.used_wall_seconds)}).\n"
            "  Nothing more is started.\n  ",
            *ALLOW,
        )
    if planned.max_env_steps is None:
        raise UsageError("nobody knows how many env steps this takes.\n  It could exceed the budget.\n  A person starts it")
    if now.left_env_steps is not None and planned.max_env_steps > now.left_env_steps:
        raise UsageError(*_describe_excess(now, planned))


def _describe_excess(now: Budget, planned: Planned) -> tuple[str, ...]:
    left = now.left_env_steps or 0
    held = f", {count(now.held_env_steps)} are held by running jobs" if now.held_env_steps else ""
    each = left // max(planned.runs, 1)
    smaller = f"at most {count(each)} env steps for each of {planned.runs} runs (max_env_steps), or fewer runs (seeds, looks, per_look)"
    return (
        f"this may take {count(planned.max_env_steps)} env steps, and {count(left)} of the {count(now.env_steps)} that a person allowed "
        f"are left{held}.\n  It would exceed the budget.\n  Make it smaller: {smaller}.\n  ",
        *ALLOW,
    )


def used_env_steps(store: Store, job: Job) -> int:
    """Env steps that a job has used so far, those of evaluations too, from the status of its runs."""
    if not job.live and job.used_env_steps is not None:
        return job.used_env_steps
    if job.kind == "training":
        return max(0, sum(status_file.raw(store.root / run).used_env_steps for run in job.runs) - job.before_env_steps)
    if job.refers is None:
        return job.used_env_steps or 0
    return max(0, used_by(store, job.refers, search=job.kind == "optimize") - job.before_env_steps)


def used_by(store: Store, id: str, *, search: bool = False) -> int:
    """Env steps of the runs of a trial or study, and of the trials that a search made for itself."""
    made = {id, *(_confirmations(store, id) if search else ())}
    groups = [group for group in store.groups() if trials.trial_of(group) in made]
    return sum(status_file.raw(run.path).used_env_steps for group in groups for run in group.runs)


def find_confirmations(store: Store, job: Job) -> list[str]:
    """The trials that a search made for itself; none for other jobs."""
    return _confirmations(store, job.refers) if job.kind == "optimize" and job.refers is not None else []


def _confirmations(store: Store, id: str) -> list[str]:
    """The trials that a search made for itself, also the one under way: the ledger names it only when it has ended."""
    return [trial.id for trial in trials.trials(store) if trial.context.get("optimize") == id]
