"""On-policy settings and the task: rollouts, schedules, limits, budgets."""

from collections.abc import Iterator, Mapping
from functools import cache

from rlclinic.config import Spec, files
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.registry import advice, change, say

LONG_HORIZON, LONG_ROLLOUT = 90.0, 128
HIGH_RATE, NO_LIMIT = 1.5e-3, 100.0
SMALL_BUDGET = 0.1


@cache
def _known(env_id: str) -> Spec | None:
    """What is known about a task that comes with a file."""
    return next((entry.spec for entry in files.available() if entry.env == env_id), None)


@cache
def _usual_budget(env_id: str, algo: str) -> int | None:
    """The smallest budget of the settings that come with a task for an algorithm."""
    entry = next((each for each in files.available() if each.env == env_id and each.shipped and each.variants), None)
    if entry is None:
        return None
    configs = [files.load(f"{env_id}:{variant}").config for variant in entry.variants]
    return min((config.run.max_env_steps for config in configs if config.algo.name == algo), default=None)


@check("SET101", Severity.HIGH, ["jones2021debugging"])
def threshold_of_another_task(case: Case) -> Iterator[Finding]:
    """The threshold cannot be reached, or cannot be missed.

    ## Why it hurts
    A run that does all there is to do is called a failure; time and money go into mending what works.

    ## When it is fine
    Never.

    ## Fix
    Take the threshold of this version of the task, with this time limit.
    """
    known = _known(case.history.env_id or "")
    if known is None or known.return_range is None or case.threshold is None:
        return
    low, high = known.return_range
    limit = case.count("env.max_episode_steps")
    if limit and known.max_episode_steps and high == known.max_episode_steps:
        high = min(high, limit)  # a reward of 1 a step: no more than the steps there are
    if not low <= case.threshold <= high:
        text = f"threshold {say(case.threshold)}, and returns of {case.history.env_id} lie between {say(low)} and {say(high)}"
        yield Finding(text=text, remedies=(advice(f"a threshold of at most {say(high)}, or the time limit that it was made for"),))


@check("SET102", Severity.LOW, ["pardo2018time"])
def time_limit_without_time_in_obs(case: Case) -> Iterator[Finding]:
    """The time limit is shorter than usual, and the agent cannot see the time.

    ## Why it hurts
    States that look alike have different futures: the value function learns their average, worst near the limit.

    ## When it is fine
    Limits that are hardly ever reached, and bootstrapping at truncation.

    ## Fix
    env.time_in_obs=true
    """
    known = _known(case.history.env_id or "")
    usual = case.count("spec.max_episode_steps") or (known.max_episode_steps if known else None)
    limit = case.count("env.max_episode_steps")
    if usual and limit and limit < usual and not case.setting("env.time_in_obs"):
        text = f"episodes are cut at {limit} steps instead of {usual}, and the agent cannot see the time"
        yield Finding(text=text, remedies=(change(case, "env.time_in_obs", True, "show the time that has passed"),))


@check("SET103", Severity.LOW, ["andrychowicz2021matters"])
def advantages_not_normalized(case: Case) -> Iterator[Finding]:
    """Neither advantages nor rewards are normalized.

    ## Why it hurts
    The size of a policy step follows the reward's scale: what was tuned on one task explodes or stalls on the next.

    ## When it is fine
    Tasks with rewards of about 1.

    ## Fix
    algo.normalize_advantage=batch
    """
    if case.algo == "ppo" and case.setting("algo.normalize_advantage") == "off" and not case.setting("env.normalize_reward"):
        text = "advantages are not normalized, nor are rewards: the size of a step follows the reward's scale"
        yield Finding(text=text, remedies=(change(case, "algo.normalize_advantage", "batch", "the usual choice"),))


@check("SET104", Severity.LOW, ["schulman2015gae"])
def advantages_rest_on_whole_rollouts(case: Case) -> Iterator[Finding]:
    """Advantages sum up the noise of a whole long rollout.

    ## Why it hurts
    gae_lambda of 1 with a long horizon trusts the value function nowhere: gradients are noisy.

    ## When it is fine
    Short horizons, and value functions that are known to be bad.

    ## Fix
    algo.gae_lambda=0.95
    """
    mixing, gamma = case.real("algo.gae_lambda"), case.real("algo.gamma")
    if case.algo != "ppo" or mixing is None or gamma is None or mixing < 0.995 or (case.count("algo.n_steps") or 0) < LONG_ROLLOUT:
        return
    horizon = 1 / max(1 - gamma * mixing, 1e-9)
    if horizon > LONG_HORIZON:
        text = f"gae_lambda {say(mixing)} with gamma {say(gamma)}: an advantage sums the noise of {say(min(horizon, 1e6))} steps"
        yield Finding(text=text, remedies=(change(case, "algo.gae_lambda", 0.95, "the usual mix"),))


@check("SET105", Severity.MEDIUM, ["andrychowicz2021matters"])
def value_clip_tight(case: Case) -> Iterator[Finding]:
    """The value function may move only a little in each update, on a scale of large returns.

    ## Why it hurts
    It needs hundreds of updates to reach its targets, and advantages are wrong until then.

    ## When it is fine
    Normalized rewards.

    ## Fix
    algo.clip_range_vf=none, or env.normalize_reward=true
    """
    limit = case.real("algo.clip_range_vf")
    if case.algo != "ppo" or limit is None or limit > 1 or case.setting("env.normalize_reward") or not case.threshold:
        return
    if abs(case.threshold) < 50 * limit:
        return
    text = f"clip_range_vf {say(limit)} without normalized rewards; the threshold is {say(case.threshold)}"
    fix = change(case, "algo.clip_range_vf", None, "no limit")
    # CleanRL's loss takes the larger of the clipped and the plain error, which softens the limit: only tiny ones weigh more.
    yield Finding(text=text, strength=1.0 if limit <= 0.05 else 0.3, remedies=(fix,))


