"""Resumes: whether a run went on as if it had never stopped."""

from collections.abc import Iterator

import numpy as np

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import RETURN, sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import BugLocation, advice, cause, evidence, grade, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import detect, measures

STEPS = sentinel("optimizer_steps")


cause(
    "optimizer-state-lost",
    "the optimizer's state was lost",
    "fault of code",
    advice="save and load the optimizer's moments and step count with the weights",
    explains="RES903 EVA802",
    bug=BugLocation(
        fix="save optimizer.state_dict() in the checkpoint, and load it after the parameters were moved to their device",
        check="the step count in the optimizer's state must go on where it was",
        rlclinic=("rlclinic/training/checkpoints/files.py", "read", "optimizer.safetensors"),
        sb3=(
            "stable_baselines3/common/base_class.py",
            "BaseAlgorithm.set_parameters",
            "policy.load_state_dict alone does not bring the optimizer back; use PPO.load",
        ),
        cleanrl=("ppo.py", "the end of the script", "torch.save(agent.state_dict()) holds no optimizer"),
        own="what the checkpoint holds, and the order of loading and making the optimizer",
    ),
)


@rule(
    "RES901",
    severity=Severity.HIGH,
    needs=[STEPS],
    cites=["kingma2015adam"],
    certain=True,
    causes=["optimizer-state-lost"],
    bad=lambda: cases.unsolved(
        {"train/sentinel/optimizer_steps": lambda share: 4000 * np.where(share < 0.5, share, share - 0.5)}, segments=(25_000.0,)
    ),
)
def optimizer_state_lost(case: Case) -> Iterator[Finding]:
    """The optimizer's step count went back: it started anew while the weights went on.

    ## Why it hurts
    Adam without its moments takes its first steps at full length in every direction: the policy is thrown off right after a resume.

    ## When it is fine
    Starting from another run's weights on purpose.
    """
    logged = case.history.series[STEPS]
    back = np.flatnonzero(np.diff(logged.values) < 0)
    if not len(back):
        return
    at = float(logged.steps[back[0] + 1])
    text = (
        f"optimizer steps went from {say(float(logged.values[back[0]]))} to {say(float(logged.values[back[0] + 1]))} at {say(at)} env steps"
    )
    fix = advice("save and load the optimizer's moments and step count with the weights", "10-30 %")
    yield Finding(text=text, evidence=(evidence(STEPS, text, at, at),), onset=at, remedies=(fix,))


@rule(
    "RES902",
    severity=Severity.HIGH,
    needs=[STEPS],
    cites=["kingma2015adam"],
    certain=True,
    causes=["optimizer-state-lost"],
    bad=lambda: cases.unsolved({"train/sentinel/optimizer_steps": lambda share: 50000 * share}),
)
def optimizer_counts_other_steps(case: Case) -> Iterator[Finding]:
    """The optimizer counts fewer or more steps than were taken.

    ## Why it hurts
    Bias correction and schedules follow a wrong clock, or another set of parameters is being optimized.

    ## When it is fine
    Early stops (target_kl) and frozen members, which are not counted as steps.
    """
    logged, taken = case.history.series[STEPS], case.history.series.get(sentinel("updates"))
    if taken is None or len(logged.values) < 4 or case.setting("algo.target_kl") is not None or case.history.segments or not case.rollout:
        return
    rows = np.diff(logged.steps) / case.rollout
    per_rollout = np.diff(logged.values) / np.maximum(rows, 1e-9)
    wanted = float(np.median(taken.values))
    counted = float(np.median(per_rollout[rows > 0])) if (rows > 0).any() else wanted
    if wanted <= 0 or counted < 0 or abs(counted - wanted) <= 0.2 * wanted:
        return
    text = f"the optimizer counts {say(counted)} steps per rollout, {say(wanted)} were taken"
    yield Finding(text=text, evidence=(evidence(STEPS, text, *case.span, counted=counted, taken=wanted),))


cause(
    "resume-not-complete",
    "a resume did not restore everything",
    "fault of code",
    advice="compare what is saved and loaded: weights, optimizer, normalizer, schedule position, random numbers",
    explains="EVA802 ENV611",
    bug=BugLocation(
        fix="save and restore normalizer statistics, schedule position, random state and the environment's own state",
        check="resume at once after a save: the next row must be the one that would have come",
        rlclinic=("rlclinic/training/checkpoints/snapshot.py", "take", "what a checkpoint holds"),
        sb3=(
            "stable_baselines3/common/base_class.py",
            "BaseAlgorithm.learn",
            "reset_num_timesteps=False, and VecNormalize.load for the statistics",
        ),
        cleanrl=("ppo.py", "the start of the script", "global_step and the learning rate begin anew"),
        own="what begins anew after a resume: statistics, schedules, counters",
    ),
)


@rule(
    "RES903",
    severity=Severity.HIGH,
    needs=[RETURN],
    cites=["raffin2021sb3"],
    causes=["resume-not-complete"],
    bad=lambda: cases.unsolved(
        {"train/roll/ep_rew_mean": lambda share: np.where(share < 0.5, 20 + 600 * share, 30.0)}, segments=(25_000.0,)
    ),
)
def jump_at_a_resume(case: Case) -> Iterator[Finding]:
    """Right after a restart the return dropped or the policy jumped.

    ## Why it hurts
    Something was not restored: optimizer, normalizer, schedule, or the weights themselves.

    ## When it is fine
    A change that was made by hand at that step.
    """
    returns, kl = case.signal(RETURN), measures.kl(case)
    span = max(case.span[1] - case.span[0], 1.0)
    for at in case.history.segments:
        before, after = returns.between(at - 0.1 * span, at - 1e-9), returns.between(at, at + 0.1 * span)
        if len(before) < 2 or len(after) < 2:
            continue
        drop = before.median - after.median
        size = max(detect.spread(returns.values), 1e-9)
        moved = kl.between(at, at + 0.03 * span).top / max(kl.between(at - 0.2 * span, at - 1e-9).median, 1e-9) if len(kl) else 0.0
        strength = max(grade(drop / size, 0.25, 0.5), min(grade(moved, 5.0, 20.0), grade(drop / size, 0.05, 0.2)))
        if strength > 0:
            text = f"after the restart at {say(at)} the return went from {say(before.median)} to {say(after.median)}, KL to {say(moved)} x"
            fix = advice("compare what is saved and loaded: weights, optimizer, normalizer, schedule position, random numbers", "> 30 %")
            yield Finding(
                strength=strength,
                text=text,
                evidence=(evidence(RETURN, text, at, at + 0.1 * span, drop=drop, kl_times=moved),),
                onset=at,
                remedies=(fix,),
            )
            return
