"""What the runs of an experiment say about the two causes: readings, and the probabilities after them."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from statistics import fmean
from typing import Final

import numpy as np

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.names import EVAL_RETURN, GRAD_NORM, RETURN
from rlclinic.runs.history import of_run
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store
from rlclinic.treatment.probe_models import Arm, Experiment, Probed, Reading

MASTERED: Final = 0.9
STRONG: Final = 6.0
"""How much likelier a cause becomes (or less likely) when its prediction clearly holds (or fails)."""
NOISY: Final = (1.0, 8.0)
"""Rollouts that it would take to see the gradient through its noise: below the first it is clear, above the second it is lost."""
Odds = tuple[tuple[float, float], str, str]
"""Probabilities after, the cause that gained, and why."""


def concluded(store: Store, id: str, experiment: Experiment, groups: Mapping[str, Group]) -> Probed:
    """What the experiment's runs say about the two causes."""
    original = {run.seed: run for run in store.group(experiment.group).runs}
    if experiment.kind == "task":
        readings = [_mastered(experiment, groups)]
        after, gained, text = judged_task(experiment, readings[0])
    elif experiment.kind == "noise":
        readings = [_noisy(experiment, groups)]
        after, gained, text = judged_noise(experiment, readings[0])
    else:
        readings = [_helped(experiment, arm, groups[arm.name], original) for arm in experiment.arms if arm.cause]
        after, gained, text = _judged_cures(experiment, readings)
    control = groups.get("control")
    return Probed(
        id=id,
        created=time.time(),
        experiment=experiment,
        readings=tuple(readings),
        after=after,
        gained=gained,
        text=text,
        control_repeated=None if control is None else _repeated(control, original),
        used_env_steps=sum(run.status.env_steps - _begun(run) for group in groups.values() for run in group.runs),
    )


def _begun(run: Run) -> int:
    return int((run.parent or "@0").partition("@")[2] or 0)


def _helped(experiment: Experiment, arm: Arm, group: Group, original: Mapping[int, Run]) -> Reading:
    """By how much an arm's return is above the original's at the same step, seed by seed."""
    gains, ours, theirs = [], [], []
    for run in group.runs:
        base = original.get(run.seed)
        if base is None:
            continue
        until = min(experiment.until_env_steps, run.status.env_steps)
        here, there = level(run, until), level(base, until)
        case = Case(of_run(base))
        if here is None or there is None or case.progress is None:
            continue
        way = (case.threshold if case.threshold is not None else case.progress.best) - case.progress.start
        gains.append((here - there) / max(abs(way), 1e-9))
        ours.append(here)
        theirs.append(there)
    mean = (fmean(values) if values else None for values in (ours, theirs, gains))
    value, control, gain = mean
    return Reading(arm=arm.name, cause=arm.cause, value=value, control=control, gain=gain)


def level(run: Run, until: int) -> float | None:
    """The training return over the last fifth of the steps up to `until`."""
    steps, values = run.metrics.series(RETURN)
    kept = values[(steps <= until) & (steps > 0.8 * until) & np.isfinite(values)]
    return float(np.median(kept)) if len(kept) else None


def _judged_cures(experiment: Experiment, readings: Sequence[Reading]) -> Odds:
    gains = {reading.cause: reading.gain for reading in readings if reading.gain is not None}
    factors = tuple(likelihood(gains.get(cause)) for cause in experiment.causes)
    after = updated(experiment.before, factors)
    said = [
        f"the cure of {title} {'gains' if gain > 0 else 'loses'} {abs(gain):.0%} of the way"
        for cause, title in zip(experiment.causes, experiment.titles, strict=True)
        if (gain := gains.get(cause)) is not None
    ]
    return after, _gained(experiment, after), "; ".join(said) or "nothing could be read"


def likelihood(gain: float | None) -> float:
    """How much likelier a cause is, given what its cure gained: nothing is against it, a fifth of the way is for it."""
    if gain is None:
        return 1.0
    share = min(max(gain / 0.2, 0.0), 1.0)
    return STRONG ** (2 * share - 1)


def updated(before: tuple[float, float], factors: Sequence[float]) -> tuple[float, float]:
    """Two probabilities after their evidence; together they keep the mass that they had."""
    total = sum(before)
    weights = [chance * factor for chance, factor in zip(before, factors, strict=True)]
    first, second = (total * weight / sum(weights) for weight in weights) if sum(weights) > 0 else before
    return round(first, 4), round(second, 4)


