"""Losses, gradient norms and update health in the first, second and last third of the runs."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from rlclinic import metrics, stats
from rlclinic.comparison.models import LossShares, PhaseRow
from rlclinic.comparison.sides import Side
from rlclinic.runs.coerce import real
from rlclinic.runs.history import History

Thirds = tuple[float | None, float | None, float | None]
NOTHING: Final[Thirds] = (None, None, None)
SHOWN: Final = (
    *("val/roll/ep_rew_mean", "train/roll/ep_rew_mean"),
    *(f"train/loss/{name}" for name in ("policy", "value", "entropy", "total", "td", "actor", "critic")),
    *(f"train/metrics/grad_norm/{name}" for name in ("all", "p50", "p95", "max", "clipped", "actor_head", "critic_head", "trunk")),
    *(f"train/metrics/{name}" for name in ("kl_divergence", "clip_fraction", "explained_variance", "entropy", "q_mean", "q_max")),
    *(f"train/sentinel/{name}" for name in ("td_error", "q_bias")),
    *(f"train/hp/{name}" for name in ("learning_rate", "epsilon", "alpha")),
    "train/sentinel/update_ratio_max",
)
_HIGHEST: Final = ("train/metrics/grad_norm/max",)


def rows(sides: Sequence[Side]) -> list[PhaseRow]:
    """The metrics that at least one side logged, by third."""
    found = []
    for name in SHOWN:
        values = [_over_runs([thirds(history, name) for history in side.histories]) for side in sides]
        if any(value is not None for side in values for value in side):
            known = metrics.find(name)
            found.append(PhaseRow(metric=name, meaning=known.meaning if known else "", values=values))
    return found


def thirds(history: History, name: str) -> Thirds:
    """Mean of a metric in each third of the run (the highest value, for a maximum)."""
    series = history.series.get(name)
    if series is None or not len(series):
        return NOTHING
    end = max(float(series.steps[-1]), float(history.env_steps or 0))
    places = np.minimum((3 * series.steps / max(end, 1.0)).astype(int), 2)
    # A row stands for the steps before it: one at exactly a third belongs to the third that it ends.
    places = np.where((places > 0) & (3 * series.steps == places * end), places - 1, places)
    parts = [series.values[places == third] for third in range(3)]
    reduce = np.max if name in _HIGHEST else np.mean
    early, middle, late = (float(reduce(part)) if len(part) else None for part in parts)
    return early, middle, late


def _over_runs(runs: Sequence[Thirds]) -> Thirds:
    """IQM over the runs that know it, for each third."""
    found = []
    for third in range(3):
        known = [value for run in runs if (value := run[third]) is not None]
        found.append(float(stats.iqm(known)) if known else None)
    return found[0], found[1], found[2]


def losses(sides: Sequence[Side]) -> list[LossShares]:
    """Each loss term's weighted size as a share of all of them: what the optimizer worked on."""
    found = []
    for side in sides:
        if not any("train/loss/policy" in history and "train/loss/value" in history for history in side.histories):
            continue
        parts = [_shares(side, history) for history in side.histories]
        policy, value, entropy = (_over_runs([part[place] for part in parts]) for place in range(3))
        found.append(LossShares(label=side.label, policy=policy, value=value, entropy=entropy))
    return found


def _shares(side: Side, history: History) -> tuple[Thirds, Thirds, Thirds]:
    sizes = []
    for term, weight in (("policy", None), ("value", "vf_coef"), ("entropy", "ent_coef")):
        raw = thirds(history, f"train/loss/{term}")
        sizes.append([_weighted(raw[third], _weight(side, history, weight, third)) for third in range(3)])
    totals = [sum(size[third] or 0.0 for size in sizes) for third in range(3)]
    shares = [[_share(size[third], totals[third]) for third in range(3)] for size in sizes]
    return tuple((row[0], row[1], row[2]) for row in shares)  # type: ignore[return-value]


def _weight(side: Side, history: History, name: str | None, third: int) -> float | None:
    if name is None:
        return 1.0
    applied = thirds(history, f"train/hp/{name}")[third]
    return real(side.settings.get(f"algo.{name}")) if applied is None else applied


def _weighted(size: float | None, weight: float | None) -> float | None:
    return None if size is None or weight is None else abs(size) * weight


def _share(size: float | None, total: float) -> float | None:
    return None if size is None or total <= 0 else size / total
