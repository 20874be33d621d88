"""The learning rate and its schedule."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rlclinic.diagnosis.case import Case, first_value
from rlclinic.diagnosis.columns import KL, RETURN, applied, sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import ON_POLICY, BugLocation, cause, change, decades, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import detect, measures
from rlclinic.diagnosis.signals.off_policy import HIGHEST_RATE, OFF_POLICY
from rlclinic.runs.history import History, Series

WITH_SCHEDULES: Final = ("rlclinic", "sb3", "gymnasium-solver")
"""Sources that write schedules down; the settings of others are numbers, with or without a schedule on top."""
RATE: Final = "config:algo.learning_rate"
HIGH: Final = {"ppo": 1e-2, "a2c": 2e-2, "reinforce": 1e-1}
"""Above every tuned setting that we know of, by algorithm: PPO takes many steps on a rollout, REINFORCE one."""
LOW: Final = {"ppo": 1e-5, "a2c": 1e-5, "reinforce": 1e-4}
"""Below every tuned setting: rl-zoo3's lowest for PPO is 2e-5, with 160 gradient steps per rollout."""
LEAST_USUAL: Final = 1e-4
"""From here on PPO's rate is one that most scripts use."""
SWING: Final = 0.05
"""Share of the way to the threshold below which a return that goes up and down stays where it is."""


cause(
    "learning-rate-too-high",
    "policy step too large",
    "fault of settings",
    doses=["shorter-steps", "shorter-still", "fewer-epochs", "stop-at-kl", "warm-up", "cautious-values"],
    explains=(
        "ENT302 EVA802 GRD404 GRD405 GRD406 VAL201 VAL203 REW504 POL104 LRN107 ENV611 BUD103 GRD402 EVA801 ENT301 POL102 "
        "QVL101 QVL102 ACT102"
    ),
    watch=[
        {"series": "train/metrics/kl_divergence", "below": 0.03, "text": "KL <= 0.03"},
        {"series": "train/sentinel/entropy_relative", "above": 0.2, "text": "entropy > 20 % of its maximum at half time"},
    ],
)


@rule(
    "LRN101",
    severity=Severity.MEDIUM,
    algos=(*ON_POLICY, *OFF_POLICY),
    needs=[RATE],
    cites=["andrychowicz2021matters", "huang2022details"],
    causes=["learning-rate-too-high"],
    bad=lambda: cases.unsolved(settings={"algo.learning_rate": 0.05}),
)
def learning_rate_unusually_high(case: Case) -> Iterator[Finding]:
    """The learning rate is above all tuned settings of this algorithm.

    ## Why it hurts
    Steps overshoot: the policy becomes deterministic within a few updates, or swings between bad policies.

    ## When it is fine
    Tiny tasks with a schedule that falls to 0 learn with it, and faster: the run's KL divergence decides, not this number.
    """
    rate, limit = case.real("algo.learning_rate"), HIGH.get(case.algo, 1e-2)
    if rate is None or rate <= limit or case.setting("algo.optimizer") == "sgd":
        return
    # One number for one thing: QVL106 says the same of learners with a replay.
    usual = HIGHEST_RATE if case.algo in OFF_POLICY else limit
    text = f"learning_rate {say(rate)}; tuned settings stay below {say(usual)}"
    constant = not isinstance(case.setting("algo.learning_rate"), Mapping)
    proof = evidence(RATE, text + (", and it never falls" if constant else ""), value=rate, usual_most=limit)
    fix = change(case, "algo.learning_rate", {"start": 1e-3, "end": 0.0, "schedule": "linear"}, "a usual rate that falls to 0", "> 30 %")
    yield Finding(strength=grade(decades(rate / limit), 0.0, 0.5), text=text, evidence=(proof,), remedies=(fix,))


@rule(
    "LRN102",
    severity=Severity.MEDIUM,
    algos=ON_POLICY,
    needs=[RATE],
    cites=["andrychowicz2021matters"],
    causes=["learning-rate-too-low"],
    bad=lambda: cases.unsolved(settings={"algo.learning_rate": 1e-07}),
)
def learning_rate_unusually_low(case: Case) -> Iterator[Finding]:
    """The learning rate is below all tuned settings of this algorithm.

    ## Why it hurts
    The budget ends before the policy has changed enough to matter.

    ## When it is fine
    Fine-tuning a policy that is already good; very many gradient steps per rollout.
    """
    rate, limit = case.real("algo.learning_rate"), LOW.get(case.algo, 1e-5)
    if rate is None or rate >= limit or rate <= 0:
        return
    text = f"learning_rate {say(rate)}; tuned settings stay above {say(limit)}"
    fix = change(case, "algo.learning_rate", case.default("learning_rate"), "the usual rate of this algorithm", "> 30 %")
    proof = evidence(RATE, text, value=rate, usual_least=limit)
    yield Finding(strength=grade(decades(limit / rate), 0.0, 1.0), text=text, evidence=(proof,), remedies=(fix,))


