"""A dozen environments unlike any world: nested, counted, drawn and spoken observations, several actions at once, chance, slow resets.

They were written after the checks of `lint --env`, to see what a user of such an environment would be told. All of them are sound. `FAULTS`
are what users get wrong, as wrappers that know nothing about the environment inside.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import gymnasium as gym
import numpy as np
from gymnasium import spaces

Result = tuple[Any, float, bool, bool, dict[str, Any]]


class Task(gym.Env[Any, Any]):
    """An environment with its own clock, that says truncated at its end."""

    limit = 60

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.age = 0
        self.start()
        return self.show(), {}

    def step(self, action: Any) -> Result:
        self.age += 1
        reward, terminated, info = self.advance(action)
        return self.show(), float(reward), bool(terminated), self.age >= self.limit and not terminated, info

    def start(self) -> None:
        raise NotImplementedError

    def show(self) -> Any:
        raise NotImplementedError

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        raise NotImplementedError


def box(*shape: int, low: float = -np.inf, high: float = np.inf) -> spaces.Box:
    return spaces.Box(low, high, shape, np.float32)


class Oven(Task):
    """A Dict of numbers and a door that opens by chance; four levels of heat."""

    observation_space = spaces.Dict({"temperature": box(1), "target": box(1), "door": spaces.Discrete(2)})
    action_space = spaces.Discrete(4)
    limit = 80

    def start(self) -> None:
        self.temperature, self.target, self.door = self.np_random.uniform(-1, 0), self.np_random.uniform(0, 1), 0

    def show(self) -> Any:
        return {
            "temperature": np.array([self.temperature], np.float32),
            "target": np.array([self.target], np.float32),
            "door": np.int64(self.door),
        }

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        self.door = int(self.np_random.random() < 0.1)
        self.temperature += 0.12 * int(action) - 0.1 - 0.15 * self.door - 0.03 * self.temperature
        return 1 - abs(self.temperature - self.target), self.temperature > 3, {}


class Crane(Task):
    """A Tuple of a swinging load and two switches; two choices at once."""

    observation_space = spaces.Tuple((box(4), spaces.MultiBinary(2)))
    action_space = spaces.MultiDiscrete([3, 3])
    limit = 70

    def start(self) -> None:
        self.state = self.np_random.uniform(-1, 1, 4)

    def show(self) -> Any:
        return self.state.astype(np.float32), (self.state[:2] > 0).astype(np.int8)

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        push = np.asarray(action, float) - 1
        self.state[2:] = 0.9 * self.state[2:] - 0.1 * self.state[:2] + 0.2 * push
        self.state[:2] += 0.3 * self.state[2:]
        return 1 - float(np.square(self.state[:2]).sum()), bool(np.abs(self.state).max() > 4), {}


class Dot(Task):
    """An image: a bright dot is moved to a grey one."""

    observation_space = spaces.Box(0, 255, (24, 24, 1), np.uint8)
    action_space = spaces.Discrete(5)
    limit = 50

    def start(self) -> None:
        self.place, self.goal = self.np_random.integers(0, 8, 2), self.np_random.integers(0, 8, 2)

    def show(self) -> Any:
        image = np.zeros((24, 24, 1), np.uint8)
        for (row, column), light in ((self.goal, 120), (self.place, 255)):
            image[3 * row : 3 * row + 3, 3 * column : 3 * column + 3] = light
        return image

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        before = np.abs(self.place - self.goal).sum()
        self.place = np.clip(self.place + [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)][int(action)], 0, 7)
        after = np.abs(self.place - self.goal).sum()
        return 0.1 * float(before - after) - 0.01 + float(after == 0), bool(after == 0), {"is_success": bool(after == 0)}


class Ward(Task):
    """Counts of patients as MultiDiscrete, nurses sent as MultiDiscrete; patients come by chance."""

    observation_space = spaces.MultiDiscrete([9, 9, 9])
    action_space = spaces.MultiDiscrete([3, 3])
    limit = 100

    def start(self) -> None:
        self.beds = self.np_random.integers(0, 5, 3)

    def show(self) -> Any:
        return self.beds.astype(np.int64)

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        served = np.array([int(action[0]), int(action[1]), 2 - max(int(action[0]), int(action[1]))])
        self.beds = np.clip(self.beds - served + self.np_random.binomial(2, 0.4, 3), 0, 8)
        return -float(self.beds.sum()) / 10, bool((self.beds == 8).all()), {}


class Corridor(Task):
    """The number of a room; doors that stick by chance."""

    observation_space = spaces.Discrete(24)
    action_space = spaces.Discrete(3)
    limit = 60

    def start(self) -> None:
        self.room = int(self.np_random.integers(0, 18))

    def show(self) -> Any:
        return np.int64(self.room)

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        step = (-1, 0, 1)[int(action)] if self.np_random.random() > 0.15 else 0
        self.room = int(np.clip(self.room + step, 0, 23))
        return (10.0 if self.room == 23 else -0.1 + 0.05 * step), self.room == 23, {"is_success": self.room == 23}


class Lights(Task):
    """Nine lamps as MultiBinary, three switches of which several can be pressed."""

    observation_space = spaces.MultiBinary(9)
    action_space = spaces.MultiBinary(3)
    limit = 30

    def start(self) -> None:
        self.lamps = self.np_random.integers(0, 2, 9).astype(np.int8)

    def show(self) -> Any:
        return self.lamps.copy()

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        for switch in np.flatnonzero(action):
            self.lamps[[int(switch), int(switch) + 3, int(switch) + 6]] ^= 1
        flickering = int(self.np_random.integers(0, 9))
        self.lamps[flickering] ^= int(self.np_random.random() < 0.2)
        return float(self.lamps.sum()) / 9, bool(self.lamps.all()), {"is_success": bool(self.lamps.all())}


class Reach(Task):
    """A goal environment: a Dict of observation, achieved and desired goal; -1 at every step until it is there."""

    observation_space = spaces.Dict({"observation": box(4), "achieved_goal": box(2), "desired_goal": box(2)})
    action_space = box(2, low=-1, high=1)
    limit = 50

    def start(self) -> None:
        self.hand, self.speed, self.goal = np.zeros(2), np.zeros(2), self.np_random.uniform(-1, 1, 2)

    def show(self) -> Any:
        return {
            "observation": np.concatenate([self.hand, self.speed]).astype(np.float32),
            "achieved_goal": self.hand.astype(np.float32),
            "desired_goal": self.goal.astype(np.float32),
        }

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        self.speed = 0.7 * self.speed + 0.1 * np.clip(action, -1, 1)
        self.hand = self.hand + self.speed
        away = float(np.linalg.norm(self.hand - self.goal))
        return -away, away < 0.1, {"is_success": away < 0.1}


class SlowTank(Task):
    """Every step takes a millisecond and every reset fifty: a simulator behind a wire."""

    observation_space = box(3)
    action_space = box(1, low=0, high=1)

    def start(self) -> None:
        time.sleep(0.05)
        self.level, self.flow, self.wish = self.np_random.uniform(0, 1), 0.0, self.np_random.uniform(0.2, 0.8)

    def show(self) -> Any:
        return np.array([self.level, self.flow, self.wish], np.float32)

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        time.sleep(0.001)
        self.flow = 0.6 * self.flow + 0.1 * float(np.clip(action, 0, 1)[0])
        self.level += self.flow - 0.12 * np.sqrt(max(self.level, 0.0)) + 0.005 * self.np_random.standard_normal()
        return 1 - 2 * abs(self.level - self.wish), self.level > 2, {}


class Cards(Task):
    """A hand, the other's card and whether there is an ace: a few steps, and a reward at the end that is chance for the most part."""

    observation_space = spaces.Tuple((spaces.Discrete(32), spaces.Discrete(11), spaces.Discrete(2)))
    action_space = spaces.Discrete(2)

    def start(self) -> None:
        self.hand, self.other = int(self.np_random.integers(2, 12)), int(self.np_random.integers(1, 11))

    def show(self) -> Any:
        return np.int64(min(self.hand, 31)), np.int64(self.other), np.int64(self.hand < 12)

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        if int(action):
            self.hand += int(self.np_random.integers(1, 11))
            return (-1.0, True, {}) if self.hand > 21 else (0.0, False, {})
        theirs = self.other
        while theirs < 17:
            theirs += int(self.np_random.integers(1, 11))
        return float(np.sign(self.hand - theirs)) if theirs <= 21 else 1.0, True, {}


