"""Implicit Q-learning (Kostrikov et al. 2021, arXiv:2110.06169): no value of an action that was not recorded is ever asked for."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlclinic.config import Config, IQLConfig
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.replay import Batch
from rlclinic.training.envs.base import ActionSpec, VecEnv
from rlclinic.training.loops import off_policy
from rlclinic.training.nets import fitted_actor, recorded_critics
from rlclinic.training.nets.q_nets import Net, Networks

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan

ACTIONS = "any"
ACTOR = "actor"
TARGETS = ("critic",)
COLUMNS = (
    "loss/actor",
    "loss/critic",
    "loss/value",
    "metrics/advantage",
    "metrics/weight_capped",
    "metrics/weight_ess",
    "grad_norm/actor",
)


def build_networks(config: Config, obs_size: int, env: VecEnv) -> dict[str, Net]:
    """An actor, critics side by side, and a state's value."""
    return {
        "actor": fitted_actor.build(config, obs_size, env),
        "critic": recorded_critics.build(config, obs_size, env),
        "value": recorded_critics.build_value(config, obs_size),
    }


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


@torch.no_grad()
def targets(
    config: IQLConfig, params: Networks, target_params: Networks, batch: Batch, hp: Hyperparameters, noise: Tensor | None = None
) -> Tensor:
    """r + discount * V(s') (eq. 6), [M, B]: the value of a state, not of an action that somebody would take there."""
    return torch.addcmul(batch.reward, batch.discount, params("value", batch.next_obs).squeeze(-1))


@torch.no_grad()
def q_values(config: IQLConfig, params: Networks, batch: Batch) -> Tensor:
    """min_i Q_i(s, a) of the batch's actions, [M, B]."""
    return recorded_critics.values(params, batch.obs, batch.action).amin(1)


@torch.no_grad()
def errors(config: IQLConfig, params: Networks, batch: Batch) -> tuple[Tensor, None]:
    """-log pi(a|s) of recorded actions, [M, B]."""
    return -fitted_actor.log_prob(params, batch.obs, batch.action), None


def expectile_loss(error: Tensor, expectile: Tensor) -> Tensor:
    """|expectile - 1(u < 0)| u^2 (eq. 4): what lies below the value counts less than what lies above it."""
    return torch.where(error < 0, 1.0 - expectile, expectile) * error.square()


def value_loss(params: Networks, q: Tensor, batch: Batch, hp: Hyperparameters) -> tuple[Tensor, dict[str, Tensor]]:
    """E[expectile loss of Q'(s, a) - V(s)] (eq. 5), [M, 1]; q is min_i Q'_i(s, a) by the targets."""
    advantage = q - params("value", batch.obs).squeeze(-1)
    return expectile_loss(advantage, hp.expectile).mean(-1, keepdim=True), {"advantage": advantage}


def critic_loss(params: Networks, target: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """The squared errors of all critics, sum_i E[(Q_i(s, a) - r - discount V(s'))^2] (eq. 6), [M, 1]."""
    q = recorded_critics.values(params, batch.obs, batch.action)  # [M, C, B]
    error = q - target.unsqueeze(1)
    return error.square().mean(-1).sum(1, keepdim=True), {"q": q[:, 0], "error": error[:, 0], "errors": error, "target": target}


def actor_loss(
    config: IQLConfig, params: Networks, advantage: Tensor, batch: Batch, hp: Hyperparameters
) -> tuple[Tensor, dict[str, Tensor]]:
    """-E[min(exp(beta A), cap) log pi(a|s)] (eq. 7), [M, 1]; A = Q'(s, a) - V(s)."""
    weight = recorded_critics.weigh(advantage, hp.beta, config.weight_cap)
    rows = -weight * fitted_actor.log_prob(params, batch.obs, batch.action)
    return rows.mean(-1, keepdim=True), {"actor": rows, **recorded_critics.describe_weights(weight, config.weight_cap)}


def update(
    plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters, active: Tensor | None, noise: Tensor | None
) -> dict[str, Tensor]:
    """One step of the value, of the actor by the advantages before that step, and of the critics by the new value; targets follow."""
    q = recorded_critics.values(off_policy.target_networks(plan, learner), batch.obs, batch.action).amin(1)
    _, of_value = off_policy.minimize(plan, learner, "value", lambda params: value_loss(params, q, batch, hp), hp, active)
    names = ("actor", fitted_actor.LOG_STD) if fitted_actor.LOG_STD in learner.nets else ("actor",)
    actor_norm, of_actor = off_policy.minimize_together(
        plan, learner, names, lambda params: actor_loss(plan.config, params, of_value["advantage"], batch, hp), hp, active
    )
    networks = off_policy.networks(plan, learner)
    target = targets(plan.config, networks, networks, batch, hp)
    norm, readings = off_policy.minimize(plan, learner, "critic", lambda params: critic_loss(params, target, batch), hp, active)
    off_policy.follow(learner, TARGETS, hp.tau, active)
    values = {"value_loss": expectile_loss(of_value["advantage"], hp.expectile).mean(-1, keepdim=True)}
    return readings | of_value | of_actor | values | {"norm": norm, "actor_norm": actor_norm}


def summarize(readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """Columns from readings over gradient steps, [U, M, ...] -> [U, M]."""
    return {
        "loss/critic": readings["errors"].square().mean(-1).sum(-1),
        "loss/value": readings["value_loss"].squeeze(-1),
        "loss/actor": readings["actor"].mean(-1),
        "metrics/advantage": readings["advantage"].mean(-1),
        "metrics/weight_capped": readings["weight_capped"].squeeze(-1),
        "metrics/weight_ess": readings["weight_ess"].squeeze(-1),
        "grad_norm/actor": readings["actor_norm"].squeeze(-1),
    }
