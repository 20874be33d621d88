"""Environments rewritten as batched torch functions: M x N of them are stepped by a few dozen operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rlclinic.actions import Change
from rlclinic.config.gymnasium_registry import OWN_ENVIRONMENTS
from rlclinic.errors import ConfigError
from rlclinic.training.envs.native import acrobot, cartpole, grids, mountain_car, pendulum, probes, tables
from rlclinic.training.envs.native.engine import NativeEnv

if TYPE_CHECKING:
    from rlclinic.config import EnvConfig
    from rlclinic.training.envs.native.dynamics import Dynamics

__all__ = ["CATALOG", "PROBES", "Entry", "NativeEnv", "build_dynamics", "make", "objection"]

PROBES = probes.PROBES


@dataclass(frozen=True)
class Entry:
    """A native environment: how it is built (device first), the registered time limit, and the kwargs that it understands."""

    build: Callable[..., Dynamics]
    max_episode_steps: int | None
    kwargs: frozenset[str] = frozenset()
    masks: bool = False


def _probe(probe_id: str) -> Entry:
    return Entry(lambda device: probes.ProbeEnv(probe_id), None)


def _own(env_id: str, build: Callable[..., Dynamics], *kwargs: str) -> Entry:
    return Entry(build, OWN_ENVIRONMENTS[env_id], frozenset(kwargs))


_LAKE = frozenset({"desc", "map_name", "is_slippery", "success_rate", "reward_schedule"})
_RAIN = frozenset({"is_rainy", "rainy_probability"})

CATALOG: dict[str, Entry] = {
    "CartPole-v0": Entry(cartpole.CartPole, 200, frozenset({"sutton_barto_reward"})),
    "CartPole-v1": Entry(cartpole.CartPole, 500, frozenset({"sutton_barto_reward"})),
    "Acrobot-v1": Entry(acrobot.Acrobot, 500),
    "MountainCar-v0": Entry(mountain_car.MountainCar, 200, frozenset({"goal_velocity"})),
    "MountainCarContinuous-v0": Entry(mountain_car.MountainCarContinuous, 999, frozenset({"goal_velocity"})),
    "Pendulum-v1": Entry(pendulum.Pendulum, 200, frozenset({"g"})),
    "FrozenLake-v1": Entry(tables.frozen_lake, 100, _LAKE),
    "FrozenLake8x8-v1": Entry(partial(tables.frozen_lake, map_name="8x8"), 200, _LAKE),
    # Gymnasium 1.3 replaced v3 by v4, which differs only where it rains or the passenger is fickle.
    "Taxi-v3": Entry(tables.taxi, 200, masks=True),
    "Taxi-v4": Entry(tables.taxi, 200, _RAIN, masks=True),
    "CliffWalking-v1": Entry(tables.cliff_walking, None, frozenset({"is_slippery"})),
    "CliffWalkingSlippery-v1": Entry(partial(tables.cliff_walking, is_slippery=True), None, frozenset({"is_slippery"})),
    # Our own, for questions of exploration, reward and curriculum; Gymnasium steps them through `single`.
    "DeepSea-v0": _own("DeepSea-v0", tables.deep_sea, "size", "mapping_seed"),
    "Delivery-v0": _own("Delivery-v0", tables.delivery, "size", "farmable"),
    "DoorKey-v0": _own("DoorKey-v0", grids.DoorKey, "size"),
    "Maze-v0": _own("Maze-v0", grids.Maze, "size", "difficulty", "levels", "first_level"),
    "MultiRoom-v0": _own("MultiRoom-v0", grids.MultiRoom, "rooms", "size"),
    "SparseMountainCar-v0": _own("SparseMountainCar-v0", partial(mountain_car.MountainCar, sparse=True), "goal_velocity"),
    **{probe_id: _probe(probe_id) for probe_id in probes.PROBES},
}


def objection(config: EnvConfig) -> str | None:
    """Why the config cannot be stepped natively; None if it can."""
    entry = CATALOG.get(config.id)
    if entry is None:
        return f"there is no native version of {config.id}"
    if config.wrappers:
        return "env.wrappers is set, and a wrapper needs Gymnasium's own environment"
    if config.workers:
        return "env.workers is set, and workers step Gymnasium's own environments"
    unknown = sorted(set(config.kwargs) - entry.kwargs)
    if unknown:
        return f"the native {config.id} does not understand env.kwargs {', '.join(unknown)}"
    if "map_name" in config.kwargs and config.kwargs["map_name"] is None and config.kwargs.get("desc") is None:
        return "map_name=None draws another map at random for every environment"
    return None


def build_dynamics(config: EnvConfig, device: str) -> Dynamics:
    """The native environment of a config to which there is no objection; ConfigError for arguments that it does not take."""
    entry = CATALOG[config.id]
    if config.action_mask and not entry.masks:
        raise ConfigError(
            f"env.action_mask is on, but {config.id} reports no action mask.\n"
            "  Every action is allowed there; nothing could be masked.\n  Try: ",
            Change("env.action_mask", False),
        )
    kwargs: dict[str, Any] = {"masked": True} if config.action_mask else {}
    try:
        return entry.build(device, **config.kwargs, **kwargs)
    except (KeyError, ValueError, TypeError) as reason:
        raise ConfigError(
            f"{config.id} does not take env.kwargs={config.kwargs}: {type(reason).__name__} {reason}\n"
            "  The environment was not made.\n"
            f"  Try: values for {', '.join(sorted(entry.kwargs))} as in Gymnasium's documentation of {config.id}"
        ) from reason


def make(
    config: EnvConfig,
    seeds: list[int],
    n_envs: int,
    device: str,
    evaluation: bool,
    dynamics: Dynamics | None = None,
    first_env: int = 0,
) -> NativeEnv:
    """The native envs of a config to which there is no objection; dynamics: instead of the config's own."""
    limit = config.max_episode_steps or CATALOG[config.id].max_episode_steps
    return NativeEnv(dynamics or build_dynamics(config, device), seeds, n_envs, device, limit, evaluation, first_env)
