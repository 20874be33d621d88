"""A race as text for people: what it asks and costs, how it goes, how it ended."""

import sys
import time
from typing import TYPE_CHECKING

from rlclinic.report.document import Gap, Table, Text
from rlclinic.report.format import ago, listed, plural, short
from rlclinic.report.race import WORDS, describe_race, describe_race_plan, ending, round_text
from rlclinic.serve.cli import console
from rlclinic.serve.cli.text import terminal

if TYPE_CHECKING:
    from rich.live import Live

    from rlclinic.ops.treat.race import RaceList, RacePreview, RaceResult
    from rlclinic.treatment.race.models import RaceEvent

PLAIN_SECONDS = 10.0
MOST_LINES = 12
"""Arms that a terminal shows one by one."""


def print_preview(preview: "RacePreview", *, to_results: bool = False) -> None:
    """Question, arms, rule, power and cost."""
    blocks = describe_race_plan(preview.question, preview.plan, preview.power, preview.max_seconds, preview.cores, preview.warnings)
    terminal.show(blocks, None if to_results else sys.stderr)


class View:
    """Progress on stderr: a line per arm that is redrawn on a terminal, one line now and then elsewhere, and every round."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._console = quiet, console.progress()
        self._live: Live | None = None
        self._shown = -PLAIN_SECONDS

    def __enter__(self) -> "View":
        if self._console.is_terminal and not self._quiet:
            from rich.live import Live

            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)

    def __call__(self, event: "RaceEvent") -> None:
        """Show one event."""
        if self._quiet:
            return
        if event.kind == "started":
            self._say(f"  started  {event.race}; interrupted, it goes on with: rlclinic race --resume {event.race}")
        elif event.result is not None:
            self._say(f"  round {event.number}  {round_text(event.result)}")
            self._shown = -PLAIN_SECONDS
        elif self._live is not None:
            from rich.text import Text as Line

            self._live.update(Line("\n".join(_progress_lines(event))), refresh=True)
        elif event.seconds - self._shown >= PLAIN_SECONDS:
            self._shown = event.seconds
            self._say(f"  {_whole_line(event)}")

    def _say(self, line: str) -> None:
        (self._live.console if self._live is not None else self._console).print(line, soft_wrap=True)


def _progress_lines(event: "RaceEvent") -> list[str]:
    lines = [
        f"  {arm.name:<26}{arm.ended}/{arm.runs} ended, {arm.solved} solved, {short(arm.env_steps)} env steps"
        for arm in event.arms[:MOST_LINES]
    ]
    return [f"  {_whole_line(event)}", *lines, *([f"  and {len(event.arms) - MOST_LINES} more"] if len(event.arms) > MOST_LINES else [])]


def _whole_line(event: "RaceEvent") -> str:
    runs, ended, solved = (sum(getattr(arm, name) for arm in event.arms) for name in ("runs", "ended", "solved"))
    steps = sum(arm.env_steps for arm in event.arms)
    ends = f"{ended} of {plural(runs, 'run')} ended, {solved} solved, {short(steps)} env steps"
    return f"round {event.number}  {plural(len(event.arms), 'arm')}: {ends}"


def print_race(result: "RaceResult") -> None:
    """The ranking with its evidence, what is not shown, and what to type next."""
    terminal.show([Gap(), *describe_race(result.race), *ending(result.race, result.next, result.files)])


def print_races(result: "RaceList") -> None:
    """`race --list`."""
    rows = []
    for row in result.races:
        verdict = WORDS.get(row.verdict or "", row.state)
        rows.append([row.id, verdict, listed(row.best, 4), ago(time.time() - row.created), row.question])
    none = Text("no races yet\nStart one: rlclinic race a.yaml b.yaml c.yaml")
    terminal.show([Table(["race", "verdict", "best", "when", "question"], rows) if rows else none])
