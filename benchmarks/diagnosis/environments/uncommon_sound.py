"""Sound environments of kinds that no other set has, each with a player that knows what to do: what it earns says what solved means.

A game against a scripted opponent, a code to be remembered, rare jackpots, several frames a step, a rudder that answers late, goals that
are drawn again, shaping by potentials, costs beside the reward, orders that are refused, quotes on both sides, tokens, a lighthouse in
the dark, levels of different length, cooldowns, batteries, a harvest after a season, betting, a plant without chance, one-step episodes,
a question of when to stop, a noisy radar, a match with a clock, a queue in bursts, notes on a beat, moves in two phases, a decision at
every third step. They were written before anything examined them, and nothing is planted in them: `diagnose --env` must not blame any.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

import gymnasium as gym
import numpy as np
from gymnasium import spaces

Answer = tuple[Any, float, bool, bool, dict[str, Any]]
Start = tuple[Any, dict[str, Any]]


class ThreeInAColumn(gym.Env[Any, Any]):
    """Stones fall into five columns of four; three in a line win. The other side wins where it can, blocks, or plays anywhere."""

    observation_space = spaces.Box(-1, 1, (4, 5), np.int8)
    action_space = spaces.Discrete(5)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.board = np.zeros((4, 5), np.int8)
        if self.np_random.random() < 0.5:
            self._drop(int(self.np_random.integers(5)), -1)
        return self.board.copy(), {}

    def _drop(self, column: int, side: int) -> bool:
        free = np.flatnonzero(self.board[:, column] == 0)
        if not len(free):
            return False
        self.board[free[-1], column] = side
        return True

    def wins(self, side: int) -> bool:
        mine = self.board == side
        for row in range(4):
            for column in range(5):
                for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                    cells = [(row + down * k, column + right * k) for k in range(3)]
                    if all(0 <= r < 4 and 0 <= c < 5 and mine[r, c] for r, c in cells):
                        return True
        return False

    def find_win(self, side: int) -> int | None:
        for column in range(5):
            kept = self.board.copy()
            won = self._drop(column, side) and self.wins(side)
            self.board = kept
            if won:
                return column
        return None

    def step(self, action: Any) -> Answer:
        if not self._drop(int(action), 1):
            return self.board.copy(), -1.0, True, False, {"lost": "the column was full"}
        if self.wins(1):
            return self.board.copy(), 1.0, True, False, {}
        free = np.flatnonzero((self.board == 0).any(0))
        if not len(free):
            return self.board.copy(), 0.0, True, False, {}
        answer = self.find_win(-1)
        if answer is None:
            answer = self.find_win(1) if self.np_random.random() < 0.7 else None
        self._drop(int(self.np_random.choice(free)) if answer is None else answer, -1)
        if self.wins(-1):
            return self.board.copy(), -1.0, True, False, {}
        return self.board.copy(), 0.0, not (self.board == 0).any(), False, {}


def play_columns(env: Any, obs: Any) -> Any:
    free = np.flatnonzero((env.board == 0).any(0))
    for side in (1, -1):
        if (column := env.find_win(side)) is not None:
            return column
    return min(free, key=lambda column: abs(int(column) - 2))


class Safe(gym.Env[Any, Any]):
    """Two digits of a safe are shown for one moment; after a walk of some steps they are asked for, one after the other."""

    observation_space = spaces.Box(0, 1, (10,), np.float32)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.code = self.np_random.integers(4, size=2)
        self.walk = int(self.np_random.integers(3, 7))
        self.moment = 0
        return self._see(), {}

    def _see(self) -> Any:
        seen = np.zeros(10, np.float32)
        if self.moment == 0:
            seen[self.code[0]] = seen[4 + self.code[1]] = 1.0
        elif self.moment >= self.walk:
            seen[8 + min(self.moment - self.walk, 1)] = 1.0
        return seen

    def step(self, action: Any) -> Answer:
        asked = self.moment - self.walk
        reward = 0.0
        if asked >= 0:
            reward = 0.5 if int(action) == self.code[asked] else -0.25
        self.moment += 1
        return self._see(), reward, asked == 1, False, {}


def open_safe(env: Any, obs: Any) -> Any:
    return int(env.code[min(max(env.moment - env.walk, 0), 1)])


class Wildcat(gym.Env[Any, Any]):
    """Drilling for oil: nearly every hole costs a little and gives nothing, and a few pay a lot; readings say where they are likelier."""

    observation_space = spaces.Box(0, 1, (7,), np.float32)
    action_space = spaces.Discrete(7)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.holes = 0
        self._survey()
        return self._see(), {}

    def _survey(self) -> None:
        self.promise = self.np_random.random(6)

    def _see(self) -> Any:
        return np.append(self.promise, self.holes / 50).astype(np.float32)

    def step(self, action: Any) -> Answer:
        self.holes += 1
        reward = 0.0
        if int(action) < 6:
            reward = -0.2
            if self.np_random.random() < 0.08 * self.promise[int(action)] ** 3:
                reward += float(5.0 * np.exp(0.8 * self.np_random.standard_normal()))
        self._survey()
        return self._see(), reward, False, self.holes >= 50, {}


def drill(env: Any, obs: Any) -> Any:
    return int(np.argmax(obs[:6])) if obs[:6].max() > 0.8 else 6


class Slalom(gym.Env[Any, Any]):
    """Steering between gates; the physics runs at four frames for each action, and a gate that is missed costs."""

    observation_space = spaces.Box(-np.inf, np.inf, (5,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)
    frame_skip = 4

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.x, self.vx, self.y = float(self.np_random.uniform(-0.3, 0.3)), 0.0, 0.0
        self.gates = [float(each) for each in self.np_random.uniform(-1, 1, 13)]
        self.passed = 0
        return self._see(), {}

    def _see(self) -> Any:
        ahead = self.gates[self.passed] - self.x
        return np.array([self.x, self.vx, ahead, self.gates[min(self.passed + 1, 12)] - self.x, self.passed + 1 - self.y], np.float32)

    def step(self, action: Any) -> Answer:
        reward = 0.0
        push = float(np.clip(action[0], -1, 1))
        for _ in range(self.frame_skip):
            self.vx += 0.05 * (6 * push - self.vx)
            self.x += 0.05 * self.vx
            self.y += 0.03
            if self.y >= self.passed + 1:
                reward += 1.0 if abs(self.x - self.gates[self.passed]) < 0.25 else -0.5
                self.passed += 1
                if self.passed == 12:
                    return self._see(), reward, True, False, {}
        return self._see(), reward - 0.01 * push**2, False, False, {}


def ski(env: Any, obs: Any) -> Any:
    return np.array([np.clip(2.5 * obs[2] - 0.35 * obs[1], -1, 1)], np.float32)


class Tanker(gym.Env[Any, Any]):
    """A ship is held on a course: orders to the rudder are carried out three steps later, and those on their way are shown."""

    observation_space = spaces.Box(-np.inf, np.inf, (6,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.heading = float(self.np_random.uniform(-0.8, 0.8))
        self.turn = 0.0
        self.drift = float(self.np_random.uniform(-0.01, 0.01))
        self.orders = [0, 0, 0]
        self.t = 0
        return self._see(), {}

    def _see(self) -> Any:
        return np.array([self.heading, 10 * self.turn, 50 * self.drift, *self.orders], np.float32)

    def step(self, action: Any) -> Answer:
        self.orders.append(int(action) - 1)
        rudder = self.orders.pop(0)
        self.turn = 0.9 * self.turn + 0.02 * rudder + self.drift
        self.heading += self.turn
        self.t += 1
        lost = abs(self.heading) > 2.5
        return self._see(), float(np.exp(-4 * self.heading**2)) - 5.0 * lost, lost, self.t >= 150, {}


def steer(env: Any, obs: Any) -> Any:
    coming = obs[0] + 5 * obs[1] / 10 + 0.1 * obs[2] + 0.06 * obs[3:].sum()
    return 0 if coming > 0.05 else 2 if coming < -0.05 else 1


class Pegs(gym.Env[Any, Any]):
    """A goal environment: 0 where the goal in a plane is reached, -1 elsewhere, and a goal that is reached is drawn anew."""

    observation_space = spaces.Dict(
        {
            "observation": spaces.Box(-2, 2, (4,), np.float32),
            "achieved_goal": spaces.Box(-2, 2, (2,), np.float32),
            "desired_goal": spaces.Box(-2, 2, (2,), np.float32),
        }
    )
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-0.2, 0.2, 2)
        self.speed = np.zeros(2)
        self.goal = self.np_random.uniform(-1, 1, 2)
        self.t = 0
        return self._see(), {}

    def _see(self) -> Any:
        return {
            "observation": np.concatenate([self.place, self.speed]).astype(np.float32),
            "achieved_goal": self.place.astype(np.float32),
            "desired_goal": self.goal.astype(np.float32),
        }

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -(np.linalg.norm(achieved - desired, axis=-1) > 0.3).astype(np.float32)

    def step(self, action: Any) -> Answer:
        self.speed = np.clip(0.7 * self.speed + 0.1 * np.clip(action, -1, 1), -0.5, 0.5)
        self.place = np.clip(self.place + self.speed, -1.5, 1.5)
        self.t += 1
        reward = float(self.compute_reward(self.place, self.goal, {}))
        if reward == 0.0:
            self.goal = self.np_random.uniform(-1, 1, 2)
        return self._see(), reward, False, self.t >= 80, {"is_success": reward == 0.0}


def reach(env: Any, obs: Any) -> Any:
    return np.clip(3 * (obs["desired_goal"] - obs["achieved_goal"]) - 2 * obs["observation"][2:], -1, 1).astype(np.float32)


class Ledge(gym.Env[Any, Any]):
    """A climb that pays at the top alone, with the differences of a potential added: they cancel around every circle."""

    observation_space = spaces.MultiDiscrete([9, 9])
    action_space = spaces.Discrete(4)
    gamma = 0.99

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.at = np.array([0, int(self.np_random.integers(9))])
        self.t = 0
        return self.at.copy(), {}

    def potential(self) -> float:
        return 0.1 * float(self.at[0]) - 0.05 * abs(float(self.at[1]) - 4)

    def step(self, action: Any) -> Answer:
        before = self.potential()
        move = ((1, 0), (-1, 0), (0, 1), (0, -1))[int(action)]
        # The wall can be climbed in the middle and at the edges only.
        if move[0] != 1 or self.at[1] in (0, 4, 8):
            self.at = np.clip(self.at + move, 0, 8)
        self.t += 1
        top = bool(self.at[0] == 8)
        after = 0.0 if top else self.potential()
        return self.at.copy(), 5.0 * top + self.gamma * after - before, top, self.t >= 120, {}


def climb(env: Any, obs: Any) -> Any:
    return 0 if obs[1] in (0, 4, 8) else 3 if obs[1] in (1, 5) else 2


class Minefield(gym.Env[Any, Any]):
    """A rover is paid for getting nearer to its goal; what hazards cost is told beside the reward, as safe learning asks."""

    observation_space = spaces.Box(-np.inf, np.inf, (10,), np.float32)
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.rover = self.np_random.uniform(-1, 1, 2)
        self.goal = self.np_random.uniform(-1, 1, 2)
        self.hazards = self.np_random.uniform(-1, 1, (3, 2))
        self.t = 0
        return self._see(), {}

    def _see(self) -> Any:
        return np.concatenate([self.rover, self.goal - self.rover, (self.hazards - self.rover).ravel()]).astype(np.float32)

    def step(self, action: Any) -> Answer:
        before = float(np.linalg.norm(self.goal - self.rover))
        self.rover = np.clip(self.rover + 0.1 * np.clip(action, -1, 1), -1.2, 1.2)
        after = float(np.linalg.norm(self.goal - self.rover))
        reward = 5.0 * (before - after)
        if after < 0.15:
            reward += 1.0
            self.goal = self.np_random.uniform(-1, 1, 2)
        cost = float((np.linalg.norm(self.hazards - self.rover, axis=1) < 0.25).any())
        self.t += 1
        return self._see(), reward, False, self.t >= 100, {"cost": cost}


def drive(env: Any, obs: Any) -> Any:
    return np.clip(10 * obs[2:4], -1, 1).astype(np.float32)


class JobShop(gym.Env[Any, Any]):
    """Six jobs on one machine: an order for a job that is done, or while the machine is busy, is refused and only time passes."""

    observation_space = spaces.Box(0, 1, (20,), np.float32)
    action_space = spaces.Discrete(7)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.length = self.np_random.integers(1, 6, 6)
        self.weight = self.np_random.integers(1, 6, 6)
        self.waiting = np.ones(6, bool)
        self.busy, self.job, self.t = 0, -1, 0
        return self._see(), {"action_mask": self._mask()}

    def _mask(self) -> Any:
        return np.append(self.waiting & (self.busy == 0), True).astype(np.int8)

    def _see(self) -> Any:
        return np.concatenate([self.length / 5, self.weight / 5, self.waiting, [self.busy / 5, self.t / 60]]).astype(np.float32)

    def step(self, action: Any) -> Answer:
        job = int(action)
        if job < 6 and self.busy == 0 and self.waiting[job]:
            self.waiting[job] = False
            self.busy, self.job = int(self.length[job]), job
        self.t += 1
        held = float(self.weight[self.waiting].sum()) + (float(self.weight[self.job]) if self.busy else 0.0)
        self.busy = max(0, self.busy - 1)
        finished = not self.waiting.any() and self.busy == 0
        return self._see(), -held / 18, finished, self.t >= 60, {"action_mask": self._mask()}


def schedule(env: Any, obs: Any) -> Any:
    worth = np.where(env.waiting, env.weight / env.length, -1.0)
    return int(np.argmax(worth)) if env.busy == 0 and env.waiting.any() else 6


class Quotes(gym.Env[Any, Any]):
    """Making a market: how far from the price one buys and sells; what is held is priced anew at every tick."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = spaces.MultiDiscrete([4, 4])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.held, self.volatility, self.t = 0, float(self.np_random.uniform(0.05, 0.2)), 0
        return self._see(), {}

    def _see(self) -> Any:
        return np.array([self.held / 10, 5 * self.volatility, self.t / 200], np.float32)

    def step(self, action: Any) -> Answer:
        reward = 0.0
        for side, offset in zip((1, -1), action, strict=True):
            if abs(self.held + side) <= 10 and self.np_random.random() < 0.9 * np.exp(-0.7 * float(offset)):
                self.held += side
                reward += 0.05 * (float(offset) + 0.5)
        reward += self.held * self.volatility * 0.5 * float(self.np_random.standard_normal())
        reward -= 0.002 * self.held**2
        self.t += 1
        return self._see(), reward, False, self.t >= 200, {}


