"""Families of small environments. A world is a pure function of (family, draw): its name says all, `point-3` is the same everywhere.

Families differ in what has to be learned; draws of one differ in coefficients, scales, horizons, reward terms and action spaces. Rules
of motion are written once for numbers of any kind: `xp` is numpy (one environment for Gymnasium) or torch (whole cohorts).
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

State = tuple[Any, ...]
Terms = dict[str, Any]
"""What a reward is made of, by name."""
DRAWS: Final = 6


@dataclass(frozen=True)
class Moved:
    """What one step led to."""

    state: State
    terms: Terms
    ended: Any
    """Whether the task itself ended."""
    success: Any = None


@dataclass(frozen=True)
class World:
    """One environment, without randomness of its own: uniform numbers are handed in."""

    family: str
    draw: int
    choices: int
    """Discrete actions; 0: a box."""
    dims: int
    """Dimensions of the box [-1, 1]; 0: discrete."""
    limit: int
    noise: int
    """Uniform numbers that a start is made of."""
    chance: bool
    """Whether a step takes a uniform number."""
    start: Callable[[Any, Sequence[Any]], State]
    step: Callable[[Any, State, Any, Any], Moved]
    """(xp, state, action, chance): the action is an integer, or a sequence of `dims` numbers."""
    observe: Callable[[Any, State], Sequence[Any]]
    obs_size: int
    obs_scale: float
    """Units of the observation."""
    reward_scale: float
    gamma: float
    success: bool = False
    """Whether it reports success at an episode's end."""

    @property
    def name(self) -> str:
        return f"{self.family}-{self.draw}"

    @property
    def id(self) -> str:
        """As environments are registered."""
        return f"{self.family.title()}World{self.draw}-v0"


class Draw:
    """The coefficients of one world."""

    def __init__(self, family: str, number: int) -> None:
        self._random = np.random.default_rng(zlib.crc32(f"{family}/{number}".encode()))
        self.number = number

    def between(self, low: float, high: float) -> float:
        return round(float(self._random.uniform(low, high)), 3)

    def scale(self, low: float, high: float) -> float:
        """Evenly over orders of magnitude."""
        return round(float(np.exp(self._random.uniform(np.log(low), np.log(high)))), 3)

    def whole(self, low: int, high: int) -> int:
        return int(self._random.integers(low, high + 1))

    @property
    def continuous(self) -> bool:
        """Every second draw of a family that can be either has a box of actions."""
        return self.number % 2 == 1


def _push(world_continuous: bool, action: Any, choices: int) -> Any:
    """One number in [-1, 1]: a box's only component, or evenly spread choices."""
    return action[0] if world_continuous else 2.0 * action / (choices - 1) - 1.0


def _thrust(continuous: bool, action: Any) -> tuple[Any, Any]:
    """Two numbers in [-1, 1]: a box's components, or one of five (none, left, right, down, up)."""
    if continuous:
        return action[0], action[1]
    return 1.0 * (action == 2) - 1.0 * (action == 1), 1.0 * (action == 4) - 1.0 * (action == 3)


def _world(family: str, draw: Draw, *, continuous: bool, choices: int, dims: int = 1, **more: Any) -> World:
    more |= {"obs_scale": draw.scale(0.4, 2.5), "reward_scale": draw.scale(0.3, 3.0)}
    more |= {"choices": 0, "dims": dims} if continuous else {"choices": choices, "dims": 0}
    return World(family=family, draw=draw.number, **more)


# ── families that the ranking may be fitted on ──


def point(d: Draw) -> World:
    """A mass in the plane that has to be steered into a disc around the origin."""
    continuous = d.continuous
    force, drag, radius, arena = d.between(0.12, 0.25), d.between(0.8, 0.95), d.between(0.35, 0.6), d.between(2.5, 4.0)
    fuel, step_cost, bonus = d.between(0.0, 0.05), d.between(0.0, 0.05), d.between(1.0, 5.0)

    def start(xp: Any, u: Sequence[Any]) -> State:
        angle, distance = 6.2832 * u[0], 1.0 + 1.2 * u[1]
        return distance * xp.cos(angle), distance * xp.sin(angle), 0.0 * u[0], 0.0 * u[0]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        fx, fy = _thrust(continuous, action)
        vx, vy = drag * s[2] + force * fx, drag * s[3] + force * fy
        x, y = s[0] + 0.4 * vx, s[1] + 0.4 * vy
        before, after = xp.sqrt(s[0] ** 2 + s[1] ** 2), xp.sqrt(x**2 + y**2)
        there, out = after < radius, (abs(x) > arena) | (abs(y) > arena)
        terms = {
            "progress": before - after,
            "fuel": -fuel * (fx**2 + fy**2),
            "time": -step_cost + 0.0 * after,
            "goal": bonus * there,
            "out": -2.0 * out,
        }
        return Moved((x, y, vx, vy), terms, there | out, 1.0 * there)

    return _world(
        "point", d, continuous=continuous, choices=5, dims=2, limit=d.whole(60, 120), noise=2, chance=False, start=start, step=step,
        observe=lambda xp, s: s, obs_size=4, gamma=0.98, success=True,
    )  # fmt: skip


def chain(d: Draw) -> World:
    """A corridor with a prize at one end, which is shown, and a fine at the other."""
    length, slip = d.whole(9, 17), d.between(0.0, 0.1)
    step_cost, prize, fine = d.between(0.02, 0.1), d.between(1.0, 4.0), d.between(0.5, 2.0)
    third = d.number % 3 == 0

    def start(xp: Any, u: Sequence[Any]) -> State:
        return xp.floor((0.3 + 0.4 * u[0]) * length), 1.0 * (u[1] > 0.5) * 2.0 - 1.0

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        move = action - 1.0 if third else 2.0 * action - 1.0
        place = s[0] + move * xp.where(chance < slip, -1.0 + 0.0 * chance, 1.0 + 0.0 * chance)
        low, high = place <= 0, place >= length - 1
        won = (low & (s[1] < 0)) | (high & (s[1] > 0))
        lost = (low | high) & ~won
        terms = {"time": -step_cost + 0.0 * place, "prize": prize * won, "fine": -fine * lost}
        return Moved((place, s[1]), terms, won | lost, 1.0 * won)

    return _world(
        "chain", d, continuous=False, choices=3 if third else 2, limit=d.whole(40, 80), noise=2, chance=True, start=start, step=step,
        observe=lambda xp, s: (2.0 * s[0] / length - 1.0, s[1]), obs_size=2, gamma=0.97, success=d.number % 2 == 0,
    )  # fmt: skip


def pendulum(d: Draw) -> World:
    """A rod with a motor that is strong enough to lift it."""
    continuous = d.continuous
    gravity, motor, friction = d.between(3.0, 7.0), d.between(1.2, 1.8), d.between(0.0, 0.3)
    effort, speed_cost = d.between(0.0, 0.02), d.between(0.02, 0.1)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 3.1416 * (2 * u[0] - 1), 2 * u[1] - 1

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        torque = _push(continuous, action, 3)
        speed = xp.clip(s[1] + 0.08 * (gravity * xp.sin(s[0]) + motor * gravity * torque - friction * s[1]), -7.0, 7.0)
        angle = s[0] + 0.08 * speed
        angle = angle - 6.2832 * xp.floor((angle + 3.1416) / 6.2832)
        terms = {"upright": -0.2 * angle**2, "speed": -speed_cost * speed**2 * 0.2, "effort": -effort * torque**2}
        return Moved((angle, speed), terms, abs(angle) > 1e9)

    return _world(
        "pendulum", d, continuous=continuous, choices=3, limit=d.whole(80, 140), noise=2, chance=False, start=start, step=step,
        observe=lambda xp, s: (xp.cos(s[0]), xp.sin(s[0]), 0.3 * s[1]), obs_size=3, gamma=0.95,
    )  # fmt: skip


def cart(d: Draw) -> World:
    """A pole on a cart, which falls unless it is balanced."""
    continuous = d.continuous
    cart_mass, pole_mass, half = d.between(0.7, 1.5), d.between(0.05, 0.3), d.between(0.35, 0.8)
    force, width, centre = d.between(8.0, 13.0), d.between(1.8, 3.0), d.between(0.0, 0.3)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return tuple(0.1 * (each - 0.5) for each in u)

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        x, v, angle, spin = s
        push = force * _push(continuous, action, 2)
        sin, cos, total = xp.sin(angle), xp.cos(angle), cart_mass + pole_mass
        drive = (push + pole_mass * half * spin**2 * sin) / total
        turn = (9.8 * sin - cos * drive) / (half * (4.0 / 3.0 - pole_mass * cos**2 / total))
        slide = drive - pole_mass * half * turn * cos / total
        x, v, angle, spin = x + 0.02 * v, v + 0.02 * slide, angle + 0.02 * spin, spin + 0.02 * turn
        fell = (abs(x) > width) | (abs(angle) > 0.21)
        terms = {"alive": 1.0 + 0.0 * x, "centre": -centre * (x / width) ** 2}
        return Moved((x, v, angle, spin), terms, fell)

    return _world(
        "cart", d, continuous=continuous, choices=2, limit=d.whole(150, 250), noise=4, chance=False, start=start, step=step,
        observe=lambda xp, s: s, obs_size=4, gamma=0.98,
    )  # fmt: skip


def queue(d: Draw) -> World:
    """Two lines of customers and one server, who may look after either, or rest."""
    busy, fast, holding, idle = d.between(0.35, 0.42), d.between(1.2, 1.5), d.between(1.5, 4.0), d.between(0.0, 0.1)
    room, lost = d.whole(8, 14), d.between(0.5, 1.5)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return xp.floor(room * 0.6 * u[0]), xp.floor(room * 0.6 * u[1])

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        first, second = xp.clip(s[0] - fast * (action == 0), 0.0, 99.0), xp.clip(s[1] - fast * (action == 1), 0.0, 99.0)
        first, second = first + 1.0 * (chance < busy), second + 1.0 * (chance > 1 - busy)
        over = (first > room) | (second > room)
        first, second = xp.clip(first, 0.0, float(room)), xp.clip(second, 0.0, float(room))
        terms = {
            "waiting": -(first + holding * second) / room,
            "work": -idle * (action < 2),
            "turned away": -lost * over,
        }
        return Moved((first, second), terms, first > 1e9)

    return _world(
        "queue", d, continuous=False, choices=3, limit=d.whole(50, 90), noise=2, chance=True, start=start, step=step,
        observe=lambda xp, s: (s[0] / room, s[1] / room), obs_size=2, gamma=0.95,
    )  # fmt: skip


def thermostat(d: Draw) -> World:
    """A room that loses heat, a heater, and a wish that differs from day to day."""
    continuous = d.continuous
    loss, power, drift, price = d.between(0.05, 0.12), d.between(0.2, 0.4), d.between(0.1, 0.4), d.between(0.0, 0.1)
    bounded, cold = d.number % 3 == 1, d.between(0.5, 1.0)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 2.4 * u[0] - 1.2, 1.6 * u[1] - 0.8, 6.2832 * u[2]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        heat = _push(continuous, action, 3)
        outside = -0.3 + drift * xp.sin(s[2])
        warmth = s[0] + loss * (outside - s[0]) + power * heat
        error = abs(warmth - s[1])
        broken = (error > 3.0) if bounded else (error > 1e9)
        terms = {"comfort": -error, "energy": -price * abs(heat), "broken": -5.0 * cold * broken}
        return Moved((warmth, s[1], s[2] + 0.1), terms, broken)

    return _world(
        "thermostat", d, continuous=continuous, choices=3, limit=d.whole(40, 80), noise=3, chance=False, start=start, step=step,
        observe=lambda xp, s: (s[0], s[1], xp.sin(s[2]), xp.cos(s[2])), obs_size=4, gamma=0.93,
    )  # fmt: skip


def grid(d: Draw) -> World:
    """A board on which a marked field has to be reached; some draws pay for coming nearer."""
    size, slip = d.whole(5, 8), d.between(0.0, 0.1)
    step_cost, prize, near = d.between(0.02, 0.1), d.between(1.0, 3.0), d.between(0.05, 0.2) * (d.number % 2)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return tuple(xp.floor(size * each) for each in u)

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        turned = xp.where(chance < slip, (action + 1) % 4, action + 0)
        x = xp.clip(s[0] + 1.0 * (turned == 0) - 1.0 * (turned == 1), 0.0, size - 1.0)
        y = xp.clip(s[1] + 1.0 * (turned == 2) - 1.0 * (turned == 3), 0.0, size - 1.0)
        before, after = abs(s[0] - s[2]) + abs(s[1] - s[3]), abs(x - s[2]) + abs(y - s[3])
        there = after < 0.5
        terms = {"time": -step_cost + 0.0 * x, "nearer": near * (before - after), "goal": prize * there}
        return Moved((x, y, s[2], s[3]), terms, there, 1.0 * there)

    return _world(
        "grid", d, continuous=False, choices=4, limit=d.whole(30, 60), noise=4, chance=True, start=start, step=step,
        observe=lambda xp, s: tuple(2.0 * each / (size - 1) - 1.0 for each in s), obs_size=4, gamma=0.95, success=True,
    )  # fmt: skip


