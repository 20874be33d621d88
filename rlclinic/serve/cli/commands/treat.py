"""`rlclinic trial`, `race`, `adopt`, `optimize`, `sensitivity`: does a change help, which is best, keeping it, a search, what matters."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlclinic.actions import Action
from rlclinic.serve.cli import options

if TYPE_CHECKING:
    from rlclinic.ops.treat.race import RaceResult
    from rlclinic.ops.treat.requests import AdoptRequest, OptimizeRequest, QuestionsRequest, RaceRequest, SensitivityRequest, TrialRequest
    from rlclinic.ops.treat.trial import TrialResult

INTERRUPTED, TERMINATED = 130, 143
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what it would train and cost, and end.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for handler in (trial, race, questions, adopt, optimize, sensitivity):
        options.command(app, requests="treat.requests")(handler)


def trial(
    request: "TrialRequest",
    show: Annotated[str | None, typer.Option("--show", metavar="TRIAL", help="Show a trial that was made.")] = None,
    everything: Annotated[bool, typer.Option("--list", help="List the trials that were made.")] = False,
    jobs: options.Jobs = None,
    on: options.On = None,
    artifacts: options.Artifacts = None,
    detach: options.Detach = False,
    db: options.Db = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would do, can see and costs; train nothing.")] = False,
    planned: Annotated[bool, typer.Option("--plan", help="The same with a table of seeds and time against effects.")] = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    yes: options.Yes = False,
) -> None:
    """Try a change against a control on fresh seeds, and say whether it helps, with an interval."""
    from rlclinic.ops.treat import trial
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text.trial import View, print_trials

    if detach:
        options.check_detached(on, jobs)
    if detach and (request.resume is not None or request.extend is not None):
        from rlclinic.ops.jobs.start import start_trial

        console.print_job(start_trial(request, by=console.person()), as_json)
    elif request.resume is not None or request.extend is not None:
        tid = request.resume or trial.extend_trial(request).id
        with View(trial.show_trial(tid, request.runs_dir).trial.plan, quiet) as view:
            result = trial.resume_trial(tid, request.runs_dir, view, jobs)
        _end(result, as_json)
    elif show is not None:
        _end(trial.show_trial(show, request.runs_dir), as_json)
    elif everything:
        listed = trial.list_trials(request.runs_dir)
        console.print_json(listed) if as_json else print_trials(listed)
    else:
        _start_trial(request, jobs, dry_run or planned, planned, quiet, as_json, yes, detach)


def _start_trial(
    request: "TrialRequest", jobs: int | None, dry_run: bool, table: bool, quiet: bool, as_json: bool, yes: bool, detach: bool
) -> None:
    from rlclinic.ops.treat import trial
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text.trial import View, ask_to_start, print_preview

    preview = trial.plan_trial(request, table=table)
    if dry_run:
        console.print_json(preview) if as_json else print_preview(preview, to_results=True)
        return
    if not quiet:
        print_preview(preview)
    if not yes and not ask_to_start():
        raise typer.Exit(2)
    if detach:
        from rlclinic.ops.jobs.start import start_trial

        console.print_job(start_trial(request, by=console.person()), as_json)
        return
    console.audit_start(request.runs_dir, "trial", " ".join(request.targets) or preview.control, arms=preview.arms)
    with View(preview.plan, quiet) as view:
        result = trial.run_trial(preview, request.runs_dir, view, jobs)
    _end(result, as_json)


def _end(result: "TrialResult", as_json: bool) -> None:
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import trial

    console.print_json(result) if as_json else trial.print_trial(result)
    if result.signal:
        raise typer.Exit(TERMINATED if result.signal == "SIGTERM" else INTERRUPTED)


def race(
    request: "RaceRequest",
    show: Annotated[str | None, typer.Option("--show", metavar="RACE", help="Show a race that was made.")] = None,
    everything: Annotated[bool, typer.Option("--list", help="List the races that were made.")] = False,
    jobs: options.Jobs = None,
    on: options.On = None,
    artifacts: options.Artifacts = None,
    detach: options.Detach = False,
    db: options.Db = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would do, can see and costs; train nothing.")] = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    yes: options.Yes = False,
) -> None:
    """Find out which of many configs is best: seeds go where they matter, and a ranking says what was shown."""
    from rlclinic.ops.treat import race
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text.race import View, print_preview, print_races
    from rlclinic.serve.cli.text.trial import ask_to_start

    if detach:
        options.check_detached(on, jobs)
    if show is not None:
        _end_race(race.show_race(show, request.runs_dir), as_json)
    elif everything:
        listed = race.list_races(request.runs_dir)
        console.print_json(listed) if as_json else print_races(listed)
    elif detach and (request.resume is not None or request.extend is not None):
        from rlclinic.ops.jobs.start import start_race

        console.print_job(start_race(request, by=console.person()), as_json)
    elif request.resume is not None or request.extend is not None:
        id = request.resume or race.extend_race(request).id
        with View(quiet) as view:
            result = race.resume_race(id, request.runs_dir, view, jobs)
        _end_race(result, as_json)
    else:
        preview = race.plan_race(request)
        if dry_run:
            console.print_json(preview) if as_json else print_preview(preview, to_results=True)
            return
        if not quiet:
            print_preview(preview)
        if not yes and not ask_to_start():
            raise typer.Exit(2)
        if detach:
            from rlclinic.ops.jobs.start import start_race

            console.print_job(start_race(request, by=console.person()), as_json)
            return
        console.audit_start(request.runs_dir, "race", " ".join(request.targets), arms=preview.arms)
        with View(quiet) as view:
            result = race.run_race(preview, request.runs_dir, view, jobs)
        _end_race(result, as_json)


def _end_race(result: "RaceResult", as_json: bool) -> None:
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text.race import print_race

    console.print_json(result) if as_json else print_race(result)
    if result.signal:
        raise typer.Exit(TERMINATED if result.signal == "SIGTERM" else INTERRUPTED)


def questions(request: "QuestionsRequest", as_json: options.Json = False) -> None:
    """List what was asked of the store, how often, with which verdicts, and the error that is spent on each question."""
    from rlclinic.ops.treat import questions
    from rlclinic.report.questions import describe
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import terminal

    listed = questions.list_questions(request)
    console.print_json(listed) if as_json else terminal.show(describe(listed))


def adopt(request: "AdoptRequest", as_json: options.Json = False) -> None:
    """Keep a trial's winner as a variant in ./config/environments, with its evidence as comments."""
    from rlclinic.ops.jobs import audited
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import trial

    result = audited.adopt_trial(**request.arguments, runs_dir=request.runs_dir, by=console.person())
    console.print_json(result) if as_json else trial.print_adopted(result)


