"""Normalizers: whether they hold still, and whether evaluation uses them."""

from collections.abc import Iterator

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import EVAL_RETURN, RETURN, sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import advice, change, evidence, grade, rule, say
from rlclinic.diagnosis.signals import measures

RATIO = sentinel("ratio_first_dev")


@rule("NRM701", severity=Severity.HIGH, needs=[RATIO, "config:env.normalize_obs"], cites=["huang2022details"], certain=True)
def normalizer_moves_between_rollout_and_update(case: Case) -> Iterator[Finding]:
    """With observations normalized, the ratio is not 1 before the first step: the statistics changed in between.

    ## Why it hurts
    The update sees other inputs than the policy that acted: its log-probabilities no longer fit the data.

    ## When it is fine
    Never, beyond float rounding.
    """
    deviation = case.signal(RATIO)
    share = float((deviation.values > 1e-3).mean())
    if case.setting("env.normalize_obs") is not True or share < 0.2:
        return
    early, late = deviation.share(0.0, 0.2).median, deviation.share(0.8).median
    # Running statistics drift a little, less and less; another action's log-probability is off by factors, to the end.
    small, fades = grade(-deviation.median, -1.0, -0.3), grade(early / max(late, 1e-12), 1.5, 4.0)
    text = f"the ratio is off by {say(early)} early and {say(late)} late, with a running normalizer"
    fix = advice("update the statistics once per iteration, after the update; keep them frozen in between", "10-30 %")
    found = evidence(RATIO, text, *case.span, early=early, late=late, share=share)
    strength = 0.7 * small + 0.3 * min(small, fades)
    if strength > 0:
        yield Finding(strength=strength, text=text, evidence=(found,), remedies=(fix,))


@rule("NRM702", severity=Severity.HIGH, needs=[EVAL_RETURN, RETURN, "config:env.normalize_obs"], cites=["raffin2021sb3"])
def evaluation_misses_the_normalizer(case: Case) -> Iterator[Finding]:
    """Training returns rise, evaluation stays bad, and observations are normalized.

    ## Why it hurts
    The policy is shown other numbers than it was trained on: usually the statistics were not loaded, or not frozen.

    ## When it is fine
    Never; a policy that is good in training is good in evaluation.
    """
    if case.setting("env.normalize_obs") is not True or case.progress is None:
        return
    trained, judged = case.signal(RETURN).share(0.5).median, case.signal(EVAL_RETURN).share(0.5).median
    gain = trained - case.progress.start
    gap = trained - judged
    same = measures.normalizers_agree(case)
    strength = min(grade(gap / max(abs(gain), 1e-9), 0.4, 0.9), 1.0 if case.improved else 0.0)
    # Two fingerprints that differ are proof; without any, a gap alone may have other reasons.
    strength = 1.0 if same is False else 0.6 * strength
    if strength <= 0 or same or not case.sick:
        return
    text = f"training returns {say(trained)}, evaluation {say(judged)}" + ("; the statistics differ" if same is False else "")
    fix = advice("evaluate with the training run's statistics, loaded and frozen", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(EVAL_RETURN, text, *case.span, gap=gap),), remedies=(fix,))


@rule(
    "NRM703",
    severity=Severity.MEDIUM,
    needs=[sentinel("obs_std_min"), sentinel("obs_abs_max"), "config:env.normalize_obs"],
    cites=["schulman2016nuts"],
)
def components_differ_in_scale(case: Case) -> Iterator[Finding]:
    """Observation components differ in scale by orders of magnitude, and nothing normalizes them.

    ## Why it hurts
    The small ones are invisible beside the large ones: velocities of 0.01 next to positions of 1.

    ## When it is fine
    Where the small component does not matter.
    """
    deviation, largest = case.learning(sentinel("obs_std_min")), case.learning(sentinel("obs_abs_max"))
    if case.setting("env.normalize_obs") is True or deviation.median <= 1e-9 or not case.sick:
        return
    times = largest.median / deviation.median
    strength = grade(times, 60.0, 400.0)
    if strength <= 0:
        return
    text = f"one component varies by {say(deviation.median)}, another reaches {say(largest.median)}: {say(times)} x"
    fix = change(case, "env.normalize_obs", True, "every component with deviation 1", "10-30 %")
    found = evidence(sentinel("obs_std_min"), text, *case.span, smallest=deviation.median, largest=largest.median)
    yield Finding(strength=strength, text=text, evidence=(found,), remedies=(fix,))


@rule(
    "NRM704",
    severity=Severity.MEDIUM,
    algos=["ppo"],
    needs=["config:algo.normalize_advantage", sentinel("adv_std")],
    cites=["andrychowicz2021matters"],
)
def advantages_not_scaled(case: Case) -> Iterator[Finding]:
    """Advantages are used at the scale of the rewards.

    ## Why it hurts
    The step's size follows the reward's scale: large rewards take over-long steps or drown the entropy bonus, small ones take none.

    ## When it is fine
    Rewards of about 1; A2C's usual setting.
    """
    deviation = case.learning(sentinel("adv_std"))
    if case.setting("algo.normalize_advantage") not in ("off", False) or not case.sick:
        return
    away = max(deviation.median, 1e-9)
    strength = max(grade(away, 5.0, 50.0), grade(1 / away, 5.0, 50.0))
    if strength <= 0:
        return
    text = f"advantages have a deviation of {say(away)} and are not scaled"
    fix = change(case, "algo.normalize_advantage", "batch", "deviation 1 whatever the rewards", "10-30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(deviation.name, text, *case.span, median=away),), remedies=(fix,))
