"""Recorded data to learn from: a replay that nobody adds to, shared by all members of a cohort.

Observations lie once, T + 1 an episode, and stay in the files that they come from until rows of them are drawn. Each member draws rows of
its own. A time limit cuts no value off: only a terminal state has no future.
"""

import hashlib
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlclinic.actions import Action, Change
from rlclinic.config import Config, DataConfig
from rlclinic.datasets import Dataset, Space, quality, read
from rlclinic.errors import ConfigError
from rlclinic.training.data import replay
from rlclinic.training.data.replay import Batch
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.maths import normalize
from rlclinic.training.maths.normalize import Moments

FEWEST_EPISODES: Final = 10
"""Of fewer, none is held out."""
OUTSIDE: Final = 0.01
"""The share of actions that may lie outside of the environment's bounds; they are cut to them. More is data of another scale."""
CHUNK: Final = 1 << 18
"""Rows that are looked at together."""
MOST_ON_GPU: Final = 0.5
"""The share of a GPU's free memory that data may take; larger data stays with the host."""


class Window(NamedTuple):
    """Steps of episodes one after the other, [M, B, K, ...]."""

    obs: Tensor
    action: Tensor
    return_to_go: Tensor
    """Undiscounted, as the environment paid it."""
    step: Tensor
    """Its number in the episode."""
    there: Tensor
    """bool: False where it only fills up."""


