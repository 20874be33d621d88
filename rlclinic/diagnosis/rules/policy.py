"""The policy's update: how far it moves, in which direction, and whether it is the update that was meant."""

import math
from collections.abc import Iterator

import numpy as np

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import CLIP_FRACTION, KL, sentinel
from rlclinic.diagnosis.findings import Finding, Remedy, Severity
from rlclinic.diagnosis.registry import ON_POLICY, BugLocation, advice, cause, change, decades, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import detect, measures
from rlclinic.runs.history import History

KL_EXACT = sentinel("kl_exact")
RATIO = sentinel("ratio_first_dev")
CORRELATION = sentinel("adv_logp_corr")
LAG, LAG_MAX, LAG_KL, LAG_ESS = (sentinel(name) for name in ("policy_lag", "policy_lag_max", "actor_kl", "actor_ess"))


@rule(
    "POL101",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[(KL, KL_EXACT)],
    cites=["schulman2017ppo", "jones2021debugging"],
    causes=["learning-rate-too-high"],
    bad=lambda: cases.unsolved({"train/metrics/kl_divergence": 0.1}),
)
def policy_step_too_large(case: Case) -> Iterator[Finding]:
    """The policy moves too far in one update, again and again.

    Measured as the median KL divergence of an update against clip_range² / 2, the KL of an update that just uses its clip range.

    ## Why it hurts
    Outside the trust region the clipped objective no longer predicts the true one: an update that looks good can undo earlier
    learning. Returns then saw-tooth or collapse, and the policy becomes sure of itself long before it is good.

    ## When it is fine
    The first few updates; small tasks whose best policy is nearly deterministic and which learn all the same.
    """
    size = measures.step_size(case)
    # One step per rollout is noisy: there, only orders of magnitude mean something.
    large = grade(size, 1.2, 3.0) if case.algo not in ("a2c", "reinforce", "a3c", "impala") else grade(size, 10.0, 40.0)
    if large <= 0:
        return
    measured = measures.kl(case)
    level = size * measures.step_scale(case)
    text = f"KL {say(level)} per update (median), {say(size)} times a usual step"
    numbers = {"median": level, "usual_steps": size, "largest": measured.top}
    proofs = [evidence(measured.name, text, *case.span, **numbers)]
    clipped = case.learning(CLIP_FRACTION)
    if len(clipped):
        proofs.append(evidence(CLIP_FRACTION, f"clip fraction {say(clipped.median)}", median=clipped.median))
    yield Finding(
        strength=large, text=text, evidence=tuple(proofs), onset=_when(case, 1.2 * measures.step_scale(case)), remedies=_smaller(case, size)
    )


def _when(case: Case, level: float) -> float | None:
    """The first env step after which KL stays above a level most of the time; None if from the start."""
    measured = measures.kl(case)
    smooth = detect.smoothed(measured.values, 5)
    above = [float(step) for step, value in zip(measured.steps, smooth, strict=True) if value > level]
    return None if not above or above[0] <= case.span[0] + 0.05 * (case.span[1] - case.span[0]) else above[0]


def _smaller(case: Case, size: float) -> tuple[Remedy, ...]:
    # KL grows with the square of the step's length: half a usual step is aimed at.
    rate = case.number("learning_rate")
    epochs = case.count("algo.n_epochs")
    factor = max((0.5 / size) ** 0.5, 1e-6)
    remedies = []
    if rate:
        new = float(f"{rate * factor:.1g}")
        text = f"shrink the step {say(1 / factor)} x (KL grows with its square), and let it fall to 0"
        schedule = {"start": new, "end": 0.0, "schedule": "linear"}
        remedies.append(change(case, "algo.learning_rate", schedule, text, "> 30 %", "slower first steps"))
    if case.algo == "ppo" and case.setting("algo.target_kl") is None:
        text = "end a rollout's epochs as soon as the policy has moved this far"
        remedies.append(change(case, "algo.target_kl", 0.02, text, "10-30 %", "may waste data"))
    if epochs and epochs > 20:
        text = f"{epochs} passes over each rollout push the policy away from the data it was collected with"
        remedies.append(change(case, "algo.n_epochs", 10, text, "10-30 %"))
    return tuple(remedies)


