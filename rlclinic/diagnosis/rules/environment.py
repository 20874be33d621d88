"""The environment as the agent meets it: observations, actions, and whether it stays the same."""

from collections.abc import Iterator

import numpy as np

from rlclinic.actions import Change
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import EVAL_RETURN, LENGTH, RETURN, sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import (
    ON_POLICY,
    BugLocation,
    advice,
    cause,
    change,
    decades,
    evidence,
    grade,
    percent,
    quote_advice,
    rule,
    say,
)
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import detect, measures

_NOISE: dict[str, cases.Shape] = {
    "train/sentinel/obs_diff_autocorr": -0.5,
    "train/sentinel/obs_explained": 0.55,
    "train/sentinel/action_effect": 0.05,
    "train/sentinel/action_effect_shuffled": 0.04,
    "train/sentinel/reward_by_action": 0.01,
}
"""Observations that are drawn anew at each step."""
REPEAT, OBS_STD, OBS_MAX = sentinel("obs_repeat"), sentinel("obs_std_min"), sentinel("obs_abs_max")
TERMINATED, TRUNCATED = sentinel("terminated"), sentinel("truncated")
SETTLED = 0.1
HIGHEST_RATE = 0.02
"""Above every learning rate that suits Adam."""
ALWAYS_AT_BOUND = 0.9
"""Share of actions at a bound that no policy with noise of about the box's size has at its start."""
NARROW = 0.3
"""Half the width of a box below which a deviation of 1 is mostly cut off."""
PAID_FOR = 0.02
"""Share of a step's reward that its action explains, from which on it counts for something."""
SLIVER = 0.05
"""Of half a box's width: a deviation below it leaves nearly all of the box untried."""


cause(
    "observation-constant",
    "observations never change",
    "fault of environment",
    advice="look at reset() and step(): the observation that they return never changes",
    explains="VAL201 ENV602 ENV604 ENV607 GRD404 POL102 ENT301 ENT302 REW504 LRN103 GRD403 VAL203",
)


@rule(
    "ENV601",
    severity=Severity.HIGH,
    needs=[OBS_STD, (REPEAT, OBS_MAX)],
    cites=["schulman2016nuts"],
    causes=["observation-constant"],
    bad=lambda: cases.unsolved({"train/sentinel/obs_std_min": 0.0, "train/sentinel/obs_repeat": 1.0, "train/sentinel/obs_abs_max": 1.0}),
)
def observations_never_change(case: Case) -> Iterator[Finding]:
    """Every observation is the same, whatever happens.

    ## Why it hurts
    The agent is blind: it can only learn which action is best on average. A sensor, a wrapper or a buffer is not connected.

    ## When it is fine
    Bandits.
    """
    deviation, repeat = case.signal(OBS_STD), case.signal(REPEAT)
    if not _blind(case):
        return
    text = f"the observation is the same after {percent(max(measures.known(repeat.median, 1.0), 0.95))} of the steps, and in all episodes"
    if _vanishes(case):
        text = f"every observation is as good as zero: no component is larger than {say(case.signal(OBS_MAX).top)} to the network"
    fix = advice("print a few observations of the wrapped environment: which wrapper or reader returns a constant?", "> 30 %")
    proof = evidence(OBS_STD, text, *case.span, deviation=deviation.median)
    yield Finding(text=text, evidence=(proof,), remedies=(fix,))


def _blind(case: Case) -> bool:
    """Whether all observations are one and the same: nothing changes, within episodes or between them."""
    deviation, repeat, size = case.signal(OBS_STD), case.signal(REPEAT), case.signal(OBS_MAX)
    if _vanishes(case):
        return True
    still = deviation.median <= 1e-9 and repeat.median >= 0.95
    # Another component may change, seldom: then part of the state is hidden, not all of it.
    still = still and measures.known(measures.early(case, "obs_std_max"), 0.0) <= 1e-9
    return still and (not len(size) or size.top - size.bottom <= 1e-6 * max(size.top, 1e-9))


def _share_repeated(case: Case) -> float:
    """Share of the steps within episodes that leave the observation as it was: a reset always changes it."""
    repeat, lengths = case.learning(REPEAT), case.signal(LENGTH)
    inside = 1 - 1 / max(lengths.median, 2.0) if len(lengths) else 1.0
    return min(repeat.median / inside, 1.0)


def _vanishes(case: Case) -> bool:
    """Whether nothing but zeros is shown; after a normalizer, which makes everything of size 1 that is not lost in its own floor."""
    size = case.signal(OBS_MAX)
    return len(size) > 0 and size.top < (1e-3 if case.setting("env.normalize_obs") is True else 1e-6)


cause(
    "observation-not-updated",
    "observations are not carried over",
    "fault of environment",
    advice="look at step(): is the new observation returned, and is it a copy?",
    explains="VAL201 ENV607 ENT302 REW504 REW506 VAL203 EVA802",
    bug=BugLocation(
        fix="obs = next_obs at the end of each step, for every environment",
        check="assert (next_obs != obs).any() in each step",
        rlclinic=("rlclinic/training/loops/on_policy.py", "collect", "position is carried from step to step"),
        sb3=(
            "stable_baselines3/common/on_policy_algorithm.py",
            "OnPolicyAlgorithm.collect_rollouts",
            "self._last_obs = new_obs in a copied collect_rollouts",
        ),
        cleanrl=("ppo.py", "the rollout loop around envs.step", "next_obs is assigned from envs.step"),
        own="the line that carries the observation over, and an environment that returns one array object it keeps changing",
    ),
)


