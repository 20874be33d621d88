"""Environments of the outside looks: small tasks unlike the usual ones.

Each states its time limit, and which features it cannot do without.
"""

from typing import Any, Final

import gymnasium as gym
import numpy as np

Step = tuple[np.ndarray, float, bool, bool, dict[str, Any]]


def _box(n: int) -> gym.spaces.Box:
    return gym.spaces.Box(-np.inf, np.inf, (n,), np.float32)


class Ferry(gym.Env[np.ndarray, Any]):
    """One boat between two piers: wait or cross. Waiting passengers cost, delivered ones pay."""

    limit: Final = 60
    essential: Final = (0, 1)
    observation_space = _box(5)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.waiting, self.side, self.crossing = self.np_random.integers(0, 4, 2).astype(float), 0, 0
        self.rates = np.array([0.5, 0.2]) if self.np_random.random() < 0.5 else np.array([0.2, 0.5])
        return self._obs(), {}

    def _obs(self) -> np.ndarray:
        return np.array([*(self.waiting / 5), float(self.side), float(self.crossing), self.rates[0] * 2], np.float32)

    def step(self, action: Any) -> Step:
        paid = 0.0
        self.waiting = np.minimum(self.waiting + (self.np_random.random(2) < self.rates), 12)
        if self.crossing:
            self.crossing -= 1
        elif int(action) == 1:
            load = min(self.waiting[self.side], 5.0)
            paid = load - 1.0
            self.waiting[self.side] -= load
            self.side, self.crossing = 1 - self.side, 2
        return self._obs(), float(paid - 0.05 * self.waiting.sum()), False, False, {}


