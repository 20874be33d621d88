"""Asynchronous advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783, algorithm S3).

An actor's gradient is taken where the actor stood: at the weights that it played with, so that its data is on-policy there. By the time
it is applied, the others have moved the weights on. Nothing corrects for that, which is what makes it fast and what limits the lag.
"""

from typing import Final

from torch import Tensor

from rlclinic.config import A3CConfig
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.rollouts import Batch, Rollout
from rlclinic.training.maths import losses, returns
from rlclinic.training.nets import mlp
from rlclinic.training.nets.layout import Params

AT_ACTORS_WEIGHTS: Final = True
"""Values, advantages and gradients are those of the weights that played."""


def advantages(
    config: A3CConfig, rollout: Rollout, reward: Tensor, value: Tensor, next_value: Tensor, hp: Hyperparameters
) -> tuple[Tensor, Tensor, Tensor | None]:
    """n-step advantages: GAE with lambda 1 over a rollout of n steps."""
    advantage, target = returns.gae(reward, value, next_value, rollout.terminated, rollout.truncated, hp.gamma, hp.gae_lambda)
    return advantage, target, rollout.valid


def loss(config: A3CConfig, policy: mlp.ActorCritic, params: Params, batch: Batch, hp: Hyperparameters) -> tuple[Tensor, dict[str, Tensor]]:
    """Policy gradient + value regression - entropy bonus."""
    dist, value = mlp.actor_critic(policy, params, batch.obs, batch.action_mask)
    log_prob, entropy = policy.distribution.log_prob_entropy(dist, batch.action)
    policy_loss = losses.policy_gradient(log_prob, batch.advantage, batch.weight)
    value_loss = losses.value_error(value, batch.returns, batch.weight)
    entropy = losses.mean(entropy, batch.weight)
    total = policy_loss + hp.vf_coef * value_loss - hp.ent_coef * entropy
    return total, {"policy": policy_loss, "value": value_loss, "entropy": -entropy, "total": total}
