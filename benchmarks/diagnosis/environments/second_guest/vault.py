"""A grid with a wall and a door in it: fetch the key, open the door, leave by the far corner."""

from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np

N = 7
WALL = 4  # column
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))


class Vault(gym.Env[Any, Any]):
    def __init__(self, limit: int = 120, slippery: float = 0.0) -> None:
        self.limit, self.slippery = limit, slippery
        # row and column of the robber, whether he has the key, row and column of the key, row of the door
        self.observation_space = gym.spaces.MultiDiscrete([N, N, 2, N, N, N])
        self.action_space = gym.spaces.Discrete(4)
        self.has_key = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.robber = (int(self.np_random.integers(N)), int(self.np_random.integers(WALL)))
        self.key = (int(self.np_random.integers(N)), int(self.np_random.integers(WALL)))
        self.door = int(self.np_random.integers(N))
        self.has_key = False
        self.steps = 0
        return self.map(), {}

    def map(self) -> Any:
        return np.array([*self.robber, int(self.has_key), *self.key, self.door], np.int64)

    def free(self, row: int, col: int) -> bool:
        if not (0 <= row < N and 0 <= col < N):
            return False
        return col != WALL or (row == self.door and self.has_key)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        move = int(action)
        if self.np_random.random() < self.slippery:
            move = int(self.np_random.integers(4))
        row, col = self.robber[0] + MOVES[move][0], self.robber[1] + MOVES[move][1]
        if self.free(row, col):
            self.robber = (row, col)
        reward = -0.01
        if self.robber == self.key and not self.has_key:
            self.has_key = True
            reward += 0.5
        out = self.robber == (N - 1, N - 1)
        if out:
            reward += 1.0
        self.steps += 1
        return self.map(), reward, out, self.steps >= self.limit, {"is_success": out}


def make() -> Vault:
    return Vault()


def expert(obs: Any) -> int:
    """The first step of a shortest way: to the key, or with the key to the corner."""
    row, col, has_key, key_row, key_col, door = (int(value) for value in obs)
    end = (N - 1, N - 1) if has_key else (key_row, key_col)
    if (row, col) == end:
        return 0
    ways: dict[tuple[int, int], int] = {(row, col): -1}
    line = deque([(row, col)])
    while line:
        here = line.popleft()
        for move, (down, right) in enumerate(MOVES):
            place = (here[0] + down, here[1] + right)
            wall = place[1] == WALL and not (has_key and place[0] == door)
            if place in ways or wall or not (0 <= place[0] < N and 0 <= place[1] < N):
                continue
            ways[place] = move if ways[here] < 0 else ways[here]
            if place == end:
                return ways[place]
            line.append(place)
    return 0
