"""The free sentinels of one rollout: statistics of arrays that are there anyway. Numpy only, one number per name.

Shapes: T steps, N envs; rows are the T * N transitions in any order. Names are those of the metric dictionary without
`train/sentinel/`. A number that means nothing (no bounds, no episode ended) is left out; one that is NaN because its input was is
kept, because the first column that breaks names the place.
"""

import hashlib
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Readings = dict[str, float]

PREFIX: Final = "train/sentinel/"
LARGEST_TABLE: Final = 1 << 20
"""Observations of more numbers than this are thinned: a rollout of images is large, and its statistics need few rows."""


def measure_targets(advantages: Array, returns: Array, values: Array) -> Readings:
    """Scale of everything that is regressed on; value targets far from +-10 slow learning down or blow it up."""
    found: Readings = {}
    for name, given in (("adv", advantages), ("return", returns), ("value", values)):
        column = _to_column(given)
        found[f"{name}_mean"], found[f"{name}_std"] = float(column.mean()), _compute_deviation(column)
    size = np.abs(_to_column(returns))
    place = max(int(0.95 * len(size)) - 1, 0)
    found["return_abs_p95"] = float(np.partition(size, place)[place])
    return found


def measure_rewards(raw: Array, trained: Array | None = None) -> Readings:
    """What the env pays per step; `trained` is what is learned from, after normalization and clipping."""
    column = _to_column(raw)
    return {
        "reward_mean": float(column.mean()),
        "reward_std": _compute_deviation(column),
        "reward_min": float(column.min()),
        "reward_max": float(column.max()),
        "reward_nonzero": float((column != 0).mean()),
        "reward_trained_std": _compute_deviation(_to_column(raw if trained is None else trained)),
    }


def measure_observations(shown: Array, low: Array | None = None, high: Array | None = None) -> Readings:
    """Scale, spread and sanity of what the networks are shown, [rows, components]; low and high are the env's declared bounds."""
    table = shown.reshape(len(shown), -1)
    least, most = table.min(0), table.max(0)
    peak = np.maximum(np.abs(least), np.abs(most))
    deviation = table.std(0, ddof=1) if len(table) > 1 else np.zeros(table.shape[1])
    found = {
        "obs_abs_max": float(peak.max()),
        "obs_abs_worst": float(peak.argmax()),
        "obs_std_min": float(deviation.min()),
        "obs_std_worst": float(deviation.argmin()),
        "obs_mean_abs_max": float(np.abs(table.mean(0)).max()),
    }
    if low is not None and high is not None and (np.isfinite(low).any() or np.isfinite(high).any()):
        out = (least < low.reshape(-1) - 1e-4) | (most > high.reshape(-1) + 1e-4)
        found["obs_out_of_bounds"] = float(out.mean())
    return found


def measure_repeated_observations(obs: Array, starts: Array) -> Readings:
    """Share of steps whose observation did not change, from [T, N, ...] observations and the flags of episodes' first ones."""
    if len(obs) < 2:
        return {}
    same = (obs[1:] == obs[:-1]).reshape(len(obs) - 1, obs.shape[1], -1).all(-1)
    within = ~starts[1:].astype(bool)
    return {"obs_repeat": float(same[within].mean())} if within.any() else {}


