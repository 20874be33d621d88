"""Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905), with a learned or a fixed temperature."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlclinic.config import Config, SACConfig
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
COLUMNS = ("loss/actor", "loss/critic", "loss/alpha", "metrics/entropy", "grad_norm/actor", "hp/alpha")


def build_networks(config: Config, obs_size: int, env: VecEnv) -> dict[str, Net]:
    """An actor that gives means and log standard deviations, and critics side by side."""
    size = env.action.sizes[0]
    return {"actor": q_nets.build_actor(config, obs_size, 2 * size), "critic": q_nets.build_critics(config, obs_size, size)}


def scalars(config: SACConfig, members: int, device: torch.device) -> dict[str, Tensor]:
    """The temperature is learned as its logarithm, [M, 1]: it stays above 0 whatever its steps."""
    return {"log_alpha": torch.full((members, 1), config.ent_coef_init, device=device).log()}


def explore(
    plan: "Plan", params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor, hp: Hyperparameters, drift: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """A sample of the policy, [M, N, K]; algo.action_noise comes on top of it, from numbers of its own."""
    own, added = noise[..., : plan.memory.action_size], noise[..., plan.memory.action_size :]
    action, drift = exploration.add_noise(plan.config, act(plan, params, obs, action_mask, own), added, hp.action_noise_std, drift)
    return action, None, drift


def exploration_noise(plan: "Plan", seed: Tensor, step: Tensor, env: Tensor) -> Tensor:
    """Normal noise for `explore`: [M, T, N, K] for the policy's sample, and as many for algo.action_noise, where there is one."""
    kinds = 1 if plan.config.action_noise == "none" else 2
    return exploration.normal_noise(seed, step, env, kinds * plan.memory.action_size)


def act(plan: "Plan", params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor | None) -> Tensor:
    """The action of the mean, [M, N, K]; with noise, a sample."""
    dist = params("actor", obs)
    if noise is None:
        return squashed.mode(dist)
    limits = params.nets["actor"].net
    return squashed.draw(dist, noise, limits.log_std_min, limits.log_std_max)


def update_noise(plan: "Plan", seed: Tensor, first: int, updates: int) -> Tensor:
    """Normal noise [M, U, 2, B, K]: for the actions at obs and at next_obs."""
    return exploration.update_noise(seed, first, updates, 2, plan.config.batch_size, plan.memory.action_size)


