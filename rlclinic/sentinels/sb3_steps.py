"""What the environments of a Stable-Baselines3 run gave, step by step, before anything is added or bootstrapped."""

from math import isfinite
from typing import Any

import numpy as np

from rlclinic.sentinels.readings import Array, Readings


class Steps:
    """Rewards and ends of a stretch of steps as the env gave them: SB3's own buffer adds values behind time limits to rewards."""

    def __init__(self, model: Any, length: int) -> None:
        shape = (length, model.n_envs)
        self._normalizer = model.get_vec_normalize_env()
        self.raw_all, self.trained_all = np.zeros(shape), np.zeros(shape)
        self.terminated_all, self.truncated_all = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        self._taken = self._ends = self._same = 0
        self.not_finite: dict[str, Any] | None = None

    def clear(self) -> None:
        """Begin the next stretch."""
        self._taken = self._ends = self._same = 0
        self.terminated_all[:] = self.truncated_all[:] = False

    raw = property(lambda self: self.raw_all[: self._taken])
    trained = property(lambda self: self.trained_all[: self._taken])
    terminated = property(lambda self: self.terminated_all[: self._taken])
    truncated = property(lambda self: self.truncated_all[: self._taken])

    @property
    def resets(self) -> Readings:
        """Share of episode ends whose final observation is the next episode's first one."""
        return {"next_obs_is_reset": self._same / self._ends} if self._ends else {}

    def add(self, seen: dict[str, Any]) -> None:
        """Take what SB3 knows after a step: its local variables."""
        at = self._taken
        if at >= len(self.raw_all):
            return
        rewards, dones = seen["rewards"], seen["dones"]
        self.trained_all[at] = rewards
        self.raw_all[at] = rewards if self._normalizer is None else self._normalizer.get_original_reward()
        if True in dones.tolist():  # a list of 8 is searched faster than an array of 8
            for env in np.flatnonzero(dones).tolist():
                self._end(at, env, seen["infos"][env], seen["new_obs"])
        self._taken += 1
        obs = seen["new_obs"]
        # One sum tells: it is finite only if every term is (or so large that it is worth telling anyway).
        if self.not_finite is None and (isinstance(obs, dict) or not isfinite(obs.sum() + rewards.sum())):
            self.not_finite = find_broken_number(rewards, obs)

    def _end(self, at: int, env: int, info: dict[str, Any], new_obs: Any) -> None:
        cut = bool(info.get("TimeLimit.truncated", False))
        (self.truncated_all if cut else self.terminated_all)[at, env] = True
        final = info.get("terminal_observation")
        if final is not None and isinstance(new_obs, np.ndarray):
            self._ends += 1
            self._same += bool(np.array_equal(final, new_obs[env]))


def find_broken_number(rewards: Array, obs: Any) -> dict[str, Any] | None:
    """Where a step's rewards or observations stop being numbers: env, what, and which component."""
    tables = {"reward": rewards} | (dict(obs) if isinstance(obs, dict) else {"observation": obs})
    for name, table in tables.items():
        if np.issubdtype(table.dtype, np.floating) and not isfinite(table.sum()):
            bad = np.argwhere(~np.isfinite(table))
            if len(bad):
                return {"where": name, "env": int(bad[0][0]), "component": [int(place) for place in bad[0][1:]]}
    return None
