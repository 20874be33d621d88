"""Advantage-weighted actor-critic (Nair et al. 2020, arXiv:2006.09359): imitation of recorded actions, the better ones more."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlclinic.config import AWACConfig, Config
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.replay import Batch
from rlclinic.training.envs.base import ActionSpec, VecEnv
from rlclinic.training.loops import off_policy
from rlclinic.training.maths import exploration
from rlclinic.training.nets import fitted_actor, recorded_critics
from rlclinic.training.nets.q_nets import Net, Networks

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan

ACTIONS = "any"
ACTOR = "actor"
TARGETS = ("critic",)
COLUMNS = ("loss/actor", "loss/critic", "metrics/advantage", "metrics/weight_capped", "metrics/weight_ess", "grad_norm/actor")


def build_networks(config: Config, obs_size: int, env: VecEnv) -> dict[str, Net]:
    """An actor, and critics side by side."""
    return {"actor": fitted_actor.build(config, obs_size, env), "critic": recorded_critics.build(config, obs_size, env)}


def vectors(config: Config, action: ActionSpec, members: int, device: torch.device) -> dict[str, Tensor]:
    """The actor's deviations, where actions are vectors."""
    return fitted_actor.vectors(config.net, action, members, device)


def act(plan: "Plan", params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor | None) -> Tensor:
    """The most likely action; with noise, a sample."""
    return fitted_actor.mode(params, obs, action_mask) if noise is None else fitted_actor.sample(params, obs, action_mask, noise)


def explore(
    plan: "Plan", params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor, hp: Hyperparameters, drift: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """A sample, which tries what the policy thinks likely."""
    return act(plan, params, obs, action_mask, noise), None, drift


def acting_noise(plan: "Plan", seed: Tensor, step: Tensor | int, env: Tensor) -> Tensor:
    """Noise for a sample."""
    return fitted_actor.acting_noise(plan.action, seed, step, env)


exploration_noise = acting_noise


def update_noise(plan: "Plan", seed: Tensor, first: int, updates: int) -> Tensor | None:
    """Normal noise [M, U, 2, B, K] for the policy's actions at obs and at next_obs; choices need none, as all of them are added up."""
    if plan.action.kind == "discrete":
        return None
    return exploration.update_noise(seed, first, updates, 2, plan.config.batch_size, plan.memory.action_size)


@torch.no_grad()
def policy_value(actor_params: Networks, critic_params: Networks, obs: Tensor, noise: Tensor | None) -> Tensor:
    """min_i Q_i(s, a) of a sample a ~ pi(.|s), or their mean over all choices, [M, B]."""
    if noise is not None:
        return recorded_critics.values(critic_params, obs, fitted_actor.sample(actor_params, obs, None, noise)).amin(1)
    chances = actor_params("actor", obs).softmax(-1)
    return (recorded_critics.every_value(critic_params, obs).amin(1) * chances).sum(-1)


@torch.no_grad()
def targets(
    config: AWACConfig, params: Networks, target_params: Networks, batch: Batch, hp: Hyperparameters, noise: Tensor | None
) -> Tensor:
    """r + discount * min_i Q'_i(s', a'), a' ~ pi(.|s'), [M, B]; discount is 0 only behind a terminal state."""
    following = policy_value(params, target_params, batch.next_obs, None if noise is None else noise[:, 1])
    return torch.addcmul(batch.reward, batch.discount, following)


@torch.no_grad()
def q_values(config: AWACConfig, params: Networks, batch: Batch) -> Tensor:
    """min_i Q_i(s, a) of the batch's actions, [M, B]."""
    return recorded_critics.values(params, batch.obs, batch.action).amin(1)


@torch.no_grad()
def errors(config: AWACConfig, params: Networks, batch: Batch) -> tuple[Tensor, None]:
    """-log pi(a|s) of recorded actions, [M, B]."""
    return -fitted_actor.log_prob(params, batch.obs, batch.action), None


def critic_loss(params: Networks, target: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """The squared errors of all critics, sum_i E[(Q_i(s, a) - y)^2] (eq. 6), [M, 1]."""
    q = recorded_critics.values(params, batch.obs, batch.action)  # [M, C, B]
    error = q - target.unsqueeze(1)
    return error.square().mean(-1).sum(1, keepdim=True), {"q": q[:, 0], "error": error[:, 0], "errors": error, "target": target}


def actor_loss(
    config: AWACConfig, params: Networks, advantage: Tensor, batch: Batch, hp: Hyperparameters
) -> tuple[Tensor, dict[str, Tensor]]:
    """-E[min(exp(A / lambda), cap) log pi(a|s)] (eq. 13), [M, 1]; A = Q(s, a) - Q(s, pi(s))."""
    weight = recorded_critics.weigh(advantage, 1.0 / hp.awac_lambda, config.weight_cap)
    rows = -weight * fitted_actor.log_prob(params, batch.obs, batch.action)
    found = {"actor": rows, "advantage": advantage, **recorded_critics.describe_weights(weight, config.weight_cap)}
    return rows.mean(-1, keepdim=True), found


def update(
    plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters, active: Tensor | None, noise: Tensor | None
) -> dict[str, Tensor]:
    """One step of the critics, then of the actor by the new ones; targets follow."""
    before = off_policy.networks(plan, learner)
    target = targets(plan.config, before, off_policy.target_networks(plan, learner), batch, hp, noise)
    norm, readings = off_policy.minimize(plan, learner, "critic", lambda params: critic_loss(params, target, batch), hp, active)
    now = off_policy.networks(plan, learner)
    own = policy_value(now, now, batch.obs, None if noise is None else noise[:, 0])
    advantage = q_values(plan.config, now, batch) - own
    names = ("actor", fitted_actor.LOG_STD) if fitted_actor.LOG_STD in learner.nets else ("actor",)
    actor_norm, of_actor = off_policy.minimize_together(
        plan, learner, names, lambda params: actor_loss(plan.config, params, advantage, batch, hp), hp, active
    )
    off_policy.follow(learner, TARGETS, hp.tau, active)
    return readings | of_actor | {"norm": norm, "actor_norm": actor_norm}


def summarize(readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """Columns from readings over gradient steps, [U, M, ...] -> [U, M]."""
    return {
        "loss/critic": readings["errors"].square().mean(-1).sum(-1),
        "loss/actor": readings["actor"].mean(-1),
        "metrics/advantage": readings["advantage"].mean(-1),
        "metrics/weight_capped": readings["weight_capped"].squeeze(-1),
        "metrics/weight_ess": readings["weight_ess"].squeeze(-1),
        "grad_norm/actor": readings["actor_norm"].squeeze(-1),
    }
