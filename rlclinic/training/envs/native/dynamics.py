"""What the engine asks of a native environment."""

from abc import ABC, abstractmethod

import numpy as np
from torch import Tensor

from rlclinic.training.envs.base import ActionSpec


class Dynamics(ABC):
    """One native environment: pure functions of state [..., *S] with S of at most one axis, for any leading shape."""

    obs_shape: tuple[int, ...]
    obs_low: np.ndarray
    obs_high: np.ndarray
    action: ActionSpec
    noise: int
    """How many uniform numbers a start state is made of."""
    chance: bool = False
    """Whether a step draws a uniform number per env."""

    @abstractmethod
    def start(self, uniform: Tensor) -> Tensor:
        """Start states [..., *S] from uniform numbers [..., noise] in (0, 1)."""

    @abstractmethod
    def observe(self, state: Tensor) -> Tensor:
        """The observation of a state, [..., *obs_shape] float32."""

    @abstractmethod
    def advance(self, state: Tensor, action: Tensor, chance: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """(next state, reward, terminated), all new tensors: a state that was handed out is never written to."""

    def success(self, state: Tensor) -> Tensor | None:
        """1.0 where an episode that ends in this state reached its goal, 0.0 where not; None if the env reports none."""
        return None

    def mask(self, state: Tensor) -> Tensor | None:
        """The allowed actions [..., n] bool; None if nothing is masked."""
        return None
