"""Budget and luck: runs in which nothing is wrong but the number of steps, or the seed."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import EVAL_RETURN, OFFLINE, RETURN
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import advice, cause, change, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import detect, measures, off_policy

_GO_ON: Final = "let it go on from its last checkpoint to its budget, with its settings as they are"
FEW: Final = 6
"""Evaluations below which their course says little."""
_LOOK_FIRST: Final = "see what it printed last: it still runs, was stopped, or broke down; then let it run to its budget"


cause(
    "budget-too-small",
    "stopped too early",
    "fault of settings",
    doses=["more-steps", "longer-steps", "more-updates"],
    explains="ENT301 VAL201",
)


@rule(
    "BUD101",
    severity=Severity.HIGH,
    needs=[RETURN, "threshold"],
    cites=["henderson2018matters"],
    causes=["budget-too-small"],
    bad=lambda: cases.unsolved(
        {"train/roll/ep_rew_mean": lambda share: 20 + 300 * share, "val/roll/ep_rew_mean": lambda share: 20 + 300 * share}, threshold=475.0
    ),
)
def still_rising_at_the_end(case: Case) -> Iterator[Finding]:
    """The return was still rising when the run ended.

    ## Why it hurts
    Nothing is wrong but the number of steps: the run was stopped too early.

    ## When it is fine
    Where the slope would take many budgets to the threshold: then something else is too slow.
    """
    returns, progress = case.signal(RETURN), case.progress
    if progress is None or case.threshold is None or not case.sick or case.standing in ("failed", "collapsed", "lost"):
        return
    if case.unfinished or (case.history.state == "running" and case.budget is None):
        return  # it has not ended: whether the rest is enough is for the forecast
    if case.has("train/imitation/expert_share"):
        return  # an expert acts in some of these episodes: what they return says who acted
    late, slope = detect.late_trend(returns)
    top = float(detect.smoothed(returns.values, 3).max())
    way, gap, gain = case.threshold - progress.start, case.threshold - late.share(0.6).median, top - progress.start
    # At its best at the end, and a good part of all that was gained came lately.
    falling = late.share(0.8).median < progress.start + 0.7 * gain
    elsewhere = measures.evaluation_gap(case) > 0.6
    if way <= 0 or gain <= 0 or gap <= 0 or not slope.rising or falling or elsewhere or measures.step_size(case) < 0.03:
        return
    more = gap / max(slope.slope * case.trained, 1e-12)
    near, lately = grade(-more, -3.0, -1.0), min(grade(slope.rise / gain, 0.15, 0.4), grade(gain, 0.0, 6 * detect.noise(returns.values)))
    # A slope that would take many budgets is for the budget only where other reasons were looked for.
    looked = measures.has_sentinels(case)
    strength = max(near, (0.8 if looked else 0.4) * lately) * grade(slope.rise / way, 0.01, 0.04)
    strength *= _rises_in_evaluation(case, slope.rise)
    if strength <= 0:
        return
    budget = int(math.ceil(case.trained * (1 + min(1.5 * more, 4.0)) / 1000) * 1000)
    lately_at = "the second half" if len(late) == len(returns.share(0.5)) else f"the last {len(late)} rows"
    text = f"the return rose by {say(slope.rise)} over {lately_at} and was still rising; {say(gap)} are missing"
    fix = change(case, "run.max_env_steps", budget, "go on at its late slope, with half as much again", "> 30 %")
    proof = evidence(RETURN, text, float(late.steps[0]), float(late.steps[-1]), slope=slope.slope, gap=gap, more_budgets=more)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


def _rises_in_evaluation(case: Case, rise: float) -> float:
    """1 where evaluations go up with training, or there are few: what rises in training alone is noise or exploration that shrinks."""
    judged = case.signal(EVAL_RETURN)
    if len(judged) < FEW:
        return 1.0
    return 0.4 + 0.6 * grade((judged.share(0.75).median - judged.share(0.3, 0.6).median) / rise, 0.0, 0.25)


@rule(
    "BUD102",
    severity=Severity.HIGH,
    needs=["budget"],
    cites=["henderson2018matters"],
    causes=["budget-too-small"],
    bad=lambda: cases.unsolved(state="stopped", env_steps=20000),
)
def stopped_before_its_budget(case: Case) -> Iterator[Finding]:
    """The run was stopped before it had used its budget.

    ## Why it hurts
    Schedules had not run out, and nothing was wrong with it yet.

    ## When it is fine
    Stopped because it was solved, or for a reason.
    """
    state = case.history.state
    if state not in ("stopped", "unknown") or not case.budget or case.solved_at is not None:
        return
    share = case.trained / case.budget
    # Most foreign logs do not say how they ended: a few rollouts short of the budget is nothing there.
    strength = grade(-share, -0.95, -0.6) if state == "stopped" else grade(-share, -0.7, -0.4)
    if strength <= 0:
        return
    text = f"stopped at {percent(share)} of its budget" if state == "stopped" else f"the log ends at {percent(share)} of its budget"
    fix = advice(_GO_ON if case.ours else _LOOK_FIRST, "> 30 %")
    yield Finding(
        strength=strength,
        text=text,
        evidence=(evidence("status", text, case.trained, case.trained, share=share),),
        remedies=(fix,),
    )


cause(
    "unlucky-seed",
    "unlucky seed",
    "symptom",
    doses=["let-it-fall", "shorter-steps", "larger-minibatches", "more-data"],
    explains="EVA802",
    behind=[
        ("learning-rate-too-high", 0.35, "probe", "seeds that failed took larger steps before they fell"),
        ("budget-too-small", 0.25, "more seeds", "seeds that failed were still rising"),
        ("reward-never-seen", 0.25, "environment", "seeds that failed never met what the others were rewarded for"),
        ("rollout-too-small", 0.15, "settings", "a rollout holds less than an episode"),
    ],
)


@rule(
    "BUD103",
    severity=Severity.MEDIUM,
    scope="group",
    cites=["henderson2018matters", "agarwal2021rliable"],
    causes=["unlucky-seed"],
    bad=lambda: [
        *cases.base("cp-healthy"),
        cases.solved({"val/roll/ep_rew_mean": 100.0, "train/roll/ep_rew_mean": 60.0}, id="unlucky", seed=99),
    ],
)
def some_seeds_fail(cases: Sequence[Case]) -> Iterator[Finding]:
    """Some seeds of one config reach the threshold, and others do not.

    ## Why it hurts
    The config is at the edge: whether it works is a matter of luck, and a single run proves nothing.

    ## When it is fine
    Seeds that were only slower, and get there with a few more steps.
    """
    judged = [case for case in cases if case.threshold is not None and case.standing not in ("early", "unknown")]
    good = [case for case in judged if case.solved_at is not None]
    if len(judged) < 3 or not good or len(good) == len(judged):
        return
    share = len(good) / len(judged)
    bad = [case for case in judged if case.solved_at is None]
    text = f"{len(good)} of {len(judged)} seeds reached the threshold; not {', '.join(case.id for case in bad[:3])}"
    late = [abs(case.returns.last) for case in bad if len(case.returns)]
    proof = evidence(EVAL_RETURN, text, share=share, **({"last": float(np.median(late))} if late else {}))
    fix = advice("report all seeds; a lower learning rate, more envs or more steps make it steadier", "10-30 %")
    yield Finding(strength=grade(share, 0.3, 0.8), text=text, evidence=(proof,), remedies=(fix,))


@rule(
    "BUD104",
    severity=Severity.HIGH,
    needs=["budget", "config:run.max_env_steps"],
    cites=["henderson2018matters"],
    causes=["budget-too-small"],
    bad=lambda: cases.unsolved({"train/roll/ep_len_mean": 200.0}, max_env_steps=2000),
)
def budget_of_a_few_episodes(case: Case) -> Iterator[Finding]:
    """The whole budget is a few dozen episodes; with a replay, a few hundred gradient steps.

    ## Why it hurts
    No on-policy algorithm learns a task from so few tries, and no network from so few steps.

    ## When it is fine
    Trying out whether a script runs.
    """
    length = case.signal("train/roll/ep_len_mean")
    limit = case.time_limit
    steps = length.median if len(length) else float(limit) / 2 if limit else math.nan
    by_episodes = case.algo not in OFFLINE and not case.has("train/imitation/labels")
    if not case.budget or (by_episodes and not steps > 0):
        return
    numbers: dict[str, float] = {}
    if by_episodes:
        episodes = case.budget / steps
        strength, text = grade(-episodes, -80.0, -25.0), f"{case.budget} env steps are about {say(episodes)} episodes"
        wanted, why, numbers = int(1000 * steps), "a thousand episodes", {"episodes": episodes}
    elif case.algo in OFFLINE:
        strength, text = grade(-float(case.budget), -1500.0, -700.0), f"{case.budget} gradient steps"
        wanted, why = 10_000, "values and policy come from gradient steps on the same data, and these need some thousands"
    else:
        # What is learned from is labels of steps, whatever episodes they belong to: a few hundred teach a small policy.
        strength, text = grade(-float(case.budget), -300.0, -100.0), f"{case.budget} steps to ask about"
        wanted, why = 1_600, "as many states to ask about as a small policy needs"
    if case.algo in off_policy.OFF_POLICY:
        # A replay is learned from many times: what counts is how often.
        often = off_policy.updates_per_step(case)
        updates = often * case.budget
        strength, text = (
            (grade(-updates, -1500.0, -700.0) if often >= 0.2 else 0.0),
            f"{case.budget} env steps, {say(updates)} gradient steps",
        )
    if strength <= 0:
        return
    fix = change(case, "run.max_env_steps", wanted, why, "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence("config:run.max_env_steps", text, **numbers),), remedies=(fix,))


@rule(
    "BUD105",
    severity=Severity.HIGH,
    needs=["budget", "config:env.n_envs", "config:algo.n_steps"],
    cites=["henderson2018matters"],
    causes=["budget-too-small"],
    bad=lambda: cases.unsolved(settings={"env.n_envs": 8, "algo.n_steps": 128}, max_env_steps=10000),
    # A run that failed did not have too few steps.
    good=[
        lambda: cases.unsolved(
            settings={"env.n_envs": 8, "algo.n_steps": 128}, max_env_steps=10000, state="failed", reason="killed by SIGKILL"
        ),
    ],
)
def budget_of_a_few_rollouts(case: Case) -> Iterator[Finding]:
    """The whole budget is a few rollouts of a usual length.

    ## Why it hurts
    Each rollout improves the policy once. A dozen improvements solve nothing.

    ## When it is fine
    Trying out whether a script runs; tasks that are solved all the same.
    """
    if case.rollout is None or not case.budget or not case.sick or case.rollout > 4096 or case.algo != "ppo":
        return
    if case.standing == "failed" or case.solved_at is not None:  # what ended it explains it; who got there had steps enough
        return
    rollouts = case.budget / case.rollout
    # Too few steps leave a policy as it began; they do not lead it away from what chance gets.
    strength = grade(-rollouts, -18.0, -9.0) * (1.0 - 0.5 * measures.led_downwards(case))
    if strength <= 0:
        return
    text = f"{case.budget} env steps are {math.ceil(rollouts)} rollouts of {case.rollout} transitions"
    fix = change(case, "run.max_env_steps", 100 * case.rollout, "a hundred rollouts", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence("config:run.max_env_steps", text, rollouts=rollouts),), remedies=(fix,))
