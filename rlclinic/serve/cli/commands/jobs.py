"""`rlclinic agents …`: what coding agents may use, and what they did; `worker`: the queue of jobs; `efficiency`: where time went."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlclinic import plain_text
from rlclinic.serve.cli import options

if TYPE_CHECKING:
    from rlclinic.ops.jobs.requests import AuditRequest, BudgetRequest, EfficiencyRequest, ReportRequest

agents_app = typer.Typer(help="Coding agents: their roles, their budget, what they did.", no_args_is_help=True)
Budgeted = Annotated[
    int | None, typer.Option(parser=options.read_steps, metavar="N", help="Env steps that agents may use in this store, all together.")
]
Wall = Annotated[str | None, typer.Option(metavar="TIME", help="Time that their trainings may take, all together: 90min, 2h.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for name, handler in (("budget", agents_budget), ("report", agents_report), ("audit", agents_audit)):
        options.command(agents_app, name, requests="jobs.requests")(handler)
    app.add_typer(agents_app, name="agents")
    app.command()(worker)
    options.command(app, requests="jobs.requests")(efficiency)


def set_budget(runs_dir: Path, env_steps: int | None, wall: str | None) -> None:
    """What agents may use from now on."""
    from rlclinic.ops.jobs import budget
    from rlclinic.ops.treat.optimize import seconds_until
    from rlclinic.serve.cli import console

    seconds = None if wall is None else seconds_until(wall)
    budget.set_budget(runs_dir, env_steps=env_steps, wall_seconds=seconds, by=console.person())


def agents_budget(request: "BudgetRequest", as_json: options.Json = False) -> None:
    """Say how much agents may train in this store, or show how much of it is left."""
    from rlclinic.ops.jobs import budget
    from rlclinic.report.document import Rows
    from rlclinic.report.jobs.daily_report import describe_budget
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import terminal

    if request.env_steps is not None or request.wall is not None:
        set_budget(request.runs_dir, request.env_steps, request.wall)
    left = budget.get_budget(request.runs_dir)
    console.print_json(left) if as_json else terminal.show([Rows([("budget", describe_budget(left))])])


def agents_report(request: "ReportRequest", as_json: options.Json = False) -> None:
    """The morning report: what ran, what was found, what is adopted, what is left."""
    from rlclinic.ops.jobs import daily_report
    from rlclinic.report.jobs.daily_report import describe
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import terminal

    report = daily_report.morning_report(request.runs_dir, hours=request.hours)
    console.print_json(report) if as_json else terminal.show(describe(report))


def agents_audit(request: "AuditRequest", as_json: options.Json = False) -> None:
    """Every start, stop, adjustment and adoption, by whom, newest first."""
    import time

    from rlclinic.ops.jobs import audit
    from rlclinic.serve.cli import console

    log = audit.audit_log(request.runs_dir, limit=request.limit)
    if as_json:
        console.print_json(log)
        return
    for line in log.lines:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(line.time))
        about = " ".join(f"{key}={value}" for key, value in line.about.items() if value not in (None, "", []))
        shown = f"{when}  {line.face}:{line.name}  {line.action} {line.target}  {about}"
        typer.echo(" ".join(plain_text.clean(part) for part in shown.splitlines()).rstrip())
    typer.echo(f"{len(log.lines)} of {log.total} lines", err=True)


def worker(
    until_empty: Annotated[bool, typer.Option("--until-empty", help="End once nothing waits and nothing runs.")] = False,
    db: options.Db = None,
    tags: Annotated[str, typer.Option(metavar="TAG,…", help="What this worker has: jobs that need other tags are left alone.")] = "",
    jobs: Annotated[
        int | None,
        typer.Option(
            **{**options.read_number(True, 0), "metavar": "N"},
            help="Jobs at a time; default: as many as there are cores for (on a Ray cluster elsewhere: cores of it that they may take). "
            "0: only plans trials and searches, which takes none.",
        ),
    ] = None,
    on: options.On = None,
    artifacts: options.Artifacts = None,
    alive: Annotated[Path | None, typer.Option(metavar="FILE", help="Touch this file again and again: for a cluster's probe.")] = None,
    runs_dir: options.OwnRunsDir = Path("runs"),
) -> None:
    """Do queued jobs. Of a shared queue (--db): Ctrl-C gives them back with checkpoints. Without: it ends this alone, jobs go on."""
    from rlclinic.ops.jobs import models, pool, start
    from rlclinic.ops.train import signals
    from rlclinic.runs.database import connections, job_queue
    from rlclinic.runs.store import Store

    store = Store(runs_dir)
    with signals.caught_signals() as caught:
        if connections.shared():
            has = job_queue.check_tags([tag.strip() for tag in tags.split(",") if tag.strip()])
            worker = pool.Worker(store, has, jobs, say=lambda text: typer.echo(plain_text.clean(text), err=True), alive=alive)
            typer.echo(plain_text.clean(f"worker {worker.name}: {worker.cores} cores, {connections.describe(store)}"), err=True)
            worker.work(stop=lambda: len(caught), until_empty=until_empty)
            return
        for id in start.work_off(store, until_empty=until_empty, stop=lambda: bool(caught)):
            job = models.load(store, id)
            typer.echo(plain_text.clean(f"{id}  {'' if job is None else f'{job.kind} {job.refers or job.target}'}"), err=True)


def efficiency(request: "EfficiencyRequest", as_json: options.Json = False) -> None:
    """Where the time of a training went, what it cost, and what another worker would gain."""
    from rlclinic.ops.jobs.efficiency import report_efficiency
    from rlclinic.report.jobs.efficiency import describe
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import terminal

    report = report_efficiency(request.target, request.runs_dir, out=request.out)
    console.print_json(report) if as_json else terminal.show(describe(report))
