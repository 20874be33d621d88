"""A short search for the best and the worst that a policy linear in the observation can earn, by the cross-entropy method."""

from __future__ import annotations

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
    for name, sign in (("best", 1.0), ("worst", -1.0)):
        watch = core_time.Stopwatch(seconds)
        centre, width = np.zeros((outputs, known.shape[1] + 1)), np.ones((outputs, known.shape[1] + 1))
        top, weights = -np.inf, centre
        for generation in range(GENERATIONS):
            drawn = [centre + width * random.standard_normal(centre.shape) for _ in range(POPULATION)]
            scores = []
            for each in drawn:
                scores.append(sign * _play(env, each, mean, spread, 1_000 + generation)[0])
                if watch.seconds > seconds / 2:
                    break
            order = np.argsort(scores)[::-1][:ELITE]
            if scores[order[0]] > top:
                top, weights = scores[order[0]], drawn[order[0]]
            elite = np.array([drawn[place] for place in order])
            centre, width = elite.mean(0), elite.std(0) + 0.1
            if watch.seconds > seconds / 2:
                break
        played = [_play(env, weights, mean, spread, seed) for seed in range(EPISODES)]
        found[name] = float(np.mean([each[0] for each in played]))
        found[f"{name}_length"] = float(np.mean([each[1] for each in played]))
        flags = [each[2] for each in played if each[2] is not None]
        found[f"{name}_success"] = float(np.mean(flags)) if flags else None
    return found


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


def _play(env: Any, weights: Any, mean: Any, spread: Any, seed: int) -> tuple[float, int, bool | None]:
    """Return, length and success of one episode."""
    space = env.action_space
    obs, _ = env.reset(seed=seed)
    total, length, success = 0.0, 0, None
    while length < LONGEST:
        row = np.clip((features(env.observation_space, obs) - mean) / spread, -10, 10)
        wish = weights[:, :-1] @ row + weights[:, -1]
        obs, reward, terminated, truncated, info = env.step(_choose(space, wish))
        total, length = total + float(reward), length + 1
        flag = next((info[key] for key in SUCCESS if key in info), None) if isinstance(info, dict) else None
        success = success if flag is None else bool(flag)
        if terminated or truncated:
            break
    return total, length, success
