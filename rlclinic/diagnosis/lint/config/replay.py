"""Off-policy settings, ours and other frameworks': replay, targets, exploration, gradient steps."""

from collections.abc import Iterator

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.registry import change, percent, say
from rlclinic.diagnosis.signals import off_policy

Q_LEARNERS = frozenset(off_policy.Q_LEARNERS)
CONTINUOUS = frozenset(off_policy.ACTORS)


@check("SET201", Severity.HIGH, ["mnih2015dqn"])
def target_rarely_updated(case: Case) -> Iterator[Finding]:
    """The target network is updated only a few times in the whole run.

    ## Why it hurts
    Values are learned towards those of a network that is long out of date.

    ## When it is fine
    Never.

    ## Fix
    algo.target_update_interval between 250 and 10,000.
    """
    every = case.real("algo.target_update_interval")
    if case.algo in Q_LEARNERS and every and case.budget and every > 0.1 * case.budget:
        text = f"the target network is updated every {say(every)} steps, {percent(every / case.budget)} of the run"
        yield Finding(text=text, remedies=(change(case, "algo.target_update_interval", 1_000, "usual: 250 to 10,000"),))


@check("SET202", Severity.MEDIUM, ["mnih2015dqn"])
def target_follows_at_once(case: Case) -> Iterator[Finding]:
    """The target network follows the trained one at once.

    ## Why it hurts
    Values chase themselves: they oscillate and overestimate.

    ## When it is fine
    Algorithms without target networks, which normalize instead.

    ## Fix
    algo.tau=0.005
    """
    tau, every = case.real("algo.tau"), case.real("algo.target_update_interval") or 1.0
    soft = case.algo in CONTINUOUS and tau is not None and tau >= 0.5
    hard = case.algo in Q_LEARNERS and (tau is None or tau >= 0.5) and case.real("algo.target_update_interval") == 1
    if soft or hard:
        text = f"tau {say(tau if tau is not None else 1.0)} every {say(every)} steps: the target is the network itself"
        yield Finding(text=text, remedies=(change(case, "algo.tau", 0.005, "a slow average"),))


@check("SET203", Severity.MEDIUM, ["mnih2015dqn"])
def replay_tiny(case: Case) -> Iterator[Finding]:
    """The replay buffer is tiny.

    ## Why it hurts
    Minibatches hold the last moments only: what was learned earlier is overwritten, and returns saw-tooth.

    ## When it is fine
    Very short tasks.

    ## Fix
    50,000 to 1,000,000 transitions.
    """
    size = case.real("algo.buffer_size")
    if case.algo in Q_LEARNERS | CONTINUOUS and size and size < 5_000 and (case.budget or 10**9) > 4 * size:
        text = f"the replay buffer holds {say(size)} transitions: what was seen is soon forgotten"
        yield Finding(text=text, remedies=(change(case, "algo.buffer_size", 100_000, "usual: 50,000 to 1,000,000"),))


@check("SET204", Severity.HIGH, ["mnih2015dqn"])
def learning_starts_late(case: Case) -> Iterator[Finding]:
    """Learning starts after a large part of the run.

    ## Why it hurts
    Until then all steps are random ones.

    ## When it is fine
    Large offline data.

    ## Fix
    1 to 5 % of the run.
    """
    start = case.real("algo.learning_starts")
    # Half of a short run is what tuned settings of TD3 take on Pendulum: 10,000 steps of 20,000.
    late = case.budget and start and (start > 0.55 * case.budget or (start > 10_000 and start > 0.25 * case.budget))
    if case.algo in Q_LEARNERS | CONTINUOUS and late and start and case.budget:
        text = f"the first update comes after {say(start)} steps, {percent(start / case.budget)} of the run"
        yield Finding(text=text, remedies=(change(case, "algo.learning_starts", max(int(0.02 * case.budget), 100), "1 to 5 % of the run"),))


@check("SET205", Severity.MEDIUM, ["haarnoja2018sac"])
def temperature_fixed_high(case: Case) -> Iterator[Finding]:
    """The entropy's weight is fixed and high.

    ## Why it hurts
    The policy is paid for being random, more than for the task.

    ## When it is fine
    Rewards in the hundreds.

    ## Fix
    ent_coef=auto
    """
    value = case.real("algo.ent_coef")
    if case.algo in ("sac", "tqc", "crossq") and value is not None and value >= 0.5:
        text = f"ent_coef {say(value)} is fixed: with rewards of usual size the policy stays random"
        yield Finding(text=text, remedies=(change(case, "algo.ent_coef", "auto", "let it be tuned"),))


@check("SET206", Severity.HIGH, ["haarnoja2018sac"])
def target_entropy_positive(case: Case) -> Iterator[Finding]:
    """The target entropy cannot be reached by a useful policy.

    ## Why it hurts
    The temperature grows without bound until the policy is uniform.

    ## When it is fine
    Discrete versions of the algorithm, whose entropy is positive.

    ## Fix
    target_entropy=auto
    """
    value = case.real("algo.target_entropy")
    if case.algo in ("sac", "tqc", "crossq") and value is not None and value > 0:
        text = f"target_entropy {say(value)}; usual is minus the number of action dimensions"
        yield Finding(text=text, remedies=(change(case, "algo.target_entropy", "auto", "minus the number of action dimensions"),))


