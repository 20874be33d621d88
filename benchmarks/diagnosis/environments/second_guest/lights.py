"""Lights out on three by three: a press flips a lamp and its neighbours; all out wins.

The lamp that was pressed last sticks for one turn, as `mask` says; pressing it costs and does nothing.
"""

import itertools
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np

SIDE = 3
LAMPS = SIDE * SIDE


def flip(board: Any, lamp: int) -> None:
    row, col = divmod(lamp, 3)
    for r, c in ((row, col), (row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)):
        if 0 <= r < SIDE and 0 <= c < SIDE:
            board[r, c] ^= 1


class LightsOut(gym.Env[Any, Any]):
    MOVES = 30

    def __init__(self, scrambles: tuple[int, int] = (2, 5)) -> None:
        self.scrambles = scrambles
        self.action_space = gym.spaces.Discrete(LAMPS)
        self.observation_space = gym.spaces.Dict(
            {"board": gym.spaces.MultiBinary([SIDE, SIDE]), "mask": gym.spaces.MultiBinary(LAMPS)},
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        rng = self.np_random
        self.board = np.zeros((SIDE, SIDE), np.int8)
        # No lamp twice, so that at least one is on.
        for lamp in rng.choice(LAMPS, int(rng.integers(*self.scrambles, endpoint=True)), replace=False):
            flip(self.board, int(lamp))
        self.given = self.board.copy()
        self.stuck = -1
        self.moves = 0
        return self.view(), {}

    def view(self) -> dict[str, Any]:
        mask = np.ones(LAMPS, np.int8)
        if self.stuck >= 0:
            mask[self.stuck] = 0
        return {"board": self.board.copy(), "mask": mask}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        lamp = int(action)
        self.moves += 1
        reward = -0.05
        if lamp == self.stuck:
            reward -= 0.1
            self.stuck = -1
        else:
            flip(self.board, lamp)
            self.stuck = lamp
        out = not self.board.any()
        if out:
            reward += 1.0
        return self.view(), reward, out, self.moves >= self.MOVES, {"is_success": out}


def make() -> LightsOut:
    return LightsOut()


@cache
def answers() -> dict[bytes, tuple[int, ...]]:
    """For each board, which lamps to press."""
    table = {}
    for presses in itertools.product((0, 1), repeat=LAMPS):
        board = np.zeros((SIDE, SIDE), np.int8)
        lamps = tuple(lamp for lamp in range(LAMPS) if presses[lamp])
        for lamp in lamps:
            flip(board, lamp)
        table[board.tobytes()] = lamps
    return table


def expert(obs: Any) -> int:
    lamps = answers()[obs["board"].astype(np.int8).tobytes()]
    return lamps[0] if lamps else 0
