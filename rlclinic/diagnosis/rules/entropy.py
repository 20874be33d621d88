"""Entropy and exploration: whether the policy still tries things, and whether it ever stops."""

import math
from collections.abc import Iterator

import numpy as np

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import ACTION_STD, ENTROPY, ENTROPY_LOSS, POLICY_LOSS, RETURN, TOTAL_LOSS, VALUE_LOSS, sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import ON_POLICY, cause, change, decades, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import detect, measures
from rlclinic.diagnosis.signals.detect import Signal
from rlclinic.runs.history import History

RELATIVE = sentinel("entropy_relative")
STD_MIN, STD_MAX = sentinel("action_std_min"), sentinel("action_std_max")


@rule(
    "ENT301",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[(RELATIVE, ENTROPY)],
    cites=["jones2021debugging", "andrychowicz2021matters"],
    bad=lambda: cases.unsolved({"train/sentinel/entropy_relative": 0.99}),
)
def policy_stays_random(case: Case) -> Iterator[Finding]:
    """The policy is as random at the end as it was at the start.

    ## Why it hurts
    What is learned is drowned by noise: the entropy bonus outweighs the advantages, or nothing is learned at all.

    ## When it is fine
    Tasks whose best policy is random; a run that has hardly begun.
    """
    relative = measures.relative_entropy(case)
    late = relative.share(0.7).median
    strength = grade(late, 0.9, 0.97)
    if strength <= 0 or not case.sick:
        return
    text = f"entropy is {percent(late)} of its maximum at the end"
    yield Finding(strength=strength, text=text, evidence=(evidence(RELATIVE, text, *case.span, late=late),))


cause(
    "exploration-collapsed",
    "exploration ended before anything was learned",
    "symptom",
    doses=["explore-longer", "more-entropy", "shorter-steps", "entropy-that-falls"],
    explains="EVA802 REW504 VAL201 REW505",
    watch=[{"series": "train/sentinel/entropy_relative", "above": 0.2, "text": "entropy > 20 % of its maximum at half time"}],
    behind=[
        ("learning-rate-too-high", 0.35, "probe", "KL far above a usual step before the entropy fell"),
        ("initial-policy-too-sure", 0.2, "settings", "entropy was low at the first row already"),
        ("too-many-epochs", 0.15, "settings", "the KL of an update's last epoch is many times that of its first"),
        ("reward-sign", 0.15, "environment", "what the policy became certain of is worse than chance"),
        ("reward-never-seen", 0.15, "environment", "no reward differs from the others: advantages are noise, and noise made it certain"),
    ],
)


@rule(
    "ENT302",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[(RELATIVE, STD_MIN, ENTROPY), RETURN],
    cites=["jones2021debugging"],
    causes=["exploration-collapsed"],
    bad=lambda: cases.unsolved({"train/sentinel/entropy_relative": cases.falls(0.05, 0.9, 0.01)}),
)
def exploration_ends_before_anything_is_learned(case: Case) -> Iterator[Finding]:
    """The policy became certain before its return had improved.

    ## Why it hurts
    Actions that were never tried again cannot be found to be better: the run is stuck with its first guess.

    ## When it is fine
    When the return has reached what the task allows.
    """
    if not case.sick:
        return
    relative = measures.relative_entropy(case)
    if len(relative):
        low = np.flatnonzero(detect.smoothed(relative.values, 3) < 0.08)
        what = "entropy fell below 8 % of its maximum"
    else:
        relative = case.signal(STD_MIN) if case.has(STD_MIN) else case.signal(ACTION_STD)
        low = np.flatnonzero(relative.values < 0.1 * relative.first)
        what = "the actions' deviation fell below a tenth of its start"
    if not len(low):
        return
    at = float(relative.steps[low[0]])
    share = (at - case.span[0]) / max(case.span[1] - case.span[0], 1.0)
    gained = _gained(case, at)
    strength = min(grade(-share, -0.5, -0.2), grade(-gained, -0.6, -0.3))
    if strength <= 0:
        return
    when = f"{say(at)} env steps ({percent(at / max(case.span[1], 1.0))} of the run)"
    text = f"{what} at {when}, with {percent(max(gained, 0.0))} of the way covered"
    fix = change(
        case,
        "algo.ent_coef",
        max(3 * (case.number("ent_coef") or 0.0), 0.01),
        "pay for trying things",
        "10-30 %",
        "too much keeps the policy random",
    )
    yield Finding(
        strength=strength, text=text, evidence=(evidence(relative.name, text, at, case.span[1], share=share),), onset=at, remedies=(fix,)
    )


