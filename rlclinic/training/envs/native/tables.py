"""Environments that are a table of transitions: FrozenLake, Taxi and CliffWalking from Gymnasium's own tables, DeepSea and Delivery."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlclinic.training.envs.base import ActionSpec
from rlclinic.training.envs.native.dynamics import Dynamics

Transitions = dict[int, dict[int, list[tuple[float, int, float, bool]]]]
"""By state and action: probability, next state, reward and whether the episode terminates, as Gymnasium's `P` has them."""


class Table(Dynamics):
    """State: the number of the row, [...] int64; observed one-hot. A step is one lookup, in a stochastic table two."""

    noise = 1

    def __init__(
        self, table: Transitions, initial: np.ndarray, goals: np.ndarray, device: str = "cpu", masks: np.ndarray | None = None
    ) -> None:
        """`initial` [S] says how likely episodes start where, `goals` [S] where success lies; `masks` is [S, A] bool."""
        self.table, self.initial = table, np.asarray(initial, dtype=np.float64)
        states, actions = len(table), len(table[0])
        self.obs_shape = (states,)
        self.obs_low, self.obs_high = np.zeros(states, np.float32), np.ones(states, np.float32)
        self.action = ActionSpec("discrete", (actions,))
        outcomes = [[entry for entry in table[s][a] if entry[0] > 0] for s in range(states) for a in range(actions)]
        self._choices = max(len(entries) for entries in outcomes)
        self.chance = self._choices > 1
        rows = [_padded(entries, self._choices) for entries in outcomes]  # [S * A][K]
        self._until = torch.tensor([[entry[0] for entry in row] for row in rows], device=device)
        self._next = torch.tensor([entry[1] for row in rows for entry in row], device=device)
        self._reward = torch.tensor([float(entry[2]) for row in rows for entry in row], device=device)
        self._ends = torch.tensor([bool(entry[3]) for row in rows for entry in row], device=device)
        self._actions = torch.tensor(actions, device=device)
        self._one_hot = torch.eye(states, device=device)
        self._goal = torch.as_tensor(goals, dtype=torch.float32, device=device)
        self._mask = None if masks is None else torch.as_tensor(masks, dtype=torch.bool, device=device)
        self._first = torch.tensor(np.cumsum(self.initial), dtype=torch.float32, device=device)
        self._last = int(np.flatnonzero(self.initial)[-1])

    def start(self, uniform: Tensor) -> Tensor:
        # The sum of the probabilities may end a rounding short of 1.
        return torch.searchsorted(self._first, uniform.squeeze(-1), right=True).clamp_(max=self._last)

    def observe(self, state: Tensor) -> Tensor:
        return self._one_hot[state]

    def advance(self, state: Tensor, action: Tensor, chance: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        row = (state * self._actions).add_(action)
        if chance is not None:
            outcome = (self._until[row] <= chance.unsqueeze(-1)).sum(-1)
            row = row.mul_(self._choices).add_(outcome)
        return self._next[row], self._reward[row], self._ends[row]

    def success(self, state: Tensor) -> Tensor:
        return self._goal[state]

    def mask(self, state: Tensor) -> Tensor | None:
        return None if self._mask is None else self._mask[state]


def _padded(entries: list[tuple[float, int, float, bool]], width: int) -> list[tuple[float, int, float, bool]]:
    """The outcomes with cumulated probabilities; the last one, repeated to the width, takes all that is left."""
    until = np.cumsum([entry[0] for entry in entries])
    rows = [(float(end), int(state), reward, ends) for end, (_, state, reward, ends) in zip(until, entries, strict=True)]
    return rows[:-1] + [(float("inf"), *rows[-1][1:])] * (width - len(rows) + 1)


def frozen_lake(device: str = "cpu", **kwargs: Any) -> Table:
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

    env = FrozenLakeEnv(**kwargs)
    return Table(env.P, env.initial_state_distrib, np.ravel(np.asarray(env.desc) == b"G"), device)


def taxi(device: str = "cpu", masked: bool = False, **kwargs: Any) -> Table:
    from gymnasium.envs.toy_text.taxi import TaxiEnv

    env = TaxiEnv(**kwargs)
    masks = np.array([env.action_mask(state) for state in range(500)], dtype=bool) if masked else None
    return Table(env.P, env.initial_state_distrib, _ending(env), device, masks)


def cliff_walking(device: str = "cpu", **kwargs: Any) -> Table:
    from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv

    env = CliffWalkingEnv(**kwargs)
    return Table(env.P, env.initial_state_distrib, _ending(env), device)


def _ending(env: Any) -> np.ndarray:
    """The states that some transition ends in: where only success terminates, the goals."""
    goals = np.zeros(env.observation_space.n, dtype=bool)
    for by_action in env.P.values():
        for entries in by_action.values():
            for _, state, _, ends in entries:
                goals[state] |= ends
    return goals


def deep_sea(device: str = "cpu", size: int = 10, mapping_seed: int | None = 0) -> Table:
    """A square of size x size cells: a dive goes down one row a step, left or right (Osband et al. 2019, arXiv:1908.03568).

    Going right costs 0.01 / size; only who goes right every time finds the treasure, which pays 1. Which action means right differs from
    cell to cell, by `mapping_seed`; None: action 1 everywhere. Random play finds it in one of 2^size dives.
    """
    if not 2 <= size <= 100:
        raise ValueError(f"size={size} is not between 2 and 100")
    right_of = np.ones((size, size), np.int64) if mapping_seed is None else np.random.default_rng(mapping_seed).integers(0, 2, (size, size))
    floor, treasure = size * size, size * size + 1
    table: Transitions = {end: {action: [(1.0, end, 0.0, True)] for action in (0, 1)} for end in (floor, treasure)}
    for row, column in np.ndindex(size, size):
        table[row * size + column] = {}
        for action in (0, 1):
            right = bool(action == right_of[row, column])
            beside = min(column + 1, size - 1) if right else max(column - 1, 0)
            found = right and row == column == size - 1
            below = (row + 1) * size + beside if row < size - 1 else treasure if found else floor
            table[row * size + column][action] = [(1.0, below, float(found) - 0.01 / size * right, row == size - 1)]
    table = dict(sorted(table.items()))
    return Table(table, np.arange(floor + 2) == 0, np.arange(floor + 2) == treasure, device)


def delivery(device: str = "cpu", size: int = 5, farmable: bool = True) -> Table:
    """Fetch a parcel in one corner of a size x size yard and bring it to the opposite one, which pays 10 and ends the episode.

    Picking the parcel up pays 1, every time: put back and picked up again it pays for ever. With `farmable=False` putting it back costs
    what picking it up paid. Actions: up, right, down, left, pick up, put down.
    """
    if not 2 <= size <= 30:
        raise ValueError(f"size={size} is not between 2 and 30")
    cells, depot, customer = size * size, 0, size * size - 1
    delivered = 2 * cells
    table: Transitions = {delivered: {action: [(1.0, delivered, 0.0, True)] for action in range(6)}}
    for cell in range(cells):
        row, column = divmod(cell, size)
        moves = ((max(row - 1, 0), column), (row, min(column + 1, size - 1)), (min(row + 1, size - 1), column), (row, max(column - 1, 0)))
        for loaded in (0, 1):
            state = loaded * cells + cell
            by_action = {action: [(1.0, loaded * cells + y * size + x, 0.0, False)] for action, (y, x) in enumerate(moves)}
            by_action |= {4: [(1.0, state, 0.0, False)], 5: [(1.0, state, 0.0, False)]}
            if cell == depot:
                by_action[5 if loaded else 4] = [
                    (1.0, (1 - loaded) * cells + cell, 0.0 if loaded and farmable else 1.0 - 2.0 * loaded, False)
                ]
            elif loaded and cell == customer:
                by_action[5] = [(1.0, delivered, 10.0, True)]
            table[state] = by_action
    table = dict(sorted(table.items()))
    start = np.zeros(delivered + 1)
    start[:cells] = 1 / cells
    return Table(table, start, np.arange(delivered + 1) == delivered, device)
