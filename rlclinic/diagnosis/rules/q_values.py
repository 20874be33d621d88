"""Q-values and what they are learned towards; heads that disagree; the actor and the temperature that follow them; tables of values."""

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import RETURN, sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import advice, cause, change, decades, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import detect, measures, off_policy
from rlclinic.diagnosis.signals.off_policy import ACTORS, ALPHA, HIGHEST_RATE, OFF_POLICY, Q_BIAS, Q_BOUND, Q_LEARNERS, Q_MEAN, Q_TOP

RATE: Final = "config:algo.learning_rate"
STATES: Final = "config:about.obs_flags"
TABLES: Final = ("q_learning",)
"""Algorithms that keep a table."""
EXACT: Final = -5.0
"""Decades of relative error beyond which two ways to the same target differ by more than rounding."""
LOW, SMALL = 2e-5, 1e-4
"""Below every tuned setting, as off_policy.HIGHEST_RATE is above; what is below SMALL is low where the values show it."""
REACH, AT_BOUND = sentinel("action_reach"), sentinel("action_at_bound")
HEADS: Final = ("bootstrapped_dqn",)
"""Algorithms with several estimates of Q: they explore as long as these disagree, and learn as far as they come to agree."""
SPLIT, DISAGREEMENT = sentinel("head_split"), sentinel("head_disagreement")
PRIOR: Final = "config:algo.prior_scale"
SUCCESS: Final = "train/roll/success_rate"
NATS: Final = math.log(2)
"""Entropy of a uniform action from -1 to 1, per component: the largest there is."""


cause(
    "values-run-away",
    "Q-values run away",
    "symptom",
    doses=["cautious-values", "third-of-the-rate", "renew-the-target", "td3-instead"],
    advice="check that terminal states have no future in the target",
    explains="QVL109",
    behind=[
        ("learning-rate-too-high", 0.25, "settings", "a third of the rate keeps values within what rewards allow"),
        ("target-follows-at-once", 0.25, "settings", "tau near 1, or a target that is renewed at every step"),
        ("episode-ends-ignored", 0.2, "log", "values of terminal states are not 0"),
        ("discount-too-high", 0.15, "settings", "gamma so near 1 that no return is finite"),
        ("reward-scale-too-large", 0.15, "environment", "rewards in the hundreds"),
    ],
)


@rule(
    "QVL101",
    severity=Severity.HIGH,
    algos=OFF_POLICY,
    needs=[Q_TOP, Q_BOUND],
    cites=["fujimoto2018td3", "hasselt2016double"],
    certain=True,
    causes=["values-run-away"],
    bad=lambda: cases.q_learner({"train/sentinel/q_abs_max": 500.0}),
)
def q_values_beyond_any_return(case: Case) -> Iterator[Finding]:
    """Q-values are larger than any sum of the rewards that have been seen.

    No return can pass the largest reward / (1 - gamma); SAC's may pass it by what its entropy is worth.

    ## Why it hurts
    Values feed on themselves: a bootstrap that never ends (terminal states ignored), a target that follows at once, or a learning
    rate that makes errors grow. The policy follows whatever is overestimated most.

    ## When it is fine
    A short overshoot early in a run.
    """
    top, bound, alpha = case.signal(Q_TOP).share(0.3), case.signal(Q_BOUND), case.signal(ALPHA)
    # Rewards so small that a network's first guesses pass their bound say nothing about the targets.
    if len(top) < 3 or not bound.median > 0 or top.median < 1.0:
        return
    gamma = case.number("gamma") or 0.99
    # Our own bound counts what entropy is worth.
    paid = 0.0 if case.ours or not len(alpha) else alpha.median * 2 * NATS / max(1 - gamma, 1e-6)
    ratios = np.array([value / max(bound.at(step) + paid, 1e-9) for step, value in zip(top.steps, top.values, strict=True)])
    times = float(np.median(ratios))
    strength = grade(times, 1.3, 2.0)
    if strength <= 0:
        return
    text = f"Q-values up to {say(top.median)}, {say(times)} x what rewards could ever add up to"
    fix = advice(
        "check that terminal states have no future in the target; then a slower target, two critics (or double), a lower rate", "> 30 %"
    )
    proof = evidence(Q_TOP, text, *case.span, times=times, bound=bound.median)
    yield Finding(strength=strength, text=text, evidence=(proof,), onset=detect.onset(case.signal(Q_TOP)), remedies=(fix,))


