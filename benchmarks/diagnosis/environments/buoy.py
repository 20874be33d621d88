"""A second environment that nobody knows, recorded after the rules and their weights were final: it only ever tests them.

A buoy on an unstable mooring: its offset grows by itself, swell pushes it about, and one of three thrusters (left, none, right) acts
on its speed. Each step pays 1 minus the squared offset; drifting off further than 3 ends the episode.
"""

import numpy as np
import torch
from torch import Tensor

from rlclinic.training.envs import native
from rlclinic.training.envs.base import ActionSpec
from rlclinic.training.envs.native.dynamics import Dynamics

LIMIT, REACH = 200, 3.0


class Buoy(Dynamics):
    """State and observation [offset, speed, swell's sine, swell's cosine]."""

    obs_shape = (4,)
    obs_low, obs_high = np.full(4, -np.inf, np.float32), np.full(4, np.inf, np.float32)
    action = ActionSpec("discrete", (3,))
    noise = 3

    def __init__(self, device: str = "cpu") -> None:
        self._push = torch.tensor([-0.25, 0.0, 0.25], device=device)

    def start(self, uniform: Tensor) -> Tensor:
        phase = 2 * torch.pi * uniform[..., 2]
        return torch.stack((2 * uniform[..., 0] - 1, uniform[..., 1] - 0.5, phase.sin(), phase.cos()), -1)

    def observe(self, state: Tensor) -> Tensor:
        return state

    def advance(self, state: Tensor, action: Tensor, chance: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        offset, speed, sine, cosine = state.unbind(-1)
        speed = 0.95 * speed + 0.08 * offset + 0.06 * sine + self._push[action]
        offset = offset + 0.2 * speed
        # The swell turns by a twentieth of a circle each step.
        sine, cosine = 0.95106 * sine + 0.30902 * cosine, 0.95106 * cosine - 0.30902 * sine
        lost = offset.abs() > REACH
        reward = 1.0 - offset.square().clamp(max=REACH**2) / 2
        return torch.stack((offset, speed, sine, cosine), -1), reward, lost


def register() -> None:
    """Make `Buoy-v0` trainable in this process."""
    native.CATALOG["Buoy-v0"] = native.Entry(Buoy, LIMIT)
