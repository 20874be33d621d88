"""Optimizers as pure functions over flat buffers [M, P]: each member with its own rate, clip and step count.

Every step takes `active` [M, 1], or None for everyone: members that are done, failed or past target_kl keep weights,
moments and counts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rlclinic.training.nets.layout import Layout

BETA1, BETA2 = 0.9, 0.999
LOG_BETA1, LOG_BETA2 = math.log(BETA1), math.log(BETA2)


class OptimizerState(NamedTuple):
    """First and second moment [M, P] and step count [M, 1] (zeros where a rule does not use one)."""

    mean: Tensor
    square: Tensor
    steps: Tensor


Stepped = tuple[Tensor, OptimizerState]


@dataclass(frozen=True)
class Optimizer:
    """A rule and the settings that are equal in a cohort. Learning rates and clips come with each step."""

    kind: str
    eps: float
    weight_decay: float
    momentum: float
    rms_decay: float
    layout: Layout
    eps_in_root: bool = False
    """RMSprop as runs compute it that were begun before it was corrected (config.corrections)."""


def start(flat: Tensor) -> OptimizerState:
    """No history: zero moments, no steps."""
    return OptimizerState(torch.zeros_like(flat), torch.zeros_like(flat), flat.new_zeros(flat.shape[0], 1))


def clip_by_norm(grad: Tensor, norm: Tensor, max_grad_norm: Tensor) -> Tensor:
    """Each member's gradient scaled down to its own bound; norm [M, 1] is the norm before."""
    return grad * (max_grad_norm / (norm + 1e-6)).clamp(max=1.0)


def all_within(norm: Tensor, bounds: Sequence[float | None]) -> bool:
    """Whether `clip_by_norm` would multiply every gradient by exactly 1; who is close to its bound is left to it."""
    return all(bound is None or within(size, bound) for size, bound in zip(norm.flatten().tolist(), bounds, strict=True))


def within(norm: float, bound: float) -> bool:
    """Whether a gradient is short enough to stay as it is, with room for rounding."""
    return norm < 0.99 * bound


def step(
    optimizer: Optimizer, flat: Tensor, grad: Tensor, state: OptimizerState, learning_rate: Tensor, active: Tensor | None
) -> tuple[Tensor, OptimizerState]:
    """One step of every active member along its (already clipped) gradient."""
    new, moments = RULES[optimizer.kind](optimizer, flat, grad, state, learning_rate)
    if active is None:
        return new, moments
    kept = (torch.where(active, after, before) for after, before in zip(moments, state, strict=True))
    return torch.where(active, new, flat), OptimizerState(*kept)


def adam(optimizer: Optimizer, flat: Tensor, grad: Tensor, state: OptimizerState, learning_rate: Tensor) -> Stepped:
    """Adam (arXiv:1412.6980), as torch.optim.Adam computes it."""
    if optimizer.weight_decay:
        grad = grad + optimizer.weight_decay * flat
    direction, state = _adam_direction(optimizer, grad, state)
    return flat - learning_rate * direction, state


def adamw(optimizer: Optimizer, flat: Tensor, grad: Tensor, state: OptimizerState, learning_rate: Tensor) -> Stepped:
    """Adam with decoupled weight decay (arXiv:1711.05101)."""
    direction, state = _adam_direction(optimizer, grad, state)
    return flat * (1 - learning_rate * optimizer.weight_decay) - learning_rate * direction, state


