"""Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347).

Several epochs of minibatch steps on one rollout; the clipped ratio keeps the new policy near the one that collected it.
"""

from torch import Tensor

from rlclinic.config import PPOConfig
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.rollouts import Batch, Rollout
from rlclinic.training.maths import losses, returns
from rlclinic.training.nets import mlp
from rlclinic.training.nets.layout import Params


def advantages(
    config: PPOConfig,
    rollout: Rollout,
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    hp: Hyperparameters,
    log_ratio: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Advantage, value target and which rows count (None: all), each [M, T, N]; with log_ratio by V-trace, without by GAE."""
    steps = (reward, value, next_value, rollout.terminated, rollout.truncated)
    if log_ratio is None:
        advantage, target = returns.gae(*steps, hp.gamma, hp.gae_lambda)
    else:
        advantage, target = returns.vtrace(*steps, log_ratio, hp.gamma, hp.gae_lambda, hp.rho_clip, hp.c_clip)
    return advantage, target, rollout.valid


def loss(config: PPOConfig, policy: mlp.ActorCritic, params: Params, batch: Batch, hp: Hyperparameters) -> tuple[Tensor, dict[str, Tensor]]:
    """Clipped surrogate + value regression - entropy bonus. Every per-member number is [M, 1]; readings may be rows [M, B]."""
    dist, value = mlp.actor_critic(policy, params, batch.obs, batch.action_mask)
    log_prob, entropy = policy.distribution.log_prob_entropy(dist, batch.action)
    log_ratio = log_prob - batch.log_prob  # zero until the first gradient step
    policy_loss = losses.clipped_surrogate(log_ratio.exp(), batch.advantage, hp.clip_range, batch.weight)
    if hp.clip_range_vf is None:
        value_loss = losses.value_error(value, batch.returns, batch.weight)
    else:
        value_loss = losses.clipped_value_error(value, batch.value, batch.returns, hp.clip_range_vf, batch.weight)
    entropy = losses.mean(entropy, batch.weight)
    total = policy_loss + hp.vf_coef * value_loss - hp.ent_coef * entropy
    return total, {"policy": policy_loss, "value": value_loss, "entropy": -entropy, "total": total, "log_ratio": log_ratio}
