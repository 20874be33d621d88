"""Rewards: whether there is a signal, its scale, its sign, its noise."""

import math
from collections.abc import Iterator

import numpy as np

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import EVAL_LENGTH, EVAL_RETURN, EXPLAINED_VARIANCE, LENGTH, RETURN, RETURN_STD, VALUE_LOSS, sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import ON_POLICY, BugLocation, advice, cause, change, decades, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import detect, measures
from rlclinic.diagnosis.signals.off_policy import OFF_POLICY, Q_LEARNERS

TARGETS = sentinel("return_abs_p95")
ANY = (*ON_POLICY, *OFF_POLICY)
RARE = 0.05
"""Share of steps with a reward below which the mean of a stretch is a matter of luck."""
CONSTANT = 0.1
"""Spread of a reward that is the same at every step, as a share of it."""
SUCCESS = "train/roll/success_rate"
STD, LOW, HIGH = sentinel("reward_std"), sentinel("reward_min"), sentinel("reward_max")
_LASTS: dict[str, cases.Shape] = {
    RETURN: lambda share: 2.0 * (30 + 20 * share),
    LENGTH: lambda share: 30 + 20 * share,
    EVAL_RETURN: None,
    SUCCESS: lambda share: 0.4 - 0.35 * share,
    "train/sentinel/reward_mean": 2.0,
}
"""Every step pays 2, episodes last longer and longer, and fewer of them are a success."""


cause(
    "reward-never-seen",
    "the goal is never met",
    "fault of environment",
    doses=["own-time-limit", "explore-longer", "start-wide", "pay-for-new-states", "entropy-that-falls", "whole-episode", "more-steps"],
    advice="can the goal be reached at all? Longer episodes, a shaped reward, starts nearer to the goal",
    explains="VAL201 ENT301 POL102 LRN103 REW503 ENV612",
)


@rule(
    "REW501",
    severity=Severity.HIGH,
    algos=ANY,
    needs=[RETURN],
    cites=["schulman2016nuts"],
    causes=["reward-never-seen"],
    bad=lambda: cases.unsolved({**cases.flat_returns(-200.0)}),
)
def all_returns_are_equal(case: Case) -> Iterator[Finding]:
    """Every episode has the same return: there is nothing to prefer.

    ## Why it hurts
    Without a difference between episodes no action can be found to be better. Sparse rewards that are never met look like this.

    ## When it is fine
    A solved task whose return is at its upper bound.
    """
    deviation, returns = case.signal(RETURN_STD), case.signal(RETURN)
    if not case.sick or len(returns) < 4:
        return
    varied = deviation.share(0.3).median if len(deviation) else detect.spread(returns.values)
    if varied > 1e-6 * max(abs(returns.median), 1.0) or detect.spread(returns.values) > 1e-6 * max(abs(returns.median), 1.0):
        return
    text = f"every episode returns {say(returns.median)}"
    fix = advice("check that the reward can be reached at all: longer episodes, shaping, a curriculum, more exploration", "> 30 %")
    yield Finding(text=text, evidence=(evidence(RETURN, text, *case.span, value=returns.median, deviation=varied),), remedies=(fix,))


cause(
    "reward-scale-too-large",
    "rewards too large",
    "fault of environment",
    doses=["scale-rewards+scale-observations-if-far", "scale-rewards", "scale-rewards+own-networks", "equal-shares"],
    advice="divide the reward in the environment until returns are about 1 to 100",
    explains="VAL201 VAL203 VAL205 POL102 LRN103 ENT301 GRD401 QVL109 REW504",
)


@rule(
    "REW502",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[(TARGETS, VALUE_LOSS)],
    cites=["jones2021debugging"],
    causes=["reward-scale-too-large"],
    bad=lambda: cases.unsolved({"train/sentinel/return_abs_p95": 20000.0}),
)
def reward_scale_too_large(case: Case) -> Iterator[Finding]:
    """Value targets are hundreds or thousands of times larger than a network's output at its start.

    ## Why it hurts
    The critic needs most of the run just to reach their size; on a shared network, or with one gradient limit for both, its error
    drowns the policy's gradient.

    ## When it is fine
    Tasks that learn all the same; with networks of their own and Adam, tens or hundreds are often harmless.
    """
    size = measures.target_size(case)
    strength = grade(decades(size.median), 2.5, 3.5)
    if strength <= 0 or not case.sick:
        return
    text = f"value targets are of the order of {say(size.median)}; about 10 suits a network"
    fix = change(
        case,
        "env.normalize_reward",
        True,
        f"divides rewards by the deviation of the return: targets of about 1 in place of {say(size.median)}",
        "> 30 %",
    )
    fixes = (fix,) if case.setting("env.normalize_reward") is not True else ()
    yield Finding(strength=strength, text=text, evidence=(evidence(size.name, text, *case.span, median=size.median),), remedies=fixes)


cause(
    "reward-scale-too-small",
    "rewards too small",
    "fault of environment",
    doses=["scale-rewards+scale-observations-if-far", "scale-rewards", "scale-rewards+no-entropy", "less-entropy"],
    advice="multiply the reward in the environment until returns are about 1 to 100",
    explains="ENT301 ENT304 VAL201 VAL203 POL102",
)


@rule(
    "REW503",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[(TARGETS, VALUE_LOSS)],
    cites=["jones2021debugging"],
    causes=["reward-scale-too-small"],
    bad=lambda: cases.unsolved(
        {"train/sentinel/return_abs_p95": 0.002, "train/sentinel/reward_max": 0.0005, "train/sentinel/reward_min": 0.0}
    ),
    # A goal that was never met, beside tiny costs: larger costs would not help to find it.
    good=[
        lambda: cases.unsolved(
            {"train/sentinel/return_abs_p95": 0.002, "train/sentinel/reward_max": 0.0, "train/sentinel/reward_min": -0.001}
            | {"train/roll/ep_len_mean": 10.0, **cases.flat_returns(-0.005)},
            threshold=0.9,
        ),
        # Large at first: the agent has settled for nothing since.
        lambda: cases.unsolved(
            {"train/sentinel/return_abs_p95": 0.002, "train/sentinel/reward_min": lambda share: np.where(share < 0.1, -3.0, 0.0)}
        ),
        # Cut off: that is another fault.
        lambda: cases.unsolved(
            {"train/sentinel/return_abs_p95": 0.02, "train/sentinel/reward_max": 0.005, "train/sentinel/reward_min": -0.005}
        ),
        # Costs of the way, while a bonus is followed and the goal was never met.
        lambda: cases.unsolved(
            {"train/sentinel/return_abs_p95": 0.002, "train/sentinel/reward_max": 0.0, "train/sentinel/reward_min": -0.0005}
            | {"train/bonus/share": 0.95},
            settings={"bonus.kind": "rnd"},
        ),
    ],
)
def reward_scale_too_small(case: Case) -> Iterator[Finding]:
    """Rewards are so small that everything else outweighs them.

    ## Why it hurts
    Value targets vanish in the critic's noise, and advantages (before scaling) in rounding; the entropy bonus decides.

    ## When it is fine
    With normalized rewards or advantages the policy may not notice. Where the reward that counts was never met, what was seen is
    small, and that is another fault.
    """
    size = measures.target_size(case)
    # Targets that are small because few steps pay, or because the agent settled for little, are not made of rewards that are too small.
    paid = max(abs(measures.known(measures.at_first(case, name), 0.0)) for name in ("reward_max", "reward_min"))
    largest = max(size.median, paid)
    strength = grade(-decades(largest), 1.0, 2.0) * (1.0 - measures.rewards_cut(case))
    # A bonus is paid until the goal is met: what was met before then is small beside it.
    strength *= 1.0 - measures.follows_bonus(case)
    if strength <= 0 or size.top <= 1e-9 or not case.sick or measures.gained_nothing(case):
        return
    text = f"value targets are of the order of {say(largest)}: other terms outweigh them"
    fix = change(case, "env.normalize_reward", True, "targets of about 1", "> 30 %")
    fixes = (fix,) if case.setting("env.normalize_reward") is not True else ()
    yield Finding(strength=strength, text=text, evidence=(evidence(size.name, text, *case.span, median=size.median),), remedies=fixes)


cause(
    "reward-sign",
    "the reward (or its use) has the wrong sign",
    "fault of environment",
    doses=["turn-rewards-around"],
    advice="turn the reward's sign around in the environment, or name the threshold of this reward",
    explains="EVA802 ENT302 SUC101 SUC102 SUC103 SUC104",
)


