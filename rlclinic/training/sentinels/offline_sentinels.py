"""Sentinels of algorithms that learn from recorded data: values against what the data earned, the policy against what it did.

As in `off_policy_sentinels`: `every_row` is cheap, `now_and_then` costs passes through the networks; one number per member, [M].
"""

from typing import Any, Final

import torch
from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.recorded import Recorded
from rlclinic.training.data.replay import Batch
from rlclinic.training.loops import off_policy
from rlclinic.training.loops.off_policy import Learner, Plan
from rlclinic.training.maths import normalize
from rlclinic.training.nets import q_nets
from rlclinic.training.sentinels import fingerprints, off_policy_sentinels, on_policy_sentinels, random_policy
from rlclinic.training.sentinels.off_policy_sentinels import UNSEEN_SHARE
from rlclinic.training.sentinels.on_policy_sentinels import PREFIX

EVERY_ROW: Final = ("updates", "optimizer_steps", "update_ratio_min", "update_ratio_max", "update_ratio_worst", "weight_norm")
OF_VALUES: Final = (
    "return_mean", "return_std", "return_abs_p95", "value_mean", "value_std", "q_abs_max", "q_bound", "q_bound_ratio", "td_error",
    "td_error_p50", "td_error_p95", "td_error_p99", "td_error_max", "target_distance",
)  # fmt: skip
NOW_AND_THEN: Final = (
    "obs_abs_max", "obs_std_min", "obs_std_worst", "obs_mean_abs_max", "reward_mean", "reward_std", "reward_min", "reward_max",
    "reward_nonzero", "reward_trained_std", "terminated_share", "ends_at_longest", "data_return_mean", "policy_distance", "loss_data",
    "loss_held_out", "dormant_actor", "rank_actor", "saturated_actor", "activation_norm_actor",
)  # fmt: skip
OF_CRITICS: Final = ("q_bias", "q_policy_gain", "data_value", "dormant_critic", "rank_critic", "saturated_critic", "activation_norm_critic")
OF_RETURNS: Final = ("target_return", "data_return_max", "target_above_data")
"""Of a policy that is asked for a return."""
WINDOWS: Final = 128
"""Stretches of episodes on which such a policy is measured."""
PROBE: Final = 1_024
"""Rows on which the costly ones are measured."""


def columns(values: bool, asks: bool = False) -> list[str]:
    """The sentinels of an algorithm with values, or of one without; asks: of one that is asked for a return."""
    names = EVERY_ROW + (OF_VALUES if values else ()) + NOW_AND_THEN + (OF_CRITICS if values else ()) + (OF_RETURNS if asks else ())
    return [PREFIX + name for name in names + fingerprints.NAMES + on_policy_sentinels.AT_EVALUATION + random_policy.NAMES]


@torch.no_grad()
def every_row(plan: Plan, before: Learner, after: Learner, readings: dict[str, Tensor], hp: Hyperparameters) -> dict[str, Tensor]:
    """The free ones; readings are [U, M, ...]."""
    name = next(net for net in ("q", "critic", "actor") if net in plan.nets)
    found = off_policy_sentinels.measure_steps(plan, name, before, after)
    if "q" in readings and "target" in readings:
        found |= off_policy_sentinels.summarize_batch(**{part: readings[part][-1] for part in ("q", "target", "error")})
        peak, bound = readings["q"].abs().amax((0, 2)), (after.reward_bound / (1.0 - hp.gamma).clamp(min=1e-6)).squeeze(1)
        found |= {"q_abs_max": peak, "q_bound": bound, "q_bound_ratio": peak / bound.clamp(min=1e-12)}
    return {PREFIX + each: number for each, number in found.items()}


