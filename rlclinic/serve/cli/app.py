"""The `rlclinic` command: a table over `rlclinic.ops`.

Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 failed, 2 usage or config, 3 not found,
4 threshold missed (with --require-threshold), 5 a finding (with --fail-on), 6 a regression, 130 interrupted, 143 terminated.
Nothing heavy is imported before a command needs it.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from rlclinic.errors import RlclinicError
from rlclinic.serve.cli import options
from rlclinic.serve.cli.commands import agents, compare, diagnose, history, lint, profile, runs, server, status, treat, trial

if TYPE_CHECKING:
    from rlclinic.report.models import TrainResult

INTERRUPTED, TERMINATED, THRESHOLD_MISSED = 130, 143, 4


class Commands(TyperGroup):
    """Turns rlclinic's errors into their text on stderr and their exit code; nobody sees a traceback unasked."""

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


def _fail(error: BaseException, text: str, code: int) -> None:
    if os.environ.get("RLCLINIC_DEBUG"):
        raise error
    typer.echo(text, err=True)
    raise typer.Exit(code)


app = typer.Typer(
    name="rlclinic",
    cls=Commands,
    help="Train an RL agent, find out why a run does not learn, and prove the fix.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(runs.app, name="runs")
diagnose.register(app)
lint.register(app)
history.register(app)
compare.register(app)
treat.register(app)
trial.register(app)
server.register(app)
agents.register(app)
profile.register(app)
config_app = typer.Typer(help="Look at configs.", no_args_is_help=True)
app.add_typer(config_app, name="config")


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
) -> None:
    pass


@app.command()
def train(
    ctx: typer.Context,
    ref: options.Reference = None,
    seed: options.Seed = None,
    seeds: options.Seeds = None,
    changes: options.Set = None,
    rx: options.Prescribed = None,
    max_env_steps: options.Steps = None,
    resume: options.Resume = None,
    init_from: options.InitFrom = None,
    env_workers: options.EnvWorkers = None,
    device: options.Device = None,
    engine: options.Engine = None,
    threads: options.Threads = None,
    jobs: options.Jobs = None,
    detach: options.Detach = False,
    tensorboard: options.TensorBoard = False,
    save_replay: options.SaveReplay = True,
    report: options.Report = True,
    name: options.Label = None,
    runs_dir: options.RunsDir = Path("runs"),
    require_threshold: options.RequireThreshold = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    yes: options.Yes = False,
) -> None:
    """Train an agent with one or many seeds, and say how it went."""
    from rlclinic.ops.train.plan import TrainRequest

    if detach and require_threshold:
        raise typer.BadParameter("--detach returns before the threshold can be known; leave out --require-threshold")
    # The options have the names of the request's fields: what the request does not know is about this command.
    asked = {key: value for key, value in ctx.params.items() if key in TrainRequest.model_fields and value is not None}
    result = _train(TrainRequest(**asked), quiet, as_json, yes)
    if require_threshold and result.report is not None and result.report.verdict != "SOLVED":
        raise typer.Exit(THRESHOLD_MISSED)


def _train(request: Any, quiet: bool, as_json: bool, yes: bool) -> "TrainResult":
    """Train, show, and end with the exit code that says how it ended."""
    from rlclinic.ops.train.plan import plan_training
    from rlclinic.ops.train.run import train
    from rlclinic.serve.cli import console, progress
    from rlclinic.serve.cli.text import results

    plan = plan_training(request)
    if plan.question and not yes and console.is_attended() and not console.confirm(plan.question):
        raise typer.Exit(2)
    with progress.watch(quiet) as view:
        for note in plan.notes:
            view.say(note)
        console.audit_start(request.runs_dir, "training", request.resume or request.ref or request.init_from or "")
        result = train(plan, watch=None if quiet else view, say=view.say)
    console.print_json(result) if as_json else results.print_train(result)
    if result.signal:
        raise typer.Exit(TERMINATED if result.signal == "SIGTERM" else INTERRUPTED)
    if result.failed:
        raise typer.Exit(1)
    return result