def tracker(d: Draw) -> World:
    """A motor with inertia that has to follow a wave."""
    continuous = d.continuous
    inertia, power, pace, swing = d.between(0.7, 0.9), d.between(0.15, 0.3), d.between(0.08, 0.2), d.between(0.6, 1.2)
    effort, kind = d.between(0.0, 0.03), d.number % 3

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 2 * u[0] - 1, 0.0 * u[0], 6.2832 * u[1]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        push = _push(continuous, action, 5)
        speed = inertia * s[1] + power * push
        place, phase = s[0] + 0.5 * speed, s[2] + pace
        error = place - swing * xp.sin(phase)
        near = -abs(error) if kind == 0 else xp.exp(-2.0 * error**2) if kind == 1 else -xp.clip(error**2, 0.0, 4.0)
        return Moved((place, speed, phase), {"near": near, "effort": -effort * push**2}, abs(error) > 1e9)

    return _world(
        "tracker", d, continuous=continuous, choices=5, limit=d.whole(60, 100), noise=2, chance=False, start=start, step=step,
        observe=lambda xp, s: (s[0], 2.0 * s[1], swing * xp.sin(s[2]), swing * xp.cos(s[2])), obs_size=4, gamma=0.93,
    )  # fmt: skip


# ── families that are only measured on ──


def inventory(d: Draw) -> World:
    """A shop that orders goods, which come a day later; demand follows the season and chance."""
    continuous = d.continuous
    demand, season, wobble = d.between(0.8, 1.2), d.between(0.3, 0.6), d.between(0.1, 0.4)
    price, holding, order_cost, missed = d.between(0.8, 1.5), d.between(0.1, 0.4), d.between(0.2, 0.4), d.between(0.2, 0.8)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 3.0 * u[0], 1.0 * u[1], 6.2832 * u[2]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        order = 1.25 * (_push(continuous, action, 4) + 1.0)
        wanted = xp.clip(demand * (1 + season * xp.sin(s[2])) + wobble * (2 * chance - 1), 0.0, 9.0)
        stock = s[0] + s[1]
        sold = xp.minimum(stock, wanted)
        left = xp.clip(stock - sold, 0.0, 8.0)
        terms = {"sales": price * sold, "holding": -holding * left, "orders": -order_cost * order, "missed": -missed * (wanted - sold)}
        return Moved((left, order, s[2] + 0.3), terms, left > 1e9)

    return _world(
        "inventory", d, continuous=continuous, choices=4, limit=d.whole(40, 70), noise=3, chance=True, start=start, step=step,
        observe=lambda xp, s: (0.5 * s[0], 0.5 * s[1], xp.sin(s[2]), xp.cos(s[2])), obs_size=4, gamma=0.93,
    )  # fmt: skip


def pursuit(d: Draw) -> World:
    """A slower quarry that runs away and has to be caught before time is up."""
    continuous = d.continuous
    speed, flight, reach, room = d.between(0.3, 0.4), d.between(0.35, 0.6), d.between(0.4, 0.6), d.between(1.8, 2.6)
    step_cost, catch, distance_cost = d.between(0.02, 0.1), d.between(1.0, 5.0), d.between(0.02, 0.1)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return tuple(room * (1.6 * each - 0.8) for each in u)

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        fx, fy = _thrust(continuous, action)
        x, y = xp.clip(s[0] + speed * fx, -room, room), xp.clip(s[1] + speed * fy, -room, room)
        away = xp.sqrt((s[2] - x) ** 2 + (s[3] - y) ** 2) + 1e-6
        # It also dodges sideways, so that its corner is not known.
        side = 0.6 * xp.sin(6.2832 * chance)
        ex = xp.clip(s[2] + flight * speed * ((s[2] - x) / away - side * (s[3] - y) / away), -room, room)
        ey = xp.clip(s[3] + flight * speed * ((s[3] - y) / away + side * (s[2] - x) / away), -room, room)
        gap = xp.sqrt((ex - x) ** 2 + (ey - y) ** 2)
        caught = gap < reach
        terms = {"time": -step_cost + 0.0 * gap, "distance": -distance_cost * gap, "catch": catch * caught}
        return Moved((x, y, ex, ey), terms, caught, 1.0 * caught)

    return _world(
        "pursuit", d, continuous=continuous, choices=5, dims=2, limit=d.whole(50, 90), noise=4, chance=True, start=start, step=step,
        observe=lambda xp, s: (0.5 * s[0], 0.5 * s[1], 0.5 * s[2], 0.5 * s[3]), obs_size=4, gamma=0.97, success=d.number % 2 == 1,
    )  # fmt: skip


def lander(d: Draw) -> World:
    """A capsule that falls and has to touch down slowly, with little fuel burnt."""
    continuous = d.continuous
    gravity, engine, safe = d.between(0.05, 0.08), d.between(2.0, 3.0), d.between(0.25, 0.4)
    fuel, prize, crash, hover = d.between(0.01, 0.05), d.between(2.0, 5.0), d.between(1.0, 3.0), d.between(0.01, 0.05)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 2.0 + 2.0 * u[0], -0.3 * u[1]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        burn = 0.5 * (_push(continuous, action, 3) + 1.0)
        speed = s[1] + gravity * (engine * burn - 1.0)
        height = s[0] + 0.5 * speed
        down, lost = height <= 0, height > 6.0
        soft = down & (abs(speed) < safe)
        over = (down & ~soft) | lost
        terms = {"fuel": -fuel * burn, "time": -hover + 0.0 * height, "landed": prize * soft, "crashed": -crash * over}
        return Moved((height, speed), terms, down | lost, 1.0 * soft)

    return _world(
        "lander", d, continuous=continuous, choices=3, limit=d.whole(80, 120), noise=2, chance=False, start=start, step=step,
        observe=lambda xp, s: (0.5 * s[0] - 1.0, 2.0 * s[1]), obs_size=2, gamma=0.98, success=True,
    )  # fmt: skip


def tank(d: Draw) -> World:
    """Two tanks, one above the other: the lower one's level has to be held where it is wished."""
    continuous = d.continuous
    leak, flow, inflow, price = d.between(0.1, 0.2), d.between(0.15, 0.3), d.between(0.3, 0.5), d.between(0.0, 0.05)
    spills = d.number % 2 == 0

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 1.5 * u[0], 1.5 * u[1], 0.4 + 1.0 * u[2]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        valve = 0.5 * (_push(continuous, action, 4) + 1.0)
        down, out = flow * s[0], leak * s[1]
        upper, lower = s[0] + inflow * valve - down, s[1] + down - out
        over = lower > 2.2 if spills else lower > 1e9
        error = lower - s[2]
        terms = {"level": -(error**2), "pump": -price * valve, "spilled": -3.0 * over}
        return Moved((upper, lower, s[2]), terms, over)

    return _world(
        "tank", d, continuous=continuous, choices=4, limit=d.whole(50, 90), noise=3, chance=False, start=start, step=step,
        observe=lambda xp, s: s, obs_size=3, gamma=0.95,
    )  # fmt: skip


# ── families that stay closed until a bar was missed ──


def harvest(d: Draw) -> World:
    """A stock of fish that grows by itself: what is taken too early is not there later."""
    continuous = d.continuous
    growth, most, price_swing, toil = d.between(0.25, 0.4), d.between(0.4, 0.6), d.between(0.4, 0.8), d.between(0.02, 0.08)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 0.3 + 0.6 * u[0], 6.2832 * u[1]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        effort = 0.5 * (_push(continuous, action, 3) + 1.0)
        caught = most * effort * s[0]
        rest = s[0] - caught
        stock = xp.clip(rest + growth * rest * (1 - rest) + 0.04 * (chance - 0.5), 0.0, 1.5)
        gone = stock < 0.05
        price = 1.0 + price_swing * xp.sin(s[1])
        terms = {"catch": 5.0 * price * caught, "toil": -toil * effort, "gone": -3.0 * gone}
        return Moved((stock, s[1] + 0.35), terms, gone)

    return _world(
        "harvest", d, continuous=continuous, choices=3, limit=d.whole(50, 80), noise=2, chance=True, start=start, step=step,
        observe=lambda xp, s: (2.0 * s[0] - 1.0, xp.sin(s[1]), xp.cos(s[1])), obs_size=3, gamma=0.95,
    )  # fmt: skip


def crane(d: Draw) -> World:
    """A trolley with a swinging load that has to come to rest above its mark."""
    continuous = d.continuous
    force, drag, swing, calm = d.between(0.1, 0.2), d.between(0.8, 0.92), d.between(0.15, 0.35), d.between(0.9, 0.97)
    sway_cost, effort = d.between(0.1, 0.5), d.between(0.0, 0.03)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 3.0 * u[0] - 1.5, 0.0 * u[0], 0.6 * u[1] - 0.3, 0.0 * u[0]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        push = _push(continuous, action, 3)
        gain = force * push
        speed = drag * s[1] + gain
        place = s[0] + 0.5 * speed
        rate = calm * s[3] - swing * s[2] - 0.5 * gain
        sway = s[2] + 0.5 * rate
        out = abs(place) > 4.0
        terms = {"mark": -abs(place), "sway": -sway_cost * abs(sway), "effort": -effort * push**2, "out": -10.0 * out}
        return Moved((place, speed, sway, rate), terms, out)

    return _world(
        "crane", d, continuous=continuous, choices=3, limit=d.whole(60, 100), noise=2, chance=False, start=start, step=step,
        observe=lambda xp, s: (s[0], 2.0 * s[1], 2.0 * s[2], 2.0 * s[3]), obs_size=4, gamma=0.95,
    )  # fmt: skip


def battery(d: Draw) -> World:
    """A battery that buys power when it is cheap and sells it when it is dear."""
    continuous = d.continuous
    rate, loss, swing, wear = d.between(0.2, 0.35), d.between(0.85, 0.95), d.between(0.5, 0.9), d.between(0.0, 0.05)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 1.0 * u[0], 6.2832 * u[1]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        wish = rate * _push(continuous, action, 3)
        charge = xp.clip(s[0] + wish, 0.0, 1.0)
        moved = charge - s[0]
        price = 1.0 + swing * xp.sin(s[1])
        sold, bought = xp.clip(-moved, 0.0, 1.0), xp.clip(moved, 0.0, 1.0)
        terms = {"sold": 4.0 * loss * price * sold, "bought": -4.0 * price * bought, "wear": -wear * abs(moved)}
        return Moved((charge, s[1] + 0.3), terms, charge > 1e9)

    return _world(
        "battery", d, continuous=continuous, choices=3, limit=d.whole(50, 80), noise=2, chance=False, start=start, step=step,
        observe=lambda xp, s: (2.0 * s[0] - 1.0, xp.sin(s[1]), xp.cos(s[1])), obs_size=3, gamma=0.95,
    )  # fmt: skip


# ── families of the second look: drawn after the first one, before anything was changed for it ──


def steering(d: Draw) -> World:
    """A cart that always rolls and can only be turned: it has to be driven through a gate."""
    continuous = d.continuous
    pace, turn, gate, field = d.between(0.15, 0.25), d.between(0.25, 0.45), d.between(0.35, 0.55), d.between(2.8, 3.6)
    near, swerve, prize, fine = d.between(0.2, 1.0), d.between(0.0, 0.03), d.between(1.0, 4.0), d.between(0.5, 2.0)

    def start(xp: Any, u: Sequence[Any]) -> State:
        angle = 6.2832 * u[0]
        return 1.8 * xp.cos(angle), 1.8 * xp.sin(angle), 6.2832 * u[1]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        wheel = _push(continuous, action, 3)
        heading = s[2] + turn * wheel
        x, y = s[0] + pace * xp.cos(heading), s[1] + pace * xp.sin(heading)
        before, after = xp.sqrt(s[0] ** 2 + s[1] ** 2), xp.sqrt(x**2 + y**2)
        through, lost = after < gate, after > field
        terms = {"nearer": near * (before - after), "swerve": -swerve * wheel**2, "gate": prize * through, "lost": -fine * lost}
        return Moved((x, y, heading), terms, through | lost, 1.0 * through)

    return _world(
        "steering", d, continuous=continuous, choices=3, limit=d.whole(50, 90), noise=2, chance=False, start=start, step=step,
        observe=lambda xp, s: (0.5 * s[0], 0.5 * s[1], xp.sin(s[2]), xp.cos(s[2])), obs_size=4, gamma=0.97, success=d.number % 3 != 0,
    )  # fmt: skip


def dosing(d: Draw) -> World:
    """A drug that goes from the blood into tissue: its level there has to stay in a window that differs between patients."""
    continuous = d.continuous
    uptake, clearing, dose, harm = d.between(0.15, 0.3), d.between(0.15, 0.3), d.between(0.6, 0.9), d.between(0.2, 0.6)
    price, width, stops = d.between(0.0, 0.05), d.between(0.15, 0.3), d.number % 3 == 2

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 0.5 * u[0], 2.0 * u[1], 0.5 + 1.0 * u[2]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        given = 0.5 * dose * (_push(continuous, action, 4) + 1.0)
        blood = s[0] + given
        absorbed = uptake * blood
        tissue = s[1] + absorbed - clearing * s[1]
        miss = xp.clip(abs(tissue - s[2]) - width, 0.0, 9.0)
        poisoned = tissue > 3.2 if stops else tissue > 1e9
        terms = {
            "window": 0.5 * (miss <= 0),
            "miss": -miss,
            "blood": -harm * xp.clip(blood - 2.5, 0.0, 9.0),
            "drug": -price * given,
            "poisoned": -4.0 * poisoned,
        }
        return Moved((blood - absorbed - 0.1 * blood, tissue, s[2]), terms, poisoned)

    return _world(
        "dosing", d, continuous=continuous, choices=4, limit=d.whole(40, 70), noise=3, chance=False, start=start, step=step,
        observe=lambda xp, s: (s[0] - 1.0, s[1] - 1.0, s[2] - 1.0), obs_size=3, gamma=0.94,
    )  # fmt: skip