@rule(
    "POL102",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[(KL, KL_EXACT)],
    cites=["schulman2017ppo"],
    bad=lambda: cases.unsolved(scaled={"train/metrics/kl_divergence": 0.001}),
)
def policy_hardly_moves(case: Case) -> Iterator[Finding]:
    """Updates leave the policy where it was.

    ## Why it hurts
    Nothing can be learned in the budget: at this pace a hundred updates make one ordinary step. Why the steps are so small is
    another question; the learning rate, a gradient limit, a clip range, an early stop or a dead loss all end here.

    ## When it is fine
    At the end of a schedule that falls to 0, and after the task is solved.
    """
    size = measures.step_size(case)
    small = grade(-size, -measures.TINY_STEP, -measures.TINY_STEP / 5)
    if small <= 0 or not case.sick:
        return
    level = size * measures.step_scale(case)
    # Rounding leaves a KL of nothing, which may even be below 0, where a policy has become certain.
    moved = f"KL {say(max(level, 0.0))} per update (median)"
    text = f"{moved}: {say(size)} of a usual step" if size > 1e-6 else f"the policy stands still: {moved}"
    proof = evidence(measures.kl(case).name, text, *case.span, median=level, usual_steps=size)
    yield Finding(strength=small, text=text, evidence=(proof,))


cause(
    "clip-range-too-small",
    "clip range too small",
    "fault of settings",
    doses=["usual-clip", "usual-clip+careful-rate", "usual-clip+stop-at-kl"],
    explains="POL102 ENT301 LRN103 BUD101",
)


@rule(
    "POL103",
    severity=Severity.HIGH,
    algos=["ppo"],
    needs=[KL, CLIP_FRACTION],
    cites=["schulman2017ppo", "huang2022details"],
    causes=["clip-range-too-small"],
    bad=lambda: cases.unsolved({"train/metrics/kl_divergence": 1e-05, "train/metrics/clip_fraction": 0.6}),
)
def clip_range_too_tight(case: Case) -> Iterator[Finding]:
    """Most samples are clipped although the policy hardly moves.

    ## Why it hurts
    A clipped sample has no gradient: each update stops almost where it began, and learning takes many times the steps.

    ## When it is fine
    At the end of a clip range that falls to 0 on purpose.
    """
    clipped, size = case.learning(CLIP_FRACTION).share(0.0, 0.6), measures.step_size(case)
    strength = min(grade(clipped.median, 0.25, 0.45), grade(-size, -0.1, -0.02))
    if strength <= 0:
        return
    limit = case.number("clip_range")
    text = f"clip fraction {say(clipped.median)} at a KL of only {say(size * measures.step_scale(case))}"
    proofs = [evidence(CLIP_FRACTION, text, *case.span, median=clipped.median, usual_steps=size)]
    if limit is not None:
        proofs.append(evidence("config:algo.clip_range", f"clip_range {say(limit)}; usual is 0.1 to 0.3", value=limit))
    fix = change(case, "algo.clip_range", 0.2, "let an update move a probability by a fifth", "> 30 %", "larger steps: watch KL")
    yield Finding(strength=strength, text=text, evidence=tuple(proofs), remedies=(fix,))


cause(
    "clip-not-applied",
    "the clip range does not hold updates back",
    "fault of code",
    doses=["usual-clip", "stop-at-kl"],
    advice="check the surrogate: -min(ratio x advantage, clip(ratio) x advantage), and that clip_range reaches it",
    explains="POL101 ENT302 EVA802 LRN107 REW504 POL102 GRD403 GRD405 GRD406 BUD103 POL109",
    bug=BugLocation(
        fix="loss = -min(ratio x advantage, clamp(ratio, 1 - clip_range, 1 + clip_range) x advantage), the smaller of the two",
        check="assert surrogate([2.0], advantage=[1.0], clip_range=0.2) == -1.2",
        rlclinic=("rlclinic/training/maths/losses.py", "clipped_surrogate", "torch.min over both terms, the clamp's bounds"),
        sb3=("stable_baselines3/ppo/ppo.py", "PPO.train", "a copied train with max for min, or a clip_range schedule that returns 1"),
        cleanrl=(
            "ppo.py",
            "the policy loss in the minibatch loop",
            "torch.max of the two negated losses, clamp(ratio, 1 - clip_coef, 1 + clip_coef)",
        ),
        own="the surrogate: the minimum of both terms (the maximum of both losses), and the clip range that is really used",
    ),
)


