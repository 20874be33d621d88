"""A short search for the best and the worst that a simple policy can earn.

Policies that are linear in the observation are searched by the cross-entropy method. Where random play meets few states and there are few
actions, what it showed of them is also solved as a table: a way that takes several steps in the right order is found there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from rlclinic import core_time
from rlclinic.training.envs.examine.play import SUCCESS, features

POPULATION, ELITE = 12, 3
LONGEST = 1_000
EPISODES = 4
MOST_NUMBERS = 64
GENERATIONS = 12
MOST_STATES, MOST_CHOICES = 500, 16
STEPS, SWEEPS, DISCOUNT = 4_000, 300, 0.98
"""Of a table: random steps it is made of, sweeps it is solved with, and the discount."""

Policy = Callable[[Any], Any]
"""From an observation's features to an action."""


def search(env: Any, rows: list[Any], seconds: float) -> dict[str, Any]:
    """Mean returns of the best and of the worst policy that was found, with lengths and successes; {} where there is nothing to search."""
    space = env.action_space
    known = np.array(rows) if rows else np.zeros((0, 0))
    outputs = _count_outputs(space)
    if known.ndim != 2 or not 0 < known.shape[1] <= MOST_NUMBERS or not outputs:
        return {}
    mean, spread = known.mean(0), np.maximum(known.std(0), 1e-9)
    random = np.random.default_rng(0)
    found: dict[str, Any] = {}
    table = _make_table(env, known, seconds / 4)
    # Whether what random play met was solved as a whole.
    found["solved"] = table is not None
    for name, sign in (("best", 1.0), ("worst", -1.0)):
        watch = core_time.Stopwatch(seconds)
        centre, width = np.zeros((outputs, known.shape[1] + 1)), np.ones((outputs, known.shape[1] + 1))
        top, weights = -np.inf, centre
        for generation in range(GENERATIONS):
            drawn = [centre + width * random.standard_normal(centre.shape) for _ in range(POPULATION)]
            scores = []
            for each in drawn:
                scores.append(sign * _play(env, _linear(space, each, mean, spread), 1_000 + generation)[0])
                if watch.seconds > seconds / 2:
                    break
            order = np.argsort(scores)[::-1][:ELITE]
            if scores[order[0]] > top:
                top, weights = scores[order[0]], drawn[order[0]]
            elite = np.array([drawn[place] for place in order])
            centre, width = elite.mean(0), elite.std(0) + 0.1
            if watch.seconds > seconds / 2:
                break
        policies: list[Policy] = [_linear(space, weights, mean, spread)]
        if table is not None:
            policies.append(table.solve(sign))
        tried = [[_play(env, policy, seed) for seed in range(EPISODES)] for policy in policies]
        played = max(tried, key=lambda episodes: sign * sum(each[0] for each in episodes))
        found[name] = float(np.mean([each[0] for each in played]))
        found[f"{name}_length"] = float(np.mean([each[1] for each in played]))
        flags = [each[2] for each in played if each[2] is not None]
        found[f"{name}_success"] = float(np.mean(flags)) if flags else None
    return found


