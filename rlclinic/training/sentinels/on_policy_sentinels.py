"""Sentinels: what training testifies about itself, so that causes can be told apart from files alone.

`every_row` is cheap and runs with each logged row; `now_and_then` costs passes through the networks and runs about
40 times in a run. Both take tensors with a leading member axis and give one number per member, [M]. Vectors are logged
as their extremes and the index of the worst entry. A column that does not apply (no bounds, no box) stays blank.
Rows that are no transition (see envs.base.Step.valid) are left out of everything.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from rlclinic.training import members
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.rollouts import Batch, Rollout, rows
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.loops.on_policy import Estimates, LastMinibatch, Learner, Plan
from rlclinic.training.maths import normalize
from rlclinic.training.nets import conv, mlp, q_nets
from rlclinic.training.optim import OptimizerState
from rlclinic.training.sentinels import constants, environment, fingerprints, gradients, random_policy

PREFIX: Final = "train/sentinel/"
EVERY_ROW: Final = (
    "ratio_first_dev", "adv_logp_corr", "adv_mean", "adv_std", "return_mean", "return_std", "return_abs_p95", "value_mean", "value_std",
    "ess", "early_stop_epoch", "updates", "update_ratio_min", "update_ratio_max", "update_ratio_worst", "obs_abs_max", "obs_abs_worst",
    "obs_std_min", "obs_std_worst", "obs_mean_abs_max", "obs_out_of_bounds", "obs_repeat", "action_at_bound", "action_top_share",
    "action_std_min", "action_std_max", "entropy_relative", "reward_mean", "reward_std", "reward_min", "reward_max", "reward_nonzero",
    "reward_trained_std", "terminated", "truncated", "bootstrap_mass", "next_obs_is_reset", "weight_norm", "optimizer_steps",
)  # fmt: skip
NOW_AND_THEN: Final = (
    "grad_cosine", "grad_value_share", "grad_entropy_share", "dormant_actor", "dormant_critic", "rank_actor", "rank_critic",
    "saturated_actor", "saturated_critic", "activation_norm_actor", "activation_norm_critic", "ev_early", "ev_late", "ev_after", "kl_exact",
    "target_error", "target_error_ends", "grad_signal", "grad_noise",
)  # fmt: skip
FROM_READINGS: Final = ("kl_first_epoch", "clip_fraction_first_epoch", "kl_epoch_min", "kl_epoch_max", "kl_epoch_worst")
"""Made with the other means over gradient steps."""
AT_EVALUATION: Final = ("fingerprint_normalizer_eval",)
COLUMNS: Final = tuple(
    PREFIX + name
    for name in EVERY_ROW + FROM_READINGS + NOW_AND_THEN + fingerprints.NAMES + AT_EVALUATION + random_policy.NAMES + environment.NAMES
)
PROBE_ROWS: Final = 128
SATURATES: Final = {"tanh": 0.97, "sigmoid": 0.985}
"""Bounded activations, and where their slope has all but vanished."""
DORMANT: Final = 0.025
"""A unit is dormant when its mean activation is below this share of its layer's (Sokar et al. 2023, arXiv:2302.12902)."""


class Seen(NamedTuple):
    """Everything an iteration leaves behind, for the sentinels to look at."""

    before: Learner
    after: Learner
    rollout: Rollout
    whole: Batch
    raw: Estimates
    readings: dict[str, Tensor]
    last_minibatch: LastMinibatch | None
    elapsed: Tensor
    """Steps since the episode's start, [M, T, N]."""

    def member(self, index: int) -> "Seen":
        """What one member saw, without the rows that are no transition: [1, K, 1] in place of [M, T, N]."""
        assert self.rollout.valid is not None
        one = slice(index, index + 1)
        counts = rows(self.rollout.valid)[index]  # [T*N]

        def kept(batch: Any) -> list[Tensor | None]:
            return [None if each is None else each[one][:, counts] for each in batch]

        whole = vars(self.rollout) | {"following": after_resets(self.rollout.following, self.rollout.end, self.rollout.valid)}
        # What a bonus added and a limit took off (`paid`, `weighed`) is in the estimates already, and no sentinel reads it.
        grid = {name: rows(each)[one][:, counts].unsqueeze(2) for name, each in whole.items() if isinstance(each, Tensor)}
        return Seen(
            _only(self.before, one),
            _only(self.after, one),
            Rollout(**{**grid, "valid": None}),  # type: ignore[arg-type]
            Batch(*kept(self.whole)),  # type: ignore[arg-type]
            Estimates(*kept(self.raw)),  # type: ignore[arg-type]
            {name: reading[:, one] for name, reading in self.readings.items()},
            None if self.last_minibatch is None else LastMinibatch(*(None if each is None else each[one] for each in self.last_minibatch)),  # type: ignore[arg-type]
            rows(self.elapsed)[one][:, counts].unsqueeze(2),
        )


