"""A policy that is fitted to recorded actions: a softmax over choices, or a normal distribution around a squashed mean.

Of vectors the mean is tanh(mu(s)), so that it stays between the bounds, and the deviation is one learned number for each component, the
same in every state (arXiv:2110.06169, appendix C). The density is the plain normal's: recorded actions at a bound would have none under
a squashed one.
"""

import math
from typing import Final

import torch
from torch import Tensor

from rlclinic.config import Config, NetConfig
from rlclinic.training.envs.base import ActionSpec, VecEnv
from rlclinic.training.maths import exploration
from rlclinic.training.nets import mlp, q_nets
from rlclinic.training.nets.q_nets import Net, Networks

LOG_STD: Final = "log_std"
LOG_2PI: Final = math.log(2.0 * math.pi)
LOWEST: Final = -5.0
"""Of log_std: a policy that is surer than that of few recorded actions has learned them by heart."""


def build(config: Config, obs_size: int, env: VecEnv) -> Net:
    """One output for every choice, or for every component of an action."""
    return q_nets.build_actor(config, obs_size, env.action.sizes[0])


def vectors(net: NetConfig, action: ActionSpec, members: int, device: torch.device) -> dict[str, Tensor]:
    """What is learned beside the network: the logarithms of the deviations, [M, K]; nothing for choices."""
    if action.kind == "discrete":
        return {}
    return {LOG_STD: torch.full((members, action.sizes[0]), net.log_std_init, device=device)}


def mean(params: Networks, obs: Tensor) -> Tensor:
    """The mean action [M, B, K]."""
    return mlp.tanh(params("actor", obs))


def log_prob(params: Networks, obs: Tensor, action: Tensor) -> Tensor:
    """log pi(a|s) of recorded actions, [M, B]."""
    return log_prob_entropy(params, obs, action)[0]


def log_prob_entropy(params: Networks, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    """log pi(a|s) of recorded actions, and the policy's entropy there, [M, B] each."""
    if LOG_STD not in params:
        log_probs = params("actor", obs).log_softmax(-1)  # [M, B, A]
        return log_probs.gather(-1, action).squeeze(-1), -(log_probs.exp() * log_probs).sum(-1)
    log_std = deviations(params)
    error = (action - mean(params, obs)) * (-log_std).exp()
    rows = -0.5 * error.square() - log_std - 0.5 * LOG_2PI  # [M, B, K]
    return rows.sum(-1), (log_std + 0.5 * (1.0 + LOG_2PI)).sum(-1).expand(rows.shape[:2])


def deviations(params: Networks) -> Tensor:
    """The logarithms of the deviations within their limits, [M, 1, K]."""
    limits = params.nets["actor"].net
    return params[LOG_STD].clamp(max(limits.log_std_min, LOWEST), limits.log_std_max).unsqueeze(1)


def mode(params: Networks, obs: Tensor, action_mask: Tensor | None) -> Tensor:
    """The most likely choice [M, N], or the mean action [M, N, K]."""
    return mean(params, obs) if LOG_STD in params else exploration.greedy(params("actor", obs), action_mask)


def sample(params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor) -> Tensor:
    """A choice by its probability (noise uniform, [M, N, A]), or a vector within -1 and 1 (noise normal, [M, N, K])."""
    if LOG_STD in params:
        return (mean(params, obs) + deviations(params).exp() * noise).clamp(-1.0, 1.0)
    return exploration.boltzmann(params("actor", obs), noise.new_ones(noise.shape[0], 1), noise, action_mask)


def acting_noise(action: ActionSpec, seed: Tensor, step: Tensor | int, env: Tensor) -> Tensor:
    """Noise for `sample`."""
    draw = exploration.uniform_noise if action.kind == "discrete" else exploration.normal_noise
    return draw(seed, step, env, action.sizes[0])
