"""`rlclinic train`, `profile` and `doctor`: training, where its time goes, and whether this machine is fit for it."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rlclinic import plain_text
from rlclinic.serve.cli import options

if TYPE_CHECKING:
    from rlclinic.ops.train.profile import Profile
    from rlclinic.ops.train.requests import ProfileRequest, TrainRequest

INTERRUPTED, TERMINATED, THRESHOLD_MISSED = 130, 143, 4


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    options.command(app, requests="train.requests")(train)
    options.command(app, requests="train.requests")(profile)
    app.command()(doctor)


def train(
    request: "TrainRequest",
    on: options.On = None,
    artifacts: options.Artifacts = None,
    db: options.Db = None,
    require_threshold: options.RequireThreshold = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    yes: options.Yes = False,
) -> None:
    """Train an agent with one or many seeds, and say how it went."""
    if request.detach and require_threshold:
        raise typer.BadParameter("--detach returns before the threshold can be known; leave out --require-threshold")
    from rlclinic.ops.train.plan import plan_training
    from rlclinic.ops.train.run import train
    from rlclinic.runs.database import connections
    from rlclinic.serve.cli import console, progress
    from rlclinic.serve.cli.text import results

    if request.detach:
        options.check_detached(on)
    plan = plan_training(request)
    if plan.question and not yes and console.is_attended() and not console.confirm(plan.question):
        raise typer.Exit(2)
    with progress.watch(quiet) as view:
        for note in plan.notes:
            view.say(note)
        if request.detach and connections.shared():
            from rlclinic.ops.jobs.start import start_training
            from rlclinic.report.models import TrainResult

            job = start_training(request.model_copy(update={"detach": False}), by=console.person())
            view.say(f"job {job.id} {job.reason or job.state}")
            result = TrainResult(group=str(job.refers), runs=job.runs, detached=True, signal=None, failed=[], report=None, files=[])
        else:
            console.audit_start(request.runs_dir, "training", request.resume or request.ref or request.init_from or "")
            result = train(plan, watch=None if quiet else view, say=view.say)
    console.print_json(result) if as_json else results.print_train(result)
    if result.signal:
        raise typer.Exit(TERMINATED if result.signal == "SIGTERM" else INTERRUPTED)
    if result.failed:
        raise typer.Exit(1)
    if require_threshold and result.report is not None and result.report.verdict != "SOLVED":
        raise typer.Exit(THRESHOLD_MISSED)


def doctor(runs_dir: options.RunsDir = Path("runs"), as_json: options.Json = False) -> None:
    """Check this installation and machine, and say what to type."""
    from rlclinic.ops.train.machine import doctor
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = doctor(runs_dir)
    console.print_json(result) if as_json else results.print_doctor(result)
    if not result.healthy:
        raise typer.Exit(1)


def profile(request: "ProfileRequest", quiet: options.Quiet = False, as_json: options.Json = False) -> None:
    """Measure where an iteration's time goes, and which settings would make it faster."""
    from rlclinic.ops.train import profile
    from rlclinic.serve.cli import console

    tell = None if quiet or as_json else lambda what: print(f"measuring {what}", file=sys.stderr)
    result = profile.profile(**request.arguments, watch=tell)
    console.print_json(result) if as_json else print_profile(result)


def print_profile(result: "Profile") -> None:
    """The table, the variants, and the line to type."""
    from rlclinic.ops.train.profile import BUSY
    from rlclinic.serve.cli import console

    shown = console.results()

    def say(text: str) -> None:
        shown.print(plain_text.clean(text), markup=False, highlight=False, soft_wrap=True)

    seeds = "" if result.members == 1 else f", {result.members} seeds"
    say(f"{result.config}{seeds} on {result.device}, {result.engine} engine ({result.why}): {result.env_steps_per_second:,.0f} env steps/s")
    iteration = f"{result.iteration_seconds * 1e3:,.1f} ms per iteration of {result.env_steps_per_iteration:,} env steps"
    gpu = "" if result.gpu_busy is None else f" · GPU busy {result.gpu_busy:.0%}, idle {1 - result.gpu_busy:.0%}"
    say(f"{iteration} · memory {result.memory_mib:,.0f} MiB · processor busy {result.cpu_busy:.0%}{gpu}")
    say("")
    say("where the time goes" + ("" if result.engine == "eager" else ", with the eager engine: others cannot be looked into"))
    for phase in sorted(result.phases, key=lambda each: -each.seconds):
        if phase.share >= 0.001:
            say(f"  {phase.name:<10} {phase.share:>6.1%} {phase.seconds * 1e3:>10,.2f} ms  {phase.what}")
    _print_variants(result, say)
    idle = sum(phase.share for phase in result.phases if phase.name == "idle")
    if result.device == "cpu" and idle > 1 - BUSY:
        say(f"busy      others had the core for {idle:.0%} of the time; factors are by processor time, where it tells")
    if result.prescription:
        say(f"rx        rlclinic train {result.config} {_settings(result.asked, result.prescription)}")
    if result.trial:
        say(f"try       rlclinic trial {result.config} {_settings(result.asked, result.trial)}")
    say(f"note      {result.note}")


def _print_variants(result: "Profile", say: Callable[[str], None]) -> None:
    say("")
    say("what other settings would change")
    for variant in result.variants:
        mark = "  *" if variant.learns_otherwise else ""
        speed = variant.refused or f"{variant.env_steps_per_second:>11,.0f} env steps/s  {variant.factor:.2f}x{mark}"
        say(f"  {' '.join(variant.changes):<48} {speed}")
    if any(variant.learns_otherwise for variant in result.variants):
        say("  * changes what is learned, not only how fast")
    say("")


def _settings(asked: Sequence[str], changes: Sequence[str]) -> str:
    """What was asked for, as far as it is not changed, and the changes."""
    changed = {change.partition("=")[0] for change in changes}
    kept = [question for question in asked if question.partition("=")[0] not in changed]
    return " ".join(f"--set {change}" for change in [*kept, *changes])
