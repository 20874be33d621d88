"""Makes the Gymnasium side of a VecEnv: single environments in this process or in workers, or a user's vector environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode, VectorEnv

from rlclinic.actions import Change
from rlclinic.errors import ConfigError
from rlclinic.training.data import info_columns
from rlclinic.training.data.info_columns import Tally
from rlclinic.training.envs import making, spaces, stepping
from rlclinic.training.envs.adapter import Backend, GymnasiumEnv, Local
from rlclinic.training.envs.stepping import Lanes
from rlclinic.training.envs.vectors import VectorLanes, autoreset_mode
from rlclinic.training.envs.workers import Workers

if TYPE_CHECKING:
    from rlclinic.config import EnvConfig
    from rlclinic.training.curriculum.assignment import Assignment


def make(
    config: EnvConfig,
    seeds: list[int],
    n_envs: int,
    device: str,
    evaluation: bool,
    factory: making.Factory | None,
    tasks: Assignment | None = None,
    first_env: int = 0,
) -> GymnasiumEnv:
    """The envs of a config that is not stepped natively; tasks: versions of the environment that its copies play."""
    if factory is None:
        first = making.make_single(config)
    else:
        made = making.call_factory(config, factory, n_envs)
        if isinstance(made, VectorEnv):
            if tasks is not None:
                tasks.refuse("a VectorEnv")
            return _vectors(made, config, seeds, n_envs, device, evaluation, factory, first_env)
        first = making.wrap(config, made, factory)
    name = making.name_of(config, factory)
    observations = spaces.observations(first.observation_space, name)
    actions = spaces.actions(first.action_space, name)
    limit, potentials = making.find_time_limit(first), stepping.find_potentials(first)
    backend: Backend
    if config.workers:
        making.close(first)
        backend = Workers(config, factory, observations, actions, (len(seeds), n_envs), evaluation)
    else:
        copies = len(seeds) * n_envs
        if tasks is None:
            envs = [first, *(making.make_single(config, factory) for _ in range(copies - 1))]
        else:
            making.close(first)
            envs = [tasks.make_single(index) for index in range(copies)]
        _check_distinct(envs, name)
        rows = [envs[start : start + n_envs] for start in range(0, len(envs), n_envs)]
        counts, reads = bool(info_columns.columns(config)) and not evaluation, () if evaluation else config.step_info
        lanes = [
            Lanes(
                row,
                name,
                observations,
                actions,
                config.action_mask,
                evaluation,
                tally=Tally(config, n_envs) if counts else None,
                reads=reads,
            )
            for row in rows
        ]
        backend = Local(lanes, skips=evaluation)
    return GymnasiumEnv(
        backend,
        observations,
        actions,
        seeds,
        n_envs,
        max_episode_steps=limit,
        device=device,
        masked=config.action_mask,
        evaluation=evaluation,
        info=None if evaluation or not info_columns.columns(config) else info_columns.Window(config, len(seeds)),
        step_info=() if evaluation else config.step_info,
        first_env=first_env,
        potentials=potentials,
    )


def _vectors(
    first: Any, config: EnvConfig, seeds: list[int], n_envs: int, device: str, evaluation: bool, factory: making.Factory, first_env: int
) -> GymnasiumEnv:
    """One vector env per member, made by the user's factory."""
    name = making.name_of(config, factory)
    _check_vector(first, config, n_envs, name)
    envs = [first, *(making.call_factory(config, factory, n_envs) for _ in seeds[1:])]
    observations = spaces.observations(first.single_observation_space, name)
    actions = spaces.actions(first.single_action_space, name)
    counts, reads = bool(info_columns.columns(config)) and not evaluation, () if evaluation else config.step_info
    lanes = [
        VectorLanes(env, name, observations, actions, config.action_mask, evaluation, Tally(config, n_envs) if counts else None, reads)
        for env in envs
    ]
    skips = evaluation or autoreset_mode(first, name) is AutoresetMode.NEXT_STEP
    return GymnasiumEnv(
        Local(lanes, skips),
        observations,
        actions,
        seeds,
        n_envs,
        max_episode_steps=getattr(first.spec, "max_episode_steps", None),
        device=device,
        masked=config.action_mask,
        evaluation=evaluation,
        info=None if evaluation or not info_columns.columns(config) else info_columns.Window(config, len(seeds)),
        step_info=() if evaluation else config.step_info,
        first_env=first_env,
    )


def _check_distinct(envs: list[gym.Env[Any, Any]], name: str) -> None:
    if len({id(env.unwrapped) for env in envs}) < len(envs):
        raise ConfigError(
            f"{name} returned the same environment twice.\n"
            "  Its copies would reset and step each other, and every episode would be a mixture.\n"
            "  Try: make a new one at every call, e.g. env=lambda: MyEnv()"
        )


def _check_vector(env: Any, config: EnvConfig, n_envs: int, name: str) -> None:
    if env.num_envs != n_envs:
        raise ConfigError(
            f"{name} made a vector of {env.num_envs} environments, but {n_envs} are wanted.\n"
            "  Rollouts would not have the size that the config says.\n  Try: a parameter num_envs, which is then given, or ",
            Change("env.n_envs", env.num_envs).also("run.eval_episodes", env.num_envs),
        )
    for field in ("wrappers", "workers", "max_episode_steps"):
        if getattr(config, field):
            raise ConfigError(
                f"env.{field}={getattr(config, field)} cannot be applied to {name}, which is a VectorEnv.\n"
                "  It steps and resets its environments by itself.\n"
                f"  Try: do it inside {name}, and leave env.{field} out"
            )
