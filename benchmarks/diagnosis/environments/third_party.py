"""Environments that others published, with faults of the catalogue planted into them while they run: none of their code is kept here.

    pip install gym-simplegrid==1.1.0 gymnasium-2048==0.1.2 minatar==1.0.15 mo-gymnasium==1.3.2 gymnasium-robotics==1.4.2 pandas

A fault becomes part of the environment's own class (or of the wrapper that makes one number of its rewards), so that its attributes are
the environment's. Which faults an environment gets is drawn by name; the thresholds are what its author or a usual agent calls good.
Written down before anything examined any of these environments.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import gymnasium as gym
import numpy as np

FAULTS_EACH: Final = 4
DICE: Final = np.random.default_rng(0)
"""What faults draw from: no seed of an environment reaches it."""


@dataclass(frozen=True)
class World:
    """An environment of somebody else."""

    make: Callable[[], Any]
    threshold: float
    layer: str = ""
    """The class of the wrapper that the fault becomes part of; "": the environment itself."""


def _made(id: str, *packages: str) -> Callable[[], Any]:
    def make() -> Any:
        for name in packages:
            gym.register_envs(__import__(name))
        return gym.make(id)

    return make


def _minatar(id: str) -> Callable[[], Any]:
    def make() -> Any:
        from minatar.gym import register_envs

        if id not in gym.registry:
            register_envs()
        return gym.make(id)

    return make


def _summed(id: str) -> Callable[[], Any]:
    def make() -> Any:
        import mo_gymnasium
        from mo_gymnasium.wrappers import LinearReward

        return LinearReward(mo_gymnasium.make(id))

    return make


WORLDS: Final[dict[str, World]] = {
    "simplegrid": World(_made("SimpleGrid-4x4-v0", "gym_simplegrid"), 0.5),
    "2048": World(_made("gymnasium_2048/TwentyFortyEight-v0", "gymnasium_2048"), 8_000.0),
    "breakout": World(_minatar("MinAtar/Breakout-v1"), 10.0),
    "asterix": World(_minatar("MinAtar/Asterix-v1"), 10.0),
    "invaders": World(_minatar("MinAtar/SpaceInvaders-v1"), 40.0),
    "double pendulum": World(_made("InvertedDoublePendulum-v5"), 9_100.0),
    "half cheetah": World(_made("HalfCheetah-v5"), 4_800.0),
    "biped": World(_made("BipedalWalker-v3"), 300.0),
    "pusher": World(_made("Pusher-v5"), -45.0),
    "walker": World(_made("Walker2d-v5"), 3_000.0),
    "minecart": World(_summed("minecart-v0"), -1.0, "LinearReward"),
    "reservoir": World(_summed("water-reservoir-v0"), -6_500.0, "LinearReward"),
    "treasure": World(_summed("deep-sea-treasure-v0"), 6.0, "LinearReward"),
    "gathering": World(_summed("resource-gathering-v0"), 1.5, "LinearReward"),
    "four rooms": World(_summed("four-room-v0"), 4.5, "LinearReward"),
    "point maze": World(_made("PointMaze_Open-v3", "gymnasium_robotics"), 150.0),
}


# ── faults ──


class Fault:
    """Part of a class: every method that is not changed is the environment's own."""

    size: float
    """What a step usually pays or costs."""
    spread: Any
    """Of every number of the observation."""

    def act(self, action: Any) -> Any:
        return action

    def show(self, obs: Any) -> Any:
        return obs

    def pay(self, reward: float, *, over: bool) -> float:
        return reward

    def begin(self) -> None:
        """An episode starts."""

    def reset(self, **given: Any) -> Any:
        # Some resets step.
        self.begin()
        obs, info = super().reset(**given)  # type: ignore[misc]
        self.begin()
        return self.show(obs), info

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(self.act(action))  # type: ignore[misc]
        return self.show(obs), self.pay(float(reward), over=bool(terminated or truncated)), terminated, truncated, info


class Sign(Fault):
    def pay(self, reward: float, *, over: bool) -> float:
        return -reward


class Large(Fault):
    def pay(self, reward: float, *, over: bool) -> float:
        return 1e4 * reward


class Small(Fault):
    def pay(self, reward: float, *, over: bool) -> float:
        return 1e-4 * reward


class Constant(Fault):
    def pay(self, reward: float, *, over: bool) -> float:
        return 0.0