@rule(
    "ENV602",
    severity=Severity.HIGH,
    needs=[REPEAT, OBS_STD],
    cites=["sutton2018book"],
    causes=["observation-not-updated"],
    bad=lambda: cases.unsolved({"train/sentinel/obs_repeat": 0.99, "train/metrics/explained_variance": 0.3}),
    # What is shown tells all rewards to come: the state itself stands still.
    good=[lambda: cases.unsolved({"train/sentinel/obs_repeat": 0.99, "train/metrics/explained_variance": 0.995})],
)
def observation_not_carried_over(case: Case) -> Iterator[Finding]:
    """After most steps the observation is the one from before the step.

    ## Why it hurts
    The new observation is dropped on its way to the agent: it acts on an old picture of the world.

    ## When it is fine
    Turn-based tasks in which most actions change nothing (walls in a maze).
    """
    repeat = case.learning(REPEAT)
    # An agent that learns to stand still repeats observations later, not from the first.
    strength = min(grade(_share_repeated(case), 0.6, 0.95), grade(case.signal(REPEAT).first, 0.3, 0.6))
    if strength <= 0 or _blind(case) or _stands_still(case) or _shows_all(case) or not case.sick:
        return
    text = f"{percent(repeat.median)} of the steps leave the observation as it was"
    fix = advice("look at step(): is the new observation returned, and is it a copy?", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(REPEAT, text, *case.span, repeat=repeat.median),), remedies=(fix,))


def _stands_still(case: Case) -> bool:
    """Whether nothing happens at all: no observation changes, every step pays the same and every episode lasts as long."""
    deviation, lengths = case.sentinel("reward_std"), case.signal(LENGTH)
    if not len(deviation) or not len(lengths) or not len(case.signal(REPEAT)) or case.signal(REPEAT).median < 0.95:
        return False
    size = max(abs(case.sentinel("reward_max").median), abs(case.sentinel("reward_min").median), 1e-12)
    return deviation.top <= 1e-6 * size and detect.spread(lengths.values) <= 1e-6 * lengths.median


def _shows_all(case: Case) -> bool:
    """Whether an observation that hardly changes tells all that follows: then it is the state that stands still."""
    explained = measures.explained(case).share(0.3)
    return len(explained) > 2 and explained.median > 0.97


cause(
    "observation-scale",
    "observations not scaled",
    "fault of environment",
    doses=["scale-observations", "scale-observations+scale-rewards-if-far", "scale-observations+careful-rate"],
    advice="scale each component of the observation to about 1",
    explains="GRD405 VAL201 ENT302 NRM703 EVA802 VAL203 GRD404 LRN107 POL101",
)


@rule(
    "ENV603",
    severity=Severity.HIGH,
    needs=[OBS_MAX],
    cites=["schulman2016nuts", "andrychowicz2021matters"],
    causes=["observation-scale"],
    bad=lambda: cases.unsolved({"train/sentinel/obs_abs_max": 2000.0}),
)
def observations_not_scaled(case: Case) -> Iterator[Finding]:
    """The networks are shown numbers far outside the range that they can tell apart.

    ## Why it hurts
    Large inputs saturate the first layer: all states look alike, and its gradient vanishes.

    ## When it is fine
    A single large value now and then.
    """
    largest = case.learning(OBS_MAX)
    mean = case.learning(sentinel("obs_mean_abs_max"))
    strength = grade(decades(max(largest.median, 1e-9)), 1.5, 2.5)
    if strength <= 0 or not case.sick:
        return
    worst = case.sentinel("obs_abs_worst")
    where = f" in component {int(worst.median)}" if len(worst) else ""
    text = f"observations of up to {say(largest.median)}{where}; about 1 suits a network"
    numbers = {"median": largest.median, **({"mean": mean.median} if len(mean) else {})}
    fixes = (
        (change(case, "env.normalize_obs", True, "mean 0, deviation 1", "> 30 %"),) if case.setting("env.normalize_obs") is not True else ()
    )
    yield Finding(strength=strength, text=text, evidence=(evidence(OBS_MAX, text, *case.span, **numbers),), remedies=fixes)


cause(
    "observation-partial",
    "part of the state cannot be seen",
    "fault of environment",
    doses=["stack-frames"],
    advice="return the missing component of the state",
    explains="VAL201 EVA802 VAL203 NRM703",
)


@rule(
    "ENV604",
    severity=Severity.MEDIUM,
    needs=[OBS_STD],
    cites=["schulman2016nuts"],
    causes=["observation-partial"],
    bad=lambda: cases.unsolved({"train/sentinel/obs_std_min": 0.0}),
)
def an_observation_component_is_constant(case: Case) -> Iterator[Finding]:
    """A component of the observation never changes.

    ## Why it hurts
    Something that the agent should see is missing: a velocity, a sensor. Without it the best action may not be known at all.

    ## When it is fine
    Padding, one-hot states that are never visited, goals that are fixed.
    """
    deviation, repeat, worst = case.learning(OBS_STD), case.learning(REPEAT), case.sentinel("obs_std_worst")
    first = case.signal(OBS_STD)
    one_hot = len(case.signal(OBS_MAX)) > 0 and case.signal(OBS_MAX).bottom == 1.0 == case.signal(OBS_MAX).top
    # A state that is never visited is a flag that never changes; normalized, it is no longer seen to be one.
    one_hot = one_hot or bool(case.setting("about.obs_flags"))
    # What differs only between starts is constant where every episode starts alike.
    one_hot = one_hot or measures.starts_alike(case) > 0
    if deviation.median > 1e-7 or first.top > 1e-7 or one_hot or _blind(case) or not case.sick:
        return
    # Where nothing at all changes within an episode, the others may be old, and this one the same at every start.
    frozen = len(repeat) > 0 and _share_repeated(case) > 0.95
    # A return that rises without success is learned from what is seen: that is not what keeps the task from being done.
    success = case.signal("train/roll/success_rate").share(0.5)
    gamed = len(success) > 0 and success.median < 0.05 and case.improved
    # One of many that never changes, in a run that learned something from the others, is as likely padding.
    few = 0.0 < measures.known(measures.early(case, "obs_constant"), 1.0) <= 0.3 and case.improved
    where = f" {int(worst.median)}" if len(worst) else ""
    text = f"component{where} of the observation never changes"
    fix = change(
        case, "env.frame_stack", 4, "several observations together show what changes; better: return the missing component", "> 30 %"
    )
    proof = evidence(OBS_STD, text, *case.span, deviation=deviation.median)
    strength = 0.45 if frozen or gamed else 0.6 if few else 1.0
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


