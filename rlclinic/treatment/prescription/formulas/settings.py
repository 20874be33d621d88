"""Doses of what surrounds the update: scales of rewards, observations and actions, networks, time limits, budgets."""

import math
from collections.abc import Mapping
from typing import Any, Final

from rlclinic.config import ALGORITHMS
from rlclinic.diagnosis import columns, exploration
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.signals import detect, measures, off_policy
from rlclinic.diagnosis.signals.off_policy import OFF_POLICY
from rlclinic.treatment.prescription.doses import Dose, dose
from rlclinic.treatment.prescription.formulas.data import ROLLOUTS
from rlclinic.treatment.prescription.formulas.terms import whole_episode
from rlclinic.treatment.prescription.group_numbers import Chart

LEAST_MEMORY: Final = 0.2
"""Of what an observation leaves open, the share that the one before it tells. Below it the past does not show what is hidden."""


@dose
def scale_rewards(chart: Chart) -> Dose | None:
    """Rewards divided by the deviation of the return."""
    if chart.setting("env.normalize_reward") is True:
        return None
    seen = f"targets of {chart.targets:.2g} become about 1" if chart.targets == chart.targets else "targets of about 1"
    return Dose({"env.normalize_reward": True}, f"{seen}; reported returns stay raw")


@dose
def scale_observations(chart: Chart) -> Dose | None:
    """Observations with mean 0 and deviation 1."""
    if chart.setting("env.normalize_obs") is True:
        return None
    largest = chart.sentinel("obs_abs_max")
    seen = f"values of up to {largest:.2g} become about 1" if largest == largest else "every component with deviation 1"
    return Dose({"env.normalize_obs": True}, seen, "one-hot states do not need it")


@dose
def turn_rewards_around(chart: Chart) -> Dose | None:
    """The opposite sign: in training and evaluation, or only in training where evaluation pays the other way round."""
    if chart.of(_is_judged_otherwise) == 1.0:
        return None
    mirrored = chart.of(_is_mirrored)
    name = "env.train_reward_scale" if mirrored == mirrored and mirrored > 0.5 else "env.reward_scale"
    factor = -(chart.real(name) or 1.0)
    where = "in what is learned from; evaluation stays as it is" if name.startswith("env.train") else "in training and evaluation"
    return Dose({name: factor}, f"the reward with the opposite sign, {where}; then mend it in the environment")


def _is_mirrored(case: Case) -> float:
    """1 where training pays the opposite of evaluation: all along, or a random policy at first."""
    if measures.mirrors_evaluation(case) > 0.5:
        return 1.0
    chance = measures.random_return(case)
    if chance is None or case.progress is None:
        return math.nan
    return float(abs(chance[0]) > chance[1] and abs(case.progress.start + chance[0]) < 0.8 * abs(chance[0]))


def _is_judged_otherwise(case: Case) -> float:
    """1 where evaluation pays what no step of training does, and is as good as it should be: what is learned from leads there as it is."""
    highest, lowest, judged = case.sentinel("reward_max"), case.sentinel("reward_min"), case.signal(columns.EVAL_RETURN)
    if not len(judged) or not len(highest) or not len(lowest) or case.threshold is None:
        return math.nan
    late = judged.share(0.75).median
    opposite = (late > 0 and highest.top < 0) or (late < 0 and lowest.bottom > 0)
    return float(opposite and late >= case.threshold)


@dose
def shift_rewards(chart: Chart) -> Dose | None:
    """Without the constant by which a step of training pays more, or less, than one of evaluation."""
    shift = chart.of(measures.reward_shift)
    if shift != shift or abs(shift) < 1e-6:
        return None
    new = float(f"{(chart.real('env.train_reward_shift') or 0.0) - shift:.3g}")
    return Dose(
        {"env.train_reward_shift": new}, f"a step of training pays {shift:+.3g} beside what evaluation pays; reported returns stay raw"
    )


