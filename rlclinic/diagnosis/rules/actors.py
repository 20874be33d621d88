"""Actors that follow a critic: the scale of their actions, and SAC's temperature."""

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import ENTROPY, EVAL_RETURN, RETURN, sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import BugLocation, advice, cause, change, decades, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import detect, measures, off_policy
from rlclinic.diagnosis.signals.off_policy import ACTORS, ALPHA, OFF_POLICY, SOFT

REACH, AT_BOUND = sentinel("action_reach"), sentinel("action_at_bound")
TINY_REWARD: Final = 0.01
"""Deviation of the reward per step below which its scale is the first suspect: a temperature of 0.05 and more is usual."""
NATS: Final = math.log(2)
"""Entropy of a uniform action from -1 to 1, per component: the largest there is."""


@rule(
    "ACT101",
    severity=Severity.HIGH,
    algos=ACTORS,
    needs=[REACH],
    cites=["raffin2021sb3"],
    certain=True,
    causes=["action-bounds"],
    bad=lambda: cases.soft_actor({"train/sentinel/action_reach": 0.5}),
)
def actions_never_reach_their_bounds(case: Case) -> Iterator[Finding]:
    """No action that reached the environment came near its bounds, not even the random ones of the start; or all went beyond.

    ## Why it hurts
    Actions from -1 to 1 are not stretched to the environment's box (or twice): half of what the agent could do is out of reach, or
    different actions have the same effect.

    ## When it is fine
    Boxes that are open to one side.
    """
    reach = case.signal(REACH)
    first = reach.share(0.0, 0.2).top
    short, long = grade(-max(first, reach.median), -0.85, -0.7), grade(reach.share(0.0, 0.2).median, 1.2, 1.6)
    strength = max(short if _tried_widely(case) else 0.0, long)
    if not strength > 0:
        return
    text = f"actions reach {percent(first)} of their bounds at most"
    fix = advice("scale: low + (action + 1) / 2 x (high - low), once, between the policy and the environment", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(REACH, text, *case.span, reach=first),), remedies=(fix,))


def _tried_widely(case: Case) -> bool:
    """Whether rows hold actions that were drawn at random: a policy that is deterministic from the first row on may well stay inside."""
    reach = case.signal(REACH)
    if not len(reach) or off_policy.learning_starts(case) >= reach.steps[0]:
        return True
    early, std = off_policy.entropy(case).share(0.0, 0.3), case.real("algo.action_noise_std")
    wide = case.algo in SOFT and (not len(early) or early.median / _components(case) > -1.0)
    return wide or (case.setting("algo.action_noise") not in ("none", None) and (std or 0.0) >= 0.1)


cause(
    "actor-saturated",
    "the actor is stuck at its bounds",
    "symptom",
    doses=["third-of-the-rate", "usual-noise", "scale-observations-if-far"],
    behind=[
        ("learning-rate-too-high", 0.35, "settings", "weights grow without end; a third of the rate stays inside of the box"),
        ("observation-scale", 0.3, "environment", "observations far from 1 drive the last layer to its ends"),
        ("reward-scale-too-large", 0.2, "environment", "Q-values in the thousands"),
        ("action-bounds", 0.15, "environment", "a box that is not symmetric, or not the one that the task uses"),
    ],
)


