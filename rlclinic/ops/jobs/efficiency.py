"""`efficiency`: where the time of a training went, from what its runs and its job have written down."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import numpy as np

from rlclinic.actions import Action, Argument
from rlclinic.errors import DiskFailed, NotFound
from rlclinic.ops.jobs import models
from rlclinic.report.format import duration, percent
from rlclinic.report.jobs import efficiency
from rlclinic.report.jobs.efficiency import EXCHANGE, PHASES, EfficiencyReport, ProcessTime, RankTime
from rlclinic.runs import status_file, trials
from rlclinic.runs.record import Run
from rlclinic.runs.status_file import Status
from rlclinic.runs.store import Store
from rlclinic.stats.recurring import find_recurring

SLOWER: Final = 1.4
"""A rank straggles that works so many times as long as the others, if it is always the same, or one of the same few."""
STRAGGLES: Final = 0.2
"""Of the time of most others: a process that goes on for so much longer holds all of them up."""
MUCH: Final = 0.2
"""A share of the time that is worth a word."""


class Span(NamedTuple):
    """When a run trained, and what its process did meanwhile, in seconds."""

    began: float
    ended: float
    phases: dict[str, float]


def report_efficiency(target: str = "@last", runs_dir: Path = Path("runs"), *, out: Path | None = None) -> EfficiencyReport:
    """Say what the time of a group, a run, a trial or a study was spent on, what it cost, and what would have made it faster.

    out: a folder for efficiency.html (with its picture), efficiency.md, efficiency.svg and efficiency.json, made if it is not there.
    """
    store = Store(runs_dir)
    job = models.of(store, target)
    refers = target if job is None or job.refers is None else job.refers
    runs = [run for group in trials.groups(store, refers) for run in group.runs] or store.select(refers)
    if job is None and (group := runs[0].group) is not None:
        job = models.of(store, trials.trial_of(group) or group.id)
    statuses = {run.id: status_file.read(run.path) for run in runs}
    measured = [(run, span) for run in runs if (span := _measure(run, statuses[run.id])) is not None]
    if not measured:
        raise NotFound(
            f"{target} has no row that says when it was trained: it has none yet, or others trained it.\n"
            "  Nothing can be said about its time.\n  See how it stands: ",
            Action("status", target),
        )
    processes = _find_processes(measured, statuses)
    began, ended = min(span.began for _, span in processes), max(span.ended for _, span in processes)
    wall, total = ended - began, sum(span.ended - span.began for _, span in processes)
    places = count_at_once([span for _, span in processes])
    late = _find_stragglers([span.ended - began for _, span in processes])
    listed = [
        ProcessTime(
            runs=[run.id for run in members],
            host=statuses[members[0].id].host,
            began_seconds=span.began - began,
            seconds=span.ended - span.began,
            phases=_share(span.phases, span.ended - span.began),
            straggles=place in late,
            ranks=_measure_ranks(members[0], span.phases),
        )
        for place, (members, span) in enumerate(processes)
    ]
    names = dict.fromkeys(name for _, span in processes for name in span.phases)
    phases = _share({name: sum(span.phases.get(name, 0.0) for _, span in processes) for name in names}, total)
    spent = sum(one.seconds * (one.ranks.ranks if one.ranks is not None else 1) for one in listed)
    solved = sum(status.threshold_reached_at is not None for status in statuses.values())
    steps = sum(status.used_env_steps for status in statuses.values())
    lengths = [span.ended - span.began for _, span in processes]
    # Both by the same rule, so that what it leaves out (how busy the machine was) is left out of the difference.
    faster = schedule(lengths, places + 1) / max(schedule(lengths, places), 1e-9) * wall if len(lengths) > places else None
    report = EfficiencyReport(
        target=target,
        runs=len(runs),
        ended=all(not status.live for status in statuses.values()),
        waited_seconds=None if job is None else max(0.0, began - job.created),
        resumes=sum(status.resumes for status in statuses.values()),
        wall_seconds=wall,
        places=places,
        process_seconds=spent,
        phases=phases,
        communication_share=phases["write"] + phases.get(EXCHANGE, 0.0),
        idle_share=max(0.0, 1.0 - total / (places * wall)) if wall > 0 else 0.0,
        processes=listed,
        solved=solved,
        env_steps=steps,
        process_seconds_per_solved_run=spent / solved if solved else None,
        env_steps_per_solved_run=steps / solved if solved else None,
        with_one_more_place_seconds=faster,
        findings=[],
    )
    report = report.model_copy(update={"findings": _find(report)})
    return report if out is None else report.model_copy(update={"files": _write(report, out)})


def _write(report: EfficiencyReport, out: Path) -> list[str]:
    texts = {
        "efficiency.html": efficiency.page(report),
        "efficiency.md": efficiency.markdown(report),
        "efficiency.svg": efficiency.draw(report),
        "efficiency.json": report.model_dump_json(indent=2) + "\n",
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise DiskFailed(
            f"{out} cannot be written: {error.strerror}.\n  There is no report.\n  Give another folder: ", Argument("out", "DIR")
        ) from error
    return [str(out / name) for name in texts]


def _measure(run: Run, status: Status) -> Span | None:
    """When a run trained, by its rows; None if it has none."""
    table = run.metrics
    if not len(table) or "time" not in table:
        return None
    names = (*PHASES, EXCHANGE) if f"time/{EXCHANGE}" in table else PHASES
    seconds = {name: np.nan_to_num(table[f"time/{name}"]) if f"time/{name}" in table else np.zeros(len(table)) for name in names}
    first, last = float(table["time"][0]), float(table["time"][-1])
    # A row stands for the time before it.
    began = first - float(sum(column[0] for column in seconds.values()))
    if status.started is not None and status.started < began:
        began = status.started
    return Span(began, max(last, began), {name: float(column.sum()) for name, column in seconds.items()})


def _measure_ranks(run: Run, phases: dict[str, float]) -> RankTime | None:
    """What a run's ranks did with their time, by its rows; None for one process."""
    table, ranks = run.metrics, run.config.run.data_parallel
    if EXCHANGE not in phases or ranks == 1:
        return None
    columns = {name: np.nan_to_num(table[f"time/ranks_{name}"]) for name in ("communicate", "idle", "slowest", "slowest_ratio")}
    iterations = phases["env"] + phases["act"] + phases["learn"] + phases[EXCHANGE]
    messages, waiting = float(columns["communicate"].sum()), float(columns["idle"].sum())
    alone = phases["sentinels"] + phases["eval"] + phases["write"]  # rank 0's, while the others wait
    whole = max(iterations + alone, 1e-9)
    slowest = [int(number) for number in columns["slowest"].round()]
    often = find_recurring(slowest, ranks)
    ratio = float(np.median(columns["slowest_ratio"]))
    engine = run.record.get("engine") or {}
    before = engine.get("alone_seconds")
    speedup = None if before is None else float(before) * float(table["epoch"][-1]) / max(iterations, 1e-9)
    work = max(iterations - messages - waiting, 0.0)
    # A ring passes 2 (N - 1) / N of the buffer.
    more = work * ranks / (ranks + 1) + messages * ranks**2 / (ranks**2 - 1) + waiting + alone
    return RankTime(
        ranks=ranks,
        speedup=speedup,
        scaling_efficiency=None if speedup is None else speedup / ranks,
        communication_share=messages / max(iterations, 1e-9),
        idle_share=(waiting + alone * (ranks - 1) / ranks) / whole,
        slowest_rank=max(set(slowest), key=slowest.count),
        slowest_ratio=ratio,
        stragglers=often if ratio >= SLOWER else [],
        one_more_rank_saves=1.0 - more / whole,
    )


