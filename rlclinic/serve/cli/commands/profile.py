"""`rlclinic profile`: where training time goes, and what would change it."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlclinic.serve.cli import options

if TYPE_CHECKING:
    from rlclinic.ops.train.profile import Profile


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(profile)


def profile(
    ref: Annotated[str, typer.Argument(help="What to look into: CartPole-v1:ppo, a YAML file.", autocompletion=options.complete_reference)],
    changes: options.Set = None,
    members: Annotated[int, typer.Option("--seeds", min=1, help="Seeds that train together.")] = 1,
    device: options.Device = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long each measurement takes.")] = 1.5,
    compiling: Annotated[bool, typer.Option("--compile", help="Also measure engines that take a minute to compile.")] = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Measure where an iteration's time goes, and which settings would make it faster."""
    from rlclinic.ops.train import profile
    from rlclinic.serve.cli import console

    tell = None if quiet or as_json else lambda what: print(f"measuring {what}", file=sys.stderr)
    found = profile.profile(ref, changes or [], device=device, members=members, seconds=seconds, compiling=compiling, watch=tell)
    console.print_json(found) if as_json else print_profile(found)


def print_profile(found: "Profile") -> None:
    """The table, the variants, and the line to type."""
    from rlclinic.ops.train.profile import BUSY
    from rlclinic.serve.cli import console

    shown = console.results()

    def say(text: str) -> None:
        shown.print(text, markup=False, highlight=False, soft_wrap=True)

    seeds = "" if found.members == 1 else f", {found.members} seeds"
    say(f"{found.config}{seeds} on {found.device}, {found.engine} engine ({found.why}): {found.env_steps_per_second:,.0f} env steps/s")
    iteration = f"{found.iteration_seconds * 1e3:,.1f} ms per iteration of {found.env_steps_per_iteration:,} env steps"
    gpu = "" if found.gpu_busy is None else f" · GPU busy {found.gpu_busy:.0%}, idle {1 - found.gpu_busy:.0%}"
    say(f"{iteration} · memory {found.memory_mib:,.0f} MiB · processor busy {found.cpu_busy:.0%}{gpu}")
    say("")
    say("where the time goes" + ("" if found.engine == "eager" else ", with the eager engine: others cannot be looked into"))
    for phase in sorted(found.phases, key=lambda each: -each.seconds):
        if phase.share >= 0.001:
            say(f"  {phase.name:<10} {phase.share:>6.1%} {phase.seconds * 1e3:>10,.2f} ms  {phase.what}")
    _print_variants(found, say)
    if found.device == "cpu" and found.cpu_busy < BUSY:
        say(f"busy      others had the core for {1 - found.cpu_busy:.0%} of the time; factors are by processor time, where it tells")
    if found.prescription:
        say(f"rx        rlclinic train {found.config} {_settings(found.asked, found.prescription)}")
    if found.trial:
        say(f"try       rlclinic trial {found.config} {_settings(found.asked, found.trial)}")
    say(f"note      {found.note}")


def _print_variants(found: "Profile", say: Callable[[str], None]) -> None:
    say("")
    say("what other settings would change")
    for variant in found.variants:
        mark = "  *" if variant.learns_otherwise else ""
        told = variant.refused or f"{variant.env_steps_per_second:>11,.0f} env steps/s  {variant.factor:.2f}x{mark}"
        say(f"  {' '.join(variant.changes):<48} {told}")
    if any(variant.learns_otherwise for variant in found.variants):
        say("  * changes what is learned, not only how fast")
    say("")


def _settings(asked: Sequence[str], changes: Sequence[str]) -> str:
    """What was asked for, as far as it is not changed, and the changes."""
    changed = {change.partition("=")[0] for change in changes}
    kept = [each for each in asked if each.partition("=")[0] not in changed]
    return " ".join(f"--set {change}" for change in [*kept, *changes])