@rule(
    "REW504",
    severity=Severity.HIGH,
    algos=ANY,
    needs=[RETURN],
    cites=["jones2021debugging"],
    causes=["reward-sign"],
    bad=lambda: cases.unsolved({"train/roll/ep_rew_mean": cases.falls(0.1, 22.0, 9.0), "val/roll/ep_rew_mean": 9.0}),
)
def learns_to_do_worse_than_chance(case: Case) -> Iterator[Finding]:
    """The return falls below that of the first, random policy and stays there.

    ## Why it hurts
    Learning works, in the wrong direction: the task is rewarded upside down, the advantage has the wrong sign, or the policy locked
    in on a bad action early.

    ## When it is fine
    A passing dip early in a run.
    """
    returns, progress = case.signal(RETURN), case.progress
    far, often = measures.descent(case)
    strength = min(grade(far, 0.2, 0.5), grade(often, 0.7, 0.95))
    # Q-values that went astray lock in on a bad action too; where they are not logged, nothing tells the two apart.
    # Nor is anything but a return known of a log without sentinels: noise and a short horizon lead downwards as well.
    strength *= 1.0 if case.has(sentinel("value_mean")) else 0.5 if case.algo in OFF_POLICY else 0.7
    # A bonus for what is new is sought wherever it lies, whatever the way there costs.
    strength *= 1.0 - measures.follows_bonus(case)
    if progress is None or strength <= 0 or not case.sick:
        return
    late = returns.share(0.5)
    text = f"the return fell from {say(progress.start)} (random) to {say(late.median)}"
    proof = evidence(RETURN, text, *case.span, start=progress.start, late=late.median)
    yield Finding(strength=strength, text=text, evidence=(proof,), onset=detect.onset(returns))


@rule(
    "REW505",
    severity=Severity.MEDIUM,
    algos=(*ANY, "q_learning"),
    needs=[sentinel("reward_nonzero")],
    cites=["schulman2016nuts"],
    causes=["reward-never-seen"],
    bad=lambda: cases.unsolved({"train/sentinel/reward_nonzero": 0.0}),
    # Costs are all that there is to this task.
    good=[
        lambda: cases.unsolved({"train/sentinel/reward_max": 0.0, "train/sentinel/reward_min": -1.0}, threshold=-1.0),
        # A table needs the reward only a few times.
        lambda: cases.q_learner({"train/sentinel/reward_nonzero": 0.0005}, algo="q_learning"),
    ],
)
def reward_hardly_ever_comes(case: Case) -> Iterator[Finding]:
    """The reward that counts hardly ever comes: almost every step has a reward of 0, or nothing but costs.

    ## Why it hurts
    Until the first success is found by luck there is nothing to learn from.

    ## When it is fine
    Tasks in which success is found early, as in small mazes.
    """
    share = case.signal(sentinel("reward_nonzero"))
    early = share.share(0.0, 0.3)
    strength = grade(-early.median, -0.005, -0.0005)
    if case.algo == "q_learning":
        # A table remembers every success: rare ones are enough for it, none are not.
        strength = 1.0 if len(share) and share.top == 0 else 0.0
    text = f"{percent(early.median)} of the steps have a reward other than 0"
    if measures.gained_nothing(case):
        strength, text = 1.0, f"no step earned anything, and the threshold is {say(case.threshold or 0.0)}: the goal was never met"
    if strength <= 0 or not case.sick:
        return
    fix = change(case, "algo.ent_coef", max(3 * (case.number("ent_coef") or 0.0), 0.01), "keep looking; or shape the reward", "10-30 %")
    if case.algo in OFF_POLICY:
        fix = advice("keep looking (a longer exploration_fraction, wider action noise), or shape the reward", "10-30 %")
    if case.algo in Q_LEARNERS:
        fix = change(case, "algo.exploration_fraction", 0.5, "keep looking; or shape the reward", "10-30 %")
    if case.algo == "q_learning":
        hope = max(1.0, case.threshold or 0.0)
        fix = advice("keep looking (a longer exploration_fraction, more ucb_constant), or shape the reward", "10-30 %")
        if (case.real("algo.initial_value") or 0.0) < hope:
            fix = change(case, "algo.initial_value", hope, "what was never tried then looks best; or shape the reward", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(share.name, text, *case.span, share=early.median),), remedies=(fix,))


cause(
    "reward-noise",
    "the reward is mostly noise",
    "fault of environment",
    doses=["more-data", "larger-minibatches", "scale-rewards", "shorter-steps"],
    advice="take the noise out of the reward: it is larger than what the agent can change",
    explains="VAL201 EVA802 LRN107 ENT302 VAL203 REW504",
)


@rule(
    "REW506",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[STD, EXPLAINED_VARIANCE, LOW, HIGH],
    cites=["schulman2016nuts"],
    causes=["reward-noise"],
    bad=lambda: cases.unsolved(
        {
            "train/sentinel/reward_std": 20.0,
            "train/sentinel/reward_min": -60.0,
            "train/sentinel/reward_max": 60.0,
            "train/sentinel/reward_mean": 1.0,
            "train/metrics/explained_variance": 0.0,
            "train/sentinel/return_std": 60.0,
        }
    ),
    good=[
        # The critic explains nothing, but the step itself explains what it paid.
        lambda: cases.unsolved(
            {
                "train/sentinel/reward_std": 20.0,
                "train/sentinel/reward_min": -60.0,
                "train/sentinel/reward_max": 60.0,
                "train/sentinel/reward_mean": 1.0,
                "train/metrics/explained_variance": 0.0,
                "train/sentinel/return_std": 60.0,
                "train/sentinel/reward_explained": 0.8,
            }
        )
    ],
)
def reward_is_mostly_noise(case: Case) -> Iterator[Finding]:
    """Rewards vary widely from step to step, and the critic can explain none of it.

    ## Why it hurts
    Advantages are noise: the update's direction is a matter of chance, and only much larger batches average it out.

    ## When it is fine
    Games of chance, with batches to match.
    """
    deviation, low, high = case.learning(STD), case.learning(LOW), case.learning(HIGH)
    explained, mean = measures.explained(case), case.learning(sentinel("reward_mean"))
    if not len(explained) or deviation.median <= 0 or not len(mean):
        return  # a run that is solved is judged as well: noise of that size passes a threshold by chance
    # Bell-shaped and on both sides: neither a rare event nor a constant with exceptions.
    spread = (high.median - low.median) / deviation.median
    both = low.median < mean.median - deviation.median and high.median > mean.median + deviation.median
    strength = min(grade(-explained.share(0.4).median, -0.25, -0.05), grade(deviation.median / max(abs(mean.median), 1e-9), 2.0, 5.0))
    # Rewards that follow from where a step began and led to are not noise, whatever the critic makes of them.
    strength = min(strength, grade(-measures.known(measures.early(case, "reward_explained"), 0.0), -0.35, -0.2))
    # Of observations that stay as they are, or rewards next to nothing, no critic learns anything: that is not the rewards' noise.
    strength *= 1.0 - 0.7 * grade(measures.known(measures.early(case, "obs_repeat"), 0.0), 0.6, 0.9)
    strength *= 1.0 - 0.95 * grade(-decades(max(abs(low.bottom), abs(high.top), 1e-12)), 1.0, 2.0)
    if strength <= 0 or not both or not 3.5 < spread < 9:
        return
    text = f"rewards are {say(mean.median)} ± {say(deviation.median)} per step; explained variance {say(explained.share(0.4).median)}"
    fixes = (advice("take the noise out of the reward; else average it: longer rollouts and more envs (x4)", "> 30 %"),)
    yield Finding(strength=strength, text=text, evidence=(evidence(STD, text, *case.span, deviation=deviation.median),), remedies=fixes)


cause(
    "deceptive-reward",
    "settles for doing nothing",
    "fault of environment",
    doses=["explore-longer", "start-wide-and-look-ahead", "start-wide", "whole-episode", "more-entropy"],
    explains="ENT302 VAL201 EVA802 REW505 REW503 REW513 EVA807 ENV611 POL102 VAL211 ENV612",
)


