"""Histories for tests: a recorded healthy run, with the one thing changed that a rule is about."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rlclinic.diagnosis.rules import cases
from rlclinic.runs.history import History
from tests.diagnosis import recorded

OUT_OF_REACH = cases.OUT_OF_REACH


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
    return cases.changed(history, settings={name.replace("__", "."): value for name, value in changes.items()})


def series(history: History, changes: Mapping[str, cases.Shape]) -> History:
    """With other series: a constant, a function of the share of the run (0 to 1) at each of its rows, or None to remove it."""
    return cases.changed(history, changes)


made = cases.make