@rule(
    "ENV605",
    severity=Severity.MEDIUM,
    needs=[sentinel("obs_out_of_bounds")],
    cites=["sutton2018book"],
    bad=lambda: cases.unsolved({"train/sentinel/obs_out_of_bounds": 0.5}),
)
def observations_leave_their_bounds(case: Case) -> Iterator[Finding]:
    """Observations lie outside the space that the environment declares.

    ## Why it hurts
    Wrappers that rely on the bounds (rescaling, one-hot) compute nonsense; an environment that was not reset goes out of bounds too.

    ## When it is fine
    Bounds that were declared too narrow, if nothing uses them.
    """
    share = case.signal(sentinel("obs_out_of_bounds"))
    late = share.share(0.1).median
    if late <= 0:
        return
    text = f"{percent(late)} of the components leave the declared bounds"
    yield Finding(strength=grade(late, 0.0, 0.5), text=text, evidence=(evidence(share.name, text, *case.span, share=late),))


cause(
    "environment-not-finite",
    "the environment failed",
    "fault of environment",
    explains="CFG107 GRD408 BUD102",
)


@rule(
    "ENV608",
    severity=Severity.HIGH,
    cites=["schulman2016nuts"],
    certain=True,
    causes=["environment-not-finite"],
    bad=lambda: cases.failed("the environment gave an observation that is not finite at step 20005"),
    # Steps that long make any weights burst; data of another environment is not the environment's fault.
    good=[
        lambda: cases.failed("the data (40 episodes) has observations of shape (4,), and Pendulum-v1 gives (3,)."),
        lambda: cases.changed(
            cases.failed("ValueError: Expected parameter loc of distribution Normal to satisfy the constraint Real(), but found nan"),
            {"train/hp/learning_rate": 0.3},
            settings={"algo.learning_rate": 0.3},
        ),
    ],
)
def environment_failed(case: Case) -> Iterator[Finding]:
    """The environment raised an error, or returned something that is not a number.

    ## Why it hurts
    The run ended there.

    ## When it is fine
    Never.
    """
    reason = case.history.reason or ""
    known = ("environment", "observation", "reward", "env ", "nan", "not finite")
    if case.history.state != "failed" or not any(word in reason.lower() for word in known) or reason.startswith("the data ("):
        return
    # That a network's output is not a number has two reasons: what it was shown, or weights that steps far too long have driven away.
    by_network = any(word in reason.lower() for word in ("distribution", "parameter", "logits"))
    if by_network and (case.number("learning_rate") or 0.0) > HIGHEST_RATE:
        return
    first = reason.splitlines()[0].rstrip(".")
    yield Finding(
        text=first,
        evidence=(evidence("status", first, case.trained, case.trained),),
        onset=case.trained,
        remedies=(quote_advice(reason, "guard the environment's step() and reset(): the message names the field and the step"),),
    )


cause(
    "action-bounds",
    "action space not scaled",
    "fault of environment",
    doses=["rescale-actions", "start-with-noise"],
    explains="VAL201 ENT302",
)


@rule(
    "ENV609",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[sentinel("action_at_bound")],
    cites=["raffin2021sb3"],
    causes=["action-noise-too-wide", "action-bounds"],
    bad=lambda: cases.continuous({"train/sentinel/action_at_bound": 0.99}),
)
def actions_lie_on_their_bounds(case: Case) -> Iterator[Finding]:
    """Most continuous actions are cut off at a bound of the action space.

    ## Why it hurts
    The policy's noise is far wider than the box (or its mean far outside): different actions have the same effect, so nothing can be
    learned about them. Boxes much smaller than [-1, 1] are the usual reason.

    ## When it is fine
    Tasks whose best control is bang-bang.
    """
    share = case.learning(sentinel("action_at_bound"))
    first = case.sentinel("action_at_bound").share(0.0, 0.1).median
    strength = max(grade(first, 0.7, 0.9), grade(share.median, 0.75, 0.95))
    # Nearly every action cut off from the first one on is the box's doing, and not a policy's that has learned to use its ends.
    always = min(first, share.median) >= ALWAYS_AT_BOUND
    if strength <= 0 or not (case.unproven if always else case.sick):
        return
    text = f"{percent(share.median)} of the actions lie on a bound (at the start {percent(first)})"
    fix = advice(
        "rescale the action space to [-1, 1] (gymnasium.wrappers.RescaleAction), or start with less noise: "
        f"{Change('net.log_std_init', -1)}",
        "> 30 %",
    )
    yield Finding(
        strength=strength, text=text, evidence=(evidence(share.name, text, *case.span, median=share.median, first=first),), remedies=(fix,)
    )


@rule(
    "ENV626",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[sentinel("action_at_bound"), "config:about.action_low", "config:about.action_high"],
    cites=["raffin2021sb3"],
    causes=["action-bounds"],
    bad=lambda: cases.continuous(
        {"train/sentinel/action_at_bound": 0.97}, settings={"about.action_low": -0.03, "about.action_high": 0.03}, threshold=None
    ),
    good=[
        # A box of a usual size, whose ends the policy has learned to use.
        lambda: cases.continuous(
            {"train/sentinel/action_at_bound": 0.97}, settings={"about.action_low": -1.0, "about.action_high": 1.0}, threshold=None
        ),
        # A narrow one with noise to match.
        lambda: cases.continuous(
            {"train/sentinel/action_at_bound": 0.3}, settings={"about.action_low": -0.03, "about.action_high": 0.03}, threshold=None
        ),
    ],
)
def the_box_is_narrower_than_the_noise(case: Case) -> Iterator[Finding]:
    """The box of actions is a small part of the policy's noise, so that nearly every action is cut off, from the first on.

    ## Why it hurts
    A Gaussian policy starts with a deviation of about 1. In a box of ±0.03 all that is left of an action is its sign; if the simulator
    expects another unit, its actions have hardly any effect, too.

    ## When it is fine
    With a deviation that starts as narrow as the box (log_std_init).
    """
    share, low, high = case.sentinel("action_at_bound"), case.real("about.action_low"), case.real("about.action_high")
    if low is None or high is None or not high > low or not case.unproven:
        return
    first = share.share(0.0, 0.1).median
    strength = min(grade(-decades((high - low) / 2), -decades(NARROW), -decades(NARROW / 3)), grade(min(first, share.median), 0.7, 0.9))
    if strength <= 0:
        return
    text = f"{percent(share.median)} of the actions lie on a bound of a box of {say(low)} to {say(high)}"
    fix = advice("rescale the action space to [-1, 1] (gymnasium.wrappers.RescaleAction); is its unit what step() expects?", "> 30 %")
    proof = evidence(share.name, text, *case.span, median=share.median, width=high - low)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