@rule(
    "QVL102",
    severity=Severity.MEDIUM,
    algos=OFF_POLICY,
    needs=[Q_BIAS, Q_MEAN],
    cites=["hasselt2016double", "fujimoto2018td3"],
    causes=["values-run-away"],
    bad=lambda: cases.q_learner({"train/sentinel/q_bias": 80.0, "train/sentinel/value_mean": 100.0}),
)
def q_values_far_above_returns(case: Case) -> Iterator[Finding]:
    """Q-values promise far more than the returns that really come.

    ## Why it hurts
    The largest of several noisy values is too large on average, and bootstrapping passes it on. The policy prefers what is least known.

    ## When it is fine
    Early in a run, and while the policy still explores: its actions are worse than the values assume.
    """
    bias, real = case.learning(Q_BIAS).share(0.4), off_policy.returns_of_states(case)
    if len(bias) < 3 or not case.sick:
        return
    off = bias.median / max(abs(real), 1.0)
    strength = grade(off, 0.6, 2.0)
    if strength <= 0:
        return
    text = f"Q-values lie {say(bias.median)} above the returns that came, which are about {say(real)}"
    fixes = [change(case, "algo.double", True, "one network chooses, the other judges", "10-30 %")] if case.algo == "dqn" else []
    if case.algo in ACTORS and (case.count("algo.n_critics") or 2) < 2:
        fixes = [change(case, "algo.n_critics", 2, "the lower of two critics", "10-30 %")]
    proof = evidence(Q_BIAS, text, *case.span, bias=bias.median, returns=real)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=tuple(fixes))


# ── targets, checked against a second calculation ──


@rule(
    "QVL103",
    severity=Severity.HIGH,
    algos=OFF_POLICY,
    needs=[sentinel("target_error_ends")],
    cites=["sutton2018book"],
    certain=True,
    causes=["episode-ends-ignored"],
    bad=lambda: cases.q_learner({"train/sentinel/target_error_ends": 0.5}),
)
def q_targets_go_on_behind_terminal_states(case: Case) -> Iterator[Finding]:
    """At terminal states the target is not the reward alone.

    ## Why it hurts
    A value is bootstrapped where there is no future (the mask is missing or inverted): falling has no price, and values grow towards
    the largest reward / (1 - gamma) everywhere.

    ## When it is fine
    Never, beyond float rounding.
    """
    ends = float(case.sentinel("target_error_ends").values.mean())
    strength = grade(decades(ends), EXACT, EXACT + 1)
    if strength <= 0:
        return
    inside = case.sentinel("target_error")
    where = "and within episodes too" if len(inside) and inside.median > 1e-2 else "and are right within episodes"
    text = f"targets at terminal states are off by {percent(ends)} of the usual size, {where}"
    fix = advice("multiply the next value by (1 - terminated): the flag of the stored row, and not its opposite", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(sentinel("target_error_ends"), text, *case.span),), remedies=(fix,))


@rule(
    "QVL104",
    severity=Severity.HIGH,
    algos=OFF_POLICY,
    needs=[sentinel("target_error_cuts")],
    cites=["pardo2018time"],
    certain=True,
    causes=["time-limit-as-terminal"],
    bad=lambda: cases.soft_actor({"train/sentinel/target_error_cuts": 0.5}),
)
def q_targets_stop_at_the_time_limit(case: Case) -> Iterator[Finding]:
    """Where a time limit cut an episode, the target has no future, although the task went on.

    ## Why it hurts
    States near the limit look worthless, and the agent cannot see the clock: good and bad states get the same, wrong value.

    ## When it is fine
    Never, unless the limit is part of the task and the time is observed.
    """
    cuts, ends = case.sentinel("target_error_cuts").median, case.sentinel("target_error_ends")
    strength = grade(decades(cuts), EXACT, EXACT + 1)
    inside = case.sentinel("target_error")
    if strength <= 0 or (len(ends) and ends.median > 0.1 * cuts) or (len(inside) and inside.median > 0.1 * cuts):
        return
    text = f"targets at time limits are off by {percent(cuts)} of the usual size, and are right elsewhere"
    fix = advice("store terminated, not terminated or truncated, as the flag that ends the bootstrap", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(sentinel("target_error_cuts"), text, *case.span),), remedies=(fix,))


