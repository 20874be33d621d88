"""Steps any native environment as [M, N] tensors: time limits, auto-reset, counters. The physics is in the sibling modules."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from rlclinic.training import rng
from rlclinic.training.envs.base import EVALUATION_SEED, Picture, Step, Stepping
from rlclinic.training.envs.native.dynamics import Dynamics

_AHEAD = 32  # episodes or steps whose randomness is drawn at once: about 60 small operations per draw, whatever its size
_DRAW_LIMIT = 1 << 20


class At(NamedTuple):
    """Where M x N envs stand: all that their future depends on."""

    state: Tensor
    elapsed: Tensor
    """[M, N] int64: steps since the episode began."""
    episode: Tensor
    """[M, N] int64: episodes ended so far."""
    clock: Tensor | None
    """[M, 1] int64: steps taken; None where steps draw no chance."""


class NativeEnv:
    """A VecEnv whose state is a tensor. Start noise is a function of (seed, env, episode), chance of (seed, env, step)."""

    exact = True
    skips = False
    picture: Picture | None = None

    def __init__(
        self,
        dynamics: Dynamics,
        seeds: list[int],
        n_envs: int,
        device: str = "cpu",
        max_episode_steps: int | None = None,
        evaluation: bool = False,
        first_env: int = 0,
    ) -> None:
        self.members, self.n_envs = len(seeds), n_envs
        self.obs_shape, self.obs_low, self.obs_high = dynamics.obs_shape, dynamics.obs_low, dynamics.obs_high
        self.action, self.max_episode_steps = dynamics.action, max_episode_steps
        self.failures: dict[int, Exception] = {}
        self.action_mask: Tensor | None = None
        self._dynamics = dynamics
        self.device = torch.device(device)
        shape = (self.members, n_envs)
        # Reading a flag on the CPU is cheap, and most steps end no episode. On a GPU it would stall the queue.
        self._looks = self.device.type == "cpu"
        self._draws = _Draws(seeds, n_envs, self.device, evaluation, first_env)
        self._starts = _Starts(self._draws, dynamics)
        self._chances = _Chances(self._draws) if dynamics.chance else None
        self._ages = _Ages(torch.zeros(shape, dtype=torch.int64, device=device), max_episode_steps)
        self._episode = torch.zeros(shape, dtype=torch.int64, device=device)
        self._never = torch.zeros(shape, dtype=torch.bool, device=device)
        self.reset()

    @property
    def stepping(self) -> Stepping:
        return Stepping(self)

    def reset(self) -> Tensor:
        self._ages.put(torch.zeros_like(self._episode))
        self._episode.zero_()
        self._starts.forget()
        if self._chances is not None:
            self._chances.rewind(torch.zeros((self.members, 1), dtype=torch.int64, device=self.device))
        self._state = self._starts.at(self._episode)
        self.action_mask = self._dynamics.mask(self._state)
        return self._dynamics.observe(self._state)

    def step(self, action: Tensor) -> Step:
        dynamics = self._dynamics
        chance = None if self._chances is None else self._chances.draw()
        state, reward, terminated = dynamics.advance(self._state, action, chance)
        next_obs, next_mask = dynamics.observe(state), dynamics.mask(state)
        cut = self._ages.step()
        truncated, ended = (self._never, terminated) if cut is None else (cut, terminated | cut)
        success = dynamics.success(state)
        if success is not None:
            success = success.masked_fill(~ended, torch.nan)
        obs, self.action_mask = next_obs, next_mask
        if not self._looks or ended.any():
            state = self._restart(state, ended)
            obs, self.action_mask = dynamics.observe(state), dynamics.mask(state)
        self._state = state
        return Step(next_obs, obs, reward, terminated, truncated, None, success, self.action_mask, next_mask)

    def here(self) -> At:
        """Where the envs stand now. Not copied: `step` may write to it."""
        return At(self._state, self._ages.now(), self._episode, None if self._chances is None else self._chances.clock())

    def go(self, at: At) -> None:
        """Stand where `advance` has led; what was drawn ahead is forgotten."""
        self._state, self._episode = at.state, at.episode
        self._ages.put(at.elapsed)
        self._starts.forget()
        if self._chances is not None and at.clock is not None:
            self._chances.rewind(at.clock)
        self.action_mask = self._dynamics.mask(self._state)

    def forget_starts(self) -> None:
        """Draw start states anew: what they are made of has changed."""
        self._starts.forget()

    def advance(self, at: At, action: Tensor, seed: Tensor | None = None) -> tuple[At, Step]:
        """`step` as a pure function, for engines that compile it: no look at a flag, every random number hashed where it is needed.

        seed: the members' own, [M, 1, 1], if not those that the env was made with. An argument, or a compiled step would be one of
        these seeds for ever.
        """
        dynamics = self._dynamics
        chance = None if at.clock is None else self._draws.uniform(rng.ENVIRONMENT, at.clock.unsqueeze(1), 1, seed)[..., 0, 0]
        state, reward, terminated = dynamics.advance(at.state, action, chance)
        next_obs, next_mask, success = dynamics.observe(state), dynamics.mask(state), dynamics.success(state)
        elapsed = at.elapsed + 1
        truncated = torch.zeros_like(terminated) if self.max_episode_steps is None else elapsed >= self.max_episode_steps
        ended = terminated | truncated
        if success is not None:
            success = success.masked_fill(~ended, torch.nan)
        episode = at.episode + ended
        start = dynamics.start(self._draws.uniform(rng.RESET, episode.unsqueeze(-1), dynamics.noise, seed)).squeeze(2)
        state = torch.where(ended.unsqueeze(-1) if state.dim() > 2 else ended, start, state)
        after = At(state, elapsed.masked_fill(ended, 0), episode, None if at.clock is None else at.clock + 1)
        return after, Step(next_obs, dynamics.observe(state), reward, terminated, truncated, None, success, dynamics.mask(state), next_mask)

    def _restart(self, state: Tensor, ended: Tensor) -> Tensor:
        self._episode.add_(ended)
        self._ages.restart(ended)
        start = self._starts.at(self._episode)
        return torch.where(ended.unsqueeze(-1) if state.dim() > 2 else ended, start, state)

    def state(self) -> dict[str, Tensor]:
        state = {"state": self._state.clone(), "elapsed": self._ages.now().clone(), "episode": self._episode.clone()}
        if self._chances is not None:
            state["clock"] = self._chances.clock()
        return state

    def load_state(self, state: dict[str, Tensor]) -> Tensor:
        self._state = state["state"].to(self.device, copy=True)
        self._ages.put(state["elapsed"].to(self.device, copy=True))
        self._episode.copy_(state["episode"])
        self._starts.forget()
        if self._chances is not None:
            self._chances.rewind(state["clock"].to(self.device))
        self.action_mask = self._dynamics.mask(self._state)
        return self._dynamics.observe(self._state)

    def retire(self, members: Iterable[int]) -> None:
        """Nothing to save: the same operations step everybody."""

    def close(self) -> None:
        """Nothing to free."""


class _Ages:
    """Steps since each env's episode began. On a CPU they are added up only when it matters: most steps can meet no limit."""

    def __init__(self, elapsed: Tensor, limit: int | None) -> None:
        self._limit, self._looks = limit, elapsed.device.type == "cpu"
        self.put(elapsed)

    def put(self, elapsed: Tensor) -> None:
        """Go on from these, [M, N] int64; they are ours to edit."""
        self._elapsed, self._since, self._room = elapsed, 0, 0

    def now(self) -> Tensor:
        """[M, N], ours to edit."""
        if self._since:
            self._elapsed.add_(self._since)
            self._room -= self._since
            self._since = 0
        return self._elapsed

    def step(self) -> Tensor | None:
        """One step more; which envs stand at the limit now, or None: none does."""
        self._since += 1
        if self._limit is None or self._since < self._room:
            return None
        elapsed = self.now()
        if self._looks:
            # So many steps before the oldest is there; new episodes only make it longer.
            self._room = self._limit - int(elapsed.max())
        return elapsed >= self._limit

    def restart(self, ended: Tensor) -> None:
        """New episodes where others have ended."""
        self.now().masked_fill_(ended, 0)