cause(
    "learning-rate-too-low",
    "learning rate too low",
    "fault of settings",
    doses=["longer-steps", "longer-still", "more-epochs"],
    explains="POL102 ENT301 VAL201 VAL203 BUD101 EVA801 EVA802 REW504",
    watch=[{"series": "train/metrics/kl_divergence", "above": 0.001, "text": "KL >= 0.001 in the first half"}],
)


@rule(
    "LRN103",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[(KL, sentinel("kl_exact")), RATE],
    cites=["schulman2017ppo"],
    causes=["learning-rate-too-low"],
    bad=lambda: cases.unsolved(scaled={"train/metrics/kl_divergence": 0.001}),
)
def steps_too_small_for_the_budget(case: Case) -> Iterator[Finding]:
    """Every update is taken in full, and yet the policy hardly moves: the learning rate is too low.

    Early stops, a tight clip range, a gradient limit that bites and plain SGD are looked at first; what is left is the rate.

    ## Why it hurts
    Learning is right in direction but a hundred times too slow: the return creeps up, if at all.

    ## When it is fine
    A run with a very long budget that still gets there.
    """
    size = measures.step_size(case)
    strength = grade(-decades(max(size, 1e-9)), -decades(0.05), -decades(0.005))
    rate = case.number("learning_rate")
    stopped = measures.updates_share(case) < 0.7
    correlation = case.learning(sentinel("adv_logp_corr"))
    blind = len(correlation) > 0 and correlation.median < 0.01
    # A policy that is certain hardly moves in KL, however long its steps are.
    certain = measures.relative_entropy(case)
    blind = blind or (len(certain) > 0 and measures.in_learning(case, certain).median < 0.1)
    # One pass over each rollout moves a policy little at any rate: BAT101 and FAM101 have more to say about that.
    once = case.algo == "ppo" and case.count("algo.n_epochs") == 1 and (rate or 0.0) >= LEAST_USUAL
    if strength <= 0 or not case.sick or not rate or stopped or blind or once or _held_back(case):
        return
    # At a usual rate, a policy that hardly moves has another reason: nothing to learn from, or nothing to see.
    usual = HIGH.get(case.algo, 1e-2) / 30
    strength *= 0.4 + 0.6 * grade(-decades(rate / usual), -0.5, 0.3)
    # KL grows with the square of the rate: aim at half a usual step.
    factor = min((0.5 / max(size, 1e-6)) ** 0.5, 100.0)
    new = float(f"{min(rate * factor, HIGH.get(case.algo, 1e-2) / 4):.1g}")
    text = f"KL {say(size * measures.step_scale(case))} per update at learning_rate {say(rate)}: {say(size)} of a usual step"
    proof = evidence(measures.kl(case).name, text, *case.span, usual_steps=size, learning_rate=rate)
    fix = change(
        case, "algo.learning_rate", new, f"{say(new / rate)} x: KL grows with its square", "> 30 %", "watch that KL stays below 0.03"
    )
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,) if new > rate else ())


def _held_back(case: Case) -> bool:
    """Whether something other than the rate limits the step: plain SGD, a gradient limit, a tiny clip range, an early stop."""
    limit, norm = case.number("max_grad_norm"), case.learning("train/metrics/grad_norm/p50")
    cut = limit is not None and (norm.median / limit > 3e3 if len(norm) and limit > 0 else limit < 1e-4)
    clip, stop = case.real("algo.clip_range"), case.number("target_kl")
    tight = case.algo == "ppo" and ((clip is not None and clip < 0.03) or (stop is not None and stop < 1e-3))
    return case.setting("algo.optimizer") == "sgd" or cut or tight


cause(
    "learning-rate-schedule-too-short",
    "the learning rate falls to 0 too early",
    "fault of settings",
    doses=["whole-schedule", "steady-rate", "cosine-to-a-tenth"],
    explains="POL102 ENT301 VAL201 VAL203 POL108 GRD403 LRN103",
    watch=[{"series": "train/hp/learning_rate", "above": 0.0, "text": "the learning rate at half time"}],
)


