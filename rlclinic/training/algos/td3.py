"""TD3 (Fujimoto et al. 2018, arXiv:1802.09477), and DDPG (arXiv:1509.02971): TD3 with one critic, no delay and no target noise."""

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rlclinic.config import Config
from rlclinic.training import rng
from rlclinic.training.data.replay import Batch
from rlclinic.training.loops import off_policy
from rlclinic.training.maths import exploration
from rlclinic.training.nets import mlp, q_nets
from rlclinic.training.nets.layout import Params
from rlclinic.training.nets.q_nets import Net

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan

ACTS = "actor"
TARGETS = ("actor", "critic")


def nets(config: Config, obs_size: int, env: Any) -> dict[str, Net]:
    """An actor, and critics side by side."""
    return {"actor": actor_net(config, obs_size, env.action.sizes[0]), "critic": critic_net(config, obs_size, env.action.sizes[0])}


def actor_net(config: Config, obs_size: int, outputs: int) -> Net:
    """Observations in, `outputs` numbers out."""
    return q_nets.build(config.net, obs_size, config.net.hidden, outputs, autograd=config.run.engine == "autograd")


def critic_net(config: Config, obs_size: int, action_size: int) -> Net:
    """Observation and action in, one value out; n_critics copies."""
    hidden = config.net.hidden if config.net.critic_hidden is None else config.net.critic_hidden
    copies = config.algo.n_critics  # type: ignore[union-attr]
    return q_nets.build(config.net, obs_size + action_size, hidden, 1, copies=copies, autograd=config.run.engine == "autograd")


def exploring_noise(plan: "Plan", seed: Tensor, step: Tensor, env: Tensor) -> Tensor | None:
    """Normal noise [M, T, N, K] for `explore`."""
    return exploration.normal_noise(seed, step, env, plan.memory.action_size)


def at_random(plan: "Plan", noise: Tensor, action_mask: Tensor | None) -> Tensor:
    """Actions [M, N, K], uniform between -1 and 1."""
    return noise[..., : plan.memory.action_size] * 2.0 - 1.0


