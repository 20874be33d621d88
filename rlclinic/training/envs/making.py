"""Makes one Gymnasium environment from a config, and says what to type when it cannot be made. Free of torch."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium import error as gym_error
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from rlclinic.errors import ConfigError, NotFound, nearest

if TYPE_CHECKING:
    from rlclinic.config import EnvConfig

Factory = Callable[..., Any]

# What to install for the families of environments whose simulators Gymnasium does not bring along.
_INSTALL = {
    ".box2d.": 'pip install swig && pip install "gymnasium[box2d]"',
    ".mujoco.": 'pip install "gymnasium[mujoco]"',
    ".phys2d.": 'pip install "gymnasium[jax]"',
    ".tabular.": 'pip install "gymnasium[jax]"',
    "ale_py": "pip install ale-py",
}


def single(config: EnvConfig, factory: Factory | None = None) -> gym.Env[Any, Any]:
    """One environment with the config's kwargs, time limit and wrappers; may raise NotFound or ConfigError."""
    if factory is None:
        env = _registered(config)
    else:
        env = _called(config, factory)
        if not isinstance(env, gym.Env):
            raise ConfigError(
                f"{name_of(config, factory)} returned a {type(env).__name__}, which is not a gymnasium.Env.\n"
                "  Training needs reset(seed=...) -> (obs, info) and step(action) -> (obs, reward, terminated, truncated, info).\n"
                "  Try: class MyEnv(gymnasium.Env), with observation_space and action_space set in __init__"
            )
        if config.max_episode_steps is not None:
            env = TimeLimit(env, config.max_episode_steps)
    for wrapper in config.wrappers:
        env = _wrapped(env, wrapper.id, dict(wrapper.kwargs))
    return env


def vector(config: EnvConfig, factory: Factory, n_envs: int) -> Any:
    """What the user's factory makes for n_envs: a VectorEnv, or a single env (then it is called once per env)."""
    takes = inspect.signature(factory).parameters
    return _called(config, factory, **({"num_envs": n_envs} if "num_envs" in takes else {}))


def name_of(config: EnvConfig, factory: Factory | None) -> str:
    """What to call the environment in messages."""
    return config.id if factory is None else getattr(factory, "__qualname__", type(factory).__name__)


def peeled(env: gym.Env[Any, Any]) -> tuple[gym.Env[Any, Any], int | None]:
    """The env under Gymnasium's own outer wrappers, and the time limit among them, which the caller must then keep.

    They cost several microseconds a step: one checks the order of calls, which stepping.py guarantees, and one counts steps.
    """
    limits = []
    while type(env) in (TimeLimit, OrderEnforcing, PassiveEnvChecker):
        if type(env) is TimeLimit:
            limits.append(env._max_episode_steps)
        env = env.env  # type: ignore[attr-defined]
    return env, min(limits, default=None)


def time_limit(env: gym.Env[Any, Any]) -> int | None:
    """The shortest time limit in the stack of wrappers."""
    limits, inner = [], env
    while isinstance(inner, gym.Wrapper):
        if isinstance(inner, TimeLimit):
            limits.append(inner._max_episode_steps)
        inner = inner.env
    return min(limits, default=None)


def spec_of(env_id: str) -> EnvSpec:
    """The registered spec of an id or "module:Id"; NotFound offers the nearest id."""
    module, _, name = env_id.rpartition(":")
    if module:
        _import(module, env_id)
    elif name.startswith("ALE/") and importlib.util.find_spec("ale_py"):
        importlib.import_module("ale_py")
    try:
        with warnings.catch_warnings():
            # An older version of an env is the user's choice, not a mistake.
            warnings.simplefilter("ignore", DeprecationWarning)
            return gym.spec(name)
    except gym_error.Error as reason:
        raise _unknown(name, str(reason)) from None