@rule(
    "LRN104",
    severity=Severity.HIGH,
    needs=[(applied("learning_rate"), RATE)],
    cites=["engstrom2020matters"],
    causes=["learning-rate-schedule-too-short"],
    bad=lambda: cases.unsolved(
        {"train/hp/learning_rate": lambda share: np.maximum(1e-3 * (1 - 10 * share), 0)},
        settings={"algo.learning_rate": {"start": 1e-3, "end": 0.0, "schedule": "linear", "to": 0.1}},
    ),
    # Where nobody wrote the budget down, a schedule that ends with the log is one that ends with the run.
    good=[lambda: cases.foreign({"train/hp/learning_rate": lambda share: 1e-3 * (1 - share)}, max_env_steps=None)],
)
def schedule_ends_long_before_the_run(case: Case) -> Iterator[Finding]:
    """The learning rate reaches (almost) 0 long before the budget is used up.

    ## Why it hurts
    What is collected after that teaches nothing: the return stays where it was. Usually the schedule was made for another budget.

    ## When it is fine
    A last stretch at 0 for measuring only.
    """
    logged = case.signal(applied("learning_rate"))
    budget = float(case.budget or 0)
    if len(logged) < 4 and not budget:
        return
    steps = logged.steps if len(logged) >= 4 else np.linspace(0, budget, 101)
    rates = logged.values if len(logged) >= 4 else case.planned("learning_rate", steps)
    if rates is None or not len(rates) or rates.max() <= 0:
        return
    alive = np.flatnonzero(rates > 0.02 * rates.max())
    end = float(steps[alive[-1]]) if len(alive) else 0.0
    share = end / max(float(steps[-1]), budget if not len(logged) else 1.0)
    strength = grade(-share, -0.6, -0.3)
    if strength <= 0:
        return
    text = f"the learning rate is below 2 % of its start from {say(end)} env steps on ({percent(share)} of the run)"
    proof = evidence(RATE, text, end, float(steps[-1]), share=share)
    fix = change(
        case, "algo.learning_rate", {"start": float(rates.max()), "end": 0.0, "schedule": "linear"}, "fall over the whole budget", "> 30 %"
    )
    yield Finding(strength=strength, text=text, evidence=(proof,), onset=end, remedies=(fix,))


cause(
    "schedule-not-followed",
    "a schedule is not followed",
    "fault of code",
    advice="compute the schedule from the env steps taken and the whole budget, also after a resume",
    explains="LRN107 POL101",
    bug=BugLocation(
        fix="write the scheduled value into every optimizer.param_groups[i]['lr'] before each update",
        check="log optimizer.param_groups[0]['lr'] and lay it over the plan",
        rlclinic=("rlclinic/training/assembly.py", "assemble", "how schedules are given to the loop"),
        sb3=(
            "stable_baselines3/common/base_class.py",
            "BaseAlgorithm._update_learning_rate",
            "a custom callback or a train that does not call it; a total_timesteps that is not the real one",
        ),
        cleanrl=("ppo.py", "# Annealing the rate if instructed to do so", "frac and the number of iterations it is computed from"),
        own="where the schedule's value is computed and where it is applied, and the total that it is a share of",
    ),
)


@rule(
    "LRN105",
    severity=Severity.HIGH,
    needs=[applied("learning_rate"), RATE, "budget"],
    cites=["engstrom2020matters"],
    certain=True,
    causes=["schedule-not-followed"],
    bad=lambda: cases.unsolved({"train/hp/learning_rate": 0.001}),
    good=[lambda: _short_run_of_dqn()],
)
def schedule_not_followed(case: Case) -> Iterator[Finding]:
    """A hyperparameter that was applied is not the one that its schedule asks for.

    Planned values are computed from the config and the budget, and compared with those that the run logged.

    ## Why it hurts
    The run is another experiment than its config says: a rate that never falls, falls too early, or restarts after a resume.

    ## When it is fine
    Changes made by hand while it ran; those are known and left out.
    """
    if case.history.segments:
        return
    for name in ("learning_rate", "clip_range", "ent_coef"):
        logged = case.signal(applied(name))
        planned = case.planned(name, logged.steps) if len(logged) >= 4 else None
        if planned is None:
            continue
        scale = max(float(np.abs(planned).max()), 1e-12)
        if case.history.source not in WITH_SCHEDULES and np.ptp(planned) == 0 and _falls_from(logged.values, float(planned[0])):
            continue  # only where the rate begins was written down: that it falls from there is its schedule
        # A row's value was applied at the start of its iteration, one rollout or one row before the row's env step.
        before = max(2.5 * (case.rollout or 0), 1.5 * float(np.median(np.diff(logged.steps))))
        slack = before / max(float(case.budget or 1), 1.0) + 0.02
        off = np.abs(logged.values - planned) / scale
        share = float((off > slack).mean())
        if share > 0.3:
            worst = int(np.argmax(off))
            real, wanted = float(logged.values[worst]), float(planned[worst])
            text = f"{name} was {say(real)} at {say(float(logged.steps[worst]))} env steps; planned: {say(wanted)}"
            proof = evidence(applied(name), text, *case.span, share=share, largest=float(off[worst]))
            yield Finding(strength=grade(share, 0.2, 0.6), text=text, evidence=(proof,))