@rule(
    "REW507",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[RETURN, sentinel("action_std_max"), sentinel("reward_max")],
    cites=["schulman2016nuts"],
    causes=["deceptive-reward"],
    bad=lambda: cases.continuous(
        {"train/roll/ep_rew_mean": cases.falls(0.2, -40.0, -0.5), "val/roll/ep_rew_mean": -0.4, "train/sentinel/reward_max": 0.0},
        threshold=90.0,
    ),
    good=[
        # Nothing but the last step of some episodes costs: the reward is rare, and acting is free.
        lambda: cases.continuous(
            {
                "train/roll/ep_rew_mean": cases.falls(0.2, -40.0, -0.5),
                "val/roll/ep_rew_mean": -0.4,
                "train/sentinel/reward_max": 0.0,
                "train/sentinel/reward_nonzero": 0.02,
            },
            threshold=90.0,
        )
    ],
)
def settles_for_doing_nothing(case: Case) -> Iterator[Finding]:
    """The return rose to about 0 and stays there: effort costs, and doing nothing is free.

    ## Why it hurts
    The cheap optimum hides the good one: the large reward was not met before the agent had learned to stand still.

    ## When it is fine
    Where 0 is the best possible return.
    """
    returns, progress = case.signal(RETURN), case.progress
    best = case.signal(sentinel("reward_max"))
    if progress is None or progress.start >= 0 or case.threshold is None or case.threshold <= 0 or not case.sick:
        return
    late = returns.share(0.7).median
    near = 1 - abs(late) / max(abs(progress.start), 1e-9)
    strength = min(grade(near, 0.4, 0.8), grade(-late, -0.05 * case.threshold, 0.0) if late > 0 else 1.0)
    # What is free was to be had at a price: where hardly any step costs, the reward is rare, and nothing was avoided.
    strength = min(strength, grade(measures.known(measures.at_first(case, "reward_nonzero"), 1.0), 0.1, 0.3))
    if strength <= 0 or best.share(0.5).median > 0.1 * case.threshold:
        return
    text = f"the return went from {say(progress.start)} to {say(late)}: the cost is avoided, the reward of the goal never met"
    fixes = (
        change(case, "net.log_std_init", 0.5, "wider actions at first", "> 30 %"),
        change(case, "algo.ent_coef", max(3 * (case.number("ent_coef") or 0.0), 0.005), "pay for noise until the goal was seen", "10-30 %"),
    )
    yield Finding(
        strength=strength,
        text=text,
        evidence=(evidence(RETURN, text, *case.span, late=late),),
        onset=detect.onset(returns),
        remedies=fixes,
    )


cause(
    "reward-clipped",
    "reward clipping hides magnitudes",
    "fault of settings",
    doses=["wider-reward-clip"],
    advice="do not clip rewards whose size matters; scale them",
)


@rule(
    "REW508",
    severity=Severity.MEDIUM,
    needs=[STD, sentinel("reward_trained_std"), "config:env.clip_reward"],
    cites=["schulman2016nuts"],
    causes=["reward-clipped"],
    bad=lambda: cases.unsolved(settings={"env.normalize_reward": True, "env.clip_reward": 0.5}),
)
def reward_clip_hides_magnitudes(case: Case) -> Iterator[Finding]:
    """Normalized rewards are cut so tightly that large and small ones look alike.

    ## Why it hurts
    The agent counts events in place of weighing them: the return that is reported is not the one that is learned.

    ## When it is fine
    Rewards without rare large values.
    """
    limit = case.real("env.clip_reward")
    trained = case.learning(sentinel("reward_trained_std"))
    if case.setting("env.normalize_reward") is not True or limit is None or limit >= 3 or not len(trained):
        return
    text = f"clip_reward {say(limit)}; rewards that are learned from have a deviation of {say(trained.median)}"
    fix = change(case, "env.clip_reward", 10.0, "only outliers are cut", "10-30 %")
    proof = evidence("config:env.clip_reward", text, value=limit)
    yield Finding(strength=grade(-limit, -3.0, -1.0), text=text, evidence=(proof,), remedies=(fix,))


cause(
    "returns-accounting",
    "returns are counted wrongly",
    "fault of environment",
    advice="sum the rewards of one episode, from reset to its end, before any normalization",
    bug=BugLocation(
        fix="count rewards before they are scaled, and set the sum to 0 at every end",
        check="compare the logged return with the sum of env.step's own rewards over one episode",
        rlclinic=("rlclinic/training/data/episodes.py", "Episodes._finish", "sums are cleared at ends"),
        sb3=("stable_baselines3/common/monitor.py", "Monitor.step", "Monitor must lie inside reward wrappers, not around them"),
        cleanrl=("ppo.py", "make_env", "RecordEpisodeStatistics before NormalizeReward"),
        own="the order of the wrapper that counts and the one that scales",
    ),
)


@rule(
    "REW509",
    severity=Severity.MEDIUM,
    algos=ON_POLICY,
    needs=[RETURN, LENGTH, sentinel("reward_mean")],
    cites=["jones2021debugging"],
    certain=True,
    causes=["returns-accounting"],
    bad=lambda: cases.unsolved({"train/roll/ep_rew_mean": 5000.0}),
)
def returns_do_not_add_up(case: Case) -> Iterator[Finding]:
    """Reported returns are not what the rewards per step and the episodes' lengths give.

    ## Why it hurts
    The curve that everything is judged by is wrong: returns summed across episodes, or rewards changed on the way.

    ## When it is fine
    Where returns and rewards are logged in different units on purpose.
    """
    returns, length, mean = case.signal(RETURN), case.signal(LENGTH), case.sentinel("reward_mean")
    low, high = case.signal(LOW), case.signal(HIGH)
    # Elsewhere a wrapper may lie between what counts returns and what is learned from: then units differ, on purpose or not.
    if len(returns) < 4 or not len(low) or not len(high) or not len(mean) or not case.ours:
        return
    steps = length.top
    largest = max(abs(low.bottom), abs(high.top))
    most = steps * largest
    beyond = float(np.mean(np.abs(returns.values) > 1.5 * most + 1e-9))
    judged = case.signal(EVAL_RETURN)
    late = returns.share(0.5).median
    counted = mean.share(0.5).median * length.share(0.5).median
    # Returns that are what steps pay in training are counted well, whatever evaluation pays.
    if len(judged) >= 3 and case.threshold is not None and not abs(late - counted) < 0.3 * abs(late):
        # Nor can training, over and over, be many times better or worse than anything that evaluation has ever seen.
        largest_seen = max(float(np.abs(judged.values).max()), abs(case.threshold))
        beyond = max(beyond, float(np.mean(np.abs(returns.share(0.5).values) > 5 * largest_seen + 1e-9)))
    if beyond < 0.2:
        return
    text = f"returns of {say(returns.top)} from episodes of at most {say(steps)} steps with rewards of at most {say(largest)}"
    yield Finding(strength=grade(beyond, 0.1, 0.5), text=text, evidence=(evidence(RETURN, text, *case.span, bound=most),))


@rule(
    "REW510",
    severity=Severity.HIGH,
    needs=[(HIGH, LENGTH), "threshold", RETURN],
    cites=["jones2021debugging"],
    certain=True,
    causes=["reward-sign"],
    bad=lambda: cases.unsolved(
        {"train/sentinel/reward_max": -1.0, "train/sentinel/reward_min": -1.0, "val/roll/ep_rew_mean": -20.0, RETURN: -22.0}
    ),
)
def rewards_cannot_add_up_to_the_threshold(case: Case) -> Iterator[Finding]:
    """No reward is positive, but the threshold is: no episode can ever reach it.

    ## Why it hurts
    The reward has the wrong sign, or the threshold belongs to another reward. An agent that learns well ends its episodes as soon as
    it can, to be spared further punishment.

    ## When it is fine
    Never; a positive reward that was not met yet would be a sparse one, without punishment in between.
    """
    most, least = _extremes(case)
    if case.threshold is None or case.threshold <= 0 or not (most < 0 and least < 0):
        return
    judged = case.signal(EVAL_RETURN)
    # Evaluation pays, as the threshold has it: only training differs. By a constant, unless it pays as much as the other costs.
    shifted = len(judged) > 0 and (judged.bottom > 0 or _is_shifted(case)) and measures.mirrors_at_first(case) < 0.5
    length = case.signal(LENGTH)
    shorter = len(length) > 0 and length.share(0.6).median < 0.7 * length.first
    text = f"rewards lie between {say(least)} and {say(most)}, the threshold is {say(case.threshold)}"
    text += f"; episodes became shorter ({say(length.first)} -> {say(length.share(0.6).median)})" if shorter else ""
    fix = advice("turn the reward's sign around, or name the threshold of this reward", "> 30 %")
    proof = evidence(HIGH, text, *case.span, largest=most, smallest=least)
    strength = (1.0 if shorter else 0.7) * (0.5 if shifted else 1.0) * (1.0 if _is_certain_of_extremes(case) else 0.4)
    if case.progress is not None and most - least > CONSTANT * abs(least):
        # With the other sign a policy that has learned nothing would be beyond the threshold: then that belongs to another reward.
        chance = measures.random_return(case)
        strength *= grade((case.progress.start if chance is None else chance[0]) / case.threshold, -3.0, -1.0)
    if strength <= 0:
        return
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