@rule(
    "ACT102",
    severity=Severity.MEDIUM,
    algos=ACTORS,
    needs=[AT_BOUND],
    cites=["fujimoto2018td3"],
    causes=["actor-saturated"],
    bad=lambda: cases.soft_actor({"train/sentinel/action_at_bound": 0.99}),
)
def actor_is_stuck_at_the_bounds(case: Case) -> Iterator[Finding]:
    """Nearly every action of the policy is at an end of its box, and nothing better is found.

    ## Why it hurts
    Behind a saturated tanh the gradient is 0: the actor cannot come back, whatever the critic says.

    ## When it is fine
    Tasks whose best control is bang-bang.
    """
    share = case.learning(AT_BOUND).share(0.3)
    strength = grade(share.median, 0.85, 0.97)
    if not strength > 0 or not case.sick:
        return
    text = f"{percent(share.median)} of the actions lie at a bound"
    rate = case.number("learning_rate") or 1e-3
    fix = change(case, "algo.learning_rate", float(f"{rate / 3:.1g}"), "smaller steps", "10-30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(AT_BOUND, text, *case.span, share=share.median),), remedies=(fix,))


# ── SAC's temperature ──


cause(
    "temperature-sign",
    "the temperature moves the wrong way",
    "fault of code",
    advice="alpha's loss is -log_alpha x (log_prob + target_entropy): check the sign of both",
    explains="ACT104 ACT105 QVL101",
    bug=BugLocation(
        fix="alpha's loss is -log_alpha x (log_prob + target_entropy), with log_prob detached",
        check="assert alpha falls while -log_prob.mean() > target_entropy",
        rlclinic=("rlclinic/training/algos/sac.py", "temperature_loss", "the sign of what is missing of the entropy"),
        sb3=("stable_baselines3/sac/sac.py", "SAC.train", "ent_coef_loss = -(log_ent_coef * (log_prob + target_entropy).detach()).mean()"),
        cleanrl=(
            "sac_continuous_action.py",
            "the block under args.autotune",
            "alpha_loss = (-log_alpha.exp() * (log_pi + target_entropy)).mean()",
        ),
        own=(
            "where log_alpha gets its loss: both signs, that of the loss and that of target_entropy (minus the number of action components)"
        ),
    ),
)


@rule(
    "ACT103",
    severity=Severity.HIGH,
    algos=SOFT,
    needs=[ALPHA, ENTROPY],
    cites=["haarnoja2018sac"],
    certain=True,
    causes=["temperature-sign"],
    bad=lambda: cases.soft_actor({"train/hp/alpha": lambda share: 10 ** (4 * share), "train/metrics/entropy": 0.6}),
)
def temperature_moves_the_wrong_way(case: Case) -> Iterator[Finding]:
    """A learned temperature rises while the entropy is above its target, or falls while it is below.

    ## Why it hurts
    The loss of the temperature has the wrong sign: it runs away, and the policy becomes random or deterministic for good.

    ## When it is fine
    Never.
    """
    alpha, entropy, target = case.signal(ALPHA), case.signal(ENTROPY), off_policy.target_entropy(case)
    if len(alpha) < 8 or len(entropy) < 4 or case.real("algo.ent_coef") is not None:
        return
    aim = -1.0 if target is None else target
    steps = alpha.steps[:-1]
    gap = np.array([entropy.at((a + b) / 2) for a, b in zip(steps, alpha.steps[1:], strict=True)]) - aim
    moved = np.diff(np.log(np.maximum(alpha.values, 1e-30)))
    telling = (np.abs(gap) > 0.3 * max(abs(aim), 0.5)) & (np.abs(moved) > 1e-6)
    if telling.sum() < 5:
        return
    wrong = float((np.sign(gap[telling]) == np.sign(moved[telling])).mean())
    strength = grade(wrong, 0.75, 0.9)
    if strength <= 0:
        return
    text = f"the entropy is {say(entropy.median)} with a target of {say(aim)}, and alpha went from {say(alpha.first)} to {say(alpha.last)}"
    fix = advice("alpha's loss is -log_alpha x (log_prob + target_entropy): check the sign of both", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(ALPHA, text, *case.span, wrong=wrong),), remedies=(fix,))


cause(
    "temperature-too-high",
    "entropy is worth more than the task",
    "fault of settings",
    doses=["learned-temperature", "usual-target-entropy", "scale-rewards"],
    explains="QVL101 QVL102",
)


@rule(
    "ACT104",
    severity=Severity.HIGH,
    algos=SOFT,
    needs=[ALPHA, (sentinel("reward_std"), RETURN)],
    cites=["haarnoja2018sac"],
    causes=["temperature-too-high"],
    bad=lambda: cases.soft_actor({"train/hp/alpha": 50.0, "train/metrics/entropy": 0.65}),
    good=[
        # On its way down, to the usual target: whatever keeps the run from learning, the temperature goes where it should.
        lambda: cases.soft_actor(
            {"train/hp/alpha": lambda share: np.exp(-3 * share), "train/metrics/entropy": None, "train/sentinel/reward_std": 0.1},
            settings={"algo.target_entropy": -1.0},
        ),
        # Learned, and nobody logged the entropy that it holds.
        lambda: cases.soft_actor(
            {"train/hp/alpha": lambda share: 0.3 + 0.1 * np.sin(9 * share), "train/metrics/entropy": None, "train/sentinel/reward_std": 3.0}
        ),
    ],
)
def entropy_is_worth_more_than_the_task(case: Case) -> Iterator[Finding]:
    """The temperature makes a random action worth more than a good one.

    ## Why it hurts
    The policy is paid for being random: it stays so, and the return with it.

    ## When it is fine
    Early in a run, while a learned temperature still falls.
    """
    alpha, late = case.signal(ALPHA).share(0.5), off_policy.entropy(case).share(0.5)
    paid = off_policy.reward_spread(case)
    size = _components(case)
    fixed = case.real("algo.ent_coef") is not None or (len(alpha) > 2 and alpha.top == alpha.bottom)
    # One that is learned comes down where it is too high; one that was set does not.
    random = grade(late.median / (size * NATS), 0.2, 0.8) if len(late) else 0.9 if fixed else 0.6
    strength = min(grade(decades(alpha.median * NATS / paid), -1.0, 0.0), max(random, 0.0))
    # A learned temperature that is still on its way down is late, not wrong, and one whose entropy nobody logged may be where its usual
    # target has it; beside rewards that are next to nothing any would be high.
    target = off_policy.target_entropy(case)
    usual = target is None or target <= -0.9 * size
    if not fixed and usual and _falls(case.signal(ALPHA)):
        return
    late_only = not fixed and usual and not len(late)
    strength *= 0.3 if late_only or (paid < TINY_REWARD and alpha.median <= 1.0) else 1.0
    # A coefficient that somebody set is known to stay where it is, however little the return says of itself.
    if not strength > 0 or not (case.unproven if fixed else case.sick):
        return
    text = f"alpha {say(alpha.median)} against rewards that vary by {say(paid)} per step" + (
        f"; the entropy stays at {say(late.median)}" if len(late) else ""
    )
    fix = change(case, "algo.ent_coef", "auto", "let it be learned", "> 30 %")
    if not fixed:
        fix = change(case, "algo.target_entropy", "auto", "minus the number of action components", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(ALPHA, text, *case.span, alpha=alpha.median),), remedies=(fix,))