@dataclass(frozen=True)
class Recorded:
    """A dataset as tensors, and which rows of it are drawn."""

    data: Dataset
    observations: Tensor
    """[N + E, D]"""
    actions: Tensor
    """[N] choices, or [N, K] between -1 and 1."""
    rewards: Tensor
    """[N], as learning sees them before they are normalized."""
    terminated: Tensor
    """[N] bool"""
    shift: Tensor
    """[N]: the number of each row's episode, which is how many observations more than rows lie before it."""
    chosen: Tensor | None
    """[R]: the rows that are learned from; None: all."""
    held_out: Tensor
    """[H]: rows of episodes that are not learned from."""
    device: torch.device

    @property
    def size(self) -> int:
        """Rows that are drawn from."""
        return len(self.rewards) if self.chosen is None else len(self.chosen)

    def draw(self, seed: Tensor, first: int, updates: int, size: int) -> Tensor:
        """Rows [M, updates * size] for gradient steps first, first + 1, …, each as likely as another; seed is [M, 1, 1]."""
        places = replay.random_bits(seed, first, updates, size) % self.size
        return places if self.chosen is None else self.chosen[places]

    def gather(self, rows: Tensor, gamma: Tensor, stats: Moments | None = None, clip: float = 10.0) -> Batch:
        """Transitions at rows [M, K]; gamma is [M, 1]. stats: what rewards are normalized by."""
        flat = rows.flatten().to(self.rewards.device)
        at = flat + self.shift[flat]

        def take(table: Tensor, index: Tensor) -> Tensor:
            return table.index_select(0, index).to(self.device).view(*rows.shape, *table.shape[1:])

        obs, next_obs = take(self.observations, at).float(), take(self.observations, at + 1).float()
        action = take(self.actions, flat)
        reward, terminated = take(self.rewards, flat), take(self.terminated, flat)
        if stats is not None:
            reward = normalize.rewards(stats, reward.unsqueeze(-1), clip).squeeze(-1)
        return Batch(obs, action if action.dim() == 3 else action.unsqueeze(-1), reward, gamma * ~terminated, next_obs, places=rows)

    @cached_property
    def episode_returns(self) -> NDArray[np.float64]:
        """Returns of the episodes that are learned from, as the environment paid them."""
        returns = np.asarray(self.data.returns, np.float64)
        return returns if self.chosen is None else returns[np.unique(self.data.episode_of(self.chosen.cpu().numpy()))]

    @cached_property
    def ends_at_longest(self) -> float:
        """The share of terminated episodes that look cut by a time limit."""
        return quality.ends_at_longest(self.data)

    @cached_property
    def _to_go(self) -> Tensor:
        """What each row's episode still paid from there on, undiscounted, [N]."""
        sums, ends = np.cumsum(np.asarray(self.data.rewards, np.float64)), self.data.ends
        total = np.repeat(sums[ends - 1], self.data.lengths)
        return torch.from_numpy((total - sums + self.data.rewards).astype(np.float32)).to(self.rewards.device)

    @cached_property
    def _first(self) -> Tensor:
        """The first row of each row's episode, [N]."""
        return torch.from_numpy(np.repeat(self.data.ends - self.data.lengths, self.data.lengths)).to(self.rewards.device)

    def window(self, rows: Tensor, length: int) -> "Window":
        """The `length` steps that end at rows [M, B], of the same episode; where it is younger than that, its first step fills up."""
        last = rows.to(self.rewards.device).unsqueeze(-1)
        wanted = last - torch.arange(length - 1, -1, -1, device=last.device)
        first = self._first[last]
        at = torch.maximum(wanted, first)
        flat = at.flatten()

        def take(table: Tensor, index: Tensor) -> Tensor:
            return table.index_select(0, index).to(self.device).view(*at.shape, *table.shape[1:])

        return Window(
            obs=take(self.observations, flat + self.shift[flat]).float(),
            action=take(self.actions, flat),
            return_to_go=take(self._to_go, flat),
            step=(at - first).to(self.device),
            there=(wanted >= first).to(self.device),
        )

    def spread(self, most: int) -> Tensor:
        """At most so many of the rows that are learned from, evenly spread, [K]."""
        places = torch.linspace(0, self.size - 1, min(self.size, most), dtype=torch.float64).long()
        return places if self.chosen is None else self.chosen[places]

    @cached_property
    def fingerprint(self) -> str:
        """Which data this is: of all rewards and lengths, and of some observations and actions."""
        digest = hashlib.sha256()
        data, rows = self.data, np.linspace(0, len(self.data) - 1, min(len(self.data), 4_096)).astype(np.int64)
        for part in (data.lengths, data.terminated, data.truncated, data.rewards, data.actions[rows], data.observations[rows]):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()[:16]

    def moments(self, members: int) -> Moments:
        """Mean and variance of the observations that are acted on, the same for all members."""
        total, mean, square = 0, np.zeros(0), np.zeros(0)
        rows = np.arange(len(self.data)) if self.chosen is None else self.chosen.cpu().numpy()
        shift = self.shift.cpu().numpy()
        for first in range(0, len(rows), CHUNK):
            part = rows[first : first + CHUNK]
            seen = self.observations[torch.from_numpy(part + shift[part]).to(self.observations.device)].double().cpu().numpy()
            count, own = len(seen), seen.mean(0)
            own_square = np.square(seen - own).sum(0)
            if not total:
                total, mean, square = count, own, own_square
                continue
            delta = own - mean
            mean, square = mean + delta * count / (total + count), square + own_square + delta**2 * total * count / (total + count)
            total += count
        stats = (np.array([[float(total)]]), mean[None], (square / total)[None])
        return Moments(*(torch.from_numpy(part).repeat(members, 1).to(self.device) for part in stats))

    def reward_moments(self, gammas: list[float]) -> Moments:
        """Mean and variance of the running discounted return, as online normalizers measure it, for each member's gamma."""
        found = {gamma: _running_returns(self.data.lengths, self.rewards.cpu().numpy(), gamma) for gamma in set(gammas)}
        columns = [[[float(len(self.data))] for _ in gammas], [[found[g].mean()] for g in gammas], [[found[g].var()] for g in gammas]]
        return Moments(*(torch.tensor(column, dtype=torch.float64, device=self.device) for column in columns))

    def return_moments(self, members: int, largest: float) -> Moments | None:
        """What divides rewards by a thousandth of the range of the returns that are learned from; None where those are all the same.

        By more, where the largest reward would else become larger than `largest`: cut, it would be another task.
        """
        rewards = self.rewards.double().cpu().numpy()
        returns = np.add.reduceat(rewards, self.data.ends - self.data.lengths)
        if self.chosen is not None:
            returns = returns[np.unique(self.data.episode_of(self.chosen.cpu().numpy()))]
        reach = float(np.ptp(returns))
        if reach <= normalize.EPSILON:
            return None
        scale = max(reach / 1_000.0, float(np.abs(rewards).max()) / largest)
        columns = [float(len(self.data))], [float(returns.mean())], [scale**2]
        return Moments(*(torch.tensor([column] * members, dtype=torch.float64, device=self.device) for column in columns))

    def returns(self, rows: Tensor, gamma: float) -> Tensor:
        """Discounted return from each row [K] to the end of its episode; what a time limit cut off is left out."""
        numbers = rows.cpu().numpy()
        ends = self.data.ends[self.data.episode_of(numbers)]
        rewards = self.rewards.cpu().numpy()
        return torch.tensor([float(_discounted(rewards[row:end], gamma)) for row, end in zip(numbers, ends, strict=True)])


