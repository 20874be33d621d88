"""TD3's and DDPG's update with their gradients by hand: what `algos.td3` says, to rounding, without a graph."""

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlclinic.training.algos import td3
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.replay import Batch
from rlclinic.training.fast import critics, q_net_backward
from rlclinic.training.loops import off_policy
from rlclinic.training.nets import mlp

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan


def update_period(plan: "Plan") -> int:
    """After how many gradient steps the pattern of delayed updates repeats."""
    return int(plan.config.policy_delay)


def update(
    plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters, active: Tensor | None, noise: Tensor | None
) -> dict[str, Tensor]:
    """`algos.td3.update`."""
    params, target_params = off_policy.networks(plan, learner), off_policy.target_networks(plan, learner)
    target = td3.targets(plan.config, params, target_params, batch, hp, noise)
    readings = critics.update(plan, learner, batch, target, hp, active, 2.0)
    if (learner.updates + 1) % plan.config.policy_delay == 0:
        grad, of_actor = actor_gradient(plan, learner, batch)
        readings |= of_actor | {"actor_norm": off_policy.descend(plan, learner, "actor", grad, hp, active)}
        off_policy.follow(learner, td3.TARGETS, hp.tau, active)
    return readings


def actor_gradient(plan: "Plan", learner: "Learner", batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """The gradient [M, P] of `algos.td3.actor_loss`: through the first critic and the tanh to the actor's weights."""
    net, critic = plan.nets["actor"], replace(plan.nets["critic"], copies=1)
    out, back = q_net_backward.forward_and_back(net, learner.nets["actor"], batch.obs)
    action = mlp.tanh(out)
    first = learner.nets["critic"][:, : critic.width]
    q, critic_back = q_net_backward.forward_and_back(critic, first, torch.cat([batch.obs, action], -1))
    by_action = critic_back.inputs(torch.full_like(q, -1.0 / q.shape[1]))[..., batch.obs.shape[-1] :]
    return back.weights(by_action * (1.0 - action * action)), {"actor": -q.squeeze(-1)}
