"""Sound environments that are unusual by design, each written as a user would write it, with a step() and a reset() of its own.

Levels drawn anew, starts of several kinds, momentum, effects that come later, rewards per second, goals that hardly any random episode
meets, hidden cards, costs alone, actions that are repeated or discounted inside, an opponent that grows with the player, prices that
drift, nested and composed spaces, pictures. Nothing is planted in them: `diagnose --env` must not blame any.
"""

from collections.abc import Callable
from typing import Any, Final

import gymnasium as gym
import numpy as np
from gymnasium import spaces

Answer = tuple[Any, float, bool, bool, dict[str, Any]]


class Curling(gym.Env[Any, Any]):
    """A stone is let go and slides for a while: it is paid for where it comes to rest, and sweeping makes it slide on."""

    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.stones_left, self.steps = 8, 0
        self._throw()
        return self._observe(), {}

    def _throw(self) -> None:
        self.place, self.speed = 0.0, self.np_random.uniform(0.12, 0.2)
        self.house = self.np_random.uniform(1.4, 2.2)

    def _observe(self) -> Any:
        return np.array([self.place, 8 * self.speed, self.house, self.stones_left / 8], np.float32)

    def step(self, action: Any) -> Answer:
        self.steps += 1
        friction = {0: 0.012, 1: 0.007, 2: 0.004}[int(action)]
        self.speed = max(0.0, self.speed - friction)
        self.place += self.speed
        reward = 0.0
        if self.speed == 0.0:
            reward = float(np.exp(-3.0 * abs(self.place - self.house)))
            self.stones_left -= 1
            self._throw()
        return self._observe(), reward, self.stones_left == 0, self.steps >= 400, {}


class Cave(gym.Env[Any, Any]):
    """Every episode has a cave of its own, of which only the next fields are seen, and the way to the exit by compass."""

    action_space = spaces.Discrete(4)
    observation_space = spaces.Dict(
        {"near": spaces.Box(0, 1, (25,), np.float32), "compass": spaces.Box(-1, 1, (2,), np.float32)},
    )
    size = 9

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.rock = np.ones((self.size + 4, self.size + 4))
        inner = (self.np_random.random((self.size, self.size)) < 0.25).astype(float)
        self.rock[2:-2, 2:-2] = inner
        self.miner = self.np_random.integers(2, self.size + 2, 2)
        self.exit = self.np_random.integers(2, self.size + 2, 2)
        self.rock[tuple(self.miner)] = self.rock[tuple(self.exit)] = 0
        self.moves = 0
        return self._observe(), {}

    def _observe(self) -> Any:
        row, column = self.miner
        near = self.rock[row - 2 : row + 3, column - 2 : column + 3]
        return {"near": near.ravel().astype(np.float32), "compass": ((self.exit - self.miner) / self.size).astype(np.float32)}

    def step(self, action: Any) -> Answer:
        self.moves += 1
        ahead = self.miner + np.array([(0, 1), (0, -1), (1, 0), (-1, 0)][int(action)])
        bumped = bool(self.rock[tuple(ahead)])
        if not bumped:
            self.miner = ahead
        out = bool((self.miner == self.exit).all())
        reward = (5.0 if out else -0.05) - (0.1 if bumped else 0.0)
        return self._observe(), reward, out, self.moves >= 120, {"is_success": out}