def _falls(alpha: detect.Signal) -> bool:
    """Whether a temperature falls to the end: by a tenth or more over the second half, and lowest at last."""
    late = alpha.share(0.5)
    return len(late) >= 4 and late.last < 0.9 * late.first and late.last <= 1.05 * late.bottom


cause(
    "temperature-too-low",
    "the policy became deterministic at once",
    "fault of settings",
    doses=["learned-temperature", "usual-target-entropy"],
    explains="ACT102 REW501",
)


@rule(
    "ACT105",
    severity=Severity.HIGH,
    algos=SOFT,
    needs=[ENTROPY],
    cites=["haarnoja2018sac"],
    causes=["temperature-too-low"],
    bad=lambda: cases.soft_actor({"train/metrics/entropy": -6.0}),
)
def policy_became_deterministic_at_once(case: Case) -> Iterator[Finding]:
    """The entropy falls far below any useful target before anything was learned.

    ## Why it hurts
    SAC has no other exploration than its entropy: with a temperature near 0 the first good guess is repeated for ever.

    ## When it is fine
    Late in a run that is solved.
    """
    early, target = case.signal(ENTROPY).share(0.1, 0.6), off_policy.target_entropy(case)
    size = _components(case)
    below = (-early.median / size) if len(early) else math.nan
    aimed = grade(-(target or 0.0) / size, 3.0, 6.0)
    strength = max(grade(below, 2.5, 4.0), min(aimed, grade(below, 1.5, 2.5)))
    if not strength > 0 or not case.sick:
        return
    text = f"the entropy is {say(early.median)} in the first half" + ("" if target is None else f", with a target of {say(target)}")
    fix = change(case, "algo.ent_coef", "auto", "let the temperature be learned", "> 30 %")
    if case.real("algo.ent_coef") is None:
        fix = change(case, "algo.target_entropy", "auto", "minus the number of action components", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(ENTROPY, text, *case.span, entropy=early.median),), remedies=(fix,))


@rule(
    "ACT106",
    severity=Severity.HIGH,
    algos=OFF_POLICY,
    needs=[RETURN, sentinel("random_return")],
    cites=["jones2021debugging"],
    causes=["actions-without-effect"],
    bad=lambda: cases.q_learner(
        {
            "train/roll/ep_rew_mean": lambda share: 22 + np.sin(99 * share),
            "val/roll/ep_rew_mean": 23.0,
            "train/sentinel/random_return": 22.0,
            "train/sentinel/random_return_std": 9.0,
            "train/sentinel/q_bias": 0.5,
            "train/sentinel/value_mean": 15.0,
        }
    ),
)
def choices_have_no_effect(case: Case) -> Iterator[Finding]:
    """Values are learned and the policy follows them, but the return stays that of a random policy.

    ## Why it hurts
    What the policy chooses does not reach the environment: an action mapping, a wrapper or a wire in between.

    ## When it is fine
    Before a sparse reward has been met; while most actions are still random.
    """
    chance, returns = measures.random_return(case), case.signal(RETURN)
    judged = case.signal(EVAL_RETURN).share(0.4)
    explored = off_policy.epsilon(case).share(0.4)
    if not case.sick or chance is None or case.standing == "failed" or len(returns) < 4 or (len(explored) and explored.median > 0.3):
        return
    learned, bias = off_policy.returns_of_states(case), case.learning(off_policy.Q_BIAS).share(0.4)
    mean, deviation = chance
    # A critic that is right about returns which never get better: right beside their size, or beside their spread where they straddle 0.
    spread = deviation * off_policy.seen_ahead(case)
    fits = grade(-abs(bias.median) / max(abs(learned), spread, 1e-9), -0.8, -0.4) if len(bias) else 0.6
    scale = max(deviation, 0.05 * abs(mean), 1e-9)
    levels = [returns.share(0.4).median] + ([judged.median] if len(judged) else [])
    drift = max(abs(level - mean) / scale for level in levels)
    strength = min(fits, grade(-drift, -0.8, -0.4))
    if not strength > 0 or detect.spread(returns.values) <= 1e-6 * max(abs(returns.median), 1.0):
        return
    text = f"the return stays at {say(levels[0])}, where a random policy is ({say(mean)} ± {say(deviation)}), and the critic agrees"
    fix = advice("follow one action from the policy to the simulator; does a scripted policy do better than a random one?", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(RETURN, text, *case.span, drift=drift),), remedies=(fix,))


def _components(case: Case) -> float:
    """Action components, as far as the target entropy tells: by default it is minus their number."""
    auto = case.setting("algo.target_entropy") in ("auto", None)
    logged = off_policy.target_entropy(case)
    return max(-logged, 1.0) if auto and logged is not None else 1.0