@rule(
    "REW511",
    severity=Severity.HIGH,
    needs=[RETURN, EVAL_RETURN],
    cites=["jones2021debugging"],
    causes=["reward-sign"],
    bad=lambda: cases.unsolved(
        {
            "train/sentinel/random_return": -20.0,
            "train/sentinel/random_return_std": 5.0,
            "val/roll/ep_rew_mean": -60.0,
            "train/roll/ep_rew_mean": lambda share: 20 + 40 * share,
        }
    ),
    good=[
        # A constant per step sets the two apart; they do not mirror each other.
        lambda: cases.foreign({"val/roll/ep_rew_mean": -10.0, "train/roll/ep_rew_mean": lambda share: 140 + 10 * share}),
        lambda: cases.foreign({"val/roll/ep_rew_mean": 15.0}),
        # Chance gets next to nothing, on either side of 0; training comes far, and evaluation stays where it is.
        lambda: cases.unsolved(
            {
                "train/sentinel/random_return": -1.1,
                "train/sentinel/random_return_std": 0.5,
                "val/roll/ep_rew_mean": -1.3,
                "train/roll/ep_rew_mean": lambda share: 0.8 + 9 * share,
            }
        ),
        # Noise on either side of 0.
        lambda: cases.foreign(
            {
                "val/roll/ep_rew_mean": lambda share: 9 * np.sin(40 * share) - 1,
                "train/roll/ep_rew_mean": lambda share: 1 + 9 * np.sin(300 * share),
            }
        ),
    ],
)
def training_pays_the_opposite_of_evaluation(case: Case) -> Iterator[Finding]:
    """What training calls better, evaluation calls worse: its reward has the opposite sign.

    ## Why it hurts
    The agent learns well, and the wrong thing: the better its training returns, the worse it does the task.

    ## When it is fine
    Never; shaping may change the size of a reward, not its sense.
    """
    progress, chance = case.progress, measures.random_return(case)
    trained, judged = case.signal(RETURN), case.signal(EVAL_RETURN)
    if progress is None or len(judged) < 3 or not case.sick:
        return
    if chance is None:
        # Nobody measured what chance gets: the two curves beside each other say it too.
        strength = min(max(measures.mirrors_evaluation(case), _mirrors_at_last(case)), 1.0 if case.improved else 0.7)
        strength *= 1.0 - _does_the_task_in_training(case)
        if strength > 0:
            text = f"training returns {say(trained.first)} to {say(trained.last)}, evaluation {say(judged.first)} to {say(judged.last)}"
            fix = advice("print a training reward beside the same step's reward in evaluation: which wrapper negates it?", "> 30 %")
            proof = evidence(EVAL_RETURN, f"{text}: one is the other with its sign turned around", *case.span, last=judged.last)
            yield Finding(strength=strength, text=proof.text, evidence=(proof,), remedies=(fix,))
        return
    mean, strength = chance[0], _pays_the_opposite(case)
    if strength <= 0:
        return
    text = (
        f"a random policy gets {say(mean)} in evaluation and {say(progress.start)} in training; "
        f"the best of training was {say(trained.top)}, evaluation then {say(judged.share(0.5).median)}"
    )
    fix = advice(
        "print a reward of the training environment beside the same step's reward in evaluation: which wrapper negates it?", "> 30 %"
    )
    proof = evidence(EVAL_RETURN, text, *case.span, random=mean, first=progress.start)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


@rule(
    "REW520",
    severity=Severity.HIGH,
    needs=["threshold", HIGH, LOW, RETURN, LENGTH],
    cites=["jones2021debugging"],
    causes=["reward-sign"],
    bad=lambda: cases.unsolved(
        {
            # It learned to end its episodes, each step of which costs.
            "train/sentinel/reward_max": 5.0,
            "train/sentinel/reward_min": -2.5,
            "train/sentinel/random_return": -40.0,
            "train/sentinel/random_return_std": 5.0,
            "train/roll/ep_rew_mean": lambda share: -40 + 38 * np.minimum(3 * share, 1),
            "train/roll/ep_len_mean": lambda share: 40 - 34 * np.minimum(3 * share, 1),
            "val/roll/ep_rew_mean": -2.0,
        },
        threshold=90.0,
    ),
    good=[
        # Episodes as long as before, and rewards that add up to the threshold.
        lambda: cases.unsolved(
            {**cases.flat_returns(20.0), "train/sentinel/reward_max": 5.0, "train/sentinel/reward_min": -2.5}, threshold=90.0
        ),
        # Costs are nothing beside the threshold: with the other sign, too, they would not reach it.
        lambda: cases.unsolved({"train/sentinel/reward_max": 0.01, "train/sentinel/reward_min": -0.01}, threshold=900.0),
        # A random policy would be far above the threshold if costs were gains.
        lambda: cases.unsolved(
            {
                "train/sentinel/reward_max": 0.01,
                "train/sentinel/reward_min": -30.0,
                "train/sentinel/random_return": -4_000.0,
                "train/sentinel/random_return_std": 100.0,
                "train/roll/ep_rew_mean": lambda share: -4_000 + 3_000 * share,
                "val/roll/ep_rew_mean": -1_000.0,
            },
            threshold=900.0,
        ),
    ],
)
def only_the_opposite_rewards_reach_the_threshold(case: Case) -> Iterator[Finding]:
    """The agent gets better and stays far below the threshold, which its rewards would reach with the other sign only.

    ## Why it hurts
    It learns well, and the wrong thing: not to be paid, or to end episodes before they cost more.

    ## When it is fine
    A goal that pays a lot, was not met yet and lies behind steps that cost.
    """
    strength = _reaches_by_the_opposite(case)
    if strength <= 0:
        return
    most, least, length, returns = case.signal(HIGH).top, case.signal(LOW).bottom, case.signal(LENGTH), case.signal(RETURN)
    text = (
        f"rewards lie between {say(least)} and {say(most)}, episodes went from {say(length.first)} steps to "
        f"{say(length.share(0.7).median)}, the return from {say(returns.first)} to {say(returns.share(0.7).median)}: "
        f"the threshold of {say(case.threshold or 0.0)} is in reach with the other sign only"
    )
    fix = advice("turn the reward's sign around, or name the threshold of this reward", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(LOW, text, *case.span, largest=most, smallest=least),), remedies=(fix,))


def _reaches_by_the_opposite(case: Case) -> float:
    """How clearly a run learned what its threshold is the opposite of, by what its rewards can add up to within an episode."""
    progress, returns, length = case.progress, case.signal(RETURN), case.signal(LENGTH)
    most, least = case.signal(HIGH).top, case.signal(LOW).bottom
    goal, steps = case.threshold, float(case.time_limit or length.top)
    if progress is None or goal is None or goal <= 0 or len(returns) < detect.SHORTEST or not most > 0 > least or not case.sick:
        return 0.0
    chance = measures.random_return(case)
    start = progress.start if chance is None else chance[0]
    late = returns.share(0.7).median
    # With the other sign a random policy must still have something to learn.
    if goal + start <= 0 or late - progress.start <= 2 * detect.noise(returns.values):
        return 0.0
    mirrored = grade(-least * steps / goal, 0.6, 0.9)
    short_of = grade(-most * steps / goal, -0.9, -0.5)
    # A reward that comes once, at the end, adds up to nothing: where it was worth ending episodes for, steps cost.
    first = measures.known(measures.early(case, "random_length"), length.first)
    ended = grade(-length.share(0.7).median / max(first, 1.0), -0.8, -0.6)
    strength = min(mirrored, max(short_of, ended), grade(-(late - start) / (goal - start), -0.5, -0.3))
    # What acting costs is no reward with another sign (REW519), nor is a constant that training alone pays (REW514).
    strength *= 1.0 - grade(measures.known(measures.at_first(case, "reward_by_action"), 0.0), 0.45, 0.8)
    strength *= 1.0 - measures.rewards_cut(case)
    # Where evaluation pays a policy that has learned nothing, its sign is the threshold's.
    strength *= 0.4 if chance is not None and start > 0.03 * goal else 1.0
    return strength * (0.3 if _is_shifted(case) and measures.mirrors_at_first(case) < 0.5 else 1.0)


