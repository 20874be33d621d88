"""Advantage actor-critic, synchronous (Mnih et al. 2016, arXiv:1602.01783): one gradient step per short rollout."""

from torch import Tensor

from rlclinic.config import A2CConfig
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.rollouts import Batch, Rollout
from rlclinic.training.maths import losses, returns
from rlclinic.training.nets import mlp
from rlclinic.training.nets.layout import Params


def advantages(
    config: A2CConfig,
    rollout: Rollout,
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    hp: Hyperparameters,
    log_ratio: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """n-step advantages are GAE with lambda 1 over a rollout of n steps; with log_ratio they are V-trace's."""
    steps = (reward, value, next_value, rollout.terminated, rollout.truncated)
    if log_ratio is None:
        advantage, target = returns.gae(*steps, hp.gamma, hp.gae_lambda)
    else:
        advantage, target = returns.vtrace(*steps, log_ratio, hp.gamma, hp.gae_lambda, hp.rho_clip, hp.c_clip)
    return advantage, target, rollout.valid


def loss(config: A2CConfig, policy: mlp.ActorCritic, params: Params, batch: Batch, hp: Hyperparameters) -> tuple[Tensor, dict[str, Tensor]]:
    """Policy gradient + value regression - entropy bonus."""
    dist, value = mlp.actor_critic(policy, params, batch.obs, batch.action_mask)
    log_prob, entropy = policy.distribution.log_prob_entropy(dist, batch.action)
    policy_loss = losses.policy_gradient(log_prob, batch.advantage, batch.weight)
    value_loss = losses.value_error(value, batch.returns, batch.weight)
    entropy = losses.mean(entropy, batch.weight)
    total = policy_loss + hp.vf_coef * value_loss - hp.ent_coef * entropy
    return total, {"policy": policy_loss, "value": value_loss, "entropy": -entropy, "total": total}
