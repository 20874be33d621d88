"""Chooses how a config's environments are stepped, and puts the pieces together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from rlclinic.actions import Change
from rlclinic.errors import ConfigError
from rlclinic.training.envs import atari, native
from rlclinic.training.envs.wrappers import Augmented, Rescaled

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlclinic.config import EnvConfig
    from rlclinic.training.curriculum.assignment import Assignment
    from rlclinic.training.envs.base import VecEnv

    Factory = Callable[..., Any]


def assemble(
    config: EnvConfig,
    seeds: list[int],
    n_envs: int,
    device: str,
    evaluation: bool,
    factory: Factory | None,
    tasks: Assignment | None = None,
    first_env: int = 0,
) -> VecEnv:
    """What rlclinic.training.envs.make returns; tasks: versions of the environment that its copies play, instead of the config's own."""
    env: VecEnv
    if _goes_native(config, factory, tasks):
        env = played = native.make(config, seeds, n_envs, device, evaluation, None if tasks is None else tasks.build(device), first_env)
        if tasks is not None:
            tasks.attach(played)
    elif factory is None and atari.steps(config):
        env = atari.make(config, seeds, n_envs, device, evaluation, first_env)
    else:
        # Imported here: Gymnasium takes a quarter of a second, which native environments need not spend.
        from rlclinic.training.envs import gymnasium_envs

        env = gymnasium_envs.make(config, seeds, n_envs, device, evaluation, factory, tasks, first_env)
    # ALE stacks by itself, out of frames that nobody else sees.
    return put_around(env, config, stacked=factory is None and atari.steps(config))


def put_around(env: VecEnv, config: EnvConfig, *, stacked: bool = False) -> VecEnv:
    """An environment with what a config puts around all copies at once; stacked: its frames are stacked already."""
    frames = 1 if stacked else config.frame_stack
    if frames > 1 or config.time_in_obs:
        env = Augmented(env, frames, config.time_in_obs)
    return env if config.reward_scale == 1.0 else cast("VecEnv", Rescaled(env, config.reward_scale))


def _goes_native(config: EnvConfig, factory: Factory | None, tasks: Assignment | None) -> bool:
    if config.native == "never":
        return False
    objection = native.objection(config) if factory is None else "the environment is your own"
    if objection is None and tasks is not None:
        objection = tasks.objection()
    if objection is not None and config.native == "always":
        raise ConfigError(
            f"env.native=always, but {objection}.\n"
            "  Training would step Gymnasium's environment instead: slower, and a resume would not be exact.\n  Try: ",
            Change("env.native", "auto"),
        )
    if objection is not None and config.id.startswith("probe:") and factory is None:
        raise ConfigError(
            f"{config.id} exists only as a native environment, but {objection}.\n"
            "  There is no Gymnasium version to step instead.\n"
            f"  Try: one of {', '.join(native.PROBES)}, without wrappers, kwargs and workers"
        )
    return objection is None
