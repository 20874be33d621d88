"""What can be said where a log has no sentinels: which family a fault belongs to, when several look alike in the usual metrics."""

from collections.abc import Iterator

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import EXPLAINED_VARIANCE, KL, RETURN, sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import ON_POLICY, advice, cause, evidence, grade, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import measures

_TELL = advice("log the sentinels, which tell them apart: rlclinic.sentinels (docs/sentinels.md)")


def _plain(case: Case) -> bool:
    """A log without the separators that training of ours, or our callback, writes."""
    return not case.has(sentinel("ratio_first_dev")) and not case.has(sentinel("updates"))


cause(
    "updates-too-small",
    "updates too small; the log does not say what holds them",
    "symptom",
    doses=["longer-steps", "more-updates", "usual-gradient-limit"],
    advice="look at what holds updates back: learning rate, its schedule, max_grad_norm, target_kl, the optimizer, saturated layers",
    explains="POL102 ENT301 VAL201 BUD101",
    covers=(
        "learning-rate-too-low learning-rate-schedule-too-short target-kl-too-tight gradient-clip-too-tight too-few-updates "
        "optimizer-mismatch saturating-activation network-too-small"
    ),
    behind=[
        ("learning-rate-too-low", 0.3, "settings", "KL grows in proportion to learning_rate"),
        ("target-kl-too-tight", 0.15, "log", "updates stop after a few of their gradient steps"),
        ("gradient-clip-too-tight", 0.15, "log", "gradient norms before clipping are far above max_grad_norm"),
        ("too-few-updates", 0.15, "settings", "few gradient steps for the budget: long rollouts, one epoch, large minibatches"),
        ("learning-rate-schedule-too-short", 0.1, "settings", "KL was usual at first, and fell with the learning rate"),
        ("optimizer-mismatch", 0.05, "settings", "plain SGD at a rate that suits Adam"),
        ("saturating-activation", 0.05, "settings", "hidden units sit at their limits: sigmoid or tanh far from 0"),
        ("network-too-small", 0.05, "settings", "a hidden layer of a few units"),
    ],
)


@rule(
    "FAM101",
    severity=Severity.MEDIUM,  # a symptom: HIGH is for causes
    algos=ON_POLICY,
    needs=[KL, RETURN],
    cites=["schulman2017ppo"],
    causes=["updates-too-small"],
    bad=lambda: cases.foreign(scaled={"train/metrics/kl_divergence": 0.001}),
)
def updates_hardly_move_the_policy(case: Case) -> Iterator[Finding]:
    """The policy stands still, and the log does not say what holds it.

    ## Why it hurts
    Nothing is learned from steps that small. A tiny learning rate, one that fell to 0 too early, a gradient limit or target_kl that
    stops every update, too few updates, plain SGD or saturated layers all look like this.

    ## When it is fine
    At the end of a schedule, in a run that is solved.
    """
    size = measures.step_size(case)
    strength = grade(-size, -0.12, -0.03)
    relative = measures.relative_entropy(case)
    if len(relative):
        # A policy that became certain did move; its steps are small since, because hardly any probability is left to move.
        strength = min(strength, grade(relative.share(0.5).median, 0.2, 0.5))
    if not _plain(case) or not case.sick or strength <= 0:
        return
    text = f"KL is {say(size)} of a usual step"
    yield Finding(strength=strength, text=text, evidence=(evidence(KL, text, *case.span, share=size),), remedies=(_TELL,))


cause(
    "critic-explains-nothing",
    "the critic explains nothing: untrained, blind, or chasing noise",
    "symptom",
    doses=["critic-weight", "more-data"],
    advice="is the critic trained, do observations say anything, is the reward more than noise? The sentinels tell (docs/sentinels.md)",
    explains="VAL201 BUD101 EVA802",
    covers="critic-not-trained reward-noise observation-constant",
    behind=[
        ("critic-not-trained", 0.35, "settings", "the value loss stays where it began: vf_coef is 0, or the critic's gradient is cut"),
        ("observation-constant", 0.35, "environment", "the same observation whatever happens"),
        ("reward-noise", 0.3, "environment", "two episodes from one start with the same actions return something else"),
    ],
)


