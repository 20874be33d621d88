"""What the runs of an experiment say about the two causes: readings, and the probabilities after them."""

import math
import time
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

import numpy as np

from rlclinic.diagnosis import causes
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import EVAL_RETURN, EXPLAINED_VARIANCE, GRAD_NORM, RETURN
from rlclinic.runs.history import of_run
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store
from rlclinic.treatment.probe.models import Arm, Experiment, Probed, Reading
from rlclinic.treatment.probe.odds import Odds, likelihood, odds, of_a_kind, speaks

MASTERED: Final = 0.9
EXPLAINS: Final = (0.2, 0.6)
"""Explained variance of a critic on a policy that stands still: below the first it learns nothing, above the second it works."""
NOISY: Final = (1.0, 8.0)
"""Rollouts that it would take to see the gradient through its noise: below the first it is clear, above the second it is lost."""


def concluded(store: Store, id: str, experiment: Experiment, groups: Mapping[str, Group]) -> Probed:
    """What the experiment's runs say about the two causes."""
    original = {run.seed: run for run in store.group(experiment.group).runs}
    if experiment.kind == "task":
        readings = [_mastered(experiment, groups)]
        after, gained, text = judged_task(experiment, readings[0])
    elif experiment.kind == "noise":
        readings = [_noisy(experiment, groups)]
        after, gained, text = judged_noise(experiment, readings[0])
    elif experiment.kind == "critic":
        readings = [_explained(experiment, groups["critic alone"], original), _helped(experiment, experiment.arms[1], groups, original)]
        after, gained, text = judged_critic(experiment, *readings)
    else:
        readings = [_helped(experiment, arm, groups, original) for arm in experiment.arms if arm.cause]
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


def _helped(experiment: Experiment, arm: Arm, groups: Mapping[str, Group], original: Mapping[int, Run]) -> Reading:
    """By how much an arm's return is above the original's at the same step, seed by seed."""
    gains, ours, theirs = [], [], []
    for run in groups[arm.name].runs:
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


def level(run: Run, until: int, name: str = RETURN) -> float | None:
    """The training return, or another series, over the last fifth of the steps up to `until`."""
    steps, values = run.metrics.series(name)
    kept = values[(steps <= until) & (steps > 0.8 * until) & np.isfinite(values)]
    return float(np.median(kept)) if len(kept) else None


def _judged_cures(experiment: Experiment, readings: Sequence[Reading]) -> Odds:
    gains = {reading.cause: reading.gain for reading in readings if reading.gain is not None}
    factors = tuple(likelihood(gains.get(cause)) for cause in experiment.causes)
    said = [
        f"the cure of {title} {'gains' if gain > 0 else 'loses'} {abs(gain):.0%} of the way"
        for cause, title in zip(experiment.causes, experiment.titles, strict=True)
        if (gain := gains.get(cause)) is not None
    ]
    return odds(experiment, factors, "; ".join(said) or "nothing could be read")


def _mastered(experiment: Experiment, groups: Mapping[str, Group]) -> Reading:
    runs = next(iter(groups.values())).runs
    finals = [float(values[-1]) for run in runs if len(values := run.metrics.series(EVAL_RETURN)[1])]
    share = fmean(value >= MASTERED for value in finals) if finals else None
    return Reading(arm=experiment.arms[0].name, cause="", value=fmean(finals) if finals else None, control=MASTERED, gain=share)


def judged_task(experiment: Experiment, reading: Reading) -> Odds:
    """A learner that fails a trivial task is at fault itself; one that masters it leaves the environment."""
    if reading.gain is None:
        return experiment.before, "", "nothing could be read"
    inner = tuple(causes.kind_of(cause) != "fault of environment" for cause in experiment.causes)
    if inner[0] == inner[1]:
        word = "masters" if reading.gain >= 0.5 else "fails"
        return experiment.before, "", f"it {word} the task, which speaks for neither"
    factor = speaks(1 - reading.gain)
    where = "the environment is left" if reading.gain >= 0.5 else "the fault is in the learner or its settings"
    text = f"{experiment.arms[0].name} ends at {reading.value:.2g} of 1: {where}"
    return odds(experiment, tuple(factor if each else 1 / factor for each in inner), text)


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
    text = f"the gradient is half noise at {reading.value:.0f} rows; a rollout has {reading.control:.0f}"
    return of_a_kind(experiment, "noise", lost, text)


def _explained(experiment: Experiment, group: Group, original: Mapping[int, Run]) -> Reading:
    """How much of the returns of a policy that stands still its critic explains, beside the original's."""
    until = experiment.until_env_steps
    runs = [run for run in group.runs if run.seed in original]
    ours = [value for run in runs if (value := level(run, min(until, run.status.env_steps), EXPLAINED_VARIANCE)) is not None]
    theirs = [value for run in runs if (value := level(original[run.seed], until, EXPLAINED_VARIANCE)) is not None]
    value, control = (fmean(values) if values else None for values in (ours, theirs))
    return Reading(arm="critic alone", cause="", value=value, control=control, gain=value)


def judged_critic(experiment: Experiment, alone: Reading, frozen: Reading) -> Odds:
    """A critic that cannot learn the values of one fixed policy, or that is better left as it was, is at fault itself."""
    if alone.value is None:
        return experiment.before, "", "nothing could be read"
    low, high = EXPLAINS
    blind = (high - alone.value) / (high - low)
    text = f"with the policy held still, the critic explains {alone.value:.0%} of the returns"
    if frozen.gain is not None:
        # A policy that learns more without its critic was misled by it.
        blind = max(blind, (frozen.gain - 0.1) / 0.2)
        text += f"; with the critic frozen, the policy {'gains' if frozen.gain > 0 else 'loses'} {abs(frozen.gain):.0%} of the way"
    return of_a_kind(experiment, "critic", blind, text)


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
