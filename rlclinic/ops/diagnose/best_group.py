"""The best comparable group in the store: same environment, same algorithm, a better outcome.

It shows what is possible and which settings differ. It is never a reason for a cause: that another group did better does not
say why this one did not.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from rlclinic.errors import RlclinicError
from rlclinic.ops.runs.ranking import RankedGroup, outcome
from rlclinic.report.format import number, plural, short
from rlclinic.report.models import Comparable, Difference
from rlclinic.runs import fingerprint, history
from rlclinic.runs.history import History
from rlclinic.runs.record import Group, settings
from rlclinic.runs.store import Store

POINTS: Final = 128
_NOT_COMPARED: Final = (
    "seed",
    "name",
    "spec.measured",
    "spec.description",
    "run.device",
    "run.stop_at_threshold",
    "run.threads",
    "run.data_parallel",
    "run.shard_optimizer",
    "run.shard_weights",
    "run.allow_slower",
    "run.tensorboard",
    "run.film_every_env_steps",
    "run.histograms_every_env_steps",
    "run.save_replay",
    "env.workers",
)
_RETURNS: Final = ("val/roll/ep_rew_mean", "train/roll/ep_rew_mean")


def best(owner: Group, histories: Sequence[History], others: Sequence[RankedGroup] | None = None) -> Comparable | None:
    """The best other group of the owner's environment and algorithm, if it did better than the owner.

    `others` are the groups of that kind, where somebody knows them already.
    """
    top = best_of(owner, [outcome(group) for group in candidates(owner)] if others is None else others)
    return None if top is None else _compared(top, owner, histories)


def best_of(owner: Group, others: Sequence[RankedGroup]) -> RankedGroup | None:
    """The best of the others, if it did better than the owner."""
    ours = outcome(owner)
    if ours.seeds and ours.kept == ours.seeds:
        return None
    # More seeds there, or as many and a better last evaluation; a few steps sooner is no reason to look at another group.
    limit = (ours.rank[0], ours.rank[2])
    better = [
        other for other in others if other.score is not None and (other.rank[0], other.rank[2]) > limit and other.group.id != owner.id
    ]
    return max(better, key=lambda other: (other.rank, other.group.id), default=None)


def candidates(owner: Group) -> list[Group]:
    """Other groups of the same environment and algorithm."""
    kind = (owner.env_id, owner.algo)
    groups = [group for group in Store(owner.path.parent.parent).groups() if group.id != owner.id and is_readable(group)]
    return [group for group in groups if (group.env_id, group.algo) == kind]


def is_readable(group: Group) -> bool:
    """Whether its group.json can be read: a damaged one must not hide the others."""
    try:
        return bool(group.record)
    except RlclinicError:
        return False


def _compared(top: RankedGroup, owner: Group, histories: Sequence[History]) -> Comparable:
    theirs = _read_group(top.group.path, fingerprint.of(top.group))
    # What another framework's log does not say is unknown, and no difference.
    partial = bool(owner.record.get("source") or top.group.record.get("source"))
    apart = differences(_flat(owner.record), _flat(top.group.record), partial=partial)
    parts_at = parting(histories, theirs)
    return Comparable(
        group=top.group.id,
        seeds=top.seeds,
        reached=top.reached,
        score=top.score,
        steps_to_threshold=top.steps,
        differences=apart,
        parts_at=parts_at,
        said=_describe(top, apart, parts_at),
    )


@lru_cache(maxsize=4)
def _read_group(path: Path, _mark: str) -> list[History]:
    """The histories of the best group, read once for as long as its files stay as they are: every other group is compared with it."""
    return [history.of_run(run) for run in Group(path).runs]


def _describe(top: RankedGroup, apart: Sequence[Difference], parts_at: float | None) -> str:
    reached = f"{top.reached} of {plural(top.seeds, 'seed')} reached the threshold" if top.group.threshold is not None else ""
    facts = [reached, f"return {number(top.score)}" if top.score is not None else ""]
    facts.append("the same settings" if not apart else f"{plural(len(apart), 'setting')} differ" + ("s" if len(apart) == 1 else ""))
    if parts_at is not None:
        facts.append(f"its curve stays above from step {short(parts_at)} on")
    return " · ".join(fact for fact in facts if fact)


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    return history.dotted(settings(dict(record)))


def differences(here: Mapping[str, Any], there: Mapping[str, Any], *, partial: bool = False) -> list[Difference]:
    """Settings that are not equal, by name; with `partial`, of those that both sides know."""
    known = here.keys() & there.keys() if partial else here.keys() | there.keys()
    names = sorted(known - set(_NOT_COMPARED))
    return [
        Difference(setting=name, here=here.get(name), there=there.get(name))
        for name in names
        if not name.startswith("spec.") and here.get(name) != there.get(name)
    ]


def parting(here: Sequence[History], there: Sequence[History]) -> float | None:
    """The env step from which the other side's middle stays above ours, by more than the runs' own spread; None if it never does."""
    for name in _RETURNS:
        sides = [_curves(side, name) for side in (here, there)]
        if all(sides):
            end = min(max(float(steps[-1]) for steps, _ in side) for side in sides)
            grid = np.linspace(0, end, POINTS)[1:]
            ours, theirs = (np.stack([np.interp(grid, *curve) for curve in side]) for side in sides)
            margin = 0.05 * float(np.ptp(np.concatenate([ours, theirs]))) or 1e-12
            above = np.median(theirs, axis=0) > np.median(ours, axis=0) + margin
            return float(grid[_last_start(above)]) if above[-1] else None
    return None


def _last_start(above: Any) -> int:
    """Where the final stretch of True begins."""
    below = np.flatnonzero(~above)
    return int(below[-1]) + 1 if len(below) else 0


def _curves(side: Sequence[History], name: str) -> list[tuple[Any, Any]]:
    curves = [each.series[name] for each in side if name in each.series]
    return [(series.steps, series.values) for series in curves if len(series.values) >= 3]