def _discounted(rewards: NDArray[np.float32], gamma: float) -> float:
    return float(np.dot(rewards.astype(np.float64), gamma ** np.arange(len(rewards))))


def _running_returns(lengths: NDArray[np.int64], rewards: NDArray[np.float32], gamma: float) -> NDArray[np.float64]:
    """The sum of rewards so far in each episode, older ones discounted, [N]: step by step over all episodes at once."""
    found, carry = np.zeros(len(rewards)), np.zeros(len(lengths))
    starts = np.cumsum(lengths) - lengths
    for step in range(int(lengths.max())):
        going = np.flatnonzero(lengths > step)
        carry[going] = carry[going] * gamma + rewards[starts[going] + step]
        found[starts[going] + step] = carry[going]
    return found


def load(config: Config, env: VecEnv, device: torch.device) -> Recorded:
    """The data that a config names, as its environment's networks take it; ConfigError where they do not fit together."""
    settings = config.data
    if settings is None or not settings.path:
        raise ConfigError(
            f"{config.algo.name} learns from recorded data, and none is named.\n  There would be nothing to learn from.\n  Try: ",
            Action("train", config.name or f"{config.env.id}:{config.algo.name}", data="DATA"),
            "\n  Collect some: ",
            Action("data collect", "RUN", episodes=100, noise=0.3),
        )
    data = read(settings.path)
    check_fit(data, env, config.env.id)
    if env.action.kind == "discrete":
        # Data may not know of all choices, or hold them as floating-point numbers.
        data = replace(data, action_space=Space("discrete", n=env.action.sizes[0]))
    chosen, held_out = split(data, settings)
    observations = np.asarray(data.observations)
    if data.observation_space.kind == "discrete":
        observations = np.eye(data.observation_space.n, dtype=np.float32)[observations.reshape(len(observations)).astype(np.int64)]
    rewards = normalize.learned(torch.from_numpy(np.array(data.rewards, np.float32)), config.env)
    last = np.zeros(len(data), np.bool_)
    last[data.ends - 1] = data.terminated
    actions = scale_actions(np.asarray(data.actions), env, config.env.id)
    shift = np.repeat(np.arange(data.n_episodes, dtype=np.int32 if data.n_episodes < 1 << 31 else np.int64), data.lengths)
    flat = _tensor(observations.reshape(len(observations), -1))
    place = torch.device("cpu")
    if device.type == "cuda" and flat.nbytes + actions.nbytes + 9 * len(data) < MOST_ON_GPU * torch.cuda.mem_get_info(device)[0]:
        place = device
    return Recorded(
        data=data,
        observations=flat.to(place),
        actions=torch.from_numpy(actions).to(place),
        rewards=rewards.to(place),
        terminated=torch.from_numpy(last).to(place),
        shift=torch.from_numpy(shift).long().to(place),
        chosen=None if chosen is None else torch.from_numpy(chosen).to(device),
        held_out=torch.from_numpy(held_out).to(device),
        device=device,
    )


def _tensor(array: NDArray[Any]) -> Tensor:
    """A tensor over the same memory: what lies in a file stays there."""
    if array.dtype not in (np.float32, np.uint8):
        array = array.astype(np.float32)
    with warnings.catch_warnings():
        # A file that was opened for reading cannot be written to, and nobody here does.
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(array)