@rule(
    "POL104",
    severity=Severity.MEDIUM,
    algos=["ppo"],
    needs=[KL, CLIP_FRACTION],
    cites=["schulman2017ppo"],
    causes=["clip-not-applied"],
    bad=lambda: cases.unsolved({"train/metrics/kl_divergence": 0.3, "train/metrics/clip_fraction": 0.01}),
)
def clipping_does_not_bind(case: Case) -> Iterator[Finding]:
    """The policy moves far, but hardly a sample is clipped.

    ## Why it hurts
    Nothing holds an update back: the clip range is too wide for these steps, or clipping is not applied at all.

    ## When it is fine
    A policy that is nearly deterministic moves in KL through a few rare actions only.
    """
    clipped, size = case.learning(CLIP_FRACTION).share(0.0, 0.6), measures.step_size(case)
    sure = measures.relative_entropy(case)
    strength = min(grade(size, 3.0, 8.0), grade(-clipped.median, -0.1, -0.02))
    if strength <= 0 or (len(sure) and measures.in_learning(case, sure).median < 0.15):
        return
    text = f"KL {say(size * measures.step_scale(case))} per update with a clip fraction of {say(clipped.median)}"
    proof = evidence(CLIP_FRACTION, text, *case.span, median=clipped.median, usual_steps=size)
    fix = change(case, "algo.clip_range", 0.2, "hold the update back", "10-30 %")
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


cause(
    "target-kl-too-tight",
    "target_kl stops every update",
    "fault of settings",
    doses=["looser-kl-stop", "other-kl-stop", "looser-kl-stop+careful-rate"],
    explains="POL102 ENT301 VAL201 VAL203 LRN103 BUD101 BAT109",
)


@rule(
    "POL105",
    severity=Severity.HIGH,
    algos=["ppo"],
    needs=[sentinel("updates"), "config:algo.target_kl"],
    cites=["schulman2017ppo"],
    causes=["target-kl-too-tight"],
    bad=lambda: cases.unsolved(
        {"train/sentinel/updates": 1.0, "train/metrics/kl_divergence": 1e-05, "train/hp/target_kl": 1e-05},
        settings={"algo.target_kl": 1e-05},
    ),
)
def target_kl_stops_almost_every_update(case: Case) -> Iterator[Finding]:
    """target_kl ends each rollout's epochs almost before they began.

    ## Why it hurts
    The data of a rollout is thrown away after a few gradient steps: learning takes many times the env steps.

    ## When it is fine
    Where it stops the last of many epochs: that is what it is for.
    """
    share, limit = measures.updates_share(case), case.number("target_kl")
    size = measures.step_size(case)
    strength = min(grade(-share, -0.5, -0.2), grade(-size, -0.3, -0.05) if size == size else 1.0)
    if strength <= 0 or limit is None:
        return
    taken = case.sentinel("updates").median
    text = f"{say(taken)} of {case.planned_updates} planned gradient steps per rollout are taken (target_kl {say(limit)})"
    proof = evidence(sentinel("updates"), text, *case.span, median=taken, planned=float(case.planned_updates or 0))
    fix = change(case, "algo.target_kl", 0.02, "0.01 to 0.03 lets most epochs run", "> 30 %", "larger steps: watch KL")
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