def _find_processes(measured: Sequence[tuple[Run, Span]], statuses: dict[str, Status]) -> list[tuple[list[Run], Span]]:
    """Runs that one process trained, in the order in which they began. Members share its phases: the one that went on longest has most."""
    together: dict[object, list[tuple[Run, Span]]] = {}
    for run, span in measured:
        status = statuses[run.id]
        key = (status.host, status.pid, status.process_started) if status.pid is not None else run.id
        together.setdefault(key, []).append((run, span))
    found = []
    for members in together.values():
        longest = max((span for _, span in members), key=lambda span: sum(span.phases.values()))
        whole = Span(min(span.began for _, span in members), max(span.ended for _, span in members), longest.phases)
        found.append(([run for run, _ in members], whole))
    return sorted(found, key=lambda process: (process[1].began, process[0][0].id))


def _share(phases: dict[str, float], seconds: float) -> dict[str, float]:
    """Shares of a time, with what is left over as `other`: starting, waiting between two attempts."""
    if seconds <= 0:
        return {**dict.fromkeys(phases, 0.0), "other": 0.0}
    whole = max(seconds, sum(phases.values()))
    shares = {name: spent / whole for name, spent in phases.items()}
    return {**shares, "other": max(0.0, 1.0 - sum(shares.values()))}