class Table:
    """What random play showed of an environment with few states: how often each action led where, and what it paid."""

    def __init__(self, env: Any, seconds: float) -> None:
        self.space = env.action_space
        self._random = np.random.default_rng(0)
        self._states: dict[bytes, int] = {}
        rows: list[tuple[int, int, int, float]] = []
        watch, ended, state = core_time.Stopwatch(seconds), True, 0
        while len(rows) < STEPS and len(self._states) <= MOST_STATES and watch.seconds < seconds:
            if ended:
                state = self._number(features(env.observation_space, env.reset(seed=5_000 + len(rows))[0]))
            choice = int(self._random.integers(self.space.n))
            obs, reward, terminated, truncated, _ = env.step(np.int64(int(self.space.start) + choice))
            following = self._number(features(env.observation_space, obs))
            rows.append((state, choice, -1 if terminated else following, float(reward)))
            state, ended = following, bool(terminated or truncated)
        self.whole = len(self._states) <= MOST_STATES and len(rows) >= 4 * len(self._states)
        self._rows = rows

    def _number(self, row: Any) -> int:
        return self._states.setdefault(np.round(row, 5).tobytes(), len(self._states))

    def solve(self, sign: float) -> Policy:
        """The policy that is best (1) or worst (-1) by what was seen; what was never tried is not chosen."""
        states, choices = len(self._states), int(self.space.n)
        before, taken, after, paid = (np.array(column) for column in zip(*self._rows, strict=True))
        place = before.astype(np.int64) * choices + taken.astype(np.int64)
        count = np.bincount(place, minlength=states * choices)
        reward = sign * np.bincount(place, paid, states * choices) / np.maximum(count, 1)
        value = np.zeros(states + 1)  # The last one is the end, worth nothing.
        for _ in range(SWEEPS):
            nexts = np.bincount(place, value[after.astype(np.int64)], states * choices) / np.maximum(count, 1)
            worth = np.where(count > 0, reward + DISCOUNT * nexts, -np.inf).reshape(states, choices)
            value[:-1] = np.where(np.isfinite(worth).any(1), worth.max(1), 0.0)
        best = worth.argmax(1)

        def act(row: Any) -> Any:
            known = self._states.get(np.round(row, 5).tobytes())
            choice = int(best[known]) if known is not None and known < states else int(self._random.integers(choices))
            return np.int64(int(self.space.start) + choice)

        return act


def _make_table(env: Any, known: Any, seconds: float) -> Table | None:
    """A table where random play met few states, and there are few actions."""
    space = env.action_space
    if not isinstance(space, spaces.Discrete) or space.n > MOST_CHOICES or len(np.unique(np.round(known, 5), axis=0)) > MOST_STATES:
        return None
    made = Table(env, seconds)
    return made if made.whole else None


def _count_outputs(space: spaces.Space[Any]) -> int:
    """How many numbers decide an action; 0 for spaces that are not searched."""
    if isinstance(space, spaces.Box):
        return int(np.prod(space.shape)) if np.isfinite(space.low).all() and np.isfinite(space.high).all() else 0
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    if isinstance(space, spaces.MultiBinary):
        return int(np.prod(space.shape))
    return int(space.n) if isinstance(space, spaces.Discrete) else 0


def _choose(space: Any, wish: Any) -> Any:
    """The action that so many numbers mean."""
    if isinstance(space, spaces.Box):
        middle, half = (space.low + space.high) / 2, (space.high - space.low) / 2
        return (middle + half * np.tanh(wish.reshape(space.shape))).astype(space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return (wish.reshape(space.shape) > 0).astype(space.dtype)
    if isinstance(space, spaces.MultiDiscrete):
        parts = np.split(wish, np.cumsum(space.nvec.ravel())[:-1])
        return (np.array([np.argmax(part) for part in parts]).reshape(space.shape) + space.start).astype(space.dtype)
    return np.int64(int(space.start) + int(np.argmax(wish)))


def _linear(space: Any, weights: Any, mean: Any, spread: Any) -> Policy:
    def act(row: Any) -> Any:
        scaled = np.clip((row - mean) / spread, -10, 10)
        return _choose(space, weights[:, :-1] @ scaled + weights[:, -1])

    return act


def _play(env: Any, policy: Policy, seed: int) -> tuple[float, int, bool | None]:
    """Return, length and success of one episode."""
    obs, _ = env.reset(seed=seed)
    total, length, success = 0.0, 0, None
    while length < LONGEST:
        obs, reward, terminated, truncated, info = env.step(policy(features(env.observation_space, obs)))
        total, length = total + float(reward), length + 1
        flag = next((info[key] for key in SUCCESS if key in info), None) if isinstance(info, dict) else None
        success = success if flag is None else bool(flag)
        if terminated or truncated:
            break
    return total, length, success
