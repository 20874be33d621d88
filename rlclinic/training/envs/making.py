"""Makes one Gymnasium environment from a config, and says what to type when it cannot be made. Free of torch."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium import error as gym_error
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from rlclinic import trust
from rlclinic.config.gymnasium_registry import OWN_ENVIRONMENTS
from rlclinic.errors import ConfigError, NotFound, RlclinicError, UsageError, nearest
from rlclinic.training.data.whole_terms import tell_all
from rlclinic.training.envs import modules

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

# Ids that Gymnasium 1.3 dropped for a newer version with the same behaviour, as long as these kwargs are not used.
_RENAMED = {"Taxi-v3": ("Taxi-v4", {"is_rainy", "fickle_passenger"})}


def make_single(config: EnvConfig, factory: Factory | None = None) -> gym.Env[Any, Any]:
    """One environment with the config's kwargs, time limit and wrappers; may raise NotFound or ConfigError."""
    return wrap(config, _make_registered(config) if factory is None else call_factory(config, factory), factory)


def wrap(config: EnvConfig, env: Any, factory: Factory | None) -> gym.Env[Any, Any]:
    """The env with the config's wrappers, and its time limit where gymnasium.make did not set it."""
    if not isinstance(env, gym.Env):
        raise ConfigError(
            f"{name_of(config, factory)} returned a {type(env).__name__}, which is not a gymnasium.Env.\n"
            "  Training needs reset(seed=...) -> (obs, info) and step(action) -> (obs, reward, terminated, truncated, info).\n"
            "  Try: class MyEnv(gymnasium.Env), with observation_space and action_space set in __init__"
        )
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, name, None), gym.Space):
            raise ConfigError(
                f"{name_of(config, factory)} has no {name} that is a space of Gymnasium.\n"
                "  No network could be built for it.\n"
                f"  Try: self.{name} = gymnasium.spaces.Box(...) in its __init__"
            )
    if factory is not None and config.max_episode_steps is not None:
        env = TimeLimit(env, config.max_episode_steps)

    def around(inner: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        for wrapper in config.wrappers:
            inner = _apply_wrapper(inner, wrapper.id, dict(wrapper.kwargs))
        return inner

    # Environments of the user's own tell the terms of their reward: with the wrappers' part, they sum to what is paid outside of them.
    return tell_all(env, around) if config.wrappers and (factory is not None or trust.names_code(config.id)) else around(env)


def close(env: gym.Env[Any, Any]) -> None:
    """Close an environment; a failure of its own cleaning up is no reason to leave others open, or to call a good run failed."""
    with suppress(Exception):
        env.close()


def call_factory(config: EnvConfig, factory: Factory, n_envs: int | None = None) -> Any:
    """What the user's factory makes of config.kwargs, and of num_envs if it has such a parameter: an Env or a VectorEnv."""
    if not callable(factory):
        raise UsageError(
            f"The environment was given as {factory!r}, which cannot be called.\n"
            "  Training steps many copies of it, so it must be able to make them.\n"
            "  Try: env=MyEnv (the class), or env=lambda: MyEnv(...)"
        )
    extra = {"num_envs": n_envs} if n_envs is not None and "num_envs" in _parameters(factory) else {}
    try:
        return factory(**config.kwargs, **extra)
    except RlclinicError:
        raise
    except Exception as reason:
        raise ConfigError(
            f"{name_of(config, factory)}({_arguments({**config.kwargs, **extra})}) raised {type(reason).__name__}: {_first_line(reason)}\n"
            "  The environment was not made.\n"
            "  Try: env.kwargs with the arguments that it needs, or mend its __init__"
        ) from reason


def name_of(config: EnvConfig, factory: Factory | None) -> str:
    """What to call the environment in messages."""
    return config.id if factory is None else getattr(factory, "__qualname__", type(factory).__name__)


def peel(env: gym.Env[Any, Any]) -> tuple[gym.Env[Any, Any], int | None]:
    """The env under Gymnasium's own outer wrappers, and the time limit among them, which the caller must then keep.

    They cost several microseconds a step: one checks the order of calls, which stepping.py guarantees, and one counts steps.
    """
    limits = []
    while type(env) in (TimeLimit, OrderEnforcing, PassiveEnvChecker):
        if type(env) is TimeLimit:
            limits.append(env._max_episode_steps)
        env = env.env  # type: ignore[attr-defined]
    return env, min(limits, default=None)


def find_time_limit(env: gym.Env[Any, Any]) -> int | None:
    """The shortest time limit in the stack of wrappers."""
    limits, inner = [], env
    while isinstance(inner, gym.Wrapper):
        if isinstance(inner, TimeLimit):
            limits.append(inner._max_episode_steps)
        inner = inner.env
    return min(limits, default=None)


def spec_for(config: EnvConfig) -> EnvSpec:
    """The registered spec of the config's id; NotFound offers the nearest id."""
    newer, changed = _RENAMED.get(config.id, (config.id, set()))
    same = config.id not in gym.registry and not changed & set(config.kwargs)
    return spec_of(newer if same else config.id)


def spec_of(env_id: str) -> EnvSpec:
    """The spec of an id, of "module:Id", or of a class or function, "module:Name" or "file.py:Name"; NotFound offers the nearest."""
    home, _, name = env_id.rpartition(":")
    if home:
        module = modules.import_home(home, env_id)
        if callable(getattr(module, name, None)):
            # By its name: a worker process imports it again.
            return EnvSpec(name, entry_point=f"{module.__name__}:{name}")
    elif name in OWN_ENVIRONMENTS:
        entry_point = "rlclinic.training.envs.native.single:Single"
        return EnvSpec(name, entry_point=entry_point, max_episode_steps=OWN_ENVIRONMENTS[name], kwargs={"env_id": name})
    elif name.startswith("ALE/") and importlib.util.find_spec("ale_py"):
        importlib.import_module("ale_py")
    try:
        with warnings.catch_warnings():
            # An older version of an env is the user's choice, not a mistake.
            warnings.simplefilter("ignore", DeprecationWarning)
            return gym.spec(name)
    except gym_error.Error as reason:
        if home:
            raise NotFound(
                f"{env_id}: there is no class or function {name} in {home}, and it registers no such id.\n"
                f"  There is no environment to make.\n  Try: {modules.suggest(module, name)}"
            ) from None
        raise _unknown(name, str(reason)) from None


def _make_registered(config: EnvConfig) -> gym.Env[Any, Any]:
    spec = replace(spec_for(config), order_enforce=False)
    try:
        with warnings.catch_warnings(), _silence_model_warnings(spec):
            # Box2D's bindings say this while they are loaded, and crash the interpreter where warnings are errors.
            warnings.filterwarnings("ignore", "builtin type .* has no __module__ attribute", DeprecationWarning)
            return gym.make(spec, max_episode_steps=config.max_episode_steps, disable_env_checker=True, **config.kwargs)
    except (gym_error.DependencyNotInstalled, ImportError) as reason:
        raise _not_installed(spec, reason) from reason
    except Exception as reason:
        hint = _signature(spec) if config.kwargs else "mend the environment's __init__"
        raise ConfigError(
            f"{config.id} with env.kwargs={config.kwargs} raised {type(reason).__name__}: {_first_line(reason)}\n"
            "  The environment was not made.\n"
            f"  Try: {hint}"
        ) from reason


@contextmanager
def _silence_model_warnings(spec: EnvSpec) -> Iterator[None]:
    """MuJoCo calls an attribute of Gymnasium's own robots deprecated, on stderr and in a MUJOCO_LOG.TXT wherever one works.

    Only while a model is made: what the simulator says later (a robot that explodes) is for the user.
    """
    if ".mujoco." not in str(spec.entry_point) or importlib.util.find_spec("mujoco") is None:
        yield
        return
    mujoco: Any = importlib.import_module("mujoco")
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda _: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def _apply_wrapper(env: gym.Env[Any, Any], wrapper_id: str, kwargs: dict[str, Any]) -> gym.Env[Any, Any]:
    module, _, name = wrapper_id.rpartition(":")
    home = modules.import_home(module, wrapper_id) if module else gym.wrappers
    wrapper = getattr(home, name, None)
    if wrapper is None:
        offered = nearest(name, [entry for entry in dir(home) if entry[0].isupper()])
        hint = f"did you mean {offered[0]}?" if offered else '"module:Class", or a name in gymnasium.wrappers'
        raise NotFound(
            f"env.wrappers: there is no {name} in {home.__name__}.\n  The environment would not be the one you asked for.\n  Try: {hint}"
        )
    try:
        return wrapper(env, **kwargs)
    except Exception as reason:
        raise ConfigError(
            f"env.wrappers: {wrapper_id}({_arguments(kwargs)}) raised {type(reason).__name__}: {_first_line(reason)}\n"
            "  The environment was not made.\n"
            f"  Try: {name}{inspect.signature(wrapper)}"
        ) from reason


def _unknown(name: str, reason: str) -> NotFound:
    offered = nearest(name, [*OWN_ENVIRONMENTS, *gym.registry])
    if name.startswith("ALE/"):
        hint = f"{_INSTALL['ale_py']}"
    elif offered:
        hint = " or ".join(offered)
    else:
        hint = 'python -c "import gymnasium; gymnasium.pprint_registry()" for all ids; "module:Id" imports the module first'
    return NotFound(f"No environment is registered as {name} ({reason.rstrip('.')}).\n  There is nothing to train on.\n  Try: {hint}")


def _not_installed(spec: EnvSpec, reason: Exception) -> ConfigError:
    line = next((line for part, line in _INSTALL.items() if part in str(spec.entry_point)), None)
    if line is None and isinstance(reason, ModuleNotFoundError):
        line = f"pip install {str(reason.name).split('.')[0]}"
    return ConfigError(
        f"{spec.id} needs a package that is not installed: {_first_line(reason)}\n"
        "  The environment cannot be made without it.\n"
        f"  Try: {line or 'the package that this message names'}"
    )


def _parameters(factory: Factory) -> Mapping[str, Any]:
    try:
        return inspect.signature(factory).parameters
    except (TypeError, ValueError):  # a callable from C has no signature to read
        return {}


def _arguments(kwargs: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in kwargs.items())


def _signature(spec: EnvSpec) -> str:
    entry = spec.entry_point
    if isinstance(entry, str):
        module, _, name = entry.partition(":")
        entry = getattr(importlib.import_module(module), name)
    return f"{getattr(entry, '__name__', spec.id)}{inspect.signature(entry)}" if callable(entry) else spec.id


def _first_line(reason: object) -> str:
    return str(reason).strip().split("\n", 1)[0]