@torch.no_grad()
def now_and_then(plan: Plan, learner: Learner, data: Recorded, hp: Hyperparameters) -> dict[str, Tensor]:
    """The costly ones, on rows that are spread evenly over the data."""
    members = len(hp.gamma)
    rows = data.spread(PROBE).to(data.device)

    def gather(which: Tensor) -> Batch:
        raw = data.gather(which.expand(members, -1), hp.gamma, learner.reward_stats, plan.env.clip_reward)
        return off_policy.prepare_batch(plan, learner, raw)

    probe, params = gather(rows), off_policy.networks(plan, learner)
    found = _data(data, rows, probe)
    if hasattr(plan.algo, "begin"):
        found |= _windows(plan, learner, data, rows, members)
    else:
        found |= _policy(plan, learner, probe)
    errors = getattr(plan.algo, "errors", None)
    if errors is not None:
        found["loss_data"] = errors(plan.config, params, probe)[0].mean(1)
        if len(data.held_out):
            apart = data.held_out[torch.linspace(0, len(data.held_out) - 1, min(len(data.held_out), PROBE)).long().to(data.device)]
            found["loss_held_out"] = errors(plan.config, params, gather(apart))[0].mean(1)
    if hasattr(plan.algo, "q_values"):
        found |= _values(plan, learner, data, rows, probe, hp)
    for name, key in (("actor", "actor"), ("critic", "critic"), ("q", "critic")):
        net = plan.nets.get(name)
        if net is not None and net.hidden:
            x = torch.cat([probe.obs, probe.action], -1) if net.beside else probe.obs
            x = x[:, :: max(1, x.shape[1] // on_policy_sentinels.PROBE_ROWS)]
            layers = q_nets.layers(net, net.params(learner.nets[name]), net.shown(x))
            numbers = on_policy_sentinels.features(net, layers, len(net.hidden))
            found |= {f"{kind}_{key}": number.unflatten(0, (-1, net.copies)).amax(1) for kind, number in numbers.items()}
    return {PREFIX + each: number for each, number in found.items()}


def _data(data: Recorded, rows: Tensor, probe: Batch) -> dict[str, Tensor]:
    """What the networks are shown, and what they learn to expect."""
    low, high = torch.aminmax(probe.obs, dim=1)
    spread, flat_at = normalize.deviation(probe.obs).min(1)
    raw = data.rewards[rows.to(data.rewards.device)].to(data.device).expand(len(probe.reward), -1)
    return {
        "obs_abs_max": torch.maximum(low.abs(), high.abs()).amax(1),
        "obs_std_min": spread,
        "obs_std_worst": flat_at.float(),
        "obs_mean_abs_max": probe.obs.mean(1).abs().amax(1),
        "reward_mean": raw.mean(1),
        "reward_std": normalize.deviation(raw),
        "reward_min": raw.amin(1),
        "reward_max": raw.amax(1),
        "reward_nonzero": (raw != 0).float().mean(1),
        "reward_trained_std": normalize.deviation(probe.reward),
        "terminated_share": (probe.discount == 0).float().mean(1),
        "ends_at_longest": torch.full_like(raw[:, 0], data.ends_at_longest),
        "data_return_mean": torch.full_like(raw[:, 0], float(data.episode_returns.mean())),
    }


def _windows(plan: Plan, learner: Learner, data: Recorded, rows: Tensor, members: int) -> dict[str, Tensor]:
    """Of a policy that sees stretches of episodes: its errors at their last steps, and how far what it is asked for lies above the data."""
    algo: Any = plan.algo
    params = off_policy.networks(plan, learner)

    def last_errors(which: Tensor) -> Tensor:
        windows = algo.gather(plan, learner, data, which[:: max(1, len(which) // WINDOWS)].expand(members, -1))
        found: Tensor = algo.step_errors(plan, params, windows)[:, :, -1].mean(1)
        return found

    lowest, highest = float(data.episode_returns.min()), float(data.episode_returns.max())
    asked = learner.nets[algo.CONDITION][:, 0]
    found = {"loss_data": last_errors(rows), "target_return": asked, "data_return_max": torch.full_like(asked, highest)}
    found["target_above_data"] = (asked - highest) / max(highest - lowest, 1e-9)
    return found | ({"loss_held_out": last_errors(data.held_out)} if len(data.held_out) else {})


def _policy(plan: Plan, learner: Learner, probe: Batch) -> dict[str, Tensor]:
    """How far what the policy would do is from what was done: the mean distance of a component, or the share of other choices."""
    chosen = plan.algo.act(plan, off_policy.acting_networks(plan, learner), probe.obs, None, None)
    if plan.action.kind == "discrete":
        return {"policy_distance": (chosen != probe.action.squeeze(-1)).float().mean(1)}
    return {"policy_distance": (chosen - probe.action).abs().mean((1, 2))}


def _values(plan: Plan, learner: Learner, data: Recorded, rows: Tensor, probe: Batch, hp: Hyperparameters) -> dict[str, Tensor]:
    """Values of recorded actions against what came of them, and against those of the policy's own actions."""
    params = off_policy.networks(plan, learner)
    chosen = plan.algo.act(plan, off_policy.acting_networks(plan, learner), probe.obs, None, None)
    q = plan.algo.q_values(plan.config, params, probe)
    own = plan.algo.q_values(plan.config, params, probe._replace(action=chosen if chosen.dim() == 3 else chosen.unsqueeze(-1)))
    found = {"q_policy_gain": (own - q).mean(1)}
    if learner.reward_stats is not None:
        return found
    gammas = [float(each["gamma"] or 0.0) for each in hp.per_member]
    known = {gamma: _known_returns(data, rows, gamma) for gamma in set(gammas)}
    if any(which.any() for which, _ in known.values()):
        earned = torch.stack([known[gamma][1] for gamma in gammas]).to(q)
        counted = torch.stack([known[gamma][0] for gamma in gammas]).to(q)
        total = counted.sum(1).clamp(min=1.0)
        found |= {"q_bias": ((q - earned) * counted).sum(1) / total, "data_value": (earned * counted).sum(1) / total}
    return found


def _known_returns(data: Recorded, rows: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """Of rows [K]: whether what came after them is known, and its discounted return: to a real end, or to one too far away to count."""
    numbers = rows.cpu().numpy()
    episode = data.data.episode_of(numbers)
    ahead = torch.from_numpy(data.data.ends[episode] - numbers).double()
    known = torch.from_numpy(data.data.terminated[episode]) | (gamma**ahead < UNSEEN_SHARE)
    return known, data.returns(rows, gamma)
