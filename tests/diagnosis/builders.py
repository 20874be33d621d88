"""Histories for tests: a recorded healthy run, with the one thing changed that a rule is about."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rlclinic.runs.history import History, Series, make_series
from tests.diagnosis import recorded

OUT_OF_REACH = 2000.0


def healthy() -> History:
    """A run of CartPole that was solved."""
    return recorded.histories("cp-healthy")[0]


def unsolved() -> History:
    """The same run, judged by a threshold that it misses: nothing else about it is wrong."""
    return setting(replace(healthy(), threshold=OUT_OF_REACH), spec__return_range=None, spec__max_episode_steps=None)


def continuous() -> History:
    """An unsolved run with continuous actions."""
    return replace(recorded.histories("pd-healthy")[0], threshold=-1.0)


def q_learner() -> History:
    """An unsolved run of DQN: nothing else about it is wrong."""
    healthy = replace(recorded.histories("dqn-healthy")[0], threshold=OUT_OF_REACH)
    return setting(healthy, spec__return_range=None, spec__max_episode_steps=None, env__max_episode_steps=None)


def soft_actor() -> History:
    """An unsolved run of SAC."""
    return setting(replace(recorded.histories("sac-healthy")[0], threshold=-1.0), spec__return_range=None)


def setting(history: History, **changes: Any) -> History:
    """With other settings: `algo__gamma=0.5` sets algo.gamma; None removes it."""
    dotted = {name.replace("__", "."): value for name, value in changes.items()}
    return replace(history, settings={**history.settings, **dotted})


def series(history: History, changes: Mapping[str, float | Callable[[np.ndarray], Any] | None]) -> History:
    """With other series: a constant, a function of the share of the run (0 to 1) at each of its rows, or None to remove it."""
    changed = dict(history.series)
    reference = history.series["train/roll/ep_rew_mean"]
    for name, value in changes.items():
        if value is None:
            changed.pop(name, None)
            continue
        steps = changed[name].steps if name in changed else reference.steps
        share = (steps - steps[0]) / (steps[-1] - steps[0])
        values = value(share) if callable(value) else np.full(len(steps), float(value))
        changed[name] = made(steps, values, name)
    return replace(history, series=changed)


def scaled(history: History, name: str, factor: float) -> History:
    """With one series times a number."""
    old = history.series[name]
    return replace(history, series={**history.series, name: made(old.steps, factor * old.values, name)})


def made(steps: Any, values: Any, name: str) -> Series:
    found = make_series(steps, np.asarray(values, dtype=float), name)
    assert found is not None
    return found
