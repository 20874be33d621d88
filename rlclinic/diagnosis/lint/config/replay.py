"""Off-policy settings, ours and other frameworks': replay, targets, exploration, gradient steps."""

from collections.abc import Iterator

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.findings import Finding
from rlclinic.diagnosis.registry import change, percent, say
from rlclinic.diagnosis.signals import off_policy

Q_LEARNERS = frozenset(off_policy.Q_LEARNERS)
CONTINUOUS = frozenset(off_policy.ACTORS)


def target_rarely_updated(case: Case) -> Iterator[Finding]:
    every = case.real("algo.target_update_interval")
    if case.algo in Q_LEARNERS and every and case.budget and every > 0.1 * case.budget:
        text = f"the target network is updated every {say(every)} steps, {percent(every / case.budget)} of the run"
        yield Finding(text=text, remedies=(change(case, "algo.target_update_interval", 1_000, "usual: 250 to 10,000"),))


def target_follows_at_once(case: Case) -> Iterator[Finding]:
    tau, every = case.real("algo.tau"), case.real("algo.target_update_interval") or 1.0
    soft = case.algo in CONTINUOUS and tau is not None and tau >= 0.5
    hard = case.algo in Q_LEARNERS and (tau is None or tau >= 0.5) and case.real("algo.target_update_interval") == 1
    if soft or hard:
        text = f"tau {say(tau if tau is not None else 1.0)} every {say(every)} steps: the target is the network itself"
        yield Finding(text=text, remedies=(change(case, "algo.tau", 0.005, "a slow average"),))


def replay_tiny(case: Case) -> Iterator[Finding]:
    size = case.real("algo.buffer_size")
    if case.algo in Q_LEARNERS | CONTINUOUS and size and size < 5_000 and (case.budget or 10**9) > 4 * size:
        text = f"the replay buffer holds {say(size)} transitions: what was seen is soon forgotten"
        yield Finding(text=text, remedies=(change(case, "algo.buffer_size", 100_000, "usual: 50,000 to 1,000,000"),))


def learning_starts_late(case: Case) -> Iterator[Finding]:
    start = case.real("algo.learning_starts")
    # Half of a short run is what tuned settings of TD3 take on Pendulum: 10,000 steps of 20,000.
    late = case.budget and start and (start > 0.55 * case.budget or (start > 10_000 and start > 0.25 * case.budget))
    if case.algo in Q_LEARNERS | CONTINUOUS and late and start and case.budget:
        text = f"the first update comes after {say(start)} steps, {percent(start / case.budget)} of the run"
        yield Finding(text=text, remedies=(change(case, "algo.learning_starts", max(int(0.02 * case.budget), 100), "1 to 5 % of the run"),))


def temperature_fixed_high(case: Case) -> Iterator[Finding]:
    value = case.real("algo.ent_coef")
    if case.algo in ("sac", "tqc", "crossq") and value is not None and value >= 0.5:
        text = f"ent_coef {say(value)} is fixed: with rewards of usual size the policy stays random"
        yield Finding(text=text, remedies=(change(case, "algo.ent_coef", "auto", "let it be tuned"),))


def target_entropy_positive(case: Case) -> Iterator[Finding]:
    value = case.real("algo.target_entropy")
    if case.algo in ("sac", "tqc", "crossq") and value is not None and value > 0:
        text = f"target_entropy {say(value)}; usual is minus the number of action dimensions"
        yield Finding(text=text, remedies=(change(case, "algo.target_entropy", "auto", "minus the number of action dimensions"),))


def exploration_ends_at_once(case: Case) -> Iterator[Finding]:
    share = case.real("algo.exploration_fraction")
    if case.algo in Q_LEARNERS and share is not None and share < 0.03:
        text = f"random actions end after {percent(share)} of the run"
        yield Finding(text=text, remedies=(change(case, "algo.exploration_fraction", 0.2, "usual: 10 to 50 %"),))


def exploration_never_ends(case: Case) -> Iterator[Finding]:
    share = case.real("algo.exploration_final_eps")
    if case.algo in Q_LEARNERS and share is not None and share >= 0.3:
        text = f"{percent(share)} of all actions stay random to the end"
        yield Finding(text=text, remedies=(change(case, "algo.exploration_final_eps", 0.05, "usual: 0.01 to 0.1"),))


def few_gradient_steps(case: Case) -> Iterator[Finding]:
    total = off_policy.gradient_steps(case)
    if case.algo in Q_LEARNERS | CONTINUOUS and total < 1_000 and off_policy.updates_per_step(case) < 0.05:
        text = f"{say(total)} gradient steps in {say(float(case.budget or 0))} env steps: most of the data is never learned from"
        yield Finding(text=text, remedies=(change(case, "algo.gradient_steps", -1, "as many as env steps are taken"),))


def many_gradient_steps(case: Case) -> Iterator[Finding]:
    rate = off_policy.updates_per_step(case)
    if case.algo in Q_LEARNERS | CONTINUOUS - {"crossq"} and rate >= 16 and case.setting("net.layer_norm") is not True:
        text = f"{say(rate)} gradient steps per env step: the values run ahead of the data"
        yield Finding(text=text, remedies=(change(case, "algo.gradient_steps", -1, "one per env step"),))


def replay_shorter_than_warm_up(case: Case) -> Iterator[Finding]:
    size, start = case.real("algo.buffer_size"), case.real("algo.learning_starts")
    if case.algo in Q_LEARNERS | CONTINUOUS and size and start and size < start:
        text = f"{say(start)} env steps are collected before learning starts, and the replay holds {say(size)} of them"
        yield Finding(
            text=text, remedies=(change(case, "algo.buffer_size", int(max(10 * start, 10_000)), "room for the warm-up and more"),)
        )


def deterministic_without_noise(case: Case) -> Iterator[Finding]:
    kind, std = case.setting("algo.action_noise"), case.real("algo.action_noise_std")
    if case.algo in ("td3", "ddpg") and (kind == "none" or (kind is not None and std is not None and std < 0.01)):
        text = f"action_noise {kind}: a deterministic policy repeats itself, and its critic learns about nothing else"
        yield Finding(text=text, remedies=(change(case, "algo.action_noise", "gaussian", "with action_noise_std=0.1"),))


def minibatches_tiny(case: Case) -> Iterator[Finding]:
    size = case.real("algo.batch_size")
    if case.algo in Q_LEARNERS | CONTINUOUS and size and size < 16:
        text = f"{say(size)} transitions per gradient step: single errors move the whole network"
        yield Finding(text=text, remedies=(change(case, "algo.batch_size", 64, "usual: 32 to 256"),))