@rule(
    "QVL105",
    severity=Severity.HIGH,
    algos=OFF_POLICY,
    needs=[sentinel("target_error")],
    cites=["sutton2018book"],
    certain=True,
    causes=["returns-wrong"],
    bad=lambda: cases.q_learner({"train/sentinel/target_error": 0.5}),
)
def q_targets_do_not_follow_from_the_replay(case: Case) -> Iterator[Finding]:
    """Within episodes, targets are not what the stored rewards and the target network give.

    Training recomputes them a second time: summed rewards, the discount, which network chooses the next action and which judges it.

    ## Why it hurts
    Values are learned towards something else: rewards of the next episode, another discount, the wrong network's choice.

    ## When it is fine
    Never, beyond float rounding.
    """
    inside, ends = float(case.sentinel("target_error").values.mean()), case.sentinel("target_error_ends")
    strength = grade(decades(inside), EXACT, EXACT + 1)
    # A mask that is upside down is wrong everywhere, and most of all at ends.
    if strength <= 0 or (len(ends) and ends.median > max(10 * 10**EXACT, inside)):
        return
    text = f"targets within episodes are off by {percent(inside)} of their size"
    fix = advice("write one row's target as a slow loop and compare: where the sum stops, which network is maximized over", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(sentinel("target_error"), text, *case.span),), remedies=(fix,))


# ── step size ──


@rule(
    "QVL106",
    severity=Severity.MEDIUM,
    algos=OFF_POLICY,
    needs=[RATE],
    cites=["mnih2015dqn", "haarnoja2018sac"],
    causes=["learning-rate-too-high"],
    bad=lambda: cases.q_learner(settings={"algo.learning_rate": 0.1}),
)
def learning_rate_above_every_tuned_one(case: Case) -> Iterator[Finding]:
    """The learning rate is above all tuned settings of learners with a replay.

    ## Why it hurts
    Values jump at every step, and the targets that they aim at jump along: errors grow in place of shrinking.

    ## When it is fine
    Linear values and tables.
    """
    rate = case.real("algo.learning_rate")
    if rate is None or rate <= HIGHEST_RATE or case.setting("algo.optimizer") == "sgd":
        return
    text = f"learning_rate {say(rate)}; tuned settings stay below {say(HIGHEST_RATE)}"
    fix = change(case, "algo.learning_rate", 1e-3 if case.algo in Q_LEARNERS else 3e-4, "a usual rate", "> 30 %")
    proof = evidence(RATE, text, value=rate, usual_most=HIGHEST_RATE)
    yield Finding(strength=grade(decades(rate / HIGHEST_RATE), 0.0, 0.4), text=text, evidence=(proof,), remedies=(fix,))


@rule(
    "QVL107",
    severity=Severity.MEDIUM,
    algos=OFF_POLICY,
    needs=[RATE],
    cites=["mnih2015dqn", "haarnoja2018sac"],
    causes=["learning-rate-too-low"],
    bad=lambda: cases.q_learner(settings={"algo.learning_rate": 1e-07}),
)
def learning_rate_below_every_tuned_one(case: Case) -> Iterator[Finding]:
    """The learning rate is below all tuned settings of learners with a replay; or near their lower end, and Q-values stay at their start.

    ## Why it hurts
    The budget ends before the values have left their start.

    ## When it is fine
    Images and very long runs; a policy that is only polished.
    """
    rate = case.real("algo.learning_rate")
    if rate is None or rate >= SMALL or rate <= 0:
        return
    strength = max(grade(decades(LOW / rate), 0.0, 0.7), min(grade(decades(SMALL / rate), 0.0, 0.5), _left_behind(case)))
    if strength <= 0:
        return
    text = f"learning_rate {say(rate)}; tuned settings stay above {say(LOW)}"
    if rate >= LOW:
        text = f"learning_rate {say(rate)}, and Q-values have hardly left their start"
    fix = change(case, "algo.learning_rate", case.default("learning_rate"), "the usual rate of this algorithm", "> 30 %")
    proof = evidence(RATE, text, value=rate, usual_least=LOW)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