@dose
def scale_rewards_if_far(chart: Chart) -> Dose | None:
    """Scaled rewards where targets are far from 1."""
    return scale_rewards(chart) if chart.targets > 20 or chart.targets < 0.05 else None


@dose
def scale_observations_if_far(chart: Chart) -> Dose | None:
    """Scaled observations where they are far from 1."""
    largest, smallest = chart.sentinel("obs_abs_max"), chart.sentinel("obs_std_min")
    return scale_observations(chart) if largest > 10 or 1e-7 < smallest < 0.03 else None


@dose
def scale_rewards_if_very_far(chart: Chart) -> Dose | None:
    """Scaled rewards where targets are so far from 1 that even a run that learns is held back by them."""
    return scale_rewards(chart) if chart.targets > 500 or chart.targets < 0.02 else None


@dose
def scale_observations_if_very_far(chart: Chart) -> Dose | None:
    """Scaled observations where they are so far from 1 that even a run that learns is held back by them."""
    return scale_observations(chart) if chart.sentinel("obs_abs_max") > 200 or 1e-7 < chart.sentinel("obs_std_max") < 0.02 else None


@dose
def scale_advantages(chart: Chart) -> Dose | None:
    """Advantages with deviation 1."""
    if chart.setting("algo.normalize_advantage") in ("batch", "rollout"):
        return None
    return Dose({"algo.normalize_advantage": "rollout" if chart.algo == "reinforce" else "batch"}, "deviation 1, whatever the rewards")


@dose
def wider_reward_clip(chart: Chart) -> Dose | None:
    """Only outliers are cut."""
    limit = chart.real("env.clip_reward")
    return Dose({"env.clip_reward": 10.0}, f"{limit:g} hides how large rewards are") if limit is not None and limit < 10 else None


@dose
def rescale_actions(chart: Chart) -> Dose | None:
    """The action box as [-1, 1], which is where the policy's noise lies."""
    wrappers = list(chart.setting("env.wrappers") or ())
    if chart.algo in OFF_POLICY:
        return None  # their policies end in a tanh that is stretched to the box, whatever its size
    if any(isinstance(wrapper, Mapping) and "RescaleAction" in str(wrapper.get("id")) for wrapper in wrappers):
        return None
    wrappers.append({"id": "RescaleAction", "min_action": -1.0, "max_action": 1.0})
    return Dose({"env.wrappers": wrappers}, "the policy's first actions have a deviation of about 1: so should the box")


# ── networks and the first policy ──


@dose
def start_undecided(chart: Chart) -> Dose | None:
    """A last layer that starts near zero."""
    gain = chart.real("net.policy_gain")
    return Dose({"net.policy_gain": 0.01}, "starts with equal preferences") if gain is None or gain > 0.1 else None


@dose
def start_with_noise(chart: Chart) -> Dose | None:
    """Action noise of the order of the action's range."""
    start = chart.real("net.log_std_init")
    if not chart.continuous or chart.algo in OFF_POLICY or (start is not None and -1.5 <= start <= 0.7):
        return None
    return Dose({"net.log_std_init": 0.0}, f"a deviation of 1 instead of {math.exp(min(max(start or 0.0, -20), 20)):.2g}")


@dose
def start_wide(chart: Chart) -> Dose | None:
    """Wider actions at first, and pay for them until the goal was seen."""
    start = chart.real("net.log_std_init") or 0.0
    if not chart.continuous or chart.algo in OFF_POLICY or start >= 0.5:
        return None
    changes: dict[str, Any] = {"net.log_std_init": 0.5}
    if (chart.real("algo.ent_coef") or 0.0) < 3e-3:
        changes["algo.ent_coef"] = 3e-3
    return Dose(changes, "independent noise below 1 cancels out before it gets anywhere; the bonus keeps it up")


@dose
def start_wide_and_look_ahead(chart: Chart) -> Dose | None:
    """Wider actions at first, and a discount under which the goal is worth what it costs to get there."""
    wide, ahead = start_wide(chart), whole_episode(chart)
    if wide is None or ahead is None:
        return None
    noise = {"net.log_std_init": wide.changes["net.log_std_init"]}
    return Dose({**noise, **ahead.changes}, f"wider actions find the goal; {ahead.text}", ahead.risk)