def traffic(d: Draw) -> World:
    """A sender on a shared line: what is sent beyond the line's room queues up, and is lost when the queue is full."""
    continuous = d.continuous
    swing, pace, change, room = d.between(0.3, 0.6), d.between(0.15, 0.35), d.between(0.15, 0.3), d.between(1.5, 3.0)
    delay_cost, loss_cost = d.between(0.1, 0.4), d.between(0.5, 2.0)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 0.2 + 1.2 * u[0], room * 0.5 * u[1], 6.2832 * u[2]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        rate = xp.clip(s[0] + change * _push(continuous, action, 3), 0.0, 2.0)
        free = 1.0 + swing * xp.sin(s[2]) + 0.2 * (chance - 0.5)
        waiting = s[1] + rate - free
        lost, queued = xp.clip(waiting - room, 0.0, 9.0), xp.clip(waiting, 0.0, room)
        terms = {"sent": rate - lost, "delay": -delay_cost * queued, "lost": -loss_cost * lost}
        return Moved((rate, queued, s[2] + pace), terms, queued > 1e9)

    return _world(
        "traffic", d, continuous=continuous, choices=3, limit=d.whole(50, 90), noise=3, chance=True, start=start, step=step,
        observe=lambda xp, s: (s[0] - 1.0, s[1] / room, xp.sin(s[2]), xp.cos(s[2])), obs_size=4, gamma=0.95,
    )  # fmt: skip


def lift(d: Draw) -> World:
    """A lift with one caller at a time, who waits on some floor; the caller's floor is shown."""
    floors, door, wait_cost = d.whole(6, 10), d.between(0.0, 0.05), d.between(0.05, 0.2)
    fare, wrong = d.between(0.5, 2.0), d.between(0.1, 0.5)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return xp.floor(floors * u[0]), xp.floor(floors * u[1])

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        # Down, open the door, up.
        place = xp.clip(s[0] + 1.0 * (action == 2) - 1.0 * (action == 0), 0.0, floors - 1.0)
        opened = action == 1
        met = opened & (abs(place - s[1]) < 0.5)
        caller = xp.where(met, xp.floor(floors * chance) + 0.0 * place, s[1] + 0.0 * place)
        terms = {
            "wait": -wait_cost * abs(place - s[1]) / floors,
            "fare": fare * met,
            "door": -door * opened,
            "wrong": -wrong * (opened & ~met),
        }
        return Moved((place, caller), terms, place > 1e9)

    return _world(
        "lift", d, continuous=False, choices=3, limit=d.whole(40, 70), noise=2, chance=True, start=start, step=step,
        observe=lambda xp, s: (2.0 * s[0] / (floors - 1) - 1.0, 2.0 * s[1] / (floors - 1) - 1.0), obs_size=2, gamma=0.95,
    )  # fmt: skip


def beam(d: Draw) -> World:
    """A ball on a beam that can be tilted: it has to lie still in the middle, and must not roll off."""
    continuous = d.continuous
    roll, tilt, friction, half = d.between(0.08, 0.15), d.between(0.3, 0.6), d.between(0.92, 0.99), d.between(1.0, 1.4)
    alive, away, effort = d.between(0.5, 1.0), d.between(0.5, 1.5), d.between(0.0, 0.05)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 1.2 * u[0] - 0.6, 0.2 * u[1] - 0.1, 0.0 * u[0]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        push = _push(continuous, action, 3)
        slope = xp.clip(s[2] + tilt * push, -1.0, 1.0)
        speed = friction * s[1] + roll * slope
        place = s[0] + 0.5 * speed
        off = abs(place) > half
        terms = {"alive": alive + 0.0 * place, "away": -away * abs(place), "effort": -effort * push**2, "off": -5.0 * off}
        return Moved((place, speed, slope), terms, off)

    return _world(
        "beam", d, continuous=continuous, choices=3, limit=d.whole(60, 120), noise=2, chance=False, start=start, step=step,
        observe=lambda xp, s: (s[0], 3.0 * s[1], s[2]), obs_size=3, gamma=0.96,
    )  # fmt: skip


# ── families of the third look: drawn after the rules were frozen for it ──


def mixer(d: Draw) -> World:
    """A vessel with two inflows of different strength and a drain: level and concentration have to meet a recipe that is shown."""
    continuous = d.continuous
    inflow, drain, weak, strong = d.between(0.08, 0.16), d.between(0.04, 0.08), d.between(0.0, 0.2), d.between(0.8, 1.0)
    taste, level_cost, waste = d.between(1.0, 3.0), d.between(0.5, 1.5), d.between(0.0, 0.05)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 0.4 + 0.6 * u[0], u[1] + 0.0, 0.3 + 0.4 * u[2]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        first, second = _thrust(continuous, action)
        thin, rich = inflow * xp.clip(0.5 + 0.5 * first, 0.0, 1.0), inflow * xp.clip(0.5 + 0.5 * second, 0.0, 1.0)
        level = s[0] + thin + rich
        mixed = (s[0] * s[1] + thin * weak + rich * strong) / level
        level = xp.clip(level - drain * (1.0 + s[0]), 0.1, 2.0)
        terms = {"recipe": -taste * abs(mixed - s[2]), "level": -level_cost * abs(level - 1.0), "waste": -waste * (thin + rich) / inflow}
        return Moved((level, mixed, s[2]), terms, level > 1e9)

    return _world(
        "mixer", d, continuous=continuous, choices=5, dims=2, limit=d.whole(40, 80), noise=3, chance=False, start=start, step=step,
        observe=lambda xp, s: (2.0 * s[0] - 2.0, 2.0 * s[1] - 1.0, 2.0 * s[2] - 1.0), obs_size=3, gamma=0.94,
    )  # fmt: skip


def archer(d: Draw) -> World:
    """Aim, and let go: the one shot ends the episode and pays by how near it came."""
    turn, wind, patience = d.between(0.1, 0.2), d.between(0.1, 0.4), d.between(0.005, 0.02)
    width, bull = d.between(0.25, 0.4), d.between(2.0, 6.0)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 2.0 * u[0] - 1.0, 1.6 * u[1] - 0.8, 2.0 * u[2] - 1.0

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        # Left, right, let go.
        aim = xp.clip(s[0] + turn * (1.0 * (action == 1) - 1.0 * (action == 0)), -1.5, 1.5)
        shot = action == 2
        miss = aim + wind * s[2] - s[1]
        near = xp.exp(-((miss / width) ** 2))
        hit = shot & (abs(miss) < width)
        terms = {"time": -patience + 0.0 * aim, "shot": bull * near * shot, "wide": -1.0 * (shot & (abs(miss) > 2.5 * width))}
        return Moved((aim, s[1], s[2]), terms, shot, 1.0 * hit)

    return _world(
        "archer", d, continuous=False, choices=3, limit=d.whole(30, 50), noise=3, chance=False, start=start, step=step,
        observe=lambda xp, s: s, obs_size=3, gamma=0.97, success=d.number % 2 == 0,
    )  # fmt: skip


def patrol(d: Draw) -> World:
    """A guard on a corridor with an alarm at either end: each grows louder until the guard comes."""
    continuous = d.continuous
    pace, half, noise_left, noise_right = d.between(0.2, 0.35), d.between(0.8, 1.2), d.between(0.04, 0.08), d.between(0.08, 0.14)
    reward, tired = d.between(0.5, 1.5), d.between(0.0, 0.03)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return half * (2.0 * u[0] - 1.0), 1.0 * u[1], 1.0 * u[2]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        move = _push(continuous, action, 3)
        place = xp.clip(s[0] + pace * move, -half, half)
        at_left, at_right = place < -0.85 * half, place > 0.85 * half
        left, right = s[1] + noise_left, s[2] + noise_right
        quiet = reward * (left * at_left + right * at_right)
        left, right = xp.where(at_left, 0.0 * left, xp.clip(left, 0.0, 2.0)), xp.where(at_right, 0.0 * right, xp.clip(right, 0.0, 2.0))
        terms = {"noise": -0.3 * (left + right), "quiet": quiet, "steps": -tired * move**2}
        return Moved((place, left, right), terms, place > 1e9)

    return _world(
        "patrol", d, continuous=continuous, choices=3, limit=d.whole(50, 90), noise=3, chance=False, start=start, step=step,
        observe=lambda xp, s: (s[0] / half, s[1] - 1.0, s[2] - 1.0), obs_size=3, gamma=0.95,
    )  # fmt: skip


def rocket(d: Draw) -> World:
    """A rocket that has to hover at a height that is shown; its fuel makes it lighter, and it must neither crash nor fly off."""
    continuous = d.continuous
    gravity, engine, burn, top = d.between(0.04, 0.07), d.between(0.12, 0.18), d.between(0.001, 0.003), d.between(3.0, 4.5)
    near, alive, crash = d.between(0.5, 1.5), d.between(0.0, 0.3), d.between(2.0, 6.0)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 1.0 + 1.5 * u[0], 0.2 * u[1] - 0.1, 1.0 + 0.0 * u[0], 1.0 + 1.5 * u[2]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        thrust = 0.5 * (_push(continuous, action, 3) + 1.0)
        fuel = xp.clip(s[2] - burn * thrust, 0.0, 1.0)
        speed = 0.98 * s[1] + engine * thrust / (0.7 + 0.3 * fuel) - gravity
        height = s[0] + speed
        lost = (height < 0.0) | (height > top)
        terms = {"near": near * xp.exp(-2.0 * (height - s[3]) ** 2), "alive": alive + 0.0 * height, "lost": -crash * lost}
        return Moved((height, speed, fuel, s[3]), terms, lost)

    return _world(
        "rocket", d, continuous=continuous, choices=3, limit=d.whole(60, 110), noise=3, chance=False, start=start, step=step,
        observe=lambda xp, s: (s[0] - 2.0, 4.0 * s[1], s[2], s[3] - 2.0), obs_size=4, gamma=0.96,
    )  # fmt: skip


def ferry(d: Draw) -> World:
    """A ferry between two docks: people come to both by chance, and pay when they are brought across."""
    crossing, room, busy = d.whole(3, 5), d.whole(3, 6), d.between(0.25, 0.4)
    fare, wait, oil = d.between(0.5, 1.5), d.between(0.02, 0.08), d.between(0.05, 0.2)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 0.0 * u[0], 1.0 * (u[1] > 0.5), xp.floor(room * u[2]), xp.floor(room * u[0])

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        # Wait, or cast off; under way nothing can be chosen. s: steps left on the water, the dock, people here and there.
        under_way = s[0] > 0.5
        casts = (action == 1) & ~under_way
        here, there = xp.clip(s[2] + 1.0 * (chance < busy), 0.0, 2.0 * room), xp.clip(s[3] + 1.0 * (chance > 1 - busy), 0.0, 2.0 * room)
        aboard = xp.where(casts, xp.clip(here, 0.0, float(room)), 0.0 * here)
        here = here - aboard
        left = xp.where(casts, crossing + 0.0 * here, xp.clip(s[0] - 1.0, 0.0, 99.0))
        # Who casts off has left this dock: what was there is here on arrival.
        side = xp.where(casts, 1.0 - s[1], s[1] + 0.0 * here)
        now, then = xp.where(casts, there, here), xp.where(casts, here, there)
        terms = {"fares": fare * aboard, "waiting": -wait * (here + there), "oil": -oil * casts}
        return Moved((left, side, now, then), terms, here > 1e9)

    return _world(
        "ferry", d, continuous=False, choices=2, limit=d.whole(50, 90), noise=3, chance=True, start=start, step=step,
        observe=lambda xp, s: (2.0 * s[0] / crossing - 1.0, 2.0 * s[1] - 1.0, s[2] / room - 1.0, s[3] / room - 1.0), obs_size=4, gamma=0.96,
    )  # fmt: skip


def fishery(d: Draw) -> World:
    """A stock of fish that grows by itself, with the seasons, and is gone for good when too many are caught."""
    continuous = d.continuous
    growth, season, gear, cost = d.between(0.15, 0.3), d.between(0.2, 0.5), d.between(0.15, 0.3), d.between(0.02, 0.08)
    price, last = d.between(2.0, 5.0), d.between(0.12, 0.2)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 0.4 + 0.5 * u[0], 6.2832 * u[1]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        effort = 0.5 * (_push(continuous, action, 4) + 1.0)
        caught = gear * effort * s[0]
        stock = s[0] - caught + growth * (1 + season * xp.sin(s[1])) * s[0] * (1.0 - s[0])
        gone = stock < last
        terms = {"catch": price * caught, "effort": -cost * effort, "gone": -2.0 * price * gone}
        return Moved((stock, s[1] + 0.25), terms, gone)

    return _world(
        "fishery", d, continuous=continuous, choices=4, limit=d.whole(60, 100), noise=2, chance=False, start=start, step=step,
        observe=lambda xp, s: (4.0 * s[0] - 2.0, xp.sin(s[1]), xp.cos(s[1])), obs_size=3, gamma=0.97,
    )  # fmt: skip


def radio(d: Draw) -> World:
    """Three channels whose quality comes and goes; listening to one pays its quality, and changing the channel costs."""
    pace, fading, change = d.between(0.08, 0.2), d.between(0.5, 1.0), d.between(0.1, 0.4)
    hum, offset = d.between(0.0, 0.2), d.between(-0.3, 0.3)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 6.2832 * u[0], xp.floor(3.0 * u[1])

    def qualities(xp: Any, phase: Any) -> tuple[Any, Any, Any]:
        return tuple(fading * xp.sin(phase + shift) + offset for shift in (0.0, 2.1, 4.2))

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        phase = s[0] + pace * (0.5 + chance)
        heard = sum(quality * (action == number) for number, quality in enumerate(qualities(xp, phase)))
        terms = {"heard": heard, "change": -change * (action != s[1]), "hum": hum * (chance - 0.5)}
        return Moved((phase, action + 0.0 * phase), terms, phase > 1e9)

    return _world(
        "radio", d, continuous=False, choices=3, limit=d.whole(40, 80), noise=2, chance=True, start=start, step=step,
        observe=lambda xp, s: (*qualities(xp, s[0]), s[1] - 1.0), obs_size=4, gamma=0.93,
    )  # fmt: skip


