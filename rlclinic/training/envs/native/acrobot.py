"""Acrobot: swing the free end of a two-link pendulum above a line with a motor at the middle joint (Sutton 1996)."""

import math
from functools import partial

import numpy as np
import torch
from torch import Tensor

from rlclinic.training.envs.base import ActionSpec
from rlclinic.training.envs.native.dynamics import Dynamics

SECONDS_PER_STEP = 0.2
MAX_VELOCITY = (4 * math.pi, 9 * math.pi)
START = 0.1

# Links of mass 1, length 1, centre of mass 0.5, inertia 1; gravity 9.8.
_G_UPPER, _G_LOWER = 1.5 * 9.8, 0.5 * 9.8


class Acrobot(Dynamics):
    """State [angle1, angle2, velocity1, velocity2]; the angles are observed as sines and cosines."""

    obs_shape = (6,)
    obs_high = np.array([1, 1, 1, 1, *MAX_VELOCITY], dtype=np.float32)
    obs_low = -obs_high
    action = ActionSpec("discrete", (3,))
    noise = 4

    def __init__(self, device: str = "cpu") -> None:
        # float64 inside a step: at full speed a joint turns 5.7 rad in it, and Runge-Kutta magnifies float32's rounding to 1e-3.
        # Constants as tensors: a Python number would cost a tensor's creation at every step.
        constant = partial(torch.tensor, dtype=torch.float64, device=device)
        self._torque = constant([-1.0, 0.0, 1.0])
        self._inertia1, self._inertia2, self._weight2 = constant(3.5), constant(1.25), constant(_G_LOWER)
        self._max_velocity = constant(MAX_VELOCITY).view(2, 1, 1)
        self._half_turn, self._turn, self._one = constant(math.pi), constant(2 * math.pi), constant(1.0)

    def start(self, uniform: Tensor) -> Tensor:
        return (uniform * 2 - 1) * START

    def observe(self, state: Tensor) -> Tensor:
        angles, velocities = state[..., :2], state[..., 2:]
        turned = torch.stack((angles.cos(), angles.sin()), -1).flatten(-2)  # cos1, sin1, cos2, sin2
        return torch.cat((turned, velocities), -1)

    def advance(self, state: Tensor, action: Tensor, chance: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        torque = self._torque.take(action)
        # The components first: each is then contiguous, and Runge-Kutta works on all four at once.
        y = state.movedim(-1, 0).to(torch.float64, memory_format=torch.contiguous_format)
        k1 = self._slope(y, torque)
        k2 = self._slope(torch.add(y, k1, alpha=SECONDS_PER_STEP / 2), torque)
        k3 = self._slope(torch.add(y, k2, alpha=SECONDS_PER_STEP / 2), torque)
        k4 = self._slope(torch.add(y, k3, alpha=SECONDS_PER_STEP), torque)
        y = torch.add(y, k1.add_(k4).add_(k2.add_(k3), alpha=2), alpha=SECONDS_PER_STEP / 6)
        angles, velocities = y[:2], y[2:]
        angle1, angle2 = angles.unbind(0)
        terminated = (angle1 + angle2).cos_().add_(angle1.cos()) < -self._one  # the tip is a link's length above the axle
        angles.add_(self._half_turn).remainder_(self._turn).sub_(self._half_turn)
        velocities.clamp_(-self._max_velocity, self._max_velocity)
        state = y.movedim(0, -1).to(torch.float32, memory_format=torch.contiguous_format)
        return state, terminated.float().sub_(1.0), terminated

    def _slope(self, y: Tensor, torque: Tensor) -> Tensor:
        """Time derivative [4, ...] of the state by the equations of motion of Sutton and Barto's book."""
        angle1, angle2, velocity1, velocity2 = y.unbind(0)
        sin2, cos2 = angle2.sin(), angle2.cos()
        inertia1 = self._inertia1 + cos2
        inertia2 = torch.add(self._inertia2, cos2, alpha=0.5)
        weight2 = (angle1 + angle2).sin_().mul_(self._weight2)
        weight1 = torch.add(weight2, angle1.sin(), alpha=_G_UPPER)
        coriolis = torch.add(velocity1, velocity2, alpha=0.5).mul_(velocity2).mul_(sin2)
        load1 = weight1.sub_(coriolis)
        ratio = inertia2 / inertia1
        push = torch.addcmul(torque, ratio, load1).sub_(weight2).addcmul_(velocity1 * velocity1, sin2, value=-0.5)
        acceleration2 = push.div_(torch.addcmul(self._inertia2, ratio, inertia2, value=-1))
        acceleration1 = load1.addcmul_(inertia2, acceleration2).div_(inertia1).neg_()
        return torch.stack((velocity1, velocity2, acceleration1, acceleration2))
