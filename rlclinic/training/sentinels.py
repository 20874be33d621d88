"""Sentinels: what training testifies about itself, so that causes can be told apart from files alone.

`every_row` is cheap and runs with each logged row; `now_and_then` costs gradients and a decomposition and runs about
50 times in a run. Both take tensors with a leading member axis and give one number per member, [M]. Vectors are logged
as their extremes and the index of the worst entry. A column that does not apply (no bounds, no box) stays blank.
"""

from types import SimpleNamespace
from typing import Any, Final

import torch
from torch import Tensor

from rlclinic.training.data.rollout import Batch, Rollout, rows
from rlclinic.training.loops.on_policy import Estimates, Learner, Plan
from rlclinic.training.maths import losses
from rlclinic.training.nets import mlp

PREFIX: Final = "train/sentinel/"
EVERY_ROW: Final = (
    "ratio_first_dev", "adv_logp_corr", "adv_mean", "adv_std", "return_mean", "return_std", "return_abs_p95", "value_mean", "value_std",
    "ev_after", "kl_exact", "ess", "early_stop_epoch", "updates", "update_ratio_min", "update_ratio_max", "update_ratio_worst",
    "obs_abs_max", "obs_abs_worst", "obs_std_min", "obs_std_worst", "obs_mean_abs_max", "obs_out_of_bounds", "obs_nonfinite", "obs_repeat",
    "action_at_bound", "action_top_share", "action_std_min", "action_std_max", "entropy_relative", "reward_mean", "reward_std", "reward_min",
    "reward_max", "reward_nonzero", "reward_trained_std", "terminated", "truncated", "bootstrap_mass", "next_obs_is_reset", "weight_norm",
    "optimizer_steps",
)  # fmt: skip
NOW_AND_THEN: Final = (
    "grad_cosine", "grad_value_share", "grad_entropy_share", "dormant_actor", "dormant_critic", "rank_actor", "rank_critic",
    "saturated_actor", "saturated_critic", "activation_norm_actor", "activation_norm_critic", "ev_early", "ev_late",
)  # fmt: skip
COLUMNS: Final = tuple(PREFIX + name for name in EVERY_ROW + NOW_AND_THEN)
PROBE_ROWS: Final = 512
DORMANT: Final = 0.025
"""A unit is dormant when its mean activation is below this share of its layer's (Sokar et al. 2023, arXiv:2302.12902)."""


@torch.no_grad()
def every_row(
    plan: Plan, before: Learner, after: Learner, rollout: Rollout, whole: Batch, raw: Estimates, readings: dict[str, Tensor], env: Any
) -> dict[str, Tensor]:
    """The free ones: one forward pass of the updated networks over the rollout, and its statistics."""
    dist, value = mlp.actor_critic(plan.policy, plan.policy.layout.views(after.flat), whole.obs, whole.action_mask)
    distribution = plan.policy.distribution
    change = distribution.log_prob(dist, whole.action) - whole.log_prob
    found = {
        "adv_logp_corr": correlation(raw.advantage, change),
        "kl_exact": distribution.kl(rows(rollout.dist), dist).mean(1),
        "ess": effective_sample_size(change),
        "ev_after": explained_variance(value, whole.returns),
        **_targets(whole, rollout, raw),
        **_update(plan, before, after, readings),
        **_observations(rollout, whole, env),
        **_actions(plan, rollout, env),
        **_ends(rollout, whole),
    }
    if distribution.max_entropy is not None:
        found["entropy_relative"] = distribution.entropy(dist).mean(1) / max(distribution.max_entropy, 1e-8)
    return {PREFIX + name: number for name, number in found.items()}


def explained_variance(value: Tensor, target: Tensor) -> Tensor:
    """1 - Var(target - value) / Var(target) over rows; NaN where the target hardly varies and the figure means nothing."""
    spread = target.var(1)
    floor = 1e-8 * (1.0 + target.square().mean(1))
    return torch.where(spread > floor, 1 - (target - value).var(1) / spread, torch.full_like(spread, torch.nan))


def correlation(x: Tensor, y: Tensor) -> Tensor:
    """Pearson correlation over rows [M, B] -> [M]; zero where one of them does not vary."""
    x, y = x - x.mean(1, keepdim=True), y - y.mean(1, keepdim=True)
    scale = (x.square().sum(1) * y.square().sum(1)).sqrt()
    return torch.where(scale > 1e-20, (x * y).sum(1) / scale.clamp(min=1e-20), torch.zeros_like(scale))


def effective_sample_size(log_ratio: Tensor) -> Tensor:
    """Share of rows that still count after reweighting to the new policy: 1 when nothing moved."""
    ratio = log_ratio.exp()
    return ratio.mean(1).square() / ratio.square().mean(1).clamp(min=1e-20)


