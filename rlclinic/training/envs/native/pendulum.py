"""Pendulum: swing up and hold a pendulum with a motor that is too weak to lift it at once."""

import math

import numpy as np
import torch
from torch import Tensor

from rlclinic.training.envs.base import ActionSpec
from rlclinic.training.envs.native.dynamics import Dynamics

MAX_SPEED, MAX_TORQUE = 8.0, 2.0
SECONDS_PER_STEP = 0.05


class Pendulum(Dynamics):
    """State [angle, velocity], angle 0 upright and in [-pi, pi); observed as [cos, sin, velocity]. It never terminates."""

    obs_shape = (3,)
    obs_high = np.array([1, 1, MAX_SPEED], dtype=np.float32)
    obs_low = -obs_high
    action = ActionSpec("box", (1,), np.array([-MAX_TORQUE], np.float32), np.array([MAX_TORQUE], np.float32))
    noise = 2

    def __init__(self, device: str = "cpu", g: float = 10.0) -> None:
        self._gravity = 1.5 * float(g)
        self._start = torch.tensor([math.pi, 1.0], device=device)

    def start(self, uniform: Tensor) -> Tensor:
        return (uniform * 2 - 1) * self._start

    def observe(self, state: Tensor) -> Tensor:
        angle, velocity = state.unbind(-1)
        return torch.stack((angle.cos(), angle.sin(), velocity), -1)

    def advance(self, state: Tensor, action: Tensor, chance: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        angle, velocity = state.unbind(-1)
        torque = action.squeeze(-1).clamp(-MAX_TORQUE, MAX_TORQUE)
        cost = (angle * angle).add_(velocity * velocity, alpha=0.1).add_(torque * torque, alpha=0.001)
        acceleration = (angle.sin() * self._gravity).add_(torque, alpha=3.0)
        velocity = torch.add(velocity, acceleration, alpha=SECONDS_PER_STEP).clamp_(-MAX_SPEED, MAX_SPEED)
        # Wrapped, where Gymnasium lets it grow: a float32 angle of many turns would have lost digits.
        angle = torch.add(angle, velocity, alpha=SECONDS_PER_STEP)
        angle = torch.remainder(angle + math.pi, 2 * math.pi) - math.pi
        return torch.stack((angle, velocity), -1), cost.neg_(), torch.zeros_like(cost, dtype=torch.bool)