@rule(
    "POL112",
    severity=Severity.HIGH,
    algos=["ppo"],
    needs=[KL, "config:algo.n_epochs"],
    cites=["schulman2017ppo"],
    causes=["target-kl-too-tight"],
    bad=lambda: _counted_passes(1, 1e-4),
    good=[
        # Ten passes: nothing stopped them.
        lambda: _counted_passes(10, 1e-4),
        # One pass that moves the policy by a full step.
        lambda: _counted_passes(1, 0.02),
    ],
)
def every_update_stops_after_one_pass(case: Case) -> Iterator[Finding]:
    """The log counts one pass over each rollout, the policy hardly moves, and the learning rate is a usual one.

    Where no setting was written down, the number of passes is counted in the log. Whoever trains PPO takes several; one, and a KL far
    below a usual step, is what a target_kl leaves that stops at the first minibatches.

    ## Why it hurts
    The data of a rollout is thrown away after a few gradient steps: learning takes many times the env steps.

    ## When it is fine
    With n_epochs set to 1 on purpose.
    """
    unsaid = all(case.setting(f"algo.{name}") is None for name in ("target_kl", "batch_size"))
    if not unsaid or case.history.source != "sb3" or case.count("algo.n_epochs") != 1 or (case.rollout or 0) > 4096 or not case.sick:
        return
    size, rate = measures.step_size(case), case.number("learning_rate")
    moves = case.learning(KL)
    strength = 0.9 * min(grade(-size, -0.2, -0.08), grade(decades(rate if rate is not None else 3e-4), -4.5, -4.0))
    if strength <= 0 or not len(moves) or moves.median <= 0:
        return
    text = f"one pass over each rollout was counted, and KL is {say(size)} of a usual step at a learning rate of {say(rate or math.nan)}"
    fix = change(case, "algo.target_kl", 0.02, "0.01 to 0.03 lets most epochs run", "> 30 %", "larger steps: watch KL")
    yield Finding(strength=strength, text=text, evidence=(evidence(KL, text, *case.span, share=size),), remedies=(fix,))


def _counted_passes(passes: int, kl: float) -> History:
    """A log of PPO without settings but for those that its columns show."""
    free = {"algo.batch_size": None, "algo.target_kl": None, "algo.n_epochs": passes, "algo.learning_rate": 1e-3}
    return cases.foreign({"train/metrics/kl_divergence": kl, "train/hp/learning_rate": 1e-3}, settings=free)


cause(
    "log-prob-mismatch",
    "old log-probabilities are wrong",
    "fault of code",
    advice="store the log-probability of the very action and observation that the policy chose with, at the moment it chose",
    explains="POL101 POL104 ENT302 EVA802 VAL201 LRN107 REW504 POL103 POL102",
    bug=BugLocation(
        fix="store the action that was sampled, before it is clipped, with its own log-probability; clip only what goes to env.step",
        check="assert (ratio - 1).abs().max() < 1e-4  # first minibatch of the first epoch, before any step",
        rlclinic=(
            "rlclinic/training/loops/on_policy.py",
            "collect",
            "which action is stored, and the policy that its log-probability is taken from",
        ),
        sb3=(
            "stable_baselines3/common/on_policy_algorithm.py",
            "OnPolicyAlgorithm.collect_rollouts",
            "a wrapper or subclass that stores clipped actions, or a distribution whose log_prob leaves out the squash",
        ),
        cleanrl=(
            "ppo.py",
            "Agent.get_action_and_value",
            "log_prob of the very action that is stored; one log_prob summed over action dimensions",
        ),
        own=(
            "what goes into the buffer: the sampled action with its log-probability, dropout and batch norm off, the same "
            "normalizer in both passes"
        ),
    ),
)


@rule(
    "POL106",
    severity=Severity.HIGH,
    algos=["ppo"],
    needs=[RATIO],
    cites=["huang2022details"],
    certain=True,
    causes=["log-prob-mismatch"],
    bad=lambda: cases.unsolved({"train/sentinel/ratio_first_dev": 0.3}),
)
def old_log_probabilities_are_wrong(case: Case) -> Iterator[Finding]:
    """The probability ratio is not 1 before the first gradient step.

    ## Why it hurts
    Before anything was learned, old and new policy are the same: a ratio other than 1 means that the stored log-probability
    belongs to another action, observation, normalizer or policy. Every update is weighted by that error.

    ## When it is fine
    Never, beyond float rounding. (Dropout or batch normalization in training mode has the same effect.)
    """
    deviation = case.signal(RATIO)
    off = deviation.values > 1e-3
    share = float(off.mean())
    if share < 0.2:
        return
    text = f"the ratio is off by {say(deviation.median)} before the first gradient step, in {percent(share)} of the rows"
    proof = evidence(RATIO, text, *case.span, median=deviation.median, largest=deviation.top, share=share)
    fix = advice(
        "store the log-probability of the very action and observation that the policy chose with, at the moment it chose; "
        "freeze normalizers between rollout and update",
        "> 30 %",
    )
    yield Finding(strength=grade(share, 0.1, 0.6), text=text, evidence=(proof,), remedies=(fix,))


