"""On-policy settings and the task: rollouts, schedules, limits, budgets."""

from collections.abc import Iterator, Mapping
from functools import cache

from rlclinic.config import Spec, files
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.findings import Finding
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


def threshold_of_another_task(case: Case) -> Iterator[Finding]:
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


def time_limit_without_time_in_obs(case: Case) -> Iterator[Finding]:
    known = _known(case.history.env_id or "")
    usual = case.count("spec.max_episode_steps") or (known.max_episode_steps if known else None)
    limit = case.count("env.max_episode_steps")
    if usual and limit and limit < usual and not case.setting("env.time_in_obs"):
        text = f"episodes are cut at {limit} steps instead of {usual}, and the agent cannot see the time"
        yield Finding(text=text, remedies=(change(case, "env.time_in_obs", True, "show the time that has passed"),))


def advantages_not_normalized(case: Case) -> Iterator[Finding]:
    if case.algo == "ppo" and case.setting("algo.normalize_advantage") == "off" and not case.setting("env.normalize_reward"):
        text = "advantages are not normalized, nor are rewards: the size of a step follows the reward's scale"
        yield Finding(text=text, remedies=(change(case, "algo.normalize_advantage", "batch", "the usual choice"),))


def advantages_rest_on_whole_rollouts(case: Case) -> Iterator[Finding]:
    mixing, gamma = case.real("algo.gae_lambda"), case.real("algo.gamma")
    if case.algo != "ppo" or mixing is None or gamma is None or mixing < 0.995 or (case.count("algo.n_steps") or 0) < LONG_ROLLOUT:
        return
    horizon = 1 / max(1 - gamma * mixing, 1e-9)
    if horizon > LONG_HORIZON:
        text = f"gae_lambda {say(mixing)} with gamma {say(gamma)}: an advantage sums the noise of {say(min(horizon, 1e6))} steps"
        yield Finding(text=text, remedies=(change(case, "algo.gae_lambda", 0.95, "the usual mix"),))


def value_clip_tight(case: Case) -> Iterator[Finding]:
    limit = case.real("algo.clip_range_vf")
    if case.algo != "ppo" or limit is None or limit > 1 or case.setting("env.normalize_reward") or not case.threshold:
        return
    if abs(case.threshold) < 50 * limit:
        return
    text = f"clip_range_vf {say(limit)} without normalized rewards; the threshold is {say(case.threshold)}"
    fix = change(case, "algo.clip_range_vf", None, "no limit")
    # CleanRL's loss takes the larger of the clipped and the plain error, which softens the limit: only tiny ones weigh more.
    yield Finding(text=text, strength=1.0 if limit <= 0.05 else 0.3, remedies=(fix,))


def batch_leaves_a_rest(case: Case) -> Iterator[Finding]:
    rows = case.count("algo.batch_size")
    if case.algo != "ppo" or case.rollout is None or not rows or rows < 2 or rows >= case.rollout or not case.rollout % rows:
        return
    rest = case.rollout % rows
    fitting = max(each for each in range(1, rows + 1) if case.rollout % each == 0)
    text = f"{case.rollout} transitions in minibatches of {rows}: the last one has {rest}" + (
        ", whose deviation is NaN" if rest == 1 else ""
    )
    yield Finding(text=text, remedies=(change(case, "algo.batch_size", fitting, "divides the rollout"),))


def one_step_per_rollout(case: Case) -> Iterator[Finding]:
    if case.algo == "ppo" and case.planned_updates == 1 and case.rollout and case.rollout >= 64:
        text = f"one gradient step on each rollout of {case.rollout}: the clip never acts, and nearly all of the data is thrown away"
        fixes = (change(case, "algo.n_epochs", 10, "use each rollout ten times"), change(case, "algo.batch_size", 0.25, "four minibatches"))
        yield Finding(text=text, remedies=fixes)


def high_rate_without_decay(case: Case) -> Iterator[Finding]:
    rate = case.setting("algo.learning_rate")
    if case.algo != "ppo" or isinstance(rate, Mapping) or (case.real("algo.learning_rate") or 0.0) < HIGH_RATE:
        return
    fix = change(case, "algo.learning_rate", {"start": rate, "end": 0.0, "schedule": "linear"}, "let it fall to 0")
    yield Finding(text=f"learning_rate {say(rate)} to the very end", remedies=(fix,))


def gradients_not_limited(case: Case) -> Iterator[Finding]:
    limit = case.real("algo.max_grad_norm")
    if limit is not None and limit >= NO_LIMIT and not case.setting("env.normalize_reward"):
        yield Finding(
            text=f"max_grad_norm {say(limit)} is no limit", remedies=(change(case, "algo.max_grad_norm", 0.5, "the usual limit"),)
        )


def budget_far_below_usual(case: Case) -> Iterator[Finding]:
    usual = _usual_budget(case.history.env_id or "", case.algo)
    if usual and case.budget and case.budget < SMALL_BUDGET * usual:
        text = f"{say(float(case.budget))} env steps; the settings that come with {case.history.env_id} take {say(float(usual))}"
        yield Finding(text=text, remedies=(change(case, "run.max_env_steps", usual, "what is known to suffice"),))


def threshold_in_changed_rewards(case: Case) -> Iterator[Finding]:
    wrappers = case.setting("env.wrappers") or ()
    named = [str(each.get("id", "")) if isinstance(each, Mapping) else str(each) for each in wrappers]
    changing = [name for name in named if "Reward" in name]
    if changing and case.threshold is not None:
        text = f"{changing[0]} changes the rewards that the threshold {say(case.threshold)} is compared with"
        yield Finding(
            text=text, remedies=(advice("a threshold in the changed units, or shape the reward in a copy that is only trained on"),)
        )
