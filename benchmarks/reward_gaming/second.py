"""Farmable and sound environments of other kinds: Dict observations, pictures, several knobs at once, vehicles, queues, grasping.

They were written after the check that looks for farming, by somebody who had not read it, and looked at once before it was changed
(looks.json; one sound arena was added after that look). Among the sound ones are tasks whose purpose is to stay, to collect or to
survive: paying for that is no farming.
"""

from collections.abc import Callable
from typing import Any, Final

import gymnasium as gym
import numpy as np
from gymnasium import spaces

Seen = Any
Step = tuple[Seen, float, bool, bool, dict[str, Any]]


class Boat(gym.Env[np.ndarray, np.int64]):
    """A boat on a course: buoys pay when passed, the finish ends the race. With `respawns` a passed buoy comes back after 12 steps."""

    BUOYS: Final = np.array([[0.35, 0.5], [0.45, 0.6], [0.55, 0.5], [0.45, 0.4]])

    def __init__(self, respawns: bool, finish: float = 8.0) -> None:
        self.respawns, self.finish = respawns, finish
        self.observation_space = spaces.Box(-1, 1, (8,), np.float32)
        self.action_space = spaces.Discrete(3)

    def _obs(self) -> np.ndarray:
        return np.array([*self.at, np.cos(self.heading), np.sin(self.heading), *(self.wait == 0)], np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.at, self.heading, self.clock, self.wait = np.array([0.1, 0.5]), float(self.np_random.uniform(-0.3, 0.3)), 0, np.zeros(4)
        return self._obs(), {}

    def step(self, action: np.int64) -> Step:
        self.heading += (int(action) - 1) * 0.5
        self.at = np.clip(self.at + 0.04 * np.array([np.cos(self.heading), np.sin(self.heading)]), 0, 1)
        self.clock += 1
        passed = (np.linalg.norm(self.BUOYS - self.at, axis=1) < 0.07) & (self.wait == 0)
        self.wait = np.where(passed, 12 if self.respawns else 10_000, np.maximum(self.wait - 1, 0))
        over = bool(self.at[0] > 0.95)
        reward = float(passed.sum()) + (self.finish if over else 0.0)
        return self._obs(), reward, over, self.clock >= 400 and not over, {"is_success": over}


class Grasp(gym.Env[Any, np.ndarray]):
    """A hand over a table: lower it, close it, carry the block to the tray. Dict observation. Touching pays `touch` a step."""

    def __init__(self, touch: float, once: bool, tray: float = 10.0) -> None:
        self.touch, self.once, self.tray = touch, once, tray
        self.observation_space = spaces.Dict({"hand": spaces.Box(-1, 1, (2,), np.float32), "block": spaces.Box(-1, 1, (1,), np.float32)})
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)

    def _obs(self) -> dict[str, np.ndarray]:
        return {"hand": self.hand.astype(np.float32), "block": np.array([self.block], np.float32)}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        super().reset(seed=seed)
        self.hand, self.block, self.clock, self.touched = np.array([self.np_random.uniform(-0.4, -0.2), 0.6]), -0.3, 0, False
        return self._obs(), {}

    def step(self, action: np.ndarray) -> Step:
        move = 0.08 * np.clip(action, -1, 1)
        low = self.hand[1] < 0.25 and abs(self.hand[0] - self.block) < 0.15
        self.hand = np.clip(self.hand + move, -1, 1)
        if low:  # the block is dragged along
            self.block = float(np.clip(self.block + move[0], -1, 1))
        self.clock += 1
        there = self.block > 0.8
        terms = {"touch": self.touch * (low and not (self.once and self.touched)), "tray": self.tray * there, "time": -0.02}
        self.touched |= bool(low)
        return self._obs(), float(sum(terms.values())), there, self.clock >= 200 and not there, {"success": there, "reward_terms": terms}


