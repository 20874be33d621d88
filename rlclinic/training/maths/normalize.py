"""Running statistics per member, and the two things they scale: observations and rewards.

Statistics change once per iteration, after the update: within an iteration the behaviour policy and the policy that is
updated must see the same numbers, or the ratio of their probabilities is wrong from the first minibatch on.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from rlclinic.config import EnvConfig

EPSILON = 1e-8
ROUNDING = 5e-7
"""The share of a mean up to which a deviation from it is float32's rounding."""


class Moments(NamedTuple):
    """Count [M, 1], mean [M, D] and variance [M, D] of all rows seen so far."""

    count: Tensor  # type: ignore[assignment]  # tuple.count has the same name; nobody counts in a tuple of tensors
    mean: Tensor
    var: Tensor


def moments(members: int, size: int, device: torch.device) -> Moments:
    """Statistics of nothing yet: scaling with them changes nothing."""
    shape = (members, size)
    # Double precision: the count grows to 1e8 and the mean must still move.
    return Moments(
        torch.zeros(members, 1, dtype=torch.float64, device=device),
        torch.zeros(shape, dtype=torch.float64, device=device),
        torch.ones(shape, dtype=torch.float64, device=device),
    )


def include(stats: Moments, rows: Tensor, active: Tensor, weight: Tensor | None = None) -> Moments:
    """Statistics that also cover rows [M, B, D] (parallel-variance formula of Chan et al.); frozen members keep theirs.

    With weight [M, B], rows of weight 0 are left out: a vector env's reset rows are no observation of the task.
    """
    rows = rows.double()
    if weight is None:
        count = rows.new_full((rows.shape[0], 1), rows.shape[1])
        mean = rows.mean(1)
        var = (rows - mean.unsqueeze(1)).square().mean(1)
    else:
        share = weight.double().unsqueeze(-1)
        count = share.sum(1)
        mean = (rows * share).sum(1) / count.clamp(min=1.0)
        var = ((rows - mean.unsqueeze(1)).square() * share).sum(1) / count.clamp(min=1.0)
        active = active & (count > 0)
    total = stats.count + count
    delta = mean - stats.mean
    # The first batch replaces the placeholder variance of one: its weight is the count, which is zero.
    new_var = (stats.var * stats.count + var * count + delta.square() * stats.count * count / total) / total
    new = Moments(total, stats.mean + delta * count / total, new_var)
    return Moments(*(torch.where(active, after, before) for after, before in zip(new, stats, strict=True)))


def observations(stats: Moments, obs: Tensor, clip: float) -> Tensor:
    """Observations [M, ..., D] with mean 0 and variance 1 per dimension, clipped to +-clip."""
    shape = (obs.shape[0],) + (1,) * (obs.dim() - 2) + (obs.shape[-1],)
    mean, scale = stats.mean.float().view(shape), torch.rsqrt(stats.var + EPSILON).float().view(shape)
    return ((obs - mean) * scale).clamp(-clip, clip)


def rewards(stats: Moments, reward: Tensor, clip: float) -> Tensor:
    """Rewards [M, T, N] divided by the standard deviation of the discounted return; the mean stays: it is the task."""
    return (reward * scale(stats)).clamp(-clip, clip)


def scale(stats: Moments) -> Tensor:
    """What rewards [M, T, N] are multiplied with, [M, 1, 1]."""
    return torch.rsqrt(stats.var + EPSILON).float().view(-1, 1, 1)


def clipped(reward: Tensor, bound: float | None) -> Tensor:
    """Rewards within +-bound, as env.clip_raw_reward asks; what is reported stays raw."""
    return reward if bound is None else reward.clamp(-bound, bound)


def learned(reward: Tensor, env: EnvConfig) -> Tensor:
    """Rewards as learning sees them before they are normalized: scaled, shifted and cut as the config asks; what is reported stays raw."""
    if env.train_reward_scale != 1.0:
        reward = reward * env.train_reward_scale
    if env.train_reward_shift != 0.0:
        reward = reward + env.train_reward_shift
    return clipped(reward, env.clip_raw_reward)


def discounted_returns(reward: Tensor, end: Tensor, carry: Tensor, gamma: Tensor) -> tuple[Tensor, Tensor]:
    """Forward-running discounted sums of reward [M, T, N], reset after an end; carry [M, N] goes to the next rollout."""
    sums = []
    for t in range(reward.shape[1]):
        carry = carry * gamma + reward[:, t]
        sums.append(carry)
        carry = carry * ~end[:, t]
    return torch.stack(sums, 1), carry


def deviation(rows: Tensor) -> Tensor:
    """Standard deviation of [M, K] or [M, K, D] over K.

    A single row of numbers is computed beside a copy of itself: torch takes another way for one alone, on which equal numbers deviate
    by their rounding, and a run would log something else than in a cohort. One number does not deviate.
    """
    if rows.shape[1] == 1:
        return torch.zeros_like(rows[:, 0])
    return rows.std(1) if len(rows) > 1 or rows[0, 0].numel() > 1 else torch.cat((rows, rows)).std(1)[:1]


def standardize(advantage: Tensor, weight: Tensor | None = None) -> Tensor:
    """Advantages [M, B] with mean 0 and deviation 1 per member; rows of weight 0 are left out of both. All equal: they are 0."""
    mean, std = _mean_and_deviation(advantage, weight)
    # Equal numbers minus their mean are not 0 but its rounding, which the division would make as large as any advantage.
    return (advantage - mean) / torch.where(std > ROUNDING * mean.abs(), std + EPSILON, torch.inf)


def standardize_rounding_too(advantage: Tensor, weight: Tensor | None = None) -> Tensor:
    """The same without regard to rounding, as runs compute it that were begun before that was corrected (config.corrections)."""
    mean, std = _mean_and_deviation(advantage, weight)
    return (advantage - mean) / (std + EPSILON)


def _mean_and_deviation(x: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """[M, 1] each, of rows [M, B]."""
    if weight is None:
        return x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
    count = weight.sum(-1, keepdim=True).clamp(min=2.0)
    mean = (x * weight).sum(-1, keepdim=True) / count
    return mean, (((x - mean).square() * weight).sum(-1, keepdim=True) / (count - 1)).sqrt()
