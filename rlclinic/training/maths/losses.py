"""Loss terms: functions of rows [M, B] to one number per member [M, 1]. Every reduction keeps the member axis."""

import torch
from torch import Tensor


def mean(rows: Tensor, weight: Tensor | None = None) -> Tensor:
    """Mean over a member's rows, [M, B] -> [M, 1]; with weights, over the rows that count."""
    if weight is None:
        return rows.mean(-1, keepdim=True)
    return (rows * weight).sum(-1, keepdim=True) / weight.sum(-1, keepdim=True).clamp(min=1.0)


def clipped_surrogate(ratio: Tensor, advantage: Tensor, clip_range: Tensor, weight: Tensor | None = None) -> Tensor:
    """PPO's pessimistic objective, negated (arXiv:1707.06347, eq. 7).

    min(ratio A, clip(ratio) A) never exceeds (1 + clip) A for A > 0 and (1 - clip) A for A < 0, and below that it is
    ratio A: so the clip is one constant bound, A + clip |A|, which autograd need not look into.
    """
    bound = torch.addcmul(advantage, advantage.abs(), clip_range)
    return -mean(torch.minimum(ratio * advantage, bound), weight)


def policy_gradient(log_prob: Tensor, advantage: Tensor, weight: Tensor | None = None) -> Tensor:
    """The score-function estimator, negated (Williams 1992)."""
    return -mean(log_prob * advantage, weight)


def value_error(value: Tensor, returns: Tensor, weight: Tensor | None = None) -> Tensor:
    """Mean squared error of the critic."""
    return mean((value - returns).square(), weight)


def clipped_value_error(value: Tensor, old_value: Tensor, returns: Tensor, clip_range: Tensor, weight: Tensor | None = None) -> Tensor:
    """The worse of the plain error and the error of a prediction held within clip_range of the old one."""
    near = old_value + torch.maximum(torch.minimum(value - old_value, clip_range), -clip_range)
    # old + (value - old) is not value to the last bit: a member without a clip must not notice that a neighbour has one.
    near = torch.where(clip_range.isinf(), value, near)
    return mean(torch.maximum((value - returns).square(), (near - returns).square()), weight)


def kl_k3(log_ratio: Tensor, weight: Tensor | None = None) -> Tensor:
    """Schulman's k3 estimator of KL(old || new): unbiased, never negative, less noisy than mean(-log_ratio)."""
    return mean(torch.expm1(log_ratio) - log_ratio, weight)


def huber(error: Tensor) -> Tensor:
    """Quadratic up to 1, linear beyond: a single wild target cannot take over a gradient."""
    size = error.abs()
    return torch.where(size < 1.0, 0.5 * error * error, size - 0.5)