def sailing(d: Draw) -> World:
    """A boat that cannot sail into the wind: a buoy has to be reached on a course that the wind allows."""
    continuous = d.continuous
    pace, rudder, dead, buoy = d.between(0.15, 0.25), d.between(0.3, 0.5), d.between(0.5, 0.8), d.between(0.4, 0.6)
    near, late, prize, sea = d.between(0.5, 1.5), d.between(0.0, 0.03), d.between(1.0, 4.0), d.between(3.0, 4.0)

    def start(xp: Any, u: Sequence[Any]) -> State:
        angle = 6.2832 * u[0]
        return 2.0 * xp.cos(angle), 2.0 * xp.sin(angle), 6.2832 * u[1], 6.2832 * u[2]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        heading = s[2] + rudder * _push(continuous, action, 3)
        # Full speed with the wind from the side, none against it.
        speed = pace * xp.clip(1.0 + dead - (1.0 + dead) * xp.cos(heading - s[3]), 0.0, 1.0)
        x, y = s[0] + speed * xp.cos(heading), s[1] + speed * xp.sin(heading)
        before, after = xp.sqrt(s[0] ** 2 + s[1] ** 2), xp.sqrt(x**2 + y**2)
        there, lost = after < buoy, after > sea
        terms = {"nearer": near * (before - after), "time": -late + 0.0 * after, "buoy": prize * there, "lost": -1.0 * lost}
        return Moved((x, y, heading, s[3]), terms, there | lost, 1.0 * there)

    return _world(
        "sailing", d, continuous=continuous, choices=3, limit=d.whole(60, 100), noise=3, chance=False, start=start, step=step,
        observe=lambda xp, s: (0.5 * s[0], 0.5 * s[1], xp.sin(s[2]), xp.cos(s[2]), xp.sin(s[3]), xp.cos(s[3])), obs_size=6, gamma=0.97,
        success=d.number % 2 == 1,
    )  # fmt: skip


def press(d: Draw) -> World:
    """A machine that pays for its speed, heats up with it, and breaks when it is too hot; orders differ in how much they pay."""
    continuous = d.continuous
    heating, cooling, change, limit = d.between(0.1, 0.18), d.between(0.05, 0.1), d.between(0.2, 0.4), d.between(1.0, 1.4)
    pay, broken, swing = d.between(0.5, 1.5), d.between(3.0, 8.0), d.between(0.3, 0.8)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 1.0 * u[0], 0.6 * u[1], 6.2832 * u[2]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        speed = xp.clip(s[0] + change * _push(continuous, action, 3), 0.0, 1.5)
        heat = s[1] + heating * speed**2 - cooling * (0.3 + s[1])
        heat = xp.clip(heat, 0.0, 9.0)
        breaks = heat > limit
        terms = {"made": pay * (1.0 + swing * xp.sin(s[2])) * speed, "broken": -broken * breaks}
        return Moved((speed, heat, s[2] + 0.2), terms, breaks)

    return _world(
        "press", d, continuous=continuous, choices=3, limit=d.whole(50, 90), noise=3, chance=False, start=start, step=step,
        observe=lambda xp, s: (s[0] - 0.75, 2.0 * s[1] / limit - 1.0, xp.sin(s[2]), xp.cos(s[2])), obs_size=4, gamma=0.96,
    )  # fmt: skip


def orbit(d: Draw) -> World:
    """A satellite that is turned by a wheel, which can only store so much spin: it has to point where it is told."""
    continuous = d.continuous
    torque, damping, store, effort = d.between(0.06, 0.12), d.between(0.96, 1.0), d.between(0.6, 1.0), d.between(0.0, 0.05)
    sharp, pays = d.between(0.3, 1.0), d.number % 2

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 2.4 * u[0] - 1.2, 0.1 * u[1] - 0.05, 0.0 * u[0], 1.6 * u[2] - 0.8

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        push = _push(continuous, action, 3)
        wheel = xp.clip(s[2] + torque * push, -store, store)
        spin = damping * s[1] - (wheel - s[2])
        angle = s[0] + spin
        error = angle - s[3]
        pointing = xp.exp(-((error / sharp) ** 2)) if pays else -xp.clip(abs(error), 0.0, 3.0)
        return Moved((angle, spin, wheel, s[3]), {"pointing": pointing, "effort": -effort * push**2}, abs(angle) > 1e9)

    return _world(
        "orbit", d, continuous=continuous, choices=3, limit=d.whole(50, 90), noise=3, chance=False, start=start, step=step,
        observe=lambda xp, s: (s[0], 5.0 * s[1], s[2] / store, s[3]), obs_size=4, gamma=0.95,
    )  # fmt: skip


# ── families of the fourth look: drawn after the rules were frozen for it ──


def market(d: Draw) -> World:
    """A price that swings around its mean, and a position that costs whenever it is changed."""
    continuous = d.continuous
    back, jump, fee, carry = d.between(0.1, 0.2), d.between(0.15, 0.3), d.between(0.01, 0.04), d.between(0.0, 0.02)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 2.0 * u[0] - 1.0, 0.0 * u[1]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        held = _push(continuous, action, 3)
        price = s[0] - back * s[0] + jump * (2.0 * chance - 1.0)
        terms = {"gain": held * (price - s[0]), "fees": -fee * abs(held - s[1]), "carry": -carry * abs(held)}
        return Moved((price, held + 0.0 * price), terms, price > 1e9)

    return _world(
        "market", d, continuous=continuous, choices=3, limit=d.whole(50, 90), noise=2, chance=True, start=start, step=step,
        observe=lambda xp, s: s, obs_size=2, gamma=0.93,
    )  # fmt: skip


def juggler(d: Draw) -> World:
    """A ball on a bat: how hard each bounce is struck decides how high it flies; it has to stay near a height that is shown."""
    continuous = d.continuous
    gravity, lively, power, tired = d.between(0.06, 0.1), d.between(0.6, 0.8), d.between(0.25, 0.4), d.between(0.0, 0.03)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 0.5 + u[0], 0.2 * u[1] - 0.1, 0.6 + 0.8 * u[2]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        strike = 0.5 * (_push(continuous, action, 3) + 1.0)
        speed = s[1] - gravity
        height = s[0] + speed
        low = height < 0.0
        speed = xp.where(low, lively * abs(speed) + power * strike, speed)
        height = xp.clip(height, 0.0, 6.0)
        terms = {"near": xp.exp(-2.0 * (height - s[2]) ** 2), "effort": -tired * strike}
        return Moved((height, speed, s[2]), terms, height > 1e9)

    return _world(
        "juggler", d, continuous=continuous, choices=3, limit=d.whole(60, 100), noise=3, chance=False, start=start, step=step,
        observe=lambda xp, s: (s[0] - 1.0, 3.0 * s[1], s[2] - 1.0), obs_size=3, gamma=0.97,
    )  # fmt: skip


def garden(d: Draw) -> World:
    """Two beds that dry at different rates, one can: each wants to be neither dry nor wet."""
    slow, fast, pour, water = d.between(0.03, 0.06), d.between(0.08, 0.12), d.between(0.2, 0.3), d.between(0.0, 0.05)
    rain, shower = d.between(0.02, 0.08), d.between(0.2, 0.4)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 1.0 * u[0], 1.0 * u[1]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        wet = shower * (chance < rain)
        first = xp.clip(s[0] * (1.0 - slow) + pour * (action == 0) + wet, 0.0, 1.5)
        second = xp.clip(s[1] * (1.0 - fast) + pour * (action == 1) + wet, 0.0, 1.5)
        terms = {"first": -abs(first - 0.6), "second": -abs(second - 0.6), "water": -water * (action < 2)}
        return Moved((first, second), terms, first > 1e9)

    return _world(
        "garden", d, continuous=False, choices=3, limit=d.whole(40, 80), noise=2, chance=True, start=start, step=step,
        observe=lambda xp, s: (2.0 * s[0] - 1.0, 2.0 * s[1] - 1.0), obs_size=2, gamma=0.94,
    )  # fmt: skip


def glider(d: Draw) -> World:
    """A glider that trades height for speed and finds lift where the air rises: the longer and farther it flies, the better."""
    continuous = d.continuous
    sink, lift, pitch, drag = d.between(0.03, 0.05), d.between(0.06, 0.1), d.between(0.1, 0.2), d.between(0.05, 0.1)
    far, aloft, crash = d.between(0.3, 0.8), d.between(0.1, 0.3), d.between(1.0, 4.0)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 0.8 + 0.4 * u[0], 0.8 + 0.4 * u[1], 6.2832 * u[2]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        nose = _push(continuous, action, 3)
        speed = xp.clip(s[1] - drag * (s[1] - 0.6) - pitch * nose, 0.1, 2.0)
        stalls = 0.1 * (speed < 0.35)
        height = s[0] + pitch * nose * speed * 0.6 - sink * (0.5 + speed**2) + lift * xp.clip(xp.sin(s[2]), 0.0, 1.0) - stalls
        height = xp.clip(height, -1.0, 2.0)
        down = height < 0.0
        terms = {"far": far * speed, "aloft": aloft + 0.0 * height, "crash": -crash * down}
        return Moved((height, speed, s[2] + 0.15 * speed), terms, down)

    return _world(
        "glider", d, continuous=continuous, choices=3, limit=d.whole(60, 100), noise=3, chance=False, start=start, step=step,
        observe=lambda xp, s: (s[0] - 1.0, s[1] - 0.8, xp.sin(s[2]), xp.cos(s[2])), obs_size=4, gamma=0.97,
    )  # fmt: skip


def epidemic(d: Draw) -> World:
    """An illness that spreads among those who never had it: measures slow it down, and cost."""
    continuous = d.continuous
    spread, heal, strict, import_rate = d.between(0.5, 0.8), d.between(0.15, 0.25), d.between(0.7, 0.95), d.between(0.001, 0.004)
    ill, cost, lapse = d.between(2.0, 5.0), d.between(0.1, 0.3), d.between(0.02, 0.05)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 0.6 + 0.4 * u[0], 0.02 + 0.2 * u[1]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        measures = 0.5 * (_push(continuous, action, 4) + 1.0)
        caught = spread * (1.0 - strict * measures) * s[0] * s[1] + import_rate * s[0]
        sick = xp.clip(s[1] + caught - heal * s[1], 0.0, 1.0)
        open_to = xp.clip(s[0] - caught + lapse * (1.0 - s[0] - s[1]), 0.0, 1.0)
        return Moved((open_to, sick), {"ill": -ill * sick, "measures": -cost * measures**2}, sick > 1e9)

    return _world(
        "epidemic", d, continuous=continuous, choices=4, limit=d.whole(50, 90), noise=2, chance=False, start=start, step=step,
        observe=lambda xp, s: (2.0 * s[0] - 1.0, 6.0 * s[1] - 1.0), obs_size=2, gamma=0.96,
    )  # fmt: skip


def drummer(d: Draw) -> World:
    """A beat that comes round at a tempo of its own: to hit on it pays, to hit beside it costs."""
    slow, wide, sharp, wrong = d.between(0.25, 0.4), d.between(0.2, 0.4), d.between(0.4, 0.7), d.between(0.2, 0.5)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 6.2832 * u[0], u[1] + 0.0

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        hit = 1.0 * (action == 1)
        phase = s[0] + slow + wide * s[1] + 0.05 * (2.0 * chance - 1.0)
        away = 1.0 - xp.cos(s[0])
        on = away < sharp
        return Moved((phase, s[1]), {"on": hit * on * (1.0 - away), "beside": -wrong * hit * (1.0 - on * 1.0)}, phase > 1e9)

    return _world(
        "drummer", d, continuous=False, choices=2, limit=d.whole(40, 80), noise=2, chance=True, start=start, step=step,
        observe=lambda xp, s: (xp.sin(s[0]), xp.cos(s[0]), 2.0 * s[1] - 1.0), obs_size=3, gamma=0.93,
    )  # fmt: skip


def rowing(d: Draw) -> World:
    """A boat with an oar on either side: pulled alike they drive it, unlike they turn it; a course is shown that it has to keep."""
    continuous = d.continuous
    drive, turn, glide, current = d.between(0.06, 0.1), d.between(0.15, 0.25), d.between(0.85, 0.93), d.between(0.0, 0.03)
    pay, tired = d.between(0.5, 1.5), d.between(0.0, 0.05)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 3.0 * u[0] - 1.5, 0.0 * u[0], 0.0 * u[0], 1.6 * u[1] - 0.8

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        left, right = _thrust(continuous, action)
        speed = glide * s[1] + drive * (left + right)
        spin = 0.7 * s[2] + turn * (right - left)
        heading = s[0] + 0.5 * spin + current
        heading = heading - 6.2832 * xp.floor((heading + 3.1416) / 6.2832)
        terms = {
            "course": pay * speed * xp.cos(heading - s[3]),
            "away": -0.1 * abs(heading - s[3]),
            "effort": -tired * (left**2 + right**2),
        }
        return Moved((heading, speed, spin, s[3]), terms, speed > 1e9)

    return _world(
        "rowing", d, continuous=continuous, choices=5, dims=2, limit=d.whole(50, 90), noise=2, chance=False, start=start, step=step,
        observe=lambda xp, s: (xp.sin(s[0] - s[3]), xp.cos(s[0] - s[3]), s[1], 2.0 * s[2]), obs_size=4, gamma=0.96,
    )  # fmt: skip