def _registered(config: EnvConfig) -> gym.Env[Any, Any]:
    spec = replace(spec_of(config.id), order_enforce=False)
    try:
        return gym.make(spec, max_episode_steps=config.max_episode_steps, disable_env_checker=True, **config.kwargs)
    except (gym_error.DependencyNotInstalled, ImportError) as reason:
        raise _not_installed(spec, str(reason)) from reason
    except (TypeError, KeyError, ValueError, AssertionError) as reason:
        if not config.kwargs:
            raise
        raise ConfigError(
            f"{config.id} does not take env.kwargs={config.kwargs}: {_first_line(reason)}\n"
            "  The environment was not made.\n"
            f"  Try: {_signature(spec)}"
        ) from reason


def _called(config: EnvConfig, factory: Factory, **extra: Any) -> Any:
    try:
        return factory(**config.kwargs, **extra)
    except TypeError as reason:
        raise ConfigError(
            f"{name_of(config, factory)} could not be called with {({**config.kwargs, **extra})}: {_first_line(reason)}\n"
            "  The environment was not made.\n"
            "  Try: env.kwargs with exactly the arguments that it needs"
        ) from reason


def _wrapped(env: gym.Env[Any, Any], wrapper_id: str, kwargs: dict[str, Any]) -> gym.Env[Any, Any]:
    module, _, name = wrapper_id.rpartition(":")
    home = _import(module, wrapper_id) if module else gym.wrappers
    wrapper = getattr(home, name, None)
    if wrapper is None:
        offered = nearest(name, [entry for entry in dir(home) if entry[0].isupper()])
        hint = f"did you mean {offered[0]}?" if offered else '"module:Class", or a name in gymnasium.wrappers'
        raise NotFound(
            f"env.wrappers: there is no {name} in {home.__name__}.\n  The environment would not be the one you asked for.\n  Try: {hint}"
        )
    try:
        return wrapper(env, **kwargs)
    except TypeError as reason:
        raise ConfigError(
            f"env.wrappers: {wrapper_id} does not take {kwargs}: {_first_line(reason)}\n"
            "  The environment was not made.\n"
            f"  Try: {name}{inspect.signature(wrapper)}"
        ) from reason


def _import(module: str, wanted: str) -> Any:
    if "" not in sys.path:
        # As `python -c` does: a user's module beside the config must be found by a console command too.
        sys.path.insert(0, "")
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as reason:
        raise NotFound(
            f"{wanted}: the module {module} cannot be imported ({reason}).\n"
            "  The environment is registered when that module is imported, so there is nothing to train on.\n"
            f"  Try: from the folder that holds {module.split('.')[0]}, or pip install it"
        ) from reason


def _unknown(name: str, reason: str) -> NotFound:
    offered = nearest(name, gym.registry)
    if name.startswith("ALE/"):
        hint = f"{_INSTALL['ale_py']}"
    elif offered:
        hint = " or ".join(offered)
    else:
        hint = 'python -c "import gymnasium; gymnasium.pprint_registry()" for all ids; "module:Id" imports the module first'
    return NotFound(f"No environment is registered as {name} ({reason.rstrip('.')}).\n  There is nothing to train on.\n  Try: {hint}")


def _not_installed(spec: EnvSpec, reason: str) -> ConfigError:
    entry = str(spec.entry_point)
    line = next((line for part, line in _INSTALL.items() if part in entry), None)
    return ConfigError(
        f"{spec.id} needs a package that is not installed: {_first_line(reason)}\n"
        "  The environment cannot be made without it.\n"
        f"  Try: {line or 'the package that this message names'}"
    )


def _signature(spec: EnvSpec) -> str:
    entry = spec.entry_point
    if isinstance(entry, str):
        module, _, name = entry.partition(":")
        entry = getattr(importlib.import_module(module), name)
    return f"{getattr(entry, '__name__', spec.id)}{inspect.signature(entry)}" if callable(entry) else spec.id


def _first_line(reason: object) -> str:
    return str(reason).strip().split("\n", 1)[0]