cause(
    "advantage-sign",
    "good actions are made rarer: a wrong sign",
    "fault of code",
    advice="look for a wrong sign where the advantage enters the policy loss, and in the ratio (new over old)",
    explains="REW504 ENT302 VAL201 EVA802 POL101 POL102",
    bug=BugLocation(
        fix=(
            "advantage = reward + gamma * next value - value, the loss is minus the mean of ratio x advantage, ratio = exp(new "
            "log-probability - old)"
        ),
        check="assert np.corrcoef(advantages, new_log_prob - old_log_prob)[0, 1] > 0  # after one update",
        rlclinic=("rlclinic/training/maths/returns.py", "gae", "the sign of delta, and which value is subtracted"),
        sb3=(
            "stable_baselines3/common/buffers.py",
            "RolloutBuffer.compute_returns_and_advantage",
            "a subclass that computes delta the wrong way round, or a loss in a copied PPO.train without its minus",
        ),
        cleanrl=(
            "ppo.py",
            "the loop over reversed(range(num_steps))",
            "delta = rewards + gamma * nextvalues * nextnonterminal - values, and pg_loss with -mb_advantages",
        ),
        own=(
            "where advantages are computed and where the policy loss is: count the minus signs, and look at the order of the "
            "two log-probabilities in the ratio"
        ),
    ),
)


