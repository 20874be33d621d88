"""From what a user typed to a function that makes the environment: an id, module:Id, module:Class, or file.py:Class. Free of torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym

from rlclinic.actions import Argument
from rlclinic.config.environment import EnvConfig
from rlclinic.config.gymnasium_registry import list_environments_in
from rlclinic.errors import ConfigError, RlclinicError, UsageError
from rlclinic.training.envs import making, modules

Make = Callable[[], Any]
TRAINED = "trained"
"""Stands for an environment as a config has it, with its time limit and wrappers; its arguments are the config's."""


def factory_of(target: str, kwargs: dict[str, Any]) -> Make:
    """A function that makes a new environment each time; NotFound, UsageError or ConfigError say what to type."""
    if target == TRAINED:
        config = EnvConfig.model_validate(kwargs)
        return lambda: making.make_single(config)
    if target.endswith(".py"):
        raise UsageError(
            f"{target} is a file, and may hold several environments.\n  Which one is meant is not said.\n  Try: ",
            Argument("env", f"{target}:{next(iter(list_environments_in(Path(target))), 'MyEnv')}"),
        )
    home, _, name = target.rpartition(":")
    found = getattr(modules.import_home(home, target), name, None) if home else None
    if found is not None:
        return _calling(found, kwargs)
    spec = making.spec_of({"Taxi-v3": "Taxi-v4"}.get(target, target))

    def make() -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "builtin type .* has no __module__ attribute", DeprecationWarning)
            return gym.make(spec, disable_env_checker=True, **kwargs)

    return make


def _calling(made: Any, kwargs: dict[str, Any]) -> Make:
    if not callable(made):
        raise UsageError(
            f"{made!r} cannot be called, so it makes no environment.\n  Try: a class that extends gymnasium.Env, or a function"
        )

    def make() -> Any:
        try:
            return made(**kwargs)
        except RlclinicError:
            raise
        except Exception as reason:
            given = ", ".join(f"{key}={value!r}" for key, value in kwargs.items())
            raise ConfigError(
                f"{getattr(made, '__qualname__', made)}({given}) raised {type(reason).__name__}: {reason}\n"
                "  The environment was not made.\n  Try: ",
                Argument("env_arg", "name=value"),
                " for what it needs, or mend its __init__",
            ) from reason

    return make
