"""Environments that are a table of transitions: FrozenLake, Taxi and CliffWalking, read from Gymnasium's own tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rlclinic.training.envs.base import ActionSpec
from rlclinic.training.envs.native.dynamics import Dynamics

if TYPE_CHECKING:
    from gymnasium import Env


class Table(Dynamics):
    """State: the number of the row, [...] int64; observed one-hot. A step is one lookup, in a stochastic table two."""

    noise = 1

    def __init__(self, env: Env[Any, Any], goals: np.ndarray, device: str = "cpu", masks: np.ndarray | None = None) -> None:
        """`env` has Gymnasium's `P` and `initial_state_distrib`; `goals` [S] says where success lies; `masks` is [S, A] bool."""
        table: dict[int, dict[int, list[tuple[float, int, float, bool]]]] = env.P  # type: ignore[attr-defined]
        states, actions = int(env.observation_space.n), int(env.action_space.n)  # type: ignore[attr-defined]
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
        likely = np.asarray(env.initial_state_distrib, dtype=np.float64)  # type: ignore[attr-defined]
        self._first = torch.tensor(np.cumsum(likely), dtype=torch.float32, device=device)
        self._last = int(np.flatnonzero(likely)[-1])

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
    return Table(env, np.ravel(np.asarray(env.desc) == b"G"), device)


def taxi(device: str = "cpu", masked: bool = False, **kwargs: Any) -> Table:
    from gymnasium.envs.toy_text.taxi import TaxiEnv

    env = TaxiEnv(**kwargs)
    masks = np.array([env.action_mask(state) for state in range(500)], dtype=bool) if masked else None
    return Table(env, _ending(env), device, masks)


def cliff_walking(device: str = "cpu", **kwargs: Any) -> Table:
    from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv

    env = CliffWalkingEnv(**kwargs)
    return Table(env, _ending(env), device)


def _ending(env: Any) -> np.ndarray:
    """The states that some transition ends in: where only success terminates, the goals."""
    goals = np.zeros(env.observation_space.n, dtype=bool)
    for by_action in env.P.values():
        for entries in by_action.values():
            for _, state, _, ends in entries:
                goals[state] |= ends
    return goals
