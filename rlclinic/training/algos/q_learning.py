"""Tabular Q-learning (Watkins & Dayan 1992): every step moves one cell of a table, with epsilon-greedy, UCB or optimistic exploration.

Several steps at a time are learned from backwards (arXiv:1805.12375).

The table lies where other algorithms have weights: a linear net without hidden layers whose inputs are one-hot states, [2 A, S].
Its first A rows are values, the others count how often each action was taken in a state.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlclinic.config import Config, QLearningConfig
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.replay import Batch
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.loops import off_policy
from rlclinic.training.maths import exploration
from rlclinic.training.nets import q_nets
from rlclinic.training.nets.q_nets import HEAD, Net, Networks

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan

ACTIONS = "discrete"
ACTOR = "q"
TARGETS = ("q",)
"""The table is its own target: there is no other one that could lag."""
COLUMNS = ("loss/td", "hp/epsilon")


def build_networks(config: Config, obs_size: int, env: VecEnv) -> dict[str, Net]:
    """The table."""
    return {"q": q_nets.build(config.net, obs_size, (), 2 * env.action.sizes[0])}


def initialize(plan: "Plan", learner: "Learner") -> None:
    """Values as believed at first, and nothing counted; in place."""
    learner.nets["q"].zero_()
    table = plan.nets["q"].params(learner.nets["q"])[f"{HEAD}.weight"]
    table[:, : plan.action.sizes[0]] = plan.config.initial_value
    learner.targets["q"].copy_(learner.nets["q"])


def values(config: QLearningConfig, params: Networks, obs: Tensor) -> Tensor:
    """Q(s, .) of all actions, [M, B, A], in states given one-hot [M, B, S]."""
    return _look_up(params, obs).chunk(2, -1)[0]


def _look_up(params: Networks, obs: Tensor) -> Tensor:
    """Values and visits of some states, [M, B, 2 A]: looked up, not multiplied."""
    table = params.of("q")[f"{HEAD}.weight"].transpose(1, 2)
    state = obs.argmax(-1)
    return table.gather(1, state.unsqueeze(-1).expand(-1, -1, table.shape[2]))


def explore(
    plan: "Plan", params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor, hp: Hyperparameters, drift: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """What to do in training, [M, N], and which choices are not the best one."""
    q, visits = _look_up(params, obs).chunk(2, -1)
    if plan.config.exploration == "optimistic":
        action = exploration.greedy(exploration.hope(q, visits, hp.ucb_constant), action_mask)
    elif plan.config.exploration == "ucb":
        action = exploration.ucb(q, visits, hp.ucb_constant, action_mask)
    else:
        action = exploration.epsilon_greedy(q, hp.epsilon, noise[..., :2], action_mask)
    return action, action != exploration.greedy(q, action_mask), None


def act(plan: "Plan", params: Networks, obs: Tensor, action_mask: Tensor | None, noise: Tensor | None) -> Tensor:
    """The best action [M, N]; with noise [M, N, 2], sometimes any other one, as at the end of training."""
    q = values(plan.config, params, obs)
    if noise is None:
        return exploration.greedy(q, action_mask)
    return exploration.epsilon_greedy(q, exploration.final_epsilon(plan.config.exploration_final_eps, noise), noise, action_mask)


@torch.no_grad()
def targets(
    config: QLearningConfig, params: Networks, target_params: Networks, batch: Batch, hp: Hyperparameters, noise: Tensor | None
) -> Tensor:
    """y = r + discount * max_a Q(s', a) over the actions that are allowed in s', [M, B]; discount is 0 only behind a terminal state.

    Optimistic: Q with what rarely tried actions may still be worth, so that hope travels back from where it is justified.
    """
    q, visits = _look_up(params, batch.next_obs).chunk(2, -1)
    if config.exploration == "optimistic":
        q = exploration.hope(q, visits, hp.ucb_constant)
    next_q = exploration.forbid(q, batch.next_mask).amax(-1)
    return torch.addcmul(batch.reward, batch.discount, next_q)


@torch.no_grad()
def q_values(config: QLearningConfig, params: Networks, batch: Batch) -> Tensor:
    """Q(s, a) of the batch's actions, [M, B]."""
    q = values(config, params, batch.obs)
    return q.gather(-1, batch.action.long()).squeeze(-1)


@torch.no_grad()
def update(
    plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters, active: Tensor | None, noise: Tensor | None
) -> dict[str, Tensor]:
    """A cycle's steps from the last to the first, each with what those after it have just taught; in place."""
    parts = [update_cells(plan, learner, step, hp, active, noise) for step in reversed(batch.split(plan.memory.n_envs))]
    if len(parts) == 1:
        return parts[0]
    readings = {name: torch.cat([part[name] for part in reversed(parts)], 1) for name in ("q", "error", "target")}
    return readings | {"norm": torch.cat([part["norm"] for part in parts], 1).square().sum(1, keepdim=True).sqrt()}


def update_cells(
    plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters, active: Tensor | None, noise: Tensor | None
) -> dict[str, Tensor]:
    """Q(s, a) += learning_rate * mean(y - Q(s, a)) over the visits of each cell, which are counted; in place."""
    params = off_policy.networks(plan, learner)
    target, q = targets(plan.config, params, params, batch, hp, noise), q_values(plan.config, params, batch)
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


def summarize(readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """Columns from readings over updates, [U, M, B] -> [U, M]."""
    return {"loss/td": readings["error"].square().mean(-1)}