@rule(
    "ENV610",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[sentinel("action_at_bound"), sentinel("action_std_max"), RETURN],
    cites=["raffin2021sb3"],
    causes=["action-bounds"],
    bad=lambda: cases.continuous({**cases.flat_returns(-1200.0), "train/sentinel/action_at_bound": 0.0}),
)
def actions_use_a_sliver_of_their_box(case: Case) -> Iterator[Finding]:
    """Continuous actions never come near their bounds, and nothing is learned.

    ## Why it hurts
    In a box of ±500 a policy with a deviation of 1 does nothing at all: every action has the same, negligible effect.

    ## When it is fine
    Tasks that need small actions only.
    """
    share, deviation = case.sentinel("action_at_bound"), case.sentinel("action_std_max")
    covered = case.progress.share if case.progress is not None else None
    low, high = case.real("about.action_low"), case.real("about.action_high")
    if share.top > 1e-4 or not case.sick:
        return
    # Where the box is known, how much of it is used says all; elsewhere, how far the return came.
    if low is not None and high is not None:
        if not deviation.median < SLIVER * (high - low) / 2:
            return
    elif case.improved and (covered is None or covered > 0.4):
        return
    text = f"no action ever reached a bound; their deviation is {say(deviation.median)}"
    text += f" in a box of {say(low)} to {say(high)}" if low is not None and high is not None else ""
    fix = advice("rescale the action space to [-1, 1]: gymnasium.wrappers.RescaleAction", "> 30 %")
    yield Finding(strength=0.8, text=text, evidence=(evidence(share.name, text, *case.span, largest=share.top),), remedies=(fix,))


cause(
    "environment-changed",
    "the environment changed under way",
    "fault of environment",
    advice="what changed at that step: a version, a curriculum, a limit of the simulator? Log the environment's version and parameters",
    explains="EVA802 VAL201 BUD103 ENT302 LRN107",
)


@rule(
    "ENV611",
    severity=Severity.HIGH,
    needs=[RETURN],
    cites=["schulman2016nuts"],
    causes=["environment-changed"],
    bad=lambda: cases.unsolved(
        {
            "train/roll/ep_rew_mean": lambda share: np.where(share < 0.5, 20 + 700 * share, 10.0),
            "train/metrics/explained_variance": cases.falls(0.5, 0.9, -2.0),
            "train/metrics/kl_divergence": 0.005,
        }
    ),
    good=[
        # A policy that goes where a bonus is finds the goal and leaves it again.
        lambda: cases.unsolved(
            {
                "train/roll/ep_rew_mean": lambda share: np.where(share < 0.5, 20 + 700 * share, 10.0),
                "train/metrics/explained_variance": cases.falls(0.5, 0.9, -2.0),
                "train/metrics/kl_divergence": 0.005,
                "train/bonus/share": 0.95,
            },
            settings={"bonus.kind": "rnd"},
        ),
    ],
)
def environment_changed_under_way(case: Case) -> Iterator[Finding]:
    """The return broke off at one moment while the policy's updates were small and steady.

    ## Why it hurts
    Not the agent changed but the task: another version, a changed reward, a curriculum step, drifting dynamics.

    ## When it is fine
    A curriculum, if the return recovers.
    """
    trained = detect.cliff(case.signal(RETURN))
    fell = trained or detect.cliff(case.signal(EVAL_RETURN))
    if fell is None or not case.sick:
        return
    span = case.span[1] - case.span[0]
    if fell.top_at < case.span[0] + SETTLED * span:
        return  # the first means are of a few episodes: nothing had been reached that could break off
    kl, scale = measures.kl(case), measures.step_scale(case)
    before = kl.between(fell.top_at - 0.15 * span, fell.top_at)
    broke = _critic_broke(case, fell.top_at)
    if not len(before) and not broke:
        return  # returns alone do not tell a task that changed from a policy that lost what it had
    # A policy that ruins itself takes a giant step first.
    calm = grade(-before.top / scale, -6.0, -2.0) if len(before) else 0.5
    strength = min(grade(fell.lost, 0.5, 0.8), calm) * (1.0 if broke else 0.6)
    # A task that changed has changed for training as well: where its returns hold, a policy had a bad evaluation.
    strength *= 1.0 if trained is not None else 0.8
    # No policy loses exactly what it had won: a reward whose sign was turned around does.
    strength = max(strength, _turned_around(case, fell.top_at))
    strength *= 1.0 - measures.follows_bonus(case)
    if strength <= 0:
        return
    text = f"the return fell from {say(fell.before)} to {say(fell.after)} at {say(fell.foot_at)} env steps, after small and steady updates"
    numbers = {"before": fell.before, "after": fell.after, "largest_step_before": before.top / scale if len(before) else 0.0}
    fix = advice(
        "what changed at that step: a version, a curriculum, a limit of the simulator? Log the env's version and parameters", "> 30 %"
    )
    proof = evidence(RETURN, text, fell.top_at, fell.foot_at, **numbers)
    yield Finding(strength=strength, text=text, evidence=(proof,), onset=fell.top_at, remedies=(fix,))


def _turned_around(case: Case, at: float) -> float:
    """How clearly evaluations jump, from one to the next, to the same number on the other side of 0, when training breaks off."""
    judged, span = case.signal(EVAL_RETURN), case.span[1] - case.span[0]
    strongest = 0.0
    for place in range(1, len(judged)):
        before, after = float(judged.values[place - 1]), float(judged.values[place])
        near = abs(float(judged.steps[place]) - at) <= 0.2 * span
        if near and before > 0 > after and before > 4 * detect.noise(judged.values[:place]):
            strongest = max(strongest, grade(-abs(before + after) / before, -0.3, -0.1))
    return strongest


