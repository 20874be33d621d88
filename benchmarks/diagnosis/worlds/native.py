"""Worlds as native environments: whole cohorts are stepped by a few tensor operations."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.diagnosis.worlds import families
from benchmarks.diagnosis.worlds.families import Moved, World
from rlclinic.training.envs import native
from rlclinic.training.envs.base import ActionSpec
from rlclinic.training.envs.native.dynamics import Dynamics


class WorldDynamics(Dynamics):
    """The world's state is one row; success of the last step is kept in its last place, where the world reports it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.obs_shape = (world.obs_size,)
        self.obs_low, self.obs_high = np.full(world.obs_size, -np.inf, np.float32), np.full(world.obs_size, np.inf, np.float32)
        self.noise, self.chance = world.noise, world.chance
        one = np.ones(world.dims, np.float32)
        self.action = ActionSpec("box", (world.dims,), -one, one) if world.dims else ActionSpec("discrete", (world.choices,))

    def start(self, uniform: Tensor) -> Tensor:
        parts = [part.float() for part in self._world.start(torch, uniform.float().unbind(-1))]
        return torch.stack([*parts, torch.zeros_like(parts[0])], -1)

    def observe(self, state: Tensor) -> Tensor:
        return self._world.obs_scale * torch.stack(list(self._world.observe(torch, state.unbind(-1)[:-1])), -1)

    def advance(self, state: Tensor, action: Tensor, chance: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        taken: Any = action.clamp(-1.0, 1.0).unbind(-1) if self._world.dims else action
        moved = self._world.step(torch, state.unbind(-1)[:-1], taken, None if chance is None else chance.float())
        flag = torch.zeros_like(state[..., 0]) if moved.success is None else moved.success
        return torch.stack([*moved.state, flag], -1), self._world.reward_scale * total(moved), moved.ended

    def success(self, state: Tensor) -> Tensor | None:
        return state[..., -1] if self._world.success else None


def total(moved: Moved) -> Any:
    """The reward, before it is scaled."""
    terms = iter(moved.terms.values())
    first = next(terms)
    return sum(terms, first)


def register() -> None:
    """Make every world trainable in this process."""
    for name in families.names():
        made = families.world(name)
        native.CATALOG[made.id] = native.Entry(lambda device, made=made: WorldDynamics(made), made.limit)
