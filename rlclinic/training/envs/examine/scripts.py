"""Simple policies written by hand for well-known tasks: what can be had without learning."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlclinic.training.envs.examine.play import Act


def script_for(env_id: str) -> Act | None:
    """The policy for an id, whatever its version; None if there is none."""
    return _SCRIPTS.get(env_id.rpartition("-v")[0].rpartition(":")[2])


def _cartpole(obs: Any, t: int) -> Any:
    # Push to where the pole is falling.
    return np.int64(obs[2] + 0.3 * obs[3] + 0.05 * obs[1] + 0.02 * obs[0] > 0)


def _mountain_car(obs: Any, t: int) -> Any:
    # Push the way it is moving: energy only grows.
    return np.int64(2 if obs[1] >= 0 else 0)


def _mountain_car_continuous(obs: Any, t: int) -> Any:
    return np.array([1.0 if obs[1] >= 0 else -1.0], np.float32)


def _acrobot(obs: Any, t: int) -> Any:
    return np.int64(2 if obs[4] < 0 else 0)


def _pendulum(obs: Any, t: int) -> Any:
    cos, sin, speed = (float(each) for each in obs)
    energy = 0.5 * speed**2 / 3 + 5 * (cos - 1)
    near = cos > 0.9 and abs(speed) < 3
    torque = -(12 * sin + 3 * speed) if near else -2 * np.sign(speed or 1.0) * np.sign(energy)
    return np.array([np.clip(torque, -2, 2)], np.float32)


def _lunar_lander(obs: Any, t: int) -> Any:
    # Hold an angle that leads back to the middle, and a height that falls with the distance from it.
    angle = float(np.clip(0.5 * obs[0] + obs[2], -0.4, 0.4))
    turn = 0.5 * (angle - obs[4]) - obs[5]
    lift = 0.5 * (0.55 * abs(obs[0]) - obs[1]) - 0.5 * obs[3]
    if obs[6] or obs[7]:
        turn, lift = 0.0, -0.5 * obs[3]
    if lift > abs(turn) and lift > 0.05:
        return np.int64(2)
    return np.int64(3 if turn < -0.05 else 1 if turn > 0.05 else 0)


def _cliff_walking(obs: Any, t: int) -> Any:
    row, column = divmod(int(obs), 12)
    # Up, along the edge, down.
    return np.int64(2 if column == 11 else 1 if row < 3 else 0)


_SCRIPTS: dict[str, Act] = {
    "CartPole": _cartpole,
    "MountainCar": _mountain_car,
    "MountainCarContinuous": _mountain_car_continuous,
    "Acrobot": _acrobot,
    "Pendulum": _pendulum,
    "LunarLander": _lunar_lander,
    "CliffWalking": _cliff_walking,
}
