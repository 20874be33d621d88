"""`rlclinic serve`, `mcp`, `db` and `agents install`: the servers, who may come in, the index behind their lists, agents' files."""

import importlib.util
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast, get_args

import typer

from rlclinic.errors import UsageError
from rlclinic.serve.cli import options
from rlclinic.serve.cli.commands.jobs import Budgeted, Wall, agents_app, set_budget

if TYPE_CHECKING:
    from rlclinic.serve.http.security.tokens import TokenList

serve_app = typer.Typer(help="Serve the dashboard, the HTTP API and MCP.", invoke_without_command=True, no_args_is_help=False)
token_app = typer.Typer(help="Who may come in: tokens with scopes.", no_args_is_help=True)
db_app = typer.Typer(help="The index of runs behind searches, and the queue of jobs; run folders stay the truth.", no_args_is_help=True)
serve_app.add_typer(token_app, name="token")

Scope = Literal["read", "own", "write"]
TokenFile = Annotated[Path | None, typer.Option("--token-file", help="Where hashed tokens lie (RUNS/@server/tokens.json).")]


@serve_app.callback()
def serve(
    ctx: typer.Context,
    host: Annotated[str, typer.Option(help="Address to listen on; other machines need a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(**options.read_number(True, 0, 65_535))] = 8642,
    read_only: Annotated[bool, typer.Option("--read-only", help="Nobody may start, stop or change anything.")] = False,
    require_token: Annotated[bool, typer.Option("--require-token", help="Ask for a token on this machine too.")] = False,
    no_token: Annotated[bool, typer.Option("--no-token", help="Let every user of this machine in without one.")] = False,
    allow_host: Annotated[list[str] | None, typer.Option("--allow-host", help="Another name of this server. Repeatable.")] = None,
    project: Annotated[
        list[str] | None,
        typer.Option("--project", metavar="NAME=DIR", help="Serve this folder's runs, too, to tokens of that project. Repeatable."),
    ] = None,
    token_file: TokenFile = None,
    mcp: Annotated[bool, typer.Option("--mcp/--no-mcp", help="Answer agents at /mcp.")] = True,
    mcp_write: Annotated[bool, typer.Option("--mcp-write", help="Agents at /mcp with a write token may start and stop things.")] = False,
    mcp_all_runs: Annotated[bool, typer.Option("--mcp-all-runs", help="They may also stop and change what they did not start.")] = False,
    root_path: Annotated[str, typer.Option("--root-path", help="Behind a proxy at a path of its own: /rl. It must pass on Host.")] = "",
    https: Annotated[bool, typer.Option("--https", help="Behind a proxy that speaks HTTPS: cookies for HTTPS only.")] = False,
    prepare: Annotated[bool, typer.Option("--prepare/--no-prepare", help="Diagnose ended groups before anybody asks.")] = True,
    workers: Annotated[int, typer.Option(**options.read_number(True, 1, 64), help="Processes that answer.")] = 1,
    redis: Annotated[
        str | None, typer.Option("--redis", metavar="URL", help="Servers tell each other at once, and share limits; else RLCLINIC_REDIS.")
    ] = None,
    db: options.Db = None,
    runs_dir: options.RunsDir = Path("runs"),
) -> None:
    """Serve the dashboard, the HTTP API (/api/v1) and MCP (/mcp) until interrupted; trainings that it started go on."""
    if ctx.invoked_subcommand is not None:
        return
    _installed()
    from rlclinic.runs.store import Store
    from rlclinic.serve.http import start
    from rlclinic.serve.http.replicas import redis_link
    from rlclinic.serve.http.settings import Settings, check_root_path

    redis_link.choose(redis)
    settings = Settings(
        host=host,
        port=port,
        read_only=read_only,
        require_token=require_token,
        no_token=no_token,
        projects=_read_projects(project or []),
        allow_hosts=tuple(allow_host or ()),
        token_file=token_file,
        mcp=mcp,
        mcp_write=mcp_write,
        mcp_all_runs=mcp_all_runs,
        https=https,
        root_path=check_root_path(root_path),
        prepare=prepare,
    )
    start.serve(Store(runs_dir), settings, workers, say=partial(typer.echo, err=True))


def mcp(
    budget_env_steps: Budgeted = None,
    budget_wall: Wall = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only the tools that look.")] = False,
    all_runs: Annotated[bool, typer.Option("--all-runs", help="Agents may also stop and change what they did not start.")] = False,
    allow_path: Annotated[list[Path] | None, typer.Option(help="Logs may also be read from this folder. Repeatable.")] = None,
    db: options.Db = None,
    runs_dir: options.RunsDir = Path("runs"),
) -> None:
    """Serve coding agents on stdin and stdout (Model Context Protocol). What they start goes on when this ends."""
    if importlib.util.find_spec("mcp") is None:
        raise UsageError("the MCP server needs mcp, which is not installed.\n  Nothing can be served.\n  Type: pip install 'rlclinic[mcp]'")
    from rlclinic.runs.store import Store
    from rlclinic.serve.mcp.server import serve_stdio
    from rlclinic.serve.mcp.settings import Settings, agent, agent_for_all

    if budget_env_steps is not None or budget_wall is not None:
        set_budget(runs_dir, budget_env_steps, budget_wall)
    who = agent_for_all if all_runs else agent
    serve_stdio(Store(runs_dir), Settings(local=True, read_only=read_only, allowed_paths=tuple(allow_path or ()), caller=who))


@token_app.command("add")
def token_add(
    name: Annotated[str, typer.Argument(help="Whose it is; the audit log names them so.")],
    scope: Annotated[
        Scope,
        typer.Option(help="read: look only. own: also start, and stop or change what it started. write: stop and change everything."),
    ] = "read",
    project: Annotated[
        list[str] | None,
        typer.Option("--project", metavar="NAME[=SCOPE]", help="For this project alone, with a scope of its own. Repeatable."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Take the token in this file, a cluster's secret; the one of that name is replaced."),
    ] = None,
    token_file: TokenFile = None,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Make a token. It is shown once; only its hash is kept."""
    from rlclinic import plain_files
    from rlclinic.serve.cli import console
    from rlclinic.serve.http.security.tokens import Tokens
    from rlclinic.serve.http.settings import Settings

    tokens, scopes = Tokens(Settings(token_file=token_file).tokens_path(runs_dir)), _read_scopes(project or [], scope)
    if source is not None:
        try:
            token = plain_files.read_text(source, 1_000, errors="replace").strip()
        except OSError as error:
            raise UsageError(f"--from {source}: {error.strerror}.\n  No token was taken.\n  Name a file that holds one") from error
        made = tokens.put(name, token, scope, scopes)
    else:
        made = tokens.add(name, scope, scopes)
    if as_json:
        console.print_json(made)
        return
    if source is None:
        typer.echo(made.token)
    rights = ", ".join(f"{given} in {where}" for where, given in made.projects.items()) or made.scope
    typer.echo(f"{made.name}: {rights}. Keep it: only its hash is in {made.file}", err=True)


@token_app.command("list")
def token_list(token_file: TokenFile = None, runs_dir: options.RunsDir = Path("runs"), as_json: options.Json = False) -> None:
    """List tokens, without their secrets."""
    from rlclinic.serve.http.security.tokens import Tokens
    from rlclinic.serve.http.settings import Settings

    _show_tokens(Tokens(Settings(token_file=token_file).tokens_path(runs_dir)).listed(), as_json)


@token_app.command("revoke")
def token_revoke(name: str, token_file: TokenFile = None, runs_dir: options.RunsDir = Path("runs"), as_json: options.Json = False) -> None:
    """Forget a token, and every browser that came in with it; a running server notices at once."""
    from rlclinic.serve.http.security.tokens import Tokens
    from rlclinic.serve.http.settings import Settings

    _show_tokens(Tokens(Settings(token_file=token_file).tokens_path(runs_dir)).revoke(name), as_json)


@db_app.command("reindex")
def db_reindex(runs_dir: options.RunsDir = Path("runs"), as_json: options.Json = False) -> None:
    """Read every run folder again and make the index anew."""
    _index(runs_dir, as_json, full=True)


@db_app.command("status")
def db_status(runs_dir: options.RunsDir = Path("runs"), as_json: options.Json = False) -> None:
    """Bring the index up to date with the folders that changed, and say how it stands."""
    _index(runs_dir, as_json, full=False)


@db_app.command("migrate")
def db_migrate(db: options.Db = None, runs_dir: options.RunsDir = Path("runs"), as_json: options.Json = False) -> None:
    """Make the tables of the queue of jobs and of the audit, or bring them up to date."""
    from rlclinic.ops.jobs import database
    from rlclinic.serve.cli import console

    done = database.migrate_database(runs_dir)
    console.print_json(done) if as_json else typer.echo(f"{done.database}: tables of version {done.now} (before: {done.before or 'none'})")


@db_app.command("move")
def db_move(
    origin: Annotated[str, typer.Option("--from", metavar="URL", help="Where the queue is now: sqlite, or a URL.")] = "sqlite",
    db: options.Db = None,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Take this store's queue of jobs, and its audit, from one database to another; workers are stopped before."""
    from rlclinic.ops.jobs import database
    from rlclinic.serve.cli import console

    moved = database.move_queue(origin, runs_dir)
    console.print_json(moved) if as_json else typer.echo(
        f"{moved.jobs} jobs, {moved.waiting} of them waiting, and {moved.audit_lines} lines of the audit are now in {moved.database}"
    )


@db_app.command("check")
def db_check(db: options.Db = None, runs_dir: options.RunsDir = Path("runs"), as_json: options.Json = False) -> None:
    """Say whether the queue of jobs can be reached, and whether it agrees with the store. Exit code 1 if not."""
    from rlclinic import plain_text
    from rlclinic.ops.jobs import database
    from rlclinic.serve.cli import console

    found = database.check_database(runs_dir)
    if as_json:
        console.print_json(found)
    else:
        states = ", ".join(f"{count} {state}" for state, count in sorted(found.states.items())) or "no jobs"
        answer = f"answers in {found.round_trip_seconds * 1e3:.1f} ms, its clock differs by {found.clock_difference_seconds:+.1f} s"
        late = f", {len(found.late)} late" if found.late else ""
        typer.echo(f"{found.kind} {found.database}: {answer}; {states}{late}; audit: {found.audit_lines} lines")
        for problem in found.problems:
            typer.echo(plain_text.clean(f"PROBLEM  {problem}"))
    if found.problems:
        raise typer.Exit(1)


def _index(runs_dir: Path, as_json: bool, *, full: bool) -> None:
    _installed()
    from rlclinic.ops.runs import search
    from rlclinic.serve.cli import console

    index = search.reindex(runs_dir, full=full)
    if as_json:
        console.print_json(index)
        return
    typer.echo(f"{index.runs} runs in {index.groups} groups, {index.answers} kept answers, {index.bytes / 1e6:.1f} MB   {index.path}")
    typer.echo(f"{index.behind} runs read in {index.seconds:.2f} s")


def _show_tokens(listed: "TokenList", as_json: bool) -> None:
    import time

    from rlclinic.serve.cli import console

    if as_json:
        console.print_json(listed)
        return
    for token in listed.tokens:
        rights = ",".join(f"{where}={given}" for where, given in token.projects.items()) or token.scope
        typer.echo(f"{token.name:20} {rights:6} {time.strftime('%Y-%m-%d %H:%M', time.localtime(token.created))}")
    if not listed.tokens:
        typer.echo("no tokens; make one: rlclinic serve token add NAME", err=True)


def _read_projects(given: list[str]) -> dict[str, Path]:
    from rlclinic.serve.http.security.tokens import check_name

    projects = {}
    for text in given:
        name, separator, folder = text.partition("=")
        if not separator or not folder:
            raise UsageError(f"--project {text}: a project has a name and a folder.\n  Nothing was started.\n  Type: --project NAME=DIR")
        check_name(name)
        projects[name] = Path(folder).absolute()
    return projects


def _read_scopes(given: list[str], scope: Scope) -> dict[str, Scope]:
    scopes: dict[str, Scope] = {}
    for text in given:
        name, separator, own = text.partition("=")
        if own not in get_args(Scope) and separator:
            raise UsageError(f"--project {text}: {own!r} is no scope.\n  No token was made.\n  Take read, own or write")
        scopes[name] = cast(Scope, own) if separator else scope
    return scopes


def _installed() -> None:
    missing = [name for name in ("fastapi", "uvicorn", "sqlalchemy", "alembic") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"the server needs {', '.join(missing)}, which is not installed.\n  Type: pip install 'rlclinic[server]'")


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
    result = install.install(client, where, server_name=server_name, dry_run=dry_run, force=force)
    if as_json:
        console.print_json(result)
        return
    for file in result.files:
        typer.echo(f"{file.action if result.written else 'would be ' + file.action:<16}  {file.path}")
    for line in result.next:
        typer.echo(f"next      {line}")


def register(app: typer.Typer) -> None:
    """Add the commands to the root command."""
    app.command()(mcp)
    app.add_typer(serve_app, name="serve")
    app.add_typer(db_app, name="db")