def _gained(case: Case, at: float) -> float:
    """Share of the way from the first return to the threshold (or the best return) that was covered at an env step."""
    returns, progress = case.signal(RETURN), case.progress
    if progress is None or not len(returns):
        return 0.0
    goal = case.threshold if case.threshold is not None else progress.start + progress.gain
    return (returns.at(at) - progress.start) / (goal - progress.start) if goal > progress.start else 0.0


cause(
    "initial-policy-too-sure",
    "the policy starts out certain",
    "fault of settings",
    doses=["start-undecided", "start-with-noise", "start-undecided+careful-rate", "start-with-noise+careful-rate"],
    explains="ENT302 REW504 BUD103 GRD405 POL101 POL111 POL104",
)


@rule(
    "ENT303",
    severity=Severity.MEDIUM,
    algos=ON_POLICY,
    needs=[RELATIVE],
    cites=["andrychowicz2021matters", "schulman2016nuts"],
    causes=["initial-policy-too-sure"],
    bad=lambda: cases.unsolved({"train/sentinel/entropy_relative": 0.3}),
    good=[lambda: cases.unsolved({"train/sentinel/entropy_relative": 0.3}, settings={"about.start": "extend"})],
)
def policy_starts_out_certain(case: Case) -> Iterator[Finding]:
    """The very first policy is not random: it has favourite actions before it has seen anything.

    ## Why it hurts
    Early data is one-sided, and the first updates must unlearn it. The policy's last layer should start near zero (gain 0.01).

    ## When it is fine
    Continuing from a trained policy.
    """
    relative = measures.relative_entropy(case)
    if not len(relative) or case.continues:
        return
    first = float(relative.values[0])
    strength = grade(-first, -0.85, -0.5)
    if strength <= 0:
        return
    text = f"entropy starts at {percent(first)} of its maximum"
    fix = change(case, "net.policy_gain", 0.01, "start with equal preferences", "10-30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(RELATIVE, text, first=first),), remedies=(fix,))


cause(
    "entropy-bonus-too-high",
    "entropy bonus too high",
    "fault of settings",
    doses=["less-entropy", "no-entropy", "less-entropy+careful-rate"],
    explains="ENT301 ENT305 POL102 EVA801 VAL201 ENV609 BUD101",
    watch=[{"series": "train/sentinel/entropy_relative", "below": 0.8, "text": "entropy < 80 % of its maximum at half time"}],
)


@rule(
    "ENT304",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[sentinel("grad_entropy_share"), "config:algo.ent_coef"],
    cites=["andrychowicz2021matters"],
    causes=["entropy-bonus-too-high"],
    bad=lambda: cases.unsolved(
        {
            "train/sentinel/grad_entropy_share": 0.5,
            "train/sentinel/grad_value_share": 0.4,
            "train/hp/ent_coef": 0.5,
            "train/sentinel/entropy_relative": 0.98,
        }
    ),
)
def entropy_bonus_outweighs_the_return(case: Case) -> Iterator[Finding]:
    """The entropy bonus pulls harder on the policy than the advantages do.

    ## Why it hurts
    The policy is paid for being random, and maximizes that.

    ## When it is fine
    After the task is solved, when advantages have become small.
    """
    share = case.learning(sentinel("grad_entropy_share"))
    value_share = case.learning(sentinel("grad_value_share"))
    coefficient = case.number("ent_coef") or 0.0
    if not len(share) or coefficient <= 0 or not case.sick:
        return
    rest = max(1.0 - (value_share.median if len(value_share) else 0.0) - share.median, 1e-9)
    against = share.median / rest
    relative = measures.relative_entropy(case)
    pinned = grade(relative.share(0.6).median, 0.85, 0.95) if len(relative) else grade(_growth(case), 0.0, math.log(2))
    strength = min(grade(against, 0.3, 1.5), pinned) if pinned < 1 else max(grade(against, 0.1, 0.6), 0.0)
    if strength <= 0:
        return
    text = f"the entropy term's gradient is {say(against)} x the policy term's (ent_coef {say(coefficient)})"
    new = float(f"{coefficient * min(0.1 / against, 0.1):.1g}")
    fix = change(case, "algo.ent_coef", new, f"a tenth of the policy term's pull or less: {say(coefficient)} -> {say(new)}", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(share.name, text, *case.span, against_policy=against),), remedies=(fix,))


def _growth(case: Case) -> float:
    """By how much the entropy of a continuous policy grew, in nats."""
    entropy = case.signal(ENTROPY)
    return entropy.share(0.8).median - entropy.first if len(entropy) else 0.0