def sample(params: Networks, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions a = tanh(mean + std * noise) [M, B, K] and their log-probabilities [M, B] (appendix C)."""
    limits = params.nets["actor"].net
    return squashed.sample(params("actor", obs), noise, limits.log_std_min, limits.log_std_max)


def temperature(params: Networks, hp: Hyperparameters) -> Tensor:
    """alpha [M, 1], what entropy is worth: learned, or as the config fixes it (not a number: learned)."""
    learned = params["log_alpha"].exp()
    return learned if hp.ent_coef is None else torch.where(hp.ent_coef.isnan(), learned, hp.ent_coef)


@torch.no_grad()
def targets(config: SACConfig, params: Networks, target_params: Networks, batch: Batch, hp: Hyperparameters, noise: Tensor) -> Tensor:
    """r + discount * (min_i Q'_i(s', a') - alpha log pi(a'|s')), a' ~ pi(.|s'), [M, B]; discount is 0 only behind a terminal state."""
    next_action, next_log_prob = sample(params, batch.next_obs, noise[:, 1])
    next_q = q_nets.critics(target_params, batch.next_obs, next_action).amin(1)
    soft_q = torch.addcmul(next_q, temperature(params, hp), next_log_prob, value=-1)
    return torch.addcmul(batch.reward, batch.discount, soft_q)


@torch.no_grad()
def q_values(config: SACConfig, params: Networks, batch: Batch) -> Tensor:
    """min_i Q_i(s, a) of the batch's actions, [M, B]."""
    return q_nets.critics(params, batch.obs, batch.action).amin(1)


def critic_loss(
    config: SACConfig, params: Networks, target_params: Networks, batch: Batch, hp: Hyperparameters, noise: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """Half of the squared errors of all critics, sum_i 1/2 E[(Q_i(s, a) - y)^2] (eq. 5), [M, 1]."""
    target = targets(config, params, target_params, batch, hp, noise)
    q = q_nets.critics(params, batch.obs, batch.action)  # [M, C, B]
    error = q - target.unsqueeze(1)
    squares = error.square() if batch.weight is None else error.square() * batch.weight.unsqueeze(1)
    loss = 0.5 * squares.mean(-1).sum(1, keepdim=True)
    return loss, {"q": q[:, 0], "error": error[:, 0], "errors": error, "target": target}


def actor_loss(params: Networks, batch: Batch, hp: Hyperparameters, noise: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """E[alpha log pi(a|s) - min_i Q_i(s, a)], a ~ pi(.|s) with the noise held fixed (eq. 7), [M, 1]."""
    action, log_prob = sample(params, batch.obs, noise[:, 0])
    rows = temperature(params, hp) * log_prob - q_nets.critics(params, batch.obs, action).amin(1)
    return rows.mean(-1, keepdim=True), {"actor": rows, "log_prob": log_prob}


def temperature_loss(params: Networks, log_prob: Tensor, hp: Hyperparameters) -> tuple[Tensor, dict[str, Tensor]]:
    """-log alpha E[log pi(a|s) + target entropy] (eq. 18, for log alpha): up while the entropy is below its target, down above it."""
    loss = -params["log_alpha"] * (log_prob + hp.target_entropy).mean(-1, keepdim=True)
    return loss, {"alpha_loss": loss}


def update(plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters, active: Tensor | None, noise: Tensor) -> dict[str, Tensor]:
    """One step of the critics, then of the actor and of the temperature; then the targets follow."""
    target_params, alpha = off_policy.target_networks(plan, learner), temperature(off_policy.networks(plan, learner), hp)
    norm, readings = off_policy.minimize(
        plan, learner, "critic", lambda params: critic_loss(plan.config, params, target_params, batch, hp, noise), hp, active
    )
    actor_norm, of_actor = off_policy.minimize(plan, learner, "actor", lambda params: actor_loss(params, batch, hp, noise), hp, active)
    log_prob = of_actor["log_prob"]
    of_temperature = update_temperature(plan, learner, log_prob, hp, active)
    if (learner.updates + 1) % plan.config.target_update_interval == 0:
        off_policy.follow(learner, TARGETS, hp.tau, active)
    return readings | of_actor | of_temperature | {"norm": norm, "actor_norm": actor_norm, "alpha": alpha}


def update_temperature(plan: "Plan", learner: "Learner", log_prob: Tensor, hp: Hyperparameters, active: Tensor | None) -> dict[str, Tensor]:
    """One step of the temperature of those members that learn theirs."""
    if not hp.learns_temperature:
        return temperature_loss(off_policy.networks(plan, learner), log_prob, hp)[1]
    learned = None if hp.ent_coef is None else hp.ent_coef.isnan()
    learning = learned if active is None else active if learned is None else active & learned
    return off_policy.minimize(plan, learner, "log_alpha", lambda params: temperature_loss(params, log_prob, hp), hp, learning)[1]


def summarize(readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """Columns from readings over gradient steps, [U, M, ...] -> [U, M]."""
    return {
        "loss/critic": 0.5 * readings["errors"].square().mean(-1).sum(-1),
        "loss/actor": readings["actor"].mean(-1),
        "grad_norm/actor": readings["actor_norm"].squeeze(-1),
        "loss/alpha": readings["alpha_loss"].squeeze(-1),
        "metrics/entropy": -readings["log_prob"].mean(-1),
        "hp/alpha": readings["alpha"].squeeze(-1),
    }