class Kayak(gym.Env[Any, Any]):
    """Starts of three kinds: calm water, a rapid, and upside down; momentum carries the boat on, and the river drifts it."""

    observation_space = spaces.Box(-np.inf, np.inf, (5,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        kind = self.np_random.choice(["calm", "rapid", "capsized"], p=[0.6, 0.3, 0.1])
        self.stream = 0.05 if kind == "rapid" else 0.01
        self.roll = 1.3 if kind == "capsized" else self.np_random.normal(0, 0.1)
        self.spin = self.np_random.normal(0, 0.05)
        self.across, self.drift, self.seconds = self.np_random.uniform(-1, 1), 0.0, 0
        return self._observe(), {"start": str(kind)}

    def _observe(self) -> Any:
        return np.array([self.roll, 4 * self.spin, self.across, 10 * self.drift, 20 * self.stream], np.float32)

    def step(self, action: Any) -> Answer:
        self.seconds += 1
        lean, paddle = np.clip(action, -1, 1)
        self.spin = 0.95 * self.spin - 0.04 * np.sin(self.roll) + 0.06 * lean + self.stream * self.np_random.normal()
        self.roll += self.spin
        self.drift = 0.97 * self.drift + 0.02 * paddle + 0.1 * self.stream * self.np_random.normal()
        self.across += self.drift
        aground, over = abs(self.across) > 2.0, abs(self.roll) > 2.5
        reward = 1.0 - 0.5 * min(self.roll**2, 2.0) - 0.3 * self.across**2
        if aground or over:
            reward -= 5.0
        return self._observe(), float(reward), bool(aground or over), self.seconds >= 200, {}


class Courier(gym.Env[Any, Any]):
    """Everything is paid per second, and a step is a fiftieth of one: single rewards are tiny, an episode's are not."""

    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    dt = 0.02

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.speed, self.hill, self.charge, self.time = 0.0, self.np_random.uniform(-0.4, 0.4), 1.0, 0.0
        return self._observe(), {}

    def _observe(self) -> Any:
        return np.array([self.speed, self.hill, self.charge, self.time / 10.0], np.float32)

    def step(self, action: Any) -> Answer:
        throttle = float(np.clip(action[0], -1, 1))
        self.time += self.dt
        self.hill += self.dt * self.np_random.normal(0, 0.5) - 0.2 * self.dt * self.hill
        self.speed += self.dt * (2.0 * throttle - 1.0 * self.hill - 0.5 * self.speed)
        self.charge -= self.dt * 0.08 * throttle**2
        reward = self.dt * (self.speed - 0.2 * throttle**2)
        return self._observe(), reward, self.charge <= 0, self.time >= 10.0 - 1e-9, {}


class Welder(gym.Env[Any, Any]):
    """A tip that has to be brought to a seam: minus one a step until it is there, in observations of three parts as goals have them."""

    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    observation_space = spaces.Dict(
        {
            "observation": spaces.Box(-np.inf, np.inf, (4,), np.float32),
            "achieved_goal": spaces.Box(-np.inf, np.inf, (2,), np.float32),
            "desired_goal": spaces.Box(-np.inf, np.inf, (2,), np.float32),
        }
    )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.tip, self.velocity = self.np_random.uniform(-0.3, 0.3, 2), np.zeros(2)
        self.seam = self.np_random.uniform(-1, 1, 2)
        self.count = 0
        return self._observe(), {}

    def _observe(self) -> Any:
        return {
            "observation": np.concatenate([self.tip, self.velocity]).astype(np.float32),
            "achieved_goal": self.tip.astype(np.float32),
            "desired_goal": self.seam.astype(np.float32),
        }

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -(np.linalg.norm(achieved - desired, axis=-1) > 0.1).astype(np.float32)

    def step(self, action: Any) -> Answer:
        self.count += 1
        self.velocity = 0.8 * self.velocity + 0.04 * np.clip(action, -1, 1)
        self.tip = self.tip + self.velocity
        reward = float(self.compute_reward(self.tip, self.seam, {}))
        return self._observe(), reward, False, self.count >= 50, {"is_success": reward == 0.0}


class Dispatch(gym.Env[Any, Any]):
    """A power plant for which everything costs: fuel, what is missing, what is too much, and going up and down. Terms are told."""

    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.hour, self.output, self.mood = int(self.np_random.integers(24)), self.np_random.uniform(0.2, 0.8), 0.0
        self.hours = 0
        return self._observe(), {}

    @property
    def demand(self) -> float:
        return float(0.5 + 0.25 * np.sin(2 * np.pi * (self.hour - 8) / 24) + self.mood)

    def _observe(self) -> Any:
        turn = 2 * np.pi * self.hour / 24
        return np.array([self.output, self.demand, np.sin(turn), np.cos(turn)], np.float32)

    def step(self, action: Any) -> Answer:
        change = 0.1 * float(np.clip(action[0], -1, 1))
        self.output = float(np.clip(self.output + change, 0, 1))
        gap = self.output - self.demand
        costs = {"fuel": 0.3 * self.output, "blackout": 4.0 * max(-gap, 0.0), "surplus": 1.0 * max(gap, 0.0), "ramping": 0.5 * abs(change)}
        self.hour, self.hours = (self.hour + 1) % 24, self.hours + 1
        self.mood = 0.9 * self.mood + 0.03 * self.np_random.normal()
        terms = {name: -cost for name, cost in costs.items()}
        return self._observe(), sum(terms.values()), False, self.hours >= 96, {"reward_terms": terms}


class Trampoline(gym.Env[Any, Any]):
    """Each action is held for six steps of the physics inside, and the rewards of all six are summed up."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = spaces.Discrete(2)
    frame_skip = 6

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.height, self.velocity, self.tired, self.actions = self.np_random.uniform(0.2, 0.6), 0.0, 0.0, 0
        return self._observe(), {}

    def _observe(self) -> Any:
        return np.array([self.height, self.velocity, self.tired], np.float32)

    def step(self, action: Any) -> Answer:
        total = 0.0
        for _ in range(self.frame_skip):
            contact = self.height < 0
            push = 3.0 * (1 - self.tired) * (int(action) == 1) if contact else 0.0
            self.velocity += 0.02 * (-9.8 + (-120 * self.height - 1.5 * self.velocity + 10 * push if contact else 0.0))
            self.height += 0.02 * self.velocity
            self.tired = float(np.clip(self.tired + (0.02 if int(action) else -0.01), 0, 1))
            total += max(self.height, 0.0) / self.frame_skip
        self.actions += 1
        return self._observe(), total, False, self.actions >= 150, {}


class Prospector(gym.Env[Any, Any]):
    """What is found later is worth less: the discount is paid inside, and the observation shows how far it has gone."""

    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.vein = self.np_random.uniform(-1, 1), self.np_random.uniform(-1, 1)
        self.left, self.worth, self.days = self.np_random.uniform(3, 6), 1.0, 0
        return self._observe(), {}

    def _observe(self) -> Any:
        return np.array([self.place, self.vein, self.left / 6, self.worth], np.float32)

    def step(self, action: Any) -> Answer:
        self.days += 1
        found = 0.0
        if int(action) == 1:
            found = min(self.left, 0.5 * np.exp(-8 * (self.place - self.vein) ** 2))
            self.left -= found
        else:
            self.place = float(np.clip(self.place + 0.1 * (int(action) - 1), -1.5, 1.5))
        reward = float(self.worth * found)
        self.worth *= 0.98
        return self._observe(), reward, self.left < 0.05, self.days >= 100, {}


class Fencing(gym.Env[Any, Any]):
    """An opponent that grows with the player: after a bout that was won the next one is against a better one, and shown to be so."""

    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self) -> None:
        self.opponent_skill, self.won_last = 0.2, False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.opponent_skill = float(np.clip(self.opponent_skill + (0.05 if self.won_last else -0.02), 0.1, 0.9))
        self.gap, self.opening, self.hits, self.taken, self.count = self.np_random.uniform(0.5, 1.5), 0.0, 0, 0, 0
        self.won_last = False
        return self._observe(), {}

    def _observe(self) -> Any:
        return np.array([self.gap, self.opening, (self.hits - self.taken) / 3, self.opponent_skill], np.float32)

    def step(self, action: Any) -> Answer:
        self.count += 1
        reward = -0.01
        if int(action) == 2:
            if self.gap < 0.8 and self.np_random.random() < 0.9 - 0.8 * self.opponent_skill * (1 - self.opening):
                self.hits, reward = self.hits + 1, 1.0
            elif self.np_random.random() < self.opponent_skill:
                self.taken, reward = self.taken + 1, -1.0
            self.gap = 1.2
        else:
            self.gap = float(np.clip(self.gap + (0.15 if int(action) == 0 else -0.15) + self.np_random.normal(0, 0.05), 0.2, 2.0))
        self.opening = float(np.clip(0.7 * self.opening + 0.5 * self.np_random.normal(), 0, 1))
        over = self.hits >= 3 or self.taken >= 3
        self.won_last = self.hits >= 3
        return self._observe(), reward, over, self.count >= 100, {"is_success": self.won_last}


class Bazaar(gym.Env[Any, Any]):
    """Prices drift, and the drift itself changes while the day goes on: what was right in the morning is wrong at night."""

    observation_space = spaces.Tuple((spaces.Discrete(4), spaces.Box(-np.inf, np.inf, (4,), np.float32)))
    action_space = spaces.MultiDiscrete([3, 2])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.price, self.trend, self.stock, self.cash = 1.0, self.np_random.normal(0, 0.02), 2, 3.0
        self.quarter, self.minute = 0, 0
        return self._observe(), {}

    def _observe(self) -> Any:
        return self.quarter, np.array([self.price - 1, 20 * self.trend, self.stock / 5, self.cash / 5], np.float32)

    def step(self, action: Any) -> Answer:
        trade, advertise = int(action[0]) - 1, bool(action[1])
        self.minute += 1
        before = self.cash + self.stock * self.price
        if trade > 0 and self.cash >= self.price and self.stock < 10:
            self.cash, self.stock = self.cash - self.price, self.stock + 1
        elif trade < 0 and self.stock > 0:
            self.cash, self.stock = self.cash + self.price * (1.1 if advertise else 1.0), self.stock - 1
        self.cash -= 0.05 if advertise else 0.0
        if self.minute % 25 == 0:
            self.quarter = min(self.quarter + 1, 3)
            self.trend = float(self.np_random.normal(0, 0.02))
        self.price = float(np.clip(self.price * (1 + self.trend + 0.01 * self.np_random.normal()), 0.2, 5.0))
        return self._observe(), float(self.cash + self.stock * self.price - before), False, self.minute >= 100, {}


class Bluff(gym.Env[Any, Any]):
    """A game with a card that is hidden: what the other one holds can only be guessed from what he bid."""

    observation_space = spaces.MultiDiscrete([10, 4, 4])
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.hands = 0
        self._deal()
        return self._observe(), {}

    def _deal(self) -> None:
        self.mine, self.theirs = int(self.np_random.integers(10)), int(self.np_random.integers(10))
        honest = self.np_random.random() < 0.7
        self.bid = int(np.clip(self.theirs // 3 if honest else self.np_random.integers(4), 0, 3))

    def _observe(self) -> Any:
        return np.array([self.mine, self.bid, min(self.hands // 5, 3)], np.int64)

    def step(self, action: Any) -> Answer:
        self.hands += 1
        stake = 1.0 + self.bid
        if int(action) == 0:
            reward = -0.5
        else:
            stake *= int(action)
            reward = stake if self.mine > self.theirs else -stake if self.mine < self.theirs else 0.0
        self._deal()
        return self._observe(), float(reward), self.hands >= 20, False, {}


class Switchboard(gym.Env[Any, Any]):
    """Six lines, any of which can be plugged at once: who calls is shown, and lines that nobody calls on do nothing."""

    observation_space = spaces.MultiBinary(12)
    action_space = spaces.MultiBinary(6)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.calling = self.np_random.random(6) < 0.3
        self.patience = np.full(6, 4)
        self.minutes = 0
        return self._observe(), {}

    def _observe(self) -> Any:
        return np.concatenate([self.calling, self.patience < 3]).astype(np.int8)

    def step(self, action: Any) -> Answer:
        self.minutes += 1
        plugged = np.asarray(action).astype(bool)
        answered = plugged & self.calling
        waiting = self.calling & ~plugged
        self.patience = np.where(waiting, self.patience - 1, 4)
        hung_up = waiting & (self.patience <= 0)
        reward = 1.0 * answered.sum() - 0.3 * (plugged & ~self.calling).sum() - 2.0 * hung_up.sum()
        self.calling = (waiting & ~hung_up) | (self.np_random.random(6) < 0.15)
        self.patience = np.where(self.calling, self.patience, 4)
        return self._observe(), float(reward), False, self.minutes >= 60, {}


class Workbench(gym.Env[Any, Any]):
    """Twelve tools, of which one or two are of use at a time: most actions do nothing, and a mask in info says which would."""

    observation_space = spaces.Box(0, 1, (9,), np.float32)
    action_space = spaces.Discrete(12)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.recipe = int(self.np_random.integers(3))
        self.stage, self.tries = 0, 0
        return self._observe(), {"action_mask": self._mask()}

    def _useful(self) -> int:
        return (5 * self.stage + 3 * self.recipe) % 12

    def _mask(self) -> Any:
        return (np.arange(12) == self._useful()).astype(np.int8)

    def _observe(self) -> Any:
        shown = np.zeros(9, np.float32)
        shown[self.stage] = shown[6 + self.recipe] = 1
        return shown

    def step(self, action: Any) -> Answer:
        self.tries += 1
        fits = int(action) == self._useful()
        self.stage += fits
        done = self.stage == 5
        reward = -0.02 + 0.2 * fits + 2.0 * done
        return self._observe(), float(reward), done, self.tries >= 150, {"action_mask": self._mask(), "is_success": done}


class Runner(gym.Env[Any, Any]):
    """A game on a screen: a dark runner on a scrolling road, holes to jump over, and points for every field that is passed."""

    observation_space = spaces.Box(0, 255, (12, 24, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.road = [True] * 24
        self.height, self.lift, self.passed = 0.0, 0.0, 0
        return self._observe(), {}

    def _observe(self) -> Any:
        screen = np.full((12, 24, 3), 180, np.uint8)
        for column, solid in enumerate(self.road):
            screen[10:, column] = (90, 60, 30) if solid else (0, 0, 0)
        row = int(np.clip(9 - self.height, 0, 9))
        screen[row, 4] = (40, 40, 40)
        return screen

    def step(self, action: Any) -> Answer:
        if int(action) == 1 and self.height == 0:
            self.lift = 1.6
        self.height = max(0.0, self.height + self.lift)
        self.lift = self.lift - 0.8 if self.height > 0 else 0.0
        # After a hole the road goes on for a while.
        solid = not all(self.road[-4:]) or self.np_random.random() > 0.15
        self.road = [*self.road[1:], bool(solid)]
        self.passed += 1
        fell = self.height == 0 and not self.road[4]
        return self._observe(), -5.0 if fell else 1.0, fell, self.passed >= 200, {}


SOUND: Final[dict[str, Callable[[], Any]]] = {
    kind.__name__: kind
    for kind in (
        Curling, Cave, Kayak, Courier, Welder, Dispatch, Trampoline, Prospector, Fencing, Bazaar, Bluff, Switchboard, Workbench, Runner,
    )
}  # fmt: skip
