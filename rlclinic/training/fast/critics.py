"""The step of critics on their squared errors by hand: TD3's and SAC's, and those of recorded data."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.replay import Batch
from rlclinic.training.fast import q_net_backward
from rlclinic.training.loops import off_policy

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan


def update(
    plan: "Plan", learner: "Learner", batch: Batch, target: Tensor, hp: Hyperparameters, active: Tensor | None, factor: float
) -> dict[str, Tensor]:
    """One step of all critics on factor / 2 times the sum of their mean squared errors."""
    grad, readings = gradient(plan, learner, batch, target, factor)
    norm = off_policy.descend(plan, learner, "critic", grad, hp, active)
    return readings | {"norm": norm}


def gradient(plan: "Plan", learner: "Learner", batch: Batch, target: Tensor, factor: float) -> tuple[Tensor, dict[str, Tensor]]:
    """The gradient [M, P] of all critics' weights, and what they said."""
    net = plan.nets["critic"]
    shown = torch.cat([batch.obs, batch.action], -1) if net.beside else batch.obs
    out, back = q_net_backward.forward_and_back(net, learner.nets["critic"], shown)
    # Critics of choices value all of them at once: only the chosen one is in error.
    chosen = None if net.beside else batch.action.repeat_interleave(net.copies, 0)
    q = (out if chosen is None else out.gather(-1, chosen)).view(-1, net.copies, target.shape[1])
    error = q - target.unsqueeze(1)
    by_q = error * (factor / target.shape[1])
    if batch.weight is not None:
        by_q = by_q * batch.weight.unsqueeze(1)
    by_out = by_q.view_as(out) if chosen is None else torch.zeros_like(out).scatter_(-1, chosen, by_q.flatten(0, 1).unsqueeze(-1))
    return back.weights(by_out), {"q": q[:, 0], "error": error[:, 0], "errors": error, "target": target}
