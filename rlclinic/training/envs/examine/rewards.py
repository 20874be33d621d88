"""Episodes at random, with what each term of the reward paid: what `reward check` judges. Free of torch."""

from __future__ import annotations

from typing import Any, Final

import gymnasium as gym
import numpy as np

from rlclinic.rewards.check import Recorded
from rlclinic.rewards.finite import Process
from rlclinic.training.data.info_columns import TERMS
from rlclinic.training.envs.examine import play

MOST_STEPS_OF_AN_EPISODE: Final = 1_000
IDLE_EPISODES: Final = 3


def record(env: gym.Env[Any, Any], steps: int, seed: int = 0) -> Recorded:
    """At least so many random steps, as whole episodes."""
    act = play.random_actions(env.action_space, seed)
    rows: dict[str, list[Any]] = {name: [] for name in ("obs", "next_obs", "reward", "terminated", "truncated", "episode")}
    terms: list[dict[str, float]] = []
    success: list[float] = []
    discrete = isinstance(env.observation_space, gym.spaces.Discrete)

    def shown(obs: Any) -> Any:
        return int(obs) if discrete else play.features(env.observation_space, obs)

    while len(terms) < steps:
        obs, _ = env.reset(seed=seed + len(success))
        ended, reached = False, np.nan
        for taken in range(1, MOST_STEPS_OF_AN_EPISODE + 1):
            following, reward, terminated, truncated, info = env.step(act(obs, taken))
            ended = bool(terminated or truncated or taken == MOST_STEPS_OF_AN_EPISODE)
            row = (shown(obs), shown(following), float(reward), bool(terminated), ended and not terminated, len(success))
            for name, value in zip(rows, row, strict=True):
                rows[name].append(value)
            said = info.get(TERMS)
            terms.append({str(name): float(value) for name, value in said.items()} if isinstance(said, dict) else {})
            if ended:
                reached = next((float(info[name]) for name in ("is_success", "success") if name in info), np.nan)
                break
            obs = following
        success.append(reached)
    names = list(dict.fromkeys(name for each in terms for name in each))
    whole = getattr(env.unwrapped, "P", None)
    return Recorded(
        obs=np.array(rows["obs"]),
        next_obs=np.array(rows["next_obs"]),
        reward=np.array(rows["reward"]),
        terms={name: np.array([each.get(name, 0.0) for each in terms]) for name in names},
        terminated=np.array(rows["terminated"]),
        truncated=np.array(rows["truncated"]),
        episode=np.array(rows["episode"]),
        success=np.array(success),
        idle={name: found for name, action in play.constants(env.action_space).items() if (found := _idle(env, action)) is not None},
        process=Process.of_table(whole, env.unwrapped.initial_state_distrib)[0] if whole is not None and discrete else None,  # type: ignore[attr-defined]
    )


def _idle(env: gym.Env[Any, Any], action: Any) -> tuple[float, float] | None:
    """Mean return and length of episodes of one action; None if that succeeds, which is no idling."""
    returns, lengths = [], []
    for episode in range(IDLE_EPISODES):
        env.reset(seed=10_000 + episode)
        total, taken, ended = 0.0, 0, False
        while not ended and taken < MOST_STEPS_OF_AN_EPISODE:
            _, reward, terminated, truncated, info = env.step(action)
            if info.get("is_success") or info.get("success"):
                return None
            total, taken, ended = total + float(reward), taken + 1, bool(terminated or truncated)
        returns.append(total)
        lengths.append(taken)
    return float(np.mean(returns)), float(np.mean(lengths))
