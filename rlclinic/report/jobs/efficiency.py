"""Where the time of a training went: what is known about it, in words, in a table, and as a picture of its processes side by side."""

from typing import Final

from pydantic import Field

from rlclinic.report import charts
from rlclinic.report.document import Block, Figure, Gap, Heading, Points, Rows, Table, Text, render_markdown, render_page
from rlclinic.report.format import duration, number, percent, plural, short
from rlclinic.report.models import Result, ResultPart

PHASES: Final = ("env", "act", "learn", "sentinels", "eval", "write")
EXCHANGE: Final = "exchange"
"""The phase in which ranks meet; only where several train a run together."""
DRAWN: Final = ("env", "act", "learn", EXCHANGE, "sentinels", "eval", "write", "other")
"""Phases in the order of the picture."""
MOST_BARS: Final = 40


class RankTime(ResultPart):
    """What the ranks of a run that several train together did with their time; shares of their iterations, but for the idle one."""

    ranks: int
    speedup: float | None
    """Over one process, whose iteration was measured before the run began; None: it was not."""
    scaling_efficiency: float | None
    """The same for each rank: 1 where N ranks are N times as fast."""
    communication_share: float
    """Messages."""
    idle_share: float
    """Of all ranks' time: waiting for slower ones, and for rank 0 while it evaluates, looks after itself and writes."""
    slowest_rank: int
    slowest_ratio: float
    """How many times as long as the others it works, in the median."""
    stragglers: list[int]
    """The same rank, or one of the same few of more, is slower in nearly every row."""
    one_more_rank_saves: float
    """The share of the time that another rank would save, if work is shared out evenly and messages grow as those of a ring."""


class ProcessTime(ResultPart):
    """One training process, and the runs that it trained together."""

    runs: list[str]
    host: str | None
    began_seconds: float
    """After the first of them."""
    seconds: float
    phases: dict[str, float]
    """Shares of its time by what it did: env, act, learn, sentinels, eval, write; other is what none of them accounts for."""
    straggles: bool
    """It went on for long after most others had ended."""
    ranks: RankTime | None = None
    """Where several ranks train its runs together (run.data_parallel)."""


class EfficiencyReport(Result):
    """What the time and the work of a training were spent on, as far as its runs and its job have recorded it."""

    target: str
    runs: int
    ended: bool
    """Whether all of them have ended; if not, all of this is as of now."""
    waited_seconds: float | None
    """In the queue, before the first process began; None: it was not started as a job."""
    resumes: int
    """How often a run was started again."""
    wall_seconds: float
    """From the first process's beginning to the last one's end."""
    places: int
    """Processes that trained at the same time, at most."""
    process_seconds: float
    """Of all processes together, ranks too."""
    phases: dict[str, float]
    """Shares of that by what was done."""
    communication_share: float
    """Writing rows, status and checkpoints, and what ranks exchange, with the time that they wait for each other there."""
    idle_share: float
    """Of the places, over the whole time: a place is idle once nothing is left for it to train."""
    processes: list[ProcessTime]
    solved: int
    """Runs that reached the threshold."""
    env_steps: int
    """Of training and of evaluations."""
    process_seconds_per_solved_run: float | None
    env_steps_per_solved_run: float | None
    with_one_more_place_seconds: float | None
    """How long it would have taken with room for one process more; None: every process had a place from the beginning."""
    findings: list[str]
    files: list[str] = Field(default_factory=list)
    """What was written."""


def describe(report: EfficiencyReport) -> list[Block]:
    """The report as a document, with its picture."""
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
    written: list[Block] = [Gap(), Text(f"wrote {', '.join(report.files)}")] if report.files else []
    return [Heading(f"{report.target}: {plural(report.runs, 'run')}"), Rows(rows), *found, _picture(report), table, *written]


def page(report: EfficiencyReport) -> str:
    """The report as one HTML file."""
    title, *rest = describe(report)
    assert isinstance(title, Heading)
    return render_page(title.text, rest)


def markdown(report: EfficiencyReport) -> str:
    """The report as Markdown, beside its picture."""
    return render_markdown(describe(report))


def _exchanged(report: EfficiencyReport) -> str:
    return ", and between ranks" if any(one.ranks is not None for one in report.processes) else ""


def _describe_stragglers(ranks: RankTime) -> str:
    match ranks.stragglers:
        case []:
            return ""
        case [_]:
            return ", straggles"
        case several:
            return f"; one of {', '.join(map(str, several))} always is"


def _describe_ranks(ranks: RankTime) -> str:
    speed = (
        "speed beside one process not measured"
        if ranks.speedup is None or ranks.scaling_efficiency is None
        else f"{ranks.speedup:.2f}x one process ({percent(ranks.scaling_efficiency)} of {ranks.ranks}x)"
    )
    slow = f"rank {ranks.slowest_rank} slowest ({ranks.slowest_ratio:.2f}x the others{_describe_stragglers(ranks)})"
    more = f"one more would save {percent(max(ranks.one_more_rank_saves, 0.0))}"
    shares = f"messages {percent(ranks.communication_share)}, idle {percent(ranks.idle_share)}"
    return f"{ranks.ranks}: {speed}, {shares}, {slow}; {more}"


# ── the picture ──


def _picture(report: EfficiencyReport) -> Figure:
    bars = list_bars(report)
    left = len(report.processes) - len(bars)
    more = f" Of {len(report.processes)} processes those that went on longest." if left else ""
    text = (
        "Processes over time: a bar is as long as its process trained, and its colours are the shares of that time (not when). "
        f"Nothing is trained where there is no bar.{more}"
    )
    return Figure(lambda: draw(report), text, "efficiency.svg", charts.TimelineDrawing(bars, report.wall_seconds))


def list_bars(report: EfficiencyReport) -> list[charts.TimelineBar]:
    """The bars of the picture in the order in which they began; of very many, those that ended last."""
    last = sorted(report.processes, key=lambda one: -(one.began_seconds + one.seconds))[:MOST_BARS]
    return [
        charts.TimelineBar(
            f"{one.runs[0]}{f' + {len(one.runs) - 1}' if len(one.runs) > 1 else ''}",
            one.began_seconds,
            one.seconds,
            {name: one.phases.get(name, 0.0) for name in DRAWN if one.phases.get(name, 0.0) > 0},
            "straggles" if one.straggles else "",
        )
        for one in report.processes
        if one in last
    ]


def draw(report: EfficiencyReport) -> str:
    """The picture as <svg>."""
    return charts.timeline_svg(list_bars(report), report.wall_seconds, f"{report.target}: where the time went")
