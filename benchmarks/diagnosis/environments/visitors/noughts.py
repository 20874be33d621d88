"""Noughts and crosses against a somewhat absent-minded friend. You are the crosses and begin."""

from typing import Any

import numpy as np
from gymnasium import Env, spaces

ME, FRIEND = 1, -1
WON, LOST, ILLEGAL = 1.0, -1.0, -0.2
ATTENTIVE = 0.6
LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def completing(board: Any, who: int) -> list[int]:
    """Fields that finish a line."""
    found = []
    for line in LINES:
        marks = [int(board[field]) for field in line]
        if marks.count(who) == 2 and marks.count(0) == 1:
            found.append(line[marks.index(0)])
    return found


class NoughtsAndCrosses(Env[Any, Any]):
    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1, 1, (3, 3), np.int8)
        self.action_space = spaces.Discrete(9)
        self.board = np.zeros(9, np.int8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.board[:] = 0
        self.turns = 0
        self.opening()
        return self.show(), {}

    def opening(self) -> None:
        """The friend may leave a mark before the game, as a handicap: half of the games begin so."""
        if self.np_random.random() < 0.5:
            self.board[self.np_random.integers(9)] = FRIEND

    def show(self) -> Any:
        return self.board.reshape(3, 3).copy()

    def has_line(self, who: int) -> bool:
        return any(all(self.board[field] == who for field in line) for line in LINES)

    def reply(self) -> None:
        free = np.flatnonzero(self.board == 0)
        options = completing(self.board, FRIEND) or completing(self.board, ME)
        if options and self.np_random.random() < ATTENTIVE:
            self.board[options[0]] = FRIEND
        else:
            self.board[self.np_random.choice(free)] = FRIEND

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        field = int(action)
        self.turns += 1
        late = self.turns >= 25
        if self.board[field] != 0:
            return self.show(), ILLEGAL, False, late, {}
        self.board[field] = ME
        if self.has_line(ME):
            return self.show(), WON, True, False, {"is_success": True}
        if (self.board != 0).all():
            return self.show(), 0.0, True, False, {"is_success": False}
        self.reply()
        if self.has_line(FRIEND):
            return self.show(), LOST, True, False, {"is_success": False}
        return self.show(), 0.0, bool((self.board != 0).all()), late, {"is_success": False}


def make() -> NoughtsAndCrosses:
    return NoughtsAndCrosses()


def expert(obs: Any) -> int:
    """Win, block, centre, corner."""
    board = np.asarray(obs).reshape(9)
    for options in (completing(board, ME), completing(board, FRIEND), [4, 0, 2, 6, 8, 1, 3, 5, 7]):
        for field in options:
            if board[field] == 0:
                return int(field)
    return 0
