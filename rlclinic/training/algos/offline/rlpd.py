"""RLPD (Ball et al. 2023, arXiv:2302.02948): SAC that acts from the start, with recorded transitions in half of every batch.

Critics are many and normalized (LayerNorm), so that several gradient steps a step of the environment do not let values run away; a target
asks a few of them, drawn anew each time.
"""

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlclinic.config import Config, RLPDConfig
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.replay import Batch
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.loops import off_policy
from rlclinic.training.maths import exploration, squashed
from rlclinic.training.nets import q_nets
from rlclinic.training.nets.q_nets import Net, Networks

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan

ACTIONS = "box"
ACTOR = "actor"
TARGETS = ("critic",)
COLUMNS = ("loss/actor", "loss/critic", "loss/alpha", "metrics/entropy", "metrics/critic_spread", "grad_norm/actor", "hp/alpha")


def build_networks(config: Config, obs_size: int, env: VecEnv) -> dict[str, Net]:
    """An actor that gives means and log standard deviations, and critics side by side, whose layers are normalized."""
    size, algo = env.action.sizes[0], config.algo
    assert isinstance(algo, RLPDConfig)
    normalized = config.model_copy(update={"net": config.net.model_copy(update={"layer_norm": algo.critic_layer_norm})})
    return {"actor": q_nets.build_actor(config, obs_size, 2 * size), "critic": q_nets.build_critics(normalized, obs_size, size)}


def scalars(config: RLPDConfig, members: int, device: torch.device) -> dict[str, Tensor]:
    """The temperature is learned as its logarithm, [M, 1]."""
    return {"log_alpha": torch.full((members, 1), math.log(config.ent_coef_init), device=device)}


def act(plan: "Plan", params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor | None) -> Tensor:
    """The action of the mean, [M, N, K]; with noise, a sample."""
    dist, limits = params("actor", obs), params.nets["actor"].net
    return squashed.mode(dist) if noise is None else squashed.draw(dist, noise, limits.log_std_min, limits.log_std_max)


def explore(
    plan: "Plan", params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor, hp: Hyperparameters, drift: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """A sample of the policy, [M, N, K]."""
    return act(plan, params, obs, action_mask, noise), None, drift


def update_noise(plan: "Plan", seed: Tensor, first: int, updates: int) -> Tensor:
    """Normal noise [M, U, 3, B, K]: for the actions at obs and at next_obs, and for which critics are asked."""
    return exploration.update_noise(seed, first, updates, 3, plan.config.batch_size, plan.memory.action_size)


def sample(params: Networks, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions a = tanh(mean + std * noise) [M, B, K] and their log-probabilities [M, B]."""
    limits = params.nets["actor"].net
    return squashed.sample(params("actor", obs), noise, limits.log_std_min, limits.log_std_max)


def draw_critics(config: RLPDConfig, noise: Tensor) -> Tensor:
    """Which critics are asked, [M, critic_subset], each set as likely as another; noise [M, B, K] as `update_noise` gives it."""
    return noise[:, : config.n_critics, 0].argsort(1)[:, : config.critic_subset]


@torch.no_grad()
def targets(config: RLPDConfig, params: Networks, target_params: Networks, batch: Batch, hp: Hyperparameters, noise: Tensor) -> Tensor:
    """r + discount * (min over a few Q'_i(s', a') - alpha log pi(a'|s')), a' ~ pi(.|s'), [M, B]; the second with backup_entropy."""
    next_action, log_prob = sample(params, batch.next_obs, noise[:, 1])
    every = q_nets.critics(target_params, batch.next_obs, next_action)  # [M, C, B]
    asked = draw_critics(config, noise[:, 2]).unsqueeze(-1).expand(-1, -1, every.shape[-1])
    following = every.gather(1, asked).amin(1)
    if config.backup_entropy:
        following = following - params["log_alpha"].exp() * log_prob
    return torch.addcmul(batch.reward, batch.discount, following)


@torch.no_grad()
def q_values(config: RLPDConfig, params: Networks, batch: Batch) -> Tensor:
    """The mean of Q_i(s, a) of the batch's actions, [M, B]: what the actor follows."""
    return q_nets.critics(params, batch.obs, batch.action).mean(1)


def critic_loss(
    config: RLPDConfig, params: Networks, target_params: Networks, batch: Batch, hp: Hyperparameters, noise: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """sum_i 1/2 E[(Q_i(s, a) - y)^2], [M, 1]: all critics learn the same target."""
    target = targets(config, params, target_params, batch, hp, noise)
    q = q_nets.critics(params, batch.obs, batch.action)  # [M, C, B]
    error = q - target.unsqueeze(1)
    readings = {"q": q[:, 0], "error": error[:, 0], "errors": error, "target": target, "spread": (q.amax(1) - q.amin(1)).mean(1)}
    return 0.5 * error.square().mean(-1).sum(1, keepdim=True), readings


def actor_loss(params: Networks, batch: Batch, noise: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """E[alpha log pi(a|s) - mean_i Q_i(s, a)], a ~ pi(.|s), [M, 1]."""
    action, log_prob = sample(params, batch.obs, noise[:, 0])
    rows = params["log_alpha"].exp() * log_prob - q_nets.critics(params, batch.obs, action).mean(1)
    return rows.mean(-1, keepdim=True), {"actor": rows, "log_prob": log_prob}


def temperature_loss(params: Networks, log_prob: Tensor, hp: Hyperparameters) -> tuple[Tensor, dict[str, Tensor]]:
    """-log alpha E[log pi(a|s) + target entropy] (arXiv:1812.05905, eq. 18), [M, 1]."""
    loss = -params["log_alpha"] * (log_prob + hp.target_entropy).mean(-1, keepdim=True)
    return loss, {"alpha_loss": loss}


def update(plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters, active: Tensor | None, noise: Tensor) -> dict[str, Tensor]:
    """One step of the critics, whose targets follow; every policy_delay-th one of the actor and of the temperature, too."""
    target_params = off_policy.target_networks(plan, learner)
    norm, readings = off_policy.minimize(
        plan, learner, "critic", lambda params: critic_loss(plan.config, params, target_params, batch, hp, noise), hp, active
    )
    readings |= {"norm": norm, "alpha": learner.nets["log_alpha"].exp()}
    off_policy.follow(learner, TARGETS, hp.tau, active)
    if (learner.updates + 1) % plan.config.policy_delay:
        return readings
    actor_norm, of_actor = off_policy.minimize(plan, learner, "actor", lambda params: actor_loss(params, batch, noise), hp, active)
    log_prob = of_actor["log_prob"]
    _, of_alpha = off_policy.minimize(plan, learner, "log_alpha", lambda params: temperature_loss(params, log_prob, hp), hp, active)
    return readings | of_actor | of_alpha | {"actor_norm": actor_norm}


def summarize(readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """Columns from readings over gradient steps, [U, M, ...] -> [U, M]."""
    columns = {
        "loss/critic": 0.5 * readings["errors"].square().mean(-1).sum(-1),
        "metrics/critic_spread": readings["spread"],
        "hp/alpha": readings["alpha"].squeeze(-1),
    }
    if "actor" in readings:
        columns |= {
            "loss/actor": readings["actor"].mean(-1),
            "loss/alpha": readings["alpha_loss"].squeeze(-1),
            "metrics/entropy": -readings["log_prob"].mean(-1),
            "grad_norm/actor": readings["actor_norm"].squeeze(-1),
        }
    return columns