def _critic_broke(case: Case, at: float) -> bool:
    """Whether the critic, good until then, was suddenly wrong: the world changed, not only the policy."""
    explained = case.signal("train/metrics/explained_variance")
    span = case.span[1] - case.span[0]
    before, after = explained.between(0.5 * at, at - 0.03 * span), explained.between(at - 0.03 * span, at + 0.15 * span)
    return len(before) >= 2 and len(after) >= 1 and float(after.values.min()) < before.median - 0.3


cause(
    "actions-without-effect",
    "actions have no effect",
    "fault of environment",
    advice="follow one action from the policy to the simulator; does a scripted policy do better than a random one?",
    explains="VAL201 EVA801 ENV602 ENV604",
)


@rule(
    "ENV616",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[RETURN, sentinel("adv_logp_corr"), "train/metrics/explained_variance"],
    cites=["jones2021debugging"],
    causes=["actions-without-effect"],
    bad=lambda: cases.unsolved(
        {
            **cases.flat_returns(22.0),
            "train/roll/ep_rew_mean": lambda share: 22 + 0.5 * np.sin(300 * share),
            "train/metrics/explained_variance": 0.8,
            "train/sentinel/return_std": 5.0,
            "train/metrics/kl_divergence": 0.005,
            "train/sentinel/entropy_relative": lambda share: 1 - 0.6 * share,
            "train/roll/ep_rew_std": 5.0,
        }
    ),
    good=[
        # The action is seen, in the next observation or eight steps later.
        lambda: cases.unsolved(
            {
                **cases.flat_returns(22.0),
                "train/roll/ep_rew_mean": lambda share: 22 + 0.5 * np.sin(300 * share),
                "train/metrics/explained_variance": 0.8,
                "train/sentinel/return_std": 5.0,
                "train/metrics/kl_divergence": 0.005,
                "train/sentinel/entropy_relative": lambda share: 1 - 0.6 * share,
                "train/roll/ep_rew_std": 5.0,
                "train/sentinel/action_effect": 0.85,
                "train/sentinel/action_effect_shuffled": 0.03,
                "train/sentinel/reward_by_action": 0.1,
            }
        ),
        lambda: cases.unsolved(
            {
                **cases.flat_returns(22.0),
                "train/roll/ep_rew_mean": lambda share: 22 + 0.5 * np.sin(300 * share),
                "train/metrics/explained_variance": 0.8,
                "train/sentinel/return_std": 5.0,
                "train/metrics/kl_divergence": 0.005,
                "train/sentinel/entropy_relative": lambda share: 1 - 0.6 * share,
                "train/roll/ep_rew_std": 5.0,
                "train/sentinel/action_effect": 0.05,
                "train/sentinel/action_effect_shuffled": 0.03,
                "train/sentinel/action_effect_past": 0.9,
                "train/sentinel/action_lag": 8.0,
            }
        ),
        # A policy that goes where a bonus is, while nobody has met the goal: the task's return has nothing to follow.
        lambda: cases.unsolved(
            {
                **cases.flat_returns(22.0),
                "train/roll/ep_rew_mean": lambda share: 22 + 0.5 * np.sin(300 * share),
                "train/metrics/explained_variance": 0.8,
                "train/sentinel/return_std": 5.0,
                "train/metrics/kl_divergence": 0.005,
                "train/sentinel/entropy_relative": lambda share: 1 - 0.6 * share,
                "train/roll/ep_rew_std": 5.0,
                "train/bonus/share": 0.95,
            },
            settings={"bonus.kind": "noveld"},
        ),
    ],
)
def policy_changes_without_effect(case: Case) -> Iterator[Finding]:
    """The policy moves by full steps and the critic learns, but the return stays that of a random policy.

    ## Why it hurts
    What the policy chooses does not reach the environment: an action mapping, a wrapper or a wire in between. Or nothing that it can
    choose matters.

    ## When it is fine
    Before a sparse reward has been met.
    """
    if not case.sick or case.progress is None or case.standing == "failed" or measures.gained_nothing(case):
        return
    size, explained, correlation = measures.step_size(case), measures.explained(case).share(0.4), case.learning(sentinel("adv_logp_corr"))
    returns = case.signal(RETURN)
    level, chance = returns.share(0.5).median, measures.random_return(case)
    start, scale = (case.progress.start, max(0.35 * abs(case.progress.start), detect.noise(returns.values))) if chance is None else chance
    # A policy whose choices count is somewhere else after so many steps, better or worse.
    width = max(scale, 0.02 * abs(start), 1e-9)
    drift = abs(level - start) / width
    moved = measures.relative_entropy(case)
    settled = grade(-moved.share(0.7).median, -0.97, -0.8) if len(moved) else 0.7
    parts = (grade(size, 0.02, 0.08), grade(-size, -4.0, -2.0), grade(explained.median, 0.1, 0.4), grade(correlation.median, 0.0, 0.03))
    # A return that once was far above chance shows that actions counted then.
    once = 1.0 if chance is None else grade(-(returns.top - start) / width, -8.0, -4.0)
    strength = min(*parts, grade(-drift, -0.6, -0.3), max(settled, 0.3), once, 0.0 if case.improved and chance is None else 1.0)
    strength *= (1.0 - measures.follows_bonus(case)) * (1.0 - measures.rise_above_chance(case))
    # An action that is seen in later observations arrived; and where every step pays the same, no return can tell whether it did.
    late, same = case.sentinel("action_lag").share(0.0, 0.5), case.sentinel("reward_std")
    sure = (len(late) and late.median > 0) or (len(same) and same.top <= 1e-6 * abs(case.sentinel("reward_max").top))
    # One that is seen at once, and in what the step pays, arrived as well; seen alone, it may be scaled down to next to nothing.
    sure = sure or measures.known(measures.while_varied(case, "reward_by_action"), 0.0) > PAID_FOR
    strength *= 1.0 - (1.0 if sure else 0.3) * grade(measures.known(_effect(case), 0.0), 0.3, 0.6)
    if strength <= 0:
        return
    stays = say(returns.share(0.5).median)
    text = f"KL {say(size)} of a usual step, explained variance {say(explained.median)}, and the return stays at {stays}"
    fix = advice("follow one action from the policy to the simulator; does a scripted policy do better than a random one?", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(RETURN, text, *case.span, drift=drift),), remedies=(fix,))