def _mastered(experiment: Experiment, groups: Mapping[str, Group]) -> Reading:
    runs = next(iter(groups.values())).runs
    finals = [float(values[-1]) for run in runs if len(values := run.metrics.series(EVAL_RETURN)[1])]
    share = fmean(value >= MASTERED for value in finals) if finals else None
    return Reading(arm=experiment.arms[0].name, cause="", value=fmean(finals) if finals else None, control=MASTERED, gain=share)


def judged_task(experiment: Experiment, reading: Reading) -> Odds:
    """A learner that fails a trivial task is at fault itself; one that masters it leaves the environment."""
    if reading.gain is None:
        return experiment.before, "", "nothing could be read"
    inner = tuple(cause not in listed("environment") for cause in experiment.causes)
    if inner[0] == inner[1]:
        word = "masters" if reading.gain >= 0.5 else "fails"
        return experiment.before, "", f"it {word} the task, which speaks for neither"
    speaks = STRONG ** (1 - 2 * reading.gain)
    after = updated(experiment.before, tuple(speaks if each else 1 / speaks for each in inner))
    where = "the environment is left" if reading.gain >= 0.5 else "the fault is in the learner or its settings"
    return after, _gained(experiment, after), f"{experiment.arms[0].name} ends at {reading.value:.2g} of 1: {where}"


@cache
def listed(name: str) -> frozenset[str]:
    """Causes of a kind: those that lie in the environment, those in which data is too noisy."""
    raw = json.loads((files("rlclinic.treatment") / "probes.json").read_text("utf-8"))
    return frozenset(raw[name])


def noise_scale(small: float, small_rows: float, big: float, big_rows: float) -> float:
    """Rows at which a gradient is half signal and half noise, from its norms at two batch sizes (arXiv:1812.06162, appendix A).

    A batch's squared norm is |G|² + tr(S) / rows; two of them give both. Infinite where no signal is left.
    """
    signal = (big_rows * big**2 - small_rows * small**2) / (big_rows - small_rows)
    noise = (small**2 - big**2) / (1 / small_rows - 1 / big_rows)
    if noise <= 0:
        return 0.0
    return noise / signal if signal > 0 else math.inf


def _noisy(experiment: Experiment, groups: Mapping[str, Group]) -> Reading:
    """The noise scale in rollouts."""
    rollout = int(experiment.config["env"]["n_envs"]) * int(experiment.config["algo"]["n_steps"])
    norms = {
        name: [value for run in group.runs for value in run.metrics.series(GRAD_NORM)[1] if np.isfinite(value)]
        for name, group in groups.items()
    }
    if not norms["whole"] or not norms["quarter"]:
        return Reading(arm="noise", cause="", value=None, control=float(rollout), gain=None)
    big, small = (math.sqrt(fmean(value**2 for value in norms[name])) for name in ("whole", "quarter"))
    rows = min(noise_scale(small, rollout / 4, big, rollout), 1e9)
    return Reading(arm="noise", cause="", value=rows, control=float(rollout), gain=rows / rollout)


def judged_noise(experiment: Experiment, reading: Reading) -> Odds:
    """A gradient that takes many rollouts to see speaks for causes in which data is too noisy, a clear one against them."""
    if reading.gain is None or reading.value is None:
        return experiment.before, "", "nothing could be read"
    low, high = NOISY
    lost = min(max((reading.gain - low) / (high - low), 0.0), 1.0)
    named = tuple(cause in listed("noise") for cause in experiment.causes)
    text = f"the gradient is half noise at {reading.value:.0f} rows; a rollout has {reading.control:.0f}"
    if named[0] == named[1]:
        return experiment.before, "", f"{text}, which speaks for neither"
    speaks = STRONG ** (2 * lost - 1)
    after = updated(experiment.before, tuple(speaks if each else 1 / speaks for each in named))
    return after, _gained(experiment, after), text


def _gained(experiment: Experiment, after: tuple[float, float]) -> str:
    rise = [new - old for new, old in zip(after, experiment.before, strict=True)]
    place = max(range(2), key=lambda index: rise[index])
    return experiment.causes[place] if rise[place] > 0.02 else ""


def _repeated(control: Group, original: Mapping[int, Run]) -> bool:
    """Whether the control forks have the original's numbers, row by row, for as long as they ran."""
    for run in control.runs:
        base = original.get(run.seed)
        if base is None:
            return False
        steps, values = run.metrics.series(RETURN)
        there = dict(zip(*(column.tolist() for column in base.metrics.series(RETURN)), strict=True))
        shared = [(value, there[step]) for step, value in zip(steps.tolist(), values.tolist(), strict=True) if step in there]
        if not shared or any(ours != theirs and not (math.isnan(ours) and math.isnan(theirs)) for ours, theirs in shared):
            return False
    return True