def _left_behind(case: Case) -> float:
    """How clearly Q-values have not come near the returns that came, 0 to 1; 0 where it was not measured, or returns are about 0."""
    bias, real, mean = case.signal(Q_BIAS).share(0.6), off_policy.returns_of_states(case), case.signal(Q_MEAN).share(0.6)
    if len(bias) < 3 or not abs(real) > 1e-9 or not case.sick:
        return 0.0
    reached = mean.median / real
    return 0.0 if reached < -0.5 else grade(-reached, -0.35, -0.1)


@rule(
    "QVL108",
    severity=Severity.HIGH,
    algos=OFF_POLICY,
    needs=[Q_BIAS, Q_MEAN],
    cites=["mnih2015dqn"],
    bad=lambda: cases.q_learner({"train/sentinel/q_bias": -40.0, "train/sentinel/value_mean": 0.5}),
)
def q_values_never_leave_their_start(case: Case) -> Iterator[Finding]:
    """To the end, Q-values are nowhere near the returns that came.

    ## Why it hurts
    Values that have not grown to the size of returns cannot tell actions apart: too small a learning rate, too few gradient steps, or a
    target that never takes up what was learned.

    ## When it is fine
    Returns that are about 0.
    """
    strength, real, mean = _left_behind(case), off_policy.returns_of_states(case), case.signal(Q_MEAN).share(0.6)
    if strength <= 0:
        return
    text = f"Q-values are {say(mean.median)} on average, returns {say(real)}"
    rate = case.number("learning_rate")
    fixes = () if rate is None or rate > 3e-4 else (change(case, "algo.learning_rate", 1e-3, "larger steps", "> 30 %"),)
    yield Finding(strength=strength, text=text, evidence=(evidence(Q_MEAN, text, *case.span, reached=mean.median / real),), remedies=fixes)


@rule(
    "QVL109",
    severity=Severity.HIGH,
    algos=OFF_POLICY,
    needs=[("train/loss/td", "train/loss/critic")],
    cites=["fujimoto2018td3"],
    causes=["learning-rate-too-high"],
    bad=lambda: cases.q_learner({"train/loss/td": lambda share: 10 ** (5 * share)}),
)
def critic_error_grows_without_end(case: Case) -> Iterator[Finding]:
    """The TD error grows by orders of magnitude.

    ## Why it hurts
    The values run away from their own targets: the step is too large, or the target follows too closely.

    ## When it is fine
    A growth with the returns, by a factor of ten or so.
    """
    loss, bound = off_policy.critic_loss(case), case.signal(Q_BOUND)
    grown = off_policy.late_rise(loss)
    large = loss.share(0.7).median / max(bound.median, 1e-9) ** 2 if len(bound) else math.nan
    strength = min(grade(grown, 1.5, 3.0), 1.0 if large != large else grade(decades(large), -3.0, -1.0))
    if not strength > 0 or not case.sick:
        return
    text = f"the critic's loss went from {say(loss.share(0.0, 0.2).median)} to {say(loss.share(0.8).median)}"
    rate = case.number("learning_rate")
    fixes = () if rate is None else (change(case, "algo.learning_rate", float(f"{rate / 10:.1g}"), "smaller steps", "> 30 %"),)
    proof = evidence(loss.name, text, *case.span, decades=grown)
    yield Finding(strength=strength, text=text, evidence=(proof,), onset=detect.onset(loss), remedies=fixes)


# ── reward scale ──


@rule(
    "QVL110",
    severity=Severity.HIGH,
    algos=OFF_POLICY,
    needs=[(sentinel("reward_std"), RETURN)],
    cites=["jones2021debugging"],
    causes=["reward-scale-too-large"],
    bad=lambda: cases.q_learner({"train/sentinel/reward_std": 2000.0}),
)
def rewards_far_too_large_for_the_critic(case: Case) -> Iterator[Finding]:
    """Rewards are so large that Q-values would have to be in the tens of thousands.

    ## Why it hurts
    The critic needs the whole run to reach their size; the squared error is dominated by it, and SAC's entropy counts for nothing.

    ## When it is fine
    With normalized rewards; with a Huber loss and time.
    """
    size = off_policy.reward_size(case)
    strength = grade(decades(size), 1.8, 2.7)
    if not strength > 0 or case.setting("env.normalize_reward") is True or not case.sick:
        return
    bound = case.signal(Q_BOUND)
    text = f"rewards are of the order of {say(size)} per step" + (f"; Q-values may reach {say(bound.last)}" if len(bound) else "")
    fix = advice("divide rewards until they are about 1 per step (a wrapper, gymnasium.wrappers.TransformReward)", "> 30 %")
    series = sentinel("reward_std") if case.has(sentinel("reward_std")) else RETURN
    yield Finding(strength=strength, text=text, evidence=(evidence(series, text, *case.span, size=size),), remedies=(fix,))