# ── what transitions say: see stats/variance_shares.py ──


def _shows_flags(case: Case) -> bool:
    """Whether observations are places or flags, of which a regression says little."""
    largest = case.signal(OBS_MAX)
    return bool(case.setting("about.obs_flags")) or (len(largest) > 0 and largest.bottom == 1.0 == largest.top)


@rule(
    "ENV619",
    severity=Severity.HIGH,
    needs=[sentinel("action_effect"), sentinel("action_effect_shuffled")],
    cites=["jones2021debugging"],
    causes=["actions-without-effect"],
    bad=lambda: cases.unsolved(
        {"train/sentinel/action_effect": 0.02, "train/sentinel/action_effect_shuffled": 0.02, "train/sentinel/obs_memory": 0.01}
    ),
    good=[
        lambda: cases.unsolved({"train/sentinel/action_effect": 0.4, "train/sentinel/action_effect_shuffled": 0.02}),
        # The effect comes later: observations are late, actions are not lost.
        lambda: cases.unsolved(
            {
                "train/sentinel/action_effect": 0.02,
                "train/sentinel/action_effect_shuffled": 0.02,
                "train/sentinel/action_effect_past": 0.8,
                "train/sentinel/action_lag": 4.0,
            }
        ),
        # Nobody can tell: the policy took one action only.
        lambda: cases.unsolved(
            {"train/sentinel/action_effect": 0.0, "train/sentinel/action_effect_shuffled": 0.02, "train/sentinel/action_top_share": 1.0}
        ),
        # Seldom does an action change anything, but the return has risen far above that of random ones.
        lambda: cases.unsolved(
            {
                "train/sentinel/action_effect": 0.02,
                "train/sentinel/action_effect_shuffled": 0.02,
                "train/sentinel/obs_memory": 0.01,
                "train/sentinel/random_return": 22.0,
                "train/sentinel/random_return_std": 10.0,
                "train/roll/ep_rew_mean": lambda share: 22.0 + 500.0 * share,
            }
        ),
        # What the action changes is a velocity that is not shown.
        lambda: cases.unsolved(
            {"train/sentinel/action_effect": 0.02, "train/sentinel/action_effect_shuffled": 0.02, "train/sentinel/obs_memory": 0.9}
        ),
    ],
)
def next_observation_does_not_depend_on_the_action(case: Case) -> Iterator[Finding]:
    """What comes next depends on the action no more than on an action of some other step.

    ## Why it hurts
    What the policy chooses does not reach the environment, or is drowned on its way: nothing can be learned about it.

    ## When it is fine
    Tasks in which the action changes the reward alone, as in a bandit or in trading without an own position.
    """
    effect, chance, paid, by_chance = (
        measures.while_varied(case, name)
        for name in ("action_effect", "action_effect_shuffled", "action_effect_reward", "action_effect_reward_shuffled")
    )
    seen = _effect(case)
    alone = measures.while_varied(case, "reward_by_action")
    if alone > 0.1 if alone == alone else paid - by_chance > 0.05:
        return  # the reward depends on it
    strength = min(
        grade(-seen, -0.03, -0.01), grade(-measures.known(measures.early(case, "obs_memory"), 0.0), -0.6, -0.3), _not_noise(case)
    )
    # Nothing else makes a return rise above that of random actions.
    strength *= 1.0 - measures.rise_above_chance(case)
    if strength <= 0 or not case.sick or _shows_flags(case) or _blind(case):
        return
    text = f"the action explains {percent(effect)} of the next change in the observation; an action of another step {percent(chance)}"
    fix = advice("follow one action from the policy to the simulator: print it in step(), and what it changes", "> 30 %")
    proof = evidence(sentinel("action_effect"), text, *case.span, effect=effect, shuffled=chance)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


def _effect(case: Case) -> float:
    """By how much more an action explains the next change of the observation, or a later one, than that of another step; NaN if unknown."""
    effect, past, chance = (measures.while_varied(case, name) for name in ("action_effect", "action_effect_past", "action_effect_shuffled"))
    return max(effect, past if past == past and case.sentinel("action_lag").share(0.0, 0.5).median > 0 else 0.0) - chance


def _not_noise(case: Case) -> float:
    """1 where changes of the observation do not turn back as noise does, 0 where they do."""
    turns = measures.early(case, "obs_diff_autocorr")
    return grade(measures.known(turns, 0.0), -0.42, -0.3)


@rule(
    "ENV624",
    severity=Severity.HIGH,
    needs=[REPEAT, sentinel("reward_std"), LENGTH],
    cites=["jones2021debugging"],
    causes=["actions-without-effect"],
    bad=lambda: cases.unsolved(
        {
            **cases.flat_returns(-65.0),
            "train/roll/ep_len_mean": 65.0,
            "train/sentinel/obs_repeat": 1.0,
            "train/sentinel/reward_std": 0.0,
            "train/sentinel/reward_max": -1.0,
            "train/sentinel/reward_min": -1.0,
        }
    ),
    # Rewards differ, and nothing that is shown tells them: something moves.
    good=[
        lambda: cases.unsolved(
            {"train/sentinel/obs_repeat": 1.0, "train/sentinel/reward_std": 1.5, "train/metrics/explained_variance": 0.3}
        )
    ],
)
def nothing_moves(case: Case) -> Iterator[Finding]:
    """No observation changes within an episode, every step pays the same and every episode lasts as long: the world stands still.

    ## Why it hurts
    Whatever the agent does, nothing happens: the action does not arrive in the simulator, or the simulator is not stepped.

    ## When it is fine
    Never.
    """
    still = _stands_still(case)
    told = _share_repeated(case) > 0.9 and case.signal(REPEAT).first > 0.6 and _shows_all(case)
    if not (still or told) or _blind(case) or not case.sick:
        return
    text = "no observation changes, every step pays the same, every episode lasts as long: the world stands still"
    if not still:
        text = f"{percent(case.signal(REPEAT).median)} of the steps change no observation, which tells all rewards to come: nothing moves"
    fix = advice("follow one action into step(): is it applied, and is the simulator stepped with it?", "> 30 %")
    yield Finding(text=text, evidence=(evidence(REPEAT, text, *case.span, repeat=case.signal(REPEAT).median),), remedies=(fix,))


