"""An on-policy algorithm: advantages and a loss."""

from typing import Any

import torch
from torch import Tensor

from rlclinic.training.maths import losses, returns
from rlclinic.training.nets import mlp


def advantages(
    config: Any, rollout: Any, reward: Tensor, value: Tensor, next_value: Tensor, hp: Any
) -> tuple[Tensor, Tensor, Tensor | None]:
    """GAE."""
    advantage, target = returns.gae(reward, value, next_value, rollout.terminated, rollout.truncated, hp.gamma, hp.gae_lambda)
    return advantage, target, rollout.valid


def loss(config: Any, policy: Any, params: Any, batch: Any, hp: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """-E[log pi(a|s) c tanh(A / c)] + value error - entropy bonus."""
    dist, value = mlp.actor_critic(policy, params, batch.obs, batch.action_mask)
    log_prob, entropy = policy.distribution.log_prob_entropy(dist, batch.action)
    squashed = hp.squash * torch.tanh(batch.advantage / hp.squash)
    policy_loss = losses.policy_gradient(log_prob, squashed, batch.weight)
    value_loss = losses.value_error(value, batch.returns, batch.weight)
    mean_entropy = losses.mean(entropy, batch.weight)
    total = policy_loss + hp.vf_coef * value_loss - hp.ent_coef * mean_entropy
    return total, {"policy": policy_loss, "value": value_loss, "entropy": -mean_entropy, "total": total}