class Irrigation(gym.Env[np.ndarray, Any]):
    """Three fields dry out at different rates; valves in [-1, 1]. Kept near their wish, water costs. A field that dies ends the season."""

    limit: Final = 50
    essential: Final = (0, 1, 2)
    observation_space = _box(6)
    action_space = gym.spaces.Box(-1, 1, (3,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.moisture, self.wish = self.np_random.uniform(0.3, 0.7, 3), self.np_random.uniform(0.3, 0.7, 3)
        return self._obs(), {}

    def _obs(self) -> np.ndarray:
        return np.concatenate([self.moisture - 0.5, self.wish - 0.5]).astype(np.float32) * 3

    def step(self, action: Any) -> Step:
        water = np.clip(action, -1, 1) * 0.5 + 0.5
        self.moisture += 0.12 * water - np.array([0.04, 0.06, 0.05]) + self.np_random.normal(0, 0.005, 3)
        off = np.abs(self.moisture - self.wish)
        dead = bool((self.moisture < 0).any() or (self.moisture > 1.2).any())
        return self._obs(), float(1 - 3 * off.mean() - 0.1 * water.mean() - 5 * dead), dead, False, {}


class LockPick(gym.Env[np.ndarray, Any]):
    """Four pins; one action sets each pin, but only the loosest binds. All four set opens the lock (success), a wrong pick drops one."""

    limit: Final = 40
    essential: Final = (0, 1, 2, 3)
    observation_space = _box(8)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.order, self.done_pins = self.np_random.permutation(4), 0
        return self._obs(), {}

    def _obs(self) -> np.ndarray:
        feel = np.zeros(4)
        if self.done_pins < 4:
            feel[self.order[self.done_pins]] = 1
        placed = np.zeros(4)
        placed[self.order[: self.done_pins]] = 1
        return np.concatenate([feel + self.np_random.normal(0, 0.1, 4), placed]).astype(np.float32)

    def step(self, action: Any) -> Step:
        if int(action) == self.order[self.done_pins]:
            self.done_pins += 1
        elif self.done_pins:
            self.done_pins -= 1
        opened = self.done_pins == 4
        return self._obs(), 1.0 if opened else -0.02, opened, False, {"is_success": opened}


class Slalom(gym.Env[np.ndarray, Any]):
    """A skier drifts sideways with inertia and steers (three actions) through gates; leaving the slope ends the run."""

    limit: Final = 100
    essential: Final = (0, 2)
    observation_space = _box(4)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.x, self.v, self.t = self.np_random.uniform(-0.3, 0.3), 0.0, 0
        self.gate = self.np_random.uniform(-0.6, 0.6)
        return self._obs(), {}

    def _obs(self) -> np.ndarray:
        return np.array([self.x, self.v * 5, self.gate - self.x, (self.t % 10) / 10], np.float32)

    def step(self, action: Any) -> Step:
        self.v += 0.03 * (int(action) - 1) + self.np_random.normal(0, 0.01) + 0.01 * self.x
        self.x += self.v
        self.t += 1
        reward = 0.0
        if self.t % 10 == 0:
            reward = 2.0 if abs(self.x - self.gate) < 0.25 else 0.0
            self.gate = self.np_random.uniform(-0.6, 0.6)
        out = abs(self.x) > 1
        return self._obs(), reward + 0.05 - 3.0 * out, bool(out), False, {}


class Auction(gym.Env[np.ndarray, Any]):
    """Ten sealed bids (five levels) against a rival whose habit shows in the last bid; an item's worth is seen."""

    limit: Final = 10
    essential: Final = (0,)
    observation_space = _box(4)
    action_space = gym.spaces.Discrete(5)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.t, self.rival, self.last = 0, self.np_random.uniform(0.2, 0.8), 0.5
        self.worth = self.np_random.random()
        return self._obs(), {}

    def _obs(self) -> np.ndarray:
        return np.array([self.worth, self.last, self.t / 10, 1.0], np.float32)

    def step(self, action: Any) -> Step:
        bid, other = int(action) / 4, float(np.clip(self.rival * self.worth * 1.2 + self.np_random.normal(0, 0.05), 0, 1))
        won = bid > other
        reward = (self.worth - 0.8 * bid) if won else -0.02
        self.last, self.t, self.worth = other / max(self.worth, 0.1), self.t + 1, self.np_random.random()
        return self._obs(), float(reward), self.t >= 10, False, {}


class Patrol(gym.Env[np.ndarray, Any]):
    """A guard on a 6x6 floor catches a drifting intruder (success); every step costs."""

    limit: Final = 50
    essential: Final = (2, 3, 4, 5)
    observation_space = _box(6)
    action_space = gym.spaces.Discrete(5)
    moves: Final = np.array([[0, 0], [0, 1], [0, -1], [1, 0], [-1, 0]])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.guard, self.thief = self.np_random.integers(0, 6, 2), self.np_random.integers(0, 6, 2)
        return self._obs(), {}

    def _obs(self) -> np.ndarray:
        return np.concatenate([self.guard / 5 - 0.5, self.thief / 5 - 0.5, (self.thief - self.guard) / 3]).astype(np.float32)

    def step(self, action: Any) -> Step:
        self.guard = np.clip(self.guard + self.moves[int(action)], 0, 5)
        if self.np_random.random() < 0.3:
            self.thief = np.clip(self.thief + self.moves[self.np_random.integers(5)], 0, 5)
        caught = bool((self.guard == self.thief).all())
        return self._obs(), 1.0 if caught else -0.05, caught, False, {"is_success": caught}


class Turret(gym.Env[np.ndarray, Any]):
    """A heavy turret follows a target that circles at a drawn speed; torque in [-1, 1]; the squared angle costs."""

    limit: Final = 80
    essential: Final = (1,)
    observation_space = _box(4)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.angle, self.speed = self.np_random.uniform(-np.pi, np.pi), 0.0
        self.drift = self.np_random.uniform(-0.05, 0.05)
        return self._obs(), {}

    def _obs(self) -> np.ndarray:
        return np.array([np.cos(self.angle), np.sin(self.angle), self.speed * 3, self.drift * 10], np.float32)

    def step(self, action: Any) -> Step:
        torque = float(np.clip(np.asarray(action).reshape(-1)[0], -1, 1))
        self.speed = 0.9 * self.speed + 0.06 * torque
        self.angle = (self.angle + self.speed - self.drift + np.pi) % (2 * np.pi) - np.pi
        return self._obs(), float(-(self.angle**2) / 5 - 0.02 * torque**2), False, False, {}


class Docking(gym.Env[np.ndarray, Any]):
    """A boat with momentum in a current docks at a berth (success, +10); distance closed is paid, leaving the harbour ends it."""

    limit: Final = 80
    essential: Final = (0, 1)
    observation_space = _box(6)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.speed = self.np_random.uniform(-0.8, 0.8, 2), np.zeros(2)
        self.current = self.np_random.uniform(-0.01, 0.01, 2)
        return self._obs(), {}

    def _obs(self) -> np.ndarray:
        return np.concatenate([self.place, self.speed * 10, self.current * 50]).astype(np.float32)

    def step(self, action: Any) -> Step:
        before = float(np.linalg.norm(self.place))
        self.speed = 0.8 * self.speed + 0.03 * np.clip(action, -1, 1)
        self.place = self.place + self.speed + self.current
        now = float(np.linalg.norm(self.place))
        docked, lost = now < 0.12, now > 1.6
        reward = 5 * (before - now) - 0.02 + 10 * docked - 5 * lost
        return self._obs(), float(reward), bool(docked or lost), False, {"is_success": docked}


class Brewery(gym.Env[np.ndarray, Any]):
    """Beer is ordered (five sizes), comes three days later, and demand swings with the season: stock costs, lost sales cost more."""

    limit: Final = 50
    essential: Final = (0, 1, 2, 3)
    observation_space = _box(6)
    action_space = gym.spaces.Discrete(5)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.stock, self.coming, self.day = float(self.np_random.integers(0, 20)), [2.0, 2.0, 2.0], int(self.np_random.integers(20))
        return self._obs(), {}

    def _obs(self) -> np.ndarray:
        season = 2 * np.pi * self.day / 20
        return np.array([self.stock / 8 - 1, *(np.array(self.coming) / 4 - 0.5), np.sin(season), np.cos(season)], np.float32)

    def step(self, action: Any) -> Step:
        self.stock += self.coming.pop(0)
        self.coming.append(2.0 * int(action))
        self.day += 1
        wanted = float(self.np_random.poisson(4 + 2.5 * np.sin(2 * np.pi * self.day / 20)))
        sold = min(self.stock, wanted)
        self.stock = min(self.stock - sold, 30.0)
        return self._obs(), float(0.5 * sold - 0.6 * (wanted - sold) - 0.12 * self.stock), False, False, {}


class Relay(gym.Env[np.ndarray, Any]):
    """A courier in a corridor of 9 cells fetches the letter and brings it to a door (success, +5; fetching +1); walking costs."""

    limit: Final = 60
    essential: Final = (1, 2, 3)
    observation_space = _box(4)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.letter, self.door = (int(x) for x in self.np_random.integers(0, 9, 3))
        self.has = False
        return self._obs(), {}

    def _obs(self) -> np.ndarray:
        goal = self.door if self.has else self.letter
        return np.array([self.place / 4 - 1, (goal - self.place) / 4, float(self.has), self.door / 4 - 1], np.float32)

    def step(self, action: Any) -> Step:
        self.place = int(np.clip(self.place + int(action) - 1, 0, 8))
        reward, over = -0.1, False
        if not self.has and self.place == self.letter:
            self.has, reward = True, 1.0
        elif self.has and self.place == self.door:
            reward, over = 5.0, True
        return self._obs(), reward, over, False, {"is_success": over}


class Glider(gym.Env[np.ndarray, Any]):
    """A glider holds its height by bank and pitch in a thermal whose centre drifts; metres gained are paid, the ground ends the flight."""

    limit: Final = 70
    essential: Final = (0, 1)
    observation_space = _box(6)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.offset, self.speed = self.np_random.uniform(-1.5, 1.5, 2), self.np_random.normal(0, 0.02, 2)
        self.height, self.drift = 1.0, self.np_random.uniform(-0.02, 0.02, 2)
        return self._obs(), {}

    def _obs(self) -> np.ndarray:
        return np.array([*self.offset, *(self.speed * 8), self.height, self.drift[0] * 30], np.float32)

    def step(self, action: Any) -> Step:
        bank = np.clip(action, -1, 1)
        self.speed = 0.85 * self.speed + 0.04 * bank
        self.offset = np.clip(self.offset + self.speed + self.drift, -3, 3)
        lift = 0.06 * np.exp(-float((self.offset**2).sum())) - 0.03 - 0.005 * float((bank**2).sum())
        self.height = min(self.height + float(lift), 2.0)
        down = self.height <= 0
        return self._obs(), float(20 * lift + 0.3 - 4 * down), bool(down), False, {}


class Juggler(gym.Env[np.ndarray, Any]):
    """Two plates on sticks lose spin; each step one is spun up (or none). A plate that stops ends the show; time on stage is paid."""

    limit: Final = 150
    essential: Final = (0, 1)
    observation_space = _box(4)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.spin, self.loss = self.np_random.uniform(0.5, 0.9, 2), self.np_random.uniform(0.05, 0.1, 2)
        return self._obs(), {}

    def _obs(self) -> np.ndarray:
        return np.concatenate([self.spin * 2 - 1, self.loss * 20 - 1.5]).astype(np.float32)

    def step(self, action: Any) -> Step:
        self.spin = self.spin - self.loss * self.np_random.uniform(0.7, 1.3, 2)
        if int(action):
            self.spin[int(action) - 1] = min(self.spin[int(action) - 1] + 0.22, 1.1)
        over = bool((self.spin <= 0).any() or (self.spin > 1).any())
        return self._obs(), 0.0 if over else 1.0, over, False, {}


ENVS: Final[dict[str, Any]] = {
    "ferry": Ferry,
    "irrigation": Irrigation,
    "lockpick": LockPick,
    "slalom": Slalom,
    "auction": Auction,
    "patrol": Patrol,
    "turret": Turret,
    "docking": Docking,
    "brewery": Brewery,
    "relay": Relay,
    "glider": Glider,
    "juggler": Juggler,
}