@rule(
    "QVL111",
    severity=Severity.HIGH,
    algos=OFF_POLICY,
    needs=[Q_BOUND, sentinel("reward_max")],
    cites=["jones2021debugging"],
    causes=["reward-scale-too-small"],
    bad=lambda: cases.q_learner({"train/sentinel/reward_min": 0.0001, "train/sentinel/reward_max": 0.0001}),
    # A goal that was never met, beside tiny costs.
    good=[
        lambda: cases.q_learner(
            {"train/sentinel/reward_min": -0.001, "train/sentinel/reward_max": 0.0, "train/roll/ep_len_mean": 10.0}, threshold=0.9
        )
    ],
)
def rewards_far_too_small_for_the_critic(case: Case) -> Iterator[Finding]:
    """Rewards are so small that all Q-values differ by less than the network's noise.

    ## Why it hurts
    The best action changes with every update; in SAC the entropy is worth more than the task.

    ## When it is fine
    With normalized rewards.
    """
    low, high = case.sentinel("reward_min"), case.sentinel("reward_max")
    size = max(abs(low.bottom) if len(low) else 0.0, abs(high.top))
    # A threshold far beyond what such rewards add up to: the one that counts was not met yet; who does nothing sees small ones.
    unmet = case.threshold is not None and case.time_limit is not None and case.threshold > 3 * size * case.time_limit
    strength = grade(-decades(size), 1.5, 2.5) * (0.6 if unmet else 1.0)
    if not strength > 0 or size <= 1e-11 or case.setting("env.normalize_reward") is True or not case.sick or measures.gained_nothing(case):
        return
    text = f"no reward was larger than {say(size)}; Q-values stay below {say(case.signal(Q_BOUND).last)}"
    fix = advice("multiply rewards until they are about 1 per step (a wrapper, gymnasium.wrappers.TransformReward)", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(high.name, text, *case.span, size=size),), remedies=(fix,))


@rule(
    "QVL112",
    severity=Severity.HIGH,
    algos=OFF_POLICY,
    needs=[sentinel("reward_std"), sentinel("td_error"), sentinel("reward_min"), sentinel("reward_max")],
    cites=["schulman2016nuts"],
    causes=["reward-noise"],
    bad=lambda: cases.q_learner(
        {
            "train/sentinel/reward_std": 20.0,
            "train/sentinel/reward_min": -60.0,
            "train/sentinel/reward_max": 60.0,
            "train/sentinel/td_error": 18.0,
        }
    ),
)
def rewards_are_noise_to_the_critic(case: Case) -> Iterator[Finding]:
    """Rewards vary widely to both sides, and the critic's error stays as large as they do.

    ## Why it hurts
    Differences between actions drown in it: the best one changes with every batch.

    ## When it is fine
    Games of chance, with a replay large enough to average over.
    """
    deviation, mean, error = (case.learning(sentinel(name)) for name in ("reward_std", "reward_mean", "td_error"))
    low, high = case.learning(sentinel("reward_min")), case.learning(sentinel("reward_max"))
    if not deviation.median > 0 or not case.sick:
        return
    spread = (high.median - low.median) / deviation.median
    # A bell has two sides: costs that are rarely large, or a goal that is rarely met, have one.
    below, above = mean.median - low.median, high.median - mean.median
    both = min(below, above) > max(1.5 * deviation.median, 0.4 * max(below, above))
    unexplained = error.share(0.4).median / deviation.median
    strength = min(grade(deviation.median / max(abs(mean.median), 1e-9), 2.0, 5.0), grade(unexplained, 0.4, 0.7))
    if not strength > 0 or not both or not 3.5 < spread < 9:
        return
    text = f"rewards are {say(mean.median)} ± {say(deviation.median)} per step, and the TD error stays at {say(error.share(0.4).median)}"
    fix = advice("take the noise out of the reward; else average it: larger batches (x4), a lower learning rate", "> 30 %")
    yield Finding(
        strength=strength, text=text, evidence=(evidence(deviation.name, text, *case.span, unexplained=unexplained),), remedies=(fix,)
    )