def quote(env: Any, obs: Any) -> Any:
    held = 10 * obs[0]
    return np.array([1 + (held > 0) + (held > 2), 1 + (held < 0) + (held < -2)])


class Typist(gym.Env[Any, Any]):
    """A word of five letters is typed backwards; what was typed so far stands beside it, as tokens."""

    observation_space = spaces.MultiDiscrete([8] * 10)
    action_space = spaces.Discrete(8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.word = self.np_random.integers(1, 8, 5)
        self.typed: list[int] = []
        return self._see(), {}

    def _see(self) -> Any:
        return np.concatenate([self.word, np.pad(np.array(self.typed, np.int64), (0, 5 - len(self.typed)))])

    def step(self, action: Any) -> Answer:
        right = int(action) == self.word[4 - len(self.typed)]
        self.typed.append(int(action))
        return self._see(), 0.2 * right, len(self.typed) == 5, False, {}


def type_backwards(env: Any, obs: Any) -> Any:
    return int(env.word[4 - len(env.typed)])


class Lighthouse(gym.Env[Any, Any]):
    """A boat at night: the picture is black but for every third frame, when the light goes round."""

    observation_space = spaces.Box(0, 255, (24, 24, 1), np.uint8)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.boat = self.np_random.integers(2, 22, 2)
        self.harbour = self.np_random.integers(4, 20, 2)
        self.t = 0
        return self._draw(), {}

    def _draw(self) -> Any:
        picture = np.zeros((24, 24, 1), np.uint8)
        if self.t % 3 == 0:
            y, x = self.harbour
            picture[y - 2 : y + 3, x - 2 : x + 3] = 120
            picture[self.boat[0], self.boat[1]] = 255
        return picture

    def step(self, action: Any) -> Answer:
        before = np.abs(self.boat - self.harbour).sum()
        self.boat = np.clip(self.boat + ((1, 0), (-1, 0), (0, 1), (0, -1))[int(action)], 0, 23)
        after = np.abs(self.boat - self.harbour).sum()
        self.t += 1
        home = bool(after <= 2)
        return self._draw(), 0.1 * float(before - after) + home - 0.02, home, self.t >= 100, {"is_success": home}


def sail(env: Any, obs: Any) -> Any:
    gap = env.harbour - env.boat
    along = int(np.argmax(np.abs(gap)))
    return 2 * along + int(gap[along] < 0)


class Staircase(gym.Env[Any, Any]):
    """Levels of different length, one after the other, with fewer and fewer steps that hold; a fall ends it."""

    observation_space = spaces.Box(0, 1, (8,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.level, self.t = 0, 0
        self._build()
        return self._see(), {}

    def _build(self) -> None:
        self.length = int(self.np_random.integers(5, 30))
        holds = self.np_random.random(self.length + 6) > 0.12 + 0.04 * self.level
        # Two missing steps are never side by side, and the first holds.
        holds[0] = True
        holds[1:] |= ~holds[:-1]
        self.holds, self.at = holds, 0

    def _see(self) -> Any:
        return np.array([*self.holds[self.at + 1 : self.at + 5], self.at / 30, self.length / 30, self.level / 5, self.t / 200], np.float32)

    def step(self, action: Any) -> Answer:
        self.t += 1
        self.at += int(action)
        reward = 0.05 * int(action)
        if not self.holds[self.at]:
            return self._see(), -1.0, True, False, {"level": self.level}
        if self.at >= self.length:
            reward += 1.0
            self.level += 1
            if self.level == 5:
                return self._see(), reward + 3.0, True, False, {"level": 5}
            self._build()
        return self._see(), reward, False, self.t >= 200, {"level": self.level}


def mount(env: Any, obs: Any) -> Any:
    return 2 if obs[1] else 1 if obs[0] else 0


class Knight(gym.Env[Any, Any]):
    """A blow that needs five steps before it can be struck again, a shield, and an enemy who comes nearer and strikes."""

    observation_space = spaces.Box(0, 1, (5,), np.float32)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.mine, self.theirs = 6, 6
        self.far = int(self.np_random.integers(3, 8))
        self.cooldown = self.swing = self.t = 0
        return self._see(), {}

    def _see(self) -> Any:
        return np.array([self.mine / 6, self.theirs / 6, self.far / 8, self.cooldown / 5, self.swing / 3], np.float32)

    def step(self, action: Any) -> Answer:
        self.t += 1
        reward = -0.01
        self.cooldown = max(0, self.cooldown - 1)
        if int(action) == 1 and self.cooldown == 0:
            self.cooldown = 5
            if self.far <= 1:
                self.theirs -= 2
                reward += 0.5
        elif int(action) == 3:
            self.far = min(8, self.far + 2)
        if self.far > 1:
            self.far -= 1
            self.swing = 0
        else:
            self.swing += 1
            if self.swing == 3:
                self.swing = 0
                if int(action) != 2:
                    self.mine -= 1
                    reward -= 0.4
        if self.theirs <= 0:
            return self._see(), reward + 2.0, True, False, {"won": True}
        return self._see(), reward, self.mine <= 0, self.t >= 120, {"won": False}


def fight(env: Any, obs: Any) -> Any:
    return 2 if env.far <= 1 and env.swing == 2 else 1 if env.far <= 1 and env.cooldown <= 1 else 0


class Prospect(gym.Env[Any, Any]):
    """A rover that stops for good when its battery is empty; it gathers stones in the dark and charges in the sun."""

    observation_space = spaces.Box(-1, 1, (4,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.battery, self.place, self.t = 10.0, 0, int(self.np_random.integers(24))
        self.began = self.t
        return self._see(), {}

    def _see(self) -> Any:
        hour = 2 * np.pi * self.t / 24
        return np.array([self.battery / 20, self.place / 5, np.sin(hour), np.cos(hour)], np.float32)

    def step(self, action: Any) -> Answer:
        self.t += 1
        sun = max(0.0, float(np.sin(2 * np.pi * self.t / 24)))
        self.place = int(np.clip(self.place + (int(action) == 1) - (int(action) == 0), 0, 5))
        reward = 0.0
        if int(action) == 2:
            self.battery -= 0.6
            reward = 0.2 * self.place
        else:
            self.battery -= 0.5
        # The crater is dark; the rim is not.
        self.battery = min(20.0, self.battery + 1.8 * sun * (self.place == 0))
        empty = self.battery <= 0
        return self._see(), reward, empty, self.t - self.began >= 240, {}


def dig(env: Any, obs: Any) -> Any:
    if env.battery > 13 or (env.battery > 6 and env.place > 0):
        return 1 if env.place < 4 else 2
    return 0


class Orchardist(gym.Env[Any, Any]):
    """Water and fertilizer through a season of forty days; each costs at once, and the harvest pays at the end alone."""

    observation_space = spaces.Box(0, 2, (4,), np.float32)
    action_space = spaces.MultiDiscrete([3, 2])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.day, self.moist, self.soil, self.grown = 0, float(self.np_random.uniform(0.3, 0.7)), 0.5, 0.0
        return self._see(), {}

    def _see(self) -> Any:
        return np.array([self.day / 40, self.moist, self.soil, self.grown / 10], np.float32)

    def step(self, action: Any) -> Answer:
        water, feed = int(action[0]), int(action[1])
        rain = float(self.np_random.random() < 0.15) * 0.3
        self.moist = float(np.clip(0.88 * self.moist + 0.08 * water + rain, 0, 1.5))
        self.soil = float(np.clip(0.95 * self.soil + 0.1 * feed, 0, 1.5))
        self.grown += 0.4 * self.soil * float(np.exp(-8 * (self.moist - 0.6) ** 2))
        self.day += 1
        reward = -0.02 * water - 0.04 * feed
        over = self.day == 40
        return self._see(), reward + (self.grown if over else 0.0), over, False, {}


def tend(env: Any, obs: Any) -> Any:
    return np.array([2 if env.moist < 0.5 else 1 if env.moist < 0.62 else 0, int(env.soil < 1.3 and env.day < 34)])


class Stakes(gym.Env[Any, Any]):
    """Stakes on coins of known bias, paid by the logarithm of one's fortune; who has nearly nothing left is out."""

    observation_space = spaces.Box(-10, 10, (2,), np.float32)
    action_space = spaces.Box(0, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.log, self.tosses = 0.0, 0
        self.odds = float(self.np_random.uniform(0.3, 0.8))
        return self._see(), {}

    def _see(self) -> Any:
        return np.array([self.log, self.odds], np.float32)

    def step(self, action: Any) -> Answer:
        stake = 0.95 * float(np.clip(action[0], 0, 1))
        won = self.np_random.random() < self.odds
        gain = float(np.log1p(stake if won else -stake))
        self.log += gain
        self.tosses += 1
        self.odds = float(self.np_random.uniform(0.3, 0.8))
        ruined = self.log < -3
        return self._see(), gain, ruined, self.tosses >= 60, {}


def stake(env: Any, obs: Any) -> Any:
    return np.array([max(0.0, 2 * obs[1] - 1)], np.float32)


class Plant(gym.Env[Any, Any]):
    """A power plant against the demand of a day that is always the same: no chance at all, and costs alone."""

    observation_space = spaces.Box(-2, 2, (4,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.power, self.hour = 0.5, 0
        return self._see(), {}

    def demand(self, hour: int) -> float:
        return 0.6 + 0.3 * float(np.sin(2 * np.pi * (hour - 6) / 24)) + 0.1 * float(np.sin(4 * np.pi * hour / 24))

    def _see(self) -> Any:
        angle = 2 * np.pi * self.hour / 24
        return np.array([self.power, self.demand(self.hour), np.sin(angle), np.cos(angle)], np.float32)

    def step(self, action: Any) -> Answer:
        ramp = 0.15 * float(np.clip(action[0], -1, 1))
        self.power = float(np.clip(self.power + ramp, 0, 1.2))
        self.hour += 1
        miss = self.power - self.demand(self.hour)
        cost = 4 * miss**2 + 0.2 * self.power + 0.5 * abs(ramp)
        return self._see(), -cost, False, self.hour >= 96, {}


def ramp(env: Any, obs: Any) -> Any:
    return np.array([np.clip((env.demand(env.hour + 1) - env.power) / 0.15, -1, 1)], np.float32)


class Ads(gym.Env[Any, Any]):
    """Which of five advertisements to show to a visitor: every episode is one visitor, and one click or none."""

    observation_space = spaces.Box(-np.inf, np.inf, (6,), np.float32)
    action_space = spaces.Discrete(5)
    weights = np.random.default_rng(11).normal(size=(5, 6))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.visitor = self.np_random.normal(size=6)
        return self.visitor.astype(np.float32), {}

    def step(self, action: Any) -> Answer:
        liking = float(self.weights[int(action)] @ self.visitor)
        clicked = bool(self.np_random.random() < 1 / (1 + np.exp(2 - 2 * liking)))
        return self.visitor.astype(np.float32), float(clicked), True, False, {}


def show(env: Any, obs: Any) -> Any:
    return int(np.argmax(env.weights @ env.visitor))


class Suitors(gym.Env[Any, Any]):
    """Offers come one after the other, and the one that is taken is paid; what was let go does not come back."""

    observation_space = spaces.Box(0, 3, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.left = 12
        self.offer = self.best = float(self.np_random.random())
        return self._see(), {}

    def _see(self) -> Any:
        return np.array([self.offer, self.best, self.left / 12], np.float32)

    def step(self, action: Any) -> Answer:
        if int(action) == 1 or self.left == 1:
            return self._see(), self.offer, True, False, {}
        self.left -= 1
        self.offer = float(self.np_random.random())
        self.best = max(self.best, self.offer)
        return self._see(), 0.0, False, False, {}


def choose(env: Any, obs: Any) -> Any:
    return int(env.offer > 1 - 1 / (env.left + 0.5))


class Radar(gym.Env[Any, Any]):
    """An antenna follows an aircraft by readings that are noisy, as readings are; how noisy they are is shown."""

    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.target, self.pace = float(self.np_random.uniform(-1, 1)), float(self.np_random.uniform(-0.05, 0.05))
        self.aim, self.rate, self.t = 0.0, 0.0, 0
        self.fog = float(self.np_random.uniform(0.02, 0.15))
        return self._see(), {}

    def _see(self) -> Any:
        reading = self.target + self.fog * self.np_random.standard_normal()
        return np.array([reading - self.aim, self.rate, self.fog, self.aim], np.float32)

    def step(self, action: Any) -> Answer:
        self.pace += 0.01 * float(self.np_random.standard_normal()) - 0.01 * self.target
        self.target += self.pace
        self.rate = 0.6 * self.rate + 0.08 * float(np.clip(action[0], -1, 1))
        self.aim += self.rate
        miss = abs(self.target - self.aim)
        self.t += 1
        return self._see(), float(max(0.0, 1 - 2 * miss)), miss > 2.5, self.t >= 120, {}


def follow(env: Any, obs: Any) -> Any:
    return np.array([np.clip(8 * (env.target + 2 * env.pace - env.aim) - 6 * env.rate, -1, 1)], np.float32)


class Match(gym.Env[Any, Any]):
    """A match of sixty ticks on a clock that both sides see; it is over when the clock says so, and the goals are what counts."""

    observation_space = spaces.Box(-2, 2, (5,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.clock, self.ours, self.others = 60, 0, 0
        self.ball, self.strength = 0.0, float(self.np_random.uniform(0.2, 0.6))
        return self._see(), {}

    def _see(self) -> Any:
        lead = np.clip((self.ours - self.others) / 5, -1, 1)
        return np.array([self.clock / 60, lead, self.ball, self.strength, 1.0], np.float32)

    def step(self, action: Any) -> Answer:
        self.clock -= 1
        push = {0: 0.15, 1: 0.35, 2: 0.05}[int(action)]
        risk = {0: 0.15, 1: 0.35, 2: 0.05}[int(action)] if self.ball < 0 else 0.1
        self.ball += push * float(self.np_random.random()) - (self.strength * 0.4 + risk * 0.5) * float(self.np_random.random())
        reward = 0.0
        if self.ball > 1:
            self.ours, reward, self.ball = self.ours + 1, 1.0, 0.0
        elif self.ball < -1:
            self.others, reward, self.ball = self.others + 1, -1.0, 0.0
        return self._see(), reward, self.clock == 0, False, {"score": (self.ours, self.others)}


def coach(env: Any, obs: Any) -> Any:
    return 2 if env.ball < 0 else 1


class Counter(gym.Env[Any, Any]):
    """A counter with one to three clerks: people come in bursts, everyone who waits costs, and so does every clerk."""

    observation_space = spaces.Box(0, np.inf, (3,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.waiting, self.burst, self.clerks, self.t = int(self.np_random.integers(4)), False, 1, 0
        return self._see(), {}

    def _see(self) -> Any:
        return np.array([self.waiting / 10, float(self.burst), self.clerks / 3], np.float32)

    def step(self, action: Any) -> Answer:
        self.clerks = int(action) + 1
        if self.np_random.random() < (0.2 if self.burst else 0.06):
            self.burst = not self.burst
        self.waiting += int(self.np_random.poisson(2.2 if self.burst else 0.5))
        self.waiting = min(60, max(0, self.waiting - int(self.np_random.binomial(self.clerks, 0.85))))
        self.t += 1
        return self._see(), -0.05 * self.waiting - 0.15 * self.clerks, False, self.t >= 150, {}


def staff(env: Any, obs: Any) -> Any:
    return 2 if env.waiting > 3 else 1 if env.burst or env.waiting > 1 else 0


class Drummer(gym.Env[Any, Any]):
    """Notes come towards the player on three strings, and one is struck as it arrives; striking beside it costs."""

    observation_space = spaces.MultiBinary((5, 3))
    action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.sheet = np.zeros((5, 3), np.int8)
        self.beat, self.misses = 0, 0
        for _ in range(5):
            self._turn()
        return self.sheet.copy(), {}

    def _turn(self) -> None:
        self.sheet = np.roll(self.sheet, -1, axis=0)
        self.sheet[-1] = 0
        if self.np_random.random() < 0.5:
            self.sheet[-1, self.np_random.integers(3)] = 1

    def step(self, action: Any) -> Answer:
        note = np.flatnonzero(self.sheet[0])
        wanted = int(note[0]) + 1 if len(note) else 0
        right = int(action) == wanted
        self.misses = max(0, self.misses + (-1 if right else 1))
        reward = (1.0 if wanted else 0.0) if right else -0.3
        self.beat += 1
        self._turn()
        return self.sheet.copy(), reward, self.misses >= 12, self.beat >= 120, {}


def drum(env: Any, obs: Any) -> Any:
    note = np.flatnonzero(obs[0])
    return int(note[0]) + 1 if len(note) else 0


class Shepherd(gym.Env[Any, Any]):
    """Every move has two phases: first which of three dogs, then where it goes; what an action means depends on the phase that is shown."""

    observation_space = spaces.Dict({"field": spaces.Box(-1, 1, (8,), np.float32), "phase": spaces.Discrete(4)})
    action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.dogs = self.np_random.uniform(-1, 1, (3, 2))
        self.sheep = self.np_random.uniform(-0.6, 0.6, 2)
        self.chosen, self.moves = 0, 0
        return self._see(), {}

    def _see(self) -> Any:
        return {"field": np.clip(np.append(self.dogs.ravel(), self.sheep), -1, 1).astype(np.float32), "phase": self.chosen}

    def step(self, action: Any) -> Answer:
        if self.chosen == 0:
            self.chosen = 1 + min(int(action), 2)
            return self._see(), 0.0, False, False, {}
        before = float(np.linalg.norm(self.sheep))
        move = np.array(((0, 1), (0, -1), (1, 0), (-1, 0))[int(action)], float)
        dog = self.chosen - 1
        self.dogs[dog] = np.clip(self.dogs[dog] + 0.3 * move, -1, 1)
        for each in self.dogs:
            gap = self.sheep - each
            self.sheep = self.sheep + 0.12 * gap / (0.1 + float(gap @ gap)) * (float(gap @ gap) < 0.5)
        self.sheep = np.clip(self.sheep, -1, 1)
        self.chosen = 0
        self.moves += 1
        after = float(np.linalg.norm(self.sheep))
        penned = after < 0.2
        return self._see(), before - after + 2.0 * penned, penned, self.moves >= 60, {}


def herd(env: Any, obs: Any) -> Any:
    """The dog and the move that leave the sheep nearest to the pen."""
    best, answer = np.inf, (0, 0)
    for dog in range(3):
        for move, way in enumerate(((0, 1), (0, -1), (1, 0), (-1, 0))):
            dogs, sheep = env.dogs.copy(), env.sheep.copy()
            dogs[dog] = np.clip(dogs[dog] + 0.3 * np.array(way, float), -1, 1)
            for each in dogs:
                gap = sheep - each
                sheep = sheep + 0.12 * gap / (0.1 + float(gap @ gap)) * (float(gap @ gap) < 0.5)
            if env.chosen in (0, dog + 1) and float(np.linalg.norm(np.clip(sheep, -1, 1))) < best:
                best, answer = float(np.linalg.norm(np.clip(sheep, -1, 1))), (dog, move)
    return answer[0] if env.chosen == 0 else answer[1]


class Dam(gym.Env[Any, Any]):
    """A gate is set at every third hour; in between it stays where it is, and the clock shows when the next order counts."""

    observation_space = spaces.Box(-1, 2, (6,), np.float32)
    action_space = spaces.Discrete(5)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.level, self.inflow, self.gate, self.hour = float(self.np_random.uniform(0.3, 0.8)), 0.3, 2, 0
        return self._see(), {}

    def _see(self) -> Any:
        phase = self.hour % 3
        return np.array([self.level, self.inflow, self.gate / 4, phase == 0, phase == 1, phase == 2], np.float32)

    def step(self, action: Any) -> Answer:
        if self.hour % 3 == 0:
            self.gate = int(action)
        self.inflow = float(np.clip(0.9 * self.inflow + 0.03 + 0.08 * self.np_random.standard_normal(), 0, 1))
        out = 0.15 * self.gate * self.level
        self.level += 0.2 * (self.inflow - out)
        self.hour += 1
        flooded, dry = self.level > 1.2, self.level < 0.1
        reward = out - 2.0 * (self.level - 0.6) ** 2 - 3.0 * (flooded or dry)
        return self._see(), reward, flooded or dry, self.hour >= 150, {}


def regulate(env: Any, obs: Any) -> Any:
    return int(np.clip(np.round(env.inflow / (0.15 * max(env.level, 0.2)) + 8 * (env.level - 0.7)), 0, 4))


PLAYERS: Final[dict[type[gym.Env[Any, Any]], Callable[[Any, Any], Any]]] = {
    ThreeInAColumn: play_columns,
    Safe: open_safe,
    Wildcat: drill,
    Slalom: ski,
    Tanker: steer,
    Pegs: reach,
    Ledge: climb,
    Minefield: drive,
    JobShop: schedule,
    Quotes: quote,
    Typist: type_backwards,
    Lighthouse: sail,
    Staircase: mount,
    Knight: fight,
    Prospect: dig,
    Orchardist: tend,
    Stakes: stake,
    Plant: ramp,
    Ads: show,
    Suitors: choose,
    Radar: follow,
    Match: coach,
    Counter: staff,
    Drummer: drum,
    Shepherd: herd,
    Dam: regulate,
}
"""Who knows what to do, by environment: they may look where an agent cannot."""
WRAPPED: Final[dict[str, tuple[type[gym.Env[Any, Any]], Callable[[Any], Any]]]] = {
    "Slalom in a limit": (Slalom, lambda env: gym.wrappers.TimeLimit(env, 80)),
    "Tanker, three at a time": (Tanker, lambda env: gym.wrappers.FrameStackObservation(env, 3)),
    "Plant with the time": (Plant, lambda env: gym.wrappers.TimeAwareObservation(gym.wrappers.TimeLimit(env, 96))),
    "Radar, flat and clipped": (Radar, lambda env: gym.wrappers.RecordEpisodeStatistics(gym.wrappers.ClipAction(env))),
    "Match, normalized": (Match, gym.wrappers.NormalizeObservation),
    "Jobs, masked picture of one row": (JobShop, lambda env: gym.wrappers.ReshapeObservation(env, (1, 20))),
}


def _wrap(name: str) -> Any:
    kind, wrapper = WRAPPED[name]
    return wrapper(kind())


SOUND: Final[dict[str, Callable[[], Any]]] = {
    **{kind.__name__: kind for kind in PLAYERS},
    **{name: partial(_wrap, name) for name in WRAPPED},
}


@cache
def threshold(name: str, episodes: int = 100) -> float:
    """What counts as solved: four fifths of the way from random actions to the one who knows."""
    player = PLAYERS[WRAPPED[name][0] if name in WRAPPED else type(SOUND[name]())]
    means = []
    for knows in (False, True):
        env, returns = SOUND[name](), []
        env.action_space.seed(0)
        for seed in range(episodes):
            obs, _ = env.reset(seed=seed)
            total, over = 0.0, False
            while not over:
                obs, reward, terminated, truncated, _ = env.step(
                    player(env.unwrapped, _innermost(env, obs)) if knows else env.action_space.sample()
                )
                total, over = total + float(reward), terminated or truncated
            returns.append(total)
        means.append(float(np.mean(returns)))
    chance, best = means
    return chance + 0.8 * (best - chance)


def _innermost(env: Any, obs: Any) -> Any:
    """What the environment itself shows: wrappers may have stacked it, or added the time."""
    inner = env.unwrapped
    return inner._see() if env is not inner and not isinstance(inner, Radar) and hasattr(inner, "_see") else obs
