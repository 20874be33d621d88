"""Asynchronous PPO: the clipped objective against the policy that acted, with V-trace's advantages (arXiv:1707.06347, arXiv:1802.01561).

The ratio is that of the learner's policy to the actor's, so the clip also bounds how far a rollout collected with old weights may push.
"""

from torch import Tensor

from rlclinic.config import APPOConfig
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.rollouts import Batch, Rollout
from rlclinic.training.maths import losses, returns
from rlclinic.training.nets import mlp
from rlclinic.training.nets.layout import Params


def advantages(
    config: APPOConfig,
    rollout: Rollout,
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    hp: Hyperparameters,
    log_ratio: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """V-trace's targets, and advantages without the weight of the step itself: the surrogate's own ratio is that weight."""
    steps = (reward, value, next_value, rollout.terminated, rollout.truncated)
    if log_ratio is None:
        advantage, target = returns.gae(*steps, hp.gamma, hp.gae_lambda)
    else:
        advantage, target = returns.vtrace(*steps, log_ratio, hp.gamma, hp.gae_lambda, hp.rho_clip, hp.c_clip)
        rho = log_ratio.exp().clamp(min=1e-8).minimum(hp.rho_clip.unsqueeze(-1))
        advantage = advantage / rho
    return advantage, target, rollout.valid


def loss(
    config: APPOConfig, policy: mlp.ActorCritic, params: Params, batch: Batch, hp: Hyperparameters
) -> tuple[Tensor, dict[str, Tensor]]:
    """Clipped surrogate + value regression - entropy bonus."""
    dist, value = mlp.actor_critic(policy, params, batch.obs, batch.action_mask)
    log_prob, entropy = policy.distribution.log_prob_entropy(dist, batch.action)
    log_ratio = log_prob - batch.log_prob  # of the learner to the actor: zero only where nothing was learned since
    policy_loss = losses.clipped_surrogate(log_ratio.exp(), batch.advantage, hp.clip_range, batch.weight)
    if hp.clip_range_vf is None:
        value_loss = losses.value_error(value, batch.returns, batch.weight)
    else:
        value_loss = losses.clipped_value_error(value, batch.value, batch.returns, hp.clip_range_vf, batch.weight)
    entropy = losses.mean(entropy, batch.weight)
    total = policy_loss + hp.vf_coef * value_loss - hp.ent_coef * entropy
    return total, {"policy": policy_loss, "value": value_loss, "entropy": -entropy, "total": total, "log_ratio": log_ratio}