def lamb(optimizer: Optimizer, flat: Tensor, grad: Tensor, state: OptimizerState, learning_rate: Tensor) -> Stepped:
    """Adam's direction rescaled per layer to the layer's own norm (arXiv:1904.00962)."""
    direction, state = _adam_direction(optimizer, grad, state)
    direction = direction + optimizer.weight_decay * flat
    # Several critics lie one behind the other, with the same layers each.
    sizes = optimizer.layout.sizes * (flat.shape[1] // sum(optimizer.layout.sizes))
    pairs = zip(flat.split(sizes, 1), direction.split(sizes, 1), strict=True)
    return flat - learning_rate * torch.cat([part * _trust(weight, part) for weight, part in pairs], 1), state


def rmsprop(optimizer: Optimizer, flat: Tensor, grad: Tensor, state: OptimizerState, learning_rate: Tensor) -> Stepped:
    """RMSprop as torch.optim.RMSprop computes it, which SB3's A2C uses: epsilon is added after the root, squares start at zero."""
    if optimizer.weight_decay:
        grad = grad + optimizer.weight_decay * flat
    square = state.square.lerp(grad * grad, 1 - optimizer.rms_decay)
    direction = grad * torch.rsqrt(square + optimizer.eps) if optimizer.eps_in_root else grad / (square.sqrt() + optimizer.eps)
    return flat - learning_rate * direction, OptimizerState(state.mean, square, state.steps + 1)


def sgd(optimizer: Optimizer, flat: Tensor, grad: Tensor, state: OptimizerState, learning_rate: Tensor) -> Stepped:
    """Gradient descent with momentum, as torch.optim.SGD computes it."""
    if optimizer.weight_decay:
        grad = grad + optimizer.weight_decay * flat
    velocity = optimizer.momentum * state.mean + grad
    return flat - learning_rate * velocity, OptimizerState(velocity, state.square, state.steps + 1)


RULES = {"adam": adam, "adamw": adamw, "lamb": lamb, "rmsprop": rmsprop, "sgd": sgd}


def _adam_direction(optimizer: Optimizer, grad: Tensor, state: OptimizerState) -> tuple[Tensor, OptimizerState]:
    steps = state.steps + 1  # [M, 1]: each member counts its own, or a frozen one would wake with the wrong bias correction
    mean = state.mean.lerp(grad, 1 - BETA1)
    square = torch.addcmul(state.square * BETA2, grad, grad, value=1 - BETA2)
    # 1 - beta^steps. A power's last bits would depend on the member's place in the cohort.
    root = square.sqrt().div_(torch.expm1(steps * LOG_BETA2).neg_().sqrt_()).add_(optimizer.eps)
    return (mean / torch.expm1(steps * LOG_BETA1).neg_()).div_(root), OptimizerState(mean, square, steps)


def _trust(weight: Tensor, part: Tensor) -> Tensor:
    """LAMB's ratio per member and layer; 1 where either norm is zero (biases at the start)."""
    size, length = weight.norm(dim=1, keepdim=True), part.norm(dim=1, keepdim=True)
    return torch.where((size > 0) & (length > 0), size / length.clamp(min=1e-12), torch.ones_like(size))


def adam_in_place(
    optimizer: Optimizer, flat: Tensor, grad: Tensor, state: OptimizerState, rates: list[float | None], going: list[bool] | None
) -> None:
    """`adam` as one pass over memory that edits weights and moments: for callers that own them. going: who takes the step (None: all)."""
    by_rate: dict[float, list[int]] = {}
    for index, rate in enumerate(rates):
        if going is None or going[index]:
            by_rate.setdefault(rate or 0.0, []).append(index)
    # Member by member, as rows: a member's bits do not depend on how many there are.
    every = [tensor.unbind(0) for tensor in (flat, grad, state.mean, state.square, state.steps)]
    for rate, members in by_rate.items():
        rows = [[row[index] for index in members] for row in every]
        torch._foreach_add_(rows[4], 1.0)
        torch._fused_adam_(
            rows[0], rows[1], rows[2], rows[3], [], rows[4],
            lr=rate, beta1=BETA1, beta2=BETA2, weight_decay=optimizer.weight_decay, eps=optimizer.eps, amsgrad=False, maximize=False,
        )  # fmt: skip


def adam_again(optimizer: Optimizer, steps: Tensor, rate: float) -> Callable[[Tensor, Tensor, Tensor, Tensor], None]:
    """`adam_in_place` of one member, for many steps with one rate: edits weights, by a gradient, and both moments."""
    one = torch.ones_like(steps)  # a Python number would be made a tensor at every step

    def step(weights: Tensor, gradient: Tensor, mean: Tensor, square: Tensor) -> None:
        steps.add_(one)
        torch._fused_adam_(
            [weights], [gradient], [mean], [square], [], [steps],
            lr=rate, beta1=BETA1, beta2=BETA2, weight_decay=optimizer.weight_decay, eps=optimizer.eps, amsgrad=False, maximize=False,
        )  # fmt: skip

    return step
