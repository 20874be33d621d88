"""`efficiency` on a terminal: where the time went, what is worth a word, and the processes side by side."""

from typing import TYPE_CHECKING

from rlclinic.report.document import Block, Heading, Points, Rows, Table
from rlclinic.report.format import duration, number, percent, plural, short

if TYPE_CHECKING:
    from rlclinic.ops.jobs.efficiency import EfficiencyReport, RankTime


def describe(report: "EfficiencyReport") -> list[Block]:
    """The report as a document."""
    spent = " · ".join(f"{name} {percent(share)}" for name, share in sorted(report.phases.items(), key=lambda item: -item[1]) if share > 0)
    waited = "" if report.waited_seconds is None else f", after {duration(report.waited_seconds)} in the queue"
    rows = [
        ("took", f"{duration(report.wall_seconds)}{'' if report.ended else ' so far'}{waited}"),
        ("processes", f"{len(report.processes)}, at most {report.places} at a time, {duration(report.process_seconds)} in all"),
        ("spent on", spent or "not recorded"),
        ("idle", f"{percent(report.idle_share)} of the places"),
        ("told", f"{percent(report.communication_share)} of the time: rows, status and checkpoints{_exchanged(report)}"),
        ("solved", f"{report.solved} of {report.runs} runs, {short(report.env_steps)} env steps"),
    ]
    if report.process_seconds_per_solved_run is not None:
        cost = f"{duration(report.process_seconds_per_solved_run)} of a process, {short(report.env_steps_per_solved_run)} env steps"
        rows.append(("each cost", cost))
    more = report.with_one_more_place_seconds
    gain = (
        "nothing: every process had a place from the beginning"
        if more is None
        else f"{duration(more)} instead of {duration(report.wall_seconds)}"
    )
    rows.append(("one more", gain))
    rows += [("ranks", _describe_ranks(one.ranks)) for one in report.processes if one.ranks is not None]
    table = Table(
        ["runs", ">began", ">took", ">env", ">learn", ">eval", ">write", ">other"],
        [
            [
                f"{one.runs[0]}{f' + {len(one.runs) - 1}' if len(one.runs) > 1 else ''}{' straggles' if one.straggles else ''}",
                f"+{number(one.began_seconds)} s",
                duration(one.seconds),
                *(percent(one.phases.get(name, 0.0)) for name in ("env", "learn", "eval", "write", "other")),
            ]
            for one in report.processes
        ],
    )
    found = [Points(report.findings)] if report.findings else []
    return [Heading(f"{report.target}: {plural(report.runs, 'run')}"), Rows(rows), *found, table]


def _exchanged(report: "EfficiencyReport") -> str:
    return ", and between ranks" if any(one.ranks is not None for one in report.processes) else ""


def _describe_ranks(ranks: "RankTime") -> str:
    speed = (
        "speed beside one process not measured"
        if ranks.speedup is None or ranks.scaling_efficiency is None
        else f"{ranks.speedup:.2f}x one process ({percent(ranks.scaling_efficiency)} of {ranks.ranks}x)"
    )
    slow = f"rank {ranks.slowest_rank} slowest ({ranks.slowest_ratio:.2f}x the others{', straggles' if ranks.straggles else ''})"
    more = f"one more would save {percent(max(ranks.one_more_rank_saves, 0.0))}"
    shares = f"messages {percent(ranks.communication_share)}, idle {percent(ranks.idle_share)}"
    return f"{ranks.ranks}: {speed}, {shares}, {slow}; {more}"
