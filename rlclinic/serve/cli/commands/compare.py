"""`rlclinic compare` and `regress`: how two or more differ, and whether a candidate got worse."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rlclinic.serve.cli import options

REGRESSION = 6

Mapping = Annotated[list[str] | None, typer.Option("--map", metavar="METRIC=COLUMN", help="What a column of a foreign log is. Repeatable.")]
Threshold = Annotated[float | None, typer.Option(help="The return that counts as solved, where the runs do not say.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(compare)
    app.command()(regress)


def compare(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="A B ...",
            help="Runs, groups, folders of other frameworks, YAML files, variants (CartPole-v1:ppo), or git:REV:FILE.yaml[:VARIANT].",
            autocompletion=options.complete_run,
        ),
    ],
    pairwise: Annotated[bool, typer.Option("--pairwise", help="Every two of them, instead of all against the first.")] = False,
    threshold: Threshold = None,
    budget: options.Steps = None,
    mapping: Mapping = None,
    full: Annotated[bool, typer.Option("--full", help="Also losses and gradients by phase, wall time and throughput.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write compare.md, compare.html and compare.json there.")] = None,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Compare configs and results side by side, with tests that say how sure a difference is."""
    from rlclinic.ops.compare import compare as operation
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text.compare import print_comparison

    result = operation.compare(targets, runs_dir, pairwise=pairwise, threshold=threshold, budget=budget, mapping=mapping or [], out=out)
    console.print_json(result) if as_json else print_comparison(result, full)


class OutcomeName(StrEnum):
    """What `regress` judges."""

    steps = "steps"
    returns = "return"
    success = "success"
    wall = "wall"


def regress(
    baseline: Annotated[
        str, typer.Argument(help="A file made by --save-baseline, a group, a run or a folder.", autocompletion=options.complete_run)
    ],
    candidate: Annotated[
        str | None,
        typer.Argument(
            help="A group, run or folder; or a config (CartPole-v1:ppo, FILE.yaml, git:REV:FILE.yaml), which is trained.",
            autocompletion=options.complete_run,
        ),
    ] = None,
    save_baseline: Annotated[
        Path | None, typer.Option("--save-baseline", metavar="FILE", help="Keep the group that is named as a baseline, and end.")
    ] = None,
    outcome: Annotated[OutcomeName | None, typer.Option(help="What must not get worse (steps where a threshold is reached).")] = None,
    margin: Annotated[float, typer.Option(help="The loss that may pass: 0.1 is 10 %.")] = 0.10,
    alpha: Annotated[float, typer.Option(help="False alarms, and wrong passes, in at most this share of all cases.")] = 0.05,
    looks: Annotated[int, typer.Option(min=1, max=20, help="How often a candidate that is trained is looked at.")] = 4,
    per_look: Annotated[int, typer.Option("--seeds", min=2, help="Fresh seeds for each look.")] = 8,
    seed0: Annotated[int | None, typer.Option(min=0, help="The first of them (unused ones).")] = None,
    changes: options.Set = None,
    threshold: Threshold = None,
    mapping: Mapping = None,
    strict: Annotated[bool, typer.Option("--strict", help="Undecided ends with 6, too.")] = False,
    runs_dir: options.RunsDir = Path("runs"),
    quiet: options.Quiet = False,
    yes: options.Yes = False,
    as_json: options.Json = False,
) -> None:
    """Fail (exit code 6) if a candidate learns worse than a baseline: a gate for CI, with stated error rates."""
    from rlclinic.ops.compare import regress as operation
    from rlclinic.serve.cli import console, progress
    from rlclinic.serve.cli.text import compare

    if save_baseline is not None:
        if candidate is not None:
            raise typer.BadParameter("--save-baseline FILE takes one group; nothing is judged")
        kept = operation.save_baseline(baseline, save_baseline, runs_dir, threshold=threshold)
        console.print_json(kept) if as_json else compare.print_saved(kept)
        return
    if candidate is None:
        raise typer.BadParameter("regress BASELINE CANDIDATE needs both; to keep a baseline: regress --save-baseline FILE GROUP")
    with progress.watch(quiet) as view:
        result = operation.regress(
            baseline,
            candidate,
            runs_dir,
            outcome=outcome.value if outcome is not None else None,
            margin=margin,
            alpha=alpha,
            looks=looks,
            per_look=per_look,
            seed0=seed0,
            changes=changes or [],
            threshold=threshold,
            mapping=mapping or [],
            watch=None if quiet else view,
            say=view.say,
            confirm=None if yes or not console.is_attended() else console.confirm,
        )
    if result.groups:
        console.audit_start(runs_dir, "regress", candidate, groups=result.groups)
    console.print_json(result) if as_json else compare.print_regression(result)
    if result.signal is not None:
        raise typer.Exit(143 if result.signal == "SIGTERM" else 130)
    if result.decision == "regression" or (strict and result.decision == "undecided"):
        raise typer.Exit(REGRESSION)