def _pays_the_opposite(case: Case) -> float:
    """How clearly training returns are those of evaluation with the other sign; 0 where nobody measured what chance gets."""
    progress, chance, judged = case.progress, measures.random_return(case), case.signal(EVAL_RETURN)
    if progress is None or chance is None or len(judged) < 3:
        return 0.0
    mean, deviation = chance
    # Both are means over many episodes, which differ by far less than episodes do.
    scale = max(deviation / 3, 0.05 * abs(mean), 1e-9)
    # The first training returns are nearly a random policy's as well: they should be about what it gets in evaluation.
    mirrored = min(grade(abs(mean) / scale, 1.0, 2.0), grade(-abs(progress.start + mean) / max(abs(mean), 1e-9), -0.8, -0.4))
    mirrored *= 1.0 - _parts_otherwise(case, max(abs(mean), scale))
    parted = min(_mirrors_at_last(case), grade((mean - judged.share(0.7).median) / max(abs(mean), deviation, 1e-9), 0.5, 1.0))
    parted = max(parted, measures.mirrors_evaluation(case)) * (1.0 - _does_the_task_in_training(case))
    # Where actions or observations differ in evaluation, the two curves part as well, but not from the first. Where chance gets about
    # as much with either sign, only the curves tell.
    below = judged.share(0.5).median < mean + max(deviation, scale)
    strength = max(mirrored, parted) if below else 0.0
    strength *= 1.0 - _pays_alike_at_first(case)
    return strength * (0.3 if _is_shifted(case) and measures.mirrors_at_first(case) < 0.5 else 1.0)


def _parts_otherwise(case: Case, near: float) -> float:
    """How clearly one of the two came far from where it began and the other did not come as far on the other side of 0."""
    late, other = (case.signal(name).share(0.6) for name in (RETURN, EVAL_RETURN))
    if not len(late) or not len(other) or max(abs(late.median), abs(other.median)) < 3 * near:
        return 0.0
    return grade(abs(late.median + other.median) / max(abs(late.median), abs(other.median)), 0.6, 0.8)


def _does_the_task_in_training(case: Case) -> float:
    """How clearly training gets what the threshold asks for, and evaluation loses about as much, but not the same: a sign turned around
    gives the very same numbers on the other side of 0, as one policy earns both."""
    trained, judged = case.signal(RETURN).share(0.6), case.signal(EVAL_RETURN).share(0.6)
    # Where costs are asked for, returns above 0 are not what the task pays.
    if not 0 < (case.threshold or 0.0) <= (trained.median if len(trained) else 0.0) or not len(judged):
        return 0.0
    return 0.7 * grade(abs(trained.median + judged.median) / max(abs(trained.median), abs(judged.median), 1e-9), 0.06, 0.12)


def _mirrors_at_last(case: Case) -> float:
    """How clearly training returns lie as far on one side of 0 as those of evaluation on the other, when learning is done."""
    trained, judged = case.signal(RETURN).share(0.6), case.signal(EVAL_RETURN).share(0.6)
    late, other = trained.median, judged.median
    # Noise lies on either side as well.
    if not late * other < 0 or abs(late) < 2 * detect.noise(trained.values) or abs(other) < 2 * detect.noise(judged.values):
        return 0.0
    return grade(-abs(late + other) / max(abs(late), abs(other)), -0.3, -0.1)


def _pays_alike_at_first(case: Case) -> float:
    """1 where a first step of training pays what a step of a random policy pays in evaluation: then its reward is the same one."""
    shift, chance, steps = measures.reward_shift(case), measures.random_return(case), measures.early(case, "random_length")
    if shift != shift or chance is None:
        return 0.0
    paid, luck = chance[0] / steps, 0.25 * measures.known(measures.at_first(case, "reward_std"), 0.0)
    # Too little is paid to tell a sign from luck.
    return grade(-abs(shift) / max(abs(paid), 1e-9), -0.6, -0.3) if abs(paid) > luck else 0.0


def _is_shifted(case: Case) -> bool:
    """Whether training's rewards lie away from those of a random policy in evaluation by more than they differ among themselves."""
    shift, width = measures.reward_shift(case), case.signal(HIGH).top - case.signal(LOW).bottom if case.has(HIGH) else math.inf
    return abs(shift) > 0.5 * width


def _extremes(case: Case) -> tuple[float, float]:
    """The largest and the smallest reward; where they were not logged, the return per step, if that is the same all along.

    A mean below 0 says nothing about single rewards: tasks that punish failure and pay success begin there.
    """
    if case.has(HIGH) and case.has(LOW):
        return case.signal(HIGH).top, case.signal(LOW).bottom
    returns, length = case.signal(RETURN), case.signal(LENGTH)
    if not len(returns) or not len(length):
        return math.nan, math.nan
    each = returns.values / np.maximum(np.interp(returns.steps, length.steps, length.values), 1.0)
    most, least = float(each.max()), float(each.min())
    return (most, least) if most - least <= CONSTANT * abs(least) else (math.nan, math.nan)


def _is_certain_of_extremes(case: Case) -> bool:
    """Whether rewards were seen one by one, or are the same to the last digit; else a goal that was never met may pay otherwise."""
    most, least = _extremes(case)
    return (case.has(HIGH) and case.has(LOW)) or most - least <= 1e-3 * abs(least)


# ── when and how rewards come: see stats/variance_shares.py ──

NONZERO = sentinel("reward_nonzero")


cause(
    "reward-delayed",
    "rewards come late",
    "fault of environment",
    doses=["whole-episode", "longest-advantages", "more-data"],
    advice="pay each step for what it did, in that step: not a sum every so many steps, and not the whole return at the end",
    explains="VAL201 VAL203 REW505 REW513 EVA802 LRN107",
)


@rule(
    "REW512",
    severity=Severity.HIGH,
    needs=[NONZERO, sentinel("reward_common_share"), LENGTH],
    cites=["sutton2018book"],
    causes=["reward-delayed"],
    bad=lambda: cases.unsolved(
        {
            "train/sentinel/reward_nonzero": 0.05,
            "train/sentinel/reward_common_share": 0.95,
            "train/sentinel/reward_common": 0.0,
            "train/sentinel/reward_gap": 20.0,
            "train/sentinel/reward_gap_spread": 0.0,
        }
    ),
    good=[
        # By chance, not by the clock.
        lambda: cases.unsolved(
            {
                "train/sentinel/reward_nonzero": 0.05,
                "train/sentinel/reward_common_share": 0.95,
                "train/sentinel/reward_gap": 20.0,
                "train/sentinel/reward_gap_spread": 0.9,
            }
        ),
        lambda: cases.unsolved({"train/sentinel/reward_nonzero": 1.0, "train/sentinel/reward_common_share": 0.0}),
        # A goal that some episodes meet.
        lambda: cases.unsolved(
            {
                "train/sentinel/reward_nonzero": 0.002,
                "train/sentinel/reward_common_share": 0.998,
                "train/sentinel/reward_end_share": 1.0,
                "train/roll/ep_len_mean": 100.0,
            }
        ),
    ],
)
def rewards_are_paid_late(case: Case) -> Iterator[Finding]:
    """Rewards are paid by the clock, at the end of every episode, or some steps after what they are for.

    ## Why it hurts
    One number must be shared out among many actions: the critic sees nothing in between, and noise grows with the delay.

    ## When it is fine
    Games that are won or lost at the end, with a discount and a budget to match.
    """
    nonzero, spread, gap = (
        measures.early(case, "reward_nonzero"),
        measures.early(case, "reward_gap_spread"),
        measures.early(case, "reward_gap"),
    )
    lengths, ends = case.signal(LENGTH), measures.early(case, "reward_end_share")
    per_episode = nonzero * lengths.share(0.0, 0.5).median if len(lengths) else math.nan
    lag = case.sentinel("reward_lag")
    clock = min(grade(-nonzero, -0.4, -0.2), grade(-spread, -0.35, -0.1)) if spread == spread and gap > 2.5 else 0.0
    at_end = min(grade(ends, 0.8, 0.95), grade(-abs(math.log(max(per_episode, 1e-9))), -0.7, -0.3)) if ends == ends else 0.0
    if len(lengths) and lengths.share(0.0, 0.5).median < 4:
        at_end = 0.0
    later = lag.values[lag.values >= 2]
    late = 0.0
    if len(lag) >= 3:
        past, now = measures.early(case, "reward_explained_past"), measures.early(case, "reward_explained")
        late = min(grade(len(later) / len(lag), 0.5, 0.8), grade(past, 0.5, 0.8), grade(past - now, 0.1, 0.4))
    strength = max(clock, at_end, late)
    if strength <= 0 or not case.unproven:
        return
    if strength == clock:
        text = f"rewards come every {say(gap)} steps, by the clock, and {percent(1 - nonzero)} of the steps pay nothing"
    elif strength == at_end:
        text = f"{percent(ends)} of the reward comes with an episode's last step, in every episode"
    else:
        text = f"rewards follow from what was done {say(float(np.median(later)))} steps before, better than from their own step"
    fix = advice("pay each step for what it did in that step", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(NONZERO, text, *case.span, share=nonzero),), remedies=(fix,))


cause(
    "reward-sparse",
    "rewards come rarely",
    "fault of environment",
    doses=["explore-longer", "more-data", "entropy-that-falls", "more-steps"],
    advice="pay for progress on the way (a potential that is 0 at the end changes no best policy), or start nearer to the goal",
    explains="VAL201 VAL203 EVA802 REW506 LRN107",
)


