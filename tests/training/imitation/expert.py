"""Experts of the tests: rules that are known to be good, and ones with faults."""

import itertools
import math
from typing import Any

_calls = itertools.count()


def pendulum(obs: Any) -> list[float]:
    """Pump energy until it is nearly up, then hold it there."""
    cosine, sine, speed = map(float, obs)
    angle = math.atan2(sine, cosine)
    if abs(angle) < 0.6 and abs(speed) < 4:
        return [-(12 * angle + 3 * speed)]
    energy = speed * speed / 6 + 5 * cosine
    return [2 * (5 - energy) * math.copysign(1.0, speed)]


def cartpole(obs: Any) -> int:
    position, speed, angle, turning = map(float, obs)
    return int(0.1 * position + 0.3 * speed + 2 * angle + turning > 0)


def undecided(obs: Any) -> list[float]:
    """Another answer each time."""
    return [1.0 if next(_calls) % 2 else -1.0]


def sometimes_wrong(obs: Any) -> Any:
    """Every third answer is none: a number too many, not a number, or an error."""
    count = next(_calls) % 9
    if count == 2:
        return [0.1, 0.2]
    if count == 5:
        return [float("nan")]
    if count == 8:
        raise RuntimeError("no idea")
    return pendulum(obs)


def gone(obs: Any) -> None:
    return None


def always_the_first(obs: Any) -> int:
    """Whether it is allowed or not."""
    return 0
