"""Where two episodes were written as one: steps that the way a task moves does not explain.

Two signs count, and both are measured against nearly all other steps (the 99 % quantile of each number). A step that goes far beyond all
others and beyond those around it: nothing in a task moves like that once in a while. And steps that lead to where episodes begin, more
often than chance would have it, among those that are odd: far from what a linear model tells from the state and the action. A hard landing
or a wall is as odd, but does not lead there.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlclinic.datasets.episodes import Dataset
from rlclinic.stats.recurring import binomial_tail

__all__ = ["Joints", "find_joints"]

Floats = NDArray[np.float64]
MOST_EPISODES: Final = 1_000
MOST_STEPS: Final = 200_000
"""How many are looked at, evenly spread."""
MOST_COLUMNS: Final = 128
"""Numbers of a state and an action from which a step is told; of pictures it is not."""
FEWEST_ROWS: Final = 10
"""Steps for each of them."""
USUAL: Final = 0.99
EXACT: Final = 0.01
"""What is left of a step counts as this share of a long one at least: a model of numbers that are rounded is not exact."""
FAR: Final = 20.0
"""So many times as far as what is usual."""
ODD: Final = 5.0
"""From so many times on where a step leads is looked at."""
AROUND: Final = 10
"""Steps before and after one that it is compared with: what starts far off and comes to rest takes many long steps, one after another."""
CHANCE: Final = 1e-3
"""A chance below which it is none."""
SLACK: Final = 0.1
"""How far beyond the starts that were seen others may lie, as a share of their range."""
MOST_WHOLE: Final = 20
"""Whole numbers that take no more values than that are flags, which jump as they please."""


@dataclass(frozen=True)
class Joints:
    """Episodes with steps that look like the joint of two."""

    episodes: tuple[int, ...]
    looked_at: int
    to_starts: bool
    """Whether those steps lead to where episodes begin; else they are only far beyond all others."""


def find_joints(data: Dataset) -> Joints | None:
    """Which of at most a thousand episodes look like two; None where none does."""
    stride = max(1, data.n_episodes // MOST_EPISODES, math.ceil(len(data) / MOST_STEPS))
    chosen = np.arange(0, data.n_episodes, stride)
    while len(chosen) > 1 and data.lengths[chosen].sum() > 2 * MOST_STEPS:  # a few long ones among many short ones
        chosen = chosen[::2]
    starts, steps = data.ends[chosen] - data.lengths[chosen], np.minimum(data.lengths[chosen], MOST_STEPS)
    rows = np.concatenate([np.arange(start, start + many) for start, many in zip(starts, steps, strict=True)])
    batch, episode = data.transitions(rows), np.repeat(np.arange(len(chosen)), steps)
    states, reached = (np.asarray(part, np.float64).reshape(len(rows), -1) for part in (batch.observations, batch.next_observations))
    states, reached = (np.where(np.isfinite(part), part, 0.0) for part in (states, reached))
    spread = states.std(0)
    counted = ((reached != np.round(reached)).any(0) | (np.ptp(reached, axis=0) > MOST_WHOLE)) & (spread > 0)
    if not counted.any():
        return None
    moved = (reached - states)[:, counted] / spread[counted]
    sizes, left = _measure(moved, (states - states.mean(0))[:, spread > 0] / spread[spread > 0], _points(batch.actions, data))
    alone = [place for place in np.flatnonzero(sizes > FAR).tolist() if _stands_out(sizes, episode, place)]
    odd = np.flatnonzero(left > ODD)
    first = np.asarray(data.observations[starts + chosen], np.float64).reshape(len(chosen), -1)
    begun = _lie_within(reached[:, counted], first[:, counted])
    to_starts = odd[begun[odd]]
    joints = bool(len(to_starts)) and binomial_tail(len(to_starts), len(odd), float(begun.mean())) < CHANCE
    found = {*alone, *(to_starts.tolist() if joints else [])}
    if not found:
        return None
    return Joints(tuple(sorted({int(chosen[episode[place]]) for place in found})), len(chosen), joints)


def _points(actions: NDArray[Any], data: Dataset) -> Floats:
    """Actions as numbers: choices one-hot."""
    if data.action_space.kind == "discrete":
        return (np.asarray(actions).reshape(-1, 1) == np.unique(actions)).astype(np.float64)
    return np.nan_to_num(np.asarray(actions, np.float64).reshape(len(actions), -1))


def _measure(moved: Floats, states: Floats, actions: Floats) -> tuple[Floats, Floats]:
    """How far each step [N] goes, and how far beyond what is told from its state and action: in the number where it is the most, and in
    units of what is usual there."""
    told = np.concatenate([np.ones((len(moved), 1)), states, actions], axis=1)
    size = np.abs(moved)
    usual = np.quantile(size, USUAL, axis=0)
    if told.shape[1] > MOST_COLUMNS or len(moved) < FEWEST_ROWS * told.shape[1]:
        return _in_units(size, usual), _in_units(size, usual)
    left = np.abs(moved - told @ np.linalg.lstsq(told, moved, rcond=None)[0])
    return _in_units(size, usual), _in_units(left, np.maximum(np.quantile(left, USUAL, axis=0), EXACT * usual))


def _in_units(sizes: Floats, usual: Floats) -> Floats:
    largest: Floats = (sizes / np.where(usual > 0, usual, np.inf)).max(1)
    return largest


def _stands_out(sizes: Floats, episode: NDArray[np.int64], place: int) -> bool:
    """Whether a step is far beyond those around it, too; the next ones do not count: a damaged observation is left as it was reached."""
    around = np.arange(max(0, place - AROUND), min(len(sizes), place + 1 + AROUND))
    around = around[(np.abs(around - place) > 1) & (episode[around] == episode[place])]
    return not len(around) or bool(sizes[place] > FAR * np.median(sizes[around]))


def _lie_within(states: Floats, starts: Floats) -> NDArray[np.bool_]:
    """Which states [N] lie where episodes begin."""
    low, high = starts.min(0), starts.max(0)
    slack = SLACK * (high - low) + 1e-6
    return ((states >= low - slack) & (states <= high + slack)).all(1)
