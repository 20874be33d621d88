"""PPO with a KL penalty: advantages and a loss. Gradients, seeds side by side, resumes and sentinels are rlclinic's."""

from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.rollouts import Batch, Rollout
from rlclinic.training.maths import losses, returns
from rlclinic.training.nets import mlp
from rlclinic.training.nets.layout import Params
from rlclinic_ppo_penalty.config import PPOPenaltyConfig


def advantages(
    config: PPOPenaltyConfig, rollout: Rollout, reward: Tensor, value: Tensor, next_value: Tensor, hp: Hyperparameters
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Advantage, value target and which rows count, [M, T, N] each: GAE, with both kinds of episode end kept apart."""
    advantage, target = returns.gae(reward, value, next_value, rollout.terminated, rollout.truncated, hp.gamma, hp.gae_lambda)
    return advantage, target, rollout.valid


def loss(
    config: PPOPenaltyConfig, policy: mlp.ActorCritic, params: Params, batch: Batch, hp: Hyperparameters
) -> tuple[Tensor, dict[str, Tensor]]:
    """-E[ratio A] + kl_coef KL(old || new) + value regression - entropy bonus (eq. 8). Every per-member number is [M, 1]."""
    dist, value = mlp.actor_critic(policy, params, batch.obs, batch.action_mask)
    log_prob, entropy = policy.distribution.log_prob_entropy(dist, batch.action)
    log_ratio = log_prob - batch.log_prob  # zero until the first gradient step
    ratio = log_ratio.exp()
    kl = losses.mean(ratio - 1 - log_ratio, batch.weight)  # unbiased over the old policy's actions, and never negative
    policy_loss = -losses.mean(ratio * batch.advantage, batch.weight) + hp.kl_coef * kl
    value_loss = losses.value_error(value, batch.returns, batch.weight)
    mean_entropy = losses.mean(entropy, batch.weight)
    total = policy_loss + hp.vf_coef * value_loss - hp.ent_coef * mean_entropy
    return total, {"policy": policy_loss, "value": value_loss, "entropy": -mean_entropy, "total": total, "log_ratio": log_ratio}