def _targets(whole: Batch, rollout: Rollout, raw: Estimates) -> dict[str, Tensor]:
    """Scale of everything that is regressed on; value targets far from +-10 slow learning down or blow it up."""
    reward = rows(rollout.reward)
    table = torch.stack([raw.advantage, whole.returns, whole.value, reward, raw.reward], 1)  # [M, 5, B]
    means, stds = table.mean(2), table.std(2)
    names = ("adv", "return", "value", "reward")
    found = {f"{name}_mean": means[:, i] for i, name in enumerate(names)} | {f"{name}_std": stds[:, i] for i, name in enumerate(names)}
    found["reward_trained_std"] = stds[:, 4]
    position = max(int(0.95 * whole.returns.shape[1]) - 1, 0)
    found["return_abs_p95"] = whole.returns.abs().kthvalue(position + 1, dim=1).values
    low, high = torch.aminmax(reward, dim=1)
    return found | {"reward_min": low, "reward_max": high, "reward_nonzero": (reward != 0).float().mean(1)}


def _update(plan: Plan, before: Learner, after: Learner, readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """How far the weights moved, layer by layer, and how many of the planned steps were taken."""
    sizes = plan.policy.layout.sizes
    moved, size = (after.flat - before.flat).square(), before.flat.square()
    # Biases start at zero, where a ratio means nothing: matrices only.
    wide = [index for index, name in enumerate(plan.policy.layout.shapes) if name.endswith("weight")]
    moved_parts, size_parts = moved.split(sizes, 1), size.split(sizes, 1)
    numerator = torch.stack([moved_parts[i].sum(1) for i in wide], 1)
    ratio = (numerator / torch.stack([size_parts[i].sum(1) for i in wide], 1).clamp(min=1e-20)).sqrt()
    low, high = torch.aminmax(ratio, dim=1)
    applied = readings["applied"]  # [U, M]
    found = {
        "update_ratio_min": low,
        "update_ratio_max": high,
        # The layer furthest from 1e-3 per update on a log scale, where healthy training usually is.
        "update_ratio_worst": (ratio.clamp(min=1e-12).log10() + 3).abs().argmax(1).float(),
        "updates": applied.sum(0),
        "early_stop_epoch": torch.where(applied[-1] > 0, torch.nan, (readings["epoch"] * applied).amax(0)),
        "weight_norm": size.sum(1).sqrt(),
        "optimizer_steps": after.optimizer.steps.squeeze(1),
    }
    if "ratio_deviation" in readings:
        found["ratio_first_dev"] = readings["ratio_deviation"][0]
    return found


def _observations(rollout: Rollout, whole: Batch, env: Any) -> dict[str, Tensor]:
    """Scale, spread and sanity of what the networks are shown."""
    shown = whole.obs
    peak, peak_at = shown.abs().amax(1).max(1)
    spread, flat_at = shown.std(1).min(1)
    found = {
        "obs_abs_max": peak,
        "obs_abs_worst": peak_at.float(),
        "obs_std_min": spread,
        "obs_std_worst": flat_at.float(),
        "obs_mean_abs_max": shown.mean(1).abs().amax(1),
        "obs_nonfinite": (~torch.isfinite(shown)).flatten(1).sum(1).float(),
        # An observation that the action did not change: the next one was not carried over, or the env is frozen.
        "obs_repeat": (rollout.next_obs == rollout.obs).all(-1).float().mean((1, 2)),
    }
    if env.obs_low is not None and env.obs_high is not None:
        low, high = (torch.as_tensor(bound, dtype=torch.float32, device=shown.device) for bound in (env.obs_low, env.obs_high))
        outside = (rollout.obs < low - 1e-4) | (rollout.obs > high + 1e-4)
        found["obs_out_of_bounds"] = outside.any(-1).float().mean((1, 2))
    return found


def _actions(plan: Plan, rollout: Rollout, env: Any) -> dict[str, Tensor]:
    """Whether actions are varied, and whether they fit in the box."""
    action = rows(rollout.action)
    if env.action.kind == "box":
        deviation = rows(rollout.dist).chunk(2, -1)[1].exp().mean(1)
        found = {"action_std_min": deviation.amin(1), "action_std_max": deviation.amax(1)}
        if env.action.low is not None and env.action.high is not None:
            low, high = (torch.as_tensor(bound, dtype=torch.float32, device=action.device) for bound in (env.action.low, env.action.high))
            found["action_at_bound"] = ((action <= low) | (action >= high)).float().mean((1, 2))
        return found
    if env.action.kind == "discrete":
        counts = torch.zeros(action.shape[0], env.action.sizes[0], device=action.device)
        counts.scatter_add_(1, action, torch.ones_like(action, dtype=torch.float32))
        return {"action_top_share": counts.amax(1) / action.shape[1]}
    return {}


def _ends(rollout: Rollout, whole: Batch) -> dict[str, Tensor]:
    """How episodes end, and whether the observation at the end is really the final one."""
    end = rollout.end
    ends = end.sum((1, 2)).float()
    cut = rollout.truncated & ~rollout.terminated
    # After an end the next action sees a reset observation; a final observation that equals it was overwritten by it.
    same = (rollout.next_obs == rollout.following).all(-1) & end
    target = whole.returns.abs().mean(1).clamp(min=1e-8)
    boot = (whole.returns.view_as(rollout.reward) - rollout.reward).abs() * cut
    return {
        "terminated": rollout.terminated.sum((1, 2)).float(),
        "truncated": cut.sum((1, 2)).float(),
        "bootstrap_mass": boot.sum((1, 2)) / (target * whole.returns.shape[1]),
        "next_obs_is_reset": torch.where(ends > 0, same.sum((1, 2)) / ends.clamp(min=1), torch.nan),
    }


def now_and_then(plan: Plan, learner: Learner, rollout: Rollout, whole: Batch, hp: SimpleNamespace, elapsed: Tensor) -> dict[str, Tensor]:
    """The costly ones, on at most 512 rows: gradients by loss term, features, errors early and late in episodes."""
    count = whole.log_prob.shape[1]
    index = torch.arange(0, count, max(count // PROBE_ROWS, 1), device=whole.obs.device)[:PROBE_ROWS]
    probe = Batch(*(None if field is None else field[:, index] for field in whole))  # type: ignore[arg-type]
    found = _gradients(plan, learner, probe, hp)
    with torch.no_grad():
        params = plan.policy.layout.views(learner.flat)
        for name, trunk in (("actor", plan.policy.actor_trunk), ("critic", plan.policy.critic_trunk)):
            layers = mlp.hidden(plan.policy, params, trunk, probe.obs)
            found |= {f"{key}_{name}": number for key, number in _features(plan, layers).items()}
        found |= _by_time(whole, elapsed)
    return {PREFIX + name: number for name, number in found.items()}


def _gradients(plan: Plan, learner: Learner, probe: Batch, hp: SimpleNamespace) -> dict[str, Tensor]:
    """Do policy and value pull the trunk the same way, and who pulls harder?"""
    leaf = learner.flat.detach().requires_grad_()
    dist, value = mlp.actor_critic(plan.policy, plan.policy.layout.views(leaf), probe.obs, probe.action_mask)
    advantage = (probe.advantage - probe.advantage.mean(1, keepdim=True)) / (probe.advantage.std(1, keepdim=True) + 1e-8)
    terms = {
        "policy": losses.policy_gradient(plan.policy.distribution.log_prob(dist, probe.action), advantage),
        "value": hp.vf_coef * losses.value_error(value, probe.returns),
        "entropy": -hp.ent_coef * plan.policy.distribution.entropy(dist).mean(1, keepdim=True),
    }
    width = plan.policy.parts[0]
    grads = {}
    for name, term in terms.items():
        (grad,) = torch.autograd.grad(term.sum(), leaf, retain_graph=True, allow_unused=True)
        grads[name] = torch.zeros_like(leaf[:, :width]) if grad is None else grad[:, :width]
    norms = {name: grad.norm(dim=1) for name, grad in grads.items()}
    total = torch.stack(list(norms.values())).sum(0).clamp(min=1e-20)
    product = (grads["policy"] * grads["value"]).sum(1)
    return {
        "grad_cosine": product / (norms["policy"] * norms["value"]).clamp(min=1e-20),
        "grad_value_share": norms["value"] / total,
        "grad_entropy_share": norms["entropy"] / total,
    }


def _features(plan: Plan, layers: list[Tensor]) -> dict[str, Tensor]:
    """Are the hidden units alive and different from each other?"""
    last = layers[-1]
    scores = [layer.abs().mean(1) for layer in layers]  # [M, width] each
    idle = torch.cat([score <= DORMANT * score.mean(1, keepdim=True) for score in scores], 1)
    centred = (last - last.mean(1, keepdim=True)).double()
    gram = centred.transpose(1, 2) @ centred
    spectrum = torch.linalg.eigvalsh(gram).clamp(min=0)
    share = spectrum / spectrum.sum(1, keepdim=True).clamp(min=1e-30)
    # Effective rank: the exponential of the spectrum's entropy (Roy and Vetterli 2007).
    rank = torch.exp(-(share * share.clamp(min=1e-30).log()).sum(1)).float()
    found = {"dormant": idle.float().mean(1), "rank": rank, "activation_norm": last.norm(dim=2).mean(1)}
    if plan.policy.net.activation in ("tanh", "sigmoid"):
        edge = 0.97 if plan.policy.net.activation == "tanh" else 0.985
        outer = torch.cat([(layer.abs() > edge).float().mean(1) for layer in layers], 1)
        found["saturated"] = outer.mean(1)
    return found


def _by_time(whole: Batch, elapsed: Tensor) -> dict[str, Tensor]:
    """Explained variance in the early and the late half of episodes: a critic blind to the clock fails late."""
    age = rows(elapsed).float()
    middle = age.median(1, keepdim=True).values
    found = {}
    for name, keep in (("ev_early", age <= middle), ("ev_late", age > middle)):
        weight = keep.float()
        count = weight.sum(1).clamp(min=1)
        mean = (whole.returns * weight).sum(1) / count
        spread = ((whole.returns - mean.unsqueeze(1)).square() * weight).sum(1) / count
        error = whole.returns - whole.value
        bias = (error * weight).sum(1) / count
        left = ((error - bias.unsqueeze(1)).square() * weight).sum(1) / count
        found[name] = torch.where(spread > 1e-8, 1 - left / spread.clamp(min=1e-20), torch.nan)
    return found
