"""More sound environments of odd kinds: chance in rewards, drawn levels, long episodes, pictures, nested observations, wrappers.

They were written to see whether `diagnose --env` blames what is sound; nothing is planted in them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from benchmarks.diagnosis.environments import unusual_sound
from benchmarks.diagnosis.environments.odd import SOUND, Task, box


class Slots(Task):
    """Four machines that pay by chance, each with odds of its own that the observation tells: half of every reward is noise."""

    observation_space = box(4, low=0, high=1)
    action_space = spaces.Discrete(4)
    limit = 50

    def start(self) -> None:
        self.odds = self.np_random.uniform(0.1, 0.9, 4)

    def show(self) -> Any:
        return self.odds.astype(np.float32)

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        paid = float(self.np_random.random() < self.odds[int(action)])
        self.odds = np.clip(self.odds + 0.1 * self.np_random.standard_normal(4), 0.05, 0.95)
        return paid, False, {}


class Levels(Task):
    """A board of walls that is drawn anew for every episode, as a Dict of a map and a place."""

    observation_space = spaces.Dict({"map": box(25, low=0, high=1), "place": box(2, low=-1, high=1), "goal": box(2, low=-1, high=1)})
    action_space = spaces.Discrete(4)
    limit = 60

    def start(self) -> None:
        self.walls = self.np_random.random((5, 5)) < 0.2
        self.place, self.goal = self.np_random.integers(0, 5, 2), self.np_random.integers(0, 5, 2)
        self.walls[tuple(self.place)] = self.walls[tuple(self.goal)] = False

    def show(self) -> Any:
        return {
            "map": self.walls.ravel().astype(np.float32),
            "place": (self.place / 2 - 1).astype(np.float32),
            "goal": (self.goal / 2 - 1).astype(np.float32),
        }

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        moved = np.clip(self.place + [(0, 1), (0, -1), (1, 0), (-1, 0)][int(action)], 0, 4)
        self.place = self.place if self.walls[tuple(moved)] else moved
        there = bool((self.place == self.goal).all())
        return 1.0 * there - 0.02, there, {"is_success": there}


class Marathon(Task):
    """Two thousand steps along a road, with a pulse that must not run away."""

    observation_space = box(3)
    action_space = box(1, low=-1, high=1)
    limit = 2_000

    def start(self) -> None:
        self.way, self.pulse, self.slope = 0.0, self.np_random.uniform(0.0, 0.3), self.np_random.uniform(-0.3, 0.3)

    def show(self) -> Any:
        return np.array([self.way / 40, self.pulse, self.slope], np.float32)

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        pace = 0.5 * (float(np.clip(action[0], -1, 1)) + 1)
        self.slope = 0.99 * self.slope + 0.03 * self.np_random.standard_normal()
        self.pulse = 0.97 * self.pulse + 0.06 * pace * (1 + self.slope)
        self.way += 0.05 * pace
        return 0.1 * pace - 0.1 * max(self.pulse - 1, 0), self.pulse > 3, {}


class Filmed(Task):
    """A ball on a plate that can be filmed: render modes, and a picture only where somebody asks for it."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012 — as Gymnasium declares it
    observation_space = box(4)
    action_space = box(2, low=-1, high=1)
    limit = 100

    def __init__(self, render_mode: str | None = "rgb_array") -> None:
        self.render_mode = render_mode

    def start(self) -> None:
        self.state = self.np_random.uniform(-0.5, 0.5, 4)

    def show(self) -> Any:
        return self.state.astype(np.float32)

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        self.state[2:] = 0.95 * self.state[2:] + 0.1 * np.clip(action, -1, 1)
        self.state[:2] += 0.1 * self.state[2:]
        off = bool(np.abs(self.state[:2]).max() > 2)
        return 1 - float(np.square(self.state[:2]).sum()), off, {}

    def render(self) -> Any:
        picture = np.zeros((32, 32, 3), np.uint8)
        row, column = np.clip(8 * self.state[:2] + 16, 0, 31).astype(int)
        picture[row, column] = 255
        return picture


class Painter(Task):
    """A picture is all that is seen: a bright square that follows the brush."""

    observation_space = spaces.Box(0, 255, (16, 16, 1), np.uint8)
    action_space = spaces.Discrete(5)
    limit = 40

    def start(self) -> None:
        self.brush, self.goal = self.np_random.integers(2, 14, 2), self.np_random.integers(2, 14, 2)

    def show(self) -> Any:
        picture = np.zeros((16, 16, 1), np.uint8)
        picture[tuple(self.goal)] = 120
        picture[self.brush[0] - 1 : self.brush[0] + 2, self.brush[1] - 1 : self.brush[1] + 2] = 255
        return picture

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        self.brush = np.clip(self.brush + [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)][int(action)], 1, 14)
        gap = int(np.abs(self.brush - self.goal).sum())
        return -0.05 * gap + 2.0 * (gap == 0), gap == 0, {"is_success": gap == 0}


