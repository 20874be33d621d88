"""Any Gymnasium environment as a VecEnv: arrays in, tensors out, seeds, failures. How envs are stepped is a backend's matter."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

import numpy as np
import torch
from torch import Tensor

from rlclinic.errors import EnvironmentFailed
from rlclinic.training import rng
from rlclinic.training.data.info_columns import Window
from rlclinic.training.envs.base import EVALUATION_SEED, Step, Stepping
from rlclinic.training.envs.spaces import Actions, Observations
from rlclinic.training.envs.stepping import Potentials, Rows, Stepper

END_OF_RAMPS: Final = 10**12
"""Steps after which every ramp is at its end."""


class Backend(Protocol):
    """Steps M x N envs into given arrays. A member that fails is put into `failures` and left alone from then on."""

    failures: dict[int, Exception]
    skips: bool
    """Whether steps can have rows that are no transition."""

    def reset(self, seeds: list[list[int]], rows: Rows) -> None:
        """Start all episodes from seeds [M][N]; observations go to rows.obs."""
        ...

    def set_taken(self, steps: list[int]) -> None:
        """Weights that go along a ramp go on as after so many steps of each env, by member."""
        ...

    def step(self, action: np.ndarray, rows: Rows) -> bool:
        """Step all envs; whether `rows.obs` holds rows that differ from `rows.next_obs`."""
        ...

    def retire(self, members: Iterable[int]) -> None:
        """Leave these members alone from now on."""
        ...

    def render(self, member: int, env: int) -> Any: ...

    def progress(self) -> object:
        """Something that changes while the envs are stepped."""
        ...

    def find_waiting(self) -> tuple[int | None, str]:
        """The member whose env has not come back, and that env in words."""
        ...

    def interrupt(self, reason: str) -> bool:
        """End what has not come back, from another thread; whether that can be done without ending the process."""
        ...

    def close(self) -> None: ...


class GymnasiumEnv:
    """A VecEnv over Gymnasium environments. Their inner state cannot be saved, so a resume starts new, newly seeded episodes."""

    exact = False

    def __init__(
        self,
        backend: Backend,
        observations: Observations,
        actions: Actions,
        seeds: list[int],
        n_envs: int,
        *,
        max_episode_steps: int | None,
        device: str = "cpu",
        masked: bool = False,
        evaluation: bool = False,
        lives: bool = False,
        info: Window | None = None,
        step_info: tuple[str, ...] = (),
        first_env: int = 0,
        potentials: Potentials | None = None,
    ) -> None:
        self.members, self.n_envs = len(seeds), n_envs
        self.obs_shape, self.obs_low, self.obs_high = observations.shape, observations.low, observations.high
        self.picture, self._dtype = observations.picture, observations.dtype
        self.action, self.max_episode_steps = actions.spec, max_episode_steps
        self.failures, self.skips = backend.failures, backend.skips
        self.action_mask: Tensor | None = None
        self._backend, self._seeds, self._evaluation = backend, seeds, evaluation
        self._lives, self._first_start, self._first_env = lives, EVALUATION_SEED, first_env
        self.info = info
        """What episodes said of themselves; None where nothing is logged of it."""
        self.potentials = potentials
        """What of the reward is known to be a potential."""
        self.step_info = step_info
        """What of every step's info is in Step.said."""
        self._device = torch.device(device)
        self._resumes = torch.zeros(self.members, 1, dtype=torch.int64)
        shape = (self.members, n_envs)
        self._first = np.zeros((*shape, *self.obs_shape), self._dtype)
        self._mask = np.ones((*shape, sum(self.action.sizes)), np.bool_) if masked else None
        self._silent = torch.full(shape, torch.nan, device=self._device)
        self._taken = torch.zeros(self.members, 1, dtype=torch.int64)
        """Steps of each env so far: ramps of reward terms go along them, also over a resume."""
        if evaluation:
            # Evaluations measure by one reward all along: the one that ramps end at.
            self._backend.set_taken([END_OF_RAMPS] * self.members)
        self.calls = 0
        """Counted when the envs are called and when they come back: odd while they are at it."""

    @property
    def stepping(self) -> Stepping:
        return Stepping(self._backend, self)

    def reset(self) -> Tensor:
        return self._begin()

    def _begin(self) -> Tensor:
        rows = self._rows()
        self.calls += 1
        self._backend.reset(self._env_seeds(), rows)
        self.calls += 1
        self._keep_mask()
        return self._tensor(self._first.copy())

    def step(self, action: Tensor) -> Step:
        rows = self._rows()
        self._taken += 1
        chosen = action.cpu().numpy()
        self.calls += 1
        ended = self._backend.step(chosen, rows)
        self.calls += 1
        next_obs = self._tensor(rows.next_obs)
        obs, success = next_obs, self._silent
        if ended:
            over = rows.terminated | rows.truncated | ~rows.valid
            fresh = over.reshape(over.shape + (1,) * len(self.obs_shape))
            obs = self._tensor(np.where(fresh, rows.obs, rows.next_obs))
            success = self._tensor(rows.success)
            if self.info is not None and rows.info is not None:
                self.info.add((rows.terminated | rows.truncated) & rows.valid, rows.info)
        self._keep_mask()
        next_mask = self.action_mask
        if ended and self._mask is not None and rows.final_mask is not None:
            over = rows.terminated | rows.truncated
            next_mask = self._tensor(np.where(over[..., None], rows.final_mask, self._mask))
        return Step(
            next_obs,
            obs,
            self._tensor(rows.reward),
            self._tensor(rows.terminated),
            self._tensor(rows.truncated),
            self._tensor(rows.valid) if self.skips else None,
            success,
            self.action_mask,
            next_mask,
            None if rows.goes_on is None else self._tensor(rows.goes_on),
            None if rows.said is None else self._tensor(rows.said),
        )

    def _rows(self) -> Rows:
        """New arrays for every step: what an earlier step returned is never written to again."""
        shape = (self.members, self.n_envs)
        flags = np.zeros((3, *shape), np.bool_)
        return Rows(
            next_obs=np.zeros((*shape, *self.obs_shape), self._dtype),
            obs=self._first,
            reward=np.zeros(shape, np.float32),
            terminated=flags[0],
            truncated=flags[1],
            success=np.full(shape, np.nan, np.float32),
            valid=np.ones(shape, np.bool_),
            mask=self._mask,
            goes_on=flags[2] if self._lives else None,
            final_mask=None if self._mask is None else np.ones_like(self._mask),
            info=None if self.info is None else np.full((*shape, len(self.info.names)), np.nan),
            said=np.zeros((*shape, len(self.step_info)), np.float32) if self.step_info else None,
        )

    def _env_seeds(self) -> list[list[int]]:
        if self._evaluation:
            return [[self._first_start + n for n in range(self.n_envs)]] * self.members
        # Hashed, not seed + n: runs with neighbouring seeds would otherwise share most of their episodes.
        env = torch.arange(self._first_env, self._first_env + self.n_envs).view(1, -1)
        keys = rng.bits(torch.tensor(self._seeds).view(-1, 1), rng.RESET, env, self._resumes)
        return (keys & 0x7FFFFFFF).tolist()

    def _keep_mask(self) -> None:
        if self._mask is not None:
            self.action_mask = self._tensor(self._mask.copy())

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    def state(self) -> dict[str, Tensor]:
        said = {} if self.info is None else {"info": torch.from_numpy(self.info.recent.copy())}
        return {"resumes": self._resumes.clone(), "taken": self._taken.clone(), **said}

    def load_state(self, state: dict[str, Tensor]) -> Tensor:
        self._resumes = state["resumes"].cpu() + 1
        if "taken" in state:  # not in checkpoints from before it was kept
            self._taken = state["taken"].cpu().clone()
            self._backend.set_taken(self._taken.flatten().tolist())
        said = state.get("info")
        if self.info is not None and said is not None and tuple(said.shape) == self.info.recent.shape:
            self.info.recent = said.cpu().numpy().copy()
        return self._begin()

    def progress(self) -> object:
        """Something that changes while the envs are stepped."""
        return self._backend.progress()

    def describe_wait(self) -> str:
        """Which env has not come back, in words."""
        return self._backend.find_waiting()[1]

    def find_waiting_member(self) -> int | None:
        """The member whose env has not come back; None if it cannot be told."""
        return self._backend.find_waiting()[0]

    def interrupt(self, reason: str) -> bool:
        """End what has not come back; False if only the end of the process could."""
        return self._backend.interrupt(reason)

    def start_from(self, seed: int) -> None:
        """Other start states than an evaluation's: env n begins with reset(seed + n)."""
        self._first_start = seed

    def render(self, member: int = 0, env: int = 0) -> Any:
        """A picture of one env (it must have been made with kwargs render_mode)."""
        return self._backend.render(member, env)

    def retire(self, members: Iterable[int]) -> None:
        self._backend.retire(members)

    def close(self) -> None:
        self._backend.close()