@rule(
    "ENT305",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[(STD_MAX, ACTION_STD)],
    cites=["andrychowicz2021matters"],
    causes=["entropy-bonus-too-high"],
    bad=lambda: cases.continuous({"train/sentinel/action_std_max": lambda share: 1 + 5 * share}),
)
def action_noise_grows(case: Case) -> Iterator[Finding]:
    """The deviation of continuous actions grows instead of shrinking.

    ## Why it hurts
    Noise beyond the action's bounds is cut off: exploration becomes bang-bang, and the mean stops mattering.

    ## When it is fine
    A modest rise early on, when larger actions are found to pay.
    """
    deviation = _deviation(case)
    ratio = deviation.share(0.8).median / max(deviation.first, 1e-9)
    strength = grade(ratio, 1.5, 3.0)
    if strength <= 0 or not case.sick:
        return
    text = f"the actions' deviation grew from {say(deviation.first)} to {say(deviation.share(0.8).median)}"
    onset = detect.onset(deviation)
    coefficient = case.number("ent_coef") or 0.0
    fixes = (change(case, "algo.ent_coef", coefficient / 10, "less pay for noise", "> 30 %"),) if coefficient > 0 else ()
    yield Finding(
        strength=strength, text=text, evidence=(evidence(deviation.name, text, *case.span, ratio=ratio),), onset=onset, remedies=fixes
    )


@rule(
    "ENT306",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=["config:algo.ent_coef"],
    cites=["andrychowicz2021matters"],
    causes=["entropy-bonus-too-high"],
    bad=lambda: cases.unsolved({"train/hp/ent_coef": 0.5}),
)
def entropy_bonus_unusually_large(case: Case) -> Iterator[Finding]:
    """The weight of the entropy bonus is far above what is usual.

    ## Why it hurts
    Advantages are scaled to 1: a bonus of 0.1 per nat or more competes with them, and the policy stays random.

    ## When it is fine
    With unscaled advantages and large rewards; tasks so easy that they learn all the same.
    """
    coefficient = case.number("ent_coef")
    if coefficient is None or coefficient < 0.1:
        return
    text = f"ent_coef {say(coefficient)}; usual is 0 to 0.02"
    fix = change(case, "algo.ent_coef", 0.01, "a usual weight", "> 30 %")
    proof = evidence("config:algo.ent_coef", text, value=coefficient)
    yield Finding(strength=grade(decades(coefficient), -1.0, -0.3), text=text, evidence=(proof,), remedies=(fix,))


def _without_bonus(weight: float) -> History:
    """A policy that stays random although nothing pays for it."""
    losses: dict[str, cases.Shape] = {
        "train/loss/total": lambda share: weight * (2 - share),
        "train/loss/policy": 0.0,
        "train/loss/entropy": -0.69,
        "train/metrics/entropy": 0.69,
        "train/loss/value": lambda share: 2 - share,
    }
    return cases.foreign(losses, settings={"algo.ent_coef": None})


@rule(
    "ENT310",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[TOTAL_LOSS, POLICY_LOSS, ENTROPY_LOSS, VALUE_LOSS],
    cites=["andrychowicz2021matters"],
    causes=["entropy-bonus-too-high"],
    bad=lambda: cases.foreign(
        {
            "train/loss/total": lambda share: 0.5 * (2 - share) - 3 * 0.69,
            "train/loss/policy": 0.0,
            "train/loss/entropy": -0.69,
            "train/metrics/entropy": 0.69,
            "train/loss/value": lambda share: 2 - share,
        },
        settings={"algo.ent_coef": None},
    ),
    good=[
        # The same losses without a bonus; and with a critic that weighs twice as much.
        lambda: _without_bonus(0.5),
        lambda: _without_bonus(1.0),
        lambda: _without_bonus(0.1),
    ],
)
def the_loss_pays_for_entropy(case: Case) -> Iterator[Finding]:
    """The total loss lies below the sum of its other parts by as much as a large entropy bonus takes off.

    Where no setting says it, the losses do: total = policy + ent_coef x entropy loss + vf_coef x value loss, row by row.

    ## Why it hurts
    Advantages are scaled to 1: a bonus of 0.1 per nat or more competes with them, and the policy stays random.

    ## When it is fine
    Tasks so easy that they learn all the same.
    """
    if case.setting("algo.ent_coef") is not None or not case.sick:
        return
    coefficient = measures.implied_entropy_bonus(case)
    relative = measures.relative_entropy(case)
    pinned = grade(relative.share(0.6).median, 0.8, 0.93) if len(relative) else grade(_growth(case), -0.1, 0.1)
    strength = min(grade(decades(coefficient), -1.0, -0.3), pinned)
    if strength <= 0:
        return
    text = f"the losses add up with an ent_coef of about {say(coefficient)}; usual is 0 to 0.02"
    fix = change(case, "algo.ent_coef", 0.01, "a usual weight", "> 30 %")
    proof = evidence(TOTAL_LOSS, text, *case.span, coefficient=coefficient)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


