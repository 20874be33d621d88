"""Behaviour cloning (Pomerleau 1988): supervised learning of what was done, from recorded states and actions; rewards are not looked at."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlclinic.config import BCConfig, Config
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.replay import Batch
from rlclinic.training.envs.base import ActionSpec, VecEnv
from rlclinic.training.loops import off_policy
from rlclinic.training.nets import fitted_actor
from rlclinic.training.nets.q_nets import Net, Networks

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan

ACTIONS = "any"
ACTOR = "actor"
TARGETS = ()
COLUMNS = ("loss/actor", "metrics/entropy")


def build_networks(config: Config, obs_size: int, env: VecEnv) -> dict[str, Net]:
    """An actor."""
    return {"actor": fitted_actor.build(config, obs_size, env)}


def vectors(config: Config, action: ActionSpec, members: int, device: torch.device) -> dict[str, Tensor]:
    """The actor's deviations, where actions are vectors."""
    return fitted_actor.vectors(config.net, action, members, device)


def act(plan: "Plan", params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor | None) -> Tensor:
    """The most likely action; with noise, a sample, where there is a likelihood to sample from."""
    if noise is None or (plan.action.kind == "box" and plan.config.loss == "mse"):
        return fitted_actor.mode(params, obs, action_mask)
    return fitted_actor.sample(params, obs, action_mask, noise)


def acting_noise(plan: "Plan", seed: Tensor, step: int, env: Tensor) -> Tensor:
    """Noise for a sample."""
    return fitted_actor.acting_noise(plan.action, seed, step, env)


def errors(config: BCConfig, params: Networks, batch: Batch) -> tuple[Tensor, Tensor]:
    """What a row costs, [M, B]: |pi(s) - a|^2, the mean over components, or -log pi(a|s); and the policy's entropy there."""
    if config.loss == "mse" and fitted_actor.LOG_STD in params:
        squares = (fitted_actor.mean(params, batch.obs) - batch.action).square().mean(-1)
        return squares, torch.zeros_like(squares)
    log_prob, entropy = fitted_actor.log_prob_entropy(params, batch.obs, batch.action)
    return -log_prob, entropy


def actor_loss(config: BCConfig, params: Networks, batch: Batch, hp: Hyperparameters) -> tuple[Tensor, dict[str, Tensor]]:
    """E[error(s, a)] - ent_coef E[entropy], [M, 1]."""
    rows, entropy = errors(config, params, batch)
    loss = (rows - hp.ent_coef * entropy).mean(-1, keepdim=True)
    return loss, {"actor": rows, "entropy": entropy}


def update(plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters, active: Tensor | None, noise: None) -> dict[str, Tensor]:
    """One step of the actor, and of its deviations."""
    names = [name for name in (fitted_actor.LOG_STD,) if name in learner.nets and plan.config.loss == "likelihood"]
    norm, readings = off_policy.minimize_together(
        plan, learner, ("actor", *names), lambda params: actor_loss(plan.config, params, batch, hp), hp, active
    )
    return readings | {"norm": norm}


def summarize(readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """Columns from readings over gradient steps, [U, M, B] -> [U, M]."""
    return {"loss/actor": readings["actor"].mean(-1), "metrics/entropy": readings["entropy"].mean(-1)}