@dose
def pay_for_new_states(chart: Chart) -> Dose | None:
    """A bonus for states that were rarely met, where exploration is what holds the task back (`rlclinic explore`)."""
    histories = [case.history for case in chart.cases]
    if not histories or histories[0].source != "rlclinic":
        return None
    found = exploration.assess(histories)
    if not any(name.startswith("bonus.") for name in found.prescription):
        return None
    why = f"{found.reason}; a bonus for new states looks elsewhere"
    return Dose(found.prescription, why, "pulls towards noise, where observations have any")


@dose
def tanh_layers(chart: Chart) -> Dose | None:
    """Hidden layers whose slope is 1 at 0."""
    if chart.setting("net.activation", "tanh") == "tanh":
        return None
    return Dose({"net.activation": "tanh"}, "centred, with a slope of 1 at 0")


@dose
def two_layers(chart: Chart) -> Dose | None:
    """As many layers as vector tasks need."""
    layers = chart.setting("net.hidden")
    if not isinstance(layers, list | tuple) or len(layers) <= 2:
        return None
    return Dose({"net.hidden": [64, 64]}, f"two layers instead of {len(layers)}: a gradient fades with every one")


@dose
def wider_layers(chart: Chart) -> Dose | None:
    """Layers wide enough for a vector task."""
    layers = chart.setting("net.hidden")
    if isinstance(layers, list | tuple) and layers and min(layers) >= 32:
        return None
    return Dose({"net.hidden": [64, 64]}, "two layers of 64 fit vector tasks", "slower steps")


@dose
def normalize_layers(chart: Chart) -> Dose | None:
    """Keeps hidden units in range."""
    if chart.setting("net.layer_norm") is True:
        return None
    return Dose({"net.layer_norm": True}, "keeps hidden units in range, so that they stay alive", "some cost per step")


@dose
def stack_frames(chart: Chart) -> Dose | None:
    """Several observations together, which show what changes."""
    memory = chart.sentinel("obs_memory")
    if (chart.count("env.frame_stack") or 1) >= 4 or memory < LEAST_MEMORY:
        return None
    return Dose({"env.frame_stack": 4}, "four observations together show velocities; better: return the missing component")


@dose
def stack_frames_over_the_lag(chart: Chart) -> Dose | None:
    """As many observations together as the delay is long, which show what is still under way."""
    lag = chart.sentinel("action_lag")
    frames = min(max(int(lag) + 1, 2), 10) if lag == lag else 4
    if (chart.count("env.frame_stack") or 1) >= frames:
        return None
    return Dose({"env.frame_stack": frames}, f"{frames} observations reach back over the delay; better: take the delay out")


# ── time ──


@dose
def own_time_limit(chart: Chart) -> Dose | None:
    """The task's own time limit."""
    limit, usual = chart.count("env.max_episode_steps"), chart.count("spec.max_episode_steps")
    if not limit or (usual and usual <= limit):
        return None
    new = usual if usual else 4 * limit
    return Dose(
        {"env.max_episode_steps": new}, f"episodes are cut after {limit} steps" + (f"; the task's own limit is {usual}" if usual else "")
    )


@dose
def own_time_limit_if_it_ends_there(chart: Chart) -> Dose | None:
    """The task's own time limit where the environment reports a shorter one as an end, with the clock: the longer one is an end, too."""
    longer = own_time_limit(chart) if _ends_at_its_limit(chart) else None
    if longer is None or chart.setting("env.time_in_obs") is True:
        return longer
    return Dose({**longer.changes, "env.time_in_obs": True}, f"{longer.text}; it is reported as an end there, too, which the clock shows")