class Drone(Task):
    """Four rotors that only push, an unstable body, gusts; crashing ends it."""

    observation_space = box(6)
    action_space = box(4, low=0, high=1)
    limit = 150

    def start(self) -> None:
        self.state = self.np_random.uniform(-0.5, 0.5, 6)

    def show(self) -> Any:
        return self.state.astype(np.float32)

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        rotors = np.clip(action, 0, 1)
        push = np.array([rotors[0] - rotors[1], rotors[2] - rotors[3], rotors.sum() - 2])
        self.state[3:] = 0.95 * self.state[3:] + 0.15 * push + 0.03 * self.np_random.standard_normal(3)
        self.state[:3] = 1.02 * self.state[:3] + 0.1 * self.state[3:]
        lost = bool(np.abs(self.state[:3]).max() > 3)
        return 1 - float(np.abs(self.state[:3]).sum()) / 3 - 0.02 * float(rotors.sum()) - 5 * lost, lost, {}


class Cue(Task):
    """A cue that is shown once, and what it asks for eight steps later: sound, with a memory."""

    observation_space = box(3)
    action_space = spaces.Discrete(3)
    limit = 20

    def start(self) -> None:
        self.cue, self.place = int(self.np_random.choice([-1, 1])), 0.0

    def show(self) -> Any:
        return np.array([self.cue if self.age == 0 else 0.0, self.place, self.age / 20], np.float32)

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        self.place += 0.2 * (int(action) - 1)
        over = abs(self.place) >= 1
        won = over and np.sign(self.place) == self.cue
        return -0.05 + 2.0 * won - 1.0 * (over and not won), over, {"is_success": bool(won)}