def sensitivity(
    request: "SensitivityRequest",
    jobs: options.Jobs = None,
    on: options.On = None,
    artifacts: options.Artifacts = None,
    detach: options.Detach = False,
    db: options.Db = None,
    dry_run: DryRun = False,
    yes: options.Yes = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Say how much each number matters: all of them times and divided by 2 and 4, in one study."""
    from rlclinic.launch.batch import Interrupted
    from rlclinic.ops.train.signals import caught_signals
    from rlclinic.ops.treat import sensitivity
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import study

    planned = None
    if request.resume is None:
        planned = sensitivity.plan(request)
        if dry_run and as_json:
            console.print_json(planned)
        elif not as_json:
            study.print_sensitivity_plan(planned)
        if dry_run or not study.agreed(yes, as_json):
            return
    if detach:
        from rlclinic.ops.jobs.start import start_sensitivity

        options.check_detached(on, jobs)
        console.print_job(start_sensitivity(request, by=console.person()), as_json)
        return
    watch = None if quiet else study.ProgressLine()
    with caught_signals() as caught:
        running: dict[str, Any] = {"watch": watch, "stop": lambda: bool(caught), "cores": jobs}
        try:
            if planned is None:
                result = sensitivity.resume(request.resume or "@last", request.runs_dir, **running)
            else:
                console.audit_start(request.runs_dir, "sensitivity", request.target, max_env_steps=planned.max_env_steps)
                result = sensitivity.run(planned, request.runs_dir, **running)
        except Interrupted as error:
            typer.echo(f"{error}\n  Go on: {Action('sensitivity', resume='@last')}", err=True)
            raise typer.Exit(INTERRUPTED) from None
    console.print_json(result) if as_json else study.print_sensitivity(result)


def optimize(
    request: "OptimizeRequest",
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Stop then: 18:30, or after 2h; --resume goes on.")] = None,
    jobs: options.Jobs = None,
    on: options.On = None,
    artifacts: options.Artifacts = None,
    detach: options.Detach = False,
    db: options.Db = None,
    dry_run: DryRun = False,
    yes: options.Yes = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Search for a better config: diagnose, prescribe, try, confirm on fresh seeds, within one budget."""
    from rlclinic.launch.batch import Interrupted
    from rlclinic.ops.train.signals import caught_signals
    from rlclinic.ops.treat import optimize
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import study

    if request.resume is None:
        planned = optimize.plan(request)
        if dry_run and as_json:
            console.print_json(planned)
        elif not as_json:
            study.print_search_plan(planned)
        if dry_run or not study.agreed(yes, as_json):
            return
    if detach:
        from rlclinic.ops.jobs.start import start_optimize

        options.check_detached(on, jobs)
        if until is not None:
            raise typer.BadParameter("--until with --detach: rlclinic stop ends a job, and --resume goes on; leave out one of the two")
        console.print_job(start_optimize(request, by=console.person()), as_json)
        return
    watch, say = (None, None) if quiet else (study.ProgressLine(), study.say)
    with caught_signals() as caught:
        running: dict[str, Any] = {"until": until, "watch": watch, "say": say, "stop": lambda: bool(caught), "cores": jobs}
        try:
            if request.resume is not None:
                result = optimize.resume(request.resume, request.runs_dir, **running)
            else:
                console.audit_start(request.runs_dir, "optimize", request.target, budget=request.budget)
                result = optimize.optimize(request, **running)
        except Interrupted as error:
            typer.echo(f"{error}\n  Go on: {Action('optimize', resume='@last')}", err=True)
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
            result = probe.run(planned, runs_dir, watch=None if as_json else study.ProgressLine(), stop=lambda: bool(caught))
        except Interrupted as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(INTERRUPTED) from None
    console.print_json(result) if as_json else study.print_probe(result)
