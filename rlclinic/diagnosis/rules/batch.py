"""Rollouts, minibatches and epochs: how much data an update sees, and how many updates there are."""

import math
from collections.abc import Iterator

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import ON_POLICY, BugLocation, advice, cause, change, decades, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import measures

SHAPE = ("config:env.n_envs", "config:algo.n_steps")
USUAL_ROLLOUT = 4096
"""Transitions between updates up to which a config is not unusual."""
FEWEST_ROWS = 32
"""Transitions of a minibatch below which nobody is sent."""
SMALL_RATE = 2.5e-4
"""With such steps even eight transitions an update are enough: rl-zoo3's tuned MountainCarContinuous and InvertedPendulum."""


cause(
    "too-few-updates",
    "too few gradient steps",
    "fault of settings",
    doses=["more-updates", "minibatches", "more-epochs", "learn-at-every-step"],
    explains="POL102 ENT301 VAL201 VAL203 LRN103 BUD101 POL108",
)


@rule(
    "BAT101",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[*SHAPE],
    cites=["schulman2016nuts"],
    causes=["too-few-updates"],
    bad=lambda: cases.unsolved(settings={"algo.n_steps": 1024, "algo.batch_size": 8192, "algo.n_epochs": 1}),
)
def too_few_gradient_steps(case: Case) -> Iterator[Finding]:
    """The whole run makes only a handful of gradient steps.

    ## Why it hurts
    However good each step is, there are too few of them: rollouts are too long for the budget, or each is used too little.

    ## When it is fine
    Very large batches with a learning rate to match, and a budget of many millions of steps.
    """
    # Where nobody knows the budget, what was trained counts, once that should have shown something.
    budget = case.budget or (case.trained if case.sick else 0)
    if case.rollout is None or not budget:
        return
    rollouts = math.ceil(budget / case.rollout)
    # Where minibatches are not known, a pass over the rollout is one step or more.
    planned = case.planned_updates or (case.count("algo.n_epochs") if case.algo == "ppo" else None)
    if planned is None or (case.planned_updates is None and case.rollout <= USUAL_ROLLOUT):
        return
    steps = rollouts * planned
    # PPO's steps are held short by its clip range; REINFORCE takes few and long ones.
    weak, strong = (300.0, 80.0) if case.algo == "ppo" else (60.0, 20.0)
    # Few rollouts of a usual length are a small budget, which is another matter.
    long = case.rollout > USUAL_ROLLOUT
    strength = max(
        grade(-steps, -weak, -strong) if case.planned_updates and (long or planned < 8) else 0.0,
        grade(-rollouts, -10.0, -4.0) if long else 0.0,
    )
    if strength <= 0:
        return
    text = (
        f"{steps} gradient steps in the whole run: {rollouts} rollouts of {case.rollout} transitions, {planned} steps on each"
        if case.planned_updates
        else f"{rollouts} rollouts of {case.rollout} transitions in the whole run, {planned} passes over each"
    )
    proof = evidence("config:algo.n_steps", text, gradient_steps=float(steps), rollouts=float(rollouts))
    fixes = []
    if rollouts < 50:
        n_steps = max(int(budget / 50 / (case.count("env.n_envs") or 1)), 16)
        n_steps = 1 << (n_steps.bit_length() - 1)
        if n_steps < (case.count("algo.n_steps") or math.inf):
            fixes.append(change(case, "algo.n_steps", n_steps, "50 rollouts or more in the budget", "> 30 %"))
    if case.algo == "ppo" and planned < 20:
        size, epochs = case.real("algo.batch_size") or 1.0, case.count("algo.n_epochs") or 1
        quarter, rows = case.rollout / 4, size * case.rollout if size <= 1 else size
        if FEWEST_ROWS <= quarter < rows:
            fixes.append(change(case, "algo.batch_size", 0.25, "four minibatches per epoch", "> 30 %"))
        if epochs < 10:
            fixes.append(change(case, "algo.n_epochs", 10, "use each rollout ten times", "> 30 %"))
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=tuple(fixes[:3]))


cause(
    "rollout-too-small",
    "rollouts too short",
    "fault of settings",
    doses=["longer-rollouts", "more-copies", "shorter-steps"],
    explains="POL101 LRN107 VAL201 EVA802",
)