cause(
    "observation-late",
    "observations or actions come late",
    "fault of environment",
    doses=["stack-frames-over-the-lag"],
    advice="return the observation of this step in step(), not that of an earlier one; or apply the action at once",
    explains="VAL201 EVA802 VAL203 ENV616 ENV619 LRN107 NRM703 ENT302",
)


@rule(
    "ENV620",
    severity=Severity.HIGH,
    needs=[sentinel("action_lag"), sentinel("action_effect_past"), sentinel("action_effect")],
    cites=["schulman2016nuts"],
    causes=["observation-late"],
    bad=lambda: cases.unsolved(
        {
            "train/sentinel/action_effect": 0.03,
            "train/sentinel/action_effect_shuffled": 0.02,
            "train/sentinel/action_effect_past": 0.7,
            "train/sentinel/action_lag": 4.0,
        }
    ),
    good=[
        lambda: cases.unsolved(
            {"train/sentinel/action_effect": 0.8, "train/sentinel/action_effect_past": 0.1, "train/sentinel/action_lag": 0.0}
        )
    ],
)
def observations_answer_to_an_earlier_action(case: Case) -> Iterator[Finding]:
    """The observation changes with an action of some steps before, and hardly with the one just taken.

    ## Why it hurts
    The agent sees an old state, or its action is applied later: what it learns about an action belongs to another one, and fast
    corrections overshoot.

    ## When it is fine
    Tasks with a delay of their own, such as goods that arrive the next day, where memory or the orders under way are shown.
    """
    lag, past, now = case.sentinel("action_lag"), measures.early(case, "action_effect_past"), measures.early(case, "action_effect")
    late = lag.values[lag.values > 0]
    often = len(late) / max(len(lag), 1)
    strength = min(grade(often, 0.4, 0.7), grade(past - now, 0.05, 0.2))
    # A delay is one whether something was learned in spite of it or not.
    if strength <= 0 or not case.unproven or _shows_flags(case):
        return
    steps = float(np.median(late))
    text = f"an action explains {percent(past)} of a change {say(steps)} steps later, and {percent(now)} of the next one"
    fixes = (
        change(case, "env.frame_stack", int(steps) + 1, "the agent sees how far it has moved since; better: take the delay out", "10-30 %"),
        advice("return the newest observation in step(); apply the action in the step that it is given for", "> 30 %"),
    )
    proof = evidence(sentinel("action_lag"), text, *case.span, lag=steps, past=past, now=now)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=fixes)


@rule(
    "ENV621",
    severity=Severity.HIGH,
    needs=[sentinel("obs_std_max")],
    cites=["schulman2016nuts", "andrychowicz2021matters"],
    causes=["observation-scale"],
    bad=lambda: cases.unsolved({"train/sentinel/obs_std_max": 0.001, "train/sentinel/obs_abs_max": 0.003}),
    good=[
        lambda: cases.unsolved({"train/sentinel/obs_std_max": 0.4, "train/sentinel/obs_offset_max": 2.0}),
        # One component hardly changes, the others do.
        lambda: cases.unsolved(
            {"train/sentinel/obs_std_max": 1.0, "train/sentinel/obs_offset_max": 300.0, "train/sentinel/obs_mean_abs_max": 1.0}
        ),
        # Nothing is shown at all: that is another fault.
        lambda: cases.unsolved({"train/sentinel/obs_std_max": 0.0, "train/sentinel/obs_abs_max": 0.0}),
    ],
)
def observations_too_small(case: Case) -> Iterator[Finding]:
    """Observations hardly vary in units that a network tells apart: too small, or a small signal on a large constant.

    ## Why it hurts
    A network starts with weights of about 1: differences of a thousandth are lost in its biases, and every state looks alike.

    ## When it is fine
    With observations that are normalized (env.normalize_obs).
    """
    largest, offset = measures.early(case, "obs_std_max"), measures.early(case, "obs_offset_max")
    small = grade(-decades(largest), 1.3, 2.2) if largest > 1e-7 else 0.0
    # One component that hardly changes hides nothing of the others: the largest deviation must be lost beside the largest mean.
    beside = measures.known(measures.early(case, "obs_mean_abs_max") / max(largest, 1e-9), offset)
    hidden = grade(decades(measures.known(min(offset, beside), 1.0)), 1.3, 2.2)
    strength = max(small, hidden)
    if strength <= 0 or not case.sick or _blind(case) or case.setting("env.normalize_obs") is True:
        return
    text = f"no component of the observation has a deviation above {say(largest)}; about 1 suits a network"
    if hidden > small:
        text = f"a component's mean is {say(offset)} times its deviation: what changes is lost beside what does not"
    fix = change(case, "env.normalize_obs", True, "mean 0, deviation 1", "> 30 %")
    yield Finding(
        strength=strength, text=text, evidence=(evidence(sentinel("obs_std_max"), text, *case.span, deviation=largest),), remedies=(fix,)
    )


