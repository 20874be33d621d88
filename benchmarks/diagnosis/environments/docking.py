"""A user's own environment, made for the benchmark: no band, no YAML, no paper. A tug drifts in a basin and must dock at low speed.

State [x, y, vx, vy]; the berth is at the origin. Thrust is one of five (none, left, right, down, up) or a vector in [-1, 1]^2.
Each step pays the distance gained, minus fuel; docking pays 10, a crash into the wall or the berth costs 5.
"""

import numpy as np
import torch
from torch import Tensor

from rlclinic.training.envs import native
from rlclinic.training.envs.base import ActionSpec
from rlclinic.training.envs.native.dynamics import Dynamics

BASIN, BERTH, SAFE_SPEED, THRUST, DRAG = 4.0, 0.6, 1.0, 0.18, 0.98
LIMIT = 150


class Docking(Dynamics):
    """The observation is the state."""

    obs_shape = (4,)
    obs_low = np.full(4, -np.inf, np.float32)
    obs_high = np.full(4, np.inf, np.float32)
    noise = 2

    def __init__(self, device: str = "cpu", continuous: bool = False) -> None:
        self.action = (
            ActionSpec("box", (2,), np.full(2, -1, np.float32), np.full(2, 1, np.float32)) if continuous else ActionSpec("discrete", (5,))
        )
        self._continuous = continuous
        self._table = torch.tensor([[0.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]], device=device)

    def start(self, uniform: Tensor) -> Tensor:
        angle = uniform[..., :1] * (2 * torch.pi)
        radius = 1.5 + 1.5 * uniform[..., 1:]
        # A current along the bank: the tug does not start at rest.
        return torch.cat((radius * angle.cos(), radius * angle.sin(), -0.2 * angle.sin(), 0.2 * angle.cos()), -1)

    def observe(self, state: Tensor) -> Tensor:
        return state

    def advance(self, state: Tensor, action: Tensor, chance: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        thrust = action.clamp(-1.0, 1.0) if self._continuous else self._table[action]
        place, speed = state[..., :2], state[..., 2:]
        speed = DRAG * speed + THRUST * thrust
        moved = place + 0.3 * speed
        before, after = place.norm(dim=-1), moved.norm(dim=-1)
        at_berth, fast = after < BERTH, speed.norm(dim=-1) > SAFE_SPEED
        wall = moved.abs().amax(-1) > BASIN
        docked, crashed = at_berth & ~fast, wall | (at_berth & fast)
        fuel = 0.02 * thrust.square().sum(-1)
        reward = (before - after) - fuel + 10.0 * docked - 5.0 * crashed
        return torch.cat((moved, speed), -1), reward, docked | crashed

    def success(self, state: Tensor) -> Tensor:
        return ((state[..., :2].norm(dim=-1) < BERTH) & (state[..., 2:].norm(dim=-1) <= SAFE_SPEED)).float()


def register() -> None:
    """Make `Docking-v0` and `DockingContinuous-v0` trainable in this process."""
    native.CATALOG["Docking-v0"] = native.Entry(Docking, LIMIT)
    native.CATALOG["DockingContinuous-v0"] = native.Entry(lambda device: Docking(device, continuous=True), LIMIT)