@rule(
    "BAT102",
    severity=Severity.MEDIUM,
    algos=["ppo"],
    needs=[*SHAPE],
    cites=["schulman2016nuts", "andrychowicz2021matters"],
    causes=["rollout-too-small"],
    bad=lambda: cases.unsolved(settings={"env.n_envs": 1, "algo.n_steps": 16, "algo.batch_size": 16}),
)
def rollout_tiny(case: Case) -> Iterator[Finding]:
    """An update sees only a few transitions.

    ## Why it hurts
    Advantages of a few steps say little about anything, and normalizing them blows noise up to full size.

    ## When it is fine
    Many such updates with a small learning rate; A2C is made for short rollouts.
    """
    rate = case.real("algo.learning_rate")
    if case.rollout is None or case.rollout >= 64 or (rate is not None and rate <= SMALL_RATE):
        return
    text = f"{case.rollout} transitions per update (n_envs {case.setting('env.n_envs')} x n_steps {case.setting('algo.n_steps')})"
    fix = change(case, "algo.n_steps", max(256 // (case.count("env.n_envs") or 1), 32), "256 transitions or more", "10-30 %")
    proof = evidence("config:algo.n_steps", text, transitions=float(case.rollout))
    yield Finding(strength=grade(-case.rollout, -64.0, -16.0), text=text, evidence=(proof,), remedies=(fix,))


cause(
    "too-many-epochs",
    "too many epochs per rollout",
    "fault of settings",
    doses=["fewer-epochs", "stop-at-kl", "shorter-steps"],
    explains="POL101 ENT302 EVA802 GRD404 GRD405 GRD406 VAL201 REW504 POL104 LRN107 BUD103",
    watch=[{"series": "train/metrics/kl_divergence", "below": 0.03, "text": "KL <= 0.03"}],
)


@rule(
    "BAT103",
    severity=Severity.HIGH,
    algos=["ppo"],
    needs=["config:algo.n_epochs"],
    cites=["schulman2017ppo", "moalla2024collapse"],
    causes=["too-many-epochs"],
    bad=lambda: cases.unsolved(settings={"algo.n_epochs": 80}),
)
def very_many_epochs(case: Case) -> Iterator[Finding]:
    """Each rollout is passed over far more often than usual.

    ## Why it hurts
    After a few passes the policy has moved away from the one that collected the data: the rest fits noise, and features degenerate.

    ## When it is fine
    With target_kl, which ends the passes in time; with a small learning rate.
    """
    epochs = case.count("algo.n_epochs")
    if not epochs or epochs < 30 or case.setting("algo.target_kl") is not None:
        return
    text = f"n_epochs {epochs}; usual is 3 to 20"
    fix = change(case, "algo.n_epochs", 10, "a usual number of passes", "10-30 %")
    yield Finding(
        strength=grade(epochs, 25.0, 50.0),
        text=text,
        evidence=(evidence("config:algo.n_epochs", text, value=float(epochs)),),
        remedies=(fix,),
    )


cause(
    "updates-missing",
    "gradient steps are missing",
    "fault of code",
    advice="look at the loop over minibatches: are all of them visited in each epoch?",
    bug=BugLocation(
        fix="run n_epochs x rollout / batch_size gradient steps per rollout, each with zero_grad, backward and step",
        check="count optimizer.step() calls per rollout",
        rlclinic=("rlclinic/training/loops/on_policy.py", "learn", "the loop over minibatches"),
        sb3=("stable_baselines3/ppo/ppo.py", "PPO.train", "target_kl stops the epochs, or a batch_size larger than the buffer"),
        cleanrl=("ppo.py", "the loops over update_epochs and minibatches", "a break or a continue that is taken too often"),
        own="an early break, an optimizer that is stepped every other batch, an exception that is swallowed",
    ),
)


@rule(
    "BAT104",
    severity=Severity.HIGH,
    algos=["ppo"],
    needs=[sentinel("updates"), "config:algo.n_epochs", "config:algo.batch_size"],
    cites=["schulman2017ppo"],
    certain=True,
    causes=["updates-missing"],
    bad=lambda: cases.unsolved({"train/sentinel/updates": 10.0}),
)
def gradient_steps_missing(case: Case) -> Iterator[Finding]:
    """Fewer gradient steps are taken than the config asks for, and no target_kl stops them.

    ## Why it hurts
    Minibatches are skipped: part of every rollout is never learned from.

    ## When it is fine
    Never without an early stop.
    """
    share = measures.updates_share(case)
    if case.setting("algo.target_kl") is not None or not share < 0.95:
        return
    taken = case.sentinel("updates").median
    text = f"{say(taken)} of {case.planned_updates} planned gradient steps per rollout are taken"
    fix = advice("look at the loop over minibatches: are all of them visited in each epoch?", "10-30 %")
    yield Finding(
        strength=grade(-share, -0.98, -0.8),
        text=text,
        evidence=(evidence(sentinel("updates"), text, *case.span, share=share),),
        remedies=(fix,),
    )


@rule(
    "BAT105",
    severity=Severity.HIGH,
    algos=["ppo"],
    needs=["config:algo.clip_range"],
    cites=["schulman2017ppo", "andrychowicz2021matters"],
    causes=["clip-range-too-small"],
    bad=lambda: cases.unsolved(settings={"algo.clip_range": 0.004}),
)
def clip_range_out_of_the_usual(case: Case) -> Iterator[Finding]:
    """clip_range is far from what is usual.

    ## Why it hurts
    A hundredth of the usual range stops each update where it began; ten times the usual range is none.

    ## When it is fine
    At the end of a schedule that falls to 0.
    """
    start = case.real("algo.clip_range")
    if start is None or 0.03 <= start <= 0.7:
        return
    text = f"clip_range {say(start)}; usual is 0.1 to 0.3"
    strength = grade(-decades(start), 1.5, 2.0) if start < 0.03 else 0.6
    fix = change(case, "algo.clip_range", 0.2, "the usual range", "10-30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence("config:algo.clip_range", text, value=start),), remedies=(fix,))


@rule(
    "BAT106",
    severity=Severity.HIGH,
    algos=["ppo"],
    needs=["config:algo.target_kl"],
    cites=["schulman2017ppo"],
    causes=["target-kl-too-tight"],
    bad=lambda: cases.unsolved(settings={"algo.target_kl": 1e-05}),
)
def target_kl_far_below_the_usual(case: Case) -> Iterator[Finding]:
    """target_kl is so small that the first gradient step passes it.

    ## Why it hurts
    Every rollout is thrown away after one step.

    ## When it is fine
    With very large batches and tiny steps.
    """
    limit = case.number("target_kl")
    if limit is None or limit >= 1e-3:
        return
    text = f"target_kl {say(limit)}; usual is 0.01 to 0.03"
    fix = change(case, "algo.target_kl", 0.02, "the usual value", "> 30 %")
    strength = grade(-decades(limit), 3.0, 4.0)
    yield Finding(strength=strength, text=text, evidence=(evidence("config:algo.target_kl", text, value=limit),), remedies=(fix,))


@rule(
    "BAT107",
    severity=Severity.MEDIUM,
    needs=["config:algo.max_grad_norm"],
    cites=["godbole2023playbook"],
    causes=["gradient-clip-too-tight"],
    bad=lambda: cases.unsolved({"train/hp/max_grad_norm": 1e-05}),
)
def gradient_limit_tiny(case: Case) -> Iterator[Finding]:
    """max_grad_norm is far below any usual gradient.

    ## Why it hurts
    Gradients are cut to almost nothing; with Adam this bites when they fall below its epsilon, with SGD at once.

    ## When it is fine
    With Adam and a small epsilon it is often harmless.
    """
    limit = case.number("max_grad_norm")
    if limit is None or limit >= 0.01:
        return
    text = f"max_grad_norm {say(limit)}; usual is 0.3 to 5"
    fix = change(case, "algo.max_grad_norm", 0.5, "the usual limit", "10-30 %")
    strength = grade(-decades(limit), 2.0, 4.0)
    yield Finding(strength=strength, text=text, evidence=(evidence("config:algo.max_grad_norm", text, value=limit),), remedies=(fix,))


@rule(
    "BAT108",
    severity=Severity.MEDIUM,
    algos=ON_POLICY,
    needs=["config:net.policy_gain"],
    cites=["andrychowicz2021matters"],
    causes=["initial-policy-too-sure"],
    bad=lambda: cases.unsolved(settings={"net.policy_gain": 30.0}),
)
def policy_head_starts_large(case: Case) -> Iterator[Finding]:
    """The policy's last layer starts with large weights.

    ## Why it hurts
    The first policy has strong preferences at random: early data is one-sided.

    ## When it is fine
    With gains up to 1 on most tasks.
    """
    gain = case.real("net.policy_gain")
    if gain is None or gain <= 2:
        return
    text = f"net.policy_gain {say(gain)}; usual is 0.01"
    fix = change(case, "net.policy_gain", 0.01, "start with equal preferences", "10-30 %")
    yield Finding(
        strength=grade(decades(gain), 0.3, 1.3),
        text=text,
        evidence=(evidence("config:net.policy_gain", text, value=gain),),
        remedies=(fix,),
    )


@rule(
    "BAT109",
    severity=Severity.LOW,
    algos=ON_POLICY,
    needs=[sentinel("updates")],
    cites=["godbole2023playbook"],
    bad=lambda: cases.unsolved({"train/sentinel/updates": 8.0}, settings={"algo.target_kl": 0.01}),
)
def target_kl_stops_many_updates(case: Case) -> Iterator[Finding]:
    """target_kl ends most rollouts' epochs early, though not at once.

    ## Why it hurts
    A part of each rollout's use is lost: the learning rate is higher than target_kl allows.

    ## When it is fine
    As a safety net that is rarely used.
    """
    share = measures.updates_share(case)
    if case.setting("algo.target_kl") is None or not 0.2 < share < 0.6:
        return
    text = f"{percent(share)} of the planned gradient steps are taken before target_kl stops them"
    yield Finding(strength=grade(-share, -0.7, -0.4), text=text, evidence=(evidence(sentinel("updates"), text, *case.span, share=share),))
