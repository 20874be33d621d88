"""CartPole: balance a pole on a cart that is pushed left or right (Barto, Sutton and Anderson 1983)."""

import math

import numpy as np
import torch
from torch import Tensor

from rlclinic.training.envs.base import ActionSpec
from rlclinic.training.envs.native.dynamics import Dynamics

GRAVITY = 9.8
MASS_POLE, MASS_TOTAL = 0.1, 1.1
HALF_LENGTH = 0.5
FORCE = 10.0
SECONDS_PER_STEP = 0.02
X_LIMIT, ANGLE_LIMIT = 2.4, 12 * 2 * math.pi / 360
START = 0.05

_LEVER = MASS_POLE * HALF_LENGTH / MASS_TOTAL


class CartPole(Dynamics):
    """State [x, x_dot, angle, angle_dot], which is also the observation."""

    obs_shape = (4,)
    obs_high = np.array([2 * X_LIMIT, np.inf, 2 * ANGLE_LIMIT, np.inf], dtype=np.float32)
    obs_low = -obs_high
    action = ActionSpec("discrete", (2,))
    noise = 4

    def __init__(self, device: str = "cpu", sutton_barto_reward: bool = False) -> None:
        self._sutton_barto = sutton_barto_reward
        # Constants as tensors: a Python number would cost a tensor's creation at every step.
        self._push = torch.tensor([-FORCE, FORCE], device=device) / MASS_TOTAL
        self._gravity = torch.tensor(GRAVITY, device=device)
        self._inertia = torch.tensor(HALF_LENGTH * 4.0 / 3.0, device=device)
        self._bounds = torch.tensor([X_LIMIT, math.inf, ANGLE_LIMIT, math.inf], device=device)

    def start(self, uniform: Tensor) -> Tensor:
        return (uniform * 2 - 1) * START

    def observe(self, state: Tensor) -> Tensor:
        return state

    def advance(self, state: Tensor, action: Tensor, chance: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        _, x_dot, angle, angle_dot = state.unbind(-1)
        sin, cos = angle.sin(), angle.cos()
        push = self._push.take(action)
        # The cart's acceleration if the pole followed without inertia of its own.
        pull = torch.addcmul(push, angle_dot * angle_dot, sin, value=_LEVER)
        resistance = torch.addcmul(self._inertia, cos, cos, value=-HALF_LENGTH * MASS_POLE / MASS_TOTAL)
        angle_acc = (sin * self._gravity).addcmul_(cos, pull, value=-1).div_(resistance)
        x_acc = pull.addcmul_(angle_acc, cos, value=-_LEVER)
        # Explicit Euler: positions move with the old velocities, as in Gymnasium's default.
        state = torch.add(state, torch.stack((x_dot, x_acc, angle_dot, angle_acc), -1), alpha=SECONDS_PER_STEP)
        terminated = (state.abs() > self._bounds).any(-1)
        reward = terminated.float().neg_() if self._sutton_barto else torch.ones_like(push)
        return state, reward, terminated
