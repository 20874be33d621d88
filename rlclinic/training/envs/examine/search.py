"""A short search for the best and the worst that a simple policy can earn.

Policies of three shapes, linear in the observation, in its products, and small networks, are searched by the cross-entropy method. Where
random play meets few states and there are few actions, what it showed of them is also solved as a table: a way that takes several steps in
the right order is found there. What is best on some seeds is played again on others, so that luck is not taken for skill.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from rlclinic import core_time
from rlclinic.training.envs.examine.play import SUCCESS, features

POPULATION, ELITE = 16, 4
LONGEST = 1_000
EPISODES, FINALISTS, AGAIN, FEWEST = 6, 3, 12, 3
"""Episodes by which the policies that were found are told apart, and fresh ones by which the best of them are, once more; fewer where
time runs out, and so few that their scatter is not known."""
MOST_NUMBERS = 64
MOST_PRODUCTS = 8
"""Numbers of an observation of which all products are taken; of more, the squares."""
HIDDEN = 12
"""Units of the small network."""
GENERATIONS, ENOUGH = 60, 12
"""Of one shape of policy at most; and those of each, in either direction, from which on a search is called thorough."""
MOST_STEPS = 24_000
"""Of one shape in one direction: steps decide when it is over, where time does not run out before."""
KEPT, FLOOR = 0.3, 0.1
"""The share of the last centre and width that is kept, and the width that is added, less and less."""
MOST_STATES, MOST_CHOICES = 500, 16
STEPS, SWEEPS, DISCOUNT = 4_000, 300, 0.98
"""Of a table: random steps it is made of, sweeps it is solved with, and the discount."""

Policy = Callable[[Any], Any]
"""From an observation's features to an action."""
Shape = Callable[[Any], Policy]
"""From weights to a policy."""


def search(env: Any, rows: list[Any], seconds: float) -> dict[str, Any]:
    """Mean returns of the best and of the worst policy that was found, with lengths and successes; {} where there is nothing to search."""
    known = np.array(rows) if rows else np.zeros((0, 0))
    outputs = _count_outputs(env.action_space)
    if known.ndim != 2 or not 0 < known.shape[1] <= MOST_NUMBERS or not outputs:
        return {}
    shapes = _list_shapes(env.action_space, outputs, known)
    random = np.random.default_rng(0)
    found: dict[str, Any] = {}
    table = _make_table(env, known, seconds / 4)
    # Whether what random play met was solved as a whole.
    found["solved"] = table is not None
    fewest = GENERATIONS
    for name, sign in (("best", 1.0), ("worst", -1.0)):
        watch = core_time.Stopwatch(seconds)
        policies: list[Policy] = [] if table is None else [table.solve(sign)]
        for number, (size, shape) in enumerate(shapes, 1):
            # What one shape leaves of the time is the next one's.
            climbed, generations = _climb(env, size, shape, sign, random, watch, 0.5 * seconds * number / len(shapes))
            policies, fewest = [*policies, *climbed], min(fewest, generations)
        tried = [sum(each[0] for each in episodes) for episodes in _compare(env, policies, range(EPISODES), watch, 0.7 * seconds)]
        finalists = [policies[place] for place in np.argsort(-sign * np.array(tried), kind="stable")[:FINALISTS]]
        again = _compare(env, finalists, range(EPISODES, EPISODES + AGAIN), watch, seconds)
        played = max(again, key=lambda episodes: sign * sum(each[0] for each in episodes))
        found[name] = float(np.mean([each[0] for each in played]))
        # One or two episodes say little of how much they vary.
        few = len(played) < FEWEST
        found[f"{name}_error"] = abs(found[name]) if few else float(np.std([each[0] for each in played]) / np.sqrt(len(played)))
        found[f"{name}_length"] = float(np.mean([each[1] for each in played]))
        flags = [each[2] for each in played if each[2] is not None]
        found[f"{name}_success"] = float(np.mean(flags)) if flags else None
    found["thorough"] = fewest >= ENOUGH
    return found


def _compare(
    env: Any, policies: list[Policy], seeds: Sequence[int], watch: core_time.Stopwatch, until: float
) -> list[list[tuple[float, int, bool | None]]]:
    """Each policy's episodes, all on the same seeds: one at least, and no further one once the time is over."""
    played: list[list[tuple[float, int, bool | None]]] = [[] for _ in policies]
    for seed in seeds:
        for episodes, policy in zip(played, policies, strict=True):
            episodes.append(_play(env, policy, seed))
        if watch.seconds > until:
            break
    return played


def _climb(
    env: Any, size: int, shape: Shape, sign: float, random: np.random.Generator, watch: core_time.Stopwatch, until: float
) -> tuple[list[Policy], int]:
    """The cross-entropy method: the centre that it comes to, and the best policy of the best generation; and how many there were."""
    centre, width = np.zeros(size), np.ones(size)
    top, weights, steps = -np.inf, centre, 0
    for generation in range(GENERATIONS):
        drawn = [centre + width * random.standard_normal(size) for _ in range(POPULATION)]
        scores: list[float] = []
        for each in drawn:
            # The same seed for all of a generation: what differs is the policy.
            total, length, _ = _play(env, shape(each), 1_000 + generation)
            scores.append(sign * total)
            steps += length
            if watch.seconds > until:
                break
        order = np.argsort(scores)[::-1][:ELITE]
        elite = np.array([drawn[place] for place in order])
        better = float(np.mean([scores[place] for place in order]))
        if better > top:
            top, weights = better, drawn[order[0]]
        if watch.seconds > until or steps > MOST_STEPS:
            break
        centre = KEPT * centre + (1 - KEPT) * elite.mean(0)
        width = KEPT * width + (1 - KEPT) * elite.std(0) + FLOOR * (1 - generation / GENERATIONS)
    return [shape(centre), shape(weights)], generation


def _list_shapes(space: Any, outputs: int, known: Any) -> list[tuple[int, Shape]]:
    """Shapes of policies, with the number of their weights."""
    mean, spread, numbers = known.mean(0), np.maximum(known.std(0), 1e-9), known.shape[1]
    pairs = np.triu_indices(numbers) if numbers <= MOST_PRODUCTS else (np.arange(numbers),) * 2

    def linear(weights: Any) -> Policy:
        table = weights.reshape(outputs, numbers + 1)
        return lambda row: _choose(space, table[:, :-1] @ _scale(row, 10.0) + table[:, -1])

    def products(weights: Any) -> Policy:
        table = weights.reshape(outputs, numbers + len(pairs[0]) + 1)

        def act(row: Any) -> Any:
            scaled = _scale(row, 5.0)
            return _choose(space, table[:, :-1] @ np.concatenate([scaled, scaled[pairs[0]] * scaled[pairs[1]]]) + table[:, -1])

        return act

    def network(weights: Any) -> Policy:
        first, second = np.split(weights, [HIDDEN * (numbers + 1)])
        first, second = first.reshape(HIDDEN, numbers + 1), second.reshape(outputs, HIDDEN + 1)
        return lambda row: _choose(space, second[:, :-1] @ np.tanh(first[:, :-1] @ _scale(row, 5.0) + first[:, -1]) + second[:, -1])

    def _scale(row: Any, most: float) -> Any:
        return np.clip((row - mean) / spread, -most, most)

    return [
        (outputs * (numbers + 1), linear),
        (outputs * (numbers + len(pairs[0]) + 1), products),
        (HIDDEN * (numbers + 1) + outputs * (HIDDEN + 1), network),
    ]


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
