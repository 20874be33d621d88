"""`rlclinic mcp` and `rlclinic agents`: the server for coding agents, what they may use, what they did, and their role files."""

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from rlclinic.errors import UsageError
from rlclinic.serve.cli import options

agents_app = typer.Typer(help="Coding agents: their roles, their budget, what they did.", no_args_is_help=True)
Budgeted = Annotated[
    int | None, typer.Option(parser=options.read_steps, metavar="N", help="Env steps that agents may use in this store, all together.")
]
Wall = Annotated[str | None, typer.Option(metavar="TIME", help="Time that their trainings may take, all together: 90min, 2h.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(mcp)
    app.add_typer(agents_app, name="agents")


def mcp(
    budget_env_steps: Budgeted = None,
    budget_wall: Wall = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only the tools that look.")] = False,
    allow_path: Annotated[list[Path] | None, typer.Option(help="Logs may also be read from this folder. Repeatable.")] = None,
    runs_dir: options.RunsDir = Path("runs"),
) -> None:
    """Serve coding agents on stdin and stdout (Model Context Protocol). What they start goes on when this ends."""
    if importlib.util.find_spec("mcp") is None:
        raise UsageError("the MCP server needs mcp, which is not installed.\n  Nothing can be served.\n  Type: pip install 'rlclinic[mcp]'")
    from rlclinic.runs.store import Store
    from rlclinic.serve.mcp.server import serve_stdio
    from rlclinic.serve.mcp.settings import Settings

    if budget_env_steps is not None or budget_wall is not None:
        _set(runs_dir, budget_env_steps, budget_wall)
    serve_stdio(Store(runs_dir), Settings(local=True, read_only=read_only, allowed_paths=tuple(allow_path or ())))


def _set(runs_dir: Path, env_steps: int | None, wall: str | None) -> None:
    from rlclinic.ops.jobs import budget
    from rlclinic.ops.treat.optimize import seconds_until
    from rlclinic.serve.cli import console

    seconds = None if wall is None else seconds_until(wall)
    budget.set_budget(runs_dir, env_steps=env_steps, wall_seconds=seconds, by=console.person())


@agents_app.command("budget")
def agents_budget(
    env_steps: Budgeted = None, wall: Wall = None, runs_dir: options.RunsDir = Path("runs"), as_json: options.Json = False
) -> None:
    """Say how much agents may train in this store, or show how much of it is left."""
    from rlclinic.ops.jobs import budget, daily_report
    from rlclinic.serve.cli import console

    if env_steps is not None or wall is not None:
        _set(runs_dir, env_steps, wall)
    found = budget.get_budget(runs_dir)
    console.print_json(found) if as_json else typer.echo(f"budget    {daily_report.budget_text(found)}")


@agents_app.command("report")
def agents_report(
    hours: Annotated[float, typer.Option(min=0.01, help="How far back.")] = 24.0,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """The morning report: what ran, what was found, what is adopted, what is left."""
    from rlclinic.ops.jobs import daily_report
    from rlclinic.serve.cli import console

    found = daily_report.morning_report(runs_dir, since_seconds=hours * 3600)
    console.print_json(found) if as_json else typer.echo(found.text.rstrip())


@agents_app.command("audit")
def agents_audit(
    limit: Annotated[int, typer.Option(min=1, help="How many lines.")] = 50,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Every start, stop, adjustment and adoption, by whom, newest first."""
    import time

    from rlclinic.ops.jobs import audit
    from rlclinic.serve.cli import console

    found = audit.audit_log(runs_dir, limit=limit)
    if as_json:
        console.print_json(found)
        return
    for line in found.lines:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(line.time))
        about = " ".join(f"{key}={value}" for key, value in line.about.items() if value not in (None, "", []))
        typer.echo(f"{when}  {line.face}:{line.name}  {line.action} {line.target}  {about}".rstrip())
    typer.echo(f"{len(found.lines)} of {found.total} lines", err=True)


@agents_app.command("install")
def agents_install(
    client: Annotated[str, typer.Option(help="claude, cursor, codex, opencode, or agents (any that reads .agents/skills).")] = "claude",
    server_name: Annotated[str, typer.Option(help="What the client calls the server: tools are mcp__NAME__diagnose_run.")] = "rlclinic",
    everywhere: Annotated[bool, typer.Option("--global", help="Into the home folder instead of this project.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that somebody else wrote.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be written.")] = False,
    as_json: options.Json = False,
) -> None:
    """Write the five expert roles as agent files and skills, and register the MCP server with the client."""
    from rlclinic.serve.agents import install
    from rlclinic.serve.cli import console

    where = Path.home() if everywhere else Path()
    found = install.install(client, where, server_name=server_name, dry_run=dry_run, force=force)
    if as_json:
        console.print_json(found)
        return
    for file in found.files:
        typer.echo(f"{file.action if found.written else 'would be ' + file.action:<16}  {file.path}")
    for line in found.next:
        typer.echo(f"next      {line}")
