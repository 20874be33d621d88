"""What the environments of a Stable-Baselines3 run gave, step by step, before anything is added or bootstrapped."""

from math import isfinite
from typing import Any

import numpy as np

from rlclinic.sentinels.readings import Array, Readings
from rlclinic.stats import variance_shares

LONGEST = 1024
"""Steps of one env that are kept for what they say about the environment."""
MOST = 2048
"""Transitions that are kept; of more envs, fewer steps of each."""


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


class RewardTerms:
    """What each term of the reward came to, where the environment says so: info["reward_terms"], a dict of name to number."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._sizes: dict[str, float] = {}
        self._ends = 0

    def add(self, infos: Any, ends: int) -> None:
        """One step of all envs."""
        if "reward_terms" not in infos[0]:
            return
        self._ends += ends
        for info in infos:
            for name, value in info.get("reward_terms", {}).items():
                self._sums[name] = self._sums.get(name, 0.0) + float(value)
                self._sizes[name] = self._sizes.get(name, 0.0) + abs(float(value))

    def take(self) -> dict[str, float]:
        """train/terms/NAME/return, per episode that ended, and train/terms/NAME/share of all terms' sizes; begins anew."""
        whole = sum(self._sizes.values())
        found = {f"train/terms/{name}/share": size / whole for name, size in self._sizes.items()} if whole > 0 else {}
        if self._ends:
            found |= {f"train/terms/{name}/return": total / self._ends for name, total in self._sums.items()}
        self._sums, self._sizes, self._ends = {}, {}, 0
        return found


class Recent:
    """The last transitions of a run, in memory of a fixed size: what was acted on, what was done, what it paid."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._steps = min(LONGEST, max(MOST // model.n_envs, 16))
        self._choices = getattr(model.action_space, "n", None)
        obs = model.observation_space
        self._watches = isinstance(obs.shape, tuple) and obs.dtype is not None and int(np.prod(obs.shape)) <= variance_shares.WIDEST
        self._normalizer = model.get_vec_normalize_env()
        self._taken = 0
        self._obs: Array | None = None
        self._actions: Array | None = None
        shape = (self._steps, model.n_envs)
        self._rewards = np.zeros(shape)
        self._ended, self._terminated = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        self._terms = RewardTerms()

    def add(self, seen: dict[str, Any]) -> None:
        """Take what SB3 knows after a step: its local variables."""
        at = self._taken % self._steps
        self._terms.add(seen["infos"], int(np.count_nonzero(seen["dones"])))
        before = self._model._last_obs
        if self._watches and isinstance(before, np.ndarray):
            actions = seen.get("clipped_actions", seen["actions"])
            if self._obs is None or self._actions is None:
                self._obs = np.zeros((self._steps, *before.shape), dtype=before.dtype)
                self._actions = np.zeros((self._steps, *actions.shape), dtype=actions.dtype)
            self._obs[at], self._actions[at] = before, actions
        self._rewards[at] = seen["rewards"] if self._normalizer is None else self._normalizer.get_original_reward()
        dones = seen["dones"]
        self._ended[at] = dones
        self._terminated[at] = dones
        if True in dones.tolist():
            for env in np.flatnonzero(dones).tolist():
                self._terminated[at, env] = not seen["infos"][env].get("TimeLimit.truncated", False)
        self._taken += 1

    def take_terms(self) -> dict[str, float]:
        """Columns of the terms of the reward since the last time."""
        return self._terms.take()

    def measure(self) -> Readings:
        """What they say about the environment."""
        count = min(self._taken, self._steps)
        order = np.arange(self._taken - count, self._taken) % self._steps
        obs, actions = (None if part is None else part[order] for part in (self._obs, self._actions))
        if actions is None:
            found = variance_shares.measure_reward_timing(self._rewards[order], self._ended[order], self._terminated[order])
        else:
            found = variance_shares.measure(
                None if obs is None else obs.reshape(*obs.shape[:2], -1),
                actions,
                self._rewards[order],
                self._ended[order],
                choices=None if self._choices is None else int(self._choices),
                terminated=self._terminated[order],
            )
        space = self._model.observation_space
        if obs is not None and hasattr(space, "low"):
            plain = self._normalizer is None or not self._normalizer.norm_obs
            table = obs.reshape(-1, *obs.shape[2:])
            found |= variance_shares.measure_scales(table, table if plain else None, space.low, space.high)
        episodes = getattr(self._model, "ep_info_buffer", None) or ()
        together = np.array([(episode["r"], episode["l"]) for episode in episodes], dtype=np.float64).reshape(-1, 2)
        return found | variance_shares.measure_episodes(together[:, 0], together[:, 1])
