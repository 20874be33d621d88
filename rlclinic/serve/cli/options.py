"""Arguments and options that several commands share, and what the shell completes them with."""

from pathlib import Path
from typing import Annotated

import typer


def complete_run(incomplete: str) -> list[str]:
    """Selectors, and the ids of the newest runs and groups."""
    from rlclinic.ops.runs.listing import complete_selector

    return complete_selector(incomplete, _completion_root())


def complete_reference(incomplete: str) -> list[str]:
    """Environments; after a colon, their variants."""
    from rlclinic.ops.runs.environments import complete_reference

    return complete_reference(incomplete)


def _completion_root() -> Path:
    import os

    return Path(os.environ.get("RLCLINIC_RUNS", "runs"))


def read_steps(text: str | int) -> int:
    """A number of env steps: 100000, 100_000, 1e5, 100k, 1.5M."""
    if isinstance(text, int):
        return text
    scale = {"k": 1e3, "m": 1e6, "g": 1e9}.get(text[-1:].lower(), 1)
    try:
        value = float(text[:-1] if scale != 1 else text) * scale
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number of env steps; type for example 100000, 1e5 or 100k") from None
    if not (value >= 1 and value == int(value)):
        raise typer.BadParameter(f"{text!r} is not a whole number of at least 1")
    return int(value)


RunsDir = Annotated[Path, typer.Option("--runs-dir", envvar="RLCLINIC_RUNS", help="Folder that holds the runs.", show_default=True)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object to stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress; results only.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Answer yes to every question.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", "--override", metavar="KEY=VALUE", help="Change a setting: --set algo.learning_rate=1e-4. Repeatable."),
]
Selector = Annotated[
    str,
    typer.Argument(help="A run or group: id, unique prefix, @last, @last~1, @best, @running.", autocompletion=complete_run),
]
Steps = Annotated[int | None, typer.Option(parser=read_steps, metavar="N", help="Budget in env steps; 1e6 and 100k are understood.")]

# ── train ──

Reference = Annotated[
    str | None,
    typer.Argument(
        help="What to train: CartPole-v1:ppo, a Gymnasium id, a YAML file, a run or group to train anew, or RUN@STEP to fork.",
        autocompletion=complete_reference,
    ),
]
Prescribed = Annotated[int | None, typer.Option("--rx", min=1, metavar="N", help="Train GROUP anew with its prescription N, untried.")]
Seed = Annotated[int | None, typer.Option(min=0, help="The first seed (0; a fork keeps its parent's).")]
Seeds = Annotated[int | None, typer.Option(min=1, help="How many seeds: S ... S+N-1 (1).")]
Resume = Annotated[
    str | None,
    typer.Option(
        metavar="RUN|GROUP", help="Go on from the last checkpoint; with a larger budget, as a child.", autocompletion=complete_run
    ),
]
InitFrom = Annotated[str | None, typer.Option(metavar="RUN", help="Start from a run's weights.", autocompletion=complete_run)]
EnvWorkers = Annotated[int | None, typer.Option(min=0, help="Processes that step Gymnasium environments.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or auto.")]
Engine = Annotated[str | None, typer.Option(help="auto, eager, compiled or captured (eager; on a GPU auto).")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads per process (1; idle cores for large networks).")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes at a time (one per core).")]
Detach = Annotated[bool, typer.Option("--detach", help="Return at once; training outlives this terminal.")]
TensorBoard = Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard event files.")]
SaveReplay = Annotated[
    bool, typer.Option("--save-replay/--no-save-replay", help="Keep the replay with the newest checkpoint, so that a resume is exact.")
]
Report = Annotated[bool, typer.Option("--report/--no-report", help="Write the group's report and picture at the end.")]
Label = Annotated[str | None, typer.Option(help="A label of your own for the group.")]
RequireThreshold = Annotated[bool, typer.Option("--require-threshold", help="Exit with 4 if the threshold is missed.")]
