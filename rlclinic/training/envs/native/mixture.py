"""Several versions of a native environment as one: every env plays a task of its own, drawn anew for each episode."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlclinic.training import rng
from rlclinic.training.envs.native.dynamics import Dynamics

LEVEL_SEED = 20_000
"""Level k starts as the hash of this seed and k says, whatever the run's seed is."""


class Mixture(Dynamics):
    """Tasks [K], each one of a few dynamics, or a level (a fixed start) of the only one.

    A state is that of the task's own dynamics and the task's number beside it. Each is stepped by its own dynamics alone.
    """

    def __init__(self, versions: Sequence[Dynamics], version_of: Sequence[int], levels: Sequence[int] | None, device: str) -> None:
        """version_of: by task, which of the versions it is. levels: by task, its level, where levels are the tasks."""
        first = versions[0]
        self._versions, self._version_of = versions, torch.tensor(version_of, device=device)
        self.obs_shape, self.action, self.chance = first.obs_shape, first.action, any(each.chance for each in versions)
        self.obs_low = np.minimum.reduce([each.obs_low for each in versions])
        self.obs_high = np.maximum.reduce([each.obs_high for each in versions])
        self._draws = max(each.noise for each in versions)
        self.noise = 1 + self._draws
        self._levels: Tensor | None = None
        if levels is not None:
            level, number = torch.tensor(levels, device=device).unsqueeze(1), rng.counting(self._draws, torch.device(device))
            self._levels = rng.uniform(torch.tensor(LEVEL_SEED, device=device), rng.RESET, level, number)
        # A table's state is one number, without an axis of its own.
        self._plain = first.start(torch.full((1, first.noise), 0.5, device=device)).dim() == 1
        self.until: Tensor | None = None
        """[M, K]: each member's chances of the tasks, summed up; the last one that can be drawn is above 1."""
        self.fixed: Tensor | None = None
        """[N]: the task of every env, where it never changes."""

    def start(self, uniform: Tensor) -> Tensor:
        """Start states of uniform numbers [M, N, ..., noise]: the first one draws the task."""
        chosen, rest = uniform[..., 0], uniform[..., 1:]
        if self.fixed is not None:
            task = self.fixed.view(1, -1, *(1,) * (chosen.dim() - 2)).expand(chosen.shape)
        else:
            assert self.until is not None
            task = torch.searchsorted(self.until, chosen.flatten(1).contiguous(), right=True).view(chosen.shape)
        if self._levels is not None:
            rest = self._levels[task]

        def begin(version: Dynamics, rows: Tensor) -> tuple[Tensor]:
            state = version.start(rows[..., : version.noise])
            return (state.unsqueeze(-1) if self._plain else state,)

        (state,) = self._by_version(task, begin, rest)
        return torch.cat((state, task.unsqueeze(-1).to(state.dtype)), -1)

    def observe(self, state: Tensor) -> Tensor:
        task, inner = self._split(state)
        (obs,) = self._by_version(task, lambda version, rows: (version.observe(rows),), inner)
        return obs

    def advance(self, state: Tensor, action: Tensor, chance: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        task, inner = self._split(state)

        def step(version: Dynamics, rows: Tensor, did: Tensor, luck: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
            after, reward, terminated = version.advance(rows, did, luck if version.chance else None)
            return after.unsqueeze(-1) if self._plain else after, reward, terminated

        after, reward, terminated = self._by_version(task, step, inner, action, *(() if chance is None else (chance,)))
        return torch.cat((after, state[..., -1:]), -1), reward, terminated

    def success(self, state: Tensor) -> Tensor | None:
        task, inner = self._split(state)
        found = self._by_version(task, lambda version, rows: (version.success(rows),), inner)[0]
        return found

    def mask(self, state: Tensor) -> Tensor | None:
        task, inner = self._split(state)
        found = self._by_version(task, lambda version, rows: (version.mask(rows),), inner)[0]
        return found

    def _split(self, state: Tensor) -> tuple[Tensor, Tensor]:
        return state[..., -1].long(), state[..., 0] if self._plain else state[..., :-1]

    def _by_version(self, task: Tensor, function: Callable[..., tuple[Any, ...]], *rows: Tensor) -> tuple[Any, ...]:
        """What the function gives of each version and its own rows, put together; a result of None is None for all."""
        if len(self._versions) == 1:
            return function(self._versions[0], *rows)
        version = self._version_of[task]
        present = torch.unique(version).tolist()
        if len(present) == 1:
            return function(self._versions[present[0]], *rows)
        whole: list[Tensor | None] = []
        for number in present:
            own = version == number
            parts = function(self._versions[number], *(each[own] for each in rows))
            if not whole:
                whole = [None if part is None else part.new_empty((*task.shape, *part.shape[1:])) for part in parts]
            for together, part in zip(whole, parts, strict=True):
                if together is not None and part is not None:
                    together[own] = part
        return tuple(whole)
