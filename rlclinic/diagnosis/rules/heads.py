"""Heads of bootstrapped DQN: they explore as long as they disagree, and learn as far as they come to agree."""

from collections.abc import Iterator
from typing import Final

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import cause, change, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases

HEADS: Final = ("bootstrapped_dqn",)
SPLIT, DISAGREEMENT = sentinel("head_split"), sentinel("head_disagreement")
PRIOR: Final = "config:algo.prior_scale"
SUCCESS: Final = "train/roll/success_rate"

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
