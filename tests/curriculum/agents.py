"""Agents that succeed with a given chance, and how long they take to be promoted."""

import numpy as np

from rlclinic.config import CurriculumConfig
from rlclinic.curriculum import Ended, make_sampler
from rlclinic.curriculum.stages import Staircase

STAGES = [{"name": name, "env": {"size": size}} for name, size in (("small", 5), ("medium", 7), ("large", 9))]


def make_config(**settings) -> CurriculumConfig:
    """Three stages of 0.8, unless told otherwise."""
    return CurriculumConfig(**{"stages": STAGES, **settings})


def episodes(*outcomes: tuple[int, int, bool]) -> Ended:
    """Episodes as (env, task, success)."""
    env, task, success = (np.array(column) for column in zip(*outcomes, strict=True)) if outcomes else (np.empty(0, int),) * 3
    return Ended(env.astype(np.int64), task.astype(np.int64), success.astype(bool))


def play(
    sampler: Staircase, chance: float, random: np.random.Generator, steps: int, n_envs: int, *, short: int = 5, long: int = 50
) -> int | None:
    """The step at which an agent that succeeds with this chance in every stage leaves the first one; None: it never does.

    Success ends an episode after `short` steps, failure after `long`: what is over first has succeeded.
    """
    left = np.zeros(n_envs, int)
    success = np.zeros(n_envs, bool)
    task = np.zeros(n_envs, int)

    def begin(env: int) -> None:
        success[env] = random.random() < chance
        left[env] = short if success[env] else long
        task[env] = np.searchsorted(np.cumsum(sampler.chances), random.random(), side="right")

    for env in range(n_envs):
        begin(env)
    for step in range(1, steps + 1):
        left -= 1
        over = np.flatnonzero(left == 0)
        if len(over):
            sampler.add(episodes(*((env, task[env], success[env]) for env in over)), step)
            if sampler.stage:
                return step
            for env in over:
                begin(env)
    return None


def climb(chance: float, seed: int, steps: int, n_envs: int = 8, min_episodes: int = 100, **settings) -> int | None:
    """When an agent of this chance is promoted, in a curriculum that nobody escapes from."""
    config = make_config(**{"escape_after": 1e9, "stages": [{**stage, "min_episodes": min_episodes} for stage in STAGES], **settings})
    sampler = make_sampler(config, n_envs, steps)
    assert isinstance(sampler, Staircase)
    return play(sampler, chance, np.random.default_rng(seed), steps, n_envs)
