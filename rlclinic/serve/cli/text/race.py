"""A race as text for people: what it asks and costs, how it goes, how it ended."""

import sys
import time
from typing import TYPE_CHECKING

from rlclinic.report.document import Gap, Table, Text
from rlclinic.report.format import ago, listed, plural, short
from rlclinic.report.race import WORDS, describe_race, describe_race_plan, ending, round_text
from rlclinic.serve.cli.progress import ArmsView
from rlclinic.serve.cli.text import terminal

if TYPE_CHECKING:
    from rlclinic.ops.treat.race import RaceList, RacePreview, RaceResult
    from rlclinic.treatment.race.models import RaceEvent

MOST_LINES = 12
"""Arms that a terminal shows one by one."""


def print_preview(preview: "RacePreview", *, to_results: bool = False) -> None:
    """Question, arms, rule, power and cost."""
    blocks = describe_race_plan(preview.question, preview.plan, preview.power, preview.max_seconds, preview.cores, preview.warnings)
    terminal.show(blocks, None if to_results else sys.stderr)


class View(ArmsView):
    """A line per arm, and every round."""

    def __call__(self, event: "RaceEvent") -> None:
        """Show one event."""
        if event.kind == "started":
            self.say(f"  started  {event.race}; interrupted, it goes on with: rlclinic race --resume {event.race}")
        elif event.result is not None:
            self.say(f"  round {event.number}  {round_text(event.result)}")
        else:
            self.show(_progress_lines(event), f"  {_whole_line(event)}", event.seconds)


def _progress_lines(event: "RaceEvent") -> list[str]:
    lines = [
        f"  {arm.name:<26}{arm.ended}/{arm.runs} ended, {arm.solved} solved, {short(arm.env_steps)} steps"
        for arm in event.arms[:MOST_LINES]
    ]
    return [f"  {_whole_line(event)}", *lines, *([f"  and {len(event.arms) - MOST_LINES} more"] if len(event.arms) > MOST_LINES else [])]


def _whole_line(event: "RaceEvent") -> str:
    runs, ended, solved = (sum(getattr(arm, name) for arm in event.arms) for name in ("runs", "ended", "solved"))
    steps = sum(arm.env_steps for arm in event.arms)
    ends = f"{ended} of {plural(runs, 'run')} ended, {solved} solved, {short(steps)} steps"
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
