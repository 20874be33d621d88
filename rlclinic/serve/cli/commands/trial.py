"""`rlclinic trial` and `adopt`: does a change help, and keeping it."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlclinic.serve.cli import options

if TYPE_CHECKING:
    from rlclinic.ops.treat.trial import TrialRequest, TrialResult

INTERRUPTED, TERMINATED = 130, 143


class Judged(StrEnum):
    """What decides which arm is better."""

    steps = "steps"
    return_ = "return"
    success = "success"
    wall = "wall"
    stability = "stability"


class Rules(StrEnum):
    """Which bound a look must pass."""

    pocock = "pocock"
    obrien_fleming = "obrien-fleming"


Targets = Annotated[
    list[str] | None,
    typer.Argument(
        help="A group (the newest), run or foreign folder to treat; or two and more configs (YAML, ENV:VARIANT, runs, git:REV:FILE), "
        "the first of which is the control.",
        autocompletion=options.complete_run,
    ),
]
Rx = Annotated[list[str] | None, typer.Option("--rx", metavar="N", help="Prescriptions to try, one arm each: --rx 1,2.")]
Command = Annotated[
    str | None, typer.Option("--run", metavar="CMD", help="Your own training command, with {seed}, {out} and placeholders for --arm.")
]
Arms = Annotated[
    list[str] | None, typer.Option("--arm", metavar="KEY=VALUE", help="With --run: the values of one arm; the first is the control.")
]
Ablate = Annotated[str | None, typer.Option(metavar="VARIANT", help="An adopted variant (or trial) without each of its changes.")]
ResumeTrial = Annotated[str | None, typer.Option("--resume", metavar="TRIAL", help="Go on with a trial that was interrupted or killed.")]
Seed0 = Annotated[int | None, typer.Option("--seed0", min=0, help="The first seed (unused ones): repeats a trial.")]
Timeout = Annotated[
    float | None, typer.Option("--timeout", min=0.1, help="With --run: seconds after which a run is ended and counts as failed.")
]
Show = Annotated[str | None, typer.Option("--show", metavar="TRIAL", help="Show a trial that was made.")]
Everything = Annotated[bool, typer.Option("--list", help="List the trials that were made.")]
Outcome = Annotated[Judged | None, typer.Option(help="What decides (steps to the threshold, where one is known).")]
Looks = Annotated[int, typer.Option(help="At most so many looks.")]
PerLook = Annotated[int, typer.Option(help="Seeds an arm per look.")]
AllAtOnce = Annotated[int | None, typer.Option("--seeds", min=2, help="So many seeds an arm, in one look: for a GPU.")]
Alpha = Annotated[float, typer.Option(help="Share of equal arms that may be called different, over all looks.")]
Margin = Annotated[float, typer.Option(help="Effects within this share count as none.")]
Rule = Annotated[Rules, typer.Option(help="pocock stops early; obrien-fleming keeps more power for the last look.")]
Threshold = Annotated[float | None, typer.Option(help="The return that counts as solved, where it is not known.")]
Whole = Annotated[bool, typer.Option("--whole-budget", help="Train on after the threshold, and guard the final return.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what it would do, can see and costs; train nothing.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(trial)
    app.command()(adopt)


def trial(
    ctx: typer.Context,
    targets: Targets = None,
    rx: Rx = None,
    changes: options.Set = None,
    command: Command = None,
    arms: Arms = None,
    ablate: Ablate = None,
    resume: ResumeTrial = None,
    show: Show = None,
    everything: Everything = False,
    outcome: Outcome = None,
    looks: Looks = 4,
    per_look: PerLook = 8,
    seeds: AllAtOnce = None,
    alpha: Alpha = 0.05,
    margin: Margin = 0.10,
    rule: Rule = Rules.pocock,
    seed0: Seed0 = None,
    max_env_steps: options.Steps = None,
    threshold: Threshold = None,
    whole_budget: Whole = False,
    timeout_seconds: Timeout = None,
    device: options.Device = None,
    jobs: options.Jobs = None,
    dry_run: DryRun = False,
    runs_dir: options.RunsDir = Path("runs"),
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    yes: options.Yes = False,
) -> None:
    """Try a change against a control on fresh seeds, and say whether it helps, with an interval."""
    if everything or show is not None or resume is not None:
        _earlier(show, resume, runs_dir, jobs, quiet, as_json)
    else:
        _new(_request(ctx.params), jobs, dry_run, quiet, as_json, yes)


def _earlier(show: str | None, resume: str | None, runs_dir: Path, jobs: int | None, quiet: bool, as_json: bool) -> None:
    """--list, --show and --resume."""
    from rlclinic.ops.treat import trial
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text.trial import View, print_trials

    if resume is not None:
        with View(trial.show_trial(resume, runs_dir).trial.plan, quiet) as view:
            result = trial.resume_trial(resume, runs_dir, view, jobs)
        _end(result, as_json)
    elif show is not None:
        _end(trial.show_trial(show, runs_dir), as_json)
    else:
        found = trial.list_trials(runs_dir)
        console.print_json(found) if as_json else print_trials(found)


def _request(params: dict[str, Any]) -> "TrialRequest":
    """The options have the names of the request's fields: what the request does not know is about this command."""
    from rlclinic.ops.treat.trial import TrialRequest

    asked = {key: value for key, value in params.items() if key in TrialRequest.model_fields and value is not None}
    if params.get("seeds") is not None:
        asked |= {"looks": 1, "per_look": params["seeds"]}
    asked |= {key: str(asked[key]) for key in ("outcome", "rule") if key in asked}
    return TrialRequest(**asked | {"rx": _numbers(asked.get("rx") or [])})


def _new(request: "TrialRequest", jobs: int | None, dry_run: bool, quiet: bool, as_json: bool, yes: bool) -> None:
    from rlclinic.ops.treat import trial
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text.trial import View, ask_to_start, print_preview

    preview = trial.plan_trial(request)
    if dry_run:
        console.print_json(preview) if as_json else print_preview(preview, to_results=True)
        return
    if not quiet:
        print_preview(preview)
    if not yes and not ask_to_start():
        raise typer.Exit(2)
    console.audit_start(request.runs_dir, "trial", " ".join(request.targets) or preview.control, arms=preview.arms)
    with View(preview.plan, quiet) as view:
        result = trial.run_trial(preview, request.runs_dir, view, jobs)
    _end(result, as_json)


def _numbers(texts: list[str]) -> list[int]:
    """1,2 and --rx 1 --rx 2 alike."""
    try:
        return [int(part) for text in texts for part in str(text).split(",") if part.strip()]
    except ValueError:
        raise typer.BadParameter(f"--rx {','.join(texts)}: give the numbers of prescriptions, for example --rx 1,2") from None


def _end(result: "TrialResult", as_json: bool) -> None:
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import trial

    console.print_json(result) if as_json else trial.print_trial(result)
    if result.signal:
        raise typer.Exit(TERMINATED if result.signal == "SIGTERM" else INTERRUPTED)


def adopt(
    tid: Annotated[str, typer.Argument(metavar="TRIAL", help="The trial whose winner to keep; @last is the newest.")],
    ref: Annotated[str, typer.Option("--as", metavar="ENV:VARIANT", help="What to call it.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a variant; keep a change that was not shown to help.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the difference; write nothing.")] = False,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Keep a trial's winner as a variant in ./config/environments, with its evidence as comments."""
    from rlclinic.ops.jobs import audited
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import trial

    result = audited.adopt_trial(tid, ref, runs_dir, by=console.person(), force=force, dry_run=dry_run)
    console.print_json(result) if as_json else trial.print_adopted(result)
