"""An off-policy algorithm: one network, one loss."""

from typing import Any

import torch
from torch import Tensor

from rlclinic.training.loops import off_policy
from rlclinic.training.maths import exploration, losses
from rlclinic.training.nets import q_nets

ACTIONS, ACTOR, TARGETS = "discrete", "q", ("q",)
COLUMNS = ("loss/td", "loss/conservative")


def build_networks(config: Any, obs_size: int, env: Any) -> dict[str, Any]:
    """A value for every action."""
    return {"q": q_nets.build(config.net, obs_size, config.net.hidden, env.action.sizes[0])}


def act(plan: Any, params: Any, obs: Tensor, action_mask: Tensor | None, noise: Tensor | None) -> Tensor:
    """The best action."""
    return exploration.greedy(params("q", obs), action_mask)


def explore(plan: Any, params: Any, obs: Tensor, action_mask: Tensor | None, noise: Tensor, hp: Any, drift: Tensor | None) -> Any:
    """Epsilon-greedy."""
    q = params("q", obs)
    action = exploration.epsilon_greedy(q, hp.epsilon, noise, action_mask)
    return action, action != exploration.greedy(q, action_mask), None


@torch.no_grad()
def targets(config: Any, params: Any, target_params: Any, batch: Any, hp: Any, noise: Tensor | None) -> Tensor:
    """r + discount * max_a Q'(s', a)."""
    return batch.reward + batch.discount * target_params("q", batch.next_obs).amax(-1)


def q_values(config: Any, params: Any, batch: Any) -> Tensor:
    """Q(s, a)."""
    return params("q", batch.obs).gather(-1, batch.action).squeeze(-1)


def loss(config: Any, params: Any, target_params: Any, batch: Any, hp: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """E[huber(Q(s, a) - y)] + caution * E[logsumexp_a Q(s, a) - Q(s, a)]."""
    target, all_q, q = targets(config, params, target_params, batch, hp, None), params("q", batch.obs), q_values(config, params, batch)
    gap = all_q.logsumexp(-1) - q
    value = losses.mean(losses.huber(q - target)) + hp.caution * losses.mean(gap)
    return value, {"q": q, "error": q - target, "target": target, "gap": gap}


def update(plan: Any, learner: Any, batch: Any, hp: Any, active: Tensor | None, noise: Tensor | None) -> dict[str, Tensor]:
    """One step, and the target follows."""
    slow = off_policy.target_networks(plan, learner)
    norm, readings = off_policy.minimize(plan, learner, "q", lambda params: loss(plan.config, params, slow, batch, hp), hp, active)
    off_policy.follow(learner, TARGETS, hp.tau, active)
    return readings | {"norm": norm}


def summarize(readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """Columns."""
    return {"loss/td": losses.huber(readings["error"]).mean(-1), "loss/conservative": readings["gap"].mean(-1)}