class Noise(Fault):
    def pay(self, reward: float, *, over: bool) -> float:
        return reward + float(DICE.normal(0.0, 30.0 * self.size))


class Seldom(Fault):
    def pay(self, reward: float, *, over: bool) -> float:
        return reward * float(DICE.random() < 0.1)


class Delayed(Fault):
    def begin(self) -> None:
        self.owed_total = 0.0

    def pay(self, reward: float, *, over: bool) -> float:
        self.owed_total += reward
        return self.owed_total if over else 0.0


class Clipped(Fault):
    def pay(self, reward: float, *, over: bool) -> float:
        return float(np.clip(reward, -0.02 * self.size, 0.02 * self.size))


class Lag(Fault):
    def begin(self) -> None:
        self.seen: list[Any] = []

    def show(self, obs: Any) -> Any:
        self.seen = [*self.seen[-4:], obs]
        return self.seen[0]


class Frozen(Fault):
    def begin(self) -> None:
        self.first: Any = None

    def show(self, obs: Any) -> Any:
        self.first = obs if self.first is None else self.first
        return self.first


class Shaken(Fault):
    def show(self, obs: Any) -> Any:
        return (obs + DICE.normal(0.0, 2.0, np.shape(obs)) * self.spread).astype(obs.dtype)


class Thousand(Fault):
    def show(self, obs: Any) -> Any:
        return 1_000 * obs


class Half(Fault):
    def show(self, obs: Any) -> Any:
        hidden = np.array(obs)
        hidden.reshape(-1)[::2] = 0
        return hidden


class NotFinite(Fault):
    def show(self, obs: Any) -> Any:
        return obs / (0.0 if DICE.random() < 0.02 else 1.0)


class Ignored(Fault):
    def begin(self) -> None:
        self.kept: Any = None

    def act(self, action: Any) -> Any:
        if isinstance(self.action_space, gym.spaces.Box):  # type: ignore[attr-defined]
            return np.zeros_like(action)
        return type(action)(self.action_space.start)  # type: ignore[attr-defined]


class Replaced(Fault):
    def act(self, action: Any) -> Any:
        return action if DICE.random() < 0.1 else self.action_space.sample()  # type: ignore[attr-defined]


class Cut(Fault):
    """A limit of its own, which says that the task is over."""

    limit = 25

    def begin(self) -> None:
        self.taken = 0

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        self.taken += 1
        return obs, reward, bool(terminated or self.taken >= self.limit), truncated, info


class Endless(Fault):
    def step(self, action: Any) -> Any:
        obs, reward, _, _, info = super().step(action)
        return obs, reward, False, False, info


class OneSeed(Fault):
    def reset(self, **given: Any) -> Any:
        return super().reset(**{**given, "seed": 3})


class GoesOn(Fault):
    """The next episode starts where the last one ended."""

    def reset(self, **given: Any) -> Any:
        if getattr(self, "last", None) is not None:
            return self.last, {}
        return super().reset(**given)

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        self.last = obs
        return obs, reward, terminated, truncated, info


BOXED: Final = "box"
REAL: Final = "real"
ENDS: Final = "ends"
DRAWN: Final = "drawn"
SIZED: Final = "sized"
FAULTS: Final[dict[str, tuple[type[Fault], tuple[str, ...], float, tuple[str, ...]]]] = {
    "sign": (Sign, ("reward-sign",), 1.0, ()),
    "reward x 10,000": (Large, ("reward-scale-too-large",), 1e4, ()),
    "reward / 10,000": (Small, ("reward-scale-too-small",), 1e-4, (SIZED,)),
    "nothing is paid": (Constant, ("reward-never-seen",), 1.0, ()),
    "noise on rewards": (Noise, ("reward-noise",), 1.0, ()),
    "paid now and then": (Seldom, ("reward-sparse", "reward-noise"), 0.1, ()),
    "paid at the end": (Delayed, ("reward-delayed", "reward-sparse"), 1.0, (ENDS,)),
    "rewards clipped": (Clipped, ("reward-clipped", "reward-scale-too-small"), 1.0, (REAL,)),
    "four steps late": (Lag, ("observation-late",), 1.0, ()),
    "start is shown": (Frozen, ("observation-not-updated", "observation-constant"), 1.0, ()),
    "noise on observations": (Shaken, ("observation-noise",), 1.0, (REAL,)),
    "observations x 1,000": (Thousand, ("observation-scale",), 1.0, (REAL,)),
    "every other number is 0": (Half, ("observation-partial",), 1.0, (BOXED,)),
    "not a number": (NotFinite, ("environment-not-finite",), 1.0, (REAL,)),
    "actions ignored": (Ignored, ("actions-without-effect",), 1.0, ()),
    "actions replaced": (Replaced, ("actions-without-effect",), 1.0, ()),
    "own limit is an end": (Cut, ("time-limit-as-terminal", "episode-too-short"), 1.0, (ENDS,)),
    "no end": (Endless, ("time-limit-missing",), 1.0, (ENDS,)),
    "one seed": (OneSeed, ("starts-identical", "seeds-identical"), 1.0, (DRAWN,)),
    "goes on where it ended": (GoesOn, ("never-reset",), 1.0, (DRAWN,)),
}
"""By label: what is planted, the causes that are right, what good returns are multiplied with, and what it asks of an environment."""

