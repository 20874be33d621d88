"""TD3+BC (Fujimoto & Gu 2021, arXiv:2106.06860): TD3 whose actor also stays close to what was recorded."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlclinic.config import Config, TD3BCConfig
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
COLUMNS = ("loss/actor", "loss/critic", "loss/imitation", "grad_norm/actor")


def build_networks(config: Config, obs_size: int, env: VecEnv) -> dict[str, Net]:
    """An actor, and critics side by side."""
    size = env.action.sizes[0]
    return {"actor": q_nets.build_actor(config, obs_size, size), "critic": q_nets.build_critics(config, obs_size, size)}


def actor(params: Networks, obs: Tensor) -> Tensor:
    """pi(s) [M, B, K], between -1 and 1."""
    return mlp.tanh(params("actor", obs))


def act(plan: "Plan", params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor | None) -> Tensor:
    """The actor's action [M, N, K]; it draws nothing."""
    return actor(params, obs)


def update_noise(plan: "Plan", seed: Tensor, first: int, updates: int) -> Tensor:
    """Normal noise [M, U, B, K] for the targets' actions."""
    return exploration.update_noise(seed, first, updates, 1, plan.config.batch_size, plan.memory.action_size).squeeze(2)


@torch.no_grad()
def targets(config: TD3BCConfig, params: Networks, target_params: Networks, batch: Batch, hp: Hyperparameters, noise: Tensor) -> Tensor:
    """r + discount * min_i Q'_i(s', pi'(s') + clip(noise)), [M, B]; discount is 0 only behind a terminal state."""
    bound = hp.target_noise_clip.unsqueeze(-1)
    blur = torch.maximum(torch.minimum(noise * hp.target_policy_noise.unsqueeze(-1), bound), -bound)
    next_action = (actor(target_params, batch.next_obs) + blur).clamp(-1.0, 1.0)
    return torch.addcmul(batch.reward, batch.discount, q_nets.critics(target_params, batch.next_obs, next_action).amin(1))


@torch.no_grad()
def q_values(config: TD3BCConfig, params: Networks, batch: Batch) -> Tensor:
    """min_i Q_i(s, a) of the batch's actions, [M, B]."""
    return q_nets.critics(params, batch.obs, batch.action).amin(1)


@torch.no_grad()
def errors(config: TD3BCConfig, params: Networks, batch: Batch) -> tuple[Tensor, None]:
    """The squared distance of the policy from recorded actions, the mean over components, [M, B]."""
    return (actor(params, batch.obs) - batch.action).square().mean(-1), None


def critic_loss(
    config: TD3BCConfig, params: Networks, target_params: Networks, batch: Batch, hp: Hyperparameters, noise: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """The squared errors of all critics, sum_i E[(Q_i(s, a) - y)^2], [M, 1]."""
    target = targets(config, params, target_params, batch, hp, noise)
    q = q_nets.critics(params, batch.obs, batch.action)  # [M, C, B]
    error = q - target.unsqueeze(1)
    return error.square().mean(-1).sum(1, keepdim=True), {"q": q[:, 0], "error": error[:, 0], "errors": error, "target": target}


def value_scale(config: TD3BCConfig, q: Tensor, hp: Hyperparameters) -> Tensor:
    """lambda = bc_alpha / E|Q_1| (eq. 5), [M, 1]: what values count against imitation. By their spread: bc_alpha / E|Q_1 - E Q_1|."""
    size = q if config.value_scale == "size" else q - q.mean(-1, keepdim=True)
    return (hp.bc_alpha / size.abs().mean(-1, keepdim=True).clamp(min=1e-8)).detach()


def actor_loss(config: TD3BCConfig, params: Networks, batch: Batch, hp: Hyperparameters) -> tuple[Tensor, dict[str, Tensor]]:
    """E[|pi(s) - a|^2 - lambda Q_1(s, pi(s))] (eq. 3), [M, 1].

    lambda is a number, not a way for the gradient: through it the actor could make values larger by making them equal.
    """
    action = actor(params, batch.obs)
    q = q_nets.critics(params, batch.obs, action)[:, 0]
    scale = value_scale(config, q, hp)
    imitation = (action - batch.action).square().mean(-1)
    rows = imitation - scale * q
    return rows.mean(-1, keepdim=True), {"actor": rows, "imitation": imitation}


def update(plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters, active: Tensor | None, noise: Tensor) -> dict[str, Tensor]:
    """One step of the critics; every policy_delay of them, one of the actor and of the targets."""
    target_params = off_policy.target_networks(plan, learner)
    norm, readings = off_policy.minimize(
        plan, learner, "critic", lambda params: critic_loss(plan.config, params, target_params, batch, hp, noise), hp, active
    )
    readings["norm"] = norm
    if (learner.updates + 1) % plan.config.policy_delay == 0:
        actor_norm, of_actor = off_policy.minimize(
            plan, learner, "actor", lambda params: actor_loss(plan.config, params, batch, hp), hp, active
        )
        readings |= of_actor | {"actor_norm": actor_norm}
        off_policy.follow(learner, TARGETS, hp.tau, active)
    return readings


def summarize(readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """Columns from readings over gradient steps, [U, M, ...] -> [U, M]."""
    return {
        "loss/critic": readings["errors"].square().mean(-1).sum(-1),
        "loss/actor": readings["actor"].mean(-1),
        "loss/imitation": readings["imitation"].mean(-1),
        "grad_norm/actor": readings["actor_norm"].squeeze(-1),
    }