@rule(
    "FAM102",
    severity=Severity.MEDIUM,  # a symptom: HIGH is for causes
    algos=ON_POLICY,
    needs=[EXPLAINED_VARIANCE, RETURN],
    cites=["jones2021debugging"],
    causes=["critic-explains-nothing"],
    bad=lambda: cases.foreign({"train/metrics/explained_variance": 0.01}),
)
def nothing_of_the_returns_is_explained(case: Case) -> Iterator[Finding]:
    """The critic never explains anything of the returns, and the log does not say why.

    ## Why it hurts
    Advantages are then as noisy as the returns themselves. A critic that is not trained, observations that say nothing, and rewards
    that are mostly noise all look like this.

    ## When it is fine
    Where all returns are alike.
    """
    explained, size = measures.explained(case).share(0.3), measures.step_size(case)
    if not _plain(case) or not case.sick or not len(explained):
        return
    strength = min(grade(-explained.median, -0.15, -0.03), grade(size, 0.05, 0.15) if size == size else 1.0)
    if strength <= 0:
        return
    text = f"explained variance stays at {say(explained.median)}"
    yield Finding(strength=strength, text=text, evidence=(evidence(EXPLAINED_VARIANCE, text, *case.span),), remedies=(_TELL,))


cause(
    "progress-without-effect",
    "sound updates without progress: actions, observations or horizon",
    "symptom",
    doses=["scale-observations-if-far", "ppo-instead"],
    advice=(
        "check that actions arrive, that the state can be seen and that gamma looks far enough: lint the environment (docs/sentinels.md)"
    ),
    explains="EVA802 BUD101",
    covers=(
        "actions-without-effect action-bounds observation-partial observation-constant observation-scale discount-too-low "
        "gae-lambda-too-low episode-too-short"
    ),
    behind=[
        ("actions-without-effect", 0.2, "environment", "other actions from the same start give the same episode"),
        ("observation-partial", 0.15, "environment", "what decides the reward is not in the observation"),
        ("observation-scale", 0.15, "environment", "observations far from 1, or so small that they all look alike"),
        ("discount-too-low", 0.15, "settings", "1 / (1 - gamma) is much shorter than an episode"),
        ("action-bounds", 0.1, "environment", "the policy uses a sliver of its box, or sits at its ends"),
        ("observation-constant", 0.1, "environment", "the same observation whatever happens"),
        ("episode-too-short", 0.1, "environment", "every episode is cut before its goal can be reached"),
        ("gae-lambda-too-low", 0.05, "settings", "gae_lambda near 0"),
    ],
)


@rule(
    "FAM103",
    severity=Severity.MEDIUM,  # a symptom: HIGH is for causes
    algos=ON_POLICY,
    needs=[KL, EXPLAINED_VARIANCE, RETURN],
    cites=["jones2021debugging"],
    causes=["progress-without-effect"],
    bad=lambda: cases.foreign({**cases.flat_returns(20.0), "train/metrics/explained_variance": 0.8, "train/metrics/kl_divergence": 0.02}),
)
def sound_updates_without_progress(case: Case) -> Iterator[Finding]:
    """Updates and critic are as they should be, and the return does not follow.

    ## Why it hurts
    What is optimized is not what is wanted: actions that do not arrive or use a sliver of their box, a part of the state that cannot
    be seen, a discount that looks a few steps ahead, a network that cannot express a better policy.

    ## When it is fine
    Before a sparse reward was first met.
    """
    progress, explained, size = case.progress, measures.explained(case).share(0.3), measures.step_size(case)
    if not _plain(case) or progress is None or not case.sick or not len(explained) or case.standing not in ("stuck", "plateau"):
        return
    covered = progress.share if progress.share is not None else 0.0
    strength = min(grade(size, 0.1, 0.25), grade(-size, -6.0, -3.0), grade(explained.median, 0.1, 0.3), grade(-covered, -0.5, -0.3))
    # A return that falls below a random policy's does follow: downwards, which is another fault.
    strength = min(strength, 1.0 - measures.led_downwards(case))
    if case.history.state == "unknown" and case.budget:
        # A log that ends half way, nobody knows why, may have been about to rise.
        strength *= grade(case.trained / case.budget, 0.3, 0.7)
    if strength <= 0:
        return
    text = f"KL {say(size)} of a usual step, explained variance {say(explained.median)}, and the return stays at {say(progress.last)}"
    yield Finding(strength=strength, text=text, evidence=(evidence(RETURN, text, *case.span),), remedies=(_TELL,))