# ── families of the fifth look ──


def magnet(d: Draw) -> World:
    """An iron ball under a magnet that pulls the harder the nearer it is: it has to hang at a height that is shown."""
    continuous = d.continuous
    pull, drag, pace = d.between(1.4, 2.0), d.between(0.0, 0.1), d.between(0.12, 0.18)
    alive, sharp, lost = d.between(0.1, 0.5), d.between(3.0, 8.0), d.between(0.5, 2.0)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 0.5 + 0.3 * u[0], 0.2 * u[1] - 0.1, 0.4 + 0.5 * u[2]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        current = 0.5 * (_push(continuous, action, 3) + 1.0)
        speed = s[1] + pace * (1.0 - pull * current / (s[0] + 0.3) ** 2 - drag * s[1])
        gap = s[0] + pace * speed
        gone = (gap < 0.05) | (gap > 1.6)
        terms = {"alive": alive + 0.0 * gap, "near": xp.exp(-sharp * (gap - s[2]) ** 2), "lost": -lost * gone}
        return Moved((xp.clip(gap, 0.0, 2.0), speed, s[2]), terms, gone)

    return _world(
        "magnet", d, continuous=continuous, choices=3, limit=d.whole(80, 140), noise=3, chance=False, start=start, step=step,
        observe=lambda xp, s: (2.0 * s[0] - 1.2, s[1], 2.0 * s[2] - 1.2), obs_size=3, gamma=0.97,
    )  # fmt: skip


def crawler(d: Draw) -> World:
    """A body with one arm and one foot: only a round of four kinds of move in the right order brings it on."""
    stride, back, toil, slip = d.between(0.5, 1.5), d.between(0.5, 1.0), d.between(0.0, 0.05), d.between(0.0, 0.1)
    reach = d.whole(2, 3)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return xp.floor((reach + 1.0) * u[0]), xp.floor(2.0 * u[1]), 0.0 * u[0]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        arm = xp.clip(s[0] + 1.0 * (action == 0) - 1.0 * (action == 1), 0.0, float(reach))
        foot = xp.clip(s[1] + 1.0 * (action == 2) - 1.0 * (action == 3), 0.0, 1.0)
        holds = 1.0 * (s[1] > 0.5) * (chance > slip)
        moved = holds * (s[0] - arm) * xp.where(arm < s[0], 1.0 + 0.0 * arm, back + 0.0 * arm)
        return Moved((arm, foot, moved), {"way": stride * moved, "toil": -toil + 0.0 * arm}, arm > 1e9)

    return _world(
        "crawler", d, continuous=False, choices=4, limit=d.whole(40, 80), noise=2, chance=True, start=start, step=step,
        observe=lambda xp, s: (2.0 * s[0] / reach - 1.0, 2.0 * s[1] - 1.0, s[2]), obs_size=3, gamma=0.95,
    )  # fmt: skip


def slalom(d: Draw) -> World:
    """A skier who has to pass gates, each somewhere else than the one before; beside the slope the run is over."""
    continuous = d.continuous
    edge, glide, apart, slope = d.between(0.2, 0.35), d.between(0.6, 0.8), d.whole(5, 8), d.between(2.0, 2.6)
    passed, missed, pace = d.between(1.0, 3.0), d.between(0.5, 1.5), d.between(0.0, 0.1)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 2.0 * u[0] - 1.0, 0.0 * u[0], 2.4 * u[1] - 1.2, apart + 0.0 * u[0]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        speed = glide * s[1] + edge * _push(continuous, action, 3)
        place, left = s[0] + speed, s[3] - 1.0
        at, off = left < 0.5, abs(place) > slope
        terms = {
            "gates": at * (passed - missed * 2.0 * abs(place - s[2])),
            "pace": pace + 0.0 * place,
            "off": -passed * off,
        }
        gate = xp.where(at, 2.4 * chance - 1.2, s[2] + 0.0 * chance)
        return Moved((place, speed, gate, xp.where(at, apart + 0.0 * left, left)), terms, off)

    return _world(
        "slalom", d, continuous=continuous, choices=3, limit=d.whole(60, 100), noise=2, chance=True, start=start, step=step,
        observe=lambda xp, s: (s[0], 2.0 * s[1], s[2], 2.0 * s[3] / apart - 1.0), obs_size=4, gamma=0.96,
    )  # fmt: skip


def reactor(d: Draw) -> World:
    """A vessel in which a reaction heats itself: cooled too little it runs away, too much and it goes out."""
    continuous = d.continuous
    feed, rate, heat, cool = d.between(0.15, 0.25), d.between(0.1, 0.16), d.between(1.2, 1.8), d.between(0.3, 0.5)
    pay, away, burst = d.between(0.2, 0.6), d.between(0.5, 1.0), d.between(3.0, 6.0)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 0.3 + 0.5 * u[0], 0.2 + 0.8 * u[1], 0.4 + 0.8 * u[2]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        valve = 0.5 * (_push(continuous, action, 4) + 1.0)
        reacts = rate * s[0] * xp.exp(xp.clip(1.6 * s[1], -2.0, 4.0))
        stuff = xp.clip(s[0] + feed * (1.0 - s[0]) - reacts, 0.0, 1.0)
        warmth = s[1] - feed * s[1] + heat * reacts - cool * valve * (s[1] + 0.2)
        bursts = warmth > 2.2
        terms = {"wanted": -away * abs(warmth - s[2]), "made": pay * reacts * 4.0, "burst": -burst * bursts}
        return Moved((stuff, xp.clip(warmth, -1.0, 3.0), s[2]), terms, bursts)

    return _world(
        "reactor", d, continuous=continuous, choices=4, limit=d.whole(50, 90), noise=3, chance=False, start=start, step=step,
        observe=lambda xp, s: (2.0 * s[0] - 1.0, s[1] - 0.8, s[2] - 0.8), obs_size=3, gamma=0.95,
    )  # fmt: skip


def deadline(d: Draw) -> World:
    """Three jobs on a desk, each with work left and time left, and each worth something else; one can be worked on at a time."""
    worth = (d.between(0.5, 1.0), d.between(1.0, 2.0), d.between(2.0, 4.0))
    late, longest, slack = d.between(0.2, 1.0), d.whole(2, 3), d.whole(4, 6)
    swap = d.between(0.0, 0.1)

    def fresh(xp: Any, u: Any) -> tuple[Any, Any]:
        work = 1.0 + xp.floor(longest * u)
        spare = 9.7 * u - xp.floor(9.7 * u)
        return work, work + xp.floor(slack * spare)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return (*(part for each in u for part in fresh(xp, each)), 0.0 * u[0])

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        paid, fined, state = 0.0 * chance, 0.0 * chance, []
        for place in range(3):
            work, left = s[2 * place] - 1.0 * (action == place), s[2 * place + 1] - 1.0
            done = work < 0.5
            missed = (left < 0.5) & (work >= 0.5)
            paid, fined = paid + worth[place] * done, fined + late * worth[place] * missed
            drawn = (place + 1) * 3.3 * chance
            new = fresh(xp, drawn - xp.floor(drawn))
            over = done | missed
            state += [xp.where(over, new[0], work), xp.where(over, new[1], left)]
        terms = {"done": paid, "late": -fined, "swaps": -swap * (action != s[6])}
        return Moved((*state, action + 0.0 * chance), terms, paid > 1e9)

    return _world(
        "deadline", d, continuous=False, choices=3, limit=d.whole(40, 80), noise=3, chance=True, start=start, step=step,
        observe=lambda xp, s: (*(0.3 * each - 1.0 for each in s[:6]), s[6] - 1.0), obs_size=7, gamma=0.92,
    )  # fmt: skip


def plow(d: Draw) -> World:
    """A ring road on which snow falls, here more than there; the plow clears where it stands."""
    parts, falls, heavy = d.whole(5, 6), d.between(0.1, 0.2), d.between(0.2, 0.5)
    clears, drives = d.between(0.6, 1.0), d.between(0.0, 0.05)
    fall = [falls * (0.4 + 0.3 * (place % 3)) for place in range(parts)]

    def start(xp: Any, u: Sequence[Any]) -> State:
        return (*(1.2 * each for each in u[:parts]), xp.floor(parts * u[parts]))

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        place = (s[parts] + action - 1.0) % parts
        burst = xp.floor(parts * chance)
        snow = [
            xp.clip((s[number] + fall[number] + heavy * (burst == number)) * (1.0 - clears * (place == number)), 0.0, 3.0)
            for number in range(parts)
        ]
        return Moved((*snow, place), {"snow": -sum(snow) / parts, "drive": -drives * (action != 1)}, place > 1e9)

    def observe(xp: Any, s: State) -> Sequence[Any]:
        angle = 6.2832 / parts * s[parts]
        return (*(each - 1.0 for each in s[:parts]), xp.sin(angle), xp.cos(angle))

    return _world(
        "plow", d, continuous=False, choices=3, limit=d.whole(40, 80), noise=parts + 1, chance=True, start=start, step=step,
        observe=observe, obs_size=parts + 2, gamma=0.93,
    )  # fmt: skip


def swing(d: Draw) -> World:
    """A child on a swing who stands up and squats: done at the right moments it swings higher, at the wrong ones it comes to rest."""
    continuous = d.continuous
    gravity, short, rub, wish = d.between(0.8, 1.2), d.between(0.15, 0.25), d.between(0.0, 0.02), d.between(0.8, 1.3)
    effort, pay = d.between(0.0, 0.03), d.between(0.5, 1.5)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 1.2 * u[0] - 0.6, 0.4 * u[1] - 0.2, 1.0 + 0.0 * u[0]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        length = 1.0 - short * _push(continuous, action, 3)
        # Angular momentum is kept while the length changes: that is where the energy comes from.
        spin = s[1] * (s[2] / length) ** 2 * (1.0 - rub) - 0.3 * gravity / length * xp.sin(s[0])
        spin = xp.clip(spin, -2.5, 2.5)
        angle = s[0] + 0.3 * spin
        over = abs(angle) > 2.6
        height = 1.0 - xp.cos(angle) + 0.5 * spin**2 / gravity
        terms = {
            "height": -pay * abs(height - wish),
            "effort": -effort * abs(length - s[2]) / short,
            "over": -5.0 * pay * over,
        }
        return Moved((angle, spin, length), terms, over)

    return _world(
        "swing", d, continuous=continuous, choices=3, limit=d.whole(80, 140), noise=2, chance=False, start=start, step=step,
        observe=lambda xp, s: (xp.sin(s[0]), xp.cos(s[0]), s[1], (s[2] - 1.0) / short), obs_size=4, gamma=0.97,
    )  # fmt: skip


def congestion(d: Draw) -> World:
    """A sender on a line whose capacity wanders: too slow wastes it, too fast fills the buffer, and a full buffer drops."""
    continuous = d.continuous
    quicker, wander, buffer = d.between(0.12, 0.25), d.between(0.1, 0.25), d.between(1.0, 2.0)
    pays, waits, drops = d.between(0.8, 1.5), d.between(0.2, 0.6), d.between(1.0, 3.0)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 0.4 + 0.8 * u[0], buffer * 0.6 * u[1], 0.5 + 0.8 * u[2], 0.5 + 0.0 * u[0]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        sends = xp.clip(s[0] + quicker * _push(continuous, action, 3), 0.0, 2.0)
        room = xp.clip(s[2] + wander * (2.0 * chance - 1.0), 0.3, 1.6)
        waiting = s[1] + sends
        out = xp.minimum(waiting, room)
        left = waiting - out
        lost = xp.clip(left - buffer, 0.0, 9.0)
        left = left - lost
        terms = {"sent": pays * out, "waits": -waits * left, "dropped": -drops * lost}
        return Moved((sends, left, room, out), terms, left > 1e9)

    return _world(
        "congestion", d, continuous=continuous, choices=3, limit=d.whole(50, 90), noise=3, chance=True, start=start, step=step,
        observe=lambda xp, s: (s[0] - 1.0, 2.0 * s[1] / buffer - 1.0, s[2] - 1.0, s[3] - 1.0), obs_size=4, gamma=0.95,
    )  # fmt: skip


# ── families for a sixth look, drawn after the fifth and before any of them was trained ──


def catcher(d: Draw) -> World:
    """A basket on a rail under things that fall one after the other, each from somewhere else and drifting."""
    continuous = d.continuous
    quick, tall, drift, width = d.between(0.2, 0.32), d.whole(6, 9), d.between(0.0, 0.08), d.between(0.3, 0.5)
    worth, missed, effort = d.between(1.0, 3.0), d.between(0.2, 1.0), d.between(0.0, 0.03)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 2.0 * u[0] - 1.0, 2.0 * u[1] - 1.0, tall + 0.0 * u[0], drift * (2.0 * u[2] - 1.0)

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        push = _push(continuous, action, 3)
        basket = xp.clip(s[0] + quick * push, -1.2, 1.2)
        place, height = xp.clip(s[1] + s[3], -1.2, 1.2), s[2] - 1.0
        down = height < 0.5
        caught = down & (abs(basket - place) < width)
        terms = {"caught": worth * caught, "missed": -missed * (1.0 * down - 1.0 * caught), "effort": -effort * abs(push)}
        again = 7.3 * chance
        state = (
            basket,
            xp.where(down, 2.0 * chance - 1.0, place),
            xp.where(down, tall + 0.0 * height, height),
            xp.where(down, drift * (2.0 * (again - xp.floor(again)) - 1.0), s[3]),
        )
        return Moved(state, terms, height > 1e9)

    return _world(
        "catcher", d, continuous=continuous, choices=3, limit=d.whole(60, 110), noise=3, chance=True, start=start, step=step,
        observe=lambda xp, s: (s[0], s[1], 2.0 * s[2] / tall - 1.0, 10.0 * s[3]), obs_size=4, gamma=0.95,
    )  # fmt: skip