def choose_stride(size: int) -> int:
    """Take every k-th step of so many numbers, and no more than about a million are left."""
    return max(1, -(-size // LARGEST_TABLE))


def measure_discrete_actions(actions: Array, count: int) -> Readings:
    """Share of the most frequent action."""
    taken = np.bincount(_to_column(actions).astype(np.int64), minlength=count)
    return {"action_top_share": float(taken.max() / max(taken.sum(), 1))}


def measure_box_actions(actions: Array, low: Array, high: Array) -> Readings:
    """Share of continuous action components at or beyond a bound, from actions before clipping, [rows, dimensions]."""
    flat = actions.reshape(-1, low.size)
    return {"action_at_bound": float(((flat <= low.reshape(-1)) | (flat >= high.reshape(-1))).mean())}


def measure_ends(terminated: Array, truncated: Array, returns: Array, raw: Array) -> Readings:
    """How episodes end, and how much of all targets comes from values behind a time limit. All [T, N] or rows."""
    cut = truncated.astype(bool) & ~terminated.astype(bool)
    mass = (np.abs(returns - raw) * cut).sum() / max(float(np.abs(returns).mean()) * returns.size, 1e-8)
    return {"terminated": float(terminated.sum()), "truncated": float(cut.sum()), "bootstrap_mass": float(mass)}


def measure_change(advantages: Array, log_ratio: Array) -> Readings:
    """What the update did: good actions must have become likelier; and how many rows still count after it."""
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.exp(_to_column(log_ratio))
        counted = float(ratio.mean()) ** 2 / max(float(np.square(ratio).mean()), 1e-20)
    return {"adv_logp_corr": correlate(advantages, log_ratio), "ess": counted}


def correlate(x: Array, y: Array) -> float:
    """Pearson correlation; zero where one of them does not vary."""
    a, b = _to_column(x) - np.mean(x), _to_column(y) - np.mean(y)
    scale = float(np.sqrt(np.square(a).sum() * np.square(b).sum()))
    return float((a * b).sum() / scale) if not scale <= 1e-20 else 0.0


def compute_explained_variance(values: Array, returns: Array) -> float | None:
    """1 - Var(target - value) / Var(target); None where the target hardly varies and the figure means nothing."""
    target = _to_column(returns)
    spread = float(target.var())
    return 1 - float((target - _to_column(values)).var()) / spread if spread > 1e-8 * (1 + float(np.square(target).mean())) else None


def count_ages(starts: Array, carried: Array) -> Array:
    """Steps since the episode's start, [T, N]; `carried` [N] are those of the step before the first one."""
    place = np.arange(len(starts))[:, None]
    last = np.maximum.accumulate(np.where(starts.astype(bool), place, -1), axis=0)
    return np.where(last >= 0, place - last, place + 1 + carried)


def measure_critic_by_time(age: Array, returns: Array, values: Array) -> Readings:
    """Explained variance in the early and the late half of episodes: a critic blind to the clock fails late."""
    middle = np.median(age)
    found = {}
    for name, keep in (("ev_early", age <= middle), ("ev_late", age > middle)):
        if keep.sum() > 1 and (share := compute_explained_variance(values[keep], returns[keep])) is not None:
            found[name] = share
    return found


def measure_gradients(parts: dict[str, Array], limit: float | None) -> dict[str, float]:
    """Columns of train/metrics/grad_norm/ from the norms, [gradient steps], of each part before clipping."""
    if not parts:
        return {}
    whole = np.sqrt(np.square(np.stack(list(parts.values()))).sum(0))
    ordered = np.sort(whole)
    found = {"all": float(whole.mean())} | {name: float(norms.mean()) for name, norms in parts.items()}
    found |= {name: float(ordered[min(int(q * len(ordered)), len(ordered) - 1)]) for name, q in (("p50", 0.5), ("p95", 0.95), ("max", 1.0))}
    if limit is not None and np.isfinite(limit):
        found["clipped"] = float((whole > limit).mean())
    return {f"train/metrics/grad_norm/{name}": number for name, number in found.items()}


def hash_arrays(parts: Iterable[Array]) -> float:
    """48 bits of a hash over the bytes of some arrays: a whole number that a float holds exactly."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(np.ascontiguousarray(part).tobytes())
    return float(int.from_bytes(digest.digest()[:6], "little"))


def add_prefix(found: Readings) -> dict[str, float]:
    """Readings by the full names of their columns."""
    return {PREFIX + name: number for name, number in found.items()}


def _to_column(values: Array) -> Array:
    return np.asarray(values, dtype=np.float64).reshape(-1)


def _compute_deviation(column: Array) -> float:
    return float(column.std(ddof=1)) if len(column) > 1 else 0.0