def _short_run_of_dqn() -> History:
    """3,000 env steps, a row every 64 of them: each has the rate of the row before, which is 2 % of the budget away."""
    steps = np.arange(64.0, 3_009.0, 64.0)
    schedule = {"schedule": "linear", "start": 0.002, "end": 0.0001}
    applied_rates = 0.002 - 0.0019 * (steps - 64.0) / 3_000.0
    run = cases.q_learner(settings={"algo.learning_rate": schedule})
    rates = Series(steps, applied_rates, applied("learning_rate"))
    return replace(run, max_env_steps=3_000, series={**run.series, rates.name: rates})


def _falls_from(values: NDArray[np.float64], start: float) -> bool:
    """Whether logged values begin at a number and never rise."""
    return bool(abs(values[0] - start) <= 0.1 * abs(start) and (np.diff(values) <= 0).all())


cause(
    "optimizer-mismatch",
    "plain SGD at a rate that suits Adam",
    "fault of settings",
    doses=["adam", "adam-at-a-third"],
    explains="POL102 ENT301 VAL201 VAL203 LRN103 GRD401",
)


@rule(
    "LRN106",
    severity=Severity.HIGH,
    algos=(*ON_POLICY, *OFF_POLICY),
    needs=["config:algo.optimizer", RATE],
    cites=["kingma2015adam"],
    causes=["optimizer-mismatch"],
    bad=lambda: cases.unsolved(settings={"algo.optimizer": "sgd"}),
)
def plain_sgd_at_the_rate_of_adam(case: Case) -> Iterator[Finding]:
    """Plain SGD with a learning rate that suits Adam.

    Adam's step has the length of its learning rate whatever the gradient's size; SGD's is rate times gradient, and the gradient is
    limited to max_grad_norm.

    ## Why it hurts
    Steps are a hundred times shorter than intended.

    ## When it is fine
    With a rate of 0.1 or more, tuned for it.
    """
    rate = case.real("algo.learning_rate")
    if case.setting("algo.optimizer") != "sgd" or rate is None or rate >= 0.05:
        return
    text = f"optimizer sgd with learning_rate {say(rate)}"
    proof = evidence("config:algo.optimizer", text, value=rate)
    fix = change(case, "algo.optimizer", "adam", "scales each weight's step by its gradients", "> 30 %")
    yield Finding(strength=grade(-decades(rate), 1.3, 2.3), text=text, evidence=(proof,), remedies=(fix,))


@rule(
    "LRN107",
    severity=Severity.MEDIUM,
    algos=ON_POLICY,
    needs=[RETURN, RATE],
    cites=["engstrom2020matters"],
    causes=["learning-rate-too-high"],
    bad=lambda: cases.unsolved(
        {"val/roll/ep_rew_mean": cases.saw_tooth, "train/roll/ep_rew_mean": cases.saw_tooth, "train/metrics/kl_divergence": 0.02},
        settings={"algo.learning_rate": 0.003},
    ),
)
def late_swings_at_a_constant_rate(case: Case) -> Iterator[Finding]:
    """The return swings widely to the end, with a learning rate that never falls.

    ## Why it hurts
    A good policy is found and lost again and again: which one is kept is luck.

    ## When it is fine
    Environments whose returns vary that much under one fixed policy.
    """
    rate = case.setting("algo.learning_rate")
    if isinstance(rate, Mapping) or not case.sick:
        return
    judged = case.returns if len(case.returns.share(0.4)) >= detect.SHORTEST else case.signal(RETURN)
    late = judged.share(0.4)
    swing = detect.oscillation(late)
    size = measures.step_size(case)
    if swing < 1.5 or len(late) < detect.SHORTEST or not size > 0.5:
        return
    progress = case.progress
    if progress is not None and case.threshold is not None and late.top - late.bottom < SWING * (case.threshold - progress.start):
        return  # a policy that lies at the bottom twitches: nothing is found there, and nothing lost
    text = f"the return swings between {say(late.bottom)} and {say(late.top)} to the end; learning_rate is constant"
    proof = evidence(judged.name, text, float(late.steps[0]), float(late.steps[-1]), low=late.bottom, high=late.top)
    value = first_value(rate)
    fix = change(case, "algo.learning_rate", {"start": value, "end": 0.0, "schedule": "linear"}, "let it fall to 0", "10-30 %")
    yield Finding(strength=grade(swing, 1.0, 2.5), text=text, evidence=(proof,), remedies=(fix,))
