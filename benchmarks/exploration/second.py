"""A second set of worlds for `explore`, of kinds that the first has none of, written when its rules were as they are.

puzzles (towers, tiles, lights, a block to push), rhythms, a landing, a mixture, numbers to guess; and, where nothing has to be found, a
target to follow, a queue, a cue to remember, games of chance.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from gymnasium import spaces

from benchmarks.exploration.worlds import IDLE, SUCCESS, Case, World

STEPS: Final = ((1, 0), (-1, 0), (0, 1), (0, -1))


class Tower(World):
    """Disks on three pegs, the smaller on the larger; all have to go from the first to the last."""

    moves = ((0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1))

    def __init__(self, disks: int = 5, limit: int = 60, **options: Any) -> None:
        super().__init__(**options)
        self.disks, self.limit = disks, limit
        self.observation_space, self.action_space = spaces.Box(0.0, 1.0, (3 * disks,), np.float32), spaces.Discrete(6)

    def begin(self) -> None:
        self.pegs = [int(each) for each in self.np_random.integers(3, size=self.disks)] if self.near else [0] * self.disks
        if all(peg == 2 for peg in self.pegs):
            self.pegs[0] = 0

    def look(self) -> np.ndarray:
        return np.eye(3, dtype=np.float32)[self.pegs].reshape(-1)

    def move(self, action: Any) -> tuple[float, bool, bool]:
        source, target = self.moves[int(action)]
        tops = [next((disk for disk, peg in enumerate(self.pegs) if peg == each), self.disks) for each in range(3)]
        if tops[source] < tops[target]:
            self.pegs[tops[source]] = target
        ready = all(peg == 2 for peg in self.pegs)
        return float(ready), ready, ready


class Tiles(World):
    """Numbered tiles and a gap, shuffled; they have to be in order."""

    def __init__(self, rows: int = 3, columns: int = 3, limit: int = 40, **options: Any) -> None:
        super().__init__(**options)
        self.rows, self.columns, self.limit = rows, columns, limit
        self.cells = rows * columns
        self.observation_space, self.action_space = spaces.Box(0.0, 1.0, (self.cells**2,), np.float32), spaces.Discrete(4)

    def begin(self) -> None:
        self.board = list(range(self.cells))
        while self.board == sorted(self.board):
            for step in self.np_random.integers(4, size=6 if self.near else 200):
                self.slide(int(step))

    def slide(self, action: int) -> None:
        gap = self.board.index(0)
        row, column = gap // self.columns + STEPS[action][0], gap % self.columns + STEPS[action][1]
        if 0 <= row < self.rows and 0 <= column < self.columns:
            other = row * self.columns + column
            self.board[gap], self.board[other] = self.board[other], self.board[gap]

    def look(self) -> np.ndarray:
        return np.eye(self.cells, dtype=np.float32)[self.board].reshape(-1)

    def move(self, action: Any) -> tuple[float, bool, bool]:
        self.slide(int(action))
        ready = self.board == sorted(self.board)
        return float(ready), ready, ready


class Lights(World):
    """A square of lamps; each button turns its own and those beside it; all have to be dark."""

    def __init__(self, size: int = 5, limit: int = 40, **options: Any) -> None:
        super().__init__(**options)
        self.size, self.limit = size, limit
        self.observation_space, self.action_space = spaces.Box(0.0, 1.0, (size * size,), np.float32), spaces.Discrete(size * size)

    def begin(self) -> None:
        self.lamps = [False] * self.size**2
        while not any(self.lamps):
            for button in self.np_random.choice(self.size**2, 2 if self.near else self.size**2 // 2, replace=False):
                self.press(int(button))

    def press(self, button: int) -> None:
        row, column = divmod(button, self.size)
        for down, right in ((0, 0), *STEPS):
            if 0 <= row + down < self.size and 0 <= column + right < self.size:
                other = (row + down) * self.size + column + right
                self.lamps[other] = not self.lamps[other]

    def look(self) -> np.ndarray:
        return np.array(self.lamps, np.float32)

    def move(self, action: Any) -> tuple[float, bool, bool]:
        self.press(int(action))
        dark = not any(self.lamps)
        return float(dark), dark, dark


class Push(World):
    """A block in a yard that has to be pushed into the far corner; at a wall it stays at that wall. `cost`: of every step."""

    def __init__(self, size: int = 9, limit: int = 60, cost: float = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self.size, self.limit, self.cost = size, limit, cost
        self.observation_space, self.action_space = spaces.Box(0.0, 1.0, (4,), np.float32), spaces.Discrete(4)

    def begin(self) -> None:
        self.place, middle = (0, 0), self.size // 2
        far = int(self.np_random.integers(middle, self.size)) if self.near else middle
        self.block = (far, self.size - 1) if self.near and far < self.size - 1 else (middle, middle)
        if self.near:
            self.place = (max(self.block[0] - 2, 0), self.block[1])

    def look(self) -> np.ndarray:
        return np.array([*self.place, *self.block], np.float32) / (self.size - 1)

    def move(self, action: Any) -> tuple[float, bool, bool]:
        step, last = STEPS[int(action)], self.size - 1
        at = (min(max(self.place[0] + step[0], 0), last), min(max(self.place[1] + step[1], 0), last))
        if at == self.block:
            pushed = (at[0] + step[0], at[1] + step[1])
            if not (0 <= pushed[0] <= last and 0 <= pushed[1] <= last):
                return -self.cost, False, False
            self.block = pushed
        self.place = at
        there = self.block == (last, last)
        return float(there) - self.cost, there, there


class Rhythm(World):
    """Each button has to follow the one before it, so many times; a wrong one, and it begins again."""

    limit = 50

    def __init__(self, beats: int = 14, buttons: int = 3, **options: Any) -> None:
        super().__init__(**options)
        self.beats, self.buttons = beats, buttons
        self.observation_space = spaces.Box(0.0, 1.0, (1 + buttons,), np.float32)
        self.action_space = spaces.Discrete(buttons)

    def begin(self) -> None:
        self.right = int(self.np_random.integers(self.beats)) if self.near else 0
        self.last = int(self.np_random.integers(self.buttons))

    def look(self) -> np.ndarray:
        return np.array([self.right / self.beats, *(float(each == self.last) for each in range(self.buttons))], np.float32)

    def move(self, action: Any) -> tuple[float, bool, bool]:
        self.right = self.right + 1 if int(action) == (self.last + 1) % self.buttons else 0
        self.last = int(action)
        ready = self.right >= self.beats
        return float(ready), ready, ready


class Landing(World):
    """A craft that falls, and a pad beside it: to be touched slowly. `dense`: nearness is paid, too, and any touch will do."""

    limit = 60

    def __init__(self, dense: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.dense = dense
        self.observation_space, self.action_space = spaces.Box(-np.inf, np.inf, (4,), np.float32), spaces.Discrete(4)

    def begin(self) -> None:
        wide, low = self.np_random.uniform(-0.2, 0.2), self.np_random.uniform(0.05, 1.0)
        self.x, self.y = (4.0 + float(wide), float(low)) if self.near else (float(wide), 4.0)
        self.vx = self.vy = 0.0

    def look(self) -> np.ndarray:
        return np.array([self.x - 4.0, self.y, self.vx, self.vy], np.float32)

    def move(self, action: Any) -> tuple[float, bool, bool]:
        before = math.hypot(self.x - 4.0, self.y)
        self.vx += {1: -0.1, 2: 0.1}.get(int(action), 0.0)
        self.vy += (0.12 if action == 3 else 0.0) - 0.05
        self.x, self.y = self.x + 0.5 * self.vx, self.y + 0.5 * self.vy
        down = self.y <= 0
        slow = abs(self.vx) < 0.05 and abs(self.vy) < 0.25
        landed = down and abs(self.x - 4.0) < 0.5 and (slow or self.dense)
        way = before - math.hypot(self.x - 4.0, max(self.y, 0.0)) if self.dense else 0.0
        return float(landed) + way, landed, down


class Mixture(World):
    """Valves that sink back by themselves; all levels have to be right at once, three times in a row."""

    limit = 50

    def __init__(self, valves: int = 4, **options: Any) -> None:
        super().__init__(**options)
        self.wanted = np.array([0.8, -0.7, 0.75, -0.8, 0.7])[:valves]
        self.observation_space = spaces.Box(-np.inf, np.inf, (valves + 1,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (valves,), np.float32)

    def begin(self) -> None:
        off = self.np_random.uniform(-0.3, 0.3, self.wanted.shape)
        self.levels, self.held = (self.wanted + off if self.near else 0 * off), 0

    def look(self) -> np.ndarray:
        return np.array([*self.levels, self.held / 3], np.float32)

    def move(self, action: Any) -> tuple[float, bool, bool]:
        self.levels = 0.8 * self.levels + 0.2 * np.clip(action, -1, 1)
        self.held = self.held + 1 if (np.abs(self.levels - self.wanted) < 0.15).all() else 0
        ready = self.held >= 3
        return float(ready), ready, ready


class Guess(World):
    """Some digits, all at once; only all of them right are paid. Begun near, only some of them are asked for."""

    limit = 1

    def __init__(self, digits: int = 6, values: int = 10, **options: Any) -> None:
        super().__init__(**options)
        self.code = np.random.default_rng(values).integers(values, size=digits)
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = spaces.MultiDiscrete([values] * digits)

    def begin(self) -> None:
        self.asked = self.np_random.random(len(self.code)) < 0.3 if self.near else np.ones(len(self.code), bool)

    def look(self) -> np.ndarray:
        return np.zeros(1, np.float32)

    def move(self, action: Any) -> tuple[float, bool, bool]:
        right = bool(((np.asarray(action) == self.code) | ~self.asked).all())
        return float(right), right, True


class Slots(World):
    """Ten levers, each of which pays one time in fifty; one pays one time in twenty."""

    limit = 1

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.observation_space, self.action_space = spaces.Box(0.0, 1.0, (1,), np.float32), spaces.Discrete(10)

    def begin(self) -> None: ...

    def look(self) -> np.ndarray:
        return np.zeros(1, np.float32)

    def move(self, action: Any) -> tuple[float, bool, bool]:
        won = bool(self.np_random.random() < (0.05 if action == 7 else 0.02))
        return float(won), won, True


class Duel(World):
    """Stone, scissors, paper against chance, ten rounds; more won than lost is success."""

    limit = 10

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.observation_space, self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(3)

    def begin(self) -> None:
        self.score = 0

    def look(self) -> np.ndarray:
        return np.array([self.steps / 10, self.score / 10], np.float32)

    def move(self, action: Any) -> tuple[float, bool, bool]:
        won = (0, 1, -1)[(int(action) - int(self.np_random.integers(3))) % 3]
        self.score += won
        return float(won), self.score > 0 and self.steps >= self.limit, self.steps >= self.limit


class Cue(World):
    """A light at the beginning says which way is right at the end; between them nothing is seen."""

    limit = 8

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.observation_space, self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(2)

    def begin(self) -> None:
        self.side = int(self.np_random.integers(2))

    def look(self) -> np.ndarray:
        return np.array([self.steps / 8, (2 * self.side - 1) * float(self.steps == 0)], np.float32)

    def move(self, action: Any) -> tuple[float, bool, bool]:
        if self.steps < self.limit:
            return 0.0, False, False
        right = int(action) == self.side
        return float(right), right, True


class Follow(World):
    """A target that wanders, and a throttle: every step costs the distance."""

    limit = 50

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.observation_space, self.action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32), spaces.Box(-1.0, 1.0, (1,), np.float32)

    def begin(self) -> None:
        self.target, self.place = float(self.np_random.uniform(-1, 1)), 0.0

    def look(self) -> np.ndarray:
        return np.array([self.target, self.place], np.float32)

    def move(self, action: Any) -> tuple[float, bool, bool]:
        self.target = 0.95 * self.target + float(self.np_random.normal(0, 0.2))
        self.place = self.place + 0.3 * float(np.clip(action[0], -1, 1))
        return -abs(self.target - self.place), False, False


class Queue(World):
    """Two counters, one of them slow: who comes is sent to one, and waiting costs."""

    limit = 50

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.observation_space, self.action_space = spaces.Box(0.0, np.inf, (2,), np.float32), spaces.Discrete(2)

    def begin(self) -> None:
        self.waiting = [0, 0]

    def look(self) -> np.ndarray:
        return np.array(self.waiting, np.float32) / 10

    def move(self, action: Any) -> tuple[float, bool, bool]:
        self.waiting[int(action)] += 1
        for counter, pace in enumerate((0.8, 0.3)):
            self.waiting[counter] -= int(self.waiting[counter] > 0 and self.np_random.random() < pace)
        return -0.1 * sum(self.waiting), False, False


SHORT: Final = 15_360
DQN: Final = {
    "name": "dqn",
    "learning_starts": 1_000,
    "train_freq": 8,
    "batch_size": 64,
    "buffer_size": 10_000,
    "target_update_interval": 500,
}
A2C: Final = {"name": "a2c", "n_steps": 16, "learning_rate": 1e-3}


def _cases(label: Any, *cases: Sequence[Any]) -> tuple[Case, ...]:
    return tuple(replace(Case(case[0], label, *case[1:]), env_steps=SHORT) for case in cases)


CASES: Final = (
    *_cases(
        "bottleneck",
        ("tower of 5", Tower, {}, SUCCESS),
        ("tower of 6, no flag", Tower, {"disks": 6, "limit": 90, "flagged": False}, {"threshold": 0.9}),
        ("tiles, 3 x 3", Tiles, {}, SUCCESS),
        ("tiles, 3 x 3, no flag, nothing is required", Tiles, {"flagged": False}),
        ("25 lights", Lights, {}, SUCCESS),
        ("a block to push", Push, {}, SUCCESS),
        ("a block to push, steps cost, no flag", Push, {"cost": 0.002, "flagged": False}, {"threshold": 0.8}),
        ("rhythm of 14", Rhythm, {}, SUCCESS),
        ("rhythm of 10 on 5 buttons, no flag", Rhythm, {"beats": 10, "buttons": 5, "flagged": False}, {"threshold": 0.9}),
        ("rhythm of 14, DQN", Rhythm, {}, SUCCESS, DQN),
        ("landing", Landing, {}, SUCCESS),
        ("landing, A2C", Landing, {}, SUCCESS, A2C),
        ("mixture of 4", Mixture, {}, SUCCESS),
        ("six digits to guess", Guess, {}, SUCCESS),
    ),
    *_cases(
        "not",
        ("tower of 2", Tower, {"disks": 2, "limit": 20}, SUCCESS),
        ("tower of 2, DQN", Tower, {"disks": 2, "limit": 20}, SUCCESS, DQN),
        ("tower of 2, one step ahead", Tower, {"disks": 2, "limit": 20}, SUCCESS, {"gamma": 0.0, "gae_lambda": 0.0}),
        ("tower of 2 that is not learned, no flag", Tower, {"disks": 2, "limit": 20, "flagged": False}, {"threshold": 0.95}, IDLE),
        ("tiles, 2 x 3", Tiles, {"rows": 2}, SUCCESS),
        ("9 lights", Lights, {"size": 3, "limit": 30}, SUCCESS),
        ("two digits to guess in steps that are too large", Guess, {"digits": 2, "values": 4}, SUCCESS, {"learning_rate": 1.0}),
        ("landing, nearness is paid", Landing, {"dense": True}, SUCCESS),
        ("landing, nearness is paid, not learned, no flag", Landing, {"dense": True, "flagged": False}, {"threshold": 3.0}, IDLE),
        ("a target to follow", Follow, {"flagged": False}, {"threshold": -8.0}),
        ("a queue, nothing is required", Queue, {"flagged": False}),
        ("stone, scissors, paper", Duel, {}, SUCCESS),
        ("a cue to remember", Cue, {}, SUCCESS),
        ("slots", Slots, {}, SUCCESS),
    ),
)  # fmt: skip