class _Draws:
    """Where a member's and env's random numbers come from; an evaluation env's are the same for every member."""

    def __init__(self, seeds: list[int], n_envs: int, device: torch.device, evaluation: bool, first_env: int = 0) -> None:
        env = torch.arange(first_env, first_env + n_envs, device=device).view(1, -1, 1)
        self.shape, self.rows = (len(seeds), n_envs), len(seeds) * n_envs
        self.ahead = max(2, min(_AHEAD, _DRAW_LIMIT // self.rows))
        self.device = device
        if evaluation:
            self._seed, self._env = (EVALUATION_SEED + env).expand(len(seeds), -1, -1), torch.zeros_like(env)
        else:
            self._seed, self._env = torch.tensor(seeds, device=device).view(-1, 1, 1), env

    def uniform(self, stream: int, index: Tensor, count: int, seed: Tensor | None = None) -> Tensor:
        """Numbers [M, N, K, count] in (0, 1) for index [M, N or 1, K]."""
        number = rng.counting(count, self.device)
        return rng.uniform((self._seed if seed is None else seed)[..., None], stream, self._env[..., None], index[..., None], number)


class _Starts:
    """Start states, a block of episodes ahead: most resets are then one gather instead of a hash."""

    def __init__(self, draws: _Draws, dynamics: Dynamics) -> None:
        self._draws, self._dynamics = draws, dynamics
        self._ahead = draws.ahead
        self._row = torch.arange(draws.rows, device=draws.device).view(draws.shape) * self._ahead
        self._next = torch.arange(self._ahead, device=draws.device)
        self._looks = draws.device.type == "cpu"
        self.forget()

    def forget(self) -> None:
        """Start over: the next call may ask for any episodes."""
        self._base: Tensor | None = None
        self._calls = 0

    def at(self, episode: Tensor) -> Tensor:
        """The start state [M, N, *S] of each env's episode; an env's episode grows by at most one between calls."""
        # No env can have used up more of its block than there were calls, so most calls need not look.
        base = self._base
        if base is None or (self._calls >= self._ahead and self._spent(episode, base)):
            base = self._base = episode - self._row  # an env's episode is then in the row episode - base
            uniform = self._draws.uniform(rng.RESET, episode[..., None] + self._next, self._dynamics.noise)
            self._states = self._dynamics.start(uniform).flatten(0, 2)  # [M * N * K, *S]
            self._calls = 0
        self._calls += 1
        return self._states[episode - base]

    def _spent(self, episode: Tensor, base: Tensor) -> bool:
        if not self._looks:
            return True
        self._calls = int((episode - base - self._row).max())
        return self._calls >= self._ahead


class _Chances:
    """One uniform number per env and step, a block of steps ahead."""

    def __init__(self, draws: _Draws) -> None:
        self._draws, self._ahead = draws, draws.ahead
        self._next = torch.arange(self._ahead, device=draws.device)

    def rewind(self, clock: Tensor) -> None:
        """Continue at each member's own step count, [M, 1] int64."""
        self._base, self._used = clock - self._ahead, self._ahead

    def clock(self) -> Tensor:
        return self._base + self._used

    def draw(self) -> Tensor:
        if self._used == self._ahead:
            self._base = self._base + self._ahead
            index = (self._base + self._next).unsqueeze(1)  # [M, 1, K]
            self._block = self._draws.uniform(rng.ENVIRONMENT, index, 1).squeeze(-1).unbind(-1)
            self._used = 0
        self._used += 1
        return self._block[self._used - 1]