class Shop(Task):
    """Stock of three goods, orders as a Box of whole numbers, demand by chance; the day of the week as a wave."""

    observation_space = box(5, low=-50, high=50)
    action_space = spaces.Box(0, 4, (3,), np.int64)
    limit = 90

    def start(self) -> None:
        self.stock, self.day = self.np_random.integers(0, 10, 3).astype(float), int(self.np_random.integers(0, 7))

    def show(self) -> Any:
        angle = 2 * np.pi * self.day / 7
        return np.array([*(self.stock / 5), np.sin(angle), np.cos(angle)], np.float32)

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        self.day = (self.day + 1) % 7
        self.stock = np.minimum(self.stock + np.clip(action, 0, 4), 20)
        sold = np.minimum(self.stock, self.np_random.poisson(2.0 + (self.day > 4), 3))
        self.stock = self.stock - sold
        profit, kept = 0.5 * float(sold.sum()), 0.1 * float(self.stock.sum())
        return profit - kept - 0.1 * float(np.sum(action)), False, {"reward_terms": {"profit": profit, "kept": -kept}}


def wrapped_drone() -> Any:
    """A Drone behind the wrappers that people use."""
    env: Any = gym.wrappers.TimeLimit(Drone(), 100)
    env = gym.wrappers.RescaleAction(env, np.float32(-1), np.float32(1))
    env = gym.wrappers.TimeAwareObservation(env, normalize_time=True)
    return gym.wrappers.FrameStackObservation(env, 2)


def normalized_oven() -> Any:
    """An Oven flattened, with running normalizers of observations and rewards."""
    env: Any = gym.wrappers.FlattenObservation(Oven())
    return gym.wrappers.NormalizeReward(gym.wrappers.NormalizeObservation(env))


SOUND: Final[dict[str, Callable[[], Any]]] = {
    kind.__name__: kind for kind in (Oven, Crane, Dot, Ward, Corridor, Lights, Reach, SlowTank, Cards, Drone, Cue, Shop)
} | {"wrapped drone": wrapped_drone, "normalized oven": normalized_oven}


# ── what users get wrong ──


