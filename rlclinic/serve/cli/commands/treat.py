"""`rlclinic prescribe`, `sensitivity` and `optimize`: what to change, which numbers matter, and a search that does both."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from rlclinic.serve.cli import options

INTERRUPTED = 130
DEFAULT_BUDGET = 3_000_000
NoRecorded = Annotated[bool, typer.Option("--no-recorded", help="Leave out the recorded trials that ship with rlclinic.")]


DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what it would train and cost, and end.")]
Target = Annotated[str, typer.Argument(help="A group (@last), or ENV:VARIANT.", autocompletion=options.complete_run)]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(prescribe)
    app.command()(sensitivity)
    app.command()(optimize)


def prescribe(
    target: Annotated[
        str,
        typer.Argument(
            help="A group (@last), a run, another framework's folder or file, or - for a log.", autocompletion=options.complete_run
        ),
    ] = "@last",
    framework: Annotated[str | None, typer.Option("--as", help="Also in the words of sb3, cleanrl or gymnasium-solver.")] = None,
    threshold: Annotated[float | None, typer.Option(help="The return that counts as solved, where the log does not say.")] = None,
    budget: options.Steps = None,
    mapping: Annotated[
        list[str] | None, typer.Option("--map", metavar="METRIC=COLUMN", help="What a column of a foreign log is. Repeatable.")
    ] = None,
    no_recorded: NoRecorded = False,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Say which settings to change, to which values, and what to expect of it."""
    from rlclinic.ops.diagnose import prescribe
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text.prescribe import print_prescriptions

    result = prescribe.prescribe(
        target, runs_dir, threshold=threshold, budget=budget, mapping=mapping or [], use_recorded=not no_recorded, framework=framework
    )
    console.print_json(result) if as_json else print_prescriptions(result)


def sensitivity(
    target: Target = "@last",
    seeds: Annotated[int, typer.Option(min=2, help="Seeds for each value; all values share them.")] = 4,
    factors: Annotated[str, typer.Option(help="Times and divided by these.")] = "2,4",
    only: Annotated[list[str] | None, typer.Option("--only", metavar="SETTING", help="Only this number. Repeatable.")] = None,
    shapes: Annotated[bool, typer.Option("--shapes", help="Also n_envs, n_steps, batch_size and n_epochs.")] = False,
    changes: options.Set = None,
    resume: Annotated[str | None, typer.Option(metavar="STUDY", help="Go on with a study, or show one that ended.")] = None,
    jobs: options.Jobs = None,
    dry_run: DryRun = False,
    yes: options.Yes = False,
    quiet: options.Quiet = False,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Say how much each number matters: all of them times and divided by 2 and 4, in one study."""
    from rlclinic.launch.batch import Interrupted
    from rlclinic.ops.train.signals import caught_signals
    from rlclinic.ops.treat import sensitivity
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import study
    from rlclinic.treatment.sensitivity.study import Scope

    planned = None
    if resume is None:
        planned = sensitivity.plan(target, runs_dir, Scope(read_factors(factors), seeds, only or (), shapes), changes or [])
        if dry_run and as_json:
            console.print_json(planned)
        elif not as_json:
            study.print_sensitivity_plan(planned)
        if dry_run or not study.agreed(yes, as_json):
            return
    watch = None if quiet else study.Watch()
    with caught_signals() as caught:
        try:
            if planned is None:
                result = sensitivity.resume(resume or "@last", runs_dir, watch=watch, stop=lambda: bool(caught), cores=jobs)
            else:
                console.audit_start(runs_dir, "sensitivity", target, max_env_steps=planned.max_env_steps)
                result = sensitivity.run(planned, runs_dir, watch=watch, stop=lambda: bool(caught), cores=jobs)
        except Interrupted as error:
            typer.echo(f"{error}\n  Go on: rlclinic sensitivity --resume @last", err=True)
            raise typer.Exit(INTERRUPTED) from None
    console.print_json(result) if as_json else study.print_sensitivity(result)


def read_factors(text: str) -> tuple[float, ...]:
    """Factors as they are typed: 2,4."""
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no list of factors; type for example 2,4") from None


class Goal(StrEnum):
    """What a search minimizes, or raises."""

    steps = "steps"
    wall = "wall"
    stability = "stability"
    final_return = "return"


def optimize(
    target: Target = "@last",
    budget: Annotated[
        int | None, typer.Option(parser=options.read_steps, metavar="N", help="Env steps that everything may take: 3M.")
    ] = None,
    goal: Annotated[Goal, typer.Option("--for", help="Fewer env steps, less time, less spread, or a higher return.")] = Goal.steps,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Stop then: 18:30, or after 2h; --resume goes on.")] = None,
    run_env_steps: Annotated[int | None, typer.Option(parser=options.read_steps, metavar="N", help="Length of one run.")] = None,
    changes: options.Set = None,
    resume: Annotated[str | None, typer.Option(metavar="SEARCH", help="Go on with a search, or show one that ended.")] = None,
    no_recorded: NoRecorded = False,
    jobs: options.Jobs = None,
    dry_run: DryRun = False,
    yes: options.Yes = False,
    quiet: options.Quiet = False,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Search for a better config: diagnose, prescribe, try, confirm on fresh seeds, within one budget."""
    from rlclinic.launch.batch import Interrupted
    from rlclinic.ops.train.signals import caught_signals
    from rlclinic.ops.treat import optimize
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import study

    if resume is None:
        planned = optimize.plan(
            target, runs_dir, budget=budget or DEFAULT_BUDGET, outcome=goal.value, run_env_steps=run_env_steps, changes=changes or []
        )
        if dry_run and as_json:
            console.print_json(planned)
        elif not as_json:
            study.print_search_plan(planned)
        if dry_run or not study.agreed(yes, as_json):
            return
    watch, say = (None, None) if quiet else (study.Watch(), study.say)
    with caught_signals() as caught:
        running: dict[str, Any] = {"until": until, "watch": watch, "say": say, "stop": lambda: bool(caught), "cores": jobs}
        try:
            if resume is not None:
                result = optimize.resume(resume, runs_dir, **running)
            else:
                console.audit_start(runs_dir, "optimize", target, budget=budget or DEFAULT_BUDGET)
                wanted: dict[str, Any] = {"budget": budget or DEFAULT_BUDGET, "outcome": goal.value, "run_env_steps": run_env_steps}
                result = optimize.optimize(target, runs_dir, **wanted, changes=changes or [], use_recorded=not no_recorded, **running)
        except Interrupted as error:
            typer.echo(f"{error}\n  Go on: rlclinic optimize --resume @last", err=True)
            raise typer.Exit(INTERRUPTED if caught else 0) from None
    console.print_json(result) if as_json else study.print_search(result)


def probe_after(target: str, runs_dir: Path, *, yes: bool = False, as_json: bool = False) -> None:
    """`diagnose --probe`: say what would separate the two likeliest causes, make the experiment, and say which of them gained."""
    from rlclinic.launch.batch import Interrupted
    from rlclinic.ops.train.signals import caught_signals
    from rlclinic.ops.treat import probe
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import study

    planned = probe.plan(target, runs_dir)
    if not as_json:
        study.print_probe_plan(planned)
    if planned.experiment is None or not study.agreed(yes, as_json):
        if as_json:
            console.print_json(planned)
        return
    console.audit_start(runs_dir, "probe", target)
    with caught_signals() as caught:
        try:
            result = probe.run(planned, runs_dir, watch=None if as_json else study.Watch(), stop=lambda: bool(caught))
        except Interrupted as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(INTERRUPTED) from None
    console.print_json(result) if as_json else study.print_probe(result)
