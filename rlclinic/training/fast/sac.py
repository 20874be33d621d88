"""SAC's update with its gradients by hand: what `algos.sac` says, to rounding, without a graph."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlclinic.training.algos import sac
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.replay import Batch
from rlclinic.training.fast import critics, q_net_backward
from rlclinic.training.loops import off_policy
from rlclinic.training.maths import squashed

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan


def update_period(plan: "Plan") -> int:
    """After how many gradient steps the pattern of delayed updates repeats."""
    return int(plan.config.target_update_interval)


def update(plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters, active: Tensor | None, noise: Tensor) -> dict[str, Tensor]:
    """`algos.sac.update`."""
    params = off_policy.networks(plan, learner)
    alpha = sac.temperature(params, hp)
    target = sac.targets(plan.config, params, off_policy.target_networks(plan, learner), batch, hp, noise)
    readings = critics.update(plan, learner, batch, target, hp, active, 1.0)
    readings |= update_actor(plan, learner, batch, alpha, hp, active, noise)
    readings["alpha_loss"] = update_temperature(plan, learner, readings["log_prob"], hp, active)
    if (learner.updates + 1) % plan.config.target_update_interval == 0:
        off_policy.follow(learner, sac.TARGETS, hp.tau, active)
    return readings | {"alpha": alpha}


def update_actor(
    plan: "Plan", learner: "Learner", batch: Batch, alpha: Tensor, hp: Hyperparameters, active: Tensor | None, noise: Tensor
) -> dict[str, Tensor]:
    """One step on `algos.sac.actor_loss`."""
    grad, readings = actor_gradient(plan, learner, batch, alpha, noise)
    norm = off_policy.descend(plan, learner, "actor", grad, hp, active)
    return readings | {"actor_norm": norm}


def actor_gradient(plan: "Plan", learner: "Learner", batch: Batch, alpha: Tensor, noise: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The gradient [M, P] of `algos.sac.actor_loss`: through the lowest critic and the sample to the actor's weights."""
    critic, count = plan.nets["critic"], batch.obs.shape[1]
    out, back = q_net_backward.forward_and_back(plan.nets["actor"], learner.nets["actor"], batch.obs)
    limits = plan.nets["actor"].net
    action, log_prob, sample_back = sample_and_back(out, noise[:, 0], limits.log_std_min, limits.log_std_max)
    values, critic_back = q_net_backward.forward_and_back(critic, learner.nets["critic"], torch.cat([batch.obs, action], -1))
    q, lowest = values.view(-1, critic.copies, count).min(1, keepdim=True)
    by_q = torch.zeros_like(values.view(-1, critic.copies, count)).scatter_(1, lowest, -1.0 / count)
    by_action = critic_back.inputs(by_q.view_as(values))[..., batch.obs.shape[-1] :]
    grad = back.weights(sample_back(by_action, alpha / count))
    return grad, {"actor": alpha * log_prob - q.squeeze(1), "log_prob": log_prob}


def sample_and_back(dist: Tensor, noise: Tensor, low: float, high: float) -> tuple[Tensor, Tensor, Callable[[Tensor, Tensor], Tensor]]:
    """`squashed.sample`, and the way back: from gradients at actions [M, B, K] and log-probabilities [M, B or 1] to that at dist."""
    mean, given = dist.chunk(2, -1)
    log_std = given.clamp(low, high)
    spread = log_std.exp() * noise
    action, log_prob = squashed.squash(mean + spread, log_std, noise)

    def back(by_action: Tensor, by_log_prob: Tensor) -> Tensor:
        pull = by_log_prob.unsqueeze(-1)
        # tanh' is 1 - tanh^2, and -log(1 - tanh^2), a part of the log-probability, has the derivative 2 tanh.
        by_raw = torch.addcmul(by_action, action, torch.addcmul(2.0 * pull, by_action, action, value=-1))
        return torch.cat([by_raw, torch.addcmul(-pull, by_raw, spread) * (log_std == given)], -1)

    return action, log_prob, back


@torch.no_grad()
def update_temperature(plan: "Plan", learner: "Learner", log_prob: Tensor, hp: Hyperparameters, active: Tensor | None) -> Tensor:
    """One step on `algos.sac.temperature_loss`, whose gradient is the missing entropy itself; returns the loss [M, 1]."""
    missing = (log_prob + hp.target_entropy).mean(-1, keepdim=True)
    loss = -learner.nets["log_alpha"] * missing
    if hp.learns_temperature:
        learned = None if hp.ent_coef is None else hp.ent_coef.isnan()
        learning = learned if active is None else active if learned is None else active & learned
        off_policy.descend(plan, learner, "log_alpha", -missing, hp, learning)
    return loss