@rule(
    "ENT307",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[(STD_MAX, ACTION_STD)],
    cites=["andrychowicz2021matters"],
    causes=["initial-policy-too-sure"],
    bad=lambda: cases.continuous({"train/sentinel/action_std_max": 0.02}),
    # Noise that fell as the policy grew sure is no noise that was missing at the start.
    good=[lambda: cases.continuous({"train/sentinel/action_std_max": lambda share: np.maximum(1 - 4 * share, 0.02)})],
)
def action_noise_tiny_from_the_start(case: Case) -> Iterator[Finding]:
    """Continuous actions start with next to no noise.

    ## Why it hurts
    Nothing new is tried: the policy stays where it began. And since KL counts in deviations, every step is a giant one.

    ## When it is fine
    Noise that depends on the state (gSDE), and policies that continue from trained ones.
    """
    deviation = _deviation(case)
    strength = grade(-deviation.share(0.0, 0.05).median, -0.12, -0.04)
    if strength <= 0 or not case.sick or case.continues or case.setting("algo.use_sde"):
        return
    start = case.real("net.log_std_init")
    text = f"actions start with a deviation of {say(deviation.first)}" + ("" if start is None else f" (log_std_init {say(start)})")
    fix = change(case, "net.log_std_init", 0.0, "a deviation of 1: of the order of the action's range", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(deviation.name, text, first=deviation.first),), remedies=(fix,))


def _deviation(case: Case) -> Signal:
    """The deviation of continuous actions: the largest component's, or the mean that another framework logs."""
    return case.signal(STD_MAX) if case.has(STD_MAX) else case.signal(ACTION_STD)


cause(
    "action-noise-too-wide",
    "action noise too wide for its box",
    "fault of settings",
    doses=["start-with-noise", "less-entropy", "rescale-actions", "usual-noise"],
    explains="ENV609",
)


@rule(
    "ENT308",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[("config:net.log_std_init", ACTION_STD)],
    cites=["andrychowicz2021matters"],
    causes=["action-noise-too-wide"],
    bad=lambda: cases.continuous(settings={"net.log_std_init": 2.5}),
)
def initial_action_noise_huge(case: Case) -> Iterator[Finding]:
    """Continuous actions start with a deviation far above 1.

    ## Why it hurts
    Almost every action lies on a bound: the mean does not matter, and exploration is bang-bang.

    ## When it is fine
    Boxes that are far larger than [-1, 1].
    """
    start, logged = case.real("net.log_std_init"), case.signal(ACTION_STD)
    if start is None and len(logged) and case.sick:
        start = decades(logged.first) * math.log(10)
    if start is None or start < 1.9:
        return
    text = f"log_std_init {say(start)}: a deviation of {say(math.exp(min(start, 50.0)))}; usual is 0.1 to 1.6"
    fix = change(case, "net.log_std_init", 0.0, "a deviation of 1", "10-30 %")
    yield Finding(strength=0.8, text=text, evidence=(evidence("config:net.log_std_init", text, value=start),), remedies=(fix,))


@rule(
    "ENT309",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=["config:net.log_std_init"],
    cites=["andrychowicz2021matters"],
    causes=["initial-policy-too-sure"],
    bad=lambda: cases.continuous(settings={"net.log_std_init": -5.0}),
)
def initial_action_noise_tiny(case: Case) -> Iterator[Finding]:
    """The config starts continuous actions with a deviation of a few hundredths.

    ## Why it hurts
    Nothing new is tried, and every step of the mean is many deviations long.

    ## When it is fine
    Noise that depends on the state (gSDE) starts at log_std -2 to -4.
    """
    start = case.real("net.log_std_init")
    if start is None or start > -3.5 or case.setting("net.state_dependent_std"):
        return
    text = f"log_std_init {say(start)}: a deviation of {say(math.exp(max(start, -50.0)))}; usual is 0.1 to 1.6"
    fix = change(case, "net.log_std_init", 0.0, "a deviation of 1", "10-30 %")
    yield Finding(strength=0.8, text=text, evidence=(evidence("config:net.log_std_init", text, value=start),), remedies=(fix,))
