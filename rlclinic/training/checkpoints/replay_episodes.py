"""The replay that a checkpoint holds, as episodes: what a run met while it learned, in the order in which it met it."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from rlclinic.datasets import Episode
from rlclinic.training.checkpoints.replay_files import Remembered
from rlclinic.training.data import replay
from rlclinic.training.data.replay import Shape

__all__ = ["split"]


def split(saved: Remembered, shape: Shape, to_env: Callable[[Tensor], Tensor]) -> Iterator[Episode]:
    """One environment after the other, the oldest episode first. to_env: from actions [1, T, K] as they are learned to the environment's.

    Where newer rows have overwritten an episode's beginning, the rest of it is left out: its return would be another. Episodes that
    still go on are cut where the replay ends, as by a time limit.
    """
    overwritten = saved.stored > saved.capacity
    order = (torch.arange(saved.size) + (saved.stored % saved.capacity if overwritten else 0)) % saved.capacity
    for env, rows in enumerate(order.view(-1, shape.n_envs).T):
        yield from _split_env(saved, shape, to_env, rows, env, overwritten)


def _split_env(
    saved: Remembered, shape: Shape, to_env: Callable[[Tensor], Tensor], rows: Tensor, env: int, overwritten: bool
) -> Iterator[Episode]:
    """The episodes of one environment, whose rows [T] are given, oldest first."""
    cells, table = replay.cells_of(shape), saved.rows["table"][rows]
    obs, next_obs, known = _observations(saved, shape, rows, env)
    kept = torch.ones(len(rows), dtype=torch.bool) if not shape.marks_valid else table[:, cells["valid"].start] > 0
    table, obs, next_obs, known = table[kept], obs[kept], next_obs[kept], known[kept]
    terminated, truncated = (table[:, cells[name].start] > 0 for name in ("terminated", "truncated"))
    actions = to_env(table[:, cells["action"]].unsqueeze(0))[0]
    ends = (terminated | truncated).nonzero().flatten().tolist()
    first = 0
    if overwritten:
        first = ends.pop(0) + 1 if ends else len(table)
    for last in [*ends, len(table) - 1]:
        if first > last:
            continue
        ended = bool(terminated[last])
        # What a cut episode's last action led to is needed for its value; after a terminal state nobody looks at it.
        stop = last if ended or bool(known[last]) else last - 1
        if stop >= first:
            span = slice(first, stop + 1)
            final = next_obs[stop : stop + 1] if bool(known[stop]) else obs[stop : stop + 1]
            yield Episode(
                torch.cat([obs[span], final]).numpy(),
                actions[span].numpy(),
                table[span, cells["reward"].start].numpy().astype(np.float32),
                ended,
                not ended,
                final_known=bool(known[stop]),
            )
        first = last + 1


def _observations(saved: Remembered, shape: Shape, rows: Tensor, env: int) -> tuple[Tensor, Tensor, Tensor]:
    """Each row's observation and the next one, and whether that is known."""
    known, seen = torch.ones(len(rows), dtype=torch.bool), tuple(shape.obs_shape)
    if shape.once:
        obs, number = saved.rows["once.ring"][rows], saved.rows["once.number"][rows]
        cells = replay.cells_of(shape)
        following = torch.cat([obs[1:], saved.rest["once.next"][env].unsqueeze(0)])
        finals, cuts = saved.rest["once.finals"], int(saved.rest["once.cuts"])
        cut = number != -1
        held = cut & (number >= 0) & (cuts - number <= len(finals))
        final = finals[number.clamp(min=0) % len(finals)]
        next_obs = torch.where(held.view(-1, *[1] * len(seen)), final, following)
        return obs, next_obs, ~(cut & ~held) & (saved.rows["table"][rows, cells["terminated"].start] == 0)
    if shape.images:
        return saved.rows["images.obs"][rows], saved.rows["images.next_obs"][rows], known
    cells, table = replay.cells_of(shape), saved.rows["table"][rows]
    return table[:, cells["obs"]].view(-1, *seen), table[:, cells["next_obs"]].view(-1, *seen), known