def sorter(d: Draw) -> World:
    """A belt that brings parts with two measures; a flap sends each into one of three bins, and takes a step to turn."""
    heavy, long = d.between(0.35, 0.65), d.between(0.35, 0.65)
    right, wrong, turn = d.between(0.5, 1.5), d.between(0.3, 1.0), d.between(0.0, 0.15)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return u[0], u[1], u[2], u[3], xp.floor(3.0 * u[4])

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        # The part at the flap is s[0], s[1]; the one behind it s[2], s[3]. The flap stands where the last action put it.
        bin_ = xp.where(s[0] > heavy, 2.0 + 0.0 * chance, 1.0 * (s[1] > long))
        fits = bin_ == s[4]
        terms = {"right": right * fits, "wrong": -wrong * (bin_ != s[4]), "turns": -turn * (action != s[4])}
        other = 13.7 * chance
        return Moved((s[2], s[3], chance + 0.0 * s[0], other - xp.floor(other), action + 0.0 * chance), terms, s[0] > 1e9)

    return _world(
        "sorter", d, continuous=False, choices=3, limit=d.whole(30, 60), noise=5, chance=True, start=start, step=step,
        observe=lambda xp, s: (*(2.0 * each - 1.0 for each in s[:4]), s[4] - 1.0), obs_size=5, gamma=0.9,
    )  # fmt: skip


def shepherd(d: Draw) -> World:
    """A dog and a flock that moves away from it: the flock has to be driven into a pen at the origin."""
    continuous = d.continuous
    run, fear, shy, pen = d.between(0.3, 0.45), d.between(0.1, 0.18), d.between(1.0, 1.6), d.between(0.4, 0.6)
    bonus, step_cost, way = d.between(2.0, 6.0), d.between(0.0, 0.03), d.between(0.5, 1.5)

    def start(xp: Any, u: Sequence[Any]) -> State:
        angle, far = 6.2832 * u[0], 1.0 + 0.8 * u[1]
        return far * xp.cos(angle), far * xp.sin(angle), 4.0 * u[2] - 2.0, 4.0 * u[3] - 2.0

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        fx, fy = _thrust(continuous, action)
        dog_x, dog_y = xp.clip(s[2] + run * fx, -3.0, 3.0), xp.clip(s[3] + run * fy, -3.0, 3.0)
        away_x, away_y = s[0] - dog_x, s[1] - dog_y
        near = xp.sqrt(away_x**2 + away_y**2) + 0.1
        flight = fear * xp.exp(-((near / shy) ** 2)) * 2.0
        x, y = s[0] + flight * away_x / near, s[1] + flight * away_y / near
        before, after = xp.sqrt(s[0] ** 2 + s[1] ** 2), xp.sqrt(x**2 + y**2)
        penned, lost = after < pen, after > 3.2
        terms = {
            "way": way * (before - after),
            "penned": bonus * penned,
            "lost": -2.0 * lost,
            "time": -step_cost + 0.0 * after,
        }
        return Moved((x, y, dog_x, dog_y), terms, penned | lost, 1.0 * penned)

    return _world(
        "shepherd", d, continuous=continuous, choices=5, dims=2, limit=d.whole(60, 110), noise=4, chance=False, start=start, step=step,
        observe=lambda xp, s: (s[0], s[1], s[2] - s[0], s[3] - s[1]), obs_size=4, gamma=0.97, success=True,
    )  # fmt: skip


def compass(d: Draw) -> World:
    """A ship's heading on a circle: the rudder turns it slowly, gusts turn it too, and the course that is wanted jumps now and then."""
    continuous = d.continuous
    rudder, inertia, gust, jumps = d.between(0.06, 0.12), d.between(0.75, 0.9), d.between(0.0, 0.04), d.between(0.02, 0.05)
    off, wear = d.between(0.5, 1.5), d.between(0.0, 0.05)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 6.2832 * u[0], 0.2 * u[1] - 0.1, 6.2832 * u[2]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        turn = _push(continuous, action, 3)
        spin = inertia * s[1] + rudder * turn + gust * (2.0 * chance - 1.0)
        heading = s[0] + spin
        terms = {"off": -off * 0.5 * (1.0 - xp.cos(heading - s[2])), "wear": -wear * abs(turn)}
        other = 17.1 * chance
        course = xp.where(chance < jumps, s[2] + 6.2832 * (other / 17.1 / jumps), s[2] + 0.0 * chance)
        return Moved((heading, spin, course), terms, heading > 1e9)

    return _world(
        "compass", d, continuous=continuous, choices=3, limit=d.whole(60, 120), noise=3, chance=True, start=start, step=step,
        observe=lambda xp, s: (xp.cos(s[0] - s[2]), xp.sin(s[0] - s[2]), 5.0 * s[1]), obs_size=3, gamma=0.96,
    )  # fmt: skip


def metro(d: Draw) -> World:
    """A train that has to stop at the platform, soon and gently; past it, or standing elsewhere, it earns nothing."""
    continuous = d.continuous
    power, roll, ahead = d.between(0.05, 0.09), d.between(0.97, 0.995), d.between(2.0, 4.0)
    exact, jerk, step_cost, bonus = d.between(0.15, 0.3), d.between(0.0, 0.05), d.between(0.01, 0.05), d.between(2.0, 5.0)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return -ahead * (0.5 + 0.5 * u[0]), 0.3 * u[1], 0.0 * u[0]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        pull = _push(continuous, action, 3)
        speed = xp.clip(roll * s[1] + power * pull, 0.0, 0.8)
        place = s[0] + speed
        stopped = (abs(place) < exact) & (speed < 0.08)
        past = place > 4.0 * exact
        terms = {
            "way": 0.5 * (abs(s[0]) - abs(place)),
            "stopped": bonus * stopped,
            "past": -1.0 * past,
            "jerk": -jerk * abs(pull - s[2]),
            "time": -step_cost + 0.0 * place,
        }
        return Moved((place, speed, pull + 0.0 * place), terms, stopped | past, 1.0 * stopped)

    return _world(
        "metro", d, continuous=continuous, choices=3, limit=d.whole(50, 90), noise=2, chance=False, start=start, step=step,
        observe=lambda xp, s: (s[0], 4.0 * s[1], s[2]), obs_size=3, gamma=0.98, success=True,
    )  # fmt: skip


# ── families for a seventh look, written by a guest who has not read the checks, before any of them was trained ──


def nim(d: Draw) -> World:
    """Two take from a heap in turn and whoever takes the last piece wins; the other one errs now and then. Then a new heap is dealt."""
    most, heap = d.whole(2, 3), d.whole(8, 12)
    errs, win, loss, piece = d.between(0.35, 0.65), d.between(1.0, 3.0), d.between(0.3, 1.0), d.between(0.0, 0.05)

    def deal(xp: Any, u: Any) -> Any:
        return most + 1.0 + xp.floor((heap - most) * u)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return (deal(xp, u[0]),)

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        left = xp.clip(s[0] - action - 1.0, 0.0, 99.0)
        spare = left % (most + 1.0)
        # What leaves a multiple of most + 1 cannot be answered; where there is no such move, one piece is as good as any.
        best = xp.where(spare < 0.5, 1.0 + 0.0 * spare, spare)
        rest = xp.clip(left - xp.where(chance < errs, 1.0 + xp.floor(most * chance / errs), best), 0.0, 99.0)
        won = left < 0.5
        lost = (rest < 0.5) & ~won
        terms = {"won": win * won, "lost": -loss * lost, "pieces": -piece * (action + 1.0 + 0.0 * rest)}
        other = 11.3 * chance
        return Moved((xp.where(won | lost, deal(xp, other - xp.floor(other)), rest),), terms, left > 1e9)

    return _world(
        "nim", d, continuous=False, choices=most, limit=d.whole(30, 60), noise=1, chance=True, start=start, step=step,
        observe=lambda xp, s: tuple(1.0 * (abs(s[0] - size) < 0.5) for size in range(1, heap + 1)), obs_size=heap, gamma=0.9,
    )  # fmt: skip


def lights(d: Draw) -> World:
    """A ring of lamps: a switch turns its lamp and both neighbours over. All have to go out; then others are lit."""
    lamps, sticks = d.whole(4, 5), d.between(0.0, 0.08)
    burns, prize, press = d.between(0.1, 0.5), d.between(1.0, 4.0), d.between(0.0, 0.05)

    def lit(xp: Any, bits: Sequence[Any]) -> State:
        """Never are all of them dark at once."""
        dark = 1.0 * (sum(bits) < 0.5)
        return bits[0] + dark, *bits[1:]

    def start(xp: Any, u: Sequence[Any]) -> State:
        return lit(xp, [1.0 * (each > 0.5) for each in u])

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        works = 1.0 * (chance >= sticks)
        now = []
        for place in range(lamps):
            turned = (action == place) | (action == (place + 1) % lamps) | (action == (place - 1) % lamps)
            now.append(abs(s[place] - works * turned))
        burning = sum(now)
        dark = burning < 0.5
        fresh = lit(xp, [xp.floor(2.0 ** (place + 1) * chance) % 2.0 for place in range(lamps)])
        terms = {"burning": -burns * burning / lamps, "dark": prize * dark, "press": -press + 0.0 * burning}
        return Moved(tuple(xp.where(dark, new, old) for new, old in zip(fresh, now, strict=True)), terms, burning > 1e9)

    return _world(
        "lights", d, continuous=False, choices=lamps, limit=d.whole(25, 50), noise=lamps, chance=True, start=start, step=step,
        observe=lambda xp, s: tuple(2.0 * each - 1.0 for each in s), obs_size=lamps, gamma=0.93,
    )  # fmt: skip


def dice(d: Draw) -> World:
    """Roll on, or bank the pot for a fee: a bad roll empties it. How bad the dice are differs between tables, and is shown."""
    bold, kind, spread = d.number % 2 == 1, d.between(0.05, 0.1), d.between(0.08, 0.2)
    fee, busted, pips = d.between(1.0, 2.5), d.between(0.0, 0.5), d.between(1.0, 2.0)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 6.0 * u[0], kind + spread * u[1]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        banks, dice_thrown = action == 0, 1.0 * action
        bad = (chance < 1.0 - (1.0 - s[1]) ** dice_thrown) & ~banks
        shown = 5.3 * chance
        gained = pips * dice_thrown * (0.5 + shown - xp.floor(shown))
        terms = {"banked": 0.3 * (s[0] - fee) * banks, "busted": -busted * bad}
        return Moved((xp.where(banks | bad, 0.0 * s[0], s[0] + gained), s[1]), terms, s[1] > 1e9)

    return _world(
        "dice", d, continuous=False, choices=3 if bold else 2, limit=d.whole(40, 80), noise=2, chance=True, start=start, step=step,
        observe=lambda xp, s: (0.2 * s[0] - 1.0, 10.0 * (s[1] - kind) - 1.0), obs_size=2, gamma=0.95,
    )  # fmt: skip


def packer(d: Draw) -> World:
    """A truck and parcels that come one after the other, each to be loaded or left for ever; full, the truck drives off."""
    bed, small, large, rent = d.between(1.5, 2.5), d.between(0.1, 0.2), d.between(0.3, 0.5), d.between(0.02, 0.05)
    rare, worth, crammed, handling = d.between(2.5, 4.0), d.between(2.0, 4.0), d.between(0.2, 0.6), d.between(0.0, 0.1)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return small + large * u[0], u[1] ** rare, bed * (0.6 + 0.4 * u[2])

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        loads = action == 1
        fits = s[0] <= s[2]
        loaded = loads & fits
        room = s[2] - s[0] * loaded
        terms = {
            "worth": worth * s[1] * loaded,
            "crammed": -crammed * (loads & ~fits),
            "handling": -handling * loads,
            "rent": -rent + 0.0 * room,
        }
        other = 9.1 * chance
        return Moved((small + large * (other - xp.floor(other)), chance**rare, room), terms, room < small + 0.05)

    return _world(
        "packer", d, continuous=False, choices=2, limit=d.whole(50, 90), noise=3, chance=True, start=start, step=step,
        observe=lambda xp, s: (2.0 * s[0] / large - 1.5, 2.0 * s[1] - 1.0, 2.0 * s[2] / bed - 1.0), obs_size=3, gamma=0.98,
    )  # fmt: skip


def oven(d: Draw) -> World:
    """A loaf that warms behind its oven's air and browns where the air is hot: it has to be taken out when it is done, and not before."""
    continuous = d.continuous
    quick, conducts, browns, edge = d.between(0.15, 0.3), d.between(0.08, 0.14), d.between(0.05, 0.12), d.between(1.2, 1.4)
    pay, served, raw, burnt, gas = d.between(1.0, 2.0), d.between(1.0, 3.0), d.between(0.5, 1.5), d.between(1.0, 2.0), d.between(0.0, 0.02)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 1.2 * u[0], 0.3 * u[1], 0.0 * u[0], 0.8 + 0.4 * u[2]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        turn, out = (action[0], action[1] > 0.6) if continuous else (1.0 * (action == 2) - 1.0 * (action == 1), action == 3)
        air = xp.clip(s[0] + quick * turn, 0.0, 2.0)
        core = s[1] + conducts * (air - s[1])
        crust = s[2] + browns * xp.clip(air - edge, 0.0, 9.0)
        nearer = abs(s[1] - s[3]) - abs(core - s[3])
        charred = crust > 0.6
        over = out | charred
        terms = {
            "warmer": pay * nearer,
            "served": served * out * xp.clip(1.0 - 5.0 * abs(core - s[3]), 0.0, 1.0),
            "raw": -raw * (out & (core < s[3] - 0.2)),
            "brown": -burnt * (crust - s[2]),
            "charred": -2.0 * burnt * charred,
            "gas": -gas * air - 0.01,
        }
        return Moved((air, core, crust, s[3]), terms, over)

    return _world(
        "oven", d, continuous=continuous, choices=4, dims=2, limit=d.whole(40, 70), noise=3, chance=False, start=start, step=step,
        observe=lambda xp, s: (s[0] - 1.0, 2.0 * s[1] - 1.0, 3.0 * s[2], s[3] - 1.0), obs_size=4, gamma=0.97,
    )  # fmt: skip