@app.command()
def play(
    run: options.Selector = "@last",
    episodes: Annotated[int, typer.Option("--episodes", "-n", min=1, help="How many.")] = 3,
    sampled: Annotated[bool, typer.Option("--sampled", help="Sample actions as in training, instead of the most likely ones.")] = False,
    render_mode: Annotated[str, typer.Option("--render", help="human (a window), ansi (text, or blocks of colour) or none.")] = "human",
    seed: Annotated[int | None, typer.Option(min=0, help="Other start states.")] = None,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Watch a trained policy act. RUN/@best (the default), RUN/@last or RUN@STEP."""
    from rlclinic.ops.runs.policy import play
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = play(run, runs_dir, episodes=episodes, deterministic=not sampled, render=render_mode, seed=seed)
    console.print_json(result) if as_json else results.print_evaluation(result)


@app.command()
def evaluate(
    run: options.Selector = "@last",
    episodes: Annotated[int, typer.Option("--episodes", "-n", min=1, help="How many, in parallel.")] = 100,
    sampled: Annotated[bool, typer.Option("--sampled", help="Sample actions as in training, instead of the most likely ones.")] = False,
    video: Annotated[Path | None, typer.Option(help="Also record an episode: out.mp4 or out.gif.")] = None,
    require_threshold: options.RequireThreshold = False,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Score a trained policy from fixed start states. RUN/@best (the default), RUN/@last or RUN@STEP."""
    from rlclinic.ops.runs.policy import evaluate
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = evaluate(run, runs_dir, episodes=episodes, deterministic=not sampled, video=video)
    console.print_json(result) if as_json else results.print_evaluation(result)
    if require_threshold and (result.threshold is None or result.return_mean < result.threshold):
        raise typer.Exit(THRESHOLD_MISSED)


@app.command()
def envs(
    pattern: Annotated[str, typer.Argument(help="Only names that contain this.")] = "",
    as_json: options.Json = False,
) -> None:
    """List environments with tuned variants, their thresholds and what was measured."""
    from rlclinic.ops.runs.environments import list_environments
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = list_environments(pattern)
    console.print_json(result) if as_json else results.print_environments(result)


@config_app.command("show")
def config_show(
    ref: Annotated[str, typer.Argument(help="CartPole-v1:ppo, a YAML file, a run or a group.", autocompletion=options.complete_reference)],
    changes: options.Set = None,
    origins: Annotated[bool, typer.Option("--origins", help="Say where each value comes from.")] = False,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Print a whole config, as it would be trained, and the numbers that follow from it."""
    from rlclinic.ops.runs.environments import show_config
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = show_config(ref, changes or [], runs_dir)
    console.print_json(result) if as_json else results.print_config(result, origins)


status.register(app)


@app.command()
def stop(run: options.Selector = "@running", runs_dir: options.RunsDir = Path("runs"), as_json: options.Json = False) -> None:
    """Ask runs to save a checkpoint and stop."""
    from rlclinic.ops.jobs import audited
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = audited.stop_training(run, runs_dir, by=console.person())
    console.print_json(result) if as_json else results.print_requested(result, "checkpoint and stop")


@app.command()
def adjust(
    run: options.Selector = "@running", changes: options.Set = None, runs_dir: options.RunsDir = Path("runs"), as_json: options.Json = False
) -> None:
    """Change a number of a run while it trains: --set algo.ent_coef=0.01."""
    from rlclinic.ops.jobs import audited
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = audited.adjust_run(run, changes or [], runs_dir, by=console.person())
    console.print_json(result) if as_json else results.print_requested(result, "set ")


@app.command()
def doctor(runs_dir: options.RunsDir = Path("runs"), as_json: options.Json = False) -> None:
    """Check this installation and machine, and say what to type."""
    from rlclinic.ops.train.machine import doctor
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = doctor(runs_dir)
    console.print_json(result) if as_json else results.print_doctor(result)
    if not result.healthy:
        raise typer.Exit(1)


DEMO = (
    ("a group that does not learn", "train CartPole-v1:ppo_zoo --seeds 4 --set algo.learning_rate=0.1 --max-env-steps {steps}"),
    ("why?", "diagnose @last"),
    ("is the first prescription a cure?", "trial @last --rx 1 --yes"),
    ("it is kept, with its evidence", "adopt @last --as CartPole-v1:demo --force"),
)
"""What the demo types: the whole loop on a sick CartPole."""


@app.command()
def demo(
    max_env_steps: Annotated[int, typer.Option("--max-env-steps", min=1, help="Env steps of each run.")] = 30_000,
    runs_dir: options.RunsDir = Path("runs"),
) -> None:
    """Show the whole loop in about two minutes: train a sick CartPole, diagnose, prescribe, try the cure on fresh seeds, adopt it."""
    for title, line in DEMO:
        words = line.format(steps=max_env_steps).split()
        typer.secho(f"\n── {title} ──\n$ rlclinic {' '.join(words)}", bold=True)
        code = app([*words, "--runs-dir", str(runs_dir)], standalone_mode=False)
        if code:
            raise typer.Exit(code)


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal without UTF-8 gets question marks for ░ and ╭, not a crash.
            stream.reconfigure(errors="replace")
    app()


if __name__ == "__main__":
    main()
