"""Imports and histories as text for people."""

import time
from typing import TYPE_CHECKING

from rlclinic.report.diagnosis import say_setting
from rlclinic.report.document import clean
from rlclinic.report.format import BLANK, ago, count, listed, number, plural, short
from rlclinic.serve.cli import console
from rlclinic.serve.cli.text.results import bare_table, print_lines

if TYPE_CHECKING:
    from rlclinic.ops.diagnose.history import EnvironmentHistory, Tried
    from rlclinic.ops.runs.import_runs import ImportResult

MOST_SEPARATIONS, FEW_SEPARATIONS = 12, 5


def print_imported(result: "ImportResult") -> None:
    """`import`: what became what, and what was joined or guessed."""
    runs, groups = plural(len(result.runs), "run"), plural(len(result.groups), "group")
    print_lines([f"imported {runs} as {groups}; {'stdin' if result.path == '-' else clean(result.path)} was only read"])
    rows = bare_table("run", "from", "env", "algo", ">seed", ">env steps", ">metrics")
    for row in result.runs:
        seed = BLANK if row.seed is None else str(row.seed)
        cells = [row.run, f"{row.source}: {row.path or 'stdin'}", row.env or "unknown", row.algo or "unknown", seed]
        rows.add_row(*(clean(cell) for cell in cells), count(row.env_steps), str(row.metrics))
    console.results().print(rows)
    notes = dict.fromkeys(note for row in result.runs for note in row.notes)
    print_lines([f"note      {clean(note)}" for note in notes])
    print_lines([f"{'next' if place == 0 else '':<10}{command}" for place, command in enumerate(result.next)])


def print_history(result: "EnvironmentHistory") -> None:
    """`history`: the groups in order of time, then what separates them."""
    print_lines([f"{clean(result.env)} · {plural(len(result.groups), 'group')} · {result.n_solved} solved, {result.n_failed} failed"])
    rows = bare_table("group", "when", "algo", ">seeds", ">reached", ">return", ">steps to it", "differs from the best in")
    for tried in result.groups:
        rows.add_row(*(clean(cell) for cell in _cells(tried, result)))
    console.results().print(rows)
    if result.separations and min(result.n_solved, result.n_failed) > 0:
        _print_separations(result)
    print_lines([result.note])
    if result.best:
        print_lines([f"{'look at':<10}rlclinic diagnose {result.worst or result.best}"])


def _print_separations(result: "EnvironmentHistory") -> None:
    """The clearest first; where there are too few groups for any answer, that is said once."""
    small = all(row.said.startswith("n too small") for row in result.separations)
    shown = result.separations[: FEW_SEPARATIONS if small else MOST_SEPARATIONS]
    said = f"n too small: {result.n_solved} solved, {result.n_failed} failed; the largest differences" if small else "the clearest first"
    print_lines(["", f"WHAT SEPARATES THEM  {said}"])
    heads = ["setting or number", "solved", "failed", ">P(larger if solved)"]
    apart = bare_table(*heads) if small else bare_table(*heads, ">p (Holm)", "")
    for row in shown:
        odds = BLANK if row.superiority is None else f"{row.superiority:.2f}"
        judged = [] if small else [BLANK if row.p is None else number(row.p, 2), row.said]
        apart.add_row(*(clean(cell) for cell in (row.name, row.solved, row.failed, odds, *judged)))
    console.results().print(apart)
    if len(result.separations) > len(shown):
        print_lines([f"… and {len(result.separations) - len(shown)} more: --json"])


def _cells(tried: "Tried", result: "EnvironmentHistory") -> list[str]:
    mark = " (best)" if tried.id == result.best else " (worst)" if tried.id == result.worst else ""
    when = ago(max(0.0, time.time() - tried.created)) if tried.created else tried.source
    reached = BLANK if tried.reached is None else f"{tried.reached}/{tried.seeds}"
    changed = [f"{key.partition('.')[2] or key} {say_setting(value)}" for key, value in tried.changed.items()]
    steps = short(tried.steps_to_threshold)
    return [tried.id + mark, when, tried.algo or "unknown", str(tried.seeds), reached, number(tried.score), steps, listed(changed, 4)]