class Local:
    """Members stepped one after another in this process."""

    def __init__(self, lanes: Sequence[Stepper], skips: bool) -> None:
        self._lanes = lanes
        self.skips = skips
        self.failures: dict[int, Exception] = {}
        self._out: set[int] = set()
        """Members whose envs are closed: failed or retired."""

    def reset(self, seeds: list[list[int]], rows: Rows) -> None:
        for member, lanes in enumerate(self._lanes):
            if member not in self._out:
                try:
                    lanes.reset(seeds[member], rows.of(member))
                except EnvironmentFailed as reason:
                    self._fail(member, rows, reason)

    def set_taken(self, steps: list[int]) -> None:
        for member, lanes in enumerate(self._lanes):
            lanes.set_taken(steps[member])

    def step(self, action: np.ndarray, rows: Rows) -> bool:
        ended = False
        for member, lanes in enumerate(self._lanes):
            if member not in self._out:
                try:
                    ended |= lanes.step(action[member], rows.of(member))
                except EnvironmentFailed as reason:
                    self._fail(member, rows, reason)
        return ended

    def _fail(self, member: int, rows: Rows, reason: Exception) -> None:
        self.failures[member] = reason
        rows.of(member).clear()
        self.retire([member])

    def retire(self, members: Iterable[int]) -> None:
        for member in set(members) - self._out:
            self._out.add(member)
            self._lanes[member].close()

    def progress(self) -> object:
        return tuple((lanes.report.steps, lanes.report.at) for lanes in self._lanes)

    def find_waiting(self) -> tuple[int | None, str]:
        # Members are stepped in order, and count a step before they take it: the last of those that are ahead is at it.
        open_lanes = [member for member in range(len(self._lanes)) if member not in self._out]
        ahead = max((self._lanes[member].report.steps for member in open_lanes), default=0)
        member = max((member for member in open_lanes if self._lanes[member].report.steps == ahead), default=None)
        return (member, "the environment") if member is None else (member, self._lanes[member].report.describe_call())

    def interrupt(self, reason: str) -> bool:
        return False

    def render(self, member: int, env: int) -> Any:
        return self._lanes[member].render(env)

    def close(self) -> None:
        self.retire(range(len(self._lanes)))