@check("SET207", Severity.MEDIUM, ["mnih2015dqn"])
def exploration_ends_at_once(case: Case) -> Iterator[Finding]:
    """Random actions end almost at once.

    ## Why it hurts
    If the first successes have not been met by then, they never are.

    ## When it is fine
    Tasks in which the greedy policy explores by itself.

    ## Fix
    exploration_fraction between 0.1 and 0.5.
    """
    share = case.real("algo.exploration_fraction")
    if case.algo in Q_LEARNERS and share is not None and share < 0.03:
        text = f"random actions end after {percent(share)} of the run"
        yield Finding(text=text, remedies=(change(case, "algo.exploration_fraction", 0.2, "usual: 10 to 50 %"),))


@check("SET208", Severity.HIGH, ["mnih2015dqn"])
def exploration_never_ends(case: Case) -> Iterator[Finding]:
    """A large share of actions stays random to the end.

    ## Why it hurts
    Training returns are capped, and states that need many right actions in a row are never seen.

    ## When it is fine
    Where only the greedy evaluation matters.

    ## Fix
    exploration_final_eps between 0.01 and 0.1.
    """
    share = case.real("algo.exploration_final_eps")
    if case.algo in Q_LEARNERS and share is not None and share >= 0.3:
        text = f"{percent(share)} of all actions stay random to the end"
        yield Finding(text=text, remedies=(change(case, "algo.exploration_final_eps", 0.05, "usual: 0.01 to 0.1"),))


@check("SET209", Severity.HIGH, ["fedus2020replay"])
def few_gradient_steps(case: Case) -> Iterator[Finding]:
    """The whole run has only a few hundred gradient steps.

    ## Why it hurts
    A network needs some thousands of steps, however much data there is.

    ## When it is fine
    Fine-tuning.

    ## Fix
    gradient_steps=-1, or a smaller train_freq.
    """
    total = off_policy.gradient_steps(case)
    if case.algo in Q_LEARNERS | CONTINUOUS and total < 1_000 and off_policy.updates_per_step(case) < 0.05:
        text = f"{say(total)} gradient steps in {say(float(case.budget or 0))} env steps: most of the data is never learned from"
        yield Finding(text=text, remedies=(change(case, "algo.gradient_steps", -1, "as many as env steps are taken"),))


@check("SET210", Severity.MEDIUM, ["sokar2023dormant", "fedus2020replay"])
def many_gradient_steps(case: Case) -> Iterator[Finding]:
    """Each transition is learned from dozens of times.

    ## Why it hurts
    The network fits its first mistakes: values overestimate, units die, later data moves nothing.

    ## When it is fine
    Algorithms made for it, with layer normalization, resets or ensembles.

    ## Fix
    gradient_steps=-1
    """
    rate = off_policy.updates_per_step(case)
    if case.algo in Q_LEARNERS | CONTINUOUS - {"crossq"} and rate >= 16 and case.setting("net.layer_norm") is not True:
        text = f"{say(rate)} gradient steps per env step: the values run ahead of the data"
        yield Finding(text=text, remedies=(change(case, "algo.gradient_steps", -1, "one per env step"),))


@check("SET211", Severity.MEDIUM, ["mnih2015dqn"])
def replay_shorter_than_warm_up(case: Case) -> Iterator[Finding]:
    """The replay is too small for what is collected before learning starts.

    ## Why it hurts
    The first random steps, which saw most, are overwritten before anything was learned from them.

    ## When it is fine
    Never.

    ## Fix
    A larger buffer_size.
    """
    size, start = case.real("algo.buffer_size"), case.real("algo.learning_starts")
    if case.algo in Q_LEARNERS | CONTINUOUS and size and start and size < start:
        text = f"{say(start)} env steps are collected before learning starts, and the replay holds {say(size)} of them"
        yield Finding(
            text=text, remedies=(change(case, "algo.buffer_size", int(max(10 * start, 10_000)), "room for the warm-up and more"),)
        )


@check("SET212", Severity.HIGH, ["lillicrap2016ddpg", "fujimoto2018td3"])
def deterministic_without_noise(case: Case) -> Iterator[Finding]:
    """A deterministic policy acts without noise.

    ## Why it hurts
    Only the actor's own actions are ever seen: the critic cannot say what would be better.

    ## When it is fine
    Environments with noise of their own.

    ## Fix
    action_noise=gaussian with action_noise_std=0.1
    """
    kind, std = case.setting("algo.action_noise"), case.real("algo.action_noise_std")
    if case.algo in ("td3", "ddpg") and (kind == "none" or (kind is not None and std is not None and std < 0.01)):
        text = f"action_noise {kind}: a deterministic policy repeats itself, and its critic learns about nothing else"
        yield Finding(text=text, remedies=(change(case, "algo.action_noise", "gaussian", "with action_noise_std=0.1"),))


@check("SET213", Severity.MEDIUM, ["mnih2015dqn"])
def minibatches_tiny(case: Case) -> Iterator[Finding]:
    """Each gradient step sees only a few transitions.

    ## Why it hurts
    Errors of single transitions, outliers among them, move the whole network; what one step learned the next undoes.

    ## When it is fine
    Small learning rates and very many steps.

    ## Fix
    batch_size=64
    """
    size = case.real("algo.batch_size")
    if case.algo in Q_LEARNERS | CONTINUOUS and size and size < 16:
        text = f"{say(size)} transitions per gradient step: single errors move the whole network"
        yield Finding(text=text, remedies=(change(case, "algo.batch_size", 64, "usual: 32 to 256"),))
