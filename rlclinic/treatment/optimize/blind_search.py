"""Blind search, for when no cause is found: points of a quasi-random sequence, or Optuna's where it is installed.

A point lies in the unit cube; `place` turns it into settings around a centre. Everything is a function of the ledger, so that a
restart proposes what it would have proposed.
"""

import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rlclinic.config import Config, PPOConfig

Place = Callable[[float], Any]
_PRIMES: Final = (2, 3, 5, 7, 11, 13, 17, 19, 23)
INSTALL: Final = "searched by a quasi-random sequence; with Optuna's TPE: pip install 'rlclinic[hpo]'"


def _log(low: float, high: float) -> Place:
    return lambda at: float(f"{math.exp(math.log(low) + at * (math.log(high) - math.log(low))):.2g}")


def _one_of(*values: Any) -> Place:
    return lambda at: values[min(int(at * len(values)), len(values) - 1)]


def _horizon(low: float, high: float) -> Place:
    """A discount by how far it looks ahead."""
    return lambda at: float(f"{1 - 1 / math.exp(math.log(low) + at * (math.log(high) - math.log(low))):.4g}")


def space(config: Config) -> dict[str, Place]:
    """What is searched: the settings that decide most about learning, over the ranges that tuned settings span."""
    if config.algo.loop == "imitation":
        return {
            "algo.learning_rate": _log(1e-4, 5e-3),
            "algo.train_freq": _one_of(50, 100, 200, 400),
            "algo.gradient_steps": _one_of(500, 1000, 2000, 4000),
            "algo.batch_size": _one_of(32, 64, 128, 256),
        }
    if config.algo.loop != "on_policy":
        return _replay_space(config)
    shared: dict[str, Place] = {
        "algo.learning_rate": lambda at: {"start": _log(1e-4, 1e-2)(at), "end": 0.0, "schedule": "linear"},
        "algo.gamma": _horizon(10, 1000),
        "algo.gae_lambda": _horizon(4, 50),
        "algo.ent_coef": lambda at: 0.0 if at < 0.3 else _log(1e-4, 0.05)((at - 0.3) / 0.7),
        "env.normalize_reward": _one_of(False, True),
    }
    if not isinstance(config.algo, PPOConfig):
        return shared | {"algo.vf_coef": _log(0.1, 1.0)}
    envs = config.env.n_envs
    return shared | {
        "algo.n_steps": _one_of(*(max(rollout // envs, 8) for rollout in (256, 512, 1024, 2048))),
        "algo.batch_size": _one_of(1.0, 0.5, 0.25, 0.125),
        "algo.n_epochs": _one_of(4, 7, 10, 15, 20),
        "algo.clip_range": _log(0.1, 0.4),
    }


def _replay_space(config: Config) -> dict[str, Place]:
    """The same for learners with a replay; their targets are copied, or follow."""
    known = config.algo.model_dump()
    found: dict[str, Place] = {
        "algo.learning_rate": lambda at: {"start": _log(1e-4, 5e-3)(at), "end": 0.0, "schedule": "linear"},
        "algo.gamma": _horizon(10, 1000),
        "algo.batch_size": _one_of(32, 64, 128, 256),
        "algo.train_freq": _one_of(1, 4, 16),
        "algo.gradient_steps": _one_of(1, -1),
        "env.normalize_reward": _one_of(False, True),
    }
    if config.offline:
        found = {name: place for name, place in found.items() if name.partition(".")[2] in known}
    if "exploration_fraction" in known:
        budget = config.run.max_env_steps
        copies = [int(min(max(budget / times, 10), 10_000)) for times in (2000, 500, 200, 50)]
        return found | {"algo.target_update_interval": _one_of(*copies), "algo.exploration_fraction": _log(0.05, 0.5)}
    return found | ({"algo.tau": _log(0.002, 0.05)} if "tau" in known else {})


def halton(index: int, dimensions: int, shift: float = 0.0) -> list[float]:
    """A point of the Halton sequence, moved around the cube by `shift`: even cover for any number of points."""
    return [(_radical(index + 1, _PRIMES[place]) + shift * (place + 1)) % 1.0 for place in range(dimensions)]


def _radical(index: int, base: int) -> float:
    value, scale = 0.0, 1.0
    while index:
        scale /= base
        index, digit = divmod(index, base)
        value += digit * scale
    return value


def point(config: Config, index: int, seed: int) -> dict[str, float]:
    """The next point of the sequence, by setting."""
    names = list(space(config))
    return dict(zip(names, halton(index, len(names), (seed * 0.618034) % 1.0), strict=True))


def settings(config: Config, at: Mapping[str, float]) -> dict[str, Any]:
    """The settings that a point of the cube stands for."""
    places = space(config)
    return {name: places[name](value) for name, value in at.items() if name in places}


def has_optuna() -> bool:
    """Whether Optuna is installed."""
    return importlib.util.find_spec("optuna") is not None


def tpe_points(config: Config, told: Sequence[tuple[Mapping[str, float], float]], count: int, seed: int) -> list[dict[str, float]]:
    """Points that Optuna's TPE asks for, given the scores (lower is better) of earlier ones.

    The study is made anew each time from what the ledger holds: nothing of Optuna's is stored.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seed + len(told), multivariate=True, constant_liar=True, n_startup_trials=8)
    study = optuna.create_study(direction="minimize", sampler=sampler)
    cube = {name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in space(config)}
    for at, score in told:
        known = {name: float(at[name]) for name in cube if name in at}
        if len(known) == len(cube):
            study.add_trial(optuna.trial.create_trial(params=known, distributions=dict(cube), value=score))
    return [dict(study.ask(dict(cube)).params) for _ in range(count)]
