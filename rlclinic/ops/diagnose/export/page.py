"""Everything about a group or run as one HTML file."""

import json
from typing import Final

from rlclinic.actions import Action
from rlclinic.errors import RlclinicError, UsageError
from rlclinic.ops.diagnose import diagnose
from rlclinic.report import evidence, group
from rlclinic.report.charts import panel
from rlclinic.report.document import Block, Code, Figure, Figures, Heading, Table, Text
from rlclinic.report.films import MOST_BYTES, embed
from rlclinic.runs import history, notes
from rlclinic.runs.record import Group, Run
from rlclinic.runs.recording import films

MOST_PANELS: Final = 80


def render_page(owner: Run | Group) -> str:
    """Everything about a group or run as one HTML file: report, diagnosis, a chart of every metric, config, notes, the log's end."""
    whole = owner if isinstance(owner, Group) else owner.group
    if whole is None:
        raise UsageError(
            f"run {owner.id} belongs to no group.\n  Pages are made of groups.\n  Export its rows: ",
            Action("runs export", owner.id, to="tensorboard"),
        )
    try:
        diagnosed = diagnose.examine_group(whole)
    except RlclinicError:
        diagnosed = None  # runs that cannot be diagnosed have numbers all the same
    return group.html(group.describe_group(whole), diagnosed, more=_rest(whole))


def _rest(owner: Group) -> list[Block]:
    """What a report leaves out: every metric, what was changed while it ran, tags and notes, the end of the first log."""
    from rlclinic.diagnosis.case import case_of

    histories = [history.of_run(run) for run in owner.runs]
    cases = [case_of(each) for each in histories]
    names = list(dict.fromkeys(name for each in histories for name in each.series))
    drawn = [made for name in names if (made := evidence.draw_series(name, cases)) is not None]
    figures = [Figure(lambda made=made: panel(made), f"{made.label} ({made.series})", None) for made in drawn[:MOST_PANELS]]  # type: ignore[misc]
    blocks: list[Block] = [Heading("Every metric"), Figures(figures, "against env steps; the band is the range of the seeds")]
    film = films.find_newest(run.path for run in owner.runs)
    if film is not None and film.stat().st_size <= MOST_BYTES:
        blocks += [Heading("An episode"), Figure(lambda: embed(film), f"{film.parent.parent.name} at env step {int(film.stem):,}")]
    changed = [
        [run.id, str(entry.get("env_steps", "")), json.dumps(entry.get("set", entry))] for run in owner.runs for entry in run.interventions
    ]
    if changed:
        blocks += [Heading("Changed while it ran"), Table(("run", ">at env step", "numbers"), changed)]
    kept = notes.read(owner.path)
    if kept.tags or kept.note:
        blocks += [Heading("Notes"), Text(" ".join(f"[{tag}]" for tag in kept.tags)), Text(kept.note)]
    log = owner.runs[0].log.splitlines()[-40:] if owner.runs else []
    return [*blocks, Heading("Log"), Code("\n".join(log), "")] if log else blocks
