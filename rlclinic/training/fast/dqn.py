"""DQN's update with its gradient by hand, to rounding what `algos.dqn` says; and what can be worked out ahead for many steps at once."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from rlclinic.training.algos import dqn
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.replay import Batch
from rlclinic.training.fast import q_net_backward
from rlclinic.training.loops import off_policy
from rlclinic.training.maths import exploration
from rlclinic.training.nets import q_nets
from rlclinic.training.nets.q_nets import Networks

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan


def update(
    plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters, active: Tensor | None, noise: Tensor | None
) -> dict[str, Tensor]:
    """`algos.dqn.update`."""
    grad, readings = gradient(plan, learner, batch, hp)
    return readings | {"norm": off_policy.descend(plan, learner, "q", grad, hp, active)}


FEW_ACTIONS: Final = 64
"""Up to so many actions, working out what becomes of each is cheaper than exploring step by step."""


def gradient(plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters) -> tuple[Tensor, dict[str, Tensor]]:
    """The gradient [M, P] of `algos.dqn.q_loss`, and its readings."""
    params, target_params = off_policy.networks(plan, learner), off_policy.target_networks(plan, learner)
    target = dqn.targets(plan.config, params, target_params, batch, hp)
    out, back = q_net_backward.forward_and_back(plan.nets["q"], learner.nets["q"], batch.obs)
    all_q = q_nets.dueling(out) if plan.config.dueling else out
    q = all_q.gather(-1, batch.action).squeeze(-1)
    error = q - target
    by_q = huber_slope(error).mul_(1.0 / error.shape[1])
    if batch.weight is not None:
        by_q = by_q * batch.weight
    by_all_q = torch.zeros_like(all_q).scatter_(-1, batch.action, by_q.unsqueeze(-1))
    grad = back.weights(q_net_backward.dueling_back(by_all_q) if plan.config.dueling else by_all_q)
    readings = {"q": q, "error": error, "target": target}
    return grad, readings if batch.weight is None else readings | {"weight": batch.weight}


def huber_slope(error: Tensor) -> Tensor:
    """The derivative of `losses.huber`."""
    return error.clamp(-1.0, 1.0)


def prepare_actions(
    plan: "Plan", params: Networks, noise: Tensor, hp: Hyperparameters
) -> Callable[[int, Tensor], tuple[Tensor, Tensor]] | None:
    """`algos.dqn.explore` for noise [M, T, N, 2] and no mask, as a function of step and observation; None where each step needs it all.

    What becomes of each action that may turn out best is worked out for all steps; a step then only finds out which one is.
    """
    members, steps, n_envs, count = *noise.shape[:3], plan.action.sizes[0]
    if plan.config.exploration != "epsilon" or count > FEW_ACTIONS:
        return None
    best = torch.eye(count).expand(members, steps * n_envs, -1, -1)  # if action a were best, [..., a, :]
    made = [exploration.epsilon_greedy(q, hp.epsilon, noise.flatten(1, 2)) for q in best.unbind(2)]
    outcomes = torch.stack(made, -1).unflatten(1, (steps, n_envs)).transpose(0, 1).contiguous().unbind(0)  # T of [M, N, A]
    first = torch.arange(0, members * n_envs * count, count).view(members, n_envs)
    forward = q_net_backward.forward_again(plan.nets["q"], params.of("q"))

    def choose(step: int, obs: Tensor) -> tuple[Tensor, Tensor]:
        q = forward(obs)
        greedy = exploration.greedy(q_nets.dueling(q) if plan.config.dueling else q)
        action = outcomes[step].take(greedy + first)
        return action, action != greedy

    return choose


@torch.no_grad()
def add_target_values(plan: "Plan", learner: "Learner", batch: Batch) -> Batch:
    """Batches of several gradient steps, with the target's values at next_obs: it stands still meanwhile, and sees each row once."""
    net = plan.nets["q"]
    if batch.places is None or batch.reward.is_cuda or not net.written_out:
        return batch
    out = q_net_backward.outputs_once(net, learner.targets["q"], batch.next_obs, batch.places)
    next_q = exploration.forbid(q_nets.dueling(out) if plan.config.dueling else out, batch.next_mask)
    return batch._replace(following=next_q if plan.config.double else next_q.amax(-1))


def covers_updates(plan: "Plan", batch: Batch) -> bool:
    """Whether `update_all` covers these batches: nothing in their targets waits for the steps between, and every row weighs the same."""
    known = batch.following is not None and batch.weight is None
    return known and plan.optimizers["q"].kind == "adam" and not (plan.config.double or plan.config.dueling)


@torch.no_grad()
def update_all(plan: "Plan", learner: "Learner", batch: Batch, hp: Hyperparameters, active: Tensor | None) -> dict[str, list[Tensor]]:
    """`update` for several batches [M, U * B], to the same bits: one member after the other, so that its weights stay in the cache.

    Who is not active is passed over, and its readings are 0.
    """
    members, shape = len(batch.reward), (plan.updates_per_cycle, plan.batch_rows)
    readings = {name: torch.zeros(shape[0], members, shape[1]) for name in ("q", "error", "target")}
    norm = torch.zeros(shape[0], members, 1)
    params, target_params = off_policy.networks(plan, learner), off_policy.target_networks(plan, learner)
    for member in range(members):
        if active is None or bool(active[member]):
            own = batch.of_member(member)
            target = dqn.targets(plan.config, params, target_params, own, hp).view(shape)
            q = _update_member(plan, learner, own, target, hp, member, norm[:, member : member + 1])
            for name, reading in {"q": q, "error": q - target, "target": target}.items():
                readings[name][:, member] = reading
    return {name: list(values.unbind(0)) for name, values in (readings | {"norm": norm}).items()}


def _update_member(
    plan: "Plan", learner: "Learner", batch: Batch, target: Tensor, hp: Hyperparameters, member: int, norm: Tensor
) -> Tensor:
    """A member's gradient steps towards targets [U, B]; writes down the norms [U, 1, 1] and returns the Q-values [U, B] on the way."""
    count, size = target.shape
    rounds = plan.nets["q"].rounds(size, count, rests=not plan.optimizers["q"].weight_decay)
    flat, mean, square, steps = (optimizer[member : member + 1] for optimizer in (learner.nets["q"], *learner.optimizers["q"]))
    rounds.begin(flat, mean, square, batch.obs)
    descend = off_policy.prepare_descent(plan, "q", rounds, steps, hp, member)
    action = batch.action.view(count, size, 1)
    # The derivative of a mean over the batch, at the action that was taken; the others have none.
    share = torch.zeros_like(rounds.outputs).scatter_(-1, action, 1.0 / size).unbind(0)
    aims, norms = target.unsqueeze(-1).unbind(0), norm.unbind(0)
    for number in range(count):
        error = rounds.forward(number) - aims[number]
        rounds.by_weights(number, huber_slope(error).mul_(share[number]))
        descend(norms[number])
    rounds.end(flat, mean, square)
    return rounds.outputs.gather(-1, action).squeeze(-1)