@rule(
    "POL107",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[CORRELATION],
    cites=["jones2021debugging"],
    certain=True,
    causes=["advantage-sign"],
    bad=lambda: cases.unsolved({"train/sentinel/adv_logp_corr": -0.15}),
    # Ten rows of one gradient step each say little, and the return has risen all along.
    good=[lambda: cases.solved({"train/sentinel/adv_logp_corr": -0.05})],
)
def good_actions_get_less_likely(case: Case) -> Iterator[Finding]:
    """Actions with a positive advantage become less likely.

    ## Why it hurts
    The policy climbs down: a wrong sign of the advantage, of the loss, or of the ratio. Returns fall below those of a random policy.

    ## When it is fine
    Never for long; a single row may be negative by chance.
    """
    correlation, deviation = case.signal(CORRELATION), case.signal(sentinel("adv_std"))
    # Exactly 0: the policy stood still, or all actions were worth the same.
    seen = correlation.values[correlation.values != 0]
    if len(seen) < 5 or (len(deviation) and deviation.median <= 1e-8):
        return
    middle, negative = float(np.median(seen)), float((seen < 0).mean())
    strength = min(grade(-middle, 0.0, 0.03), grade(negative, 0.6, 0.9))
    # A policy that climbs down does not get better: a return that rose and held refutes it, however few rows say otherwise.
    if strength <= 0 or (case.improved and not case.sick):
        return
    text = f"advantage and change of log-probability correlate by {say(middle)}: what is good gets rarer"
    proof = evidence(CORRELATION, text, *case.span, median=middle, share_negative=negative)
    fix = advice("look for a wrong sign where the advantage enters the policy loss, and in the ratio (new over old)", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


cause(
    "dead-surrogate",
    "the policy loss is dead",
    "fault of code",
    advice="keep the log-probabilities of the rollout; do not compute them anew inside the update",
    explains="POL102 ENT301 ENT302 LRN103 REW504 ENV611 EVA802 GRD403",
    bug=BugLocation(
        fix="keep the graph: new log-probabilities come from a forward pass inside the update, without detach, no_grad or .item()",
        check="loss.backward(); assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in policy.parameters())",
        rlclinic=("rlclinic/training/algos/ppo.py", "loss", "log_prob comes from params, not from the batch"),
        sb3=(
            "stable_baselines3/common/policies.py",
            "ActorCriticPolicy.evaluate_actions",
            "an override that detaches, or evaluates under no_grad",
        ),
        cleanrl=(
            "ppo.py",
            "the policy loss in the minibatch loop",
            "newlogprob from agent.get_action_and_value(b_obs[mb_inds], b_actions[mb_inds]), not b_logprobs",
        ),
        own="the policy loss: it must depend on the weights; a detach, a no_grad block or old log-probabilities on both sides kill it",
    ),
)


@rule(
    "POL108",
    severity=Severity.HIGH,
    algos=["ppo"],
    needs=[KL, sentinel("adv_std"), sentinel("updates")],
    cites=["schulman2017ppo"],
    certain=True,
    causes=["dead-surrogate"],
    bad=lambda: cases.unsolved({"train/metrics/kl_divergence": 0.0, "train/sentinel/kl_exact": 0.01}),
)
def surrogate_is_dead(case: Case) -> Iterator[Finding]:
    """Many gradient steps per rollout, advantages that vary, and a KL divergence of exactly nothing.

    ## Why it hurts
    The ratio is 1 whatever the policy does: its old log-probability is computed anew in each step, or the policy's gradient is cut off.

    ## When it is fine
    A learning rate of 0; one gradient step per rollout, before which KL is measured.
    """
    measured, exact, updates = case.signal(KL), case.signal(KL_EXACT), case.sentinel("updates")
    rate, planned = case.number("learning_rate"), case.planned_updates
    alive = case.learning(sentinel("adv_std")).median > 1e-6
    if not alive or updates.median < 2 or (planned or 2) < 2 or not rate:
        return
    known = exact.values > 1e-6
    if known.sum() >= 3:
        # The distributions themselves show that the policy moved: the ratio should have, too.
        still = float((np.abs(np.interp(exact.steps, measured.steps, measured.values)) < 1e-3 * exact.values)[known].mean())
        moved = say(float(np.median(exact.values[known])))
        text = f"the ratio shows no change in {percent(still)} of the rows, while the policy moved by a KL of {moved}"
    else:
        still = float((np.abs(measured.values) <= 1e-9).mean())
        certain = measures.relative_entropy(case)
        still = 0.0 if len(exact) or (len(certain) and certain.median < 0.01) else still
        text = f"KL is 0 in {percent(still)} of the rows, after {say(updates.median)} gradient steps each"
    if still < 0.85:
        return
    proof = evidence(KL, text, *case.span, share=still)
    fix = advice("keep the log-probabilities of the rollout; do not recompute them inside the update", "> 30 %")
    yield Finding(strength=grade(still, 0.8, 0.95), text=text, evidence=(proof,), remedies=(fix,))


cause(
    "rows-misaligned",
    "advantages do not belong to their rows",
    "fault of code",
    advice="index advantages, actions and observations with the same permutation",
    explains="EVA802 ENT301 ENT302 LRN107 REW504",
    bug=BugLocation(
        fix="flatten every field of the rollout the same way before minibatches are drawn, and index them with one permutation",
        check="mark one transition with a huge reward: its own advantage must be the largest one in its minibatch",
        rlclinic=("rlclinic/training/data/rollouts.py", "minibatches", "one index for all fields"),
        sb3=("stable_baselines3/common/buffers.py", "RolloutBuffer.get", "a subclass that adds a field without swap_and_flatten"),
        cleanrl=("ppo.py", "# flatten the batch", "every b_* with reshape((-1,) + shape), one b_inds"),
        own="reshape and transpose of [steps, envs] fields: one of them is flattened in another order, or shuffled by itself",
    ),
)


@rule(
    "POL109",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[CORRELATION, (KL, KL_EXACT)],
    cites=["jones2021debugging"],
    certain=True,
    causes=["rows-misaligned"],
    bad=lambda: cases.unsolved({"train/sentinel/adv_logp_corr": lambda share: 0.005 * np.sign(np.sin(500 * share))}),
    # Solved: near the best policy advantages are noise.
    good=[lambda: cases.solved({"train/sentinel/adv_logp_corr": lambda share: 0.005 * np.sign(np.sin(500 * share))})],
)
def advantages_do_not_steer_the_policy(case: Case) -> Iterator[Finding]:
    """The policy moves by full steps, but not towards actions with a positive advantage.

    ## Why it hurts
    Advantages do not belong to the rows that they are multiplied with: they were not shuffled along, or reshaped in another order.

    ## When it is fine
    Where the entropy bonus or another loss outweighs the policy's.
    """
    correlation, size = case.learning(CORRELATION), measures.step_size(case)
    if case.planned_updates == 1 or not size > 0.01 or len(correlation) < 8 or not case.sick:
        return  # what is solved was steered there, however small the advantages became
    positive = float((correlation.values > 0).mean())
    strength = min(grade(-abs(correlation.median), -0.04, -0.025), grade(-abs(positive - 0.5), -0.16, -0.1))
    if strength <= 0:
        return
    text = f"advantage and change of log-probability correlate by {say(correlation.median)}, positive in {percent(positive)} of the rows"
    fix = advice("index advantages, actions and observations with the same permutation", "> 30 %")
    yield Finding(
        strength=strength, text=text, evidence=(evidence(CORRELATION, text, *case.span, median=correlation.median),), remedies=(fix,)
    )


@rule(
    "POL110",
    severity=Severity.HIGH,
    algos=ON_POLICY,
    needs=[sentinel("adv_mean"), sentinel("return_mean"), sentinel("value_mean")],
    cites=["schulman2015gae"],
    certain=True,
    causes=["advantage-sign"],
    bad=lambda: cases.unsolved(scaled={"train/sentinel/adv_mean": -1.0}),
    good=[
        lambda: cases.unsolved(scaled={"train/sentinel/adv_mean": -1.0}, settings={"bonus.kind": "rnd"}),
        lambda: cases.unsolved(scaled={"train/sentinel/adv_mean": -1.0}, settings={"algo.advantage": "vtrace"}),
        # Every step pays the same: what is left of the difference is in the last digits.
        lambda: cases.unsolved(
            {
                "train/sentinel/return_mean": -16.664,
                "train/sentinel/value_mean": lambda share: -16.66 + 0.004 * np.sin(99 * share),
                "train/sentinel/adv_mean": lambda share: 0.001 * np.cos(50 * share),
            }
        ),
    ],
)
def advantages_are_not_targets_minus_values(case: Case) -> Iterator[Finding]:
    """Advantages and value targets contradict each other.

    A target is advantage plus value, so the mean advantage must be the mean target minus the mean value, in every row.

    ## Why it hurts
    The policy is taught something else than the critic. If the two are opposite, good actions are made rarer: the return falls below
    that of a random policy, while every other number looks healthy.

    ## When it is fine
    Algorithms whose targets are computed in another way than their advantages (V-trace weighs each by its own clip); a bonus, whose
    advantages come from a critic of its own.
    """
    if case.setting("bonus.kind") or case.setting("algo.advantage") == "vtrace":
        return
    advantage, target, value = (case.history.series[sentinel(name)] for name in ("adv_mean", "return_mean", "value_mean"))
    if not len(advantage.values) == len(target.values) == len(value.values) or len(value.values) < 4:
        return
    wanted = target.values - value.values
    clear = np.abs(wanted) > 1e-4 * (np.abs(target.values) + np.abs(value.values))
    # A difference of two large numbers is known to no more digits than they are.
    size = np.abs(target.values) + np.abs(value.values)
    off = np.abs(advantage.values - wanted) > 0.1 * (np.abs(advantage.values) + np.abs(wanted)) + 1e-3 * size
    share = float(off[clear].mean()) if clear.any() else 0.0
    if share < 0.3:
        return
    opposite = float((np.sign(advantage.values) != np.sign(wanted))[clear].mean())
    how = "have the opposite sign of" if opposite > 0.8 else "differ from"
    text = f"advantages {how} targets minus values in {percent(share)} of the rows"
    proof = evidence(sentinel("adv_mean"), text, *case.span, share=share, opposite=opposite)
    fix = advice("look at the sign and the order of the terms where advantages are computed", "> 30 %")
    yield Finding(strength=grade(share, 0.2, 0.6), text=text, evidence=(proof,), remedies=(fix,))


@rule(
    "POL111",
    severity=Severity.HIGH,
    algos=["ppo"],
    needs=[KL, "config:algo.learning_rate", "config:algo.n_epochs", "config:algo.batch_size"],
    cites=["schulman2017ppo"],
    causes=["clip-not-applied"],
    bad=lambda: cases.unsolved({"train/metrics/kl_divergence": 0.5}),
)
def clip_does_not_hold_the_update(case: Case) -> Iterator[Finding]:
    """Updates are far larger than this learning rate and number of gradient steps can explain.

    ## Why it hurts
    What should stop an update at the clip range does not: the surrogate takes the wrong one of its two terms, or is not clipped. The
    policy becomes certain within a few updates.

    ## When it is fine
    Tiny rollouts, whose gradients are mostly noise.
    """
    kl, rate, planned = case.signal(KL), case.number("learning_rate"), case.planned_updates
    early = kl.share(0.0, 0.2)
    if not rate or not planned or (case.rollout or 0) < 128 or len(early) < 3 or case.number("target_kl") is not None:
        return
    size = max(measures.step_size(case), float(np.percentile(early.values, 75)) / measures.step_scale(case))
    # Seen in healthy runs: 0.3 usual steps at rate x steps = 0.02, 1 at 0.2, 5 at 0.6, 40 at 2.
    expected = 3.0 * max(rate * planned / 0.02, 1.0) ** 0.75
    strength = grade(size / expected, 1.0, 1.7)
    if strength <= 0 or not case.sick:
        return
    taken = f"{planned} gradient steps at learning_rate {say(rate)}"
    text = f"updates of {say(size)} usual steps with {taken}; at most {say(expected)} is plausible"
    fix = advice("check the surrogate: -min(ratio x advantage, clip(ratio) x advantage), and that clip_range reaches it", "> 30 %")
    proof = evidence(KL, text, *case.span, usual_steps=size, plausible=expected)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(fix,))