class Auction(Task):
    """A bid against two others: most rounds pay nothing, and what is won is worth what it is worth."""

    observation_space = box(3, low=0, high=2)
    action_space = box(1, low=0, high=1)
    limit = 60

    def start(self) -> None:
        self.worth, self.money = self.np_random.uniform(0.2, 1), 1.0

    def show(self) -> Any:
        return np.array([self.worth, self.money, self.age / self.limit], np.float32)

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        bid, others = float(np.clip(action[0], 0, 1)), float(self.np_random.uniform(0.2, 1.0, 2).max())
        won = bid > others and bid <= self.money
        gain = (self.worth - bid) if won else 0.0
        self.money = float(np.clip(self.money + gain + 0.02, 0, 2))
        self.worth = self.np_random.uniform(0.2, 1)
        return gain, False, {}


class Pond(Task):
    """Rewards come as counts, the observation as whole numbers of a MultiDiscrete."""

    observation_space = spaces.MultiDiscrete([20, 20, 4])
    action_space = spaces.Discrete(3)
    limit = 80

    def start(self) -> None:
        self.fish, self.food, self.season = int(self.np_random.integers(5, 15)), int(self.np_random.integers(5, 15)), 0

    def show(self) -> Any:
        return np.array([self.fish, self.food, self.season], np.int64)

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        caught = min(self.fish, int(action))
        grown = self.np_random.binomial(self.fish - caught, 0.15 if self.food > 5 else 0.02)
        self.fish = int(np.clip(self.fish - caught + grown, 0, 19))
        self.food = int(np.clip(self.food + self.np_random.integers(-1, 3) - self.fish // 8, 0, 19))
        self.season = (self.age // 20) % 4
        return float(caught), self.fish == 0, {}


class Chess(Task):
    """A move among many, of which some are not allowed: a mask in info, and a reward at the end alone."""

    observation_space = box(9, low=-1, high=1)
    action_space = spaces.Discrete(9)
    limit = 9

    def start(self) -> None:
        self.board = np.zeros(9, np.float32)

    def show(self) -> Any:
        return self.board.copy()

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        lines = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
        if self.board[int(action)] != 0:
            return -1.0, True, {"is_success": False}
        self.board[int(action)] = 1
        if any(all(self.board[place] == 1 for place in line) for line in lines):
            return 1.0, True, {"is_success": True}
        free = np.flatnonzero(self.board == 0)
        if not len(free):
            return 0.0, True, {"is_success": False}
        self.board[self.np_random.choice(free)] = -1
        lost = any(all(self.board[place] == -1 for place in line) for line in lines)
        return -1.0 * lost, lost, {"is_success": False, "action_mask": self.board == 0}


class Doubled(gym.Wrapper[Any, Any, Any, Any]):
    """A wrapper of somebody's own: every action is taken twice, and both rewards are paid."""

    def step(self, action: Any) -> Any:
        obs, first, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            return obs, first, terminated, truncated, info
        obs, second, terminated, truncated, info = self.env.step(action)
        return obs, float(first) + float(second), terminated, truncated, info


def _wrapped(env: Any, *wrappers: Callable[[Any], Any]) -> Any:
    for wrapper in wrappers:
        env = wrapper(env)
    return env


MORE: Final[dict[str, Callable[[], Any]]] = {
    **{kind.__name__: kind for kind in (Slots, Levels, Marathon, Filmed, Painter, Auction, Pond, Chess)},
    "doubled filmed": lambda: Doubled(Filmed()),
    "flat levels": lambda: gym.wrappers.FlattenObservation(Levels()),
    "short marathon": lambda: gym.wrappers.TimeLimit(Marathon(), 400),
    "stacked auction": lambda: gym.wrappers.FrameStackObservation(Auction(), 3),
    "sticky slots": lambda: _wrapped(Slots(), lambda env: gym.wrappers.StickyAction(env, 0.25)),
    "clipped filmed": lambda: _wrapped(Filmed(), gym.wrappers.ClipAction, gym.wrappers.RecordEpisodeStatistics),
}
KNOWN: Final = (
    "CartPole-v1", "Pendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1", "FrozenLake-v1", "CliffWalking-v1", "Taxi-v4",
    "Blackjack-v1",
)  # fmt: skip
"""Of Gymnasium."""
ALL: Final[dict[str, Callable[[], Any]]] = {
    **SOUND,
    **MORE,
    **unusual_sound.SOUND,
    **{id: partial(gym.make, id) for id in KNOWN},
}