@rule(
    "ENV622",
    severity=Severity.HIGH,
    needs=[sentinel("obs_memory"), sentinel("obs_explained")],
    cites=["schulman2016nuts"],
    causes=["observation-partial"],
    bad=lambda: cases.unsolved(
        {"train/sentinel/obs_memory": 0.9, "train/sentinel/obs_explained": 0.05, "train/sentinel/obs_diff_autocorr": 0.9}
    ),
    good=[
        lambda: cases.unsolved({"train/sentinel/obs_memory": 0.02, "train/sentinel/obs_explained": 0.95}),
        # Noise: the observation before helps to average it.
        lambda: cases.unsolved(
            {"train/sentinel/obs_memory": 0.4, "train/sentinel/obs_explained": 0.5, "train/sentinel/obs_diff_autocorr": -0.45}
        ),
    ],
)
def the_past_tells_what_the_observation_does_not(case: Case) -> Iterator[Finding]:
    """The next observation follows from the last two, but not from the last one: a velocity, or another part of the state, is hidden.

    ## Why it hurts
    The best action depends on what is not shown; two states that look alike need different actions.

    ## When it is fine
    With frames that are stacked, or with a memory.
    """
    memory, explained, turns = (
        measures.early(case, "obs_memory"),
        measures.early(case, "obs_explained"),
        measures.known(measures.early(case, "obs_diff_autocorr"), 0.0),
    )
    strength = min(grade(memory, 0.3, 0.6), grade(turns, 0.0, 0.3))
    if strength <= 0 or not case.sick or _shows_flags(case) or (case.real("env.frame_stack") or 1) > 1:
        return
    text = f"observation and action explain {percent(explained)} of the next change; the observation before adds {percent(memory)}"
    fix = change(case, "env.frame_stack", 4, "several observations together show what changes; better: return the missing part", "> 30 %")
    proof = evidence(sentinel("obs_memory"), text, *case.span, memory=memory, explained=explained)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


cause(
    "observation-noise",
    "observations are mostly noise",
    "fault of environment",
    advice="look for what blurs or mixes the observation on its way: print two observations of the same state",
    explains="VAL201 EVA802 VAL203 ENV619 LRN107 ENT301 ENT302",
)


@rule(
    "ENV627",
    severity=Severity.HIGH,
    needs=[sentinel("obs_diff_autocorr"), sentinel("obs_explained"), sentinel("action_effect"), sentinel("action_effect_shuffled")],
    cites=["jones2021debugging"],
    causes=["observation-noise"],
    bad=lambda: cases.unsolved(_NOISE),
    good=[
        # The action shows, as it does where noise is only added to what is seen.
        lambda: cases.unsolved(_NOISE | {"train/sentinel/action_effect": 0.6}),
        # A state that is drawn anew at each step, as in a bandit with a context: what is done to it is paid for.
        lambda: cases.unsolved(_NOISE | {"train/sentinel/reward_by_action": 0.3}),
        lambda: cases.unsolved(_NOISE | {"train/sentinel/obs_diff_autocorr": 0.1}),
    ],
)
def observations_turn_back_at_every_step(case: Case) -> Iterator[Finding]:
    """Every change of the observation is taken back at the next step, as of numbers that are drawn anew, and no action shows in it.

    ## Why it hurts
    What is seen says next to nothing about the state: noise far larger than the signal, or components that change places. The best
    action cannot be known from it.

    ## When it is fine
    Tasks whose state is drawn anew at each step, if what is done is paid for at once.
    """
    turns, explained = measures.early(case, "obs_diff_autocorr"), measures.early(case, "obs_explained")
    paid = measures.known(measures.while_varied(case, "reward_by_action"), 0.0)
    # Of two independent draws the first explains half of the difference.
    strength = min(
        grade(-turns, 0.42, 0.46),
        grade(-abs(explained - 0.55), -0.15, -0.1),
        grade(-measures.known(_effect(case), 0.0), -0.1, -0.05),
        grade(-paid, -0.1, -0.05),
    )
    if strength <= 0 or not case.unproven or _shows_flags(case) or _blind(case):
        return
    text = f"changes of the observation are taken back at the next step (correlation {say(turns)}), whatever is done"
    fix = advice("print several observations of one state: what adds noise to them, or mixes their components?", "> 30 %")
    proof = evidence(sentinel("obs_diff_autocorr"), text, *case.span, correlation=turns, explained=explained)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


cause(
    "starts-identical",
    "every training episode starts from the same state",
    "fault of environment",
    advice="pass reset()'s seed on (super().reset(seed=seed)) and draw starts from self.np_random; give each environment its own seed",
    explains="EVA802 EVA801",
)


@rule(
    "ENV623",
    severity=Severity.MEDIUM,
    needs=[sentinel("start_distinct"), sentinel("starts")],
    cites=["schulman2016nuts"],
    causes=["starts-identical"],
    bad=lambda: cases.unsolved(
        {
            "train/sentinel/start_distinct": 0.1,
            "train/sentinel/starts": 10.0,
            "val/roll/ep_rew_mean": 60.0,
            "train/roll/ep_rew_mean": lambda share: 20 + 400 * share,
        }
    ),
    good=[
        lambda: cases.unsolved({"train/sentinel/start_distinct": 1.0, "train/sentinel/starts": 10.0}),
        # Evaluation begins there too, and does as well: a task with one start.
        lambda: cases.unsolved({"train/sentinel/start_distinct": 0.1, "train/sentinel/starts": 10.0}),
        # Neither has gained anything: a goal behind one start that was never met.
        lambda: cases.unsolved(
            {
                "train/sentinel/start_distinct": 0.1,
                "train/sentinel/starts": 10.0,
                "val/roll/ep_rew_mean": -0.009,
                "train/roll/ep_rew_mean": lambda share: -0.005 + 0.003 * np.sin(40 * share),
            },
            threshold=0.9,
        ),
    ],
)
def training_episodes_start_alike(case: Case) -> Iterator[Finding]:
    """All training episodes begin with the same observation, and evaluation does clearly worse than training.

    ## Why it hurts
    The agent learns one path by heart: from any other start it does not know what to do. Copies that are seeded alike see the same
    episodes, and are worth one copy.

    ## When it is fine
    Tasks with one start.
    """
    share = case.sentinel("start_distinct")
    if len(share) < 3 or not case.sick or not case.improved:
        return  # without a gain in training there is none that evaluation lacks
    gap = measures.evaluation_gap(case)
    strength = min(measures.starts_alike(case), grade(measures.known(gap, 0.0), 0.15, 0.5))
    if strength <= 0:
        return
    text = f"{percent(share.median)} of the first observations differ, and evaluation lacks {percent(gap)} of what training gained"
    fix = advice("draw the start in reset() from self.np_random, after super().reset(seed=seed); give each copy its own seed", "> 30 %")
    proof = evidence(sentinel("start_distinct"), text, *case.span, distinct=share.median, gap=gap)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))