def split(data: Dataset, settings: DataConfig) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
    """Rows to learn from (None: all) and rows of episodes that are held out. Episodes are never cut in two.

    Which ones are held out follows from their number alone: every run on the same data holds out the same ones.
    """
    episodes = np.random.default_rng(data.n_episodes).permutation(data.n_episodes)
    apart = round(settings.holdout * data.n_episodes) if data.n_episodes >= FEWEST_EPISODES else 0
    held_out, kept = np.sort(episodes[:apart]), np.sort(episodes[apart:])
    if settings.best < 1.0:
        order = kept[np.argsort(-data.returns[kept], kind="stable")]
        steps = np.cumsum(data.lengths[order])
        kept = np.sort(order[: 1 + int(np.searchsorted(steps, settings.best * steps[-1]))])

    def rows_of(which: NDArray[np.int64]) -> NDArray[np.int64]:
        parts = [np.arange(data.ends[each] - data.lengths[each], data.ends[each]) for each in which]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    return None if len(kept) == data.n_episodes else rows_of(kept), rows_of(held_out)


def check_fit(data: Dataset, env: VecEnv, env_id: str) -> None:
    """ConfigError where the data's observations or actions are not the environment's."""
    space, action = data.observation_space, data.action_space
    seen = (space.n,) if space.kind == "discrete" else tuple(np.asarray(data.observations).shape[1:])
    there = f"the data ({data.source or data.env_id or 'recorded'})"
    # An environment that flattens its observations does so row by row, as data lies in memory.
    if seen != tuple(env.obs_shape) and (env.picture is not None or (int(np.prod(seen)),) != tuple(env.obs_shape)):
        raise ConfigError(
            f"{there} has observations of shape {seen}, and {env_id} gives {tuple(env.obs_shape)}.\n"
            "  What is learned from one could not act in the other.\n"
            "  Name the environment that it was recorded in, with the same wrappers: ",
            Action("data check", "DATA"),
        )
    kind, size = env.action.kind, env.action.sizes[0]
    recorded = action.n if action.kind == "discrete" else int(np.prod(np.asarray(data.actions).shape[1:]))
    # Where nobody says how many choices there are, those that nobody took are not known of; nor that whole numbers in a column of floating
    # ones are choices.
    fits = kind == action.kind and (recorded == size or (action.guessed and recorded < size))
    if not fits and not (kind == "discrete" and action.kind == "box" and action.low is None and are_choices(data.actions, size)):
        what = f"{size} choices" if kind == "discrete" else f"{size} numbers"
        raise ConfigError(
            f"{there} has actions that are {action}, and {env_id} takes {what}.\n"
            "  What is learned from one could not act in the other.\n  Name the environment that it was recorded in"
        )


def are_choices(actions: NDArray[Any], n: int) -> bool:
    """Whether all are whole numbers from 0 to n - 1, one a row, whatever type they are stored as."""
    if actions.size != len(actions):
        return False
    parts = (np.asarray(actions[first : first + CHUNK]) for first in range(0, len(actions), CHUNK))
    return all(bool(((part >= 0) & (part < n) & (part == np.round(part))).all()) for part in parts)


def scale_actions(actions: NDArray[Any], env: VecEnv, env_id: str) -> NDArray[Any]:
    """Choices as they are; vectors from the environment's bounds to -1 and 1."""
    if env.action.low is None or env.action.high is None:
        if not are_choices(actions, env.action.sizes[0]):
            raise ConfigError(
                f"recorded actions go from {actions.min():g} to {actions.max():g}, and {env_id} has the choices 0 to"
                f" {env.action.sizes[0] - 1}.\n  What is learned from one could not act in the other.\n  Look at the data: ",
                Action("data check", "DATA"),
            )
        return actions.reshape(len(actions)).astype(np.int64)
    low, high = env.action.low, env.action.high
    if not np.isfinite([low, high]).all():
        raise ConfigError(
            f"{env_id} has actions without bounds.\n  There is nothing that -1 and 1 could be scaled to.\n  Bound them: ",
            Change("env.wrappers", [{"id": "ClipAction"}]),
        )
    scaled = ((actions.reshape(len(actions), -1) - low) / (high - low) * 2.0 - 1.0).astype(np.float32)
    outside = float((np.abs(scaled) > 1.0 + 1e-4).any(1).mean())
    if outside > OUTSIDE:
        raise ConfigError(
            f"{outside:.0%} of the recorded actions lie outside of the bounds of {env_id} ({low.tolist()} to {high.tolist()}).\n"
            f"  They reach from {actions.min():g} to {actions.max():g}: they are of another scale, or were recorded before being clipped"
            ".\n  Record what the environment is given, in its own units"
        )
    return np.clip(scaled, -1.0, 1.0)