def after_resets(following: Tensor, end: Tensor, valid: Tensor) -> Tensor:
    """`following`, with the observation after the reset where a row that is no transition comes between; NaN if it is yet to come."""
    # Bytes have no NaN; 1 is as good as none: a whole image of it is not what an episode begins with.
    unknown = 1 if following.dtype == torch.uint8 else torch.nan
    later = torch.cat([following[:, 1:], torch.full_like(following[:, :1], unknown)], 1)
    resets = torch.cat([~valid[:, 1:], end[:, -1:]], 1)
    return torch.where(resets.view(*resets.shape, *(1,) * (later.dim() - 3)), later, following)


def _only(learner: Learner, one: slice) -> Learner:
    """A learner of one member; the sentinels look at its weights and at its optimizer."""
    return Learner(learner.flat[one], OptimizerState(*(each[one] for each in learner.optimizer)))


def _one_by_one(seen: Seen, look: Callable[[Seen, int], dict[str, Tensor]]) -> dict[str, Tensor]:
    """Members differ in how many of their rows count, so they cannot be looked at together. One without any stays blank."""
    assert seen.rollout.valid is not None
    return join([look(seen.member(m), m) if bool(counts.any()) else {} for m, counts in enumerate(seen.rollout.valid)], seen.whole.value)


def join(members: list[dict[str, Tensor]], like: Tensor) -> dict[str, Tensor]:
    """Numbers [1] of every member by name as [M]; where a member has none, NaN."""
    names = dict.fromkeys(name for numbers in members for name in numbers)
    blank = like.new_full((1,), torch.nan)
    return {name: torch.cat([numbers.get(name, blank) for numbers in members]) for name in names}


def compute(plan: Plan, env: VecEnv, seen: Seen, hp: Hyperparameters, *, costly: bool) -> dict[str, Tensor]:
    """All sentinels of a row."""
    found = every_row(plan, seen, env)
    return found | now_and_then(plan, seen, hp) | target_errors(seen, hp) if costly else found


@torch.no_grad()
def every_row(plan: Plan, seen: Seen, env: VecEnv) -> dict[str, Tensor]:
    """The free ones: statistics of tensors that are there anyway, no pass through a network. Also the explained variance."""
    if seen.rollout.valid is not None:
        return _one_by_one(seen, lambda own, _: every_row(plan, own, env))
    found = {
        **_targets(seen.whole, seen.rollout, seen.raw),
        **_update(plan, seen.before, seen.after, seen.readings),
        **_observations(plan, seen.rollout, seen.whole, env),
        **_actions(plan, seen.rollout, env),
        **_ends(seen.rollout, seen.whole, seen.raw),
    }
    if seen.last_minibatch is not None:
        found["adv_logp_corr"] = correlation(*seen.last_minibatch)
        found["ess"] = effective_sample_size(seen.last_minibatch.log_ratio, seen.last_minibatch.weight)
    if plan.policy.distribution.max_entropy is not None:
        found["entropy_relative"] = -seen.readings["entropy"][0] / max(plan.policy.distribution.max_entropy, 1e-8)
    named = {PREFIX + name: number for name, number in found.items()}
    if "value" in seen.readings:  # without a baseline nobody trains the critic, and its errors say nothing
        named["train/metrics/explained_variance"] = explained_variance(seen.whole.value, seen.whole.returns)
    return named


def explained_variance(value: Tensor, target: Tensor) -> Tensor:
    """1 - Var(target - value) / Var(target) over rows; NaN where the target hardly varies and the figure means nothing."""
    spread = target.var(1)
    floor = 1e-8 * (1.0 + target.square().mean(1))
    return torch.where(spread > floor, 1 - (target - value).var(1) / spread, torch.full_like(spread, torch.nan))


