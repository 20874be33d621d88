"""Tabular Q-learning (Watkins & Dayan 1992): every step moves one cell of a table, with epsilon-greedy or UCB exploration.

The table lies where other algorithms have weights: a linear net without hidden layers whose inputs are one-hot states, [2 A, S].
Its first A rows are values, the others count how often each action was taken in a state.
"""

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rlclinic.config import Config
from rlclinic.training.algos.dqn import acting_noise, at_random, update_noise
from rlclinic.training.data.replay import Batch
from rlclinic.training.maths import exploration
from rlclinic.training.nets import q_nets
from rlclinic.training.nets.layout import Params
from rlclinic.training.nets.q_nets import HEAD, Net

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan

__all__ = ["ACTS", "TARGETS", "acting_noise", "at_random", "update_noise"]

ACTS = "q"
TARGETS = ("q",)
"""The table is its own target: there is no other one that could lag."""


def nets(config: Config, obs_size: int, env: Any) -> dict[str, Net]:
    """The table."""
    return {"q": q_nets.build(config.net, obs_size, (), 2 * env.action.sizes[0])}


def begin(plan: "Plan", learner: "Learner") -> None:
    """Values as believed at first, and nothing counted; in place."""
    learner.nets["q"].zero_()
    table = plan.nets["q"].params(learner.nets["q"])[f"{HEAD}.weight"]
    table[:, : plan.action.sizes[0]] = plan.config.initial_value
    learner.targets["q"].copy_(learner.nets["q"])


def values(plan: "Plan", params: Params, obs: Tensor) -> Tensor:
    """Q-values of all actions, [M, B, A], in states given one-hot [M, B, S]."""
    return _rows(params, obs)[..., : plan.action.sizes[0]]


def _rows(params: Params, obs: Tensor) -> Tensor:
    """The table's columns of some states, [M, B, 2 A]: looked up, not multiplied."""
    table = params[f"{HEAD}.weight"].transpose(1, 2)
    state = obs.argmax(-1)
    return table.gather(1, state.unsqueeze(-1).expand(-1, -1, table.shape[2]))


def exploring_noise(plan: "Plan", seed: Tensor, step: Tensor, env: Tensor) -> Tensor | None:
    """None: two uniform numbers, which are there anyway."""
    return None


def explore(
    plan: "Plan", params: Params, obs: Tensor, action_mask: Tensor | None, noise: Tensor, hp: SimpleNamespace, drift: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """What to do in training, [M, N], and which choices are not the best one."""
    q, visits = _rows(params, obs).chunk(2, -1)
    if plan.config.exploration == "ucb":
        action = exploration.ucb(q, visits, hp.ucb_constant, action_mask)
        return action, action != exploration.greedy(q, action_mask), None
    action = exploration.epsilon_greedy(q, hp.epsilon, noise[..., :2], action_mask)
    return action, action != exploration.greedy(q, action_mask), None


def act(plan: "Plan", params: Params, obs: Tensor, action_mask: Tensor | None, noise: Tensor | None) -> Tensor:
    """The best action [M, N]; with noise [M, N, 2], sometimes any other one, as at the end of training."""
    q = values(plan, params, obs)
    if noise is None:
        return exploration.greedy(q, action_mask)
    last = plan.config.exploration_final_eps
    epsilon = torch.full_like(noise[:, :1, 0], last if isinstance(last, float) else last.end)
    return exploration.epsilon_greedy(q, epsilon, noise, action_mask)


@torch.no_grad()
def targets(plan: "Plan", learner: "Learner", batch: Batch, hp: SimpleNamespace, noise: Tensor | None) -> Tensor:
    """What the cells should hold, [M, B]: the reward, and the best that the table knows behind it."""
    following = values(plan, plan.nets["q"].params(learner.nets["q"]), batch.next_obs).amax(-1)
    return torch.addcmul(batch.reward, batch.discount, following)


@torch.no_grad()
def judge(plan: "Plan", learner: "Learner", batch: Batch) -> Tensor:
    """Q-values [M, B] of the batch's actions."""
    q = values(plan, plan.nets["q"].params(learner.nets["q"]), batch.obs)
    return q.gather(-1, batch.action.long()).squeeze(-1)


@torch.no_grad()
def update(
    plan: "Plan", learner: "Learner", batch: Batch, hp: SimpleNamespace, active: Tensor | None, noise: Tensor | None
) -> dict[str, Tensor]:
    """Move every cell that was visited towards the mean of what its visits say, and count them; in place."""
    target, q = targets(plan, learner, batch, hp, noise), judge(plan, learner, batch)
    weight = torch.ones_like(q) if batch.weight is None else batch.weight
    weight = weight if active is None else weight * active
    table = plan.nets["q"].params(learner.nets["q"])[f"{HEAD}.weight"]  # [M, 2 A, S], a view of the flat buffer
    actions, states = plan.action.sizes[0], table.shape[2]
    cell = batch.action.long().squeeze(-1) * states + batch.obs.argmax(-1)
    empty = torch.zeros(len(table), actions * states, device=table.device)
    visits = empty.scatter_add(1, cell, weight)
    # Several envs in one cell: their mean. A sum would be a step as many times too long.
    error = empty.scatter_add(1, cell, (target - q) * weight) / visits.clamp(min=1.0)
    table[:, :actions] += (hp.learning_rate * error).view(-1, actions, states)
    table[:, actions:] += visits.view(-1, actions, states)
    learner.targets["q"].copy_(learner.nets["q"])
    return {"q": q, "error": q - target, "target": target, "norm": error.square().sum(1, keepdim=True).sqrt()}


def after_steps(plan: "Plan", learner: "Learner", hp: SimpleNamespace, active: Tensor | None, before: int, now: int) -> None:
    """Nothing lags, so nothing follows."""


def summary(readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """Columns from readings over updates, [U, M, B] -> [U, M]."""
    return {"loss/td": readings["error"].square().mean(-1)}
