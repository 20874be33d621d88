"""IQL's update with its gradients by hand: what `algos.offline.iql` says, to rounding, without a graph."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.algos.offline import iql
from rlclinic.training.data.replay import Batch
from rlclinic.training.fast import critics, q_net_backward
from rlclinic.training.loops import off_policy
from rlclinic.training.nets import fitted_actor, mlp, recorded_critics
from rlclinic.training.nets.q_nets import Networks

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan


@torch.no_grad()
def update(
    plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters, active: Tensor | None, noise: Tensor | None
) -> dict[str, Tensor]:
    """`algos.offline.iql.update`."""
    q = recorded_critics.values(off_policy.target_networks(plan, learner), batch.obs, batch.action).amin(1)
    grad, readings = value_gradient(plan, learner, q, batch, hp)
    off_policy.descend(plan, learner, "value", grad, hp, active)
    weight = recorded_critics.weigh(readings["advantage"], hp.beta, plan.config.weight_cap)
    grads, of_actor = actor_gradient(plan, learner, weight, batch)
    readings |= of_actor | recorded_critics.describe_weights(weight, plan.config.weight_cap)
    readings["actor_norm"] = off_policy.descend(plan, learner, "actor", grads["actor"], hp, active)
    if fitted_actor.LOG_STD in grads:
        off_policy.descend(plan, learner, fitted_actor.LOG_STD, grads[fitted_actor.LOG_STD], hp, active)
    networks = off_policy.networks(plan, learner)
    target = iql.targets(plan.config, networks, networks, batch, hp)
    grad, of_critics = critics.gradient(plan, learner, batch, target, 2.0)
    norm = off_policy.descend(plan, learner, "critic", grad, hp, active)
    off_policy.follow(learner, iql.TARGETS, hp.tau, active)
    return readings | of_critics | {"norm": norm}


def value_gradient(plan: "Plan", learner: "Learner", q: Tensor, batch: Batch, hp: Hyperparameters) -> tuple[Tensor, dict[str, Tensor]]:
    """The gradient [M, P] of `value_loss`: 2 |expectile - 1(u < 0)| u for every row, downwards."""
    out, back = q_net_backward.forward_and_back(plan.nets["value"], learner.nets["value"], batch.obs)
    advantage = q - out.squeeze(-1)
    pull = torch.where(advantage < 0, 1.0 - hp.expectile, hp.expectile) * advantage
    grad = back.weights((pull * (-2.0 / q.shape[1])).unsqueeze(-1))
    return grad, {"advantage": advantage, "value_loss": (pull * advantage).mean(-1, keepdim=True)}


def actor_gradient(plan: "Plan", learner: "Learner", weight: Tensor, batch: Batch) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The gradients of `actor_loss` by name: of the actor [M, P], and of the deviations' logarithms [M, K] where there are some."""
    out, back = q_net_backward.forward_and_back(plan.nets["actor"], learner.nets["actor"], batch.obs)
    share = (weight / weight.shape[1]).unsqueeze(-1)
    if fitted_actor.LOG_STD not in learner.nets:
        log_probs = out.log_softmax(-1)
        by_out = (log_probs.exp() * share).scatter_add(-1, batch.action, -share)
        return {"actor": back.weights(by_out)}, {"actor": -weight * log_probs.gather(-1, batch.action).squeeze(-1)}
    given = learner.nets[fitted_actor.LOG_STD]
    log_std = fitted_actor.deviations(Networks(plan.nets, {fitted_actor.LOG_STD: given}))
    mean, narrow = mlp.tanh(out), (-log_std).exp()
    error = (batch.action - mean) * narrow
    rows = (-0.5 * error.square() - log_std - 0.5 * fitted_actor.LOG_2PI).sum(-1)
    # tanh' is 1 - tanh^2; a deviation at its limit stands still.
    by_out = -share * error * narrow * (1.0 - mean * mean)
    by_log_std = (share * (1.0 - error.square())).sum(1) * (log_std.squeeze(1) == given)
    return {"actor": back.weights(by_out), fitted_actor.LOG_STD: by_log_std}, {"actor": -weight * rows}
