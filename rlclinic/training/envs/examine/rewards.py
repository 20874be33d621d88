"""Episodes at random, with what each term of the reward paid: what `reward check` judges. Free of torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import gymnasium as gym
import numpy as np

from rlclinic.actions import Action
from rlclinic.errors import ConfigError, RlclinicError, UsageError
from rlclinic.rewards.check import Layer, Recorded
from rlclinic.rewards.finite import Process
from rlclinic.rewards.terms import Rewards, read_number
from rlclinic.training.data.info_columns import TERMS
from rlclinic.training.envs.examine import play
from rlclinic.training.envs.examine.environment import RUNNING, unwrap

MOST_STEPS_OF_AN_EPISODE: Final = 1_000
IDLE_EPISODES: Final = 3


def record(env: gym.Env[Any, Any], steps: int, seed: int = 0, *, target: str = "ENV") -> Recorded:
    """At least so many random steps, as whole episodes; `target` is how the environment was named."""
    if missing := [name for name in ("observation_space", "action_space", "reset", "step") if not hasattr(env, name)]:
        raise ConfigError(
            f"{type(env).__name__} has no {missing[0]}, which every Gymnasium environment has.\n"
            "  Nothing could be played, and what it pays was not judged.\n  See what else is missing: ",
            Action("lint", env=target),
        )
    act = play.random_actions(env.action_space, seed)
    rows: dict[str, list[Any]] = {name: [] for name in ("obs", "next_obs", "reward", "terminated", "truncated", "episode")}
    terms: list[dict[str, float]] = []
    success: list[float] = []
    discrete = isinstance(env.observation_space, gym.spaces.Discrete)
    layers = [layer for layer in unwrap(env) if hasattr(layer, "__dict__")]  # one with __slots__ cannot be listened to
    ears = [_Ear(layer) for layer in layers[1:]]  # within each wrapper
    heard: list[list[tuple[float, int]]] = []
    paying = [value for layer in layers for value in vars(layer).values() if isinstance(value, Rewards)]
    worth: list[tuple[dict[str, float], dict[str, float]]] = []

    def shown(obs: Any) -> Any:
        return int(obs) if discrete else play.features(env.observation_space, obs)

    while len(terms) < steps:
        obs, _ = _reset(env, seed + len(success), target)
        ended, reached = False, np.nan
        for taken in range(1, MOST_STEPS_OF_AN_EPISODE + 1):
            before = paying[0].potential_now if len(paying) == 1 else {}
            for ear in ears:
                ear.forget()
            following, reward, terminated, truncated, info = _step(env, act(obs, taken), target)
            ended = bool(terminated or truncated or taken == MOST_STEPS_OF_AN_EPISODE)
            row = (shown(obs), shown(following), reward, terminated, ended and not terminated, len(success))
            for name, value in zip(rows, row, strict=True):
                rows[name].append(value)
            heard.append([(ear.paid, ear.steps) for ear in ears])
            worth.append((before, paying[0].potential_now if len(paying) == 1 else {}))
            terms.append(_read_terms(info.get(TERMS)))
            if ended:
                reached = next((float(info[name]) for name in ("is_success", "success") if name in info), np.nan)
                break
            obs = following
        success.append(reached)
    for ear in ears:
        ear.close()
    names = list(dict.fromkeys(name for each in terms for name in each))
    constant = {
        name: found for name, action in play.constants(env.action_space).items() if (found := _idle(env, action, target)) is not None
    }
    known = [name for name in names if worth and name in worth[0][0]]
    inside = [np.array([paid[number][0] for paid in heard]) for number in range(len(ears))]
    outside = [np.array(rows["reward"]), *inside]
    wrappers = [
        Layer(
            name=type(layers[number]).__name__,
            given=inside[number],
            passed_on=outside[number],
            repeats=max(paid[number][1] for paid in heard),
            running=type(layers[number]).__name__ in RUNNING,
        )
        for number in reversed(range(len(ears)))
        if ears[number].hears_terms
    ]
    inner: Any = getattr(env, "unwrapped", env)
    whole = getattr(inner, "P", None)
    return Recorded(
        obs=np.array(rows["obs"]),
        next_obs=np.array(rows["next_obs"]),
        reward=np.array(rows["reward"]),
        terms={name: np.array([each.get(name, 0.0) for each in terms]) for name in names},
        terminated=np.array(rows["terminated"]),
        truncated=np.array(rows["truncated"]),
        episode=np.array(rows["episode"]),
        success=np.array(success),
        idle={name: (mean, length) for name, (mean, length, _) in constant.items()},
        idle_terms={name: of_terms for name, (*_, of_terms) in constant.items()},
        potentials={name: (np.array([was[name] for was, _ in worth]), np.array([then[name] for _, then in worth])) for name in known},
        weights=paying[0].weights_now if len(paying) == 1 else {},
        wrappers=wrappers,
        process=Process.of_table(whole, inner.initial_state_distrib)[0] if whole is not None and discrete else None,
    )


def _reset(env: gym.Env[Any, Any], seed: int, target: str) -> tuple[Any, dict[str, Any]]:
    try:
        obs, info = env.reset(seed=seed)
    except RlclinicError:
        raise
    except Exception as reason:
        raise _refuse(env, "reset()", reason, target) from reason
    return obs, info


def _step(env: gym.Env[Any, Any], action: Any, target: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    """A step whose reward is one finite number; ConfigError or UsageError say what is wrong with it."""
    try:
        obs, reward, terminated, truncated, info = env.step(action)
    except RlclinicError:
        raise
    except Exception as reason:
        raise _refuse(env, "step()", reason, target) from reason
    return obs, read_number("the reward", reward), bool(terminated), bool(truncated), info


def _refuse(env: gym.Env[Any, Any], call: str, reason: Exception, target: str) -> ConfigError:
    return ConfigError(
        f"{call} of {type(getattr(env, 'unwrapped', env)).__name__} cannot be followed: {type(reason).__name__}: {reason}\n"
        "  What it pays was not judged.\n  See what is wrong with it: ",
        Action("lint", env=target),
    )


def _read_terms(said: Any) -> dict[str, float]:
    """What `info["reward_terms"]` says; UsageError for what is no number by name."""
    if said is None:
        return {}
    if not isinstance(said, Mapping):
        raise UsageError(
            f'info["reward_terms"] is {said!r:.80}, where numbers by name are needed.\n'
            "  It could not be told what was paid for what.\n  Try: {'task': 1.0, 'progress': 0.1}, or rlclinic.rewards.Rewards"
        )
    return {str(name): read_number(f"the term {name}", value) for name, value in said.items()}


class _Ear:
    """Listens to the steps of an environment inside of a wrapper: what they paid in one step of the outermost, and how many they were."""

    def __init__(self, env: Any) -> None:
        self.env, self.paid, self.steps, self.hears_terms = env, 0.0, 0, False
        step = env.step

        def listened(action: Any) -> Any:
            outcome = step(action)
            self.paid, self.steps = self.paid + float(outcome[1]), self.steps + 1
            self.hears_terms = self.hears_terms or (isinstance(outcome[4], dict) and TERMS in outcome[4])
            return outcome

        env.step = listened

    def forget(self) -> None:
        """A step of the outermost begins."""
        self.paid, self.steps = 0.0, 0

    def close(self) -> None:
        """The environment steps by its own method again."""
        del self.env.step


def _idle(env: gym.Env[Any, Any], action: Any, target: str) -> tuple[float, float, dict[str, float]] | None:
    """Mean return, mean length and what each term paid in episodes of one action; None if that succeeds, which is no idling."""
    returns, lengths = [], []
    terms: dict[str, float] = {}
    for episode in range(IDLE_EPISODES):
        _reset(env, 10_000 + episode, target)
        total, taken, ended = 0.0, 0, False
        while not ended and taken < MOST_STEPS_OF_AN_EPISODE:
            _, reward, terminated, truncated, info = _step(env, action, target)
            if info.get("is_success") or info.get("success"):
                return None
            total, taken, ended = total + reward, taken + 1, terminated or truncated
            for name, value in _read_terms(info.get(TERMS)).items():
                terms[name] = terms.get(name, 0.0) + value / IDLE_EPISODES
        returns.append(total)
        lengths.append(taken)
    return float(np.mean(returns)), float(np.mean(lengths)), terms
