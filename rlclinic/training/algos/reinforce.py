"""REINFORCE (Williams 1992): Monte-Carlo policy gradient, with a learned baseline or without one."""

import torch
from torch import Tensor

from rlclinic.config import ReinforceConfig
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.rollouts import Batch, Rollout
from rlclinic.training.maths import losses, returns
from rlclinic.training.nets import mlp
from rlclinic.training.nets.layout import Params


def advantages(
    config: ReinforceConfig, rollout: Rollout, reward: Tensor, value: Tensor, next_value: Tensor, hp: Hyperparameters
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Rewards to go, less the baseline; with gae_lambda below 1, GAE of the same. Without a baseline only rows that saw their end count."""
    completed_by = next_value if config.baseline else None
    target, counts = returns.rewards_to_go(reward, completed_by, rollout.terminated, rollout.truncated, hp.gamma)
    if rollout.valid is not None:
        counts = counts & rollout.valid
    if not config.baseline:
        return target, target, counts
    advantage = target - value
    if hp.shortens_traces:
        mixed, _ = returns.gae(reward, value, next_value, rollout.terminated, rollout.truncated, hp.gamma, hp.gae_lambda)
        # For lambda 1 both are the same but for the last bits, which must not depend on the neighbours.
        advantage = torch.where(hp.gae_lambda.unsqueeze(-1) == 1, advantage, mixed)
    return advantage, target, None if rollout.valid is None else counts


def loss(
    config: ReinforceConfig, policy: mlp.ActorCritic, params: Params, batch: Batch, hp: Hyperparameters
) -> tuple[Tensor, dict[str, Tensor]]:
    """Score-function gradient; the baseline is a regression beside it and never touches the actor's estimate."""
    dist, value = mlp.actor_critic(policy, params, batch.obs, batch.action_mask)
    log_prob, entropy = policy.distribution.log_prob_entropy(dist, batch.action)
    policy_loss = losses.policy_gradient(log_prob, batch.advantage, batch.weight)
    entropy = losses.mean(entropy, batch.weight)
    total = policy_loss - hp.ent_coef * entropy
    if not config.baseline:
        return total, {"policy": policy_loss, "entropy": -entropy, "total": total}
    value_loss = losses.value_error(value, batch.returns, batch.weight)
    total = total + hp.vf_coef * value_loss
    return total, {"policy": policy_loss, "value": value_loss, "entropy": -entropy, "total": total}