def count_at_once(spans: Sequence[Span]) -> int:
    """How many processes trained at the same time, at most. One that begins when another ends takes its place."""
    moments = sorted([(span.began, 1) for span in spans] + [(span.ended, -1) for span in spans])
    now = most = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return max(most, 1)


def _find_stragglers(ends: Sequence[float]) -> set[int]:
    """Places of processes that ended long after most others."""
    if len(ends) < 3:
        return set()
    usual = median(ends)
    return {place for place, end in enumerate(ends) if end > (1 + STRAGGLES) * usual}


def schedule(lengths: Sequence[float], places: int) -> float:
    """How long processes take that begin in this order, each as soon as a place is free."""
    free = [0.0] * places
    for length in lengths:
        free[free.index(min(free))] += length
    return max(free)


def _find(report: EfficiencyReport) -> list[str]:
    """What is worth a word, the most costly first."""
    found: list[tuple[float, str]] = []
    late = [one for one in report.processes if one.straggles]
    if late:
        others = max((one.began_seconds + one.seconds for one in report.processes if not one.straggles), default=0.0)
        behind = report.wall_seconds - others
        names = ", ".join(run for one in late for run in one.runs[:2])
        found.append(
            (
                behind / max(report.wall_seconds, 1e-9),
                f"{names} went on for {duration(behind)} after all others had ended: smaller cohorts end together",
            )
        )
    if report.idle_share > MUCH:
        found.append(
            (report.idle_share, f"{percent(report.idle_share)} of the places had nothing to train: fewer places cost the same time")
        )
    if report.phases["write"] > MUCH:
        found.append(
            (
                report.phases["write"],
                f"{percent(report.phases['write'])} went into writing: a slow disk, or rows and checkpoints too often",
            )
        )
    for one in report.processes:
        found += _find_in_ranks(one)
    if (eval_share := report.phases["eval"]) > MUCH:
        found.append(
            (eval_share, f"{percent(eval_share)} went into evaluations: run.eval_every_env_steps and run.eval_episodes decide about it")
        )
    if (env_share := report.phases["env"]) > 0.5:
        found.append((env_share, f"{percent(env_share)} went into stepping environments: no faster learner helps"))
    if (other := report.phases["other"]) > MUCH:
        found.append(
            (other, f"{percent(other)} is in no phase: processes that start, or wait between two attempts ({report.resumes} resumes)")
        )
    faster = report.with_one_more_place_seconds
    if faster is not None and report.wall_seconds - faster > MUCH * report.wall_seconds:
        gain = 1 - faster / report.wall_seconds
        found.append((gain, f"one place more would have saved {percent(gain)} of the time"))
    if report.waited_seconds is not None and report.waited_seconds > report.wall_seconds:
        found.append((1.0, f"it waited {duration(report.waited_seconds)} in the queue, longer than it trained: another worker helps more"))
    return [text for _, text in sorted(found, key=lambda item: -item[0])]


def _find_in_ranks(process: ProcessTime) -> list[tuple[float, str]]:
    """What is worth a word about the ranks of a process."""
    ranks, run = process.ranks, process.runs[0]
    if ranks is None:
        return []
    found = []
    if ranks.speedup is not None and ranks.scaling_efficiency is not None and ranks.scaling_efficiency < 0.6:
        faster = f"{ranks.ranks} ranks were {ranks.speedup:.2f}x as fast as one process"
        found.append((1.0 - ranks.scaling_efficiency, f"{run}: {faster}: {'fewer' if ranks.speedup > 1 else 'no'} ranks cost less"))
    if ranks.stragglers:
        names = ", ".join(map(str, ranks.stragglers))
        slow = f"rank {names}" if len(ranks.stragglers) == 1 else f"one of ranks {names}"
        longer = f"{slow} works {ranks.slowest_ratio:.1f} times as long as the others"
        found.append((1.0 - 1.0 / ranks.slowest_ratio, f"{run}: {longer}, and all wait for it"))
    if ranks.communication_share > MUCH:
        share = percent(ranks.communication_share)
        found.append(
            (ranks.communication_share, f"{run}: {share} of iterations were messages between ranks: larger minibatches send fewer")
        )
    if ranks.idle_share > MUCH:
        share = percent(ranks.idle_share)
        found.append((ranks.idle_share, f"{run}: ranks were idle {share} of the time: waiting for the slowest, or for rank 0 to evaluate"))
    return found
