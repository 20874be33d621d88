"""A diagonal normal that tanh squashes into [-1, 1]: SAC's policy (arXiv:1812.05905, appendix C).

dist holds means and log standard deviations of the normal, [M, B, 2K]; actions are [M, B, K].
"""

import math
from typing import Final

from torch import Tensor
from torch.nn import functional

from rlclinic.training.nets import mlp

LOG_2: Final = math.log(2.0)
LOG_2PI: Final = math.log(2.0 * math.pi)


def sample(dist: Tensor, noise: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Actions and their log-probabilities [M, B], from standard normal noise [M, B, K]; log_std is kept within low and high."""
    mean, log_std = dist.chunk(2, -1)
    log_std = log_std.clamp(low, high)
    return squash(mean + log_std.exp() * noise, log_std, noise)


def squash(raw: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions tanh(raw) [M, B, K] and their log-probabilities [M, B]; raw is mean + std * noise."""
    # (raw - mean) / std is the noise itself: nothing to divide, nothing to lose.
    log_prob = -0.5 * noise * noise - log_std - 0.5 * LOG_2PI
    # log(1 - tanh(x)^2) as 2 (log 2 - x - softplus(-2x)): the plain form is log(0) for |x| above 9.
    slope = 2.0 * (LOG_2 - raw + functional.logsigmoid(raw + raw))
    return mlp.tanh(raw), (log_prob - slope).sum(-1)


def draw(dist: Tensor, noise: Tensor, low: float, high: float) -> Tensor:
    """The actions of `sample` alone."""
    mean, log_std = dist.chunk(2, -1)
    return mlp.tanh(mean + log_std.clamp(low, high).exp() * noise)


def mode(dist: Tensor) -> Tensor:
    """The action of the normal's mean."""
    return mlp.tanh(dist.chunk(2, -1)[0])


def entropy_bound(size: int) -> float:
    """The largest entropy of actions in [-1, 1]: that of the uniform distribution, K log 2."""
    return size * LOG_2
