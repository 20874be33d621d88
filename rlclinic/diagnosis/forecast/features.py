"""What a run's first part tells about the rest: numbers without a unit, so that they mean the same on an environment nobody has seen."""

import math
from dataclasses import replace
from typing import Final

import numpy as np

from rlclinic.diagnosis import columns
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.signals import detect, measures
from rlclinic.diagnosis.signals.detect import Signal
from rlclinic.runs.history import History, Series

CURVE: Final = (
    "used", "covered", "now", "fell", "evaluated", "best_episode", "projected", "projected_long", "eval_projected",
    "stale", "eval_stale", "noise", "moved", "tau", "low", "very_low", "flat", "lying",
)  # fmt: skip
POLICY: Final = (
    "tiny_step", "huge_step", "entropy", "low_entropy", "entropy_fall", "explained", "episode_spread", "slow", "one_action", "advice",
    "growth", "dormant", "saturated", "off_ratio", "value_error", "clipped", "no_reward", "dead_input", "same_input", "large_input",
    "small_target", "at_bound", "skipped", "no_rate", "short_reach", "few_rollouts",
)  # fmt: skip
"""Need more than returns; NaN where they were not logged."""
FEATURES: Final = (*CURVE, *POLICY)
SERIES: Final = frozenset(
    {columns.RETURN, columns.RETURN_STD, columns.BEST_RETURN, columns.EVAL_RETURN, columns.KL, columns.ENTROPY, columns.EXPLAINED_VARIANCE}
    | {columns.ACTION_STD, columns.GRAD_CLIPPED}
    | {
        columns.sentinel(name)
        for name in (
            "kl_exact", "entropy_relative", "action_std_max", "update_ratio_max", "action_top_share", "return_abs_p95", "return_mean",
            "weight_norm", "adv_logp_corr", "dormant_actor", "ratio_first_dev", "value_mean", "saturated_actor", "reward_nonzero",
            "obs_std_min", "obs_repeat", "obs_abs_max", "action_at_bound", "updates",
        )
    }
)  # fmt: skip
"""What features are made of: a prefix needs nothing else."""
RECENT: Final = 0.3
"""Share of the steps so far that counts as recent."""
PER_BUDGET: Final = 48
"""Points that a whole run is thinned to: noise and extremes depend on how densely a run was logged, forecasts must not."""
_FLOOR: Final = 1e-3


def prefix(history: History, step: float, *, whole: bool = False) -> History:
    """The run as it stood at an env step: what was logged later is cut off, and it is running. whole: with more than features need."""
    series = {name: cut for name, each in history.series.items() if (whole or name in SERIES) and (cut := _cut(each, step)) is not None}
    segments = tuple(at for at in history.segments if at <= step)
    return replace(history, series=series, env_steps=int(step), state="running", reason=None, segments=segments)


def _cut(series: Series, step: float) -> Series | None:
    kept = int(np.searchsorted(series.steps, step, side="right"))
    broken = series.broken[series.broken <= step]
    if not kept and not len(broken):
        return None
    return replace(series, steps=series.steps[:kept], values=series.values[:kept], broken=broken)


def features(case: Case) -> dict[str, float] | None:
    """By name, FEATURES; None if there is no return, no threshold above the start, or no budget to measure against."""
    threshold, budget = case.threshold, case.budget
    trained, judged = case.signal(columns.RETURN), case.signal(columns.EVAL_RETURN)
    if threshold is None or not budget or not (len(trained) or len(judged)):
        return None
    # The first returns may be a lucky episode's: nobody starts above where a tenth of the run still lies.
    starts = [each.values[:3].mean() for each in (trained, judged) if len(each)]
    floor = float(min(*starts, *(np.quantile(each.values, 0.1) for each in (trained, judged) if len(each))))
    if threshold <= floor:
        return None
    numbers = {**_curve(case, floor, threshold - floor, budget), **_policy(case, threshold - floor)}
    return {name: numbers[name] for name in FEATURES}


