"""What the agents remember: a ring of transitions per member, in flat tensors that are edited in place.

A transition is one row of one table [M, rows, W]: what belongs together lies together, and a batch is one gather. Rows are
ordered by time, then env: row i and row i + N are one env's neighbours, which is how n-step returns and the memory-saving form
find what came next. Observations that are images lie apart, as the bytes that they are.

The next observation of an episode's last row is the final one, never the reset that follows it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from rlclinic.training import rng
from rlclinic.training.data import prioritized
from rlclinic.training.data.prioritized import Tree
from rlclinic.training.maths import returns

FINALS_SHARE = 16
"""One in so many rows can be the cut end of an episode whose final observation the memory-saving form keeps."""


class Batch(NamedTuple):
    """Rows for one gradient step, [M, B, ...]: act in obs, get reward (n steps of it), and what follows counts discount."""

    obs: Tensor
    action: Tensor
    reward: Tensor
    discount: Tensor
    next_obs: Tensor
    weight: Tensor | None = None
    places: Tensor | None = None
    """The rows themselves, for their new priorities."""
    following: Tensor | None = None
    """What a target that stands still promises at next_obs, [M, B] or by action [M, B, A], where that is worked out ahead."""
    next_mask: Tensor | None = None
    """[M, B, A] bool: the actions allowed in next_obs; None: all."""

    def rows(self, first: int, last: int) -> "Batch":
        """A part of the rows; no copy."""
        return Batch(*(None if each is None else each[:, first:last] for each in self))  # type: ignore[arg-type]

    def of_member(self, member: int) -> "Batch":
        """One member's rows, still with a leading axis; no copy."""
        return Batch(*(None if each is None else each[member : member + 1] for each in self))  # type: ignore[arg-type]

    def split(self, size: int) -> list["Batch"]:
        """All parts of so many rows; no copy."""
        columns = [None if each is None else each.split(size, 1) for each in self]
        return [Batch(*(column and column[part] for column in columns)) for part in range(self.reward.shape[1] // size)]  # type: ignore[arg-type]


@dataclass(frozen=True)
class Shape:
    """How large a member's memory is and what a row holds."""

    rows: int
    """A whole multiple of n_envs."""
    n_envs: int
    obs_shape: tuple[int, ...]
    """A vector's, unless it is an image."""
    action_size: int
    """Numbers of an action in a row; one for a choice."""
    images: bool = False
    once: bool = False
    """Keep each observation once, and look the next one up in the row that follows."""
    marks_valid: bool = False
    prioritized: bool = False
    masks: int = 0
    """How many actions there are, where some of them may be forbidden; 0: none ever is."""

    @property
    def obs_size(self) -> int:
        return int(torch.Size(self.obs_shape).numel())

    @property
    def width(self) -> int:
        """Numbers in a row of the table: both observations (unless they lie apart), action, reward, terminated, truncated, valid, mask."""
        seen = 0 if self.images or self.once else 2 * self.obs_size
        return seen + self.action_size + 3 + self.marks_valid + self.masks

    @property
    def finals(self) -> int:
        """Final observations that the memory-saving form can keep."""
        return max(self.rows // FINALS_SHARE, self.n_envs) if self.once else 0

    def size_in_bytes(self, members: int) -> int:
        """What `start` will take, to be asked before it is taken."""
        seen = self.obs_size * (1 if self.images else 4)
        apart = 2 * self.rows * seen if self.images else 0
        if self.once:
            apart = (self.rows + self.n_envs + self.finals) * seen + self.rows * 8
        tree = prioritized.size_in_bytes(1, self.rows) if self.prioritized else 0
        return members * (self.rows * self.width * 4 + apart + tree)


class Images(NamedTuple):
    """Observations that are images, [M, rows, ...] bytes, beside the table."""

    obs: Tensor
    next_obs: Tensor


class Once(NamedTuple):
    """The memory-saving form: a ring of observations, and the final ones of episodes that a limit cut."""

    ring: Tensor
    """[M, rows + N, *obs]: one time step longer than the table, so that the newest row has its successor too."""
    finals: Tensor
    """[M, F, *obs]"""
    number: Tensor
    """[M, rows] int64: the how manieth cut end a row is; -1: none."""
    cuts: Tensor
    """[M, 1] int64: how many there were so far; those before the last F are overwritten."""


@dataclass
class Replay:
    """A cohort's memories. `stored` counts the transitions of one member since the start; all members have as many."""

    shape: Shape
    table: Tensor
    images: Images | None = None
    once: Once | None = None
    tree: Tree | None = None
    stored: int = 0
    cells: dict[str, slice] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Rows that can be drawn."""
        return min(self.stored, self.shape.rows)

    @property
    def place(self) -> int:
        """The row that is written next."""
        return self.stored % self.shape.rows

    def tensors(self) -> dict[str, Tensor]:
        """All that is remembered, by name, [M, rows or other, ...]."""
        found = {"table": self.table}
        for part in (self.images, self.once, self.tree):
            found |= {} if part is None else part._asdict()
        return found


def start(shape: Shape, members: int, device: torch.device) -> Replay:
    """Memories without rows."""
    rows, seen = shape.rows, torch.uint8 if shape.images else torch.float32

    def empty(count: int) -> Tensor:
        return torch.zeros(members, count, *shape.obs_shape, dtype=seen, device=device)

    images = Images(empty(rows), empty(rows)) if shape.images and not shape.once else None
    once = None
    if shape.once:
        number = torch.full((members, rows), -1, dtype=torch.int64, device=device)
        cuts = torch.zeros(members, 1, dtype=torch.int64, device=device)
        once = Once(empty(rows + shape.n_envs), empty(shape.finals), number, cuts)
    tree = prioritized.start(members, rows, device) if shape.prioritized else None
    table = torch.zeros(members, rows, shape.width, device=device)
    return Replay(shape, table, images, once, tree, cells=cells_of(shape))


def cells_of(shape: Shape) -> dict[str, slice]:
    """Where in a row what lies."""
    widths = {} if shape.images or shape.once else {"obs": shape.obs_size, "next_obs": shape.obs_size}
    widths |= {"action": shape.action_size, "reward": 1, "terminated": 1, "truncated": 1}
    widths |= {"valid": 1} if shape.marks_valid else {}
    widths |= {"next_mask": shape.masks} if shape.masks else {}
    cells, first = {}, 0
    for name, width in widths.items():
        cells[name] = slice(first, first + width)
        first += width
    return cells


class Steps(Protocol):
    """What `add` needs to know of steps [M, T, N, ...]."""

    @property
    def obs(self) -> Tensor: ...
    @property
    def next_obs(self) -> Tensor: ...
    @property
    def following(self) -> Tensor: ...
    @property
    def action(self) -> Tensor: ...
    @property
    def reward(self) -> Tensor: ...
    @property
    def terminated(self) -> Tensor: ...
    @property
    def truncated(self) -> Tensor: ...
    @property
    def valid(self) -> Tensor | None: ...
    @property
    def next_action_mask(self) -> Tensor | None: ...


def add(replay: Replay, steps: Steps) -> None:
    """Remember T steps of every env; the oldest rows make room."""
    most = replay.shape.rows // replay.shape.n_envs
    length = steps.reward.shape[1]
    for first in range(0, length, most):
        _add(replay, steps, first, min(first + most, length))


def _add(replay: Replay, steps: Steps, first: int, last: int) -> None:
    """Steps first to last, which are no more than there are rows."""
    shape, rows = replay.shape, as_rows(replay.shape, steps, slice(first, last))
    places = [(replay.place, min(rows.shape[1], shape.rows - replay.place), 0)]
    places.append((0, rows.shape[1] - places[0][1], places[0][1]))
    for start, count, source in places:
        if count:
            replay.table[:, start : start + count] = rows[:, source : source + count]
    if replay.images is None and replay.once is None and replay.tree is None:
        replay.stored += rows.shape[1]
        return
    for t in range(first, last):
        _add_beside(replay, steps, t)
        replay.stored += shape.n_envs


def as_rows(shape: Shape, steps: Steps, span: slice = slice(None)) -> Tensor:
    """Steps as rows of the table, [M, T * N, W]."""
    action = steps.action[:, span]
    flags = [steps.reward, steps.terminated, steps.truncated] + ([steps.valid] if shape.marks_valid and steps.valid is not None else [])
    columns = [(action if action.dim() == 4 else action.unsqueeze(-1)).float(), torch.stack([flag[:, span].float() for flag in flags], -1)]
    if shape.masks and steps.next_action_mask is not None:
        columns.append(steps.next_action_mask[:, span].float())
    if not shape.once and not shape.images:
        columns = [steps.obs[:, span], steps.next_obs[:, span], *columns]
    return torch.cat(columns, -1).flatten(1, 2)


def _add_beside(replay: Replay, steps: Steps, t: int) -> None:
    """What lies beside the table, step by step: images, the memory-saving ring, priorities."""
    n_envs, here = replay.shape.n_envs, replay.place
    if replay.once is not None:
        _add_once(replay.once, steps, t, here, replay.stored)
    elif replay.images is not None:
        replay.images.obs[:, here : here + n_envs], replay.images.next_obs[:, here : here + n_envs] = steps.obs[:, t], steps.next_obs[:, t]
    if replay.tree is not None:
        index = torch.arange(here, here + n_envs, device=replay.table.device).expand(len(replay.table), -1)
        replay.tree = prioritized.add(
            replay.tree, index, steps.valid[:, t] if replay.shape.marks_valid and steps.valid is not None else None
        )


def _add_once(once: Once, steps: Steps, t: int, place: int, stored: int) -> None:
    obs, final = steps.obs[:, t], steps.next_obs[:, t]
    n_envs, length = obs.shape[1], once.ring.shape[1]
    here, after = stored % length, (stored + n_envs) % length
    once.ring[:, here : here + n_envs], once.ring[:, after : after + n_envs] = obs, steps.following[:, t]
    cut = steps.truncated[:, t] & ~steps.terminated[:, t]  # after a terminal state nothing is looked at
    once.number[:, place : place + n_envs] = _keep_finals(once, cut, final)


def _keep_finals(once: Once, cut: Tensor, final: Tensor) -> Tensor:
    """Keep the final observations [M, N, ...] of rows that are cut [M, N]; returns each row's number among the cuts, -1 for the others."""
    finals, number = once.finals, once.cuts + cut.cumsum(1) - cut.long()
    for env in range(cut.shape[1]):
        # The k-th cut goes to place k modulo F; a row that is none writes back what is there.
        where = _over(number[:, env : env + 1] % finals.shape[1], final).expand(-1, 1, *finals.shape[2:])
        chosen = torch.where(_over(cut[:, env : env + 1], final), final[:, env : env + 1], finals.gather(1, where))
        finals.scatter_(1, where, chosen)
    once.cuts.add_(cut.sum(1, keepdim=True))
    return torch.where(cut, number, -1)


def cut_newest(replay: Replay) -> None:
    """Mark the newest rows as cut: their environments have started anew, so what is stored next does not continue them.

    Without this an n-step window would join two episodes, and the memory-saving form would take the new episode's first observation
    for what the action led to.
    """
    if not replay.stored:
        return
    shape, cells = replay.shape, replay.cells
    rows = torch.arange(replay.place - shape.n_envs, replay.place, device=replay.table.device) % shape.rows
    newest = replay.table[:, rows]
    going = (_cell(newest, cells["terminated"]) == 0) & (_cell(newest, cells["truncated"]) == 0)  # [M, N]
    if replay.once is not None:
        final = replay.once.ring[:, next_in_ring(replay).to(rows.device)]
        number = _keep_finals(replay.once, going, final)
        replay.once.number[:, rows] = torch.where(going, number, replay.once.number[:, rows])
    replay.table[:, rows, cells["truncated"].start] = torch.where(going, 1.0, _cell(newest, cells["truncated"]))


def _over(flags: Tensor, obs: Tensor) -> Tensor:
    """[M, K] with as many axes as observations have."""
    return flags.view(*flags.shape, *([1] * (obs.dim() - 2)))


def uniform(replay: Replay, seed: Tensor, first: int, updates: int, size: int) -> Tensor:
    """Rows [M, updates * size] for gradient steps first, first + 1, …, each as likely as another. seed is [M, 1, 1]."""
    # The bias of a remainder of 63 bits is below 1e-12.
    return random_bits(seed, first, updates, size) % replay.size


def random_bits(seed: Tensor, first: int, updates: int, size: int) -> Tensor:
    """63 bits [M, updates * size] for the rows of gradient steps first, first + 1, …"""
    update = torch.arange(first, first + updates, device=seed.device).view(1, -1, 1)
    row = torch.arange(size, device=seed.device).view(1, 1, -1)
    # The top bit away: a remainder of a negative number would be one.
    return (rng.bits(seed, rng.REPLAY, update, row) & 0x7FFFFFFFFFFFFFFF).flatten(1)


def by_priority(replay: Replay, seed: Tensor, update: int, size: int, beta: Tensor) -> tuple[Tensor, Tensor]:
    """Rows [M, size] by priority, and their importance weights. seed is [M, 1, 1]."""
    assert replay.tree is not None
    row = torch.arange(size, device=seed.device).view(1, -1)
    noise = rng.uniform(seed.squeeze(-1), rng.REPLAY, update, row)
    return prioritized.sample(replay.tree, size, noise, beta, replay.size)


def gather(
    replay: Replay,
    index: Tensor,
    n_step: int,
    gamma: Tensor,
    weight: Tensor | None = None,
    scale: Callable[[Tensor], Tensor] | None = None,
) -> Batch:
    """The transitions at index [M, K], with n-step rewards that stop at the end of an episode. gamma is [M, 1].

    scale: what learning makes of single rewards [M, K, n] before they are added up; a clipped sum would not be a sum of clipped ones.
    """
    shape, cells = replay.shape, replay.cells
    rows = _take(replay.table, index)
    flags = _cell(rows, cells["terminated"]) > 0, _cell(rows, cells["truncated"]) > 0
    if n_step == 1:
        reward = rows[..., cells["reward"]]
        last, reward, discount = index, (reward if scale is None else scale(reward)).squeeze(-1), gamma * ~flags[0]
        tail, truncated = rows, flags[1]
    else:
        ahead = torch.arange(n_step, device=index.device)
        window = (index.unsqueeze(-1) + ahead * shape.n_envs) % shape.rows  # [M, K, n]
        newest = (replay.stored // shape.n_envs - 1) % (shape.rows // shape.n_envs)
        behind = (newest - index // shape.n_envs) % (shape.rows // shape.n_envs)  # time steps that came since
        ring = _take(replay.table, window.flatten(1)).unflatten(1, window.shape[1:])
        part = {name: _cell(ring, cells[name]) for name in ("reward", "terminated", "truncated")}
        open_ends = part["terminated"] > 0, part["truncated"] > 0
        single = part["reward"] if scale is None else scale(part["reward"])
        reward, discount, at = returns.n_step(single, *open_ends, gamma, ahead <= behind.unsqueeze(-1))
        last = window.gather(-1, at.unsqueeze(-1)).squeeze(-1)
        tail = ring.gather(2, at[..., None, None].expand(-1, -1, 1, ring.shape[-1])).squeeze(2)
        truncated = open_ends[1].gather(-1, at.unsqueeze(-1)).squeeze(-1)
    if shape.marks_valid:
        counted = _cell(rows, cells["valid"])
        weight = counted if weight is None else weight * counted
    action = rows[..., cells["action"]]
    obs, next_obs, whole = _observations(replay, rows, tail, index, last, truncated & (discount > 0))
    if whole is not None:
        weight = whole.float() if weight is None else weight * whole
    next_mask = tail[..., cells["next_mask"]] > 0 if shape.masks else None
    return Batch(obs, action, reward, discount, next_obs, weight, index, next_mask=next_mask)


def _observations(
    replay: Replay, rows: Tensor, tail: Tensor, index: Tensor, last: Tensor, cut: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """What was seen at rows `index` and after rows `last`, and whether the latter is still known (None: always)."""
    shape, once = replay.shape, replay.once
    if replay.images is not None:
        return _take(replay.images.obs, index), _take(replay.images.next_obs, last), None
    if once is None:
        return rows[..., replay.cells["obs"]], tail[..., replay.cells["next_obs"]], None
    length = once.ring.shape[1]
    obs = _take(once.ring, in_ring(replay, index))
    after = _take(once.ring, (in_ring(replay, last) + shape.n_envs) % length)
    number = once.number.gather(1, last)
    kept = _take(once.finals, number.clamp(min=0) % once.finals.shape[1])
    known = ~cut | (number >= once.cuts - once.finals.shape[1])
    return obs, torch.where(_over(cut, obs), kept, after), known


def in_ring(replay: Replay, index: Tensor) -> Tensor:
    """Where the observation of a row lies in the memory-saving form."""
    rows = replay.shape.rows
    when = replay.stored - 1 - (replay.place - 1 - index) % rows  # the row's number since the start
    return when % (rows + replay.shape.n_envs)


def next_in_ring(replay: Replay) -> Tensor:
    """Where the observations lie that follow the newest rows."""
    return torch.arange(replay.stored, replay.stored + replay.shape.n_envs) % (replay.shape.rows + replay.shape.n_envs)


def refill(tree: Tree, leaves: Tensor, highest: Tensor) -> Tree:
    """A tree with these priorities [M, rows] in its first rows."""
    index = torch.arange(leaves.shape[1], device=leaves.device).expand(len(leaves), -1)
    tree = prioritized.put(tree, index, leaves)
    tree.highest.copy_(highest)
    return tree


def _take(table: Tensor, index: Tensor) -> Tensor:
    """Rows [M, K, ...] of a table [M, rows, ...]."""
    members, rows = table.shape[:2]
    if members > 1:
        index = index + torch.arange(members, device=index.device).unsqueeze(1) * rows
    return table.flatten(0, 1).index_select(0, index.flatten()).view(*index.shape, *table.shape[2:])


def _cell(rows: Tensor, cell: slice) -> Tensor:
    return rows[..., cell.start]


def newest(replay: Replay, env: int, most: int) -> Tensor:
    """The last rows of one env, oldest first, as row numbers [K]."""
    shape = replay.shape
    count = min(replay.size // shape.n_envs, most)
    when = torch.arange(replay.stored // shape.n_envs - count, replay.stored // shape.n_envs)
    return (when * shape.n_envs + env) % shape.rows
