"""A dataset: episodes one after another in flat arrays, so that ten million transitions stay on disk and any of them is found at once."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlclinic.errors import ConfigError

__all__ = ["Dataset", "Episode", "Space", "Transitions", "check_episode", "check_shape", "join"]

LARGEST: Final = float(np.finfo(np.float32).max)
Array = NDArray[Any]


@dataclass(frozen=True)
class Space:
    """What an observation or an action is: a vector between bounds, or one of n choices."""

    kind: Literal["box", "discrete"]
    shape: tuple[int, ...] = ()
    """Of a box."""
    n: int = 0
    """Choices of a discrete space."""
    low: tuple[float, ...] | None = None
    """Bounds of a box, flat; None where nobody says them."""
    high: tuple[float, ...] | None = None
    guessed: bool = False
    """Whether n is only the largest choice that occurs, as nobody says how many there are."""

    def __str__(self) -> str:
        return f"{self.n} choices" if self.kind == "discrete" else "×".join(map(str, self.shape)) + " numbers"


class Transitions(NamedTuple):
    """Rows to learn from."""

    observations: Array
    actions: Array
    rewards: Array
    next_observations: Array
    terminated: Array
    """[B] bool: no future. A truncated transition is False here: its future has a value."""


@dataclass(frozen=True)
class Episode:
    """One episode as a reader gives it."""

    observations: Array
    """[T + 1, ...]; the last row is what the last action led to."""
    actions: Array
    rewards: Array
    terminated: bool
    truncated: bool
    final_known: bool = True
    """Whether the last observation was recorded; else a repeated one stands in for it, at an end where no value is asked of it."""


@dataclass(frozen=True)
class Dataset:
    """Episodes in flat arrays: transition i of episode e looks at observation i + e, and leads to observation i + e + 1."""

    observations: Array
    """[N + E, ...]: T + 1 an episode."""
    actions: Array
    """[N] int64 or [N, dim] float32."""
    rewards: Array
    """[N] float32."""
    lengths: NDArray[np.int64]
    """[E]: steps of each episode."""
    terminated: NDArray[np.bool_]
    """[E]: the task itself ended."""
    truncated: NDArray[np.bool_]
    """[E]: a limit or the end of the recording cut it."""
    observation_space: Space
    action_space: Space
    env_id: str | None = None
    """The environment it was recorded in, where the data says so."""
    source: str = ""
    """Where it comes from, in words."""
    notes: tuple[str, ...] = ()
    """What a reader had to leave out or assume."""
    final_known: bool = True
    """Whether every last observation was recorded."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What else is known: who collected it, with how much noise."""
    beside: dict[str, Array] = field(default_factory=dict)
    """[N, ...] by name: what else is known of each step, such as an expert's labels."""

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def n_episodes(self) -> int:
        return len(self.lengths)

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """[E]: the transition after each episode's last one."""
        return np.cumsum(self.lengths)

    @cached_property
    def returns(self) -> NDArray[np.float64]:
        """[E]: undiscounted."""
        return np.add.reduceat(np.asarray(self.rewards, np.float64), self.ends - self.lengths) if self.n_episodes else np.zeros(0)

    def episode_of(self, rows: Array) -> NDArray[np.int64]:
        """Which episode each transition belongs to."""
        return np.searchsorted(self.ends, rows, side="right")

    def transitions(self, rows: Array) -> Transitions:
        """These transitions, copied out of the arrays."""
        episode = self.episode_of(rows)
        last = rows == self.ends[episode] - 1
        return Transitions(
            self.observations[rows + episode],
            self.actions[rows],
            self.rewards[rows],
            self.observations[rows + episode + 1],
            last & self.terminated[episode],
        )

    def episode(self, index: int) -> Episode:
        """One episode; its arrays are views."""
        end = int(self.ends[index])
        start = end - int(self.lengths[index])
        return Episode(
            self.observations[start + index : end + index + 1],
            self.actions[start:end],
            self.rewards[start:end],
            bool(self.terminated[index]),
            bool(self.truncated[index]),
        )

    def __iter__(self) -> Iterator[Episode]:
        return (self.episode(index) for index in range(self.n_episodes))

    def select(self, episodes: Iterable[int]) -> "Dataset":
        """Some of its episodes, in this order: a split never cuts an episode in two."""
        chosen = [self.episode(index) for index in episodes]
        return join(chosen, self.observation_space, self.action_space, env_id=self.env_id, source=self.source, facts=self.facts)