def explore(
    plan: "Plan", params: Params, obs: Tensor, action_mask: Tensor | None, noise: Tensor, hp: SimpleNamespace, drift: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The actor's action with noise on it, [M, N, K], and where drifting noise stands."""
    return with_noise(plan, act(plan, params, obs, action_mask, None), noise, hp, drift)


def with_noise(
    plan: "Plan", action: Tensor, noise: Tensor, hp: SimpleNamespace, drift: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """algo.action_noise on actions [M, N, K]."""
    if plan.config.action_noise == "gaussian":
        return exploration.gaussian(action, hp.action_noise_std, noise), None, None
    if drift is not None:
        drift = exploration.ornstein_uhlenbeck(drift, hp.action_noise_std, noise, dt=plan.config.action_noise_dt)
        return (action + drift).clamp(-1.0, 1.0), None, drift
    return action, None, None


def act(plan: "Plan", params: Params, obs: Tensor, action_mask: Tensor | None, noise: Tensor | None) -> Tensor:
    """The actor's action [M, N, K] between -1 and 1."""
    return mlp.tanh(q_nets.outputs(plan.nets["actor"], params, obs))


def acting_noise(plan: "Plan", seed: Tensor, step: int, env: Tensor) -> Tensor | None:
    """A deterministic actor needs none."""
    return None


def update_noise(plan: "Plan", seed: Tensor, first: int, updates: int) -> Tensor | None:
    """Normal noise [M, U, B, K] for the targets' actions."""
    return normal(plan, seed, first, updates, 1).squeeze(2)


def normal(plan: "Plan", seed: Tensor, first: int, updates: int, kinds: int) -> Tensor:
    """Normal noise [M, U, kinds, B, K] for gradient steps first, first + 1, …"""
    sizes = (updates, kinds, plan.config.batch_size, plan.memory.action_size)
    axes = [torch.arange(size, device=seed.device).view(-1, *[1] * (3 - place)) for place, size in enumerate(sizes)]
    return rng.normal(seed.view(-1, 1, 1, 1, 1), rng.UPDATE, axes[0] + first, *axes[1:])


def judged(plan: "Plan", params: Params, obs: Tensor, action: Tensor) -> Tensor:
    """What the critics say, [M, copies, B]."""
    net = plan.nets["critic"]
    return q_nets.outputs(net, params, torch.cat([obs, action], -1)).view(-1, net.copies, obs.shape[1])


@torch.no_grad()
def targets(plan: "Plan", learner: "Learner", batch: Batch, hp: SimpleNamespace, noise: Tensor | None) -> Tensor:
    """What critics should say, [M, B]: rewards, and the most cautious target critic's word on a blurred target action."""
    action = act(plan, plan.nets["actor"].params(learner.targets["actor"]), batch.next_obs, None, None)
    if noise is not None:
        bound = hp.target_noise_clip.unsqueeze(-1)
        blur = torch.maximum(torch.minimum(noise * hp.target_policy_noise.unsqueeze(-1), bound), -bound)
        action = (action + blur).clamp(-1.0, 1.0)
    following = judged(plan, plan.nets["critic"].params(learner.targets["critic"]), batch.next_obs, action).amin(1)
    return torch.addcmul(batch.reward, batch.discount, following)


@torch.no_grad()
def judge(plan: "Plan", learner: "Learner", batch: Batch) -> Tensor:
    """Q-values [M, B] of the batch's actions: the most cautious critic's."""
    return judged(plan, plan.nets["critic"].params(learner.nets["critic"]), batch.obs, batch.action).amin(1)


def update(
    plan: "Plan", learner: "Learner", batch: Batch, hp: SimpleNamespace, active: Tensor | None, noise: Tensor | None
) -> dict[str, Tensor]:
    """One step of the critics; every policy_delay of them, one of the actor and of the targets."""
    target = targets(plan, learner, batch, hp, noise)
    found = improve_critics(plan, learner, batch, target, hp, active, 2.0)
    if (learner.updates + 1) % plan.config.policy_delay == 0:
        found |= improve_actor(plan, learner, batch, hp, active)
        off_policy.follow(learner, TARGETS, hp.tau, active)
    return found


def improve_critics(
    plan: "Plan", learner: "Learner", batch: Batch, target: Tensor, hp: SimpleNamespace, active: Tensor | None, pull: float
) -> dict[str, Tensor]:
    """One step of all critics on their squared errors, whose derivative is `pull` times the error."""
    net = plan.nets["critic"]
    out, back = q_nets.with_back(net, learner.nets["critic"], torch.cat([batch.obs, batch.action], -1))
    q = out.view(-1, net.copies, target.shape[1])
    error = q - target.unsqueeze(1)
    slope = error * (pull / target.shape[1])
    if batch.weight is not None:
        slope = slope * batch.weight.unsqueeze(1)
    grad = back.weights(slope.view_as(out))
    norm = off_policy.descend(plan, learner, "critic", grad, hp, active)
    return {"q": q[:, 0], "error": error[:, 0], "errors": error, "target": target, "norm": norm}


def improve_actor(plan: "Plan", learner: "Learner", batch: Batch, hp: SimpleNamespace, active: Tensor | None) -> dict[str, Tensor]:
    """One step of the actor up the first critic's slope."""
    net, critic = plan.nets["actor"], replace(plan.nets["critic"], copies=1)
    out, back = q_nets.with_back(net, learner.nets["actor"], batch.obs)
    action = mlp.tanh(out)
    first = learner.nets["critic"][:, : critic.width]
    q, judge_back = q_nets.with_back(critic, first, torch.cat([batch.obs, action], -1))
    by_action = judge_back.inputs(torch.full_like(q, -1.0 / q.shape[1]))[..., batch.obs.shape[-1] :]
    grad = back.weights(by_action * (1.0 - action * action))
    norm = off_policy.descend(plan, learner, "actor", grad, hp, active)
    return {"actor": -q.squeeze(-1), "actor_norm": norm}


def after_steps(plan: "Plan", learner: "Learner", hp: SimpleNamespace, active: Tensor | None, before: int, now: int) -> None:
    """Targets follow gradient steps, not env steps."""


def summary(readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """Columns from readings over gradient steps, [U, M, ...] -> [U, M]."""
    found = {"loss/critic": readings["errors"].square().mean(-1).sum(-1)}
    if "actor" in readings:
        found |= {"loss/actor": readings["actor"].mean(-1), "grad_norm/actor": readings["actor_norm"].squeeze(-1)}
    return found