def correlation(x: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
    """Pearson correlation over rows [M, B] -> [M]; zero where one of them does not vary."""
    x, y = x - _mean(x, weight), y - _mean(y, weight)
    if weight is not None:
        x, y = x * weight, y * weight
    scale = (x.square().sum(1) * y.square().sum(1)).sqrt()
    return torch.where(scale > 1e-20, (x * y).sum(1) / scale.clamp(min=1e-20), torch.zeros_like(scale))


def effective_sample_size(log_ratio: Tensor, weight: Tensor | None = None) -> Tensor:
    """Share of rows that still count after reweighting to the new policy: 1 when nothing moved."""
    ratio = log_ratio.exp()
    return (_mean(ratio, weight).square() / _mean(ratio.square(), weight).clamp(min=1e-20)).squeeze(1)


def _mean(x: Tensor, weight: Tensor | None) -> Tensor:
    """Mean over the last axis, which stays. Not the losses' own: what watches them must not share their faults."""
    return x.mean(-1, keepdim=True) if weight is None else (x * weight).sum(-1, keepdim=True) / weight.sum(-1, keepdim=True).clamp(min=1.0)


def _targets(whole: Batch, rollout: Rollout, raw: Estimates) -> dict[str, Tensor]:
    """Scale of everything that is regressed on; value targets far from +-10 slow learning down or blow it up."""
    reward = rows(rollout.reward)
    table = torch.stack([raw.advantage, whole.returns, whole.value, reward, raw.reward], 1)  # [M, 5, B]
    if whole.weight is None:
        means, stds = table.mean(2), table.std(2)
    else:
        # A sum of rewards that the rollout's end cut short is no target: nothing learns from it, and nothing is said about it.
        own, every = whole.weight, torch.ones_like(whole.weight)
        means, stds = _moments(table, torch.stack([own, own, own, every, every], 1))
    names = ("adv", "return", "value", "reward")
    found = {f"{name}_mean": means[:, i] for i, name in enumerate(names)} | {f"{name}_std": stds[:, i] for i, name in enumerate(names)}
    found["reward_trained_std"] = stds[:, 4]
    found["return_abs_p95"] = _high(whole.returns.abs(), whole.weight)
    low, high = torch.aminmax(reward, dim=1)
    return found | {"reward_min": low, "reward_max": high, "reward_nonzero": (reward != 0).float().mean(1)}


def _moments(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation over the rows that count, which lie along the last axis."""
    mean = _mean(x, weight)
    square = ((x - mean).square() * weight).sum(-1) / (weight.sum(-1) - 1).clamp(min=1.0)
    return mean.squeeze(-1), square.sqrt()


def _high(x: Tensor, weight: Tensor | None) -> Tensor:
    """95th percentile [M] of rows [M, B]."""
    if weight is None:
        return x.kthvalue(max(int(0.95 * x.shape[1]) - 1, 0) + 1, dim=1).values
    counts = weight.sum(1, keepdim=True)
    # Rows that do not count come first in order.
    place = x.shape[1] - counts + ((0.95 * counts).floor() - 1).clamp(min=0)
    ordered = x.masked_fill(weight == 0, -torch.inf).sort(1).values
    return torch.where(counts > 0, ordered.gather(1, place.long().clamp(max=x.shape[1] - 1)), torch.nan).squeeze(1)


def _update(plan: Plan, before: Learner, after: Learner, readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """How far the weights moved, layer by layer, and how many of the planned steps were taken."""
    # Biases start at zero, where a ratio means nothing: matrices only.
    wide = [index for index, name in enumerate(plan.policy.layout.shapes) if name.endswith("weight")]
    squares = torch.stack([after.flat - before.flat, before.flat], 1).square_()  # [M, 2, P]
    parts = squares.split(plan.policy.layout.sizes, 2)
    moved, size = torch.stack([parts[i].sum(2) for i in wide], 2).unbind(1)  # [M, layers]
    ratio = (moved / size.clamp(min=1e-20)).sqrt()
    low, high = torch.aminmax(ratio, dim=1)
    applied = readings["applied"]  # [U, M]
    found = {
        "update_ratio_min": low,
        "update_ratio_max": high,
        # The layer furthest from 1e-3 per update on a log scale, where healthy training usually is.
        "update_ratio_worst": (ratio.clamp(min=1e-12).log10() + 3).abs().argmax(1).float(),
        "updates": applied.sum(0),
        "early_stop_epoch": torch.where(applied[-1] > 0, torch.nan, (readings["epoch"] * applied).amax(0)),
        "weight_norm": squares[:, 1].sum(1).sqrt(),
        "optimizer_steps": after.optimizer.steps.squeeze(1),
    }
    if "ratio_deviation" in readings:
        found["ratio_first_dev"] = readings["ratio_deviation"][0]
    return found


def _observations(plan: Plan, rollout: Rollout, whole: Batch, env: VecEnv) -> dict[str, Tensor]:
    """Scale, spread and sanity of what the networks are shown; of images channel by channel, as a single pixel may well stand still."""
    parts = [whole.obs] if plan.policy.picture is None else conv.channels(plan.policy.picture, whole.obs[:, _places(whole.obs)])
    low, high = (torch.cat(ends, 1) for ends in zip(*(torch.aminmax(part, dim=1) for part in parts), strict=True))  # [M, D]
    peak, peak_at = torch.maximum(low.abs(), high.abs()).max(1)
    spread, flat_at = torch.cat([normalize.deviation(part) for part in parts], 1).min(1)
    found = {
        "obs_abs_max": peak,
        "obs_abs_worst": peak_at.float(),
        "obs_std_min": spread,
        "obs_std_worst": flat_at.float(),
        "obs_mean_abs_max": torch.cat([part.mean(1) for part in parts], 1).abs().amax(1),
        # An observation that the action did not change: the next one was not carried over, or the env is frozen.
        "obs_repeat": (rollout.next_obs == rollout.obs).flatten(3).all(-1).float().mean((1, 2)),
    }
    if env.obs_low is not None and env.obs_high is not None and plan.policy.picture is None:
        if rollout.net_obs is not rollout.obs:
            low, high = torch.aminmax(rows(rollout.obs), dim=1)
        least, most = (constants.on(low.device, bound) for bound in (env.obs_low, env.obs_high))
        found["obs_out_of_bounds"] = ((low < least - 1e-4) | (high > most + 1e-4)).float().mean(1)
    return found


def _actions(plan: Plan, rollout: Rollout, env: VecEnv) -> dict[str, Tensor]:
    """Whether actions are varied, and whether they fit in the box."""
    action = rows(rollout.action)
    if env.action.kind == "box":
        deviation = rows(rollout.dist).chunk(2, -1)[1].exp().mean(1)
        found = {"action_std_min": deviation.amin(1), "action_std_max": deviation.amax(1)}
        if env.action.low is not None and env.action.high is not None:
            low, high = (constants.on(action.device, bound) for bound in (env.action.low, env.action.high))
            found["action_at_bound"] = ((action <= low) | (action >= high)).float().mean((1, 2))
        return found
    if env.action.kind == "discrete":
        counts = torch.zeros(action.shape[0], env.action.sizes[0], device=action.device)
        counts.scatter_add_(1, action, torch.ones_like(action, dtype=torch.float32))
        return {"action_top_share": counts.amax(1) / action.shape[1]}
    return {}


def _ends(rollout: Rollout, whole: Batch, raw: Estimates) -> dict[str, Tensor]:
    """How episodes end, and whether the observation at the end is really the final one."""
    end = rollout.over
    ends = end.sum((1, 2)).float()
    cut = rollout.truncated & ~rollout.terminated
    # After an end the next action sees a reset observation; a final observation that equals it was overwritten by it.
    same = (rollout.next_obs == rollout.following).flatten(3).all(-1) & end
    target = whole.returns.abs().mean(1).clamp(min=1e-8)
    # Targets are in units of the reward that was trained on, which normalization may have scaled.
    boot = (whole.returns - raw.reward).view_as(rollout.reward).abs() * cut
    return {
        "terminated": rollout.terminated.sum((1, 2)).float(),
        "truncated": cut.sum((1, 2)).float(),
        "bootstrap_mass": boot.sum((1, 2)) / (target * whole.returns.shape[1]),
        "next_obs_is_reset": torch.where(ends > 0, same.sum((1, 2)) / ends.clamp(min=1), torch.nan),
    }


def now_and_then(plan: Plan, seen: Seen, hp: Hyperparameters) -> dict[str, Tensor]:
    """The costly ones, on at most 128 rows: gradients by loss term, features, what changed, errors early and late."""
    if seen.rollout.valid is not None:
        return _one_by_one(seen, lambda own, m: now_and_then(plan, own, members.one(hp, m)))
    index = _places(seen.whole.log_prob)
    probe = Batch(*(None if field is None else field[:, index] for field in seen.whole))  # type: ignore[arg-type]
    found = gradients.by_term(plan, seen.after, probe, hp)
    with torch.no_grad():
        params = plan.policy.layout.views(seen.after.flat)
        trunks = {name: mlp.hidden(plan.policy, params, trunk, probe.obs) for name, trunk in plan.policy.trunks.items()}
        for name, layers in trunks.items():
            dense = len(plan.policy.widths(plan.policy.trunks[name]))
            found |= {f"{key}_{name}": number for key, number in features(plan.policy, layers, dense).items()}
        dist, value = mlp.actor_critic(plan.policy, params, probe.obs, probe.action_mask)
        change = plan.policy.distribution.log_prob(dist, probe.action) - probe.log_prob
        found["kl_exact"] = plan.policy.distribution.kl(rows(seen.rollout.dist)[:, index], dist).mean(1)
        found["ev_after"] = explained_variance(value, probe.returns)
        if seen.last_minibatch is None:
            found["adv_logp_corr"] = correlation(probe.advantage, change, probe.weight)
            found["ess"] = effective_sample_size(change, probe.weight)
        found |= _by_time(seen.whole, seen.elapsed)
    return {PREFIX + name: number for name, number in found.items()}


def _places(rows: Tensor) -> Tensor:
    """Where at most 128 of rows [M, B, ...] lie, evenly spread."""
    count = rows.shape[1]
    return torch.arange(0, count, max(count // PROBE_ROWS, 1), device=rows.device)[:PROBE_ROWS]


@torch.no_grad()
def target_errors(seen: Seen, hp: Hyperparameters) -> dict[str, Tensor]:
    """Do targets follow from rewards and values? The recursion of TD(lambda), written out a second time, step by step.

    Within an episode R[t] = r[t] + gamma ((1 - lambda) V[t + 1] + lambda R[t + 1]); at a terminal state R[t] = r[t]. Mean error over
    such steps, relative to the size of targets and rewards; NaN where there was no such step. Blank for rollouts with rows that are
    no transition.
    """
    rollout, whole = seen.rollout, seen.whole
    if rollout.valid is not None:
        return {}
    shape = rollout.reward.shape
    target, value, reward = (each.view(shape) for each in (whole.returns, whole.value, seen.raw.reward))
    gamma, gae_lambda = (torch.ones_like(hp.gamma) if each is None else each for each in (hp.gamma, getattr(hp, "gae_lambda", None)))
    gamma, gae_lambda = gamma.unsqueeze(-1), gae_lambda.unsqueeze(-1)
    counted = torch.ones(shape, dtype=torch.bool, device=reward.device) if whole.weight is None else whole.weight.view(shape) > 0
    inside = ~(rollout.terminated | rollout.truncated)[:, :-1] & counted[:, :-1]
    due = reward[:, :-1] + gamma * ((1 - gae_lambda) * value[:, 1:] + gae_lambda * target[:, 1:])
    scale = target.abs().mean((1, 2)) + reward.abs().mean((1, 2)) + 1e-8
    errors = {
        "target_error": ((target[:, :-1] - due).abs(), inside),
        "target_error_ends": ((target - reward).abs(), rollout.terminated & counted),
    }
    return {PREFIX + name: (error * where).sum((1, 2)) / where.sum((1, 2)) / scale for name, (error, where) in errors.items()}


def features(policy: mlp.ActorCritic | q_nets.Net, layers: list[Tensor], dense: int) -> dict[str, Tensor]:
    """Are the hidden units alive and different from each other? The last `dense` of the layers are the fully connected ones."""
    last = layers[-1]
    scores = [layer.abs().mean(1) for layer in layers]  # [M, width] each
    idle = torch.cat([score <= DORMANT * score.mean(1, keepdim=True) for score in scores], 1)
    centred = last - last.mean(1, keepdim=True)
    gram = centred.transpose(1, 2) @ centred
    # Participation ratio of the covariance spectrum, (sum l)^2 / sum l^2: between 1 and the width, without eigenvalues.
    trace = gram.diagonal(dim1=1, dim2=2).sum(1)
    rank = trace.square() / gram.square().sum((1, 2)).clamp(min=1e-30)
    found = {"dormant": idle.float().mean(1), "rank": rank, "activation_norm": last.norm(dim=2).mean(1)}
    # Convolutions end in rectifiers, which have no upper bound, and nobody knows what a network of another package ends in.
    bounded = layers if policy.encoder is None else layers[len(layers) - dense :]
    if policy.net.activation in SATURATES and bounded:
        outer = torch.cat([(layer.abs() > SATURATES[policy.net.activation]).float().mean(1) for layer in bounded], 1)
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
