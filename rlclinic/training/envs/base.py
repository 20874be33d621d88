"""What training asks of an environment: M members x N envs, stepped together. Free of torch, so that env workers start fast."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

EVALUATION_SEED = 10_000
"""Evaluation env k starts from this seed plus k, in every run: evaluations differ by the policy, never by luck."""


@dataclass(frozen=True)
class ActionSpec:
    """What an action is. `sizes` counts the choices of each component; for a box it is (number of dimensions,)."""

    kind: Literal["discrete", "multi_discrete", "multi_binary", "box"]
    sizes: tuple[int, ...]
    low: np.ndarray | None = None
    """Bounds of a box, flat float32 [dim], infinite where there are none; None for the other kinds."""
    high: np.ndarray | None = None


@dataclass(frozen=True)
class Picture:
    """The image in an observation. Alone it is a row [height, width, channels]; with numbers beside it the row is flat."""

    height: int
    width: int
    channels: int
    vector: int = 0
    """How many other numbers there are. They follow the image as float32: as their bytes, where the image is bytes."""

    @property
    def size(self) -> int:
        """Values in the image."""
        return self.height * self.width * self.channels


class Step(NamedTuple):
    """What one step of all envs gave. Read-only: `obs` may share memory with `next_obs`, and both with the env's own state."""

    next_obs: Tensor
    """[M, N, *obs_shape]: what the action led to; at an episode's end its final observation (bootstrap from this one)."""
    obs: Tensor
    """[M, N, *obs_shape]: what to act on next; after an episode's end the next episode's first observation."""
    reward: Tensor
    """[M, N] float32."""
    terminated: Tensor
    """[M, N] bool: the task itself ended; there is no future to bootstrap from."""
    truncated: Tensor
    """[M, N] bool: a limit cut the episode; its future has a value. Both flags may be set in one step."""
    valid: Tensor | None = None
    """[M, N] bool or None (all valid). False rows are no transition: a NEXT_STEP vector env reset in them, or an
    evaluation env had already played its episode."""
    success: Tensor | None = None
    """[M, N] float32 at the end of an episode: 1 reached the goal, 0 did not, nan not reported or not at the end."""
    action_mask: Tensor | None = None
    """[M, N, sum(sizes)] bool: the actions allowed in `obs`."""
    next_action_mask: Tensor | None = None
    """[M, N, sum(sizes)] bool: the actions allowed in `next_obs`; where nobody tells them at an episode's end, all."""
    goes_on: Tensor | None = None
    """[M, N] bool: `terminated` is said to learning only, and the episode itself goes on (a life was lost). None: nowhere."""
    said: Tensor | None = None
    """[M, N, K] float32: what training reads of the step's info, where it asks for anything (EnvConfig.step_info)."""


class Steps(Protocol):
    """Something that is stepped."""

    def step(self, *args: Any, **kwargs: Any) -> Any: ...


class Stepping(NamedTuple):
    """Whose `step` takes an environment's time: to be measured there."""

    simulates: Steps
    """Steps the simulation itself."""
    copies: Steps | None = None
    """Calls that one, and carries arrays to and from it; None where there is nothing to carry."""


class VecEnv(Protocol):
    """M members with N envs each. A member's numbers depend on its own seed and actions only, never on the neighbours."""

    members: int
    n_envs: int
    obs_shape: tuple[int, ...]
    obs_low: np.ndarray
    """Lowest observation, float32 [*obs_shape]; -inf where there is no bound."""
    obs_high: np.ndarray
    picture: Picture | None
    """The image in an observation; None where it is a vector."""
    action: ActionSpec
    max_episode_steps: int | None
    skips: bool
    """Whether steps can have rows that are no transition (Step.valid is then given): a vector env that resets in a step of its own."""
    exact: bool
    """True: state() and load_state() continue bit for bit. False: load_state() starts new episodes from new seeds."""
    failures: dict[int, Exception]
    """Members whose env raised or returned something that is not finite. Their rows are zero from then on."""

    @property
    def action_mask(self) -> Tensor | None:
        """Allowed actions [M, N, sum(sizes)] in the observation returned last, by reset() too; None where nothing is masked."""
        ...

    @property
    def stepping(self) -> Stepping:
        """Where its time goes; around other environments, where theirs does."""
        ...

    def reset(self) -> Tensor:
        """Start all episodes anew and return the first observations [M, N, *obs_shape]. The same call gives the same starts."""
        ...

    def step(self, action: Tensor) -> Step:
        """Take int64 [M, N] (discrete), int64 [M, N, K] (multi_discrete, multi_binary) or raw float32 [M, N, dim] (box).

        Box actions are clipped to the bounds here, so that the caller keeps the action whose log-probability it knows.
        """
        ...

    def state(self) -> dict[str, Tensor]:
        """Copies of everything that a later load_state() needs; every tensor has the leading axis M."""
        ...

    def load_state(self, state: dict[str, Tensor]) -> Tensor:
        """Continue from state(); returns the observation to act on, [M, N, *obs_shape]."""
        ...

    def retire(self, members: Iterable[int]) -> None:
        """Step these members no more, as they train no more: where each has envs of its own, they are closed, and its rows mean nothing."""
        ...

    def close(self) -> None:
        """Free windows, processes and simulators. The env cannot be used afterwards."""
        ...
