"""The `rlclinic` command: a table over `rlclinic.ops`.

Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 failed, 2 usage or config, 3 not found,
4 threshold missed (with --require-threshold), 5 a finding (with --fail-on), 6 a regression, 130 interrupted, 143 terminated.
Nothing heavy is imported before a command needs it.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rlclinic import plain_text, trust
from rlclinic.errors import RlclinicError, Untrusted
from rlclinic.ops.operations import Operation, has_outside
from rlclinic.serve.cli import console, options
from rlclinic.serve.cli.commands import (
    approvals,
    artifacts,
    compare,
    curriculum,
    data,
    diagnose,
    jobs,
    new,
    reward,
    runs,
    serve,
    status,
    train,
    treat,
)

INTERRUPTED = 130


PANELS = {
    "Begin": ("demo", "doctor", "envs", "new", "ask", "guide"),
    "Train": ("train", "status", "adjust", "stop", "label", "play", "evaluate", "config", "profile"),
    "Look at what came out": ("runs", "compare", "import", "history", "efficiency", "curriculum"),
    "Find out why it does not learn": ("diagnose", "lint", "rules", "explore", "reward"),
    "Prove the fix": ("prescribe", "trial", "adopt", "race", "optimize", "sensitivity", "regress", "questions"),
    "Learn from recorded data": ("data", "advise"),
    "Browser, agents, other machines": ("serve", "mcp", "agents", "worker", "db", "artifacts", "trust"),
}
"""The commands as `--help` lists them: in the order in which somebody new needs them."""


class Commands(TyperGroup):
    """Turns rlclinic's errors into their text on stderr and their exit code; nobody sees a traceback unasked."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every command as PANELS has them, then those that other packages bring, as far as they can be imported."""
        ours = [name for names in PANELS.values() for name in names]
        try:
            return [*ours, *(_find_outside() if has_outside() else {})]
        except RlclinicError:
            return ours

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by its name. Other packages are asked only for names that are not ours."""
        command = super().get_command(ctx, cmd_name)
        operation = None if command is not None else _find_outside().get(cmd_name)
        if operation is None:
            return command
        from rlclinic.serve.cli.commands import outside

        return outside.make(operation)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """--trust may stand anywhere: whoever is told to add it adds it at the end."""
        ours = args[: args.index("--")] if "--" in args else args
        if "--trust" in ours:
            args = ["--trust", *(word for word in ours if word != "--trust"), *args[len(ours) :]]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was typed."""
        try:
            return super().invoke(ctx)
        except RlclinicError as error:
            _fail(error, str(error), error.exit_code)
        except KeyboardInterrupt as error:
            _fail(error, "interrupted", INTERRUPTED)
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
            raise
        except Exception as error:  # the outermost boundary: a bug must not look like a crash of the shell
            if type(error).__module__.startswith("typer"):
                raise
            _fail(error, f"rlclinic failed unexpectedly: {type(error).__name__}: {error}\n  See where: RLCLINIC_DEBUG=1 rlclinic …", 1)


def _find_outside() -> "dict[str, Operation]":
    from rlclinic.serve.cli.commands import outside

    return outside.find()


def _fail(error: BaseException, text: str, code: int) -> None:
    if os.environ.get("RLCLINIC_DEBUG"):
        raise error
    # It may name a file or a setting that somebody else has named.
    typer.echo(plain_text.clean(text), err=True)
    raise typer.Exit(code)


app = typer.Typer(
    name="rlclinic",
    cls=Commands,
    help="Train an RL agent, find out why a run does not learn, and prove the fix.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for commands in (train, runs, status, diagnose, treat, compare, data, new, reward, curriculum, jobs, artifacts, serve, approvals):
    commands.register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"rlclinic {version('rlclinic')}")
        except PackageNotFoundError:
            typer.echo("rlclinic, from a checkout that is not installed")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")] = False,
    approves: Annotated[bool, typer.Option("--trust", help="Run code that a run folder or a log names; it is remembered.")] = False,
) -> None:
    trust.ask_with(lambda error: approves or _ask_person(error))


def _ask_person(error: Untrusted) -> bool:
    """Whether the person at this terminal wants code to be run that somebody else has named."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return typer.confirm(f"{plain_text.clean(str(error)).partition(chr(10) + '  A person')[0]}\n  Run it, now and from now on?", err=True)


DEMO = (
    ("a group that does not learn", "train CartPole-v1:ppo_zoo --seeds 4 --set algo.learning_rate=0.1 --max-env-steps {steps}"),
    ("why?", "diagnose @last"),
    ("is the first prescription a cure?", "trial @last --rx 1 --yes"),
    ("it is kept, with its evidence", "adopt @last --as CartPole-v1:demo --force"),
)
"""What the demo types: the whole loop on a sick CartPole."""


@app.command()
def demo(
    max_env_steps: Annotated[int, typer.Option("--max-env-steps", **options.read_number(True, 1), help="Env steps of each run.")] = 30_000,
    runs_dir: options.RunsDir = Path("runs"),
) -> None:
    """Show the whole loop in about two minutes: train a sick CartPole, diagnose, prescribe, try the cure on fresh seeds, adopt it."""
    for title, line in DEMO:
        words = line.format(steps=max_env_steps).split()
        typer.secho(f"\n── {title} ──\n$ rlclinic {' '.join(words)}", bold=True)
        code = app([*words, "--runs-dir", str(runs_dir)], standalone_mode=False)
        if code:
            raise typer.Exit(code)
    if shutil.which("rlclinic") is None:
        # `make demo` runs it from an environment that this shell does not know yet.
        typer.echo(f"\nto type these commands yourself: source {Path(sys.prefix) / 'bin' / 'activate'}")


def _panel_of(name: str) -> str:
    return next(panel for panel, names in PANELS.items() if name in names)


for command in app.registered_commands:
    command.rich_help_panel = _panel_of(str(command.name or getattr(command.callback, "__name__", "")))
for group in app.registered_groups:
    group.rich_help_panel = _panel_of(str(group.name))


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal without UTF-8 gets question marks for ░ and ╭, not a crash.
            stream.reconfigure(errors="replace")
    sys.stdout, sys.stderr = console.Visible(sys.stdout), console.Visible(sys.stderr)
    app()


if __name__ == "__main__":
    main()
