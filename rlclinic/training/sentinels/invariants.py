"""What must hold in any learner with a replay, calculated a second time from the stored rows: sentinels that name bugs.

Nothing here calls the functions that it checks: rows are followed one by one, ends are read from the stored flags.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from rlclinic.training.algos import MODULES
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data import replay
from rlclinic.training.data.replay import Replay
from rlclinic.training.loops import off_policy
from rlclinic.training.maths import squashed
from rlclinic.training.nets import q_nets
from rlclinic.training.nets.q_nets import Networks

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan

PROBE_ROWS = 128


class Followed(NamedTuple):
    """What came after each of some rows, [M, K]: n rewards or as many as the episode had, and where that ended."""

    total: Tensor
    discount: Tensor
    """gamma ** steps, 0 behind a terminal state."""
    last: Tensor
    terminal: Tensor
    cut: Tensor
    """A time limit ended the episode within these steps."""


@torch.no_grad()
def targets(plan: "Plan", learner: "Learner", memory: Replay, hp: Hyperparameters) -> dict[str, Tensor]:
    """How far targets are from what the stored rows give, as a share of their size: [M] each, NaN where there was no such row.

    Apart for rows within episodes, at terminal states (where the rewards are all) and at time limits (where the future counts).
    """
    if plan.config.name not in MODULES:
        return {}  # what another package's targets ought to be is not known here
    if memory.shape.marks_valid or memory.images is not None or memory.once is not None or memory.size < 2:
        return {}
    index = probe(memory, min(memory.size, PROBE_ROWS))
    noise = quiet(plan, learner, index)
    scale = off_policy.reward_scale(plan, learner)
    drawn = replay.gather(memory, index, plan.config.n_step, hp.gamma, None, scale)
    params, target_params = off_policy.networks(plan, learner), off_policy.target_networks(plan, learner)
    given = plan.algo.targets(plan.config, params, target_params, off_policy.prepare_batch(plan, learner, drawn), hp, noise)
    seen = follow(memory, index, plan.config.n_step, hp.gamma, scale)
    honest = drawn._replace(reward=seen.total, discount=seen.discount, next_obs=_cells(memory, seen.last, "next_obs"))
    if memory.shape.masks:
        honest = honest._replace(next_mask=_cells(memory, seen.last, "next_mask") > 0)
    honest = off_policy.prepare_batch(plan, learner, honest)
    due = honest.reward + seen.discount * _future(plan, learner, honest, hp, noise)
    size = due.abs().mean(1, keepdim=True) + honest.reward.abs().mean(1, keepdim=True) + 1e-8
    error = (given - due).abs() / size
    kinds = {"": ~(seen.terminal | seen.cut), "_ends": seen.terminal, "_cuts": seen.cut}
    found = {f"target_error{kind}": (error * where).sum(1) / where.sum(1) for kind, where in kinds.items()}
    return found | _finals(memory)


def quiet(plan: "Plan", learner: "Learner", index: Tensor) -> Tensor | None:
    """Noise for `targets` that is none: its action is then the mean one."""
    if plan.algo.ACTOR == "q":
        return None
    blank = torch.zeros(*index.shape, plan.memory.action_size, device=index.device)
    return blank.unsqueeze(1).repeat(1, 2, 1, 1) if "log_alpha" in learner.nets else blank


def probe(memory: Replay, size: int) -> Tensor:
    """Rows [M, size]: half of them spread over the memory, the others ends of both kinds, as far as there are any."""
    held = memory.table[:, : memory.size]
    quarter = size // 4
    ends = [held[..., memory.cells[name].start].topk(quarter, 1).indices for name in ("terminated", "truncated")]
    spread = torch.linspace(0, memory.size - 1, size - 2 * quarter, device=held.device).long().expand(len(held), -1)
    return torch.cat([spread, *ends], 1)


def follow(memory: Replay, index: Tensor, n_step: int, gamma: Tensor, scale: Callable[[Tensor], Tensor] | None = None) -> Followed:
    """Walk from each row on, one step of its env at a time; `scale` is what learning makes of a reward."""
    n_envs, rows = memory.shape.n_envs, memory.shape.rows
    at, going = index, torch.ones_like(index, dtype=torch.bool)
    total, discount = torch.zeros_like(index, dtype=torch.float32), torch.ones_like(index, dtype=torch.float32)
    terminal, cut, last = torch.zeros_like(going), torch.zeros_like(going), index
    for _ in range(n_step):
        last = torch.where(going, at, last)
        reward = _cells(memory, at, "reward")
        total = total + going * discount * (reward if scale is None else scale(reward)).squeeze(-1)
        terminal = terminal | (going & (_cells(memory, at, "terminated").squeeze(-1) > 0))
        cut = cut | (going & ~terminal & (_cells(memory, at, "truncated").squeeze(-1) > 0))
        discount = torch.where(going, discount * gamma, discount)
        # The ring's newest step has no successor yet: what lies behind it is the oldest.
        newest = ((memory.place - 1) % rows - at) % rows < n_envs
        going = going & ~(terminal | cut | newest)
        at = (at + n_envs) % rows
    return Followed(total, discount * ~terminal, last, terminal, cut)


def _future(plan: "Plan", learner: "Learner", batch: replay.Batch, hp: Hyperparameters, noise: Tensor | None) -> Tensor:
    """What lies behind the batch's rows, [M, B]: the target's judgement of the action that ought to be chosen there."""
    if plan.algo.ACTOR != "q":
        return _judged(plan, learner, batch, hp, noise)
    values = plan.algo.values  # type: ignore[attr-defined]  # whoever acts by Q-values has them
    judged = values(plan.config, off_policy.target_networks(plan, learner), batch.next_obs)
    double = getattr(plan.config, "double", False)
    chosen = values(plan.config, off_policy.networks(plan, learner), batch.next_obs) if double else judged
    heads = judged.dim() == 4  # [M, K, B, A]: every head by itself
    if batch.next_mask is not None:
        chosen = torch.where(batch.next_mask.unsqueeze(1) if heads else batch.next_mask, chosen, -torch.inf)
    future = judged.gather(-1, chosen.argmax(-1, keepdim=True)).squeeze(-1)
    return future.mean(1) if heads else future


def _judged(plan: "Plan", learner: "Learner", batch: replay.Batch, hp: Hyperparameters, noise: Tensor | None) -> Tensor:
    """The lowest of the target critics, at the target actor's action (SAC: at its own, with what its entropy is worth)."""
    actor, critic, soft = plan.nets["actor"], plan.nets["critic"], "log_alpha" in learner.nets
    flat = learner.nets["actor"] if soft else learner.targets["actor"]
    action = plan.algo.act(plan, Networks(plan.nets, {"actor": flat}), batch.next_obs, None, None)
    x = torch.cat([batch.next_obs, action], -1)
    said = q_nets.outputs(critic, critic.params(learner.targets["critic"]), x).view(-1, critic.copies, action.shape[1])
    lowest = said.min(1).values
    if not soft:
        return lowest
    dist = q_nets.outputs(actor, actor.params(flat), batch.next_obs)
    _, log_prob = squashed.sample(dist, torch.zeros_like(action), actor.net.log_std_min, actor.net.log_std_max)
    learned = learner.nets["log_alpha"].exp()
    alpha = learned if hp.ent_coef is None else torch.where(hp.ent_coef.isnan(), learned, hp.ent_coef)
    return lowest - alpha * log_prob


def _finals(memory: Replay) -> dict[str, Tensor]:
    """Share of stored ends whose next observation is the first one of the episode that follows: overwritten by the reset."""
    n_envs, rows = memory.shape.n_envs, memory.shape.rows
    index = probe(memory, min(memory.size, 2 * PROBE_ROWS))
    ended = (_cells(memory, index, "terminated") + _cells(memory, index, "truncated")).squeeze(-1) > 0
    ended = ended & (((memory.place - 1) % rows - index) % rows >= n_envs)
    same = (_cells(memory, index, "next_obs") == _cells(memory, (index + n_envs) % rows, "obs")).all(-1)
    return {"next_obs_is_reset": (same & ended).sum(1) / ended.sum(1)}


def _cells(memory: Replay, index: Tensor, name: str) -> Tensor:
    """A field of rows [M, K] as it is stored, [M, K, width]."""
    part = memory.table[..., memory.cells[name]]
    return part.gather(1, index.unsqueeze(-1).expand(-1, -1, part.shape[-1]))