def qubit(d: Draw) -> World:
    """A spin that turns about one axis by itself, and about another while it is driven: it has to be held at the pole that is shown."""
    continuous = d.continuous
    drive, spread, relaxes, fades = d.between(0.2, 0.4), d.between(0.2, 0.5), d.between(0.01, 0.03), d.between(0.0, 0.03)
    pay, effort = d.between(0.5, 1.5), d.between(0.0, 0.05)

    def start(xp: Any, u: Sequence[Any]) -> State:
        height, around = 1.6 * u[0] - 0.8, 6.2832 * u[1]
        flat = xp.sqrt(1.0 - height**2)
        return flat * xp.cos(around), flat * xp.sin(around), height, spread * (u[2] - 0.5), 2.0 * (u[3] > 0.5) - 1.0

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        pulse = _push(continuous, action, 3)
        cos, sin = xp.cos(drive * pulse), xp.sin(drive * pulse)
        y, z = cos * s[1] - sin * s[2], sin * s[1] + cos * s[2]
        cos, sin = xp.cos(s[3]), xp.sin(s[3])
        x, y = (1.0 - fades) * (cos * s[0] - sin * y), (1.0 - fades) * (sin * s[0] + cos * y)
        z = z - relaxes * (z + 1.0)
        terms = {"pole": pay * z * s[4], "pulse": -effort * (pulse**2 + 0.0 * z)}
        return Moved((x, y, z, s[3], s[4]), terms, z > 1e9)

    return _world(
        "qubit", d, continuous=continuous, choices=3, limit=d.whole(40, 80), noise=4, chance=False, start=start, step=step,
        observe=lambda xp, s: (s[0], s[1], s[2], 4.0 * s[3], s[4]), obs_size=5, gamma=0.95,
    )  # fmt: skip


def lagoon(d: Draw) -> World:
    """A basin beside the sea with turbines in its dam: they give power by the height of the fall, which has to be waited for."""
    continuous = d.continuous
    pace, second, flow, lowest = d.between(0.12, 0.2), d.between(0.1, 0.3), d.between(0.2, 0.35), d.between(0.2, 0.4)
    pay, turning, flood = d.between(1.5, 3.0), d.between(0.05, 0.15), d.between(0.5, 2.0)

    def sea(xp: Any, phase: Any) -> Any:
        return xp.sin(phase) + second * xp.sin(2.0 * phase)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 1.4 * u[0] - 0.7, 6.2832 * u[1]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        gate = 0.5 * (_push(continuous, action, 3) + 1.0)
        fall = sea(xp, s[1]) - s[0]
        level = s[0] + flow * gate * fall
        over = xp.clip(level - 0.9, 0.0, 9.0)
        power = gate * abs(fall) * xp.clip(abs(fall) - lowest, 0.0, 9.0)
        terms = {"power": pay * power, "turning": -turning * pay * gate, "flood": -flood * over}
        return Moved((level, s[1] + pace), terms, level > 1e9)

    return _world(
        "lagoon", d, continuous=continuous, choices=3, limit=d.whole(60, 110), noise=2, chance=False, start=start, step=step,
        observe=lambda xp, s: (s[0], sea(xp, s[1]), xp.cos(s[1]), xp.sin(s[1])), obs_size=4, gamma=0.95,
    )  # fmt: skip


def hopper(d: Draw) -> World:
    """One leg, one hop a step: where the foot is set decides the speed, how hard it pushes the height; the ground is uneven."""
    continuous = d.continuous
    lean, reach, leak, kick = d.between(0.15, 0.3), d.between(0.45, 0.65), d.between(0.1, 0.2), d.between(0.25, 0.4)
    uneven, off, high, alive, toil = (
        d.between(0.0, 0.2),
        d.between(0.5, 1.5),
        d.between(0.3, 1.0),
        d.between(0.5, 1.5),
        d.between(0.0, 0.05),
    )

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 1.6 * u[0] - 0.8, 0.8 + 0.5 * u[1], 1.2 * u[2] - 0.6

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        foot, push = _thrust(continuous, action)
        # A foot under the middle of the stride keeps the speed; behind it the leg speeds up, before it the leg slows down.
        speed = s[0] + lean * s[0] - reach * foot + uneven * (2.0 * chance - 1.0)
        height = s[1] - leak * (s[1] - 0.5) + kick * push
        fell = (abs(speed) > 2.0) | (height < 0.4) | (height > 2.2)
        terms = {
            "alive": alive * (1.0 - 1.0 * fell),
            "speed": -off * abs(speed - s[2]),
            "height": -high * abs(height - 1.0),
            "toil": -toil * (foot**2 + push**2),
            "fell": -3.0 * alive * fell,
        }
        return Moved((speed, height, s[2]), terms, fell)

    return _world(
        "hopper", d, continuous=continuous, choices=5, dims=2, limit=d.whole(60, 110), noise=3, chance=True, start=start, step=step,
        observe=lambda xp, s: (s[0], 2.0 * s[1] - 2.0, s[2]), obs_size=3, gamma=0.95,
    )  # fmt: skip


# ── families for an eighth look, far from those before, written before any of them was trained or examined ──


def _apart(xp: Any, chance: Any, factor: float) -> Any:
    """Another uniform number out of one."""
    other = factor * chance
    return other - xp.floor(other)


def fracture(d: Draw) -> World:
    """How much a beam bears is found by loading it: too much breaks one of the few specimens, too little tells hardly anything."""
    specimens, exact = d.whole(2, 4), d.between(0.04, 0.1)
    told, broken, found, step_cost = d.between(0.5, 1.5), d.between(0.1, 0.4), d.between(1.0, 3.0), d.between(0.02, 0.06)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 0.0 * u[0], 1.0 + 0.0 * u[0], 0.05 + 0.9 * u[0], 1.0 + xp.floor(specimens * u[1])

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        load = s[0] + (0.15 + 0.175 * action) * (s[1] - s[0])
        breaks = load > s[2]
        low, high = xp.where(breaks, s[0], load), xp.where(breaks, load, s[1])
        left = s[3] - 1.0 * breaks
        known = high - low < exact
        terms = {
            "told": told * (s[1] - s[0] - high + low),
            "broken": -broken * breaks,
            "found": found * known,
            "time": -step_cost + 0.0 * load,
        }
        return Moved((low, high, s[2], left), terms, known | (left < 0.5), 1.0 * known)

    return _world(
        "fracture", d, continuous=False, choices=5, limit=d.whole(30, 50), noise=2, chance=False, start=start, step=step,
        observe=lambda xp, s: (2.0 * s[0] - 1.0, 2.0 * s[1] - 1.0, 3.0 * (s[1] - s[0]) - 1.0, 0.5 * s[3] - 1.0), obs_size=4,
        gamma=0.97, success=True,
    )  # fmt: skip


def auction(d: Draw) -> World:
    """One thing after another goes to whoever bids most, for what was bid; how eager the rivals are is shown, and the purse is small."""
    purse, eager, keen = d.between(3.0, 6.0), d.between(0.8, 1.4), d.between(0.2, 0.6)
    worth, saved = d.between(1.0, 2.0), d.between(0.0, 0.3)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return u[0], purse * (0.7 + 0.3 * u[1]), keen + (1.0 - keen) * u[2]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        bid = xp.minimum(0.25 * action + 0.0 * s[0], s[1])
        rival = s[2] * _apart(xp, chance, 11.3) ** (1.0 / eager)
        won = (bid > rival) & (bid > 0.01)
        left = s[1] - bid * won
        terms = {"worth": worth * s[0] * won, "price": -1.0 * bid * won, "saved": saved * 0.02 * left}
        return Moved((chance + 0.0 * left, left, s[2]), terms, left < 0.05)

    return _world(
        "auction", d, continuous=False, choices=5, limit=d.whole(30, 60), noise=3, chance=True, start=start, step=step,
        observe=lambda xp, s: (2.0 * s[0] - 1.0, s[1] / purse, 2.0 * s[2] - 1.0), obs_size=3, gamma=0.95,
    )  # fmt: skip


def titration(d: Draw) -> World:
    """Base is dropped into an acid of unknown strength: its colour turns all at once, and there is no way back from too much."""
    continuous = d.continuous
    steep, coarse, drop = d.between(3.0, 6.0), d.between(0.1, 0.2), d.between(0.01, 0.03)
    near, over, step_cost, waste = d.between(2.0, 4.0), d.between(0.5, 2.0), d.between(0.01, 0.04), d.between(0.0, 0.1)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 0.0 * u[0], 0.5 + 0.8 * u[0], 0.0 * u[0]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        size = (
            0.5 * coarse * (action[0] + 1.0) if continuous else drop * (action == 0) + 0.4 * coarse * (action == 1) + coarse * (action == 2)
        )
        done = action[1] > 0.7 if continuous else action == 3
        poured = size * (1.0 - 1.0 * done) + 0.0 * s[0]
        filled = s[0] + poured
        spoilt = filled > s[1] + 0.3
        terms = {
            "nearer": abs(s[0] - s[1]) - abs(filled - s[1]),
            "near": near * done * xp.clip(1.0 - 10.0 * abs(filled - s[1]), 0.0, 1.0),
            "spoilt": -over * spoilt,
            "waste": -waste * poured,
            "time": -step_cost + 0.0 * filled,
        }
        good = done & (abs(filled - s[1]) < 0.05)
        return Moved((filled, s[1], poured), terms, done | spoilt, 1.0 * good)

    def observe(xp: Any, s: State) -> Sequence[Any]:
        # Tanh of a distance that the eye does not see: only close to the turn does the colour say much.
        return xp.tanh(steep * (s[0] - s[1])), 2.0 * s[0] - 1.0, 10.0 * s[2]

    return _world(
        "titration", d, continuous=continuous, choices=4, dims=2, limit=d.whole(40, 70), noise=1, chance=False, start=start, step=step,
        observe=observe, obs_size=3, gamma=0.97, success=True,
    )  # fmt: skip


