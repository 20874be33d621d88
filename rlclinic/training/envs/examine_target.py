"""From what a user typed to a function that makes the environment: an id, module:Id, module:Class, or file.py:Class. Free of torch."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym

from rlclinic.errors import ConfigError, NotFound, RlclinicError, UsageError, nearest
from rlclinic.training.envs import making

Make = Callable[[], Any]


def factory_of(target: str, kwargs: dict[str, Any]) -> Make:
    """A function that makes a new environment each time; NotFound, UsageError or ConfigError say what to type."""
    home, _, name = target.rpartition(":")
    if home.endswith(".py"):
        return _calling(_member(_load(Path(home)), name, target), kwargs)
    if target.endswith(".py"):
        raise UsageError(
            f"{target} is a file, and may hold several environments.\n  Which one is meant cannot be guessed.\n  Try: --env {target}:MyEnv"
        )
    if home and "." not in name.rpartition("-v")[0]:
        found = _class_in(home, name)
        if found is not None:
            return _calling(found, kwargs)
    spec = making.spec_of({"Taxi-v3": "Taxi-v4"}.get(target, target))

    def make() -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "builtin type .* has no __module__ attribute", DeprecationWarning)
            return gym.make(spec, disable_env_checker=True, **kwargs)

    return make


def _class_in(module: str, name: str) -> Any:
    """A class or function of a module; None if the name is an id that the module registers."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        home = importlib.import_module(module)
    except ModuleNotFoundError as reason:
        raise NotFound(
            f"{module}:{name}: the module {module} cannot be imported ({reason}).\n  There is no environment to look at.\n"
            f"  Try: from the folder that holds {module.split('.')[0]}, or --env path/to/file.py:{name}"
        ) from reason
    return getattr(home, name, None)


def _load(path: Path) -> Any:
    if not path.is_file():
        raise NotFound(f"{path} does not exist.\n  There is no environment to look at.\n  Try: --env path/to/file.py:MyEnv")
    # What the file imports from beside it must be found, as if it had been started itself.
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be imported as Python.\n  There is no environment to look at.\n  Try: a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as reason:
        raise ConfigError(
            f"importing {path} raised {type(reason).__name__}: {reason}\n"
            f"  Its environment cannot be looked at.\n  Try: python {path}, and mend that"
        ) from reason
    return module


def _member(module: Any, name: str, target: str) -> Any:
    found = getattr(module, name, None)
    if found is None:
        offered = nearest(name, [each for each in dir(module) if each[0].isupper()]) or [
            each for each, value in vars(module).items() if isinstance(value, type) and issubclass(value, gym.Env) and value is not gym.Env
        ]
        hint = f"--env {target.rpartition(':')[0]}:{offered[0]}" if offered else "the name of a class that extends gymnasium.Env"
        raise NotFound(f"{target}: there is no {name} in the file.\n  There is no environment to look at.\n  Try: {hint}")
    return found


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
                "  The environment was not made.\n  Try: --env-arg name=value for what it needs, or mend its __init__"
            ) from reason

    return make