class Court(gym.Env[np.ndarray, np.int64]):
    """Win a rally game in which losing costs; a fourth action asks for a pause, in which nothing happens."""

    def __init__(self, pause: bool, loss: float) -> None:
        self.pause, self.loss = pause, loss
        self.observation_space = spaces.Box(-1, 1, (3,), np.float32)
        self.action_space = spaces.Discrete(4 if pause else 3)

    def _obs(self) -> np.ndarray:
        return np.array([self.ball, self.paddle, self.score / 5], np.float32)

    def _serve(self) -> None:
        self.ball, self.until = float(self.np_random.uniform(-0.9, 0.9)), 6

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.paddle, self.score, self.clock = 0.0, 0, 0
        self._serve()
        return self._obs(), {}

    def step(self, action: np.int64) -> Step:
        self.clock += 1
        reward, over = 0.0, False
        if action < 3:
            self.paddle = float(np.clip(self.paddle + (int(action) - 1) * 0.2, -1, 1))
            self.until -= 1
            if self.until == 0:
                hit = abs(self.paddle - self.ball) < 0.2
                self.score += 1 if hit else 0
                reward, over = (1.0, self.score == 5) if hit else (-self.loss, True)
                self._serve()
        else:
            reward = 0.05
        return self._obs(), reward, over, self.clock >= 300 and not over, {"is_success": self.score == 5}


class Desk(gym.Env[np.ndarray, np.ndarray]):
    """A service desk with three queues (MultiDiscrete: queue, verb). Tickets are opened and closed; done when eight are closed."""

    def __init__(self, opening_pays: float, closing_pays: float) -> None:
        self.opening_pays, self.closing_pays = opening_pays, closing_pays
        self.observation_space = spaces.Box(0, 1, (4,), np.float32)
        self.action_space = spaces.MultiDiscrete([3, 3])

    def _obs(self) -> np.ndarray:
        return np.array([*np.minimum(self.queue / 20, 1), self.closed / 8], np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.queue, self.closed, self.clock = self.np_random.integers(1, 4, 3).astype(float), 0, 0
        return self._obs(), {}

    def step(self, action: np.ndarray) -> Step:
        which, verb = int(action[0]), int(action[1])
        self.clock += 1
        reward = -0.02
        if verb == 0:
            self.queue[which] += 1
            reward += self.opening_pays
        elif verb == 1 and self.queue[which] > 0:
            self.queue[which] -= 1
            self.closed += 1
            reward += self.closing_pays
        over = self.closed >= 8
        return self._obs(), reward, over, self.clock >= 250 and not over, {"is_success": over}


class Arena(gym.Env[np.ndarray, np.ndarray]):
    """A vehicle that must park at a place; every step costs its distance, and beyond the fence the episode ends with `fence`."""

    def __init__(self, fence: float, parked: float, success: bool = True) -> None:
        self.fence, self.parked, self.success = fence, parked, success
        self.observation_space = spaces.Box(-4, 4, (5,), np.float32)
        self.action_space = spaces.Box(np.array([-1, -1], np.float32), np.array([1, 1], np.float32))

    def _obs(self) -> np.ndarray:
        return np.array([*self.at, np.cos(self.heading), np.sin(self.heading), self.speed], np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.at, self.heading, self.speed, self.clock = self.np_random.uniform(-0.8, -0.6, 2), float(self.np_random.uniform(-3, 3)), 0.0, 0
        return self._obs(), {}

    def step(self, action: np.ndarray) -> Step:
        gas, wheel = np.clip(action, -1, 1)
        self.speed = float(np.clip(0.9 * self.speed + 0.03 * gas, -0.05, 0.05))
        self.heading += 0.4 * float(wheel)
        self.at = self.at + self.speed * np.array([np.cos(self.heading), np.sin(self.heading)])
        self.clock += 1
        distance = float(np.linalg.norm(self.at - 0.5))
        there, out = distance < 0.2, bool(np.abs(self.at).max() > 1)
        reward = -distance + (self.parked if there else self.fence if out else 0.0)
        info = {"is_success": there} if self.success else {}
        return self._obs(), reward, there or out, self.clock >= 300 and not (there or out), info


class Pictures(gym.Env[np.ndarray, np.int64]):
    """A garden seen as a picture: berries pay, the gate in the corner ends the day. With `grows` berries come back at once."""

    def __init__(self, grows: bool, gate: float, side: int = 6) -> None:
        self.grows, self.gate, self.side = grows, gate, side
        self.observation_space = spaces.Box(0, 255, (side * 6, side * 6, 3), np.uint8)
        self.action_space = spaces.Discrete(5)

    def _obs(self) -> np.ndarray:
        cells = np.zeros((self.side, self.side, 3), np.uint8)
        cells[self.side - 1, self.side - 1] = (0, 0, 255)
        for row, column in self.berries:
            cells[row, column] = (255, 0, 0)
        cells[tuple(self.at)] = (255, 255, 255)
        return cells.repeat(6, 0).repeat(6, 1)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.at, self.clock, self.eaten, self.berries = [0, 0], 0, 0, {(0, 2), (2, 0), (2, 3)}
        self.all = frozenset(self.berries)
        return self._obs(), {}

    def step(self, action: np.int64) -> Step:
        down, right = ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0))[int(action)]
        self.at = [min(max(self.at[0] + down, 0), self.side - 1), min(max(self.at[1] + right, 0), self.side - 1)]
        self.clock += 1
        here = (self.at[0], self.at[1])
        reward = -0.01
        if here in self.berries:
            self.berries = self.berries - {here}
            self.eaten += 1
            reward += 1.0
        elif self.grows:
            self.berries = set(self.all) - {here}
        over = here == (self.side - 1, self.side - 1)
        reward += self.gate if over else 0.0
        return self._obs(), reward, over, self.clock >= 150 and not over, {"eaten": self.eaten}