def check_episode(episode: Episode, index: int, actions: Space) -> Episode:
    """An episode that can be learned from; ConfigError says what is wrong with it."""

    def fail(what: str, why: str) -> ConfigError:
        return ConfigError(f"episode {index} of the data: {what}.\n  {why}")

    steps = len(episode.rewards)
    if not steps:
        raise fail("it has no steps", "Leave empty episodes out when the data is written")
    if len(episode.observations) != steps + 1 or len(episode.actions) != steps:
        counts = f"{len(episode.observations)} observations, {len(episode.actions)} actions and {steps} rewards"
        raise fail(counts, "T steps need T + 1 observations (the last one is what the last action led to), T actions and T rewards")
    for name, values in (("observation", episode.observations), ("action", episode.actions), ("reward", episode.rewards)):
        if values.dtype.kind not in "fiub":
            raise fail(f"its {name}s are {values.dtype}", "Numbers are needed: one array of one type and shape for all steps")
        if values.dtype.kind == "f" and not _fits(values).all():
            row = int(np.argwhere(~_fits(values.reshape(len(values), -1)).all(1))[0, 0])
            raise fail(f"the {name} at step {row} is not finite", "A loss over it would be not a number for ever. Leave the episode out")
    if actions.kind == "discrete":
        choices = np.asarray(episode.actions).reshape(steps, -1)
        wrong = np.flatnonzero(((choices < 0) | (choices >= actions.n) | (choices != np.round(choices))).any(1))
        if len(wrong):
            raise fail(f"the action at step {wrong[0]} is {choices[wrong[0]][0]}", f"The choices are 0 to {actions.n - 1}")
    if not (episode.terminated or episode.truncated):
        raise fail(
            "it says neither terminated nor truncated", "Without an end the next episode's first observation would be taken for its future"
        )
    return episode


def _fits(values: Array) -> NDArray[np.bool_]:
    """Which numbers stay numbers in single precision, as which data is kept: beyond its largest they would be infinite."""
    return np.isfinite(values) if values.dtype.itemsize <= 4 else np.abs(values) <= LARGEST


def check_shape(index: int, name: str, shape: tuple[int, ...], before: tuple[int, ...]) -> None:
    """ConfigError for an episode whose rows are of another shape than those of the episodes before."""
    if shape != before:
        raise ConfigError(
            f"episode {index} of the data: a row of {name} has the shape {shape}, and {before} before.\n"
            "  It looks like data of two environments. Write each to a dataset of its own"
        )


def join(episodes: Iterable[Episode], observation_space: Space, action_space: Space, **facts: Any) -> Dataset:
    """A dataset in memory."""
    kept = [check_episode(episode, index, action_space) for index, episode in enumerate(episodes)]
    if not kept:
        raise ConfigError(
            "the data has no episodes: there is nothing to learn from.\n  Collect some, or look whether the path is the right one"
        )
    for index, episode in enumerate(kept):
        for name in ("observations", "actions", "rewards"):
            check_shape(index, name, np.shape(getattr(episode, name))[1:], np.shape(getattr(kept[0], name))[1:])
    action_type = np.int64 if action_space.kind == "discrete" else np.float32
    return Dataset(
        np.concatenate([np.asarray(episode.observations) for episode in kept]),
        np.concatenate([np.asarray(episode.actions, action_type) for episode in kept]),
        np.concatenate([np.asarray(episode.rewards, np.float32) for episode in kept]),
        np.array([len(episode.rewards) for episode in kept], np.int64),
        np.array([episode.terminated for episode in kept]),
        np.array([episode.truncated for episode in kept]),
        observation_space,
        action_space,
        final_known=all(episode.final_known for episode in kept),
        **facts,
    )