HAS: Final[dict[str, tuple[str, ...]]] = {
    "simplegrid": (ENDS,),
    "2048": (BOXED, ENDS, DRAWN, SIZED),
    "breakout": (BOXED, ENDS, DRAWN, SIZED),
    "asterix": (BOXED, ENDS, DRAWN, SIZED),
    "invaders": (BOXED, ENDS, DRAWN, SIZED),
    "double pendulum": (BOXED, REAL, DRAWN),
    "half cheetah": (BOXED, REAL, ENDS, DRAWN, SIZED),
    "biped": (BOXED, REAL, ENDS, DRAWN, SIZED),
    "pusher": (BOXED, REAL, ENDS, DRAWN, SIZED),
    "walker": (BOXED, REAL, DRAWN, SIZED),
    "minecart": (BOXED, REAL, ENDS, SIZED),
    "reservoir": (REAL, ENDS, DRAWN),
    "treasure": (BOXED, SIZED),
    "gathering": (BOXED, SIZED),
    "four rooms": (BOXED, ENDS, SIZED),
    "point maze": (ENDS, DRAWN, SIZED),
}
"""By environment: boxes of several numbers, real numbers, episodes of random play of more than a few steps, starts that are drawn, and
rewards of the usual size, so that a ten-thousandth of them is small."""


def cells() -> list[tuple[str, str]]:
    """Each environment with its faults: those that were planted least so far, by a drawn order."""
    found: list[tuple[str, str]] = []
    for world, has in HAS.items():
        fitting = [label for label, (_, _, _, asks) in FAULTS.items() if set(asks) <= set(has)]
        used = [label for _, label in found]
        order = sorted(fitting, key=lambda label: (used.count(label), zlib.crc32(f"{world}/{label}".encode())))
        found += [(world, label) for label in order[:FAULTS_EACH]]
    return found


@cache
def _measure(world: str) -> tuple[float, Any]:
    """What a step of the sound environment usually pays, and the spread of its numbers, by a thousand random steps."""
    env = WORLDS[world].make()
    env.action_space.seed(0)
    env.reset(seed=0)
    paid, seen = [], []
    for _ in range(1_000):
        obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        paid.append(float(reward))
        seen.append(np.asarray(obs, float) if isinstance(obs, np.ndarray) else np.zeros(1))
        if terminated or truncated:
            env.reset()
    size = float(np.sqrt(np.mean(np.square(paid)))) or 1.0
    return size, np.std(seen, axis=0)


def make(world: str, label: str = "") -> Any:
    """The environment as it is, or with a fault."""
    env = WORLDS[world].make()
    if not label:
        return env
    kind, layer = FAULTS[label][0], env
    # An end that a wrapper makes is dropped around it.
    while kind is not Endless and type(layer).__name__ != WORLDS[world].layer and layer is not env.unwrapped:
        layer = layer.env
    size, spread = _measure(world)
    made, outer = type(layer), env
    changed = type(made.__name__, (kind, made), {"__module__": made.__module__, "size": size, "spread": spread})
    taken_in: Any = object.__new__(changed)
    taken_in.__dict__ = layer.__dict__
    if layer is env:
        return taken_in
    while outer.env is not layer:
        outer = outer.env
    outer.env = taken_in
    return env


def threshold(world: str, label: str = "") -> float:
    return WORLDS[world].threshold * (FAULTS[label][2] if label else 1.0)
