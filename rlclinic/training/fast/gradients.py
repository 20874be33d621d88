"""The gradient of an on-policy algorithm's loss for every member: by autograd, or written out where somebody did the calculus.

`by_autograd` is the definition. `written_out` gives the same numbers to rounding in about 60 % of the time, for tanh networks; tests
compare the two, and `run.engine=reference` trains with the definition alone.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.rollouts import Batch
from rlclinic.training.fast import actor_critic_backward, fused
from rlclinic.training.nets import mlp

if TYPE_CHECKING:
    from rlclinic.training.loops.on_policy import Plan

Readings = dict[str, Tensor]


class Slopes(NamedTuple):
    """Derivatives of a loss: by each row's log-probability and value [M, B], and by each row's entropy [M, 1] (None: zero)."""

    log_prob: Tensor
    value: Tensor
    entropy: Tensor | None


def gradient(plan: "Plan", flat: Tensor, batch: Batch, hp: Hyperparameters) -> tuple[Tensor, Readings]:
    """The gradient [M, P] of each member's own loss, and readings [M, 1] or [M, B]."""
    return (written_out if is_written(plan, batch) else by_autograd)(plan, flat, batch, hp)


def is_written(plan: "Plan", batch: Batch) -> bool:
    """Whether `written_out` covers this case. A function of the config alone, so a run never changes sides."""
    if plan.fast is None or plan.engine == "autograd" or batch.weight is not None:
        return False
    # Only the eager engine promises a member the same bits in any cohort, for which not every size will do.
    return actor_critic_backward.covers(plan.policy) if plan.compiles else plan.policy.written_out(batch.obs)


def by_autograd(plan: "Plan", flat: Tensor, batch: Batch, hp: Hyperparameters) -> tuple[Tensor, Readings]:
    """The loss, differentiated by PyTorch."""
    leaf = flat.detach().requires_grad_()
    with torch.enable_grad():  # a unit is compiled where none are taken
        loss, readings = plan.algo.loss(plan.config, plan.policy, plan.policy.layout.views(leaf), batch, hp)
        # Members share no weight, so the gradient of the sum is every member's own gradient.
        (grad,) = torch.autograd.grad(loss.sum(), leaf)
    return grad, {name: reading.detach() for name, reading in readings.items()}


@torch.no_grad()
def written_out(plan: "Plan", flat: Tensor, batch: Batch, hp: Hyperparameters) -> tuple[Tensor, Readings]:
    """The chain rule by hand: network -> distribution -> loss, and back."""
    assert plan.fast is not None
    policy = plan.policy
    params = policy.layout.views(flat)
    output, value, back_through = _network(plan, flat, batch.obs)
    log_std = params["log_std"] if policy.has_log_std else None
    dist = mlp.finish(policy, output, log_std, batch.action_mask)
    log_prob, entropy, back = policy.distribution.with_slope(dist, batch.action)
    slopes, readings = plan.fast.slopes(log_prob, entropy, value, batch, hp)
    grad = back(slopes.log_prob, slopes.entropy)
    if not policy.distribution.learns_std:
        return back_through(grad, None, slopes.value), readings
    mean, spread = grad.chunk(2, -1)
    # A clamped deviation does not move. (At the bounds themselves autograd lets the gradient through, and so do we.)
    raw = log_std if log_std is not None else output.chunk(2, -1)[1]
    spread = spread * ((raw >= policy.net.log_std_min) & (raw <= policy.net.log_std_max))
    if log_std is None:
        return back_through(torch.cat([mean, spread], -1), None, slopes.value), readings
    return back_through(mean, spread.sum(1, keepdim=True), slopes.value), readings


def _network(plan: "Plan", flat: Tensor, obs: Tensor) -> tuple[Tensor, Tensor, Callable[[Tensor, Tensor | None, Tensor], Tensor]]:
    """Policy head [M, B, K], value [M, B], and the way back: from their gradients (and log_std's) to that of the weights."""
    policy = plan.policy
    if plan.compiles and fused.covers(policy, obs):
        head, value = fused.forward(policy, flat, obs)
        return head, value, lambda *grads: fused.backward(policy, flat, obs, *grads, exact=plan.precision == "float32")
    params = policy.layout.views(flat)
    done = actor_critic_backward.forward(policy, params, obs)
    return done.head, done.value, lambda *grads: actor_critic_backward.backward(policy, params, done, *grads)
