"""Episodes with random, constant and scripted actions, and what they show: scales, rewards, lengths, ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from rlclinic import core_time
from rlclinic.training.data.info_columns import TERMS
from rlclinic.training.envs.examine import trees
from rlclinic.training.envs.examine.contract import Broken, OutOfTime, Probe, leaves

RANDOM_STEPS, RANDOM_EPISODES, LONGEST_EPISODE = 10_000, 200, 10_000
CONSTANT_EPISODES, CONSTANT_STEPS, MOST_CONSTANTS = 3, 2_000, 8
SCRIPTED_EPISODES = 10
MOST_NUMBERS = 512
"""Numbers of an observation that are described one by one."""
TOLD = 0.9
"""The share of the steps of an episode that observations tell from which on they show a clock."""
MOST_ONE_HOT, COARSE = 64, 8
"""Choices that are told apart one by one, and cells of a coarse picture along each side."""

Act = Callable[[Any, int], Any]
SUCCESS = ("is_success", "success", "solved")
RETURNS = (
    "episode_reward",
    "episode_return",
    "ep_reward",
    "ep_return",
    "total_reward",
    "total_return",
    "cumulative_reward",
    "return",
    "score",
)


class Episodes:
    """What some episodes gave."""

    def __init__(self) -> None:
        self.returns: list[float] = []
        self.lengths: list[int] = []
        self.terminated: list[bool] = []
        self.rewards: list[float] = []
        self.ending_rewards: list[float] = []
        self.successes: list[bool] = []
        self.rows: list[np.ndarray] = []
        self.features: list[np.ndarray] = []
        """The same observations with their choices, switches and pictures, as numbers that tell states apart."""
        self.actions: list[Any] = []
        self.episode: list[int] = []
        """Of every step: the number of its episode."""
        self.terms: list[dict[str, float]] = []
        """Of every step: what the reward is made of, where the environment says so."""
        self.flags: list[tuple[int, bool]] = []
        """Steps at which success was told, and whether there was any."""
        self.told_returns: list[dict[str, float]] = []
        """Of every episode that ended: what `info` said of its return with the last step."""
        self.starts: list[np.ndarray] = []
        self.start_features: list[np.ndarray] = []
        self.steps = 0
        self.seconds = 0.0
        self.unfinished = 0

    def to_record(self) -> dict[str, Any]:
        """As numbers that can be written down."""
        return {
            "returns": self.returns,
            "lengths": self.lengths,
            "terminated": sum(self.terminated),
            "truncated": len(self.terminated) - sum(self.terminated),
            "unfinished_steps": self.unfinished,
            "steps": self.steps,
            "seconds": self.seconds,
            "success": sum(self.successes) / len(self.successes) if self.successes else None,
        }


def play(probe: Probe, act: Act, episodes: int, steps: int, seed: int) -> Episodes:
    """Episodes until there are enough, the steps are used up, or the time of the phase is over."""
    found = Episodes()
    began = probe.clock.spent
    try:
        while len(found.returns) < episodes and found.steps < steps:
            _episode(probe, act, steps - found.steps, None if found.returns else seed, found)
    except (OutOfTime, Broken):
        if not found.steps:
            raise
    finally:
        found.seconds = probe.clock.spent - began
    return found


def _episode(probe: Probe, act: Act, most: int, seed: int | None, found: Episodes) -> None:
    obs = probe.reset(seed)
    space = probe.env.observation_space
    found.starts.append(numbers(space, obs))
    found.start_features.append(features(space, obs))
    total, length = 0.0, 0
    while length < min(most, LONGEST_EPISODE):
        action = act(obs, length)
        obs, reward, terminated, truncated, info = probe.step(action)
        found.actions.append(action)
        found.episode.append(len(found.starts) - 1)
        found.steps += 1
        length += 1
        total += reward
        found.rewards.append(reward)
        found.terms.append(_read_terms(info))
        found.unfinished = length
        found.rows.append(numbers(space, obs))
        found.features.append(features(space, obs))
        flag = next((info[key] for key in SUCCESS if key in info), None)
        if flag is not None and (flag or terminated or truncated):
            found.flags.append((len(found.rewards) - 1, bool(flag)))
        if terminated or truncated:
            found.returns.append(total)
            found.lengths.append(length)
            found.terminated.append(terminated)
            found.ending_rewards.append(reward)
            found.told_returns.append(_read_returns(info))
            found.successes += [] if flag is None else [bool(flag)]
            found.unfinished = 0
            return


def _read_terms(info: dict[str, Any]) -> dict[str, float]:
    """What `info` says that the reward is made of; {} where it says nothing that can be read."""
    said = info.get(TERMS)
    try:
        return {str(name): float(value) for name, value in said.items()} if isinstance(said, dict) else {}
    except (TypeError, ValueError):
        return {}


def _read_returns(info: dict[str, Any]) -> dict[str, float]:
    """Numbers of `info` whose names say that they are the return of the episode."""
    names = (name for name in info if isinstance(name, str) and any(word in name.lower() for word in RETURNS))
    return {name: float(info[name]) for name in names if isinstance(info[name], float | int | np.floating | np.integer)}


def find_late_returns(found: Episodes) -> dict[str, int]:
    """By name: in how many episodes what `info` says at the end lacks the last reward; only of those that lack it in every one."""
    late: dict[str, int] = {}
    for name in found.told_returns[0] if found.told_returns else ():
        rows = [
            (told[name], whole, last)
            for told, whole, last in zip(found.told_returns, found.returns, found.ending_rewards, strict=True)
            if name in told
        ]
        paid = [(told, whole, last) for told, whole, last in rows if abs(last) > 1e-6 * max(abs(whole), 1.0)]
        if paid and all(abs(told - (whole - last)) <= 1e-6 * max(abs(whole), abs(last), 1.0) for told, whole, last in rows):
            late[name] = len(paid)
    return late


def summarize_terms(found: Episodes) -> dict[str, Any]:
    """By term of the reward its lowest and highest value, and whether they add up to what is paid; {} where none are told."""
    if not found.terms or not all(found.terms):
        return {}
    names = list(found.terms[0])
    if any(list(each) != names for each in found.terms):
        return {}
    table, paid = np.array([list(each.values()) for each in found.terms]), np.array(found.rewards)
    room = 1e-4 * (np.abs(paid).max() + np.abs(table).max()) + 1e-12
    columns = {name: {"min": float(column.min()), "max": float(column.max())} for name, column in zip(names, table.T, strict=True)}
    return {"adds_up": bool(np.abs(table.sum(1) - paid).max() <= room), "terms": columns}


def numbers(space: Space[Any], obs: Any) -> np.ndarray:
    """The boxes of an observation as one row; for images and anything large its mean, deviation, lowest and highest."""
    parts = [
        np.asarray(value, np.float64).ravel()
        for _, inner, value in leaves(space, obs)
        if isinstance(inner, spaces.Box) and value is not None
    ]
    row = np.concatenate(parts) if parts else np.zeros(0)
    row = np.where(np.isfinite(row), row, 0.0)
    return np.array([row.mean(), row.std(), row.min(), row.max()]) if row.size > MOST_NUMBERS else row


def shows_clock(found: Episodes) -> bool:
    """Whether observations tell how many steps were made: by a number that always goes up or down, or by all of them together, as the
    letters of a word that is being typed do."""
    if len(found.lengths) < 2 or not found.rows:
        return False
    episode = np.array(found.episode)
    first = np.r_[0, np.flatnonzero(np.diff(episode)) + 1]
    step = np.arange(len(episode)) - np.repeat(first, np.diff(np.r_[first, len(episode)]))
    return _counts_alone(np.array(found.rows), episode, step) or _tells(found.features, step.astype(np.float64)) >= TOLD


def _counts_alone(rows: np.ndarray, episode: np.ndarray, step: np.ndarray) -> bool:
    """Whether some number is the same at the same step of every episode, always going up or down."""
    if not rows.size:
        return False
    longest = rows[episode == episode[step.argmax()]]
    alike = np.abs(rows - longest[step]).max(0) <= 1e-6 * (1e-9 + np.ptp(rows, axis=0))
    on_its_way = np.abs(np.sign(np.diff(longest, axis=0)).sum(0)) == len(longest) - 1
    return len(longest) > 2 and bool((alike & on_its_way).any())


def _tells(rows: list[np.ndarray], target: np.ndarray) -> float:
    if len({len(row) for row in rows}) > 1:
        return 0.0
    return trees.explain(np.array(rows), target)


def features(space: Space[Any], obs: Any) -> np.ndarray:
    """An observation as numbers that tell states apart: boxes as they are, one of a few as one-hot, a picture as a coarse one."""
    try:
        parts = [_encode(inner, value) for _, inner, value in leaves(space, obs) if value is not None]
    except (TypeError, ValueError):
        # What is not of its space was noted where it was returned.
        return np.zeros(0)
    row = np.concatenate(parts) if parts else np.zeros(0)
    return np.where(np.isfinite(row), row, 0.0)


def _encode(space: Space[Any], value: Any) -> np.ndarray:
    if isinstance(space, spaces.Discrete):
        place, count = int(value) - int(space.start), int(space.n)
        return np.eye(count)[place] if 0 <= place < count <= MOST_ONE_HOT else np.array([place / count])
    if isinstance(space, spaces.MultiDiscrete):
        return ((np.asarray(value, np.float64) - space.start) / np.maximum(space.nvec - 1, 1)).ravel()
    if not isinstance(space, spaces.Box | spaces.MultiBinary):
        return np.zeros(0)
    array = np.asarray(value, np.float64)
    if array.size <= MOST_NUMBERS:
        return array.ravel()
    array = array / 255 if space.dtype == np.uint8 else array
    if array.ndim == 3:
        # Colours or frames are the shortest axis.
        array = array.mean(int(np.argmin(array.shape)))
    if array.ndim != 2:
        return np.array([part.mean() for part in np.array_split(array.ravel(), COARSE**2)])
    rows = [part.mean(0) for part in np.array_split(array, COARSE, 0)]
    return np.array([part.mean() for row in rows for part in np.array_split(row, COARSE)])


def is_large(space: Space[Any]) -> bool:
    """Whether `numbers` sums the observation up."""
    sizes = [int(np.prod(inner.shape)) for _, inner, _ in leaves(space, None) if isinstance(inner, spaces.Box)]
    return sum(sizes) > MOST_NUMBERS


def speed(env: Any, seconds: float = 1.0, steps: int = 5_000) -> dict[str, float]:
    """Steps and seconds of the bare environment with random actions: what our own looking costs is left out."""
    actions = [env.action_space.sample() for _ in range(100)]
    env.reset(seed=0)
    watch, taken = core_time.Stopwatch(seconds), 0
    while taken < steps and watch.seconds < seconds:
        _, _, terminated, truncated, _ = env.step(actions[taken % 100])
        taken += 1
        if terminated or truncated:
            env.reset()
    return {"steps": float(taken), "seconds": watch.seconds}


def dimensions(found: Episodes) -> list[dict[str, float]]:
    """Of every number of the observation: mean, deviation, lowest, highest."""
    # What is shown at the start alone is seen, too.
    rows = np.array([*found.starts, *found.rows])
    if not rows.size or rows.ndim != 2:
        return []
    return [
        {
            "mean": float(column.mean()),
            "std": float(column.std()),
            "min": float(column.min()),
            "max": float(column.max()),
            "whole": bool(np.all(column == np.round(column))),
        }
        for column in rows.T
    ]


def summarize_rewards(found: Episodes) -> dict[str, float]:
    """Scale and density of the rewards."""
    rewards = np.array(found.rewards)
    if not rewards.size:
        return {}
    values, counts = np.unique(rewards, return_counts=True)
    ends = np.array(found.ending_rewards)
    last = ends[np.array(found.terminated, bool)]
    nonzero = rewards != 0
    before = np.delete(rewards, np.cumsum(found.lengths, dtype=np.int64) - 1)
    return {
        "mean": float(rewards.mean()),
        "std": float(rewards.std()),
        "min": float(rewards.min()),
        "max": float(rewards.max()),
        "nonzero": float(nonzero.mean()),
        "distinct": float(len(values)),
        "commonest": float(values[counts.argmax()]),
        "commonest_share": float(counts.max() / counts.sum()),
        "at_ends": float((ends != 0).sum() / max(nonzero.sum(), 1)),
        **({"before_end_max": float(before.max()), "before_end_mean": float(before.mean())} if before.size else {}),
        **({"end_max": float(ends.max()), "end_mean": float(ends.mean())} if ends.size else {}),
        **({"terminal_max": float(last.max()), "terminal_mean": float(last.mean())} if last.size else {}),
    }


# ── actions ──


def random_actions(space: Space[Any], seed: int) -> Act:
    """Draws of the space itself."""
    space.seed(seed)
    return lambda obs, t: space.sample()


def always(action: Any) -> Act:
    """One action, whatever happens."""
    return lambda obs, t: action


def constants(space: Space[Any]) -> dict[str, Any]:
    """Actions to repeat: each of a few discrete ones, or the lowest, middle and highest of a box."""
    if isinstance(space, spaces.Discrete):
        return {
            f"action {value}": np.int64(value) for value in range(int(space.start), int(space.start) + min(int(space.n), MOST_CONSTANTS))
        }
    if isinstance(space, spaces.Box) and np.isfinite(space.low).all() and np.isfinite(space.high).all():
        middle = ((space.low.astype(np.float64) + space.high) / 2).astype(space.dtype)
        return {"lowest": space.low.copy(), "middle": middle, "highest": space.high.copy()}
    if isinstance(space, spaces.MultiDiscrete):
        return {"first of each": space.start.astype(space.dtype), "last of each": (space.start + space.nvec - 1).astype(space.dtype)}
    if isinstance(space, spaces.MultiBinary):
        return {"all 0": np.zeros(space.shape, space.dtype), "all 1": np.ones(space.shape, space.dtype)}
    return {}
