"""Replay, target networks and exploration of learners that reuse old data: DQN, SAC, TD3, DDPG."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from rlclinic.diagnosis import columns
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import EVAL_RETURN, RETURN, sentinel
from rlclinic.diagnosis.findings import Finding, Remedy, Severity
from rlclinic.diagnosis.registry import BugLocation, advice, cause, change, decades, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import off_policy
from rlclinic.diagnosis.signals.off_policy import ACTORS, OFF_POLICY, Q_LEARNERS

DISTANCE: Final = off_policy.DISTANCE
TAU: Final = ("config:algo.tau", "config:algo.target_update_interval")
SIZE, STARTS = "config:algo.buffer_size", "config:algo.learning_starts"
UPDATES: Final = (sentinel("updates_per_step"), sentinel(off_policy.STEPS), "config:algo.gradient_steps")
USUAL_WARM_UP: Final = 1000.0
"""Env steps before the first gradient step that many scripts begin with, whatever their budget."""
FEW: Final = 6000.0
"""Gradient steps in a run: tuned settings have 10,000 or more, of small tasks too."""


cause(
    "target-not-updated",
    "the target network hardly ever moves",
    "fault of settings",
    doses=["renew-the-target", "soft-target"],
    explains="QVL108 RPL103",
)


@rule(
    "RPL101",
    severity=Severity.HIGH,
    algos=OFF_POLICY,
    needs=[TAU],
    cites=["mnih2015dqn", "lillicrap2016ddpg"],
    causes=["target-not-updated"],
    bad=lambda: cases.q_learner(settings={"algo.target_update_interval": 6000}),
)
def target_network_hardly_ever_moves(case: Case) -> Iterator[Finding]:
    """The target network takes up only a handful of times in the whole run what has been learned.

    ## Why it hurts
    Every round of the target carries rewards one step further back. With a target that stands still the values stay those of a few
    steps ahead, however long the run is.

    ## When it is fine
    Tasks whose reward comes at once.
    """
    # A budget of a few hundred gradient steps is too short for any target: that is another fault.
    lag, total = off_policy.target_lag(case), max(off_policy.updates_per_step(case) * float(case.budget or 0), 4000.0)
    if not lag or lag != lag or not case.sick or off_policy.never_learned(case):
        return
    rounds = total / lag
    strength = grade(-decades(rounds), -decades(20.0), -decades(6.0))
    if rounds > 1.5 and case.history.source == "sb3" and case.real("algo.target_update_interval") == off_policy.SB3_DQN_COPIES_EVERY:
        # Nobody chose it, and what trials of other values showed was no cure: it is one possibility among others.
        strength *= 0.15
    if strength <= 0:
        return
    text = f"the target network is renewed about {say(rounds)} times in the run"
    proof = evidence("config:algo.tau", text, rounds=rounds, gradient_steps_behind=lag)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(_usual_target(case),))


cause(
    "target-follows-at-once",
    "the target network follows at once",
    "fault of settings",
    doses=["renew-the-target", "soft-target", "cautious-values"],
    explains="QVL101 QVL102 QVL109",
)


@rule(
    "RPL102",
    severity=Severity.HIGH,
    algos=OFF_POLICY,
    needs=[TAU],
    cites=["mnih2015dqn", "lillicrap2016ddpg"],
    causes=["target-follows-at-once"],
    bad=lambda: cases.soft_actor(settings={"algo.tau": 1.0}),
)
def target_follows_the_network_at_once(case: Case) -> Iterator[Finding]:
    """The target network is the trained one, or lags it by a step or two.

    ## Why it hurts
    Each step moves the values that the next one aims at: they chase themselves, oscillate and overestimate.

    ## When it is fine
    Small tables; algorithms that normalize in place of target networks (CrossQ).
    """
    lag = off_policy.target_lag(case)
    strength = grade(-lag, -16.0, -5.0)
    # Where gradient steps are rare, a target that follows each of them is the lesser evil.
    rare = off_policy.updates_per_step(case) < off_policy.RARE
    if not strength > 0 or not case.sick or rare or off_policy.never_learned(case):
        return
    text = f"the target network lies {say(lag)} gradient steps behind"
    yield Finding(strength=strength, text=text, evidence=(evidence("config:algo.tau", text, lag=lag),), remedies=(_usual_target(case),))


def _usual_target(case: Case) -> Remedy:
    """Targets as tuned settings have them: copied every few hundred steps, or averaged slowly."""
    if case.algo in Q_LEARNERS and (case.real("algo.tau") or 1.0) >= 0.5:
        every = 500 if case.budget is None else int(min(max(case.budget / 200, 10), 10_000))
        return change(case, "algo.target_update_interval", every, "about 200 renewals in the run", "> 30 %")
    return change(case, "algo.tau", 0.005, "an average over about 200 gradient steps", "> 30 %")


cause(
    "target-update-wrong",
    "the target network is not updated as the settings say",
    "fault of code",
    advice="copy the network to its target when the interval has passed (or by a share tau), and never share their tensors",
    explains="QVL101 QVL102 QVL108 QVL109",
    bug=BugLocation(
        fix=(
            "copy the network to its target when the interval has passed (tau 1), or take over a share tau at every update; "
            "the target has tensors of its own"
        ),
        check="assert (target is not network) and target_distance > 0 between two copies, and 0 right after one",
        rlclinic=("rlclinic/training/loops/off_policy.py", "follow", "whether it is called, how often, and with which tau"),
        sb3=(
            "stable_baselines3/dqn/dqn.py",
            "DQN._on_step",
            "polyak_update every target_update_interval // n_envs calls; in SAC and TD3 inside train()",
        ),
        cleanrl=(
            "dqn.py",
            "the block under global_step % args.target_network_frequency",
            "target_network_param.data.copy_(tau * q + (1 - tau) * target)",
        ),
        own="where the target network is made (a copy, not a second name) and where it is updated: count how often that line runs",
    ),
)


@rule(
    "RPL103",
    severity=Severity.HIGH,
    algos=OFF_POLICY,
    needs=[sentinel("target_updates"), TAU],
    cites=["mnih2015dqn"],
    certain=True,
    causes=["target-update-wrong"],
    bad=lambda: cases.q_learner({"train/sentinel/target_updates": 1.0}),
)
def target_network_does_not_do_what_the_settings_say(case: Case) -> Iterator[Finding]:
    """The target network is renewed at other times than the settings say, or is the network itself although it should lag.

    ## Why it hurts
    It is a bug, not a choice: the copy is missing, made at every step, or shares its tensors with the network.

    ## When it is fine
    A network that does not learn at all has a target that equals it.
    """
    renewed, planned, lag = case.sentinel("target_updates"), off_policy.planned_renewals(case), off_policy.target_lag(case)
    if len(renewed) < 4 or planned != planned:
        return
    mean, distance = float(renewed.values.mean()), case.signal(DISTANCE).share(0.1)
    text = f"the target network is renewed after {percent(mean)} of the turns; the settings ask for {percent(planned)}"
    # Rows are few where copies are rare: all of them must have had their chance.
    turns = (case.budget or 0) / max(off_policy.cycle_size(case), 1)
    missing, often = mean < 0.2 * planned and planned * turns > 10, mean > 0.5 and planned < 0.2
    equal = float((distance.values <= 1e-9).mean()) if len(distance) else 0.0
    if not (missing or often) and lag >= 8 and equal > 0.9 and case.sentinel("update_ratio_max").median > 0:
        text = (
            f"the target network equals the network in {percent(equal)} of the rows; it should lie about {say(lag)} gradient steps behind"
        )
    elif not (missing or often):
        return
    fix = advice("copy the network when the interval has passed (or by a share tau), and never share its tensors", "> 30 %")
    proof = evidence(sentinel("target_updates"), text, *case.span, renewed=mean, planned=planned)
    yield Finding(text=text, evidence=(proof,), remedies=(fix,))


cause(
    "replay-too-small",
    "the replay forgets too soon",
    "fault of settings",
    doses=["larger-replay", "larger-replay+third-of-the-rate"],
    explains="QVL102 EVA802",
)


@rule(
    "RPL104",
    severity=Severity.HIGH,
    algos=OFF_POLICY,
    needs=[SIZE, "budget"],
    cites=["mnih2015dqn", "fedus2020replay"],
    causes=["replay-too-small"],
    bad=lambda: cases.q_learner(settings={"algo.buffer_size": 200}),
)
def replay_forgets_too_soon(case: Case) -> Iterator[Finding]:
    """The replay holds a few episodes only.

    ## Why it hurts
    Minibatches come from one stretch of one policy: they are alike, what was learned about other states is overwritten, and the return
    saw-tooths.

    ## When it is fine
    Very short tasks; a budget that is not much longer than the replay.
    """
    size, budget = case.real("algo.buffer_size"), float(case.budget or 0)
    if not size or not case.sick or off_policy.never_learned(case):
        return
    length = case.signal(columns.LENGTH)
    episodes = size / max(length.median, 1.0) if len(length) else 0.0
    strength = min(grade(-decades(size), -decades(6000.0), -decades(1500.0)), grade(-size / budget, -0.25, -0.1))
    if strength <= 0:
        return
    text = f"the replay holds {say(size)} transitions, {percent(size / budget)} of the run" + (
        f" and about {say(episodes)} episodes" if episodes else ""
    )
    fix = change(case, "algo.buffer_size", int(max(min(budget, 100_000), 10_000)), "most of the run", "> 30 %", "more memory")
    yield Finding(strength=strength, text=text, evidence=(evidence(SIZE, text, size=size, share=size / budget),), remedies=(fix,))


cause(
    "learning-starts-too-late",
    "learning starts too late",
    "fault of settings",
    doses=["learn-sooner", "more-steps"],
    explains="BUD101 QVL108",
)


@rule(
    "RPL105",
    severity=Severity.HIGH,
    algos=OFF_POLICY,
    needs=[(STARTS, sentinel(off_policy.STEPS), *off_policy.LOSSES)],
    cites=["mnih2015dqn"],
    causes=["learning-starts-too-late"],
    bad=lambda: cases.q_learner(settings={"algo.learning_starts": 4500}),
)
def learning_begins_late(case: Case) -> Iterator[Finding]:
    """A large part of the budget is over before the first gradient step.

    ## Why it hurts
    Until then every action is random and nothing is learned; what is left of the budget may not suffice.

    ## When it is fine
    A warm-up that fills the replay from a good policy.
    """
    start, budget = off_policy.learning_starts(case), max(float(case.budget or case.trained), 1.0)
    # Where nobody knows the budget, the log may be the beginning of a longer one.
    strength = grade(start / budget, 0.25, 0.45) * (1.0 if case.budget else 0.8)
    # A warm-up of a usual length fills a budget that is too small for anything: that is BUD104's to say.
    strength *= 0.2 if start <= USUAL_WARM_UP and budget < 2 * USUAL_WARM_UP else 1.0
    if strength <= 0 or not case.sick:
        return
    text = f"the first gradient step comes after {say(start)} env steps, {percent(start / budget)} of the run"
    fix = change(case, "algo.learning_starts", int(max(100, 0.02 * budget)), "2 % of the run", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(STARTS, text, share=start / budget),), remedies=(fix,))


@rule(
    "RPL106",
    severity=Severity.HIGH,
    algos=OFF_POLICY,
    needs=[UPDATES],
    cites=["fedus2020replay"],
    causes=["too-few-updates"],
    bad=lambda: cases.q_learner({"train/sentinel/updates_per_step": 0.005}),
)
def few_gradient_steps_per_env_step(case: Case) -> Iterator[Finding]:
    """There are so few gradient steps that most of what is collected is never learned from.

    ## Why it hurts
    A network needs some thousands of steps whatever the data; here the budget ends before. More envs with the same gradient_steps
    are the usual way to get there: each step of all envs is learned from as often as one of a single env was.

    ## When it is fine
    Very long runs of very fast simulators.
    """
    rate, total = off_policy.updates_per_step(case), off_policy.gradient_steps(case)
    # How many there are decides; that they are rare tells it from a budget that is too small for any rate.
    rare = grade(-decades(rate), -decades(off_policy.RARE), -decades(off_policy.RARE / 3))
    strength = min(rare, grade(-decades(total), -decades(FEW), -decades(FEW / 4)))
    if not strength > 0 or not case.sick or off_policy.never_learned(case):
        return
    text = f"one gradient step in {say(1 / rate)} env steps, {say(total)} in the run"
    fixes = (change(case, "algo.gradient_steps", -1, "as many as env steps are taken", "> 30 %", "slower per env step"),)
    yield Finding(strength=strength, text=text, evidence=(evidence(UPDATES[0], text, *case.span, rate=rate, total=total),), remedies=fixes)


cause(
    "batch-too-small",
    "minibatches of a few transitions",
    "fault of settings",
    doses=["usual-minibatches", "usual-minibatches+third-of-the-rate"],
    explains="EVA802 EVA801 ENV611",
)


@rule(
    "RPL114",
    severity=Severity.HIGH,
    algos=OFF_POLICY,
    needs=["config:algo.batch_size"],
    cites=["mnih2015dqn"],
    causes=["batch-too-small"],
    bad=lambda: cases.q_learner(settings={"algo.batch_size": 2}),
)
def minibatches_of_a_few_transitions(case: Case) -> Iterator[Finding]:
    """Each gradient step sees only a few transitions.

    ## Why it hurts
    Errors of single transitions, outliers among them, move the whole network: values jump about, and what one step learned the next
    undoes.

    ## When it is fine
    Small learning rates and very many steps.
    """
    size = case.real("algo.batch_size")
    strength = 0.0 if not size else grade(-decades(size), -decades(16.0), -decades(6.0))
    if not strength > 0 or not case.unproven or off_policy.never_learned(case):
        return
    text = f"{say(size or 0.0)} transitions per gradient step; usual are 32 to 256"
    fix = change(case, "algo.batch_size", 64, "the errors of 64 transitions average out", "> 30 %", "slower per gradient step")
    yield Finding(strength=strength, text=text, evidence=(evidence("config:algo.batch_size", text, value=size or 0.0),), remedies=(fix,))


cause(
    "too-many-updates",
    "too many gradient steps per env step",
    "fault of settings",
    doses=["learn-at-every-step", "normalize-layers", "third-of-the-rate"],
    explains="QVL101 QVL102 GRD404",
)


@rule(
    "RPL107",
    severity=Severity.HIGH,
    algos=OFF_POLICY,
    needs=[UPDATES],
    cites=["sokar2023dormant", "fedus2020replay"],
    causes=["too-many-updates"],
    bad=lambda: cases.q_learner({"train/sentinel/updates_per_step": 16.0}),
)
def many_gradient_steps_per_env_step(case: Case) -> Iterator[Finding]:
    """Each transition is learned from so often that the values run ahead of the data.

    ## Why it hurts
    The network fits its own early mistakes: values overestimate, units die, and later data can no longer move it.

    ## When it is fine
    Algorithms made for it: resets, ensembles, layer normalization (REDQ, DroQ, SR-SAC).
    """
    rate = off_policy.updates_per_step(case)
    strength = grade(decades(rate), decades(4.0), decades(12.0))
    if not strength > 0 or not case.sick or case.setting("net.layer_norm") is True or off_policy.never_learned(case):
        return
    text = f"{say(rate)} gradient steps per env step"
    fix = change(case, "algo.gradient_steps", -1, "one per env step", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(UPDATES[0], text, *case.span, rate=rate),), remedies=(fix,))


cause(
    "exploration-never-ends",
    "random actions never end",
    "fault of settings",
    doses=["explore-less"],
    explains="EVA801",
)


@rule(
    "RPL108",
    severity=Severity.HIGH,
    algos=Q_LEARNERS,
    needs=[(off_policy.EPSILON, "config:algo.exploration_final_eps")],
    cites=["mnih2015dqn"],
    causes=["exploration-never-ends"],
    bad=lambda: cases.q_learner({"train/hp/epsilon": 0.8}),
)
def actions_stay_random(case: Case) -> Iterator[Finding]:
    """A large share of all actions is random to the end.

    ## Why it hurts
    States that only a skilled policy reaches are never seen, because something random happens on the way; the training return stays
    low even if the greedy policy is good.

    ## When it is fine
    Short tasks, where a few random actions do no harm.
    """
    share = off_policy.epsilon(case)
    late = share.share(0.7)
    strength = grade(late.median, 0.25, 0.5)
    if not strength > 0 or not case.sick:
        return
    text = f"{percent(late.median)} of the actions are still random at the end"
    trained, judged = case.signal(RETURN).share(0.7), case.signal(EVAL_RETURN).share(0.7)
    if len(trained) and len(judged):
        text += f"; the return is {say(trained.median)} while training and {say(judged.median)} without them"
    fix = change(case, "algo.exploration_final_eps", 0.05, "one action in twenty", "> 30 %")
    proof = evidence(off_policy.EPSILON, text, *case.span, share=late.median)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


cause(
    "exploration-ends-too-early",
    "exploration ends before anything was found",
    "fault of settings",
    doses=["explore-longer", "learned-temperature"],
    explains="REW501 REW505",
)


@rule(
    "RPL109",
    severity=Severity.HIGH,
    algos=Q_LEARNERS,
    needs=[(off_policy.EPSILON, "config:algo.exploration_fraction"), "budget"],
    cites=["mnih2015dqn", "nikanjam2022faults"],
    causes=["exploration-ends-too-early"],
    bad=lambda: cases.q_learner({"train/hp/epsilon": 0.01}, settings={"algo.learning_starts": 10}),
)
def randomness_ends_at_once(case: Case) -> Iterator[Finding]:
    """Hardly any action is random from the first per cent of the run on.

    ## Why it hurts
    A network that knows nothing decides what is tried: it repeats one action, and better ones are never seen.

    ## When it is fine
    Tasks whose dynamics explore by themselves; replays that are filled before.
    """
    share, budget = off_policy.epsilon(case), float(case.budget or 1)
    if len(share) < 4 or not case.sick or case.setting("algo.exploration") == "boltzmann":
        return
    # What is random before learning starts does explore, whatever epsilon says.
    low = share.values <= 0.15
    reached = 0.0 if low[0] else float(share.steps[np.argmax(low)]) if low.any() else budget
    until = max(reached, off_policy.learning_starts(case)) / budget
    strength = min(grade(-until, -0.05, -0.02), grade(-share.share(0.3).median, -0.15, -0.1))
    if strength <= 0:
        return
    text = f"from {percent(until)} of the run on, no more than {percent(share.share(0.3).median)} of the actions are random"
    fix = change(case, "algo.exploration_fraction", 0.2, "let it fall over a fifth of the run", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(off_policy.EPSILON, text, 0, reached, share=until),), remedies=(fix,))


cause(
    "importance-weights-missing",
    "prioritized replay without importance weights",
    "fault of code",
    advice="multiply each row's loss by (count x probability) ** -beta, as a share of the batch's largest",
    bug=BugLocation(
        fix="multiply each row's loss by (count x probability) ** -beta, divided by the largest of the batch",
        check="assert weights.min() < weights.max()  # once priorities differ and beta > 0",
        rlclinic=("rlclinic/training/data/prioritized.py", "sample", "the weights that are returned with the rows"),
        sb3=(
            "your subclass of ReplayBuffer",
            "sample",
            "SB3 has no prioritized replay: the weights must reach the loss in a copied train()",
        ),
        cleanrl=("rainbow_atari.py", "the loss on the sampled batch", "(loss_per_sample * data.weights).mean()"),
        own="where the loss is averaged over the batch: is it weighted before the mean?",
    ),
)


@rule(
    "RPL110",
    severity=Severity.HIGH,
    algos=Q_LEARNERS,
    needs=["config:algo.prioritized", sentinel("is_weight_min"), sentinel("td_error_p95")],
    cites=["schaul2016prioritized"],
    certain=True,
    causes=["importance-weights-missing"],
    bad=lambda: cases.q_learner({"train/sentinel/is_weight_min": 1.0}, settings={"algo.prioritized": True}),
)
def priorities_without_importance_weights(case: Case) -> Iterator[Finding]:
    """Transitions are drawn by priority, but all weigh the same.

    ## Why it hurts
    What is surprising is over-represented in every batch: values settle where errors are large and rare, not where the data is.

    ## When it is fine
    priority_beta=0, by choice; or errors that are all alike.
    """
    weight, beta = case.sentinel("is_weight_min").share(0.1), case.number("priority_beta")
    middle, large = case.sentinel("td_error_p50").share(0.1), case.sentinel("td_error_p95").share(0.1)
    alpha = case.number("priority_alpha")
    if case.setting("algo.prioritized") is not True or not len(weight) or (beta is not None and beta < 0.05):
        return
    # Without differences between errors there is nothing to correct.
    expected = (max(middle.median, 1e-9) / max(large.median, 1e-9)) ** ((alpha or 0.6) * (beta or 0.4))
    if weight.median < 0.999 or expected > 0.9:
        return
    text = f"the smallest importance weight is {say(weight.median)}; errors as different as these ask for about {say(expected)}"
    fix = advice("multiply each row's loss by its importance weight (count x probability) ** -beta over the largest", "10-30 %")
    yield Finding(text=text, evidence=(evidence(sentinel("is_weight_min"), text, *case.span, expected=expected),), remedies=(fix,))


@rule(
    "RPL111",
    severity=Severity.HIGH,
    algos=ACTORS,
    needs=["config:algo.action_noise_std"],
    cites=["lillicrap2016ddpg", "fujimoto2018td3"],
    causes=["action-noise-too-wide"],
    bad=lambda: cases.soft_actor(settings={"algo.action_noise": "gaussian", "algo.action_noise_std": 2.0}),
)
def action_noise_drowns_the_actions(case: Case) -> Iterator[Finding]:
    """The noise on actions is as wide as the whole box.

    ## Why it hurts
    What is executed has little to do with what the policy chose: the replay holds random actions to the end.

    ## When it is fine
    Tasks whose goal is only found by violent motion, for a while.
    """
    std = case.real("algo.action_noise_std")
    if std is None or case.setting("algo.action_noise") in ("none", None) or not case.sick:
        return
    strength = grade(std, 0.6, 1.0)
    if strength <= 0:
        return
    text = f"noise of deviation {say(std)} on actions from -1 to 1"
    fix = change(case, "algo.action_noise_std", 0.1, "a tenth of the half box", "10-30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence("config:algo.action_noise_std", text, value=std),), remedies=(fix,))


@rule(
    "RPL112",
    severity=Severity.HIGH,
    algos=["td3", "ddpg"],
    needs=["config:algo.action_noise"],
    cites=["lillicrap2016ddpg"],
    causes=["exploration-ends-too-early"],
    bad=lambda: cases.soft_actor(settings={"algo.action_noise": "none", "algo.learning_starts": 100}, algo="td3"),
)
def deterministic_policy_without_noise(case: Case) -> Iterator[Finding]:
    """A deterministic policy acts without any noise: after the warm-up nothing new is tried.

    ## Why it hurts
    The critic only learns about the actions that the actor takes, and the actor only moves where the critic knows better ones.

    ## When it is fine
    Long random warm-ups on small tasks; environments with noise of their own.
    """
    std, kind = case.real("algo.action_noise_std") or 0.0, case.setting("algo.action_noise")
    effective = 0.0 if kind == "none" else std
    warm = off_policy.learning_starts(case) / float(case.budget or 1)
    strength = min(grade(-effective, -0.03, -0.01), grade(-warm, -0.3, -0.15))
    if strength <= 0 or not case.sick:
        return
    text = f"action_noise {kind}, deviation {say(std)}: after {percent(warm)} of the run no action is random"
    fix = change(case, "algo.action_noise", "gaussian", "with action_noise_std=0.1", "> 30 %")
    if kind != "none":
        fix = change(case, "algo.action_noise_std", 0.1, "a tenth of the half box", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence("config:algo.action_noise", text, value=effective),), remedies=(fix,))


@rule(
    "RPL113",
    severity=Severity.HIGH,
    algos=Q_LEARNERS,
    needs=[sentinel("epsilon_actual"), off_policy.EPSILON],
    cites=["mnih2015dqn"],
    certain=True,
    causes=["schedule-not-followed"],
    bad=lambda: cases.q_learner({"train/sentinel/epsilon_actual": 0.9}),
)
def epsilon_is_not_what_was_scheduled(case: Case) -> Iterator[Finding]:
    """The share of random actions is not the one that the schedule gives.

    ## Why it hurts
    Exploration is on when it should be off, or the other way round: the schedule counts other steps, or the comparison is inverted.

    ## When it is fine
    While the replay is filled, every action is random; those rows are left out.
    """
    taken, planned = case.sentinel("epsilon_actual"), case.signal(off_policy.EPSILON)
    after = taken.between(off_policy.learning_starts(case) + 0.02 * (case.span[1] - case.span[0]), case.span[1])
    if len(after) < 4 or case.setting("algo.exploration") == "boltzmann":
        return
    apart = np.array([value - planned.at(step) for step, value in zip(after.steps, after.values, strict=True)])
    gap = float(np.median(np.abs(apart)))
    strength = grade(gap, 0.15, 0.35)
    if strength <= 0:
        return
    text = f"{percent(after.median)} of the actions are random, {percent(planned.median)} were planned"
    fix = advice("compare: random if a uniform number is below epsilon; and count env steps in the schedule, not iterations", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(after.name, text, *case.span, gap=gap),), remedies=(fix,))
