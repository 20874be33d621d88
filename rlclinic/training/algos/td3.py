"""TD3 (Fujimoto et al. 2018, arXiv:1802.09477), and DDPG (arXiv:1509.02971): TD3 with one critic, no delay and no target noise."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlclinic.config import Config, DDPGConfig, TD3Config
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.replay import Batch
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.loops import off_policy
from rlclinic.training.maths import exploration
from rlclinic.training.nets import mlp, q_nets
from rlclinic.training.nets.q_nets import Net, Networks

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan

ACTIONS = "box"
ACTOR = "actor"
TARGETS = ("actor", "critic")
COLUMNS = ("loss/actor", "loss/critic", "grad_norm/actor")


def build_networks(config: Config, obs_size: int, env: VecEnv) -> dict[str, Net]:
    """An actor, and critics side by side."""
    size = env.action.sizes[0]
    return {"actor": q_nets.build_actor(config, obs_size, size), "critic": q_nets.build_critics(config, obs_size, size)}


def actor(params: Networks, obs: Tensor) -> Tensor:
    """mu(s) [M, B, K], between -1 and 1."""
    return mlp.tanh(params("actor", obs))


def act(plan: "Plan", params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor | None) -> Tensor:
    """The actor's action [M, N, K]; it draws nothing."""
    return actor(params, obs)


def explore(
    plan: "Plan", params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor, hp: Hyperparameters, drift: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The actor's action with noise on it, [M, N, K], and where drifting noise stands."""
    action, drift = exploration.add_noise(plan.config, actor(params, obs), noise, hp.action_noise_std, drift)
    return action, None, drift


def update_noise(plan: "Plan", seed: Tensor, first: int, updates: int) -> Tensor:
    """Normal noise [M, U, B, K] for the targets' actions."""
    return exploration.update_noise(seed, first, updates, 1, plan.config.batch_size, plan.memory.action_size).squeeze(2)


@torch.no_grad()
def targets(
    config: TD3Config | DDPGConfig, params: Networks, target_params: Networks, batch: Batch, hp: Hyperparameters, noise: Tensor | None
) -> Tensor:
    """r + discount * min_i Q'_i(s', mu'(s') + clip(noise)) (algorithm 1), [M, B]; discount is 0 only behind a terminal state."""
    next_action = actor(target_params, batch.next_obs)
    if noise is not None:
        # Smoothed: a target action must be worth as much as its neighbours, or a critic's narrow peak would be believed.
        bound = hp.target_noise_clip.unsqueeze(-1)
        blur = torch.maximum(torch.minimum(noise * hp.target_policy_noise.unsqueeze(-1), bound), -bound)
        next_action = (next_action + blur).clamp(-1.0, 1.0)
    next_q = q_nets.critics(target_params, batch.next_obs, next_action).amin(1)
    return torch.addcmul(batch.reward, batch.discount, next_q)


@torch.no_grad()
def q_values(config: TD3Config | DDPGConfig, params: Networks, batch: Batch) -> Tensor:
    """min_i Q_i(s, a) of the batch's actions, [M, B]."""
    return q_nets.critics(params, batch.obs, batch.action).amin(1)


def critic_loss(
    config: TD3Config | DDPGConfig, params: Networks, target_params: Networks, batch: Batch, hp: Hyperparameters, noise: Tensor | None
) -> tuple[Tensor, dict[str, Tensor]]:
    """The squared errors of all critics, sum_i E[(Q_i(s, a) - y)^2], [M, 1]."""
    target = targets(config, params, target_params, batch, hp, noise)
    q = q_nets.critics(params, batch.obs, batch.action)  # [M, C, B]
    error = q - target.unsqueeze(1)
    squares = error.square() if batch.weight is None else error.square() * batch.weight.unsqueeze(1)
    loss = squares.mean(-1).sum(1, keepdim=True)
    return loss, {"q": q[:, 0], "error": error[:, 0], "errors": error, "target": target}


def actor_loss(params: Networks, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """-E[Q_1(s, mu(s))], the deterministic policy gradient (arXiv:1509.02971, eq. 6), [M, 1]."""
    rows = -q_nets.critics(params, batch.obs, actor(params, batch.obs))[:, 0]
    return rows.mean(-1, keepdim=True), {"actor": rows}


def update(
    plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters, active: Tensor | None, noise: Tensor | None
) -> dict[str, Tensor]:
    """One step of the critics; every policy_delay of them, one of the actor and of the targets."""
    target_params = off_policy.target_networks(plan, learner)
    norm, readings = off_policy.minimize(
        plan, learner, "critic", lambda params: critic_loss(plan.config, params, target_params, batch, hp, noise), hp, active
    )
    readings["norm"] = norm
    if (learner.updates + 1) % plan.config.policy_delay == 0:
        actor_norm, of_actor = off_policy.minimize(plan, learner, "actor", lambda params: actor_loss(params, batch), hp, active)
        readings |= of_actor | {"actor_norm": actor_norm}
        off_policy.follow(learner, TARGETS, hp.tau, active)
    return readings


def summarize(readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """Columns from readings over gradient steps, [U, M, ...] -> [U, M]."""
    columns = {"loss/critic": readings["errors"].square().mean(-1).sum(-1)}
    if "actor" in readings:
        columns |= {"loss/actor": readings["actor"].mean(-1), "grad_norm/actor": readings["actor_norm"].squeeze(-1)}
    return columns
