"""Datasets made up for tests."""

from collections.abc import Sequence

import numpy as np

from rlclinic.datasets import Dataset, Episode, Space
from rlclinic.datasets.episodes import join

BOX = Space("box", (2,), low=(-10.0, -10.0), high=(10.0, 10.0))
TORQUE = Space("box", (1,), low=(-2.0,), high=(2.0,))


def episode(steps: int, seed: int = 0, *, terminated: bool = False, discrete: bool = False) -> Episode:
    """A walk with noisy actions; its rewards are its actions."""
    draw = np.random.default_rng(seed)
    actions = draw.integers(0, 3, steps) if discrete else draw.uniform(-1, 1, (steps, 1)).astype(np.float32)
    observations = np.concatenate([np.zeros((1, 2)), np.cumsum(draw.normal(0, 0.1, (steps, 2)), 0)]).astype(np.float32) + seed * 1e-3
    return Episode(observations, actions, np.asarray(actions, np.float32).reshape(steps), terminated, not terminated)


def dataset(lengths: Sequence[int] = (5, 3, 7), *, discrete: bool = False) -> Dataset:
    """Every second episode terminates."""
    made = [episode(steps, index, terminated=index % 2 == 1, discrete=discrete) for index, steps in enumerate(lengths)]
    return join(made, BOX, Space("discrete", n=3) if discrete else TORQUE)