class Bicycle(gym.Env[np.ndarray, np.ndarray]):
    """Ride to a far place. Getting nearer is paid; getting further is free (`free`) or taken back. Riding in circles farms the first."""

    def __init__(self, free: bool) -> None:
        self.free = free
        self.observation_space = spaces.Box(-20, 20, (4,), np.float32)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)

    def _obs(self) -> np.ndarray:
        return np.array([*self.at, np.cos(self.heading), np.sin(self.heading)], np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.at, self.heading, self.clock = np.zeros(2), float(self.np_random.uniform(-np.pi, np.pi)), 0
        return self._obs(), {}

    def step(self, action: np.ndarray) -> Step:
        goal = np.array([6.0, 0.0])
        before = float(np.linalg.norm(self.at - goal))
        self.heading += 0.25 * float(np.clip(action[0], -1, 1))
        self.at = np.clip(self.at + 0.2 * np.array([np.cos(self.heading), np.sin(self.heading)]), -12, 12)
        self.clock += 1
        nearer = before - float(np.linalg.norm(self.at - goal))
        over = bool(np.linalg.norm(self.at - goal) < 0.5)
        reward = (max(nearer, 0.0) if self.free else nearer) + (3.0 if over else 0.0)
        return self._obs(), reward, over, self.clock >= 400 and not over, {"is_success": over, "distance": before - nearer}


class Patrol(gym.Env[np.int64, np.int64]):
    """A robot with six rooms to visit and a dock; Discrete observation. Docking pays `dock`, each new room `room`."""

    def __init__(self, dock: float, room: float, again: bool) -> None:
        self.dock, self.room, self.again = dock, room, again
        self.observation_space = spaces.Discrete(7 * 64)
        self.action_space = spaces.Discrete(3)

    def _obs(self) -> np.int64:
        return np.int64(self.at * 64 + sum(1 << each for each in self.seen))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.int64, dict[str, Any]]:
        super().reset(seed=seed)
        self.at, self.clock, self.seen, self.docked, self.docks = 1, 0, set[int](), False, 0
        return self._obs(), {}

    def step(self, action: np.int64) -> Step:
        self.clock += 1
        self.at = int(np.clip(self.at + (int(action) - 1), 0, 6))
        reward = -0.05
        if self.at == 0 and not self.docked and (self.again or self.docks == 0):
            reward, self.docks = reward + self.dock, self.docks + 1
        self.docked = self.at == 0
        if self.at and self.at - 1 not in self.seen:
            self.seen.add(self.at - 1)
            reward += self.room
        over = len(self.seen) == 6
        return self._obs(), reward, over, self.clock >= 120 and not over, {"is_success": over}


class Hover(gym.Env[np.ndarray, np.ndarray]):
    """Stay near a height: the purpose is to stay. Success is having stayed to the end (or is not reported)."""

    def __init__(self, success: bool) -> None:
        self.success = success
        self.observation_space = spaces.Box(-5, 5, (2,), np.float32)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.state, self.clock = np.array([self.np_random.uniform(-0.5, 0.5), 0.0]), 0
        return self.state.astype(np.float32), {}

    def step(self, action: np.ndarray) -> Step:
        height, speed = self.state
        speed = 0.95 * speed + 0.1 * float(np.clip(action[0], -1, 1)) + 0.02 * float(self.np_random.normal()) - 0.03
        self.state = np.array([height + 0.1 * speed, speed])
        self.clock += 1
        crashed = abs(self.state[0]) > 1.5
        late = self.clock >= 200 and not crashed
        info = {"is_success": late} if self.success and (late or crashed) else {}
        return self.state.astype(np.float32), 1.0 - abs(float(self.state[0])), crashed, late, info


