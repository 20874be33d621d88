"""The morning report: what ran while nobody looked, what was found, what is adopted, what is left to do and to spend."""

import time
from pathlib import Path

from rlclinic.ops.jobs import audit, budget, models
from rlclinic.ops.jobs.requests import HOUR
from rlclinic.report.document import render_markdown
from rlclinic.report.jobs.daily_report import MorningReport, Ran, describe, list_open
from rlclinic.runs.store import Store


def morning_report(runs_dir: Path = Path("runs"), *, hours: float = 24.0) -> MorningReport:
    """What ran, what was found, what is adopted and what is left, over the last day (or another time)."""
    store, since = Store(runs_dir), time.time() - hours * HOUR
    jobs = [job for job in models.started(store)[::-1] if (job.ended or job.heartbeat or job.created) >= since]
    ran = [
        Ran(
            job=job.id,
            kind=job.kind,
            refers=job.refers,
            state=job.state,
            target=job.target,
            env_steps=budget.used_env_steps(store, job),
            wall_seconds=round(job.wall_seconds, 1),
            reason=None if job.reason is None else job.reason.splitlines()[0],
        )
        for job in jobs
        if job.kind != "evaluation"
    ]
    lines = [line for line in audit.get_ledger(runs_dir, limit=None).entries if (line.ended or line.started) >= since]
    outcomes = [line for line in lines if line.kind != "adopt" and line.outcome is not None]
    adopted = [line for line in lines if line.kind == "adopt"]
    report = MorningReport(since=since, ran=ran, found=outcomes, adopted=adopted, left=[], budget=budget.get_budget(runs_dir), text="")
    return report.model_copy(update={"left": list_open(report), "text": render_markdown(describe(report))})
