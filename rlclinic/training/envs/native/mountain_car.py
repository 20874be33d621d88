"""MountainCar, its sparse and its continuous version: a weak car must swing up a hill (Moore 1990)."""

import numpy as np
import torch
from torch import Tensor

from rlclinic.training.envs.base import ActionSpec
from rlclinic.training.envs.native.dynamics import Dynamics

MIN_POSITION, MAX_POSITION, MAX_SPEED = -1.2, 0.6, 0.07
GRAVITY = 0.0025
START = (-0.6, -0.4)


_OBS_LOW = np.array([MIN_POSITION, -MAX_SPEED], dtype=np.float32)
_OBS_HIGH = np.array([MAX_POSITION, MAX_SPEED], dtype=np.float32)


def _parked(uniform: Tensor) -> Tensor:
    """Start states [position, velocity]: somewhere near the bottom, standing."""
    position = START[0] + (START[1] - START[0]) * uniform
    return torch.cat((position, torch.zeros_like(position)), -1)


def _roll(state: Tensor, force: Tensor, goal_position: float, goal_velocity: float) -> tuple[Tensor, Tensor]:
    """The next state and whether the car is at the goal."""
    position, velocity = state.unbind(-1)
    slope = (position * 3).cos_()
    velocity = (velocity + force).sub_(slope, alpha=GRAVITY).clamp_(-MAX_SPEED, MAX_SPEED)
    position = (position + velocity).clamp_(MIN_POSITION, MAX_POSITION)
    # The left wall takes all speed away.
    velocity.masked_fill_((position == MIN_POSITION) & (velocity < 0), 0.0)
    reached = (position >= goal_position) & (velocity >= goal_velocity)
    return torch.stack((position, velocity), -1), reached


class MountainCar(Dynamics):
    """State [position, velocity], which is also the observation. Push left, not at all, or right; every step costs 1.

    Sparse: the goal pays 1 and nothing else does, so that no step says how far it still is.
    """

    obs_shape = (2,)
    obs_low, obs_high = _OBS_LOW, _OBS_HIGH
    action = ActionSpec("discrete", (3,))
    noise = 1

    def __init__(self, device: str = "cpu", goal_velocity: float = 0.0, sparse: bool = False) -> None:
        self._goal_velocity, self._sparse = float(goal_velocity), sparse
        self._force = torch.tensor([-0.001, 0.0, 0.001], device=device)

    def start(self, uniform: Tensor) -> Tensor:
        return _parked(uniform)

    def observe(self, state: Tensor) -> Tensor:
        return state

    def advance(self, state: Tensor, action: Tensor, chance: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        force = self._force.take(action)
        state, terminated = _roll(state, force, 0.5, self._goal_velocity)
        return state, terminated.float() if self._sparse else torch.full_like(force, -1.0), terminated

    def success(self, state: Tensor) -> Tensor | None:
        return (state[..., 0] >= 0.5).float() if self._sparse else None


class MountainCarContinuous(Dynamics):
    """State as in MountainCar. Push with a force in [-1, 1]; the goal pays 100, and force costs a tenth of its square."""

    obs_shape = (2,)
    obs_low, obs_high = _OBS_LOW, _OBS_HIGH
    action = ActionSpec("box", (1,), np.array([-1], np.float32), np.array([1], np.float32))
    noise = 1

    def __init__(self, device: str = "cpu", goal_velocity: float = 0.0) -> None:
        self._goal_velocity = float(goal_velocity)

    def start(self, uniform: Tensor) -> Tensor:
        return _parked(uniform)

    def observe(self, state: Tensor) -> Tensor:
        return state

    def advance(self, state: Tensor, action: Tensor, chance: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        force = action.squeeze(-1).clamp(-1.0, 1.0)
        state, terminated = _roll(state, force * 0.0015, 0.45, self._goal_velocity)
        reward = (terminated * 100.0).sub_(force * force, alpha=0.1)
        return state, reward, terminated