@rule(
    "REW513",
    severity=Severity.MEDIUM,
    needs=[NONZERO, sentinel("reward_common_share"), LENGTH],
    cites=["schulman2016nuts"],
    causes=["reward-sparse"],
    bad=lambda: cases.unsolved(
        {
            "train/sentinel/reward_nonzero": 0.05,
            "train/sentinel/reward_common_share": 0.95,
            "train/sentinel/reward_gap": 20.0,
            "train/sentinel/reward_gap_spread": 0.9,
        }
    ),
    good=[
        lambda: cases.unsolved({"train/sentinel/reward_nonzero": 0.9, "train/sentinel/reward_common_share": 0.2}),
        # Rewards came as long as the agent did what they are for.
        lambda: cases.unsolved(
            {
                "train/sentinel/reward_nonzero": lambda share: np.where(share < 0.1, 0.9, 0.02),
                "train/sentinel/reward_common_share": 0.95,
                "train/sentinel/reward_gap_spread": 0.9,
            }
        ),
        # By the clock: that is a delay.
        lambda: cases.unsolved(
            {
                "train/sentinel/reward_nonzero": 0.05,
                "train/sentinel/reward_common_share": 0.95,
                "train/sentinel/reward_gap": 20.0,
                "train/sentinel/reward_gap_spread": 0.0,
            }
        ),
    ],
)
def rewards_come_rarely(case: Case) -> Iterator[Finding]:
    """Most steps pay nothing, and those that pay come by chance.

    ## Why it hurts
    Advantages of most steps are noise: whether a good action was paid for is a matter of luck, and learning needs many more steps.

    ## When it is fine
    Tasks in which success is found early, as in small mazes.
    """
    nonzero, spread, ends = (
        measures.early(case, "reward_nonzero"),
        measures.early(case, "reward_gap_spread"),
        measures.early(case, "reward_end_share"),
    )
    lengths = case.signal(LENGTH)
    per_episode = nonzero * lengths.share(0.0, 0.5).median if len(lengths) else math.nan
    by_chance = 1.0 if spread != spread else grade(spread, 0.2, 0.5)
    # A policy that learned to do what is neither paid nor punished met rewards before.
    nonzero = max(nonzero, measures.known(measures.at_first(case, "reward_nonzero"), 0.0))
    if ends == ends and ends > 0.9 and 0.5 < per_episode < 2:
        return  # every episode pays, at its end: a delay
    strength = min(grade(-nonzero, -0.2, -0.08), by_chance) if nonzero > 0 else 0.0
    if strength <= 0 or not case.sick:
        return
    text = f"{percent(nonzero)} of the steps pay anything"
    fix = advice("pay for progress on the way, or start nearer to the goal", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(NONZERO, text, *case.span, share=nonzero),), remedies=(fix,))


cause(
    "reward-shifted",
    "a constant in the reward decides how long episodes should last",
    "fault of environment",
    doses=["shift-rewards"],
    advice="take the constant out of the reward: with one that is too low it pays to end early, with one that is too high never to end",
    explains="EVA802 EVA801 REW502 VAL201 ENT302 SUC101 SUC102 SUC103 SUC104 LRN107",
)


@rule(
    "REW514",
    severity=Severity.HIGH,
    needs=[RETURN, LENGTH, (sentinel("random_return"), EVAL_RETURN), (sentinel("random_length"), EVAL_LENGTH), sentinel("reward_mean")],
    cites=["jones2021debugging"],
    causes=["reward-shifted"],
    bad=lambda: cases.unsolved(
        {
            "train/sentinel/random_return": 22.0,
            "train/sentinel/random_return_std": 8.0,
            "train/sentinel/random_length": 22.0,
            "train/sentinel/reward_mean": -2.0,
            "train/sentinel/reward_std": 0.5,
            "train/roll/ep_rew_mean": lambda share: -44 + 20 * share,
            "train/roll/ep_len_mean": lambda share: 22 - 10 * share,
        }
    ),
    good=[
        lambda: cases.unsolved(
            {
                "train/sentinel/random_return": 22.0,
                "train/sentinel/random_return_std": 8.0,
                "train/sentinel/random_length": 22.0,
                "train/sentinel/reward_mean": 1.0,
                "train/sentinel/reward_std": 0.5,
            }
        )
    ],
)
def training_pays_more_or_less_for_every_step(case: Case) -> Iterator[Finding]:
    """A step of training pays a constant more, or less, than a step of evaluation.

    ## Why it hurts
    The constant is paid per step: with a negative one the agent learns to end episodes early, with a positive one to make them last,
    whatever the task is.

    ## When it is fine
    Episodes that all have the same length.
    """
    chance, length, returns = measures.random_return(case), case.signal(LENGTH), case.signal(RETURN)
    steps, first = measures.early(case, "random_length"), measures.first_reward(case)
    # Where few steps pay, a stretch without one says nothing about the others.
    rare = measures.known(measures.at_first(case, "reward_nonzero"), 1.0) < RARE
    if first != first or not len(length) or len(returns) < 4 or not case.sick or rare or case.continues:
        return
    spread = 0.3 * measures.known(measures.early(case, "reward_std"), 0.0)
    if chance is not None and steps > 0:
        paid = chance[0] / steps
        shift = measures.reward_shift(case)
        # By how much the mean reward of a step may differ by chance: between policies, and between stretches of one.
        scale = max(0.5 * chance[1] / steps, 0.2 * abs(paid), spread, 1e-9)
        text = f"a step of a random policy pays {say(paid)} in evaluation and {say(first)} in training"
    elif case.algo in OFF_POLICY:
        return  # what exploration gets and what the greedy policy gets differ from the first
    else:
        # Nobody measured what chance gets: the first evaluations are nearly that, and differ more.
        shift, moved = measures.shift_beside_evaluation(case)
        paid = first - shift
        scale = max(1.5 * moved, 0.5 * abs(paid), spread, 1e-9) if shift == shift else math.inf
        text = f"at first a step of evaluation pays {say(paid)}, and one of training {say(first)}"
    strength = grade(abs(shift) / scale, 1.5, 4.0)
    mirrored = abs(first + paid) < 0.4 * abs(paid)
    # Another unit is a factor, which leaves the sign as it is, and stretches the differences between rewards as well.
    width = case.signal(HIGH).top - case.signal(LOW).bottom if case.has(HIGH) and case.has(LOW) else math.inf
    many_times = first * paid > 0 and not 0.05 < abs(first / paid) < 20 and abs(paid) > scale and width > abs(shift)
    # Rewards that are cut off are smaller in training, by as much as they are large: no constant.
    strength *= 1.0 - measures.rewards_cut(case)
    if strength <= 0 or mirrored or many_times:
        return
    fix = advice(f"take the constant of about {say(shift)} per step out of the training reward", "> 30 %")
    proof = evidence(sentinel("reward_mean"), text, *case.span, shift=shift, training=first, evaluation=paid)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


@rule(
    "REW515",
    severity=Severity.HIGH,
    needs=["threshold", HIGH, LOW, RETURN],
    cites=["jones2021debugging"],
    certain=True,
    causes=["reward-sign"],
    bad=lambda: cases.unsolved(
        {
            "train/sentinel/reward_max": 1.0,
            "train/sentinel/reward_min": 1.0,
            "train/roll/ep_rew_mean": 190.0,
            "val/roll/ep_rew_mean": 200.0,
        },
        threshold=-110.0,
    ),
    good=[
        lambda: cases.unsolved({"train/sentinel/reward_max": 0.0, "train/sentinel/reward_min": -1.0}, threshold=-110.0),
        # Evaluation pays costs: training alone differs.
        lambda: cases.unsolved(
            {"train/sentinel/reward_max": 3.0, "train/sentinel/reward_min": 2.5, "val/roll/ep_rew_mean": -150.0}, threshold=-110.0
        ),
    ],
)
def every_reward_is_above_a_threshold_of_costs(case: Case) -> Iterator[Finding]:
    """No reward is negative, but the threshold is: every episode passes it, the worst one best of all.

    ## Why it hurts
    Where steps should cost they pay: the longer an episode, the better, and the goal is what ends the pay.

    ## When it is fine
    Never; a threshold below 0 belongs to rewards below 0.
    """
    most, least, judged = case.signal(HIGH), case.signal(LOW), case.signal(EVAL_RETURN)
    if case.threshold is None or case.threshold >= 0 or not len(most) or not (least.bottom >= 0 and most.top > 0):
        return
    if len(judged) and judged.top < 0 and measures.mirrors_at_first(case) < 0.5:
        return  # evaluation has costs, as the threshold has it: only training differs, by a constant
    text = f"rewards lie between {say(least.bottom)} and {say(most.top)}, the threshold is {say(case.threshold)}"
    fix = advice("turn the reward's sign around, or name the threshold of this reward", "> 30 %")
    yield Finding(text=text, evidence=(evidence(LOW, text, *case.span, largest=most.top, smallest=least.bottom),), remedies=(fix,))


