"""Costs apart from the reward: a critic of their own, and a multiplier that rises as long as episodes cost more than the limit.

All that is learned is a dict of tensors [M, ...] by name, part of the learner and of checkpoints. The multiplier is a member's own: once
per rollout it moves by learning_rate x (mean cost of the episodes that ended in it - limit), and stays between 0 and its maximum; a
rollout in which no episode ended leaves it. Advantages become (A - multiplier x A_cost) / (1 + multiplier), so that their size stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rlclinic.config import CostConfig
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.bonuses import curiosity, sight
from rlclinic.training.bonuses.sight import Sight, Steps
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.maths import normalize, returns
from rlclinic.training.maths.normalize import Moments
from rlclinic.training.nets.q_nets import Net

COLUMNS = tuple(f"train/cost/{name}" for name in ("return", "multiplier", "explained_variance"))
CLIP = 10.0
LEARNING_RATE = 1e-3
"""Of the costs' own critic."""

State = Mapping[str, Tensor]


@dataclass(frozen=True)
class Constraint:
    """What stays the same all run."""

    config: CostConfig
    sight: Sight
    nets: Mapping[str, Net]
    n_envs: int


class Weighed(NamedTuple):
    """What a limit adds to a rollout: advantages of the cost [M, T, N], and what a unit of it is worth [M, 1]."""

    advantage: Tensor
    multiplier: Tensor

    def apply(self, advantage: Tensor) -> Tensor:
        """The task's advantages [M, T, N] with the cost's taken off."""
        worth = self.multiplier.unsqueeze(-1)
        return (advantage - worth * self.advantage) / (1 + worth)


def plan(config: CostConfig, env: VecEnv) -> Constraint:
    """The limit of a config in an environment."""
    seen = sight.find_sight(env)
    return Constraint(config, seen, {"critic": curiosity.build_critic(seen.size)}, env.n_envs)


def fresh(constraint: Constraint, seeds: list[int], device: torch.device) -> dict[str, Tensor]:
    """Nothing learned yet."""
    members = len(seeds)
    stats = normalize.moments(members, constraint.sight.size, device)
    return curiosity.fresh(constraint.nets, seeds, device) | {
        "multiplier": torch.full((members, 1), constraint.config.multiplier, device=device),
        "episode": torch.zeros(members, constraint.n_envs, device=device),
        "last": torch.full((members, 1), torch.nan, device=device),
        **{f"obs_stats.{name}": each for name, each in stats._asdict().items()},
    }


def sum_episodes(cost: Tensor, over: Tensor, running: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What episodes that ended have cost in all [M, 1], how many they were [M, 1], and what those that go on have cost so far [M, N]."""
    total, count = torch.zeros_like(running[:, :1]), torch.zeros_like(running[:, :1])
    for t in range(cost.shape[1]):
        running = running + cost[:, t]
        ended = over[:, t]
        total = total + (running * ended).sum(1, keepdim=True)
        count = count + ended.sum(1, keepdim=True)
        running = running * ~ended
    return total, count, running


def move_multiplier(config: CostConfig, multiplier: Tensor, total: Tensor, count: Tensor) -> Tensor:
    """One step of dual ascent, for members in whose rollout an episode ended."""
    above = total / count.clamp(min=1.0) - config.limit
    moved = (multiplier + config.learning_rate * above).clamp(0.0, config.multiplier_max)
    return torch.where(count > 0, moved, multiplier)


@torch.no_grad()
def weigh(
    constraint: Constraint,
    state: State,
    steps: Steps,
    cost: Tensor,
    hp: Hyperparameters,
    seed: Tensor,
    iteration: int | Tensor,
    active: Tensor | None,
) -> tuple[Weighed, dict[str, Tensor], dict[str, Tensor]]:
    """What a rollout's costs [M, T, N] are worth, what is known after it, and readings [M] by column; active [M, 1] says who learns."""
    state, steps = dict(state), constraint.sight.look(steps)
    valid = steps.valid
    cost = cost if valid is None else cost * valid
    learning = torch.ones_like(state["multiplier"], dtype=torch.bool) if active is None else active
    total, count, state["episode"] = sum_episodes(cost, steps.over, state["episode"])
    state["last"] = torch.where(count > 0, total / count.clamp(min=1.0), state["last"])
    moved = move_multiplier(constraint.config, state["multiplier"], total, count)
    state["multiplier"] = torch.where(learning, moved, state["multiplier"])

    weight = None if valid is None else valid.flatten(1)
    before = Moments(*(state[f"obs_stats.{name}"] for name in Moments._fields))
    stats = normalize.include(before, steps.next_obs.flatten(1, 2), learning, weight)
    state |= {f"obs_stats.{name}": each for name, each in stats._asdict().items()}
    shown, led_to = (normalize.observations(stats, each.flatten(1, 2), CLIP) for each in (steps.obs, steps.next_obs))
    value, next_value = (curiosity.outputs(constraint.nets, state, "critic", each).view_as(cost) for each in (shown, led_to))
    gae_lambda = getattr(hp, "gae_lambda", None)
    trace = torch.ones_like(hp.gamma) if gae_lambda is None else gae_lambda
    advantage, target = returns.gae(cost, value, next_value, steps.terminated, steps.truncated, hp.gamma, trace)
    wanted = target.flatten(1)
    settings = (4 * curiosity.steps_for(wanted.shape[1]), LEARNING_RATE, seed, iteration, 2, active)
    state = curiosity.learn_targets(constraint.nets, state, "critic", shown, wanted.unsqueeze(-1), *settings)
    spread = wanted.var(1)
    readings = {
        "train/cost/return": state["last"].squeeze(1),
        "train/cost/multiplier": state["multiplier"].squeeze(1),
        "train/cost/explained_variance": torch.where(
            spread > 0, 1 - (wanted - value.flatten(1)).var(1) / spread.clamp(min=1e-30), torch.nan
        ),
    }
    return Weighed(advantage, state["multiplier"]), state, readings


@torch.no_grad()
def weigh_some(
    constraint: Constraint,
    state: State,
    steps: Steps,
    cost: Tensor,
    first_env: int,
    hp: Hyperparameters,
    seed: Tensor,
    iteration: int,
    active: Tensor | None,
) -> tuple[Weighed, dict[str, Tensor], dict[str, Tensor]]:
    """The same for steps of some of the environments, those of one actor: what an episode has cost so far is each environment's own."""
    envs = slice(first_env, first_env + cost.shape[2])
    weighed, after, readings = weigh(constraint, {**state, "episode": state["episode"][:, envs]}, steps, cost, hp, seed, iteration, active)
    whole = state["episode"].clone()
    whole[:, envs] = after["episode"]
    return weighed, after | {"episode": whole}, readings