cause(
    "heads-agree-too-soon",
    "the heads agree before anything was found",
    "fault of settings",
    doses=["larger-prior"],
    explains="REW501 REW505 GRD404",
)


@rule(
    "HED101",
    severity=Severity.HIGH,
    algos=HEADS,
    needs=[SPLIT, PRIOR],
    cites=["osband2018priors"],
    causes=["heads-agree-too-soon"],
    bad=lambda: cases.q_learner(
        {
            SPLIT: lambda share: 0.35 * (1 - share) ** 3,
            DISAGREEMENT: lambda share: 0.05 * (1 - share) ** 3,
            SUCCESS: 0.0,
            "train/roll/ep_rew_mean": 0.0,
            "val/roll/ep_rew_mean": 0.0,
        },
        settings={"algo.prior_scale": 0.0},
        algo="bootstrapped_dqn",
    ),
    good=[
        # They still disagree: it looks on.
        lambda: cases.q_learner({SPLIT: 0.33, SUCCESS: 0.0}, settings={"algo.prior_scale": 3.0}, algo="bootstrapped_dqn"),
        # They agree as there is something to agree on.
        lambda: cases.q_learner(
            {SPLIT: lambda share: 0.35 * (1 - share) ** 3, SUCCESS: lambda share: share},
            settings={"algo.prior_scale": 3.0},
            algo="bootstrapped_dqn",
        ),
    ],
)
def heads_agree_before_anything_was_found(case: Case) -> Iterator[Finding]:
    """All heads have come to prefer the same actions, and no episode has succeeded yet.

    ## Why it hurts
    Whichever head acts does the same: nothing new is tried any more. Their first weights alone differ too little, and data without a
    reward teaches all of them the same.

    ## When it is fine
    Where what they agree on is right, and success is only reported elsewhere.
    """
    split, success = case.signal(SPLIT), case.signal(SUCCESS)
    if len(split) < 4 or not case.sick or (len(success) and success.top > 0):
        return
    late = split.share(0.7).median
    strength = min(grade(-late, -0.17, -0.1), grade(-late, -0.7 * split.share(0.0, 0.1).median, -0.5 * split.share(0.0, 0.1).median))
    if strength <= 0:
        return
    scale = case.real("algo.prior_scale") or 0.0
    text = f"{percent(late)} of the heads prefer another action than most do, {percent(split.share(0.0, 0.1).median)} at first"
    fix = change(case, "algo.prior_scale", max(3.0, 3.0 * scale), "what was not seen yet is then believed to differ", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(SPLIT, text, *case.span, late=late),), remedies=(fix,))


cause(
    "priors-too-large",
    "the priors outweigh what is learned",
    "fault of settings",
    doses=["smaller-prior"],
    explains="QVL101 QVL102",
)


