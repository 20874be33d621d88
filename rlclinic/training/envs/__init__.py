"""Environments for cohorts: M members x N envs behind one interface, native (torch) or Gymnasium's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlclinic.training.envs.base import ActionSpec, Step, VecEnv

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlclinic.config import EnvConfig

__all__ = ["ActionSpec", "Step", "VecEnv", "make"]


def make(
    config: EnvConfig,
    seeds: list[int],
    n_envs: int,
    device: str = "cpu",
    evaluation: bool = False,
    factory: Callable[..., Any] | None = None,
    first_env: int = 0,
) -> VecEnv:
    """The envs of len(seeds) members, n_envs each; call reset() before step().

    `factory` is a user's class or function that returns a gymnasium.Env or VectorEnv, called with config.kwargs; it takes the
    place of config.id. `first_env`: the number of the first one, where the others of a member are somewhere else; what is random in an env
    depends on its number. With `evaluation`, env k of every member starts from the same state, a function of k, at every reset().
    Raises NotFound for an unknown id and ConfigError for settings that do not go together.
    """
    # Imported here: env workers import this package, and must not wait for torch.
    from rlclinic.training.envs import assembly

    return assembly.assemble(config, seeds, n_envs, device, evaluation, factory, first_env=first_env)