def change_boxes(space: spaces.Space[Any], obs: Any, change: Callable[[Any], Any]) -> Any:
    """An observation whose boxes of real numbers are changed, however deep they lie."""
    if isinstance(space, spaces.Dict):
        return {key: change_boxes(inner, obs[key], change) for key, inner in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(change_boxes(inner, one, change) for inner, one in zip(space.spaces, obs, strict=True))
    if isinstance(space, spaces.Box) and space.dtype != np.uint8:
        return np.asarray(change(np.asarray(obs, np.float64)), np.float32)
    return obs


def has_real_numbers(env: Any) -> bool:
    def look(space: spaces.Space[Any]) -> bool:
        inner = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces if isinstance(space, spaces.Tuple) else ()
        return any(map(look, inner)) or (isinstance(space, spaces.Box) and space.dtype != np.uint8)

    return look(env.observation_space)


class Faulty(gym.Wrapper[Any, Any, Any, Any]):
    """Does nothing; what a fault changes it overrides."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.chance = np.random.default_rng()


class ActionIgnored(Faulty):
    def step(self, action: Any) -> Result:
        return self.env.step(np.zeros_like(action))  # type: ignore[return-value]


class ActionLag(Faulty):
    def reset(self, **named: Any) -> Any:
        self.waiting: deque[Any] = deque()
        return self.env.reset(**named)

    def step(self, action: Any) -> Result:
        self.waiting.append(action)
        return self.env.step(self.waiting.popleft() if len(self.waiting) > 5 else np.zeros_like(action))  # type: ignore[return-value]


class ObservationLag(Faulty):
    def reset(self, **named: Any) -> Any:
        obs, info = self.env.reset(**named)
        self.past = deque([obs] * 5, maxlen=5)
        return obs, info

    def step(self, action: Any) -> Result:
        obs, *rest = self.env.step(action)
        self.past.append(obs)
        return self.past[0], *rest


class ObservationStale(Faulty):
    def reset(self, **named: Any) -> Any:
        self.first, info = self.env.reset(**named)
        return self.first, info

    def step(self, action: Any) -> Result:
        return self.first, *self.env.step(action)[1:]  # type: ignore[return-value]


class Seen(Faulty):
    def reset(self, **named: Any) -> Any:
        obs, info = self.env.reset(**named)
        return change_boxes(self.env.observation_space, obs, self.change), info

    def step(self, action: Any) -> Result:
        obs, *rest = self.env.step(action)
        return change_boxes(self.env.observation_space, obs, self.change), *rest

    def change(self, numbers: Any) -> Any:
        raise NotImplementedError


class ObservationNoise(Seen):
    def change(self, numbers: Any) -> Any:
        return numbers + 2 * self.chance.standard_normal(numbers.shape)


class ObservationConstant(Seen):
    def change(self, numbers: Any) -> Any:
        return 0 * numbers


class ObservationLarge(Seen):
    def change(self, numbers: Any) -> Any:
        return 1e4 * numbers


class ObservationTiny(Seen):
    def change(self, numbers: Any) -> Any:
        return 1e-4 * numbers


class Paid(Faulty):
    def step(self, action: Any) -> Result:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, self.pay(float(reward), terminated or truncated), terminated, truncated, info

    def pay(self, reward: float, over: bool) -> float:
        raise NotImplementedError


class RewardSign(Paid):
    def pay(self, reward: float, over: bool) -> float:
        return -reward


class RewardShifted(Paid):
    def pay(self, reward: float, over: bool) -> float:
        return reward - 3


class RewardDelayed(Paid):
    def reset(self, **named: Any) -> Any:
        self.owed = 0.0
        return self.env.reset(**named)

    def pay(self, reward: float, over: bool) -> float:
        self.owed += reward
        return self.owed if over else 0.0


class RewardSparse(Paid):
    def pay(self, reward: float, over: bool) -> float:
        return reward if self.chance.random() < 0.05 else 0.0


class RewardClipped(Paid):
    def pay(self, reward: float, over: bool) -> float:
        return float(np.clip(reward, -0.02, 0.02))


class RewardNoise(Paid):
    def pay(self, reward: float, over: bool) -> float:
        return reward + 20 * float(self.chance.standard_normal())


class RewardLarge(Paid):
    def pay(self, reward: float, over: bool) -> float:
        return 1e4 * reward


class RewardTiny(Paid):
    def pay(self, reward: float, over: bool) -> float:
        return 1e-4 * reward


class RewardNone(Paid):
    def pay(self, reward: float, over: bool) -> float:
        return 0.0


class TooShort(Faulty):
    def reset(self, **named: Any) -> Any:
        self.taken = 0
        return self.env.reset(**named)

    def step(self, action: Any) -> Result:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.taken += 1
        return obs, float(reward), terminated, truncated or self.taken >= 6, info


class LimitAsTerminal(Faulty):
    def step(self, action: Any) -> Result:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, float(reward), terminated or truncated, False, info


class NeverReset(Faulty):
    """The first reset is real; later ones show where the last episode left off."""

    last: Any = None

    def reset(self, **named: Any) -> Any:
        if self.last is None:
            self.last, info = self.env.reset(**named)
            return self.last, info
        if hasattr(self.env.unwrapped, "age"):
            self.env.unwrapped.age = 0
        return self.last, {}

    def step(self, action: Any) -> Result:
        self.last, *rest = self.env.step(action)
        return self.last, *rest


class EqualSeeds(Faulty):
    def reset(self, **named: Any) -> Any:
        return self.env.reset(seed=1)


class FinalOverwritten(Faulty):
    """Resets by itself at the end, as old vector environments did: the last observation belongs to the next episode."""

    kept: Any = None

    def reset(self, **named: Any) -> Any:
        if self.kept is not None and named.get("seed") is None:
            kept, self.kept = self.kept, None
            return kept, {}
        self.kept = None
        return self.env.reset(**named)

    def step(self, action: Any) -> Result:
        obs, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            obs, _ = self.env.reset()
            self.kept = obs
        return obs, float(reward), terminated, truncated, info


class ObservationShifted(Seen):
    def change(self, numbers: Any) -> Any:
        return numbers + 1


class Longer(Faulty):
    def step(self, action: Any) -> Result:
        obs, reward, terminated, truncated, info = self.env.step(action)
        if truncated and self.env.unwrapped.age < 5 * getattr(self.env.unwrapped, "limit", 60):  # type: ignore[attr-defined]
            truncated = False
        return obs, float(reward), terminated, truncated, info


REAL: Final = "needs real numbers"
FAULTS: Final[dict[str, tuple[type[Faulty], str, set[str]]]] = {
    "action ignored": (ActionIgnored, "", {"actions-without-effect"}),
    "action lag": (ActionLag, "long", {"observation-late"}),
    "observation lag": (ObservationLag, "", {"observation-late"}),
    "observation stale": (ObservationStale, "", {"observation-not-updated", "observation-constant"}),
    "observation noise": (ObservationNoise, REAL, {"observation-noise"}),
    "observation constant": (ObservationConstant, REAL, {"observation-constant", "observation-partial"}),
    "observation x1e4": (ObservationLarge, REAL, {"observation-scale"}),
    "observation /1e4": (ObservationTiny, REAL, {"observation-scale"}),
    "reward sign": (RewardSign, "success", {"reward-sign"}),
    "reward delayed": (RewardDelayed, "dense", {"reward-delayed"}),
    "reward sparse": (RewardSparse, "dense", {"reward-sparse", "reward-noise"}),
    "reward clipped": (RewardClipped, "dense", {"reward-clipped"}),
    "reward noise": (RewardNoise, "", {"reward-noise"}),
    "reward x1e4": (RewardLarge, "", {"reward-scale-too-large"}),
    "reward /1e4": (RewardTiny, "", {"reward-scale-too-small"}),
    "reward none": (RewardNone, "", {"reward-never-seen"}),
    "episodes of six steps": (TooShort, "long", {"episode-too-short"}),
    "limit as terminal": (LimitAsTerminal, "limit", {"time-limit-as-terminal", "episode-too-short"}),
    "never reset": (NeverReset, "", {"never-reset"}),
    "equal seeds": (EqualSeeds, "", {"starts-identical", "seeds-identical"}),
    "final observation overwritten": (FinalOverwritten, "", {"final-observation-overwritten"}),
}
"""By name: the wrapper, what the environment must have, and the causes that are right."""
EVALUATION: Final[dict[str, tuple[type[Faulty], str, set[str]]]] = {
    "evaluation paid the opposite": (RewardSign, "", {"reward-sign"}),
    "evaluation paid less": (RewardShifted, "", {"reward-shifted"}),
    "evaluation sees something else": (ObservationShifted, REAL, {"evaluation-environment-differs", "evaluation-mismatch"}),
    "evaluation lasts longer": (Longer, "limit", {"evaluation-environment-differs", "evaluation-mismatch"}),
    "evaluation acts late": (ActionLag, "", {"evaluation-environment-differs", "evaluation-mismatch"}),
}
"""The same around the environment of evaluation alone."""
_SUCCESS: Final = {"Dot", "Corridor", "Reach"}
_DENSE: Final = {"Oven", "Crane", "Ward", "Lights", "Reach", "SlowTank", "Drone", "Shop", "wrapped drone"}
_TO_THE_LIMIT: Final = {"Ward", "Shop", "Oven", "Reach", "Corridor", "SlowTank"}


def fits(name: str, needs: str) -> bool:
    """Whether a fault means anything in an environment."""
    if needs == REAL:
        return name != "normalized oven" and has_real_numbers(SOUND[name]())
    wanted = {"success": _SUCCESS, "dense": _DENSE, "limit": _TO_THE_LIMIT}.get(needs)
    if needs == "long":
        return name not in ("Cards", "Cue")
    return wanted is None or name in wanted