@check("SET106", Severity.MEDIUM, ["raffin2021sb3"])
def batch_leaves_a_rest(case: Case) -> Iterator[Finding]:
    """The rollout is not a multiple of the minibatch.

    ## Why it hurts
    Each epoch ends on a smaller minibatch that takes a full-size step; with one row left over, its normalized advantage is NaN.

    ## When it is fine
    Where the rest is nearly a whole minibatch.

    ## Fix
    Choose batch_size so that it divides n_envs x n_steps.
    """
    rows = case.count("algo.batch_size")
    if case.algo != "ppo" or case.rollout is None or not rows or rows < 2 or rows >= case.rollout or not case.rollout % rows:
        return
    rest = case.rollout % rows
    fitting = max(each for each in range(1, rows + 1) if case.rollout % each == 0)
    text = f"{case.rollout} transitions in minibatches of {rows}: the last one has {rest}" + (
        ", whose deviation is NaN" if rest == 1 else ""
    )
    yield Finding(text=text, remedies=(change(case, "algo.batch_size", fitting, "divides the rollout"),))


@check("SET107", Severity.MEDIUM, ["schulman2017ppo"])
def one_step_per_rollout(case: Case) -> Iterator[Finding]:
    """PPO takes a single gradient step on each rollout.

    ## Why it hurts
    The ratio is 1 everywhere, so the clip never acts; nearly all of the data is thrown away.

    ## When it is fine
    Very large batches with many rollouts.

    ## Fix
    algo.n_epochs=10, and four or more minibatches.
    """
    if case.algo == "ppo" and case.planned_updates == 1 and case.rollout and case.rollout >= 64:
        text = f"one gradient step on each rollout of {case.rollout}: the clip never acts, and nearly all of the data is thrown away"
        fixes = (change(case, "algo.n_epochs", 10, "use each rollout ten times"), change(case, "algo.batch_size", 0.25, "four minibatches"))
        yield Finding(text=text, remedies=fixes)


@check("SET108", Severity.LOW, ["andrychowicz2021matters"])
def high_rate_without_decay(case: Case) -> Iterator[Finding]:
    """A high learning rate stays high to the end.

    ## Why it hurts
    The policy goes on jumping when it should settle: the best evaluation is not the last.

    ## When it is fine
    Short runs that stop at the threshold.

    ## Fix
    A linear schedule to 0.
    """
    rate = case.setting("algo.learning_rate")
    if case.algo != "ppo" or isinstance(rate, Mapping) or (case.real("algo.learning_rate") or 0.0) < HIGH_RATE:
        return
    fix = change(case, "algo.learning_rate", {"start": rate, "end": 0.0, "schedule": "linear"}, "let it fall to 0")
    yield Finding(text=f"learning_rate {say(rate)} to the very end", remedies=(fix,))


@check("SET109", Severity.LOW, ["godbole2023playbook"])
def gradients_not_limited(case: Case) -> Iterator[Finding]:
    """The gradient norm is not limited.

    ## Why it hurts
    One rare gradient a hundred times the usual size undoes the learning of many updates.

    ## When it is fine
    Normalized rewards and small networks.

    ## Fix
    algo.max_grad_norm=0.5
    """
    limit = case.real("algo.max_grad_norm")
    if limit is not None and limit >= NO_LIMIT and not case.setting("env.normalize_reward"):
        yield Finding(
            text=f"max_grad_norm {say(limit)} is no limit", remedies=(change(case, "algo.max_grad_norm", 0.5, "the usual limit"),)
        )


@check("SET110", Severity.MEDIUM, ["henderson2018matters"])
def budget_far_below_usual(case: Case) -> Iterator[Finding]:
    """The budget is a small part of what this task is known to take.

    ## Why it hurts
    The run ends before learning shows; nothing can be concluded from it.

    ## When it is fine
    Tests that a program runs at all.

    ## Fix
    The budget of the settings that come with the task.
    """
    usual = _usual_budget(case.history.env_id or "", case.algo)
    if usual and case.budget and case.budget < SMALL_BUDGET * usual:
        text = f"{say(float(case.budget))} env steps; the settings that come with {case.history.env_id} take {say(float(usual))}"
        yield Finding(text=text, remedies=(change(case, "run.max_env_steps", usual, "what is known to suffice"),))


@check("SET111", Severity.MEDIUM, ["raffin2021sb3"])
def threshold_in_changed_rewards(case: Case) -> Iterator[Finding]:
    """A wrapper changes the rewards that the threshold is compared with.

    ## Why it hurts
    Shaped, scaled or clipped returns are not those that the threshold was made for: solved and unsolved lose their meaning.

    ## When it is fine
    A threshold given in the changed units.

    ## Fix
    Give the threshold in the same units.
    """
    wrappers = case.setting("env.wrappers") or ()
    named = [str(wrapper.get("id", "")) if isinstance(wrapper, Mapping) else str(wrapper) for wrapper in wrappers]
    changing = [name for name in named if "Reward" in name]
    if changing and case.threshold is not None:
        text = f"{changing[0]} changes the rewards that the threshold {say(case.threshold)} is compared with"
        yield Finding(
            text=text, remedies=(advice("a threshold in the changed units, or shape the reward in a copy that is only trained on"),)
        )