@rule(
    "REW516",
    severity=Severity.HIGH,
    needs=[RETURN, SUCCESS],
    cites=["jones2021debugging"],
    causes=["reward-sign"],
    bad=lambda: cases.unsolved({"train/roll/success_rate": cases.falls(0.2, 0.2, 0.0), "val/roll/success_rate": 0.0}),
    good=[
        lambda: cases.unsolved({"train/roll/success_rate": lambda share: 0.1 + 0.3 * share}),
        # Learned, and lost when something else changed.
        lambda: cases.unsolved({"train/roll/success_rate": lambda share: np.where(share < 0.55, 0.1 + share, 0.0)}),
        # Nothing was learned: success and return stay where they were.
        lambda: cases.unsolved({**cases.flat_returns(20.0), "train/roll/success_rate": 0.1}),
    ],
)
def success_falls_while_the_return_rises(case: Case) -> Iterator[Finding]:
    """The better the return, the rarer the success: the reward pays for the opposite of the task.

    ## Why it hurts
    The agent learns well, and the wrong thing. A sign is turned around, or something else pays more than success does.

    ## When it is fine
    Never, if info["is_success"] means what it says.
    """
    success, returns = case.signal(SUCCESS), case.signal(RETURN)
    if len(success) < 4 or len(returns) < detect.SHORTEST or not case.improved or not case.sick:
        return
    first, last = success.share(0.0, 0.1).median, success.share(0.6).median
    strength = min(grade(first, 0.02, 0.1), grade(-last / max(first, 1e-9), -0.6, -0.2))
    # Success that rose before it fell was paid for: what changed since is another thing than a sign.
    highest = float(detect.smoothed(success.values, max(3, len(success) // 12)).max())
    strength *= 1.0 - grade((highest - first) / max(1.0 - first, 1e-9), 0.1, 0.3)
    # Whatever is paid for every step outweighs success (REW514).
    strength *= 0.5 if _is_shifted(case) and measures.mirrors_at_first(case) < 0.5 else 1.0
    # An end that pays more than any other step is paid for with the right sign: every step pays too much (REW521). Where the log
    # does not say what the end pays, it may be either (REW522).
    either = 0.0 if case.has(sentinel("reward_end_gap")) else 0.5 * measures.gives_up_success(case)
    strength *= 1.0 - max(0.7 * _waiting_outweighs_the_end(case), either)
    if strength <= 0:
        return
    text = f"success fell from {percent(first)} to {percent(last)} while the return rose from {say(returns.first)} to {say(returns.last)}"
    fix = advice("compare the reward of an episode with success and of one without: does the sign of a term want turning around?", "> 30 %")
    proof = evidence(SUCCESS, text, *case.span, first=first, last=last)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


def _waiting_outweighs_the_end(case: Case) -> float:
    """How clearly success is given up although the step that ends an episode pays best; 0 where the log does not say what that pays."""
    gap = case.sentinel("reward_end_gap")
    return min(grade(gap.median, 0.5, 1.5), measures.gives_up_success(case)) if len(gap) else 0.0


@rule(
    "REW521",
    severity=Severity.HIGH,
    # Success is asked for below: an environment that reports none lacks nothing.
    needs=[RETURN, LENGTH, sentinel("reward_end_gap"), sentinel("return_length_corr"), sentinel("reward_mean")],
    cites=["ng1999shaping"],
    causes=["reward-shifted"],
    bad=lambda: cases.unsolved(_LASTS | {"train/sentinel/reward_end_gap": 8.0, "train/sentinel/return_length_corr": 0.99}, threshold=None),
    good=[
        # To end costs: a sign turned around.
        lambda: cases.unsolved(_LASTS | {"train/sentinel/reward_end_gap": -8.0, "train/sentinel/return_length_corr": 0.99}, threshold=None),
        # Success comes with lasting, as in a balancing task.
        lambda: cases.unsolved(
            _LASTS
            | {"train/sentinel/reward_end_gap": 8.0, "train/sentinel/return_length_corr": 0.99, SUCCESS: lambda share: 0.1 + 0.6 * share},
            threshold=None,
        ),
    ],
)
def every_step_pays_more_than_the_end_is_worth(case: Case) -> Iterator[Finding]:
    """Every step pays, reaching the goal ends that, and the agent has learned to wait: a constant in the reward outweighs the goal.

    ## Why it hurts
    A constant per step is worth as much as the episode is long. Reaching the goal pays once and costs all the steps that would have
    followed: the better the agent, the later it ends an episode.

    ## When it is fine
    Tasks whose aim is to go on.
    """
    strength = _waiting_outweighs_the_end(case)
    if strength <= 0:
        return
    success, length, paid = case.signal(SUCCESS), case.signal(LENGTH), case.sentinel("reward_mean").median
    text = (
        f"a step pays {say(paid)} on average and the last one more, yet success fell from {percent(success.share(0.0, 0.15).median)}"
        f" to {percent(success.share(0.6).median)} and episodes last {say(length.share(0.8).median)} steps"
    )
    fix = advice("take the constant out of the reward, or let the goal pay more than waiting for the time limit does", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(LENGTH, text, *case.span, paid=paid),), remedies=(fix,))


@rule(
    "REW522",
    severity=Severity.MEDIUM,
    needs=[RETURN, LENGTH],
    cites=["ng1999shaping"],
    causes=["reward-shifted", "reward-sign"],
    bad=lambda: cases.foreign(_LASTS, threshold=None),
    good=[
        lambda: cases.foreign(_LASTS | {SUCCESS: lambda share: 0.1 + 0.6 * share}, threshold=None),
        lambda: cases.foreign(_LASTS | {LENGTH: lambda share: 50 - 20 * share}, threshold=None),
    ],
)
def success_is_given_up_for_longer_episodes(case: Case) -> Iterator[Finding]:
    """The return rises with the episodes' length while success falls, and the log does not say what the last step pays.

    ## Why it hurts
    Every step pays: a constant in the reward outweighs the goal, or a cost per step has the wrong sign. The log cannot tell which.

    ## When it is fine
    Tasks whose aim is to go on.
    """
    strength = 0.6 * measures.gives_up_success(case)
    if strength <= 0 or case.has(sentinel("reward_end_gap")):
        return
    success, length = case.signal(SUCCESS), case.signal(LENGTH)
    text = (
        f"episodes grew from {say(length.share(0.0, 0.15).median)} to {say(length.share(0.8).median)} steps and the return with them,"
        f" while success fell from {percent(success.share(0.0, 0.15).median)} to {percent(success.share(0.6).median)}"
    )
    fix = advice("print the reward of a usual step and of one that reaches the goal: the first should cost, the second pay", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(SUCCESS, text, *case.span),), remedies=(fix,))


@rule(
    "REW518",
    severity=Severity.HIGH,
    needs=[HIGH, LOW, EVAL_RETURN, EVAL_LENGTH, sentinel("reward_common_share")],
    cites=["schulman2016nuts"],
    causes=["reward-clipped"],
    bad=lambda: cases.unsolved(
        {
            "train/sentinel/reward_max": 0.02,
            "train/sentinel/reward_min": -0.02,
            "train/sentinel/reward_common_share": 0.9,
            "val/roll/ep_rew_mean": 50.0,
            "val/roll/ep_len_mean": 50.0,
        }
    ),
    good=[
        lambda: cases.unsolved(
            {
                "train/sentinel/reward_max": 1.0,
                "train/sentinel/reward_min": 1.0,
                "train/sentinel/reward_common_share": 1.0,
                "val/roll/ep_rew_mean": 50.0,
                "val/roll/ep_len_mean": 50.0,
            }
        )
    ],
)
def evaluation_pays_more_than_training_can(case: Case) -> Iterator[Finding]:
    """Most rewards of training are one and the same number, and evaluation pays more per step than any of them.

    ## Why it hurts
    Rewards are cut on their way to the agent: large and small ones look alike, and what is learned is not what is judged.

    ## When it is fine
    Where rewards are clipped on purpose and the task can be learned from their signs.
    """
    largest = max(abs(case.signal(LOW).bottom), abs(case.signal(HIGH).top))
    judged, length = case.signal(EVAL_RETURN), case.signal(EVAL_LENGTH)
    common = case.sentinel("reward_common_share")
    if not largest > 0 or not len(common) or not len(judged) or not length.median > 0 or not case.sick:
        return
    paid = float(np.median(np.abs(judged.values))) / length.median
    cut = measures.rewards_cut(case)
    strength = min(grade(decades(paid / largest), 0.15 - 0.3 * cut, 0.6 - 0.5 * cut), max(grade(common.median, 0.2, 0.5), cut))
    if strength <= 0:
        return
    text = f"evaluation pays {say(paid)} a step, training at most {say(largest)}, and {percent(common.median)} of its rewards are the same"
    fix = advice("take the clipping out of the training reward, or scale rewards instead", "> 30 %")
    proof = evidence(HIGH, text, *case.span, largest=largest, evaluation=paid, same=common.median)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


@rule(
    "REW517",
    severity=Severity.MEDIUM,
    needs=[RETURN, (sentinel("action_effect_reward"), EVAL_RETURN), (sentinel("action_top_share"), sentinel("action_std_max"))],
    cites=["schulman2016nuts"],
    causes=["deceptive-reward"],
    bad=lambda: cases.unsolved(
        {"train/sentinel/action_effect_reward": 0.9, "train/sentinel/action_top_share": lambda share: np.minimum(0.5 + 2 * share, 1.0)}
    ),
    good=[
        lambda: cases.unsolved({"train/sentinel/action_effect_reward": 0.9, "train/sentinel/action_top_share": 0.6}),
        lambda: cases.unsolved(
            {"train/sentinel/action_effect_reward": 0.05, "train/sentinel/action_top_share": lambda share: np.minimum(0.5 + 2 * share, 1.0)}
        ),
        # The first steps say that the action alone decides little.
        lambda: cases.unsolved(
            {
                "train/sentinel/action_effect_reward": 0.9,
                "train/sentinel/action_top_share": lambda share: np.minimum(0.5 + 2 * share, 1.0),
                "train/sentinel/reward_by_action": 0.1,
            }
        ),
        # Noise shrinks because the policy found something: evaluation rises with training.
        lambda: cases.continuous({"train/sentinel/action_std_max": lambda share: 1 - 0.8 * share}),
    ],
)
def the_price_of_acting_decides(case: Case) -> Iterator[Finding]:
    """What an action costs explains its reward, and the agent settled for the one that costs least.

    ## Why it hurts
    The price of an action is paid at once, what it leads to later: a price that is too high hides the task behind it.

    ## When it is fine
    Tasks in which one action is right everywhere.
    """
    effect = case.sentinel("action_effect_reward").share(0.0, 0.4)
    top, deviation = case.sentinel("action_top_share"), case.sentinel("action_std_max")
    if not case.sick:
        return
    if len(top):
        strength = min(grade(effect.median, 0.15, 0.45), grade(top.share(0.8).median, 0.6, 0.97)) if len(effect) else 0.0
        text = (
            f"actions explain {percent(effect.median)} of what the observation leaves open of the reward, and one is preferred to the end"
        )
    else:
        # A price of the action's size is paid for noise as well: training gains as its noise shrinks, evaluation does not.
        first, price = deviation.share(0.0, 0.1).median, measures.known(measures.noise_price(case), 0.0)
        shrunk = grade(-deviation.share(0.8).median / max(first, 1e-9), -0.6, -0.3) if len(deviation) else 0.0
        strength = max(min(grade(price, 0.45, 0.75), shrunk), 0.7 * min(grade(effect.median, 0.15, 0.45), shrunk) if len(effect) else 0.0)
        text = f"{percent(min(price, 1.0))} of what training gained was less noise: acting costs more than it brings"
    # What the action alone explains of the first rewards is what acting costs: where that is known, it says more (REW519).
    if strength <= 0 or measures.at_first(case, "reward_by_action") >= 0:
        return
    fix = advice("lower the price of acting until the goal pays more than it costs to get there", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(RETURN, text, *case.span, strength=strength),), remedies=(fix,))


