"""How often a state was met: observations as cells of a table, counted in the order in which they were met."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from rlclinic.training import rng
from rlclinic.training.bonuses.sight import Sight
from rlclinic.training.envs.base import VecEnv

EPISODE_BUCKETS = 4_096
"""Places of an environment's own table in an episode, unless states have one each."""
VALUE_STEP = 0.3
"""How far a cell's value moves towards what a rollout says of it: what is new becomes old, so that old targets must be forgotten."""
FARTHEST = 1e18
"""What an unbounded component is cut to: its square has to stay a number."""
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
    made: dict[torch.device, tuple[Tensor, Tensor, Tensor, Tensor]] = field(default_factory=dict, compare=False, repr=False)
    """What `number` needs of the bounds, by device, made when it is first needed."""

    def number(self, obs: Tensor, buckets: int) -> Tensor:
        """The cell of every observation [..., D], [...] int64 below `buckets`."""
        if self.one_hot:
            return obs.argmax(-1)
        low, width, bounded, salt = self._constants(obs.device)
        within = ((obs - low) / width * self.cells).clamp_(0, self.cells - 1)
        place = torch.where(bounded, within, _spread(obs) * (self.cells / 4)).nan_to_num_(0.0, 0.0, 0.0)
        return rng.mix((place.floor_().long() * salt).sum(-1)) % buckets

    def _constants(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of each component: the lower bound, the width of its range, whether it has both bounds, and what tells it apart in the hash."""
        if device not in self.made:
            low, high = (torch.as_tensor(bound, device=device) for bound in (self.low, self.high))
            bounded = torch.isfinite(low) & torch.isfinite(high) & (high > low)
            salt = rng.bits(torch.tensor(_STREAM, device=device), rng.EXPLORATION, torch.arange(len(low), device=device))
            self.made[device] = low, (high - low).clamp(min=1e-12), bounded, salt | 1
        return self.made[device]


def _spread(obs: Tensor) -> Tensor:
    """asinh, for components without bounds: cells are narrow near 0 and wider further away. A logarithm takes a seventh of its time."""
    size = obs.abs().clamp_(max=FARTHEST)
    return torch.log(size + torch.sqrt(size * size + 1)).copysign_(obs)


def cells_of(env: VecEnv, sight: Sight, cells: int, buckets: int) -> Cells:
    """How what is seen of an environment is counted."""
    first = env.reset()
    one_hot = first.dim() == 3 and bool((first.sum(-1) == 1).all()) and bool((first.amax(-1) == 1).all()) and first.shape[-1] > 1
    one_hot = one_hot and sight.picture is None
    return Cells(one_hot, sight.low, sight.high, cells, sight.size if one_hot else buckets)


def count(table: Tensor, cell: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
    """Visits of each step's cell [M, T, N], its own included, in the order of time; and the table [M, S] after them, which is edited."""
    members, steps, _ = cell.shape
    rows = cell.flatten(1)
    # A key per cell and time: visits of a cell up to a time are neighbours among the sorted keys, so no step waits for the one before.
    key = (cell * steps + torch.arange(steps, device=cell.device).view(1, -1, 1)).flatten(1)
    counted = None if valid is None else valid.flatten(1)
    # What does not count is behind everything else, and has no visit of its own.
    ordered, order = (key if counted is None else torch.where(counted, key, torch.iinfo(key.dtype).max)).sort(1)
    begins = _number_runs(ordered.div(steps, rounding_mode="floor"), first=True)
    in_rollout = torch.empty_like(order).scatter_(1, order, _number_runs(ordered, first=False) - begins + 1)
    met = table.gather(1, rows) + (in_rollout if counted is None else in_rollout * counted)
    ones = torch.ones_like(met) if counted is None else counted.float()
    return met.view(members, steps, -1), table.scatter_add_(1, rows, ones)


def _number_runs(ordered: Tensor, *, first: bool) -> Tensor:
    """The place [M, R] at which the run of equal numbers that each of the sorted ones [M, R] belongs to begins, or ends."""
    changes = torch.ones_like(ordered, dtype=torch.bool)
    torch.ne(ordered[:, 1:], ordered[:, :-1], out=changes[:, 1:] if first else changes[:, :-1])
    place = torch.arange(ordered.shape[1], device=ordered.device).expand_as(ordered)
    if first:
        return place.where(changes, 0).cummax(1).values
    return place.where(changes, ordered.shape[1]).flip(1).cummin(1).values.flip(1)


def count_in_episodes(table: Tensor, cell: Tensor, over: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
    """The same within each environment's episode: tables [M, N, S], emptied where an episode is over."""
    table, visits = table.clone(), torch.empty(cell.shape, device=table.device)
    for t in range(cell.shape[1]):
        place = cell[:, t].unsqueeze(-1)
        table.scatter_add_(2, place, (torch.ones_like(visits[:, t]) if valid is None else valid[:, t].float()).unsqueeze(-1))
        visits[:, t] = table.gather(2, place).squeeze(-1)
        table.masked_fill_(over[:, t].unsqueeze(-1), 0.0)
    return visits, table


def value(table: Tensor, average: Tensor, cell: Tensor) -> Tensor:
    """What a table [M, S] of values says of cells [M, ...]; of those that it has not valued yet, the average [M, 1], or 0."""
    known = table.gather(1, cell.flatten(1))
    return torch.where(known.isnan(), average, known).nan_to_num(0.0).view(cell.shape)


def learn_values(
    table: Tensor, average: Tensor, cell: Tensor, target: Tensor, valid: Tensor | None, active: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The table, which is edited, and the average after targets [M, T, N] of cells: each moves part of the way to the mean of its targets.

    NaN is what has no value yet; it takes the mean of its first targets.
    """
    rows, targets = cell.flatten(1), target.flatten(1)
    weight = torch.ones_like(targets) if valid is None else valid.flatten(1).float()
    # Each cell of the rollout is numbered by its first place among the sorted ones: sums over the whole table would cost more.
    ordered, order = rows.sort(1)
    own = torch.empty_like(order).scatter_(1, order, _number_runs(ordered, first=True))
    sums, ones = (torch.zeros_like(targets).scatter_add_(1, own, each).gather(1, own) for each in (targets * weight, weight))
    known, wanted = table.gather(1, rows), sums / ones
    # Steps of one cell all write the same number. A cell of which nothing counts (0 / 0) keeps what it has.
    moved = torch.where(known.isnan(), wanted, known + VALUE_STEP * (wanted - known))
    learns = ones > 0 if active is None else (ones > 0) & active
    mean = (targets * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True).clamp(min=1.0)
    average_after = torch.where(average.isnan(), mean, average + VALUE_STEP * (mean - average))
    average_after = average_after if active is None else torch.where(active, average_after, average)
    return table.scatter_(1, rows, torch.where(learns, moved, known)), average_after
