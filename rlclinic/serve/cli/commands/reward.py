"""`rlclinic reward …`: what a reward pays for, in an environment and in runs."""

from typing import TYPE_CHECKING

import typer

from rlclinic.serve.cli import options

if TYPE_CHECKING:
    from rlclinic.ops.diagnose.requests import RewardBalanceRequest, RewardCheckRequest

UNSOUND = 5

app = typer.Typer(help="Check what a reward pays for.", no_args_is_help=True)


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    for handler in (check, balance):
        options.command(app, requests="diagnose.requests")(handler)
    root.add_typer(app, name="reward")


def check(request: "RewardCheckRequest", as_json: options.Json = False) -> None:
    """Say what an environment's reward pays for, and whether shaping changes what is best. Exit code 5 if it pays for something else."""
    from rlclinic.ops.tasks.reward import check_reward
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.commands.diagnose import read_arguments
    from rlclinic.serve.cli.text import results

    report = check_reward(request, read_arguments(request.env_args))
    console.print_json(report) if as_json else results.print_reward(report)
    if any(remark.level == "error" for remark in report.remarks):
        raise typer.Exit(UNSOUND)


def balance(request: "RewardBalanceRequest", as_json: options.Json = False) -> None:
    """Say which terms of a reward decided what runs learned, and which pull against each other or the task."""
    from rlclinic.ops.tasks.reward import balance_reward
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    report = balance_reward(**request.arguments, runs_dir=request.runs_dir)
    console.print_json(report) if as_json else results.print_reward_balance(report)
