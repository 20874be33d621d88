"""`status` on a terminal: what is known of each group, with its seeds in a table that can be redrawn in place."""

from typing import TYPE_CHECKING

from rlclinic.report.status import describe_live_group, ordinal, plain_line
from rlclinic.serve.cli import console, progress
from rlclinic.serve.cli.text import terminal

if TYPE_CHECKING:
    from rich.console import Group as Stack

    from rlclinic.report.models import StatusReport

__all__ = ["frame", "ordinal", "plain_line", "print_status"]


def print_status(report: "StatusReport") -> None:
    """`status`, once."""
    console.results().print(frame(report), soft_wrap=True)


def frame(report: "StatusReport") -> "Stack":
    """Everything that is shown, for printing or for a live view."""
    from rich.console import Group as Stack

    width = console.results().width
    parts: list[object] = []
    for group in report.groups:
        parts += [terminal.style_line(line, width) for line in terminal.lay_out(describe_live_group(group), width)]
        if len(group.members) > 1 or group.outlook is None:
            parts.append(progress.member_table(group))
    return Stack(*parts)  # type: ignore[arg-type]
