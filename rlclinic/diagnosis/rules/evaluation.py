"""Evaluation: whether its numbers can be trusted, and whether the best policy was kept."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rlclinic.actions import Change
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import EVAL_LENGTH, EVAL_RETURN, EVAL_STD, LENGTH, OFFLINE, ONLINE, RETURN, sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import BugLocation, advice, cause, change, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import detect, measures
from rlclinic.runs.history import History

cause(
    "evaluation-mismatch",
    "evaluation differs from training",
    "symptom",
    advice="evaluate on the environment that was trained on: same wrappers, same time limit; compare sampled with greedy actions",
    explains="EVA802",
    bug=BugLocation(
        fix="build both environments with one function, and the same wrappers, limits and action scaling",
        check="compare env.spec, wrappers and spaces of both",
        rlclinic=("rlclinic/training/evaluation.py", "play", "deterministic actions and the ends of episodes"),
        sb3=(
            "stable_baselines3/common/callbacks.py",
            "EvalCallback._on_step",
            "eval_env is made without the training environment's wrappers, or deterministic=True hides a policy that needs noise",
        ),
        cleanrl=("ppo.py", "make_env", "the same function for training and evaluation"),
        own="wrappers, time limits, seeds and the greedy action: what differs between training and evaluation",
    ),
    behind=[
        ("evaluation-environment-differs", 0.35, "evaluation", "another time limit, frame skip, reward or wrapper on one side"),
        ("evaluation-without-normalizer", 0.3, "evaluation", "the gap goes when evaluation uses training's normalizer"),
        ("budget-too-small", 0.2, "log", "entropy is still near its maximum: the most likely action means little yet"),
        ("entropy-bonus-too-high", 0.15, "evaluation", "the gap goes with sampled actions: the policy lives on its noise"),
    ],
)

cause(
    "evaluation-environment-differs",
    "evaluation uses another environment than training",
    "fault of environment",
    advice="build both environments with one function: the same wrappers, limits, reward and action scaling",
)


@rule(
    "EVA801",
    severity=Severity.HIGH,
    needs=[EVAL_RETURN, RETURN],
    cites=["raffin2021sb3"],
    causes=["evaluation-mismatch"],
    bad=lambda: cases.unsolved({"val/roll/ep_rew_mean": 15.0}),
)
def evaluation_far_below_training(case: Case) -> Iterator[Finding]:
    """Evaluation returns stay far below those of training.

    ## Why it hurts
    Either the numbers of evaluation are wrong (other wrappers, no normalizer, another limit), or the policy lives on its noise: the
    most likely action alone is bad.

    ## When it is fine
    A small gap; stochastic tasks whose best policy is random.
    """
    if case.progress is None:
        return
    trained, judged = case.signal(RETURN).share(0.5), case.signal(EVAL_RETURN).share(0.5)
    gap = trained.median - judged.median
    strength = min(grade(measures.evaluation_gap(case), 0.3, 0.8), grade(gap, 0.0, 3 * max(detect.noise(judged.values), 1e-9)))
    # Evaluation that was once as good as training measures the same thing: what came later is another matter.
    reached = case.signal(EVAL_RETURN).top >= case.progress.start + 0.8 * (case.signal(RETURN).top - case.progress.start)
    strength *= 0.3 if reached else 1.0
    # The most likely action of a policy that is still nearly random says little about it.
    decided = measures.relative_entropy(case)
    strength *= 1.0 - 0.7 * grade(decided.share(0.5).median, 0.8, 0.9) if len(decided) else 1.0
    # Without a threshold a rise in training is not enough where evaluation does not share it.
    if strength <= 0 or not case.unproven or not case.improved:
        return
    text = f"training returns {say(trained.median)}, evaluation {say(judged.median)}, in the second half"
    fix = change(case, "run.eval_deterministic", False, "evaluate with sampled actions too: is the gap still there?")
    yield Finding(strength=strength, text=text, evidence=(evidence(EVAL_RETURN, text, *case.span, gap=gap),), remedies=(fix,))


@rule(
    "EVA802",
    severity=Severity.MEDIUM,
    needs=[(EVAL_RETURN, RETURN)],
    cites=["henderson2018matters"],
    bad=lambda: cases.unsolved({"val/roll/ep_rew_mean": cases.rise_and_fall, "train/roll/ep_rew_mean": cases.rise_and_fall}),
)
def best_policy_lost_again(case: Case) -> Iterator[Finding]:
    """The last policy is far worse than the best one was.

    ## Why it hurts
    Whoever uses the last checkpoint uses a bad policy; and learning that can be undone at any time is luck.

    ## When it is fine
    Where the best checkpoint is used, and its score holds up on fresh episodes.
    """
    progress = case.progress
    if progress is None or len(case.returns) < 5 or not case.sick:
        return
    gain = progress.best - progress.start
    lost = progress.best - progress.last
    beyond = lost / max(3 * progress.noise, 1e-9)
    strength = min(grade(lost / max(gain, 1e-9), 0.3, 0.6), grade(beyond, 0.7, 1.5))
    # Of many evaluations that scatter one is the best by chance: what was lost must show in their means, too.
    values = case.returns.values
    part = max(2, len(values) // 5)
    means = np.convolve(values, np.full(part, 1 / part), "valid")
    gone, scatter = float(means.max() - means[-1]), float(np.std(np.diff(values))) / math.sqrt(2 * part)
    strength = min(
        strength, grade(gone / max(float(means.max()) - progress.start, 1e-9), 0.1, 0.3), grade(gone / max(scatter, 1e-9), 2.0, 5.0)
    )
    if strength <= 0 or gain <= 0:
        return
    text = f"best {say(progress.best)} at {say(progress.best_at)}, last {say(progress.last)}"
    fix = advice("use @best; a learning rate that falls to 0 keeps what was learned", "10-30 %")
    proof = evidence(case.returns.name, text, progress.best_at, case.span[1], best=progress.best, last=progress.last)
    yield Finding(strength=strength, text=text, evidence=(proof,), onset=progress.best_at, remedies=(fix,))


cause(
    "evaluation-too-noisy",
    "evaluation too noisy to judge",
    "fault of settings",
    doses=["steadier-evaluation"],
)


@rule(
    "EVA803",
    severity=Severity.MEDIUM,
    needs=[EVAL_RETURN, EVAL_STD, "threshold"],
    cites=["henderson2018matters", "agarwal2021rliable"],
    causes=["evaluation-too-noisy"],
    bad=lambda: cases.unsolved(
        {"val/roll/ep_rew_mean": 480.0, "val/roll/ep_rew_std": 300.0}, settings={"run.eval_episodes": 2}, threshold=500.0
    ),
)
def evaluation_too_noisy_to_judge(case: Case) -> Iterator[Finding]:
    """An evaluation's own error is as large as the distance that it should tell.

    ## Why it hurts
    Solved or not, best or not, is decided by chance.

    ## When it is fine
    Far from the threshold.
    """
    episodes, judged, deviation = case.count("run.eval_episodes"), case.signal(EVAL_RETURN), case.signal(EVAL_STD)
    if not episodes or case.progress is None or case.threshold is None:
        return
    error = deviation.share(0.7).median / math.sqrt(episodes)
    way = abs(case.threshold - case.progress.start)
    gap = abs(case.threshold - judged.share(0.7).median)
    strength = min(grade(error / max(way, 1e-9), 0.08, 0.25), grade(-gap / max(error, 1e-9), -3.0, -1.0))
    # Whether evaluations are few or what they judge is as good as chance, a log without sentinels does not tell.
    strength *= 1.0 if measures.has_sentinels(case) else 0.5
    if strength <= 0:
        return
    wanted = min(int(np.ceil(episodes * (error / (0.03 * max(way, 1e-9))) ** 2)), 1000)
    text = f"{episodes} episodes leave an error of {say(error)}; the gap is {say(gap)}"
    fix = change(case, "run.eval_episodes", wanted, "an error of 3 % of the way")
    yield Finding(strength=strength, text=text, evidence=(evidence(EVAL_STD, text, *case.span, error=error),), remedies=(fix,))


cause(
    "threshold-out-of-reach",
    "the threshold cannot be reached",
    "fault of environment",
    advice=f"name a threshold that the task allows: {Change('spec.threshold', 'VALUE')}",
)


@rule(
    "EVA804",
    severity=Severity.HIGH,
    needs=["threshold", (EVAL_RETURN, RETURN)],
    cites=["henderson2018matters"],
    causes=["threshold-out-of-reach"],
    bad=lambda: cases.unsolved(settings={"spec.return_range": [0, 500]}),
)
def threshold_out_of_reach(case: Case) -> Iterator[Finding]:
    """The run sits at the highest return that the task allows, and that is below the threshold.

    ## Why it hurts
    A run that cannot be better is called a failure: the threshold belongs to another version or reward.

    ## When it is fine
    Never.
    """
    bounds, threshold, progress = case.setting("spec.return_range"), case.threshold, case.progress
    if progress is None or threshold is None or threshold <= progress.start:
        return
    length = case.signal(LENGTH)
    limit = case.time_limit
    top = float(bounds[1]) if isinstance(bounds, list | tuple) and len(bounds) == 2 else None
    low, high = case.sentinel("reward_min"), case.sentinel("reward_max")
    near = 0.95
    if limit and len(high) and high.top > 0 and low.bottom >= 0 and len(length):
        top = limit * high.top if top is None else min(top, limit * high.top)
        # Where every step pays the same, the sum is arithmetic: no need to have been all the way there.
        near = 0.7 if high.top - low.bottom <= 1e-6 * high.top else near
    if top is None or threshold <= top + 1e-9 or not near * top <= progress.best <= 1.05 * abs(top):
        return
    text = f"best return {say(progress.best)}, the most that is possible is {say(top)}, the threshold {say(threshold)}"
    yield Finding(text=text, evidence=(evidence("config:spec.threshold", text, possible=top, threshold=threshold),))


def _settled_at_two_evaluations() -> History:
    settled = {"val/roll/ep_rew_mean": 1_200.0, "train/roll/ep_rew_mean": 1_100.0}
    run = cases.unsolved({**settled, "train/sentinel/random_return": 22.0, "train/sentinel/random_return_std": 8.0})
    steps = np.linspace(2_000.0, 12_000.0, 6)
    evaluations = cases.make(steps, [100.0, 500.0, 900.0, 1_150.0, 1_200.0, 1_200.0], EVAL_RETURN)
    return replace(run, series={**run.series, EVAL_RETURN: evaluations})


@rule(
    "EVA807",
    severity=Severity.MEDIUM,
    needs=["threshold", EVAL_RETURN, sentinel("random_return")],
    cites=["henderson2018matters"],
    causes=["threshold-out-of-reach"],
    bad=lambda: cases.unsolved(
        {
            "val/roll/ep_rew_mean": lambda share: 20 + 1180 * np.minimum(4 * share, 1.0),
            "train/roll/ep_rew_mean": lambda share: 20 + 1100 * np.minimum(4 * share, 1.0),
            "train/sentinel/random_return": 22.0,
            "train/sentinel/random_return_std": 8.0,
        }
    ),
    good=[
        # It still rises.
        lambda: cases.unsolved({"val/roll/ep_rew_mean": lambda share: 20 + 1180 * share, "train/sentinel/random_return": 22.0}),
        # Two evaluations alike at the end of a short run.
        lambda: _settled_at_two_evaluations(),
        # It settled, for what a policy gets that knows nothing.
        lambda: cases.unsolved({"val/roll/ep_rew_mean": 24.0, "train/sentinel/random_return": 22.0}),
        # It learns from recorded data: where that ends says nothing about the task.
        lambda: cases.recorded(
            {
                EVAL_RETURN: lambda share: -1200 + 900 * np.minimum(4 * share, 1.0),
                "train/sentinel/random_return": -1200.0,
                "train/sentinel/random_return_std": 280.0,
            },
            threshold=-150.0,
        ),
    ],
)
def settled_below_the_threshold(case: Case) -> Iterator[Finding]:
    """The run gained most of the way, settled early, and has not moved since.

    ## Why it hurts
    Either this is the best that the task allows, and the threshold belongs to another version or reward; or it is a habit that pays
    well enough. Seeds that settle at the very same return speak for the first.

    ## When it is fine
    Learning from recorded data, which ends where the data does. A run that reached its threshold is not judged.
    """
    acts = case.signal(ONLINE)
    if case.algo in OFFLINE and not (len(acts) and acts.last > 0):
        return
    judged, chance, threshold = case.signal(EVAL_RETURN), measures.random_return(case), case.threshold
    if chance is None or threshold is None or len(judged) < 6 or not case.sick or threshold <= chance[0]:
        return
    gain, late = judged.top - chance[0], judged.share(0.6)
    if gain <= max(3 * chance[1] / 4, 0.0) or len(late) < 4:
        return
    # One evaluation that went badly is no movement.
    low, high = np.quantile(late.values, (0.15, 0.85))
    moved, way = float(high - low) / gain, gain / (threshold - chance[0])
    most = case.sentinel("action_top_share")
    one_action = len(most) > 0 and most.share(0.8).median > 0.98
    strength = min(grade(-moved, -0.09, -0.03), grade(way, 0.25, 0.5), grade(-(judged.top - late.median) / gain, -0.15, -0.05))
    # Where acting costs, chance pays the most for its noise: what was gained over it is less of that, and says nothing of the task.
    strength *= 1.0 - grade(measures.known(measures.noise_price(case), 0.0), 0.45, 0.75)
    if strength <= 0 or one_action:
        return
    text = f"returns settled at {say(late.median)}, {percent(way)} of the way from random to the threshold, and move by {percent(moved)}"
    proof = evidence(EVAL_RETURN, text, *case.span, settled=late.median, moved=moved, way=way)
    yield Finding(strength=strength, text=text, evidence=(proof,))


@rule(
    "EVA805",
    severity=Severity.LOW,
    needs=["config:run.max_env_steps"],
    cites=["raffin2021sb3"],
    bad=lambda: cases.unsolved({"val/roll/ep_rew_mean": None}),
)
def never_evaluated(case: Case) -> Iterator[Finding]:
    """No evaluation was made: returns are those of training, with exploration.

    ## Why it hurts
    Whether the policy is good by itself is not known, and no best checkpoint can be kept.

    ## When it is fine
    Quick looks.
    """
    if case.has(EVAL_RETURN) or not case.ours or case.is_early or not case.has(RETURN):
        return
    text = "the run was never evaluated"
    fix = change(case, "run.eval_every_env_steps", max(int((case.budget or 100_000) / 20), 1), "twenty evaluations")
    yield Finding(text=text, evidence=(evidence("config:run.eval_every_env_steps", text),), remedies=(fix,))


@rule(
    "EVA806",
    severity=Severity.MEDIUM,
    needs=[EVAL_LENGTH, LENGTH, EVAL_RETURN, RETURN],
    cites=["raffin2021sb3"],
    causes=["evaluation-mismatch"],
    bad=lambda: cases.unsolved(
        {"train/roll/ep_len_mean": 500.0, "val/roll/ep_len_mean": 1000.0, "train/roll/ep_rew_mean": 500.0, "val/roll/ep_rew_mean": 1000.0},
        settings={"env.max_episode_steps": 500},
    ),
)
def evaluation_counts_other_steps(case: Case) -> Iterator[Finding]:
    """Episodes in evaluation are several times longer or shorter than in training, at the same return per step.

    ## Why it hurts
    Evaluation uses another time limit, frame skip or wrapper: its returns are in other units.

    ## When it is fine
    A policy without noise lives longer, or reaches the goal sooner.
    """
    ours, theirs = case.signal(LENGTH).share(0.5).median, case.signal(EVAL_LENGTH).share(0.5).median
    if min(ours, theirs) <= 0:
        return
    ratio = theirs / ours
    whole = abs(ratio - round(ratio)) < 0.05 * ratio if ratio >= 1 else abs(1 / ratio - round(1 / ratio)) < 0.05 / ratio
    per_step = case.signal(RETURN).share(0.5).median / ours, case.signal(EVAL_RETURN).share(0.5).median / theirs
    same = abs(per_step[0] - per_step[1]) <= 0.05 * max(abs(per_step[0]), 1e-9)
    limit = case.time_limit
    capped = limit is not None and ours >= limit - 0.5
    if not (whole and same and capped and max(ratio, 1 / ratio) > 1.5):
        return
    text = f"episodes last {say(ours)} steps in training and {say(theirs)} in evaluation"
    yield Finding(text=text, evidence=(evidence(EVAL_LENGTH, text, *case.span, ratio=ratio),))