cause(
    "policy-lag",
    "actors play with weights so old that their data says little about the policy that learns from it",
    "fault of settings",
    doses=["fewer-actors", "correct-for-age", "shorter-steps"],
    advice="fewer actors, shorter rollouts or a smaller learning rate: all bring the data nearer to the policy",
    explains="POL101 POL104 VAL201",
)


@rule(
    "POL113",
    severity=Severity.HIGH,
    algos=["a3c", "impala", "appo"],
    needs=[LAG, LAG_ESS],
    cites=["espeholt2018impala", "mnih2016a2c"],
    causes=["policy-lag"],
    bad=lambda: cases.unsolved({LAG: 24.0, LAG_MAX: 40.0, LAG_KL: 0.4, LAG_ESS: 0.3}, algo="impala"),
    good=[
        lambda: cases.unsolved({LAG: 2.0, LAG_MAX: 2.0, LAG_KL: 0.002, LAG_ESS: 0.99}, algo="impala"),
        # Old in updates, but the updates are small.
        lambda: cases.unsolved({LAG: 24.0, LAG_MAX: 40.0, LAG_KL: 0.004, LAG_ESS: 0.98}, algo="impala"),
        # The policy moves far in every update, with or without actors: POL101's matter.
        lambda: cases.unsolved({LAG: 0.0, LAG_MAX: 0.0, LAG_KL: 0.4, LAG_ESS: 0.3}, algo="appo"),
    ],
)
def actors_are_too_far_behind(case: Case) -> Iterator[Finding]:
    """Rollouts are so old when they are learned from that they count for little, or push the wrong way.

    Measured by how much of a rollout's data is left after reweighting it to the policy that learns (its effective sample size), not by
    its age alone: many small updates may move the policy less than a single large one.

    ## Why it hurts
    A3C corrects for nothing: gradients are those of a policy that is gone. V-trace and the clip correct by leaving out what the
    policy would no longer do, so that most of what was played is thrown away. Either way steps are spent without being learned from.

    ## When it is fine
    A run that learns all the same, and the first updates, when the policy moves fast.
    """
    lag, left = case.learning(LAG), case.learning(LAG_ESS)
    if not len(lag) or not len(left) or lag.median < 0.5 or not case.sick:
        return
    strength = grade(1.0 - left.median, 0.2, 0.5)
    if strength <= 0:
        return
    apart = case.learning(LAG_KL)
    moved = f", KL {say(apart.median)} from the policy that acted" if len(apart) else ""
    text = f"rollouts are {say(lag.median)} updates old, and {percent(left.median)} of their data still counts{moved}"
    proofs = (
        evidence(LAG_ESS, text, *case.span, median=left.median),
        evidence(LAG, f"policy lag {say(lag.median)} updates (largest {say(case.signal(LAG_MAX).top)})", median=lag.median),
    )
    yield Finding(strength=strength, text=text, evidence=proofs, remedies=(advice("fewer actors, or a smaller learning rate", "> 30 %"),))
