"""Chooses how a config's environments are stepped, and puts the pieces together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rlclinic.training.envs import making, native
from rlclinic.training.envs.adapter import GymnasiumEnv, Local
from rlclinic.training.envs.spaces import actions, observations
from rlclinic.training.envs.stepping import Lanes

if TYPE_CHECKING:
    from rlclinic.config import EnvConfig
    from rlclinic.training.envs.base import VecEnv


def assemble(
    config: EnvConfig, seeds: list[int], n_envs: int, device: str, evaluation: bool, factory: Callable[..., Any] | None
) -> VecEnv:
    """What rlclinic.training.envs.make returns."""
    if factory is None and config.native != "never" and native.objection(config) is None:
        return native.make(config, seeds, n_envs, device, evaluation)
    return _gymnasium(config, seeds, n_envs, device, evaluation, factory)


def _gymnasium(config, seeds, n_envs, device, evaluation, factory):
    name = making.name_of(config, factory)
    envs = [[making.single(config, factory) for _ in range(n_envs)] for _ in seeds]
    first = envs[0][0]
    obs, act = observations(first.observation_space, name), actions(first.action_space, name)
    lanes = [Lanes(row, name, obs, act, config.action_mask, evaluation) for row in envs]
    return GymnasiumEnv(
        Local(lanes, skips=evaluation), obs, act, seeds, n_envs,
        max_episode_steps=making.time_limit(first), device=device, masked=config.action_mask, evaluation=evaluation,
    )
