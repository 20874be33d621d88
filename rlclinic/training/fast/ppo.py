"""PPO's loss with its derivatives by hand."""

import torch
from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.rollouts import Batch
from rlclinic.training.fast.gradients import Slopes
from rlclinic.training.maths import losses


def slopes(log_prob: Tensor, entropy: Tensor, value: Tensor, batch: Batch, hp: Hyperparameters) -> tuple[Slopes, dict[str, Tensor]]:
    """The derivatives of `algos.ppo.loss`, and its readings."""
    count = log_prob.shape[1]
    log_ratio = log_prob - batch.log_prob
    gain = log_ratio.exp() * batch.advantage
    bound = torch.addcmul(batch.advantage, batch.advantage.abs(), hp.clip_range)
    policy_loss = -losses.mean(torch.minimum(gain, bound))
    # d(ratio A) / d log_prob is ratio A itself; beyond the bound the objective is flat. What is not a number stays so, and is noticed.
    by_log_prob = torch.where(gain > bound, 0.0, gain).mul_(-1.0 / count)
    square, pull = value_slope(value, batch.value, batch.returns, hp.clip_range_vf)
    value_loss = losses.mean(square)
    entropy = losses.mean(entropy)
    total = policy_loss + hp.vf_coef * value_loss - hp.ent_coef * entropy
    slopes = Slopes(by_log_prob, pull * (hp.vf_coef * (2.0 / count)), -hp.ent_coef / count if hp.pays_entropy else None)
    return slopes, {"policy": policy_loss, "value": value_loss, "entropy": -entropy, "total": total, "log_ratio": log_ratio}


def value_slope(value: Tensor, old_value: Tensor, returns: Tensor, clip_range: Tensor | None) -> tuple[Tensor, Tensor]:
    """Rows [M, B] of `losses.clipped_value_error`'s square (`losses.value_error`'s without a clip) and half of its derivative by value."""
    error = value - returns
    if clip_range is None:
        return error * error, error
    moved = value - old_value
    near = torch.where(clip_range.isinf(), value, old_value + torch.maximum(torch.minimum(moved, clip_range), -clip_range))
    far = near - returns
    worse = far * far > error * error
    # A prediction that is held back no longer answers to the weights.
    return torch.where(worse, far * far, error * error), torch.where(worse, torch.where(moved.abs() > clip_range, 0.0, far), error)