@rule(
    "HED102",
    severity=Severity.HIGH,
    algos=HEADS,
    needs=[DISAGREEMENT, SPLIT, PRIOR, "threshold"],
    cites=["osband2018priors"],
    causes=["priors-too-large"],
    bad=lambda: cases.q_learner(
        {DISAGREEMENT: 300.0, SPLIT: 0.35, "train/roll/ep_rew_mean": 20.0, "val/roll/ep_rew_mean": 20.0},
        settings={"algo.prior_scale": 1_000.0},
        algo="bootstrapped_dqn",
        threshold=100.0,
    ),
    good=[
        lambda: cases.q_learner({DISAGREEMENT: 3.0, SPLIT: 0.35}, settings={"algo.prior_scale": 3.0}, algo="bootstrapped_dqn"),
        # It falls: data is winning.
        lambda: cases.q_learner(
            {DISAGREEMENT: lambda share: 300.0 * (1 - share) ** 3, SPLIT: 0.35},
            settings={"algo.prior_scale": 1_000.0},
            algo="bootstrapped_dqn",
            threshold=100.0,
        ),
    ],
)
def priors_outweigh_the_reward(case: Case) -> Iterator[Finding]:
    """The heads disagree by more than the task is worth, and hardly less than at first.

    ## Why it hurts
    What a random function says decides what every head prefers. Gradient steps spend themselves on unlearning it, state by state, and
    the reward is a small part of each target.

    ## When it is fine
    Early: disagreement is to be as large as what may still be found.
    """
    apart, split, threshold = case.signal(DISAGREEMENT), case.signal(SPLIT), case.threshold
    if len(apart) < 4 or not case.sick or not threshold or case.setting("env.normalize_reward") is True:
        return
    late, early, worth = apart.share(0.7).median, apart.share(0.0, 0.1).median, abs(threshold)
    strength = min(grade(late / worth, 0.7, 2.0), grade(late / max(early, 1e-12), 0.2, 0.5), grade(split.share(0.7).median, 0.1, 0.2))
    if strength <= 0:
        return
    scale = case.real("algo.prior_scale") or 1.0
    text = f"heads disagree by {say(late)} at the end ({say(early)} at first), where the threshold is {say(threshold)}"
    fix = change(case, "algo.prior_scale", float(f"{scale * worth / late / 3:.1g}"), "a third of what the task is worth", "> 30 %")
    yield Finding(
        strength=strength, text=text, evidence=(evidence(DISAGREEMENT, text, *case.span, late=late, early=early),), remedies=(fix,)
    )


# ── tables ──


@rule(
    "TAB101",
    severity=Severity.HIGH,
    algos=TABLES,
    needs=[RATE, STATES],
    cites=["sutton2018book"],
    causes=["learning-rate-too-low"],
    bad=lambda: cases.q_learner(settings={"algo.learning_rate": 1e-05, "about.obs_flags": 16.0}, algo="q_learning"),
)
def the_table_hardly_moves(case: Case) -> Iterator[Finding]:
    """The learning rate moves a value so little per visit that the whole run covers a fraction of the way to its target.

    A value that is visited n times covers 1 - (1 - learning_rate)^n of it; n is at most the env steps for each state.

    ## Why it hurts
    The table stays what it was at the start, and so does the policy.

    ## When it is fine
    A table that was learned before, and is only polished.
    """
    rate, states = case.real("algo.learning_rate"), case.real("about.obs_flags")
    if not rate or not states or rate >= 1 or not case.sick:
        return
    visits = case.trained / states
    covered = 1 - (1 - rate) ** visits
    strength = grade(-covered, -0.6, -0.2)
    if strength <= 0:
        return
    text = f"learning_rate {say(rate)}: {say(visits)} visits of a state move its values {percent(covered)} of the way"
    fix = change(case, "algo.learning_rate", 0.1, "a usual rate of a table", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(RATE, text, value=rate, covered=covered),), remedies=(fix,))


@rule(
    "TAB102",
    severity=Severity.HIGH,
    algos=TABLES,
    needs=["config:algo.exploration_fraction", "budget"],
    cites=["sutton2018book"],
    causes=["exploration-ends-too-early"],
    bad=lambda: cases.q_learner({"train/hp/epsilon": 0.01}, settings={"algo.exploration_initial_eps": 0.01}, algo="q_learning"),
)
def a_table_that_tries_nothing_new(case: Case) -> Iterator[Finding]:
    """Hardly any action is random from the first per cent of the run on, and the table's first values invite no trying either.

    ## Why it hurts
    Whichever action is tried first is repeated; what the others are worth is never seen.

    ## When it is fine
    First values above every return (initial_value): each action looks best until it was tried.
    """
    share, budget = off_policy.epsilon(case), float(case.budget or 1)
    if len(share) < 4 or not case.sick or case.setting("algo.exploration") == "ucb" or (case.real("algo.initial_value") or 0.0) > 0:
        return
    low = share.values <= 0.1
    reached = float(share.steps[np.argmax(low)]) if low.any() else budget
    until = 0.0 if low[0] else reached / budget
    strength = min(grade(-until, -0.05, -0.02), grade(-share.share(0.3).median, -0.15, -0.1))
    if strength <= 0:
        return
    text = f"from {percent(until)} of the run on, no more than {percent(share.share(0.3).median)} of the actions are random"
    fix = change(case, "algo.exploration_fraction", 0.5, "let it fall over half of the run", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(off_policy.EPSILON, text, 0, reached, share=until),), remedies=(fix,))
