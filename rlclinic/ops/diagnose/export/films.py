"""Episodes from before a reward was gamed and from when it was: those that were recorded, and recording those that were not."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

from rlclinic import trust
from rlclinic.actions import Action
from rlclinic.diagnosis.findings import Diagnosis
from rlclinic.ops.runs import video
from rlclinic.ops.runs.video import Film
from rlclinic.report import group
from rlclinic.report.format import count, number, plural
from rlclinic.report.models import FilmedEpisode, Films
from rlclinic.runs import env_code
from rlclinic.runs.record import Group, Run

RULES: Final = ("SUC101", "SUC104", "SUC105", "SUC106", "REW516", "REW519")
"""What is said of rewards that are gamed, or pull away from the task."""
NEAR: Final = 0.25
"""Of the range: an episode so near to one of its ends stands for it."""


def find(owner: Run | Group | None, diagnosis: Diagnosis) -> Films | None:
    """The two episodes that show what the likeliest cause is paid for; None where it is not a reward that is gamed.

    Of runs of others, and of runs whose folder cannot be written to, what to type instead.
    """
    rules = [rule for rule in diagnosis.causes[0].rules if rule in RULES]
    told = [(finding, part) for finding in diagnosis.findings if finding.rule in rules for part in finding.evidence]
    seen = next(((finding, part.start, part.end) for finding, part in told if part.start is not None and part.end is not None), None)
    if seen is None:
        return None
    finding, start, end = seen[0], int(seen[1]), int(seen[2])
    if owner is None or owner.record.get("source"):
        when = f"step in ({start}, {end})" if start else f"step in (0, {end})"
        note = (
            f"of runs of others there is no policy here: record an episode from before env step {count(start)} and one from "
            f'{count(end)}, e.g. with gymnasium.wrappers.RecordVideo(env, "films", step_trigger=lambda step: {when})'
        )
        return Films(rule=finding.rule, start=start, end=end, episodes=(), note=note)
    runs = owner.runs if isinstance(owner, Group) else [owner]
    agreeing = [run for run in runs if run.id in finding.runs] or runs
    pairs = [_choose(run, start, end) for run in agreeing]
    episodes = max(pairs, key=lambda pair: sum(each.file is not None for each in pair))
    missing, where = [each for each in episodes if each.file is None], group.runs_dir_of(owner)
    actions: tuple[Action, ...] = ()
    if missing and not os.access(runs[0].path, os.W_OK):
        kept = {checkpoint.step for run in agreeing for checkpoint in run.checkpoints}
        actions = tuple(
            Action("evaluate", f"{each.run}@{each.step}", episodes=1, video=f"{each.run}-{each.step}.gif", runs_dir=where)
            for each in missing
            if each.step in kept
        )
    elif missing:
        actions = (Action("diagnose", owner.id, film=True, runs_dir=where),)
    return Films(rule=finding.rule, start=start, end=end, episodes=episodes, missing=actions)


def _choose(run: Run, start: int, end: int) -> tuple[FilmedEpisode, ...]:
    """A run's episodes from the ends of a range: what was filmed near them, else the policy kept there, else one that is trained again."""
    filmed = {film.step: film for film in video.list_films(run).films}
    kept = [checkpoint.step for checkpoint in run.checkpoints]
    wide = max(1, round(NEAR * (end - start)))
    chosen = []
    ends: tuple[tuple[Literal["before", "within"], int], ...] = (("before", start), ("within", end))
    for when, at in ends:
        low, high = max(0, at - wide), at + wide
        near = [step for step in filmed if low <= step <= high] or [step for step in kept if low <= step <= high]
        step = min(near, key=lambda step, at=at: (abs(step - at), step)) if near else at  # type: ignore[misc]
        chosen.append(_describe(run, when, step, low, high, filmed.get(step)))
    return tuple(chosen)


def _describe(run: Run, when: Literal["before", "within"], step: int, low: int, high: int, film: Film | None) -> FilmedEpisode:
    file = None if film is None else film.file
    path = None if file is None else str(run.path / video.FOLDER / file)
    trace = None if film is None or film.trace is None else _read_trace(run.path / video.FOLDER / film.trace)
    return FilmedEpisode(
        when=when, run=run.id, step=step, low=low, high=high, file=file, path=path, said=None if trace is None else _say(trace)
    )


def _read_trace(path: Path) -> dict[str, Any] | None:
    try:
        trace = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return trace if isinstance(trace, dict) and isinstance(trace.get("rewards"), list) else None


def _say(trace: dict[str, Any]) -> str:
    """What an episode came to: 60 steps, return 57, no success (alive 60, goal 0)."""
    rewards = [value for value in trace["rewards"] if isinstance(value, int | float)]
    succeeded, terms = trace.get("success"), trace.get("terms")
    success = "" if succeeded is None else ", a success" if succeeded else ", no success"
    paid_by = terms.items() if isinstance(terms, dict) else ()
    sums = {name: sum(value for value in values if isinstance(value, int | float)) for name, values in paid_by}
    paid = ", ".join(f"{name} {number(total, 3)}" for name, total in sums.items())
    return f"{plural(len(trace['rewards']), 'step')}, return {number(sum(rewards), 3)}{success}" + (f" ({paid})" if paid else "")


def record(films: Films, owner: Run | Group, say: Callable[[str], None]) -> None:
    """Record the episodes that are missing, one after the other; `say` hears what is going on.

    The environment runs in processes of its own, which ask nobody: whoever may have its code run is asked here.
    """
    runs = owner.runs if isinstance(owner, Group) else [owner]
    missing = [each for each in films.episodes if each.file is None]
    for place, episode in enumerate(missing, 1):
        run = next(run for run in runs if run.id == episode.run)
        env_code.check_found(run)
        trust.check_envs([run.config.env])
        kept = any(checkpoint.step == episode.step for checkpoint in run.checkpoints)
        how = "" if kept else ", by training it again up to there"
        say(f"filming {place} of {len(missing)}: {run.id} at env step {count(episode.step)} ({episode.when}){how}")
        video.film(run.id, run.path.parent, checkpoint=str(episode.step), again=True)