def gestures(d: Draw) -> World:
    """Stone, paper and scissors against someone who tends to beat what was last shown to him, or to repeat himself; to five points."""
    habit, stays, win, loss, prize = (
        d.between(0.5, 0.75),
        d.between(0.1, 0.2),
        d.between(0.5, 1.5),
        d.between(0.5, 1.5),
        d.between(1.0, 3.0),
    )

    def start(xp: Any, u: Sequence[Any]) -> State:
        return xp.floor(3.0 * u[0]), xp.floor(3.0 * u[1]), 0.0 * u[0]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        any_ = xp.floor(3.0 * _apart(xp, chance, 23.7))
        theirs = xp.where(chance < habit, (s[0] + 1.0) % 3.0, xp.where(chance < habit + stays, s[1], any_))
        mine = 1.0 * action + 0.0 * theirs
        ahead = (mine - theirs) % 3.0
        won, lost = (ahead > 0.5) & (ahead < 1.5), ahead > 1.5
        lead = s[2] + 1.0 * won - 1.0 * lost
        terms = {"points": win * won - loss * lost, "match": prize * (lead > 4.5) - prize * (lead < -4.5)}
        return Moved((mine, theirs, lead), terms, abs(lead) > 4.5, 1.0 * (lead > 4.5))

    return _world(
        "gestures", d, continuous=False, choices=3, limit=d.whole(30, 50), noise=2, chance=True, start=start, step=step,
        observe=lambda xp, s: (*(2.0 * (abs(s[k // 3] - k % 3) < 0.5) - 1.0 for k in range(6)), 0.2 * s[2]), obs_size=7,
        gamma=0.93, success=True,
    )  # fmt: skip


def fireline(d: Draw) -> World:
    """A strip of five woods: fire goes over to neighbours by chance, one crew can put out one wood a step; what burnt grows back."""
    spread, strikes, eats, grows = d.between(0.2, 0.4), d.between(0.05, 0.12), d.between(0.1, 0.2), d.between(0.01, 0.03)
    loss, idle, ash = d.between(0.5, 1.5), d.between(0.0, 0.1), d.between(0.0, 0.2)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return *(1.0 * (abs(xp.floor(5.0 * u[0]) - k) < 0.5) for k in range(5)), *(0.6 + 0.4 * each for each in u[1:6])

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        fire, wood = list(s[:5]), list(s[5:])
        struck = _apart(xp, chance, 3.9)
        burning, left = [], []
        for k in range(5):
            own = fire[k] * (1.0 - 1.0 * (action == k))
            beside = (fire[k - 1] if k else 0.0 * fire[k]) + (fire[k + 1] if k < 4 else 0.0 * fire[k])
            caught = (_apart(xp, chance, 7.3 + 4.1 * k) < spread * beside) & (wood[k] > 0.2991) & (action != k)
            lit = (struck < strikes) & (abs(xp.floor(5.0 * struck / strikes) - k) < 0.5) & (wood[k] > 0.2991)
            fuel = xp.clip(wood[k] - eats * own + grows, 0.0, 1.0)
            burning.append(1.0 * ((own + caught + lit) > 0.5) * (fuel > 0.0503))
            left.append(fuel)
        flames = burning[0] + burning[1] + burning[2] + burning[3] + burning[4]
        bare = 5.0 - (left[0] + left[1] + left[2] + left[3] + left[4])
        terms = {"flames": -loss * flames, "crew": -idle * (action < 5) + 0.0 * flames, "ash": -ash * bare}
        return Moved((*burning, *left), terms, flames > 1e9)

    return _world(
        "fireline", d, continuous=False, choices=6, limit=d.whole(40, 80), noise=6, chance=True, start=start, step=step,
        observe=lambda xp, s: (*(2.0 * each - 1.0 for each in s[:5]), *(2.0 * each - 1.0 for each in s[5:])), obs_size=10, gamma=0.95,
    )  # fmt: skip


def rope(d: Draw) -> World:
    """Three beads on an elastic rope held at one end by a hand, which has to bring all to rest, the far ones through the near."""
    continuous = d.continuous
    tight, lossy, hand = d.between(0.15, 0.3), d.between(0.0, 0.02), d.between(0.1, 0.25)
    unrest, bent, effort = d.between(0.5, 1.5), d.between(0.3, 1.0), d.between(0.0, 0.05)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return *(2.0 * each - 1.0 for each in u[:3]), *(0.8 * each - 0.4 for each in u[3:6])

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        pull = _push(continuous, action, 3)
        first, second, third = s[:3]
        u, v, w = s[3:]
        u = (1.0 - lossy) * (u + tight * (second - 2.0 * first) + hand * pull)
        v = (1.0 - lossy) * (v + tight * (first - 2.0 * second + third))
        w = (1.0 - lossy) * (w + tight * (second - third))
        first, second, third = first + 0.5 * u, second + 0.5 * v, third + 0.5 * w
        terms = {
            "unrest": -unrest * (u**2 + v**2 + w**2),
            "bent": -bent * (first**2 + second**2 + third**2) / 3.0,
            "effort": -effort * (pull**2 + 0.0 * u),
        }
        return Moved((first, second, third, u, v, w), terms, abs(first) > 1e9)

    return _world(
        "rope", d, continuous=continuous, choices=3, limit=d.whole(60, 110), noise=6, chance=False, start=start, step=step,
        observe=lambda xp, s: (*s[:3], *(2.0 * each for each in s[3:])), obs_size=6, gamma=0.95,
    )  # fmt: skip


def parking(d: Draw) -> World:
    """A street towards a theatre: the nearer, the fewer free places. Take one and walk, or drive on; behind the theatre there is none."""
    pace, full, walk = d.between(0.04, 0.07), d.between(0.5, 0.8), d.between(1.0, 2.5)
    comes, wrong, missed, step_cost = d.between(1.5, 3.0), d.between(0.2, 0.6), d.between(1.0, 2.0), d.between(0.0, 0.02)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return -0.7 - 0.3 * u[0], 1.0 * (u[1] > 0.5), 0.6 * u[2]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        takes = action == 1
        parked = takes & (s[1] > 0.5)
        place = s[0] + pace * (1.0 - 1.0 * takes)
        # Fewer places are free nearer the theatre, and on evenings when many come.
        free = 1.0 * (chance < xp.clip((1.0 - full) + full * abs(place) - s[2] * (1.0 - abs(place)), 0.03, 1.0))
        past = place > 0.0
        terms = {
            "parked": parked * (comes - walk * abs(s[0])),
            "blocked": -wrong * (takes & ~parked),
            "missed": -missed * past,
            "time": -step_cost + 0.0 * place,
        }
        return Moved((place, free, s[2]), terms, parked | past, 1.0 * parked)

    return _world(
        "parking", d, continuous=False, choices=2, limit=d.whole(40, 60), noise=3, chance=True, start=start, step=step,
        observe=lambda xp, s: (2.0 * s[0] + 1.0, 2.0 * s[1] - 1.0, 3.0 * s[2] - 1.0), obs_size=3, gamma=0.98, success=True,
    )  # fmt: skip


def diver(d: Draw) -> World:
    """A diver for pearls: there are more of them deeper down, they are paid for at the surface, and the air is short."""
    continuous = d.continuous
    swim, breath, rich, sells = d.between(0.15, 0.25), d.between(0.03, 0.06), d.between(0.1, 0.2), d.between(2.0, 5.0)
    drowned, cold = d.between(1.0, 3.0), d.between(0.0, 0.03)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 0.6 * u[0], 0.6 + 0.4 * u[1], 0.0 * u[0]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        push = _push(continuous, action, 3)
        picks = abs(push) < 0.35
        depth = xp.clip(s[0] + swim * push * (1.0 - 1.0 * picks), 0.0, 1.0)
        up = depth < 0.02
        bag = xp.clip(s[2] + rich * s[0] ** 2 * picks, 0.0, 1.0)
        air = xp.where(up, 1.0 + 0.0 * depth, s[1] - breath * (0.6 + depth))
        gone = air < 0.0
        terms = {"pearls": sells * bag * up, "drowned": -drowned * gone, "cold": -cold * (0.2 + depth)}
        return Moved((depth, air, bag * (1.0 - 1.0 * up)), terms, gone)

    return _world(
        "diver", d, continuous=continuous, choices=3, limit=d.whole(60, 100), noise=2, chance=False, start=start, step=step,
        observe=lambda xp, s: (2.0 * s[0] - 1.0, 2.0 * s[1] - 1.0, 2.0 * s[2] - 1.0), obs_size=3, gamma=0.97,
    )  # fmt: skip


def tug(d: Draw) -> World:
    """Two pull at a rope; both tire and recover, the other one in bursts that can be seen. Whoever is drawn over the line has lost."""
    continuous = d.continuous
    strong, rival, tires, rests = d.between(0.1, 0.15), d.between(0.1, 0.15), d.between(0.12, 0.2), d.between(0.06, 0.1)
    win, loss, ground = d.between(2.0, 5.0), d.between(1.0, 3.0), d.between(0.0, 1.0)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 0.6 * u[0] - 0.3, 0.5 + 0.5 * u[1], 0.5 + 0.5 * u[2], 1.0 * (u[3] > 0.5)

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        heave = 0.5 * (_push(continuous, action, 3) + 1.0)
        # Tired arms hold little: who heaves all the time is worth half of who heaves when rested.
        mine = strong * heave * s[1] ** 2
        theirs = rival * s[3] * s[2] ** 2
        place = s[0] + mine - theirs + 0.02 * (2.0 * chance - 1.0)
        arms = xp.clip(s[1] - tires * heave + rests * (1.0 - heave), 0.05, 1.0)
        others = xp.clip(s[2] - tires * s[3] + rests * (1.0 - s[3]), 0.05, 1.0)
        pulls = xp.where(others > 0.9, 1.0 + 0.0 * others, xp.where(others < 0.35, 0.0 * others, s[3]))
        won, lost = place > 1.0, place < -1.0
        terms = {"won": win * won, "lost": -loss * lost, "ground": ground * (place - s[0])}
        return Moved((place, arms, others, pulls), terms, won | lost, 1.0 * won)

    return _world(
        "tug", d, continuous=continuous, choices=3, limit=d.whole(60, 110), noise=4, chance=True, start=start, step=step,
        observe=lambda xp, s: (s[0], 2.0 * s[1] - 1.0, 2.0 * s[2] - 1.0, 2.0 * s[3] - 1.0), obs_size=4, gamma=0.98, success=True,
    )  # fmt: skip


def gearbox(d: Draw) -> World:
    """A lorry with four gears on a road up and down: an engine pulls well at one speed of its own, and not at all while it is shifted."""
    power, drag, steep, hills = d.between(0.06, 0.1), d.between(0.01, 0.03), d.between(0.015, 0.035), d.between(0.05, 0.15)
    pay, shifting, roars = d.between(0.5, 1.5), d.between(0.0, 0.1), d.between(0.1, 0.5)
    ratios = (0.4, 0.75, 1.2, 1.8)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 0.3 + 0.9 * u[0], xp.floor(4.0 * u[1]), 6.2832 * u[2]

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        gear = xp.clip(s[1] + 1.0 * (action == 2) - 1.0 * (action == 0), 0.0, 3.0)
        shifts = abs(gear - s[1]) > 0.5
        ratio = ratios[0] * (gear < 0.5) + sum(each * (abs(gear - k) < 0.5) for k, each in enumerate(ratios) if k)
        turns = s[0] / ratio
        torque = xp.clip(1.0 - ((turns - 1.0) / 0.6) ** 2, 0.0, 1.0) * (1.0 - 1.0 * shifts)
        speed = xp.clip(s[0] + power * torque / ratio - steep * xp.sin(s[2]) - drag * s[0] ** 2, 0.05, 3.0)
        terms = {"speed": pay * speed, "shifting": -shifting * shifts, "roars": -roars * xp.clip(turns - 1.5, 0.0, 9.0)}
        return Moved((speed, gear, s[2] + hills), terms, speed > 1e9)

    return _world(
        "gearbox", d, continuous=False, choices=3, limit=d.whole(60, 110), noise=3, chance=False, start=start, step=step,
        observe=lambda xp, s: (2.0 * s[0] - 2.0, 0.67 * s[1] - 1.0, xp.sin(s[2]), xp.cos(s[2])), obs_size=4, gamma=0.96,
    )  # fmt: skip


def rumour(d: Draw) -> World:
    """Four people with opinions who sway each other, and each falls back to what he was brought up with: one can be talked to at a time."""
    sway, talk, back, wavers = d.between(0.05, 0.12), d.between(0.4, 0.7), d.between(0.04, 0.08), d.between(0.0, 0.05)
    off, breath = d.between(0.5, 1.5), d.between(0.0, 0.1)
    roots = tuple(d.between(-1.0, 1.0) for _ in range(4))

    def start(xp: Any, u: Sequence[Any]) -> State:
        return *(2.0 * each - 1.0 for each in u[:4]), 1.6 * u[4] - 0.8

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        minds, wish = s[:4], s[4]
        after = []
        for k in range(4):
            others = 0.5 * (minds[k - 1] + minds[(k + 1) % 4])
            own = minds[k] + sway * (others - minds[k]) + back * (roots[k] - minds[k])
            own = own + talk * (action == k) * (wish - own) + wavers * (2.0 * _apart(xp, chance, 5.3 + 6.1 * k) - 1.0)
            after.append(own)
        away = 0.25 * (abs(after[0] - wish) + abs(after[1] - wish) + abs(after[2] - wish) + abs(after[3] - wish))
        terms = {"off": -off * away, "breath": -breath * (action < 4) + 0.0 * away}
        return Moved((*after, wish), terms, away > 1e9)

    return _world(
        "rumour", d, continuous=False, choices=5, limit=d.whole(40, 70), noise=5, chance=True, start=start, step=step,
        observe=lambda xp, s: (*(each - s[4] for each in s[:4]), s[4]), obs_size=5, gamma=0.9,
    )  # fmt: skip


def abacus(d: Draw) -> World:
    """From one number to another by adding one, doubling, or taking three away; below zero and above twelve the sum is lost."""
    step_cost, right, lost, near = d.between(0.02, 0.1), d.between(1.0, 3.0), d.between(0.5, 1.5), d.between(0.0, 0.05)

    def start(xp: Any, u: Sequence[Any]) -> State:
        return 1.0 + xp.floor(11.0 * u[0]), 1.0 + xp.floor(11.0 * u[1])

    def step(xp: Any, s: State, action: Any, chance: Any) -> Moved:
        number = xp.where(action == 0, s[0] + 1.0, xp.where(action == 1, 2.0 * s[0], s[0] - 3.0))
        reached, out = abs(number - s[1]) < 0.5, (number < -0.5) | (number > 12.5)
        terms = {
            "time": -step_cost + 0.0 * number,
            "nearer": near * (abs(s[0] - s[1]) - abs(number - s[1])),
            "right": right * reached,
            "lost": -lost * out,
        }
        return Moved((number, s[1]), terms, reached | out, 1.0 * reached)

    return _world(
        "abacus", d, continuous=False, choices=3, limit=d.whole(20, 40), noise=2, chance=False, start=start, step=step,
        observe=lambda xp, s: (s[0] / 6.0 - 1.0, s[1] / 6.0 - 1.0, (s[1] - s[0]) / 6.0), obs_size=3, gamma=0.95, success=True,
    )  # fmt: skip


FAMILIES: Final[dict[str, Callable[[Draw], World]]] = {
    made.__name__: made
    for made in (
        point, chain, pendulum, cart, queue, thermostat, grid, tracker, inventory, pursuit, lander, tank, harvest, crane, battery,
        steering, dosing, traffic, lift, beam, mixer, archer, patrol, rocket, ferry, fishery, radio, sailing, press, orbit,
        market, juggler, garden, glider, epidemic, drummer, rowing, magnet, crawler, slalom, reactor, deadline, plow, swing, congestion,
        catcher, sorter, shepherd, compass, metro, nim, lights, dice, packer, oven, qubit, lagoon, hopper,
        fracture, auction, titration, gestures, fireline, rope, parking, diver, tug, gearbox, rumour, abacus,
    )
}  # fmt: skip


@cache
def world(name: str) -> World:
    """A world by its name: `point-3`."""
    family, _, draw = name.rpartition("-")
    return FAMILIES[family](Draw(family, int(draw)))


def names(*families: str, draws: int = DRAWS) -> list[str]:
    """The worlds of some families, of all without one."""
    return [f"{family}-{draw}" for family in families or FAMILIES for draw in range(draws)]
