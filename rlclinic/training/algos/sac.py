"""Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905), with a learned or a fixed temperature."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rlclinic.config import Config
from rlclinic.training.algos import td3
from rlclinic.training.algos.td3 import after_steps, at_random, exploring_noise, judge
from rlclinic.training.data.replay import Batch
from rlclinic.training.loops import off_policy
from rlclinic.training.maths import exploration, squashed
from rlclinic.training.nets import q_nets
from rlclinic.training.nets.layout import Params
from rlclinic.training.nets.q_nets import Net

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan

__all__ = ["ACTS", "TARGETS", "after_steps", "at_random", "exploring_noise", "judge"]

ACTS = "actor"
TARGETS = ("critic",)


def nets(config: Config, obs_size: int, env: Any) -> dict[str, Net]:
    """An actor that gives means and log standard deviations, and critics side by side."""
    size = env.action.sizes[0]
    return {"actor": td3.actor_net(config, obs_size, 2 * size), "critic": td3.critic_net(config, obs_size, size)}


def explore(
    plan: "Plan", params: Params, obs: Tensor, action_mask: Tensor | None, noise: Tensor, hp: SimpleNamespace, drift: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """A sample of the policy, [M, N, K]; algo.action_noise comes on top of it, from the same numbers."""
    return td3.with_noise(plan, act(plan, params, obs, action_mask, noise), noise, hp, drift)


def act(plan: "Plan", params: Params, obs: Tensor, action_mask: Tensor | None, noise: Tensor | None) -> Tensor:
    """The action of the mean, [M, N, K]; with noise, a sample."""
    dist = q_nets.outputs(plan.nets["actor"], params, obs)
    if noise is None:
        return squashed.mode(dist)
    limits = plan.nets["actor"].net
    return squashed.draw(dist, noise, limits.log_std_min, limits.log_std_max)


def acting_noise(plan: "Plan", seed: Tensor, step: int, env: Tensor) -> Tensor | None:
    """Normal noise for `act`."""
    return exploration.normal_noise(seed, step, env, plan.memory.action_size)


def update_noise(plan: "Plan", seed: Tensor, first: int, updates: int) -> Tensor | None:
    """Normal noise [M, U, 2, B, K]: for the actions at obs and at next_obs."""
    return td3.normal(plan, seed, first, updates, 2)


def _sample(plan: "Plan", dist: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    limits = plan.nets["actor"].net
    return squashed.sample(dist, noise, limits.log_std_min, limits.log_std_max)


def temperature(learner: "Learner", hp: SimpleNamespace) -> Tensor:
    """What entropy is worth now, [M, 1]: learned, or as the config fixes it (not a number: learned)."""
    learned = learner.nets["log_alpha"].exp()
    return learned if hp.ent_coef is None else torch.where(hp.ent_coef.isnan(), learned, hp.ent_coef)


@torch.no_grad()
def targets(plan: "Plan", learner: "Learner", batch: Batch, hp: SimpleNamespace, noise: Tensor) -> Tensor:
    """What critics should say, [M, B]: rewards, and the most cautious target critic's word and the entropy behind them."""
    dist = q_nets.outputs(plan.nets["actor"], plan.nets["actor"].params(learner.nets["actor"]), batch.next_obs)
    action, log_prob = _sample(plan, dist, noise[:, 1])
    following = td3.judged(plan, plan.nets["critic"].params(learner.targets["critic"]), batch.next_obs, action).amin(1)
    soft = torch.addcmul(following, temperature(learner, hp), log_prob, value=-1)
    return torch.addcmul(batch.reward, batch.discount, soft)


def update(plan: "Plan", learner: "Learner", batch: Batch, hp: SimpleNamespace, active: Tensor | None, noise: Tensor) -> dict[str, Tensor]:
    """One step of critics, actor and temperature, and of the targets."""
    alpha = temperature(learner, hp)
    target = targets(plan, learner, batch, hp, noise)
    found = td3.improve_critics(plan, learner, batch, target, hp, active, 1.0)
    found |= improve_actor(plan, learner, batch, alpha, hp, active, noise)
    found["alpha_loss"] = improve_temperature(plan, learner, found["log_prob"], hp, active)
    if (learner.updates + 1) % plan.config.target_update_interval == 0:
        off_policy.follow(learner, TARGETS, hp.tau, active)
    return found | {"alpha": alpha}


def improve_actor(
    plan: "Plan", learner: "Learner", batch: Batch, alpha: Tensor, hp: SimpleNamespace, active: Tensor | None, noise: Tensor
) -> dict[str, Tensor]:
    """One step of the actor towards actions that the most cautious critic likes, and towards entropy."""
    critic, count = plan.nets["critic"], batch.obs.shape[1]
    out, back = q_nets.with_back(plan.nets["actor"], learner.nets["actor"], batch.obs)
    limits = plan.nets["actor"].net
    action, log_prob, draw_back = squashed.sample_with_back(out, noise[:, 0], limits.log_std_min, limits.log_std_max)
    said, judge_back = q_nets.with_back(critic, learner.nets["critic"], torch.cat([batch.obs, action], -1))
    q, lowest = said.view(-1, critic.copies, count).min(1, keepdim=True)
    by_q = torch.zeros_like(said.view(-1, critic.copies, count)).scatter_(1, lowest, -1.0 / count)
    by_action = judge_back.inputs(by_q.view_as(said))[..., batch.obs.shape[-1] :]
    grad = back.weights(draw_back(by_action, alpha / count))
    norm = off_policy.descend(plan, learner, "actor", grad, hp, active)
    return {"actor": alpha * log_prob - q.squeeze(1), "actor_norm": norm, "log_prob": log_prob}


@torch.no_grad()
def improve_temperature(plan: "Plan", learner: "Learner", log_prob: Tensor, hp: SimpleNamespace, active: Tensor | None) -> Tensor:
    """One step of a learned temperature: up while the entropy is below its target, down above it."""
    missing = (log_prob + hp.target_entropy).mean(-1, keepdim=True)
    loss = -learner.nets["log_alpha"] * missing
    if hp.learns_temperature:
        learned = None if hp.ent_coef is None else hp.ent_coef.isnan()
        going = learned if active is None else active if learned is None else active & learned
        off_policy.descend(plan, learner, "log_alpha", -missing, hp, going)
    return loss


def summary(readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """Columns from readings over gradient steps, [U, M, ...] -> [U, M]."""
    found = td3.summary(readings) | {"loss/alpha": readings["alpha_loss"].squeeze(-1)}
    found["loss/critic"] = 0.5 * found["loss/critic"]
    return found | {"metrics/entropy": -readings["log_prob"].mean(-1), "hp/alpha": readings["alpha"].squeeze(-1)}
