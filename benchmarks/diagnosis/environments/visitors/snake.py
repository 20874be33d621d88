# SNAKE! my first gym env :)  the snake is always 5 long, eat as much as you can. it comes back in on the other side like on the old phone
from typing import Any

import gymnasium as gym
import numpy as np

SIZE = 7
UP, DOWN, LEFT, RIGHT = range(4)
DIRS = [(-1, 0), (1, 0), (0, -1), (0, 1)]
INK = 255
FOOD_REWARD, DEATH_REWARD = 1.0, -1.0
HUNGER = 60  # steps without food before the game is stopped


class SnakeEnv(gym.Env[Any, Any]):
    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(0, 255, (SIZE, SIZE, 3), np.uint8)
        self.action_space = gym.spaces.Discrete(4)
        self.canvas = np.zeros((SIZE, SIZE, 3), np.uint8)

    def _place_food(self) -> None:
        free = [(r, c) for r in range(SIZE) for c in range(SIZE) if (r, c) not in self.snake]
        self.food = free[self.np_random.integers(len(free))]

    def _draw(self) -> None:
        self.canvas[:] = 0
        self.canvas[self.food][2] = INK
        for part in self.snake[1:]:
            self.canvas[part][1] = INK
        self.canvas[self.snake[0]][0] = INK

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        r, c = (int(n) for n in self.np_random.integers(0, SIZE, 2))
        self.snake = [(r, (c - i) % SIZE) for i in range(5)]
        self.heading = DIRS[RIGHT]
        self.hungry = 0
        self._place_food()
        self._draw()
        return self.canvas.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        turn = DIRS[int(action)]
        # you can't turn right round
        if turn != (-self.heading[0], -self.heading[1]):
            self.heading = turn
        head = ((self.snake[0][0] + self.heading[0]) % SIZE, (self.snake[0][1] + self.heading[1]) % SIZE)
        self.hungry += 1

        if head in self.snake[:-1]:  # the tail moves away
            return self.canvas.copy(), DEATH_REWARD, True, False, {}

        self.snake = [head, *self.snake[:-1]]
        reward = 0.0
        if head == self.food:
            reward = FOOD_REWARD
            self.hungry = 0
            self._place_food()
        self._draw()
        return self.canvas.copy(), reward, False, self.hungry >= HUNGER, {}


def make() -> gym.Env[Any, Any]:
    return gym.wrappers.TimeLimit(SnakeEnv(), 300)


def expert(obs: Any) -> int:
    """Towards the food, never into the body."""
    head = np.argwhere(obs[..., 0] > 0)[0]
    body = {tuple(map(int, place)) for place in np.argwhere(obs[..., 1] > 0)}
    food = np.argwhere(obs[..., 2] > 0)
    aim = food[0] if len(food) else head
    safe = []
    for action, move in enumerate(DIRS):
        place = (head + move) % SIZE
        if tuple(map(int, place)) not in body:
            gap = np.abs(place - aim)
            safe.append((int(np.minimum(gap, SIZE - gap).sum()), action))
    return min(safe)[1] if safe else UP
