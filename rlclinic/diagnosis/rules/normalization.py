"""Normalizers: whether they hold still, and whether evaluation uses them."""

from collections.abc import Iterator

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import EVAL_RETURN, RETURN, sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import BugLocation, advice, cause, change, evidence, grade, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import measures

RATIO = sentinel("ratio_first_dev")


cause(
    "normalizer-moves",
    "the normalizer moves between rollout and update",
    "fault of code",
    advice="update the normalizer's statistics once per iteration, after the update; keep them frozen in between",
    explains="POL106 POL101 POL103 VAL201",
    bug=BugLocation(
        fix="freeze the normalizer from the first step of a rollout to the last gradient step on it",
        check="assert (ratio - 1).abs().max() < 1e-4 in the first minibatch, with the normalizer on",
        rlclinic=("rlclinic/training/loops/on_policy.py", "update_normalizers", "it is called after the update, and nowhere else"),
        sb3=(
            "stable_baselines3/common/vec_env/vec_normalize.py",
            "VecNormalize.step_wait",
            "observations are normalized once, when they are collected; do not normalize again in the policy",
        ),
        cleanrl=("ppo.py", "make_env", "NormalizeObservation in the environment only, and not in the agent too"),
        own="statistics that change between the forward pass of the rollout and that of the update",
    ),
)


@rule(
    "NRM701",
    severity=Severity.HIGH,
    needs=[RATIO, "config:env.normalize_obs"],
    cites=["huang2022details"],
    certain=True,
    causes=["normalizer-moves"],
    bad=lambda: cases.unsolved({"train/sentinel/ratio_first_dev": lambda share: 0.5 * 0.01**share}, settings={"env.normalize_obs": True}),
)
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
    proof = evidence(RATIO, text, *case.span, early=early, late=late, share=share)
    strength = 0.7 * small + 0.3 * min(small, fades)
    if strength > 0:
        yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


cause(
    "evaluation-without-normalizer",
    "evaluation misses the normalizer",
    "fault of code",
    advice="evaluate with the training run's statistics, loaded and frozen",
    explains="EVA801 EVA802",
    bug=BugLocation(
        fix="evaluate through the same normalizer, frozen: load its statistics, do not update them",
        check="evaluate once with and once without it",
        rlclinic=("rlclinic/training/evaluation.py", "evaluate", "observations go through see() with the learner's statistics"),
        sb3=(
            "stable_baselines3/common/callbacks.py",
            "EvalCallback._on_step",
            "wrap the evaluation environment in VecNormalize(training=False, norm_reward=False) and sync it",
        ),
        cleanrl=(
            "cleanrl_utils/evals/ppo_eval.py",
            "evaluate",
            "copy obs_rms of the training environments into the evaluation environments",
        ),
        own="whether the evaluation environment has the training environment's observation statistics",
    ),
)


@rule(
    "NRM702",
    severity=Severity.HIGH,
    needs=[EVAL_RETURN, RETURN, "config:env.normalize_obs"],
    cites=["raffin2021sb3"],
    causes=["evaluation-without-normalizer"],
    bad=lambda: cases.unsolved({"val/roll/ep_rew_mean": 15.0}, settings={"env.normalize_obs": True}),
)
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
    causes=["observation-scale"],
    bad=lambda: cases.unsolved({"train/sentinel/obs_std_min": 0.001, "train/sentinel/obs_abs_max": 5.0}),
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
    proof = evidence(sentinel("obs_std_min"), text, *case.span, smallest=deviation.median, largest=largest.median)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


cause(
    "advantages-not-scaled",
    "advantages not scaled",
    "fault of settings",
    doses=["scale-advantages"],
    explains="POL101 POL102",
)


@rule(
    "NRM704",
    severity=Severity.MEDIUM,
    algos=["ppo"],
    needs=["config:algo.normalize_advantage", sentinel("adv_std")],
    cites=["andrychowicz2021matters"],
    causes=["advantages-not-scaled"],
    bad=lambda: cases.unsolved({"train/sentinel/adv_std": 500.0}, settings={"algo.normalize_advantage": "off"}),
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
