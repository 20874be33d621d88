"""TD3+BC's update with its gradients by hand: what `algos.offline.td3_bc` says, to rounding, without a graph."""

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.algos.offline import td3_bc
from rlclinic.training.data.replay import Batch
from rlclinic.training.fast import critics, q_net_backward
from rlclinic.training.loops import off_policy
from rlclinic.training.nets import mlp

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan


def update_period(plan: "Plan") -> int:
    """After how many gradient steps the pattern of delayed updates repeats."""
    return int(plan.config.policy_delay)


@torch.no_grad()
def update(plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters, active: Tensor | None, noise: Tensor) -> dict[str, Tensor]:
    """`algos.offline.td3_bc.update`."""
    params, target_params = off_policy.networks(plan, learner), off_policy.target_networks(plan, learner)
    target = td3_bc.targets(plan.config, params, target_params, batch, hp, noise)
    readings = critics.update(plan, learner, batch, target, hp, active, 2.0)
    if (learner.updates + 1) % plan.config.policy_delay == 0:
        grad, of_actor = actor_gradient(plan, learner, batch, hp)
        readings |= of_actor | {"actor_norm": off_policy.descend(plan, learner, "actor", grad, hp, active)}
        off_policy.follow(learner, td3_bc.TARGETS, hp.tau, active)
    return readings


def actor_gradient(plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters) -> tuple[Tensor, dict[str, Tensor]]:
    """The gradient [M, P] of `actor_loss`: through the first critic and from the recorded action, through the tanh to the weights."""
    net, critic = plan.nets["actor"], replace(plan.nets["critic"], copies=1)
    out, back = q_net_backward.forward_and_back(net, learner.nets["actor"], batch.obs)
    action = mlp.tanh(out)
    first = learner.nets["critic"][:, : critic.width]
    values, critic_back = q_net_backward.forward_and_back(critic, first, torch.cat([batch.obs, action], -1))
    q, distance = values.squeeze(-1), action - batch.action
    scale = td3_bc.value_scale(plan.config, q, hp)
    by_q = (scale / -q.shape[1]).unsqueeze(1).expand_as(values).contiguous()
    by_action = critic_back.inputs(by_q)[..., batch.obs.shape[-1] :]
    by_action = torch.add(by_action, distance, alpha=2.0 / distance[0].numel())
    imitation = distance.square().mean(-1)
    return back.weights(by_action * (1.0 - action * action)), {"actor": imitation - scale * q, "imitation": imitation}