@rule(
    "REW519",
    severity=Severity.HIGH,
    needs=[sentinel("reward_by_action"), STD],
    cites=["schulman2016nuts"],
    causes=["deceptive-reward"],
    bad=lambda: cases.unsolved(
        {"train/sentinel/reward_by_action": 0.95, "train/sentinel/reward_std": 1.5, "train/sentinel/reward_mean": -2.0}
    ),
    good=[
        lambda: cases.unsolved(
            {"train/sentinel/reward_by_action": 0.1, "train/sentinel/reward_std": 1.5, "train/sentinel/reward_mean": -2.0}
        ),
        # The action is what is paid for.
        lambda: cases.unsolved(
            {"train/sentinel/reward_by_action": 0.95, "train/sentinel/reward_std": 1.5, "train/sentinel/reward_mean": 2.0}
        ),
        # Small prices are all that was paid before the first episode ended: what comes then outweighs them.
        lambda: cases.unsolved(
            {
                "train/sentinel/reward_by_action": 0.95,
                "train/sentinel/reward_std": lambda share: np.where(share < 0.1, 0.01, 1.5),
                "train/sentinel/reward_mean": -2.0,
            }
        ),
        # A task that is solved all the same.
        lambda: cases.solved(
            {"train/sentinel/reward_by_action": 0.95, "train/sentinel/reward_std": 1.5, "train/sentinel/reward_mean": -2.0}
        ),
    ],
)
def the_action_alone_decides_the_reward(case: Case) -> Iterator[Finding]:
    """What a step pays depends on the action alone, hardly on the state: acting has a price that outweighs the task.

    ## Why it hurts
    The price is paid at once, and what an action leads to comes later and is small beside it: the cheapest action is learned first,
    and the task never.

    ## When it is fine
    Bandits, and tasks in which the action is what is paid for, as in trading.
    """
    share, size, largest = measures.at_first(case, "reward_by_action"), measures.at_first(case, "reward_std"), case.signal(STD).top
    # The price must be as large as what rewards differ by later on.
    strength = min(grade(share, 0.45, 0.8), grade(size / max(largest, 1e-12), 0.25, 0.5)) if share == share and size == size else 0.0
    # What is paid for, as goods that are sold, explains a reward as well as what costs: a price makes the first steps lose.
    strength = min(strength, grade(-measures.first_reward(case) / max(size, 1e-12), 0.25, 0.5))
    # Cut to its sign, a reward may hang on the action where what was cut off did not.
    strength *= 1.0 - measures.rewards_cut(case)
    # What is paid for costs where the sign is turned around.
    strength *= 1.0 - _pays_the_opposite(case)
    if strength <= 0 or not case.sick:
        return
    text = f"the action alone explains {percent(share)} of the first rewards: what acting costs outweighs what it leads to"
    fix = advice("lower the price of acting until the goal pays more than it costs to get there", "> 30 %")
    proof = evidence(sentinel("reward_by_action"), text, *case.span, share=share)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


cause(
    "potential-of-another-discount",
    "the reward's potentials are discounted otherwise than the learner discounts",
    "fault of environment",
    advice="give the reward's potentials the learner's discount: Rewards(gamma=...)",
)


@rule(
    "REW523",
    severity=Severity.MEDIUM,
    needs=[RETURN],
    cites=["ng1999shaping"],
    causes=["potential-of-another-discount"],
    bad=lambda: cases.unsolved(settings={"about.potential_gamma": 0.9, "algo.gamma": 0.99}),
    good=[
        lambda: cases.unsolved(settings={"about.potential_gamma": 0.99, "algo.gamma": 0.99}),
        lambda: cases.unsolved(settings={"algo.gamma": 0.99}),
        lambda: cases.unsolved(settings={"about.potential_gamma": 0.9, "algo.gamma": {"start": 0.8, "end": 0.9}}),
    ],
)
def potentials_of_another_discount(case: Case) -> Iterator[Finding]:
    """The potentials of the reward (`rlclinic.rewards`) are discounted by another gamma than the learner's.

    ## Why it hurts
    A potential leaves the best policy as it is only with the learner's own discount. With a smaller one, every step where the potential
    is high costs; with a larger one, it pays to stay there.

    ## When it is fine
    Potentials that are small beside the task's own reward.
    """
    paid, learned = case.setting("about.potential_gamma"), case.setting("algo.gamma")
    if not case.sick or not isinstance(paid, float) or not isinstance(learned, int | float):
        return
    apart = abs(math.log10(max(1.0 - paid, 1e-6) / max(1.0 - float(learned), 1e-6)))
    strength = grade(apart, 0.0, 0.7)
    if strength <= 0:
        return
    text = f"the reward's potentials are discounted by {paid:g}, and the learner discounts by {learned:g}"
    fix = advice(f"Rewards(gamma={learned:g}, ...) in the environment, or the same gamma for both", "10-30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(RETURN, text, *case.span, apart=apart),), remedies=(fix,))
