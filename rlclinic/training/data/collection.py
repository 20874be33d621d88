"""Collecting episodes for a dataset: what a policy saw, did and earned, with what the last action led to."""

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from rlclinic.datasets import Episode, Space
from rlclinic.errors import ConfigError, NotFound
from rlclinic.training.envs import modules
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.evaluation import Actor

__all__ = ["act_at_random", "action_space", "measure_random", "observation_space", "play_at_random", "play_with", "record"]

MOST_COPIES: Final = 16
LONGEST: Final = 50_000
"""Steps after which an episode of an environment without a time limit is cut."""


def record(env: VecEnv, act: Actor, episodes: int, noise: float, seed: int) -> Iterator[Episode]:
    """Play with one member's copies, each its share of the episodes, so that short ones are not taken for being short.

    act: actions as the env takes them. noise: the share of steps in which an action is drawn at random instead.
    """
    draw, copies = np.random.default_rng(seed), env.n_envs
    share = [episodes // copies + (copy < episodes % copies) for copy in range(copies)]
    seen: list[list[np.ndarray]] = [[] for _ in range(copies)]
    acted: list[list[np.ndarray]] = [[] for _ in range(copies)]
    earned: list[list[float]] = [[] for _ in range(copies)]
    obs, mask = env.reset(), env.action_mask
    for copy in range(copies):
        seen[copy].append(obs[0, copy].numpy().copy())
    t = 0
    while any(share):
        action = act(obs, mask, t)
        if noise:
            at_random = torch.from_numpy(draw.random((1, copies)) < noise)
            drawn = act_at_random(env, mask, draw)
            action = torch.where(at_random if action.ndim == 2 else at_random[..., None], drawn, action)
        if env.action.low is not None and env.action.high is not None:
            action = torch.clamp(action, torch.from_numpy(env.action.low), torch.from_numpy(env.action.high))
        step = env.step(action)
        if env.failures:
            raise env.failures[0]
        for copy in range(copies):
            if not share[copy] or (step.valid is not None and not bool(step.valid[0, copy])):
                continue
            acted[copy].append(action[0, copy].numpy().copy())
            earned[copy].append(float(step.reward[0, copy]))
            seen[copy].append(step.next_obs[0, copy].numpy().copy())
            terminated, truncated = bool(step.terminated[0, copy]), bool(step.truncated[0, copy]) or len(earned[copy]) >= LONGEST
            if terminated or truncated:
                yield Episode(np.stack(seen[copy]), np.stack(acted[copy]), np.array(earned[copy], np.float32), terminated, truncated)
                share[copy] -= 1
                seen[copy], acted[copy], earned[copy] = [], [], []
        for copy in range(copies):
            if not seen[copy]:
                seen[copy].append(step.obs[0, copy].numpy().copy())
        obs, mask, t = step.obs, step.action_mask, t + 1


def play_at_random(env: VecEnv, seed: int) -> Actor:
    """Somebody who draws every action."""
    draw = np.random.default_rng([seed, 1])
    return lambda obs, mask, t: act_at_random(env, mask, draw)


def measure_random(env: VecEnv, seconds: float, seed: int) -> tuple[float, list[float]]:
    """Env steps per second while all copies act at random, and the returns of the episodes that ended meanwhile.

    Every copy's first episode is waited for, up to twice the time: short ones alone would not be what a random policy earns.
    """
    draw, copies = np.random.default_rng([seed, 1]), env.n_envs
    earned, ended = np.zeros(copies), np.zeros(copies, np.int64)
    returns: list[float] = []
    env.reset()
    steps, begun = 0, time.perf_counter()
    mask, spent = env.action_mask, 0.0
    while spent < seconds or (spent < 2 * seconds and not ended.all()):
        step = env.step(act_at_random(env, mask, draw))
        if env.failures:
            raise env.failures[0]
        counted = np.ones(copies, np.bool_) if step.valid is None else step.valid[0].numpy()
        earned += np.where(counted, step.reward[0].numpy(), 0.0)
        over = (step.terminated | step.truncated)[0].numpy() & counted
        returns += earned[over].tolist()
        earned[over] = 0.0
        ended, steps, mask = ended + over, steps + int(counted.sum()), step.action_mask
        spent = time.perf_counter() - begun
    return steps / spent, returns


def play_with(place: str, env: VecEnv) -> Actor:
    """A user's function, file.py:function: one observation in, one action out."""
    home, _, name = place.rpartition(":")
    function: Callable[[Any], Any] | None = getattr(modules.import_home(home, place), name, None) if home else None
    if not callable(function):
        raise NotFound(f"{place}: there is no function {name!r}.\n  Write file.py:function; it takes an observation and returns an action")
    dtype, shape = (np.int64, ()) if env.action.kind == "discrete" else (np.float32, env.action.sizes)

    def act(obs: Tensor, mask: Tensor | None, t: int) -> Tensor:
        chosen = [np.asarray(function(row), dtype) for row in obs[0].numpy()]
        wrong = next((action.shape for action in chosen if action.shape != shape), None)
        if wrong is not None:
            raise ConfigError(f"{place} returned an action of shape {wrong}, and the environment takes {shape or 'one number'}")
        return torch.from_numpy(np.stack(chosen))[None]

    return act


def act_at_random(env: VecEnv, mask: Tensor | None, draw: np.random.Generator) -> Tensor:
    """Actions [1, N, ...] drawn evenly from all that are allowed."""
    spec = env.action
    if spec.low is not None and spec.high is not None:
        if not (np.isfinite(spec.low).all() and np.isfinite(spec.high).all()):
            raise ConfigError("actions without bounds cannot be drawn evenly.\n  Collect without noise, or bound them in the environment")
        return torch.from_numpy(draw.uniform(spec.low, spec.high, (1, env.n_envs, len(spec.low))).astype(np.float32))
    if spec.kind != "discrete":
        raise ConfigError(f"data of {spec.kind} actions is not recorded: choices and boxes are")
    allowed = np.ones((env.n_envs, spec.sizes[0])) if mask is None else mask[0].numpy().astype(float)
    chosen = (allowed / allowed.sum(1, keepdims=True)).cumsum(1) > draw.random((env.n_envs, 1))
    return torch.from_numpy(chosen.argmax(1)[None].astype(np.int64))


def observation_space(env: VecEnv) -> Space:
    """What the policy sees."""
    return Space("box", tuple(env.obs_shape), low=tuple(env.obs_low.ravel().tolist()), high=tuple(env.obs_high.ravel().tolist()))


def action_space(env: VecEnv) -> Space:
    """What the environment takes."""
    if env.action.kind == "discrete":
        return Space("discrete", n=env.action.sizes[0])
    if env.action.low is None or env.action.high is None:
        raise ConfigError(f"data of {env.action.kind} actions is not recorded: choices and boxes are")
    return Space("box", (len(env.action.low),), low=tuple(env.action.low.tolist()), high=tuple(env.action.high.tolist()))