class Laps(gym.Env[np.ndarray, np.int64]):
    """A ring road: every lap pays, the race is three laps long, and turning back is taken off."""

    def __init__(self, backwards_pays: bool) -> None:
        self.backwards_pays = backwards_pays
        self.observation_space = spaces.Box(-1, 1, (3,), np.float32)
        self.action_space = spaces.Discrete(3)

    def _obs(self) -> np.ndarray:
        angle = 2 * np.pi * self.at / 10
        return np.array([np.cos(angle), np.sin(angle), np.clip(self.at / 30, -1, 1)], np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.at, self.clock = 0, 0
        return self._obs(), {}

    def step(self, action: np.int64) -> Step:
        before = self.at
        self.at += int(action) - 1
        self.clock += 1
        crossed = self.at // 10 - before // 10
        reward = 2.0 * (abs(crossed) if self.backwards_pays else crossed) - 0.01
        over = self.at >= 30
        return self._obs(), reward + (1.0 if over else 0.0), over, self.clock >= 200 and not over, {"is_success": over}


class Forage(gym.Env[np.ndarray, np.int64]):
    """Collect for as long as the day lasts: the purpose is to collect, nothing ends it, and there is no success to report."""

    observation_space = spaces.Box(0, 1, (4,), np.float32)
    action_space = spaces.Discrete(4)

    def _obs(self) -> np.ndarray:
        return np.array([*self.at, *self.food], np.float32) / 7

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.at, self.food, self.clock = np.array([3, 3]), self.np_random.integers(0, 8, 2), 0
        return self._obs(), {}

    def step(self, action: np.int64) -> Step:
        self.at = np.clip(self.at + ((0, 1), (1, 0), (0, -1), (-1, 0))[int(action)], 0, 7)
        self.clock += 1
        eaten = bool((self.at == self.food).all())
        if eaten:
            self.food = self.np_random.integers(0, 8, 2)
        return self._obs(), float(eaten), False, self.clock >= 150, {}


FARMABLE: Final[dict[str, Callable[[], Any]]] = {
    "buoys that come back, the race need not be finished": lambda: Boat(respawns=True),
    "holding the block pays at every step, the tray once (Dict)": lambda: Grasp(0.3, once=False),
    "a pause that pays, in a game that can be lost": lambda: Court(pause=True, loss=1.0),
    "tickets pay when they are opened (MultiDiscrete)": lambda: Desk(opening_pays=0.2, closing_pays=0.5),
    "leaving the arena ends the costs": lambda: Arena(fence=0.0, parked=5.0),
    "berries that grow back, seen as pictures, success not reported": lambda: Pictures(grows=True, gate=5.0),
    "riding in circles (Randlov and Alstrom)": lambda: Bicycle(free=True),
    "a dock that pays at every docking (Discrete observation)": lambda: Patrol(dock=1.0, room=0.5, again=True),
    "a lap line that pays in both directions": lambda: Laps(backwards_pays=True),
}
SOUND: Final[dict[str, Callable[[], Any]]] = {
    "buoys that pay once": lambda: Boat(respawns=False),
    "touching pays once (Dict)": lambda: Grasp(0.3, once=True),
    "a game without a pause": lambda: Court(pause=False, loss=1.0),
    "tickets pay when they are closed": lambda: Desk(opening_pays=0.0, closing_pays=0.5),
    "leaving the arena costs more than parking": lambda: Arena(fence=-400.0, parked=5.0),
    "leaving the arena costs twice what parking does": lambda: Arena(fence=-50.0, parked=5.0),
    "leaving the arena costs, success not reported": lambda: Arena(fence=-400.0, parked=5.0, success=False),
    "berries that pay once, pictures": lambda: Pictures(grows=False, gate=5.0),
    "riding away is taken back": lambda: Bicycle(free=False),
    "a dock that pays once": lambda: Patrol(dock=1.0, room=0.5, again=False),
    "laps are the race, backwards is taken off": lambda: Laps(backwards_pays=False),
    "staying is the purpose, success at the end": lambda: Hover(success=True),
    "staying is the purpose, success not reported": lambda: Hover(success=False),
    "collecting is the purpose": lambda: Forage(),
}
