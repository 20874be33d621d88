"""IMPALA (Espeholt et al. 2018, arXiv:1802.01561): actors play, a learner learns, V-trace corrects for the weights' age in between."""

from typing import Final

from torch import Tensor

from rlclinic.config import IMPALAConfig
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.rollouts import Batch, Rollout
from rlclinic.training.maths import losses, returns
from rlclinic.training.nets import mlp
from rlclinic.training.nets.layout import Params

WEIGHS_ADVANTAGES: Final = True
"""Whether advantages carry the clipped ratio of the learner's policy to the actor's, as the loss has no ratio of its own."""


def advantages(
    config: IMPALAConfig,
    rollout: Rollout,
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    hp: Hyperparameters,
    log_ratio: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """V-trace's advantages and targets; without log_ratio (advantage=gae) as if the actor had had the learner's weights."""
    steps = (reward, value, next_value, rollout.terminated, rollout.truncated)
    if log_ratio is None:
        advantage, target = returns.gae(*steps, hp.gamma, hp.gae_lambda)
    else:
        advantage, target = returns.vtrace(*steps, log_ratio, hp.gamma, hp.gae_lambda, hp.rho_clip, hp.c_clip)
    return advantage, target, rollout.valid


def loss(
    config: IMPALAConfig, policy: mlp.ActorCritic, params: Params, batch: Batch, hp: Hyperparameters
) -> tuple[Tensor, dict[str, Tensor]]:
    """Policy gradient, each step weighted by its clipped ratio (in the advantage), + value regression - entropy bonus."""
    dist, value = mlp.actor_critic(policy, params, batch.obs, batch.action_mask)
    log_prob, entropy = policy.distribution.log_prob_entropy(dist, batch.action)
    policy_loss = losses.policy_gradient(log_prob, batch.advantage, batch.weight)
    value_loss = losses.value_error(value, batch.returns, batch.weight)
    entropy = losses.mean(entropy, batch.weight)
    total = policy_loss + hp.vf_coef * value_loss - hp.ent_coef * entropy
    return total, {"policy": policy_loss, "value": value_loss, "entropy": -entropy, "total": total}
