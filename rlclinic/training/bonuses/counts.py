"""How often a state was met: observations as cells of a table, counted in the order in which they were met."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rlclinic.training import rng
from rlclinic.training.envs.base import VecEnv

EPISODE_BUCKETS = 4_096
"""Places of an environment's own table in an episode, unless states have one each."""
_STREAM = 0xC0D17
"""What tells apart the components of an observation in its hash; the same in every run."""


@dataclass(frozen=True)
class Cells:
    """How an observation becomes the number of a cell."""

    one_hot: bool
    """Whether an observation is the number of a state: then every state has a cell of its own."""
    low: np.ndarray
    """[D]; -inf where there is no bound."""
    high: np.ndarray
    cells: int
    buckets: int

    def number(self, obs: Tensor, buckets: int) -> Tensor:
        """The cell of every observation [..., D], [...] int64 below `buckets`."""
        if self.one_hot:
            return obs.argmax(-1)
        low, high = (torch.as_tensor(bound, device=obs.device) for bound in (self.low, self.high))
        bounded = torch.isfinite(low) & torch.isfinite(high) & (high > low)
        share = (obs - low) / (high - low).clamp(min=1e-12)
        # Without bounds: cells that are narrow near 0 and wider further away.
        place = torch.where(bounded, share * self.cells, torch.asinh(obs) * self.cells / 4).nan_to_num(0.0, 0.0, 0.0)
        place = torch.where(bounded, place.clamp(0, self.cells - 1), place)
        salt = rng.bits(torch.tensor(_STREAM, device=obs.device), rng.EXPLORATION, torch.arange(obs.shape[-1], device=obs.device))
        return rng.mix((place.floor().long() * (salt | 1)).sum(-1)) % buckets


def cells_of(env: VecEnv, cells: int, buckets: int) -> Cells:
    """How the observations of an environment are counted."""
    first = env.reset()
    one_hot = first.dim() == 3 and bool((first.sum(-1) == 1).all()) and bool((first.amax(-1) == 1).all()) and first.shape[-1] > 1
    size = env.obs_shape[0]
    low, high = (np.broadcast_to(bound, (size,)).astype(np.float32) for bound in (env.obs_low, env.obs_high))
    return Cells(one_hot, low, high, cells, size if one_hot else buckets)


def count(table: Tensor, cell: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
    """Visits of each step's cell [M, T, N], its own included, in the order of time; and the table [M, S] after them."""
    table, visits = table.clone(), torch.empty(cell.shape, device=table.device)
    for t in range(cell.shape[1]):
        table.scatter_add_(1, cell[:, t], torch.ones_like(visits[:, t]) if valid is None else valid[:, t].float())
        visits[:, t] = table.gather(1, cell[:, t])
    return visits, table


def count_in_episodes(table: Tensor, cell: Tensor, over: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
    """The same within each environment's episode: tables [M, N, S], emptied where an episode is over."""
    table, visits = table.clone(), torch.empty(cell.shape, device=table.device)
    for t in range(cell.shape[1]):
        place = cell[:, t].unsqueeze(-1)
        table.scatter_add_(2, place, (torch.ones_like(visits[:, t]) if valid is None else valid[:, t].float()).unsqueeze(-1))
        visits[:, t] = table.gather(2, place).squeeze(-1)
        table.masked_fill_(over[:, t].unsqueeze(-1), 0.0)
    return visits, table