def _curve(case: Case, start: float, way: float, budget: int) -> dict[str, float]:
    """How much of the way from the start to the threshold is covered, and where that leads."""
    judged, trained = case.signal(columns.EVAL_RETURN), case.signal(columns.RETURN)
    trained = detect.thin(trained if len(trained) else judged, _points(case))
    # Evaluations are what counts; training returns stand in where there are none.
    judged = judged if len(judged) else trained
    smooth = np.convolve(trained.values, np.ones(3) / 3, mode="valid") if len(trained) >= 6 else trained.values
    top, now = int(np.argmax(smooth)), max(case.trained, 1.0)
    best = int(np.argmax(judged.values))
    last = float(np.median(trained.values[-3:]))
    left = max(budget - now, 0.0)

    def share(level: float) -> float:
        return float(np.clip((level - start) / way, -1.0, 1.5))

    covered, tau = share(float(judged.values[best]) if len(judged) >= 2 else float(smooth[top])), _tau(trained.share(0.4))
    return {
        "used": min(now / budget, 1.0),
        "covered": covered,
        "now": share(last),
        "fell": _clip((float(trained.values[: max(1, len(trained) // 8)].mean()) - last) / way, 0.0, 1.0),
        "evaluated": share(float(judged.values[-2:].max())),
        "best_episode": share(case.signal(columns.BEST_RETURN).last) if case.has(columns.BEST_RETURN) else math.nan,
        "eval_projected": share(float(judged.values[-1]) + _slope(judged.share(0.4)) * left) if len(judged) >= 4 else math.nan,
        "projected": share(last + _slope(trained.share(1 - RECENT)) * left),
        "projected_long": share(last + _slope(trained.share(0.4)) * left),
        "stale": _clip((now - trained.steps[top]) / now, 0.0, 1.0),
        "eval_stale": _clip((now - judged.steps[best]) / now, 0.0, 1.0) if len(judged) >= 2 else math.nan,
        "noise": _log(detect.noise(trained.values) / way + _FLOOR, _FLOOR),
        "moved": _log(detect.spread(trained.values) / way + _FLOOR, _FLOOR),
        "tau": tau,
        # Being low matters more the lower, and most where nothing rises.
        "low": max(0.5 - covered, 0.0),
        "very_low": max(0.2 - covered, 0.0),
        "flat": max(0.5 - tau, 0.0),
        "lying": max(0.5 - covered, 0.0) * max(0.5 - tau, 0.0),
    }


def _points(case: Case) -> int:
    used = case.trained / case.budget if case.budget else 1.0
    return max(6, round(PER_BUDGET * min(used, 1.0)))


def _slope(part: Signal) -> float:
    """Robust, per env step; 0 where too few points were logged."""
    short = detect.thin(part, 32)
    return detect.theil_sen(short.steps, short.values) if len(short) >= 4 else 0.0


def _tau(part: Signal) -> float:
    """Kendall's rank correlation with time: -1 falls, 1 rises; 0 where too few points were logged."""
    y = detect.thin(part, 32).values
    if len(y) < 4:
        return 0.0
    return float(np.triu(np.sign(y[None, :] - y[:, None]), 1).sum() / (len(y) * (len(y) - 1) / 2))


def _policy(case: Case, way: float) -> dict[str, float]:
    """Whether the policy can still change: the size of its steps, what randomness it has left, whether there is anything to learn from."""
    step = measures.kl(case).share(1 - RECENT)
    size = math.nan if not len(step) else _log(step.median / measures.step_scale(case), 1e-6)
    relative = measures.relative_entropy(case)
    entropy, first = relative.share(1 - RECENT).median, relative.first
    target, weights = _late(case, "return_abs_p95"), case.sentinel("weight_norm")
    return {
        # Hinges: what is usual says nothing, what is too small or too large says much. Python's max keeps a NaN that comes first.
        "tiny_step": max(-0.5 - size, 0.0),
        "huge_step": max(size - 0.5, 0.0),
        "entropy": _clip(entropy, 0.0, 1.0),
        "low_entropy": max(0.2 - entropy, 0.0),
        "entropy_fall": _clip(first - entropy, -0.5, 1.0),
        "explained": _clip(case.signal(columns.EXPLAINED_VARIANCE).share(1 - RECENT).median, -1.0, 1.0),
        "episode_spread": _log(case.signal(columns.RETURN_STD).share(1 - RECENT).median / way + _FLOOR, _FLOOR),
        "slow": max(-3.0 - _log(_late(case, "update_ratio_max"), 1e-9), 0.0),
        "one_action": max(_late(case, "action_top_share") - 0.9, 0.0),
        "advice": _clip(_late(case, "adv_logp_corr"), -0.2, 0.5),
        "growth": _log(weights.last / weights.first, 0.1) if len(weights) and weights.first > 0 else math.nan,
        "dormant": _clip(_late(case, "dormant_actor"), 0.0, 1.0),
        "saturated": _clip(_late(case, "saturated_actor"), 0.0, 1.0),
        "off_ratio": max(_log(_late(case, "ratio_first_dev"), 1e-9) + 3.0, 0.0),
        "value_error": _log(abs(_late(case, "value_mean") - _late(case, "return_mean")) / max(target, 1e-9), 1e-3),
        "clipped": _clip(case.signal(columns.GRAD_CLIPPED).share(1 - RECENT).median, 0.0, 1.0),
        "no_reward": max(1.0 - 1e6 * _late(case, "reward_nonzero"), 0.0),
        "dead_input": max(-3.0 - _log(_late(case, "obs_std_min"), 1e-6), 0.0),
        "same_input": _clip(_late(case, "obs_repeat"), 0.0, 1.0),
        "large_input": max(_log(_late(case, "obs_abs_max"), 1e-6) - 1.0, 0.0),
        "small_target": max(-1.0 - _log(target, 1e-6), 0.0),
        "at_bound": _clip(_late(case, "action_at_bound"), 0.0, 1.0),
        "skipped": max(1.0 - measures.updates_share(case), 0.0),
        **_ahead(case),
    }


def _ahead(case: Case) -> dict[str, float]:
    """How far the policy can still move: the learning rate that is planned for the rest, rollouts left, and what their steps add up to."""
    now, budget = max(case.trained, 1.0), float(case.budget or 0)
    rollouts = max(budget - now, 0.0) / case.rollout if case.rollout else math.nan
    done, planned = (case.planned("learning_rate", np.linspace(*span, 20)) for span in ((0.0, now), (now, max(budget, now))))
    rate = math.nan if done is None or planned is None else _log(float(planned.mean()) / max(float(done.max()), 1e-30), 1e-4)
    step = measures.kl(case).share(1 - RECENT).median
    # A policy moves with the square of the learning rate, as KL counts it.
    reach = _log(step * rollouts, 1e-8) + (0.0 if rate != rate else 2 * rate)
    return {
        "no_rate": max(-0.5 - rate, 0.0),
        "short_reach": max(-reach, 0.0),
        "few_rollouts": max(1.7 - _log(rollouts, 1e-3), 0.0),
    }


def _late(case: Case, name: str) -> float:
    """The median of the recent part of a sentinel; NaN if it was not logged."""
    return case.sentinel(name).share(1 - RECENT).median


def _clip(value: float, low: float, high: float) -> float:
    return float(np.clip(value, low, high))


def _log(value: float, least: float) -> float:
    return math.log10(min(max(value, least), 1e12)) if value == value else math.nan