@dose
def show_the_clock_if_it_ends_there(chart: Chart) -> Dose | None:
    """The share of the time limit that has passed, in the observation (arXiv:1712.00378)."""
    if chart.setting("env.time_in_obs") is True or not chart.time_limit or not _ends_at_its_limit(chart):
        return None
    return Dose({"env.time_in_obs": True}, "an end that the clock brings can then be foreseen; better: report it as truncated")


def _ends_at_its_limit(chart: Chart) -> bool:
    """Whether the environment never says that time was up. Where it does, and the targets end there, no setting mends the code."""
    return chart.sentinel("truncated") == 0


@dose
def more_steps(chart: Chart) -> Dose | None:
    """A larger budget: as far as its late slope needs, else twice."""
    budget = chart.budget
    if not budget or all(case.history.state == "stopped" and case.trained < 0.95 * budget for case in chart.cases):
        # What was stopped needs no larger budget, only the rest of its own.
        return None
    if all(off_policy.never_learned(case) for case in chart.cases):
        return None  # nothing is known yet of how fast it learns: let it begin first
    more = chart.of(_missing_budgets)
    factor = 1 + min(max(1.5 * more, 0.5), 8.0) if more == more else 2.0
    why = "at its late slope, and half as much again" if more == more else "no slope says how far it is"
    if chart.rollout and budget < ROLLOUTS / 2 * chart.rollout and ROLLOUTS * chart.rollout > factor * budget:
        factor = ROLLOUTS * chart.rollout / budget
        why = f"{ROLLOUTS} rollouts of {chart.rollout} transitions; now there are {math.ceil(budget / chart.rollout)}"
    new = int(math.ceil(budget * factor / 1000) * 1000)
    return Dose({"run.max_env_steps": new}, f"{factor:.2g}x the budget: {why}", "takes longer")


def _missing_budgets(case: Case) -> float:
    """Budgets that its late slope takes to the threshold."""
    returns = case.signal(columns.RETURN)
    if case.threshold is None or len(returns) < detect.SHORTEST:
        return math.nan
    trend = detect.late_trend(returns)[1]
    slope = trend.slope * case.trained if trend.rising else 0.0
    gap = case.threshold - returns.share(0.8).median
    return float(gap / slope) if slope > 0 and gap > 0 else math.nan


@dose
def steadier_evaluation(chart: Chart) -> Dose | None:
    """More episodes per evaluation."""
    episodes = chart.count("run.eval_episodes") or 20
    return (
        Dose({"run.eval_episodes": min(5 * episodes, 200)}, "less than half of the noise", "evaluation takes longer")
        if episodes < 100
        else None
    )


@dose
def ppo_instead(chart: Chart) -> Dose | None:
    """PPO, which uses each rollout several times and holds its steps short; nothing where nobody says what it would stand in for."""
    if chart.algo == "ppo" or chart.algo not in {*ALGORITHMS, *OFF_POLICY}:
        return None
    why = "learns from fresh data only: no replay and no target network that could mislead it" if chart.algo in OFF_POLICY else ""
    return Dose({"algo.name": "ppo"}, why or "uses each rollout ten times, in steps that a clip range holds back")


@dose
def wider_promotion_window(chart: Chart) -> Dose | None:
    """Success of a stage over twice the episodes."""
    window = chart.real("curriculum.window")
    return (
        None if window is None or window >= 1000 else Dose({"curriculum.window": min(int(2 * window), 1000)}, f"twice {window:g} episodes")
    )


@dose
def more_rehearsal(chart: Chart) -> Dose | None:
    """Twice the share of episodes in earlier stages, at least a fifth."""
    share = chart.real("curriculum.rehearsal")
    return None if share is None or share >= 0.5 else Dose({"curriculum.rehearsal": min(0.5, max(0.2, 2 * share))}, f"instead of {share:g}")


@dose
def earlier_escape(chart: Chart) -> Dose | None:
    """Stages that are not mastered are left after half of the time."""
    if chart.real("curriculum.window") is None:
        return None
    after = chart.real("curriculum.escape_after")
    return Dose({"curriculum.escape_after": 0.15 if after is None else after / 2}, "so that the task itself is trained on")
