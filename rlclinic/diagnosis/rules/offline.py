"""Learning from recorded data: values against what the data earned, weights of imitation, and what is learned by heart."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import EVAL_RETURN, OFFLINE, ONLINE, SWITCH_DIP, sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import BugLocation, advice, cause, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import detect, measures

OF_VALUES: Final = ("td3_bc", "iql", "awac", "cql", "cal_ql")
OF_WEIGHTS: Final = ("iql", "awac")
BIAS, EARNED = sentinel("q_bias"), sentinel("data_value")
HELD_OUT, LEARNED = sentinel("loss_held_out"), sentinel("loss_data")
BEFORE, LOWEST, REGAINED = sentinel("switch_return"), sentinel("switch_lowest"), sentinel("switch_regained_at")
ASKED, HIGHEST, ABOVE = sentinel("target_return"), sentinel("data_return_max"), sentinel("target_above_data")
DATA_RETURN, DISTANCE, GAIN = sentinel("data_return_mean"), sentinel("policy_distance"), sentinel("q_policy_gain")
AT_LONGEST: Final = sentinel("ends_at_longest")
NORMALIZER, NORMALIZER_EVAL = sentinel("fingerprint_normalizer"), sentinel("fingerprint_normalizer_eval")
REWARD, GAP, MULTIPLIER = sentinel("reward_mean"), "train/metrics/cql_gap", "train/hp/cql_multiplier"
ACTOR_LOSS: Final = "train/loss/actor"
"""Of vectors: choices have no actor."""
CAPPED, EFFECTIVE = "train/metrics/weight_capped", "train/metrics/weight_ess"


LEFT: Final = {
    EVAL_RETURN: -1000.0,
    DATA_RETURN: -400.0,
    GAIN: 5.0,
    sentinel("random_return"): -1200.0,
    sentinel("random_return_std"): 280.0,
}
"""A policy that earns less than its data."""


def falls_short(case: Case) -> bool:
    """Whether the policy misses its threshold; without one, whether it ends far below where it has been."""
    if case.threshold is not None:
        return case.solved_at is None or case.lost or case.sick
    judged = case.signal(EVAL_RETURN)
    return len(judged) >= 3 and judged.last < judged.first + 0.5 * (judged.top - judged.first)


def penalty_share(case: Case) -> float:
    """How far CQL's penalty lifts the value of a recorded action, as a share of what the data earned; 0 where nothing is known.

    Where the loss is lowest, that value lies above its target by cql_alpha times the share of the soft maximum that other actions have. Of
    choices that is 1 - exp(-gap); of vectors, where one recorded action is next to nothing of the integral, 1.
    """
    gap, multiplier = case.signal(GAP).share(0.5), case.signal(MULTIPLIER).share(0.5)
    earned, paid = case.signal(EARNED), case.signal(REWARD)
    cost = multiplier.median if len(multiplier) else case.number("cql_alpha")
    horizon = 1.0 / max(1.0 - (case.number("gamma") or 0.99), 1e-3)
    level = abs(earned.median) if len(earned) else abs(paid.median) * horizon if len(paid) else 0.0
    if not len(gap) or cost is None or level <= 0:
        return 0.0
    others = 1.0 if case.has(ACTOR_LOSS) else 1.0 - float(np.exp(-max(gap.median, 0.0)))
    return cost * others / level


cause(
    "offline-values-run-away",
    "actions that nobody tried are overvalued: values rise above what the data earned, or the policy goes where the data says nothing",
    "fault of settings",
    doses=["closer-to-the-data", "third-of-the-rate"],
    explains="OFF106",
    advice="check that terminal states, and only those, have no future in the target",
)


@rule(
    "OFF101",
    severity=Severity.HIGH,
    algos=OF_VALUES,
    needs=[BIAS, EARNED],
    cites=["kumar2020cql", "fujimoto2021td3bc"],
    causes=["offline-values-run-away"],
    bad=lambda: cases.recorded({BIAS: lambda share: 20.0 + 400.0 * share, EARNED: -80.0}),
    good=[
        lambda: cases.recorded(),
        lambda: cases.recorded({BIAS: 20.0, EARNED: -80.0}),
        # A reward of -1 a step: values fall from 0 to where they belong.
        lambda: cases.recorded({BIAS: lambda share: 100.0 - 20.0 * share, EARNED: -100.0}),
    ],
)
def values_far_above_what_the_data_earned(case: Case) -> Iterator[Finding]:
    """Values of recorded actions are far above the returns that really followed them.

    ## Why it hurts
    A target asks for the value of an action that the policy would take. Where nobody tried it, nothing corrects it: the critics' errors
    are sought out and passed on from state to state, and the policy goes where they are largest.

    ## When it is fine
    Data far worse than what can be learned from it: values of the better policy are really higher. Two or three times the data's own
    level is no such case.
    """
    whole, earned = case.learning(BIAS), case.signal(EARNED)
    bias = whole.share(0.4)
    if len(bias) < 2 or not len(earned):
        return
    level = max(abs(earned.median), 1e-6)
    # Of a task that costs, values begin above what the data earned, at 0, and fall: they have only not arrived yet.
    arriving = bias.share(0.5).median < 0.98 * whole.share(0.0, 0.2).median and bias.median < 2.0 * level
    strength = grade(bias.median / level, 0.8, 2.0)
    if strength <= 0 or arriving or penalty_share(case) > 0.3:
        return
    text = f"values lie {say(bias.median)} above the returns that came, which are about {say(earned.median)}"
    fix = advice("stay closer to the data: a smaller bc_alpha, a larger cql_alpha, a lower expectile", "> 30 %")
    proof = evidence(BIAS, text, *case.span, bias=bias.median, earned=earned.median)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


@rule(
    "OFF109",
    severity=Severity.HIGH,
    algos=["td3_bc", "cql", "cal_ql"],
    needs=[DISTANCE, DATA_RETURN, EVAL_RETURN],
    cites=["kumar2020cql", "fujimoto2021td3bc"],
    causes=["offline-values-run-away"],
    bad=lambda: cases.recorded({**LEFT, DISTANCE: 0.7}, algo="td3_bc"),
    good=[
        lambda: cases.recorded(algo="td3_bc"),
        # It does what the data did, and is no good either: that is not for having left it.
        lambda: cases.recorded({**LEFT, DISTANCE: 0.1}, algo="td3_bc"),
        # Data at random: a good policy does something else in most states.
        # Recorded actions are valued far higher: the policy has only not followed yet.
        lambda: cases.recorded({**LEFT, DISTANCE: 0.7, GAIN: -20.0, EARNED: -80.0}, algo="td3_bc"),
        lambda: cases.recorded({**LEFT, DISTANCE: 0.7, EVAL_RETURN: -150.0}, algo="td3_bc"),
        lambda: cases.recorded({**LEFT, DISTANCE: 0.7, DATA_RETURN: -1150.0}, algo="td3_bc"),
    ],
)
def the_policy_leaves_the_data(case: Case) -> Iterator[Finding]:
    """The policy does something else than was recorded in most states, and earns less than those who recorded.

    ## Why it hurts
    What nobody tried has a value only by guess, and a policy that seeks the largest value seeks the largest error. No return has to
    be known to see it: the data's policy earned more, and this one has left it.

    ## When it is fine
    Data of a random policy, which can be left in any direction; and while a policy is better than its data.
    """
    distance, gain, judged = case.signal(DISTANCE).share(0.5), case.signal(GAIN).share(0.5), case.signal(EVAL_RETURN).share(0.6)
    recorded, chance, acts = case.signal(DATA_RETURN), measures.random_return(case), case.signal(ONLINE)
    if not len(distance) or not len(judged) or not len(recorded) or chance is None or (len(acts) and acts.last > 0):
        return
    above_chance = recorded.last - chance[0]
    if above_chance < max(chance[1], 0.02 * abs(recorded.last)) or not falls_short(case):
        return
    # Where recorded actions are valued clearly higher than its own, it has not been led away by values: it lags behind them.
    earned = case.signal(EARNED)
    if len(gain) and gain.median < -0.05 * (abs(earned.median) if len(earned) else 0.0):
        return
    short = (recorded.last - judged.median) / above_chance
    strength = min(grade(distance.median, 0.25, 0.45), grade(short, 0.2, 0.6))
    if strength <= 0 or penalty_share(case) > 0.3:
        return
    apart = f"its actions are {say(distance.median)} from the recorded ones"
    text = f"it earns {say(judged.median)} where the data has {say(recorded.last)}, and {apart}"
    fix = advice("stay closer to the data: a smaller bc_alpha, a larger cql_alpha", "> 30 %")
    proof = evidence(DISTANCE, text, *case.span, distance=distance.median, short=short)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


cause(
    "too-conservative",
    "the penalty outweighs the rewards: values of recorded actions say little about what they earn",
    "fault of settings",
    doses=["smaller-penalty"],
    explains="OFF101 OFF106 OFF109",
)


@rule(
    "OFF102",
    severity=Severity.HIGH,
    algos=["cql", "cal_ql"],
    needs=[(BIAS, GAP)],
    cites=["kumar2020cql"],
    causes=["too-conservative"],
    bad=lambda: cases.recorded({BIAS: lambda share: -20.0 - 500.0 * share, EARNED: -80.0}, algo="cql"),
    good=[
        lambda: cases.recorded(algo="cql"),
        lambda: cases.recorded({BIAS: -40.0, EARNED: -80.0}, algo="cql"),
        lambda: cases.recorded({GAP: 0.7, MULTIPLIER: 5.0}, algo="cql"),
        lambda: cases.recorded({GAP: 0.7, MULTIPLIER: 200.0}, algo="cql", threshold=-2000.0),
    ],
)
def values_far_below_what_the_data_earned(case: Case) -> Iterator[Finding]:
    """CQL's values of recorded actions are far below the returns that really followed them, or its penalty is as large as those.

    ## Why it hurts
    The penalty is in units of value, the reward in its own: with small rewards the same cql_alpha decides everything. The order of
    actions drowns in it, and the first steps online would have to learn all values anew. Of choices the values need not sink: what was
    recorded is then preferred because it was recorded, and the policy copies its data.

    ## When it is fine
    A little below is what CQL promises: a lower bound.
    """
    bias, earned = case.learning(BIAS).share(0.4), case.signal(EARNED)
    sunk = grade(-bias.median / max(abs(earned.median), 1e-6), 1.5, 4.0) if len(bias) >= 2 and len(earned) else 0.0
    weighs = grade(penalty_share(case), 0.3, 0.8)
    strength = max(sunk, weighs)
    if strength <= 0 or not falls_short(case):
        return
    if sunk >= weighs:
        text = f"values lie {say(-bias.median)} below the returns that came, which are about {say(earned.median)}"
    else:
        text = f"the penalty moves the value of a recorded action by {percent(penalty_share(case))} of what the data earned"
    fix = advice("a smaller algo.cql_alpha, or algo.cql_lagrange=true with a threshold in units of return", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(BIAS if sunk >= weighs else GAP, text, *case.span),), remedies=(fix,))


cause(
    "imitation-weights-at-cap",
    "weights of imitation are at their cap: good and very good actions count alike",
    "fault of settings",
    doses=["flatter-weights"],
    explains="OFF106",
)


@rule(
    "OFF103",
    severity=Severity.HIGH,
    algos=OF_WEIGHTS,
    needs=[CAPPED],
    cites=["kostrikov2022iql"],
    causes=["imitation-weights-at-cap"],
    bad=lambda: cases.recorded({CAPPED: 0.45}),
    good=[lambda: cases.recorded(), lambda: cases.recorded({CAPPED: 0.03})],
)
def weights_of_imitation_at_their_cap(case: Case) -> Iterator[Finding]:
    """Many recorded actions weigh as much as an action may.

    ## Why it hurts
    The weight is exp(beta x advantage), cut at weight_cap. Where advantages are in the tens, all that are better than the state's value are
    imitated alike and all others not at all: the policy rests on the sign of a noisy estimate, and a few rows make up the gradient.

    ## When it is fine
    At the very start, before values have settled.
    """
    capped = case.learning(CAPPED).share(0.5)
    strength = grade(capped.median, 0.05, 0.2) if len(capped) >= 2 else 0.0
    if strength <= 0 or not falls_short(case):
        return
    text = f"{percent(capped.median)} of the recorded actions weigh as much as weight_cap allows"
    fix = advice("a smaller beta (IQL), a larger awac_lambda (AWAC), or env.normalize_reward=true", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(CAPPED, text, *case.span, share=capped.median),), remedies=(fix,))


cause(
    "advantages-do-not-count",
    "all recorded actions weigh the same: this is behaviour cloning",
    "fault of settings",
    doses=["steeper-weights"],
    explains="OFF106",
)


@rule(
    "OFF104",
    severity=Severity.HIGH,
    algos=OF_WEIGHTS,
    needs=[EFFECTIVE],
    cites=["kostrikov2022iql"],
    causes=["advantages-do-not-count"],
    bad=lambda: cases.recorded({EFFECTIVE: 0.995}),
    good=[
        lambda: cases.recorded(),
        lambda: cases.recorded({EFFECTIVE: 0.6}),
        lambda: cases.recorded({EFFECTIVE: 0.995}, threshold=-2000.0),
    ],
)
def advantages_do_not_count(case: Case) -> Iterator[Finding]:
    """Weights of imitation hardly differ, and the policy is no better than the data.

    ## Why it hurts
    Advantages of single actions are a small part of a return. With a beta that was tuned for returns of another size, exp(beta x
    advantage) is 1 for all of them, and good and bad actions are imitated alike.

    ## When it is fine
    Data of one expert: there is nothing better to prefer.
    """
    effective = case.learning(EFFECTIVE).share(0.5)
    strength = grade(effective.median, 0.9, 0.98) if len(effective) >= 2 else 0.0
    if strength <= 0 or not falls_short(case):
        return
    text = f"{percent(effective.median)} of each batch counts, as if all recorded actions were equally good"
    fix = advice("a beta ten times as large (IQL), a tenth of awac_lambda (AWAC)", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(EFFECTIVE, text, *case.span, share=effective.median),), remedies=(fix,))


cause(
    "recorded-actions-by-heart",
    "recorded actions are learned by heart: held-out episodes are fitted far worse",
    "fault of settings",
    doses=["shorter-training"],
    explains="OFF106",
    advice="collect more episodes; data with some noise teaches more than data of a perfect expert",
)


@rule(
    "OFF105",
    severity=Severity.MEDIUM,
    algos=["bc", "td3_bc", "dt"],
    needs=[HELD_OUT, LEARNED],
    cites=["ross2011dagger"],
    causes=["recorded-actions-by-heart"],
    bad=lambda: cases.recorded({HELD_OUT: lambda share: 0.02 + 0.2 * share, LEARNED: lambda share: 0.02 * (1.01 - share)}, algo="bc"),
    good=[
        lambda: cases.recorded({HELD_OUT: 0.06, LEARNED: 0.05}, algo="bc"),
        lambda: cases.recorded({HELD_OUT: lambda share: 0.1 - 0.05 * share, LEARNED: lambda share: 0.09 - 0.06 * share}, algo="bc"),
        # Held-out episodes of another kind: worse from the start, and no worse than that later.
        lambda: cases.recorded({HELD_OUT: 0.3, LEARNED: lambda share: 0.1 - 0.08 * share}, algo="bc"),
        # Noise in the actions: some cost is left on both, and the little that is learned by heart costs the others next to nothing.
        lambda: cases.recorded({HELD_OUT: lambda share: 1.01 + 0.02 * share, LEARNED: lambda share: 1.02 - 0.05 * share}, algo="bc"),
    ],
)
def recorded_actions_by_heart(case: Case) -> Iterator[Finding]:
    """The fit to held-out episodes gets worse while that to the others gets better.

    ## Why it hurts
    What was noise in few episodes is taken for the rule. In states that are a little new the policy does something that was done once,
    somewhere else.

    ## When it is fine
    Where held-out episodes are of another kind than the rest: then the data is mixed, and the gap is there from the start.
    """
    apart, own = case.signal(HELD_OUT), case.signal(LEARNED)
    if len(apart) < 4 or len(own) < 4 or own.last <= 0 or not falls_short(case):
        return
    smooth = detect.smoothed(apart.values, 3)
    least, late, fitted = float(smooth.min()), apart.share(0.8).median, own.share(0.8).median
    since = own.between(float(apart.steps[int(np.argmin(smooth))]), float("inf")).first
    # A cost that noise in the actions leaves is no sign of anything: what counts is that the one rises by what the other falls.
    paid = (late - least) / max(since - fitted, 0.02 * abs(fitted), 1e-9)
    gap, rise = late / max(fitted, 1e-9), late / max(least, 1e-9)
    strength = min(grade(paid, 0.2, 0.6), grade(gap, 1.3, 2.0), grade(rise, 1.08, 1.3))
    if strength <= 0:
        return
    text = f"held-out episodes cost {say(late)} and the others {say(fitted)}; the former were at {say(least)} before"
    fix = advice("stop where the held-out loss was lowest; more data; weight decay", "10-30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(HELD_OUT, text, *case.span, gap=gap, rise=rise),), remedies=(fix,))


cause(
    "chosen-by-the-environment",
    "the best checkpoint is far above the last one: whoever takes it has chosen by playing",
    "symptom",
    doses=["closer-to-the-data", "shorter-training"],
    advice="report the last checkpoint, or rank checkpoints by `data evaluate`, which does not play",
    behind=[
        ("offline-values-run-away", 0.35, "log", "values rise above what the data earned while returns fall"),
        ("too-conservative", 0.2, "log", "values sink below what the data earned"),
        ("recorded-actions-by-heart", 0.2, "log", "the held-out loss rises while the other falls"),
        ("imitation-weights-at-cap", 0.15, "log", "many weights are at weight_cap"),
        ("advantages-do-not-count", 0.1, "log", "weights hardly differ: what was recorded is copied, and returns go up and down with it"),
    ],
)


@rule(
    "OFF106",
    severity=Severity.LOW,
    algos=OFFLINE,
    needs=[EVAL_RETURN],
    cites=["agarwal2021rliable"],
    causes=["chosen-by-the-environment"],
    bad=lambda: cases.recorded({EVAL_RETURN: lambda share: -200.0 - 900.0 * (share > 0.5)}),
    good=[lambda: cases.recorded()],
)
def the_best_checkpoint_is_far_above_the_last(case: Case) -> Iterator[Finding]:
    """Evaluations were much better in the middle of the run than at its end.

    ## Why it hurts
    Which checkpoint is the best one is known only to who has played them all. Without an environment the last one is what there is, and
    figures of the best one promise more than can be had.

    ## When it is fine
    Where an environment may be played: then pick by it, and say so.
    """
    judged = case.signal(EVAL_RETURN)
    if len(judged) < 4:
        return
    low, best, last = float(judged.values.min()), judged.top, float(judged.values[-max(1, len(judged) // 5) :].mean())
    strength = grade((best - last) / max(best - low, 1e-9), 0.4, 0.8) * (best - low > 0.3 * max(abs(best), 1e-9))
    if strength <= 0:
        return
    text = f"the best evaluation is {say(best)}, the last ones {say(last)}"
    yield Finding(strength=strength, text=text, evidence=(evidence(EVAL_RETURN, text, *case.span, best=best, last=last),))


cause(
    "going-online-unlearns",
    "the first steps in the environment undo what the data had taught: the values were made for recorded actions only",
    "fault of settings",
    doses=["larger-recorded-share", "third-of-the-rate"],
    advice="cal_ql instead of cql keeps values at a level that the environment confirms; rlpd needs no values from before",
)


@rule(
    "OFF107",
    severity=Severity.HIGH,
    algos=[name for name in OFFLINE if name not in ("bc", "td3_bc", "dt")],
    needs=[SWITCH_DIP, ONLINE],
    cites=["nakamoto2023calql", "ball2023rlpd"],
    causes=["going-online-unlearns"],
    bad=lambda: cases.recorded(
        {
            ONLINE: lambda share: 1.0 * (share > 0.5),
            SWITCH_DIP: lambda share: 0.6 * (share > 0.5),
            BEFORE: -200.0,
            LOWEST: lambda share: -200.0 - 600.0 * (share > 0.5),
        },
        algo="cql",
    ),
    good=[
        lambda: cases.recorded(algo="cql"),
        lambda: cases.recorded({ONLINE: lambda share: 1.0 * (share > 0.5), SWITCH_DIP: lambda share: 0.05 * (share > 0.5)}, algo="cal_ql"),
        # Deep, and over after a tenth of the steps in the environment.
        lambda: cases.recorded(
            {ONLINE: lambda share: 1.0 * (share > 0.5), SWITCH_DIP: lambda share: 0.6 * (share > 0.5), REGAINED: 5_500.0}, algo="cal_ql"
        ),
    ],
)
def going_online_unlearns(case: Case) -> Iterator[Finding]:
    """Evaluations fall when a policy that was learned from recorded data begins to learn from what it does itself.

    ## Why it hurts
    Values that were never tested are wrong in level: far too low after a penalty, too high where nobody tried. The first rewards of its own
    put a few of them right, the policy runs to where those are, and what the data had taught is overwritten before it is learned again. Who
    went online to save steps in the environment pays for them twice.

    ## When it is fine
    A short dip. It is measured as a share of what had been learned above a random policy, until an evaluation is as good again.
    """
    dip, acts = case.signal(SWITCH_DIP), case.signal(ONLINE)
    online = acts.steps[acts.values > 0]
    if not len(dip) or not len(online):
        return
    regained, spent = case.signal(REGAINED), float(acts.steps[-1] - online[0])
    took = float(regained.last - online[0]) / max(spent, 1.0) if len(regained) else 1.0
    strength = min(grade(dip.last, 0.15, 0.4), grade(took, 0.1, 0.4))
    if strength <= 0:
        return
    before, lowest = case.signal(BEFORE), case.signal(LOWEST)
    levels = f" (from {say(before.last)} to {say(lowest.last)})" if len(before) and len(lowest) else ""
    end = f"; it took {say(regained.last - online[0])} env steps to be as good again" if len(regained) else "; it has not come back"
    text = f"going online cost {percent(dip.last)} of what was learned above a random policy{levels}{end}"
    fix = advice("more of the recorded data in each batch (data.recorded_share), smaller steps, or cal_ql instead of cql", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(SWITCH_DIP, text, *case.span, dip=dip.last),), remedies=(fix,))


cause(
    "asked-for-more-than-the-data",
    "the policy is asked for a return that no recorded episode has: what it does then is made up",
    "fault of settings",
    doses=["target-from-the-data"],
    advice="for more than the data holds, take an algorithm that puts parts of episodes together (iql, cql)",
)


@rule(
    "OFF108",
    severity=Severity.HIGH,
    algos=["dt"],
    needs=[ABOVE],
    cites=["chen2021dt"],
    causes=["asked-for-more-than-the-data"],
    bad=lambda: cases.recorded({ABOVE: 0.8, ASKED: 800.0, HIGHEST: -150.0}, algo="dt", settings={"algo.target_return": 800.0}),
    good=[
        lambda: cases.recorded({ABOVE: 0.0, ASKED: -150.0, HIGHEST: -150.0}, algo="dt"),
        lambda: cases.recorded({ABOVE: 0.03, ASKED: -110.0, HIGHEST: -150.0}, algo="dt"),
        lambda: cases.recorded({ABOVE: 0.8, ASKED: 800.0, HIGHEST: -150.0}, algo="dt", threshold=-2000.0),
    ],
)
def asked_for_more_than_the_data(case: Case) -> Iterator[Finding]:
    """A Decision Transformer is asked for a return far above every episode that it learned from.

    ## Why it hurts
    It has learned what was done in episodes of a known return. Beyond the highest of them it has seen nothing: the number is a stranger to
    the first layer, and the more is asked for the less it says about what to do. It does not put the good parts of two episodes together.

    ## When it is fine
    A little above the best episode, and a policy that reaches its threshold all the same.
    """
    above = case.signal(ABOVE)
    strength = grade(above.last, 0.1, 0.4) if len(above) else 0.0
    if strength <= 0 or not falls_short(case):
        return
    asked, highest = case.signal(ASKED), case.signal(HIGHEST)
    levels = f": {say(asked.last)}, where the best episode has {say(highest.last)}" if len(asked) and len(highest) else ""
    text = f"it is asked for a return that lies {percent(above.last)} of the data's range above all of it{levels}"
    fix = advice("algo.target_return=none asks for the highest return of the data", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(ABOVE, text, *case.span, above=above.last),), remedies=(fix,))


cause(
    "limits-recorded-as-ends",
    "time limits are recorded as ends: nothing is learned to come after the last steps of an episode",
    "fault of code",
    advice="record truncated (timeouts) where a limit cut an episode, and terminated only where the task itself ended",
    explains="OFF101 OFF102 OFF106",
    bug=BugLocation(
        fix="obs, reward, terminated, truncated, info = env.step(action), and both flags stored",
        check="assert not (terminated[ends] & (lengths == lengths.max())).all()  # ends at the limit are truncated ones",
        rlclinic=("rlclinic/training/data/recorded.py", "Recorded.gather", "gamma * ~terminated: only a terminal state has no future"),
        sb3=("your recorder", "env.step(action)", "a `done` that is stored for both kinds of end"),
        cleanrl=("your recorder", "env.step(action)", "a `done` that is stored for both kinds of end"),
        own="the line that stores what env.step returned: truncated is a column of its own",
    ),
)


@rule(
    "OFF110",
    severity=Severity.HIGH,
    algos=OF_VALUES,
    needs=[AT_LONGEST],
    cites=["pardo2018time"],
    causes=["limits-recorded-as-ends"],
    bad=lambda: cases.recorded({AT_LONGEST: 1.0}),
    good=[
        lambda: cases.recorded(),
        lambda: cases.recorded({AT_LONGEST: 0.2}),
        lambda: cases.recorded({AT_LONGEST: 1.0}, threshold=-2000.0),
    ],
)
def time_limits_recorded_as_ends(case: Case) -> Iterator[Finding]:
    """Nearly all recorded episodes that say terminated have exactly the longest length.

    ## Why it hurts
    A value's target has no future behind a terminal state. Where a time limit cut an episode that is false: the last states are learned
    to be worth one reward, those before them a little more, and how good a state is becomes a matter of when it was recorded.

    ## When it is fine
    A task that really ends after a fixed number of steps, and shows how many are left.
    """
    share = case.signal(AT_LONGEST)
    strength = grade(share.last, 0.5, 0.95) if len(share) else 0.0
    if strength <= 0 or not falls_short(case):
        return
    text = f"{percent(share.last)} of the recorded episodes that say terminated have exactly the longest length"
    fix = advice("mark them as truncated: `data check` finds them", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(AT_LONGEST, text, *case.span, share=share.last),), remedies=(fix,))


@rule(
    "OFF111",
    severity=Severity.HIGH,
    algos=OFFLINE,
    needs=[NORMALIZER, NORMALIZER_EVAL],
    cites=["fujimoto2021td3bc"],
    causes=["evaluation-without-normalizer"],
    bad=lambda: cases.recorded({NORMALIZER: 11.0, NORMALIZER_EVAL: 12.0}),
    good=[
        lambda: cases.recorded(),
        lambda: cases.recorded({NORMALIZER: 11.0, NORMALIZER_EVAL: 11.0}),
        lambda: cases.recorded({NORMALIZER: 11.0, NORMALIZER_EVAL: 12.0}, threshold=-2000.0),
    ],
)
def the_datas_normalizer_is_lost(case: Case) -> Iterator[Finding]:
    """Evaluations see observations through other statistics than the networks learned from.

    ## Why it hurts
    The mean and the spread of the recorded observations belong to the policy. One that is loaded without them, or with those of what it
    sees itself, is shown numbers that mean something else, and nothing else looks wrong: losses and values are as good as ever.

    ## When it is fine
    A policy that gets there all the same.
    """
    if measures.normalizers_agree(case) is not False or not falls_short(case):
        return
    text = "the statistics that observations are normalized by differ between learning and evaluation"
    fix = advice("save the data's mean and spread with the policy, and evaluate through them", "> 30 %")
    yield Finding(strength=1.0, text=text, evidence=(evidence(NORMALIZER_EVAL, text, *case.span),), remedies=(fix,))
