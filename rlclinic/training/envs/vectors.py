"""A user's own gymnasium.vector.VectorEnv, one per member, in any of Gymnasium's three ways to reset."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import iterate

from rlclinic.errors import ConfigError
from rlclinic.training.data import info_columns
from rlclinic.training.data.info_columns import Tally
from rlclinic.training.envs import stepping
from rlclinic.training.envs.reports import Reports, WrongShape
from rlclinic.training.envs.spaces import Actions, Observations
from rlclinic.training.envs.stepping import Rows


class VectorLanes:
    """A Stepper: the whole VectorEnv of one member."""

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        name: str,
        observations: Observations,
        actions: Actions,
        masked: bool,
        once: bool,
        tally: Tally | None = None,
        reads: Sequence[str] = (),
    ) -> None:
        self._env, self._name = env, name
        self._mode = autoreset_mode(env, name)
        self._write, self._decode = observations.write, actions.decode
        self._masked, self._once = masked, once
        self._resting = np.zeros(env.num_envs, np.bool_)
        self._pending = np.zeros(env.num_envs, np.bool_)
        self.report = Reports(name)
        self._tally, self._reads = tally, reads

    def reset(self, seeds: list[int], rows: Rows) -> None:
        self._resting[:] = False
        self._pending[:] = False
        self.report.steps = 0
        # Only Gymnasium's own two take one seed per env; a custom one promises no more than a single seed.
        many = isinstance(self._env.unwrapped, SyncVectorEnv | AsyncVectorEnv)
        with self.report.during("reset"):
            obs, info = self._env.reset(seed=seeds if many else seeds[0])  # type: ignore[arg-type]
            self._put(rows.obs, obs)
            self._put_mask(rows, info)
        self.report.check("observation of reset()", rows.obs)

    def step(self, action: np.ndarray, rows: Rows) -> bool:
        self.report.steps += 1
        with self.report.during("step"):
            obs, reward, terminated, truncated, info = self._env.step(self._decode(action))
            for name, values in (("reward", reward), ("terminated", terminated), ("truncated", truncated)):
                if np.shape(values) != rows.reward.shape:
                    raise WrongShape(np.shape(values), rows.reward.shape, name, "so many environments have the shape")
            rows.reward[:], rows.terminated[:], rows.truncated[:] = reward, terminated, truncated
            self._put(rows.next_obs, obs)
            self._put_mask(rows, info)
            ended = rows.terminated | rows.truncated
            if self._tally is not None:
                self._count(self._tally, ended, info, rows)
            if rows.said is not None:
                self._read(ended, info, rows.said)
            if ended.any():
                self._finish(ended, info, rows)
        self.report.check("observation", rows.next_obs)
        self.report.check("reward", rows.reward)
        if rows.said is not None:
            self.report.check("cost or term", rows.said)
        skipped = self._skip(ended, rows)
        return bool(ended.any()) or skipped

    def _finish(self, ended: np.ndarray, info: dict[str, Any], rows: Rows) -> None:
        rows.obs[ended] = rows.next_obs[ended]
        report = info
        if self._mode is AutoresetMode.SAME_STEP:
            for n in np.flatnonzero(ended).tolist():
                self._put_one(rows.next_obs, n, info["final_obs"][n])
            report = info.get("final_info", {})
        elif self._mode is AutoresetMode.DISABLED:
            obs, fresh = self._env.reset(options={"reset_mask": ended.copy()})
            first = np.empty_like(rows.obs)
            self._put(first, obs)
            rows.obs[ended] = first[ended]
            self._put_mask(rows, fresh, ended)
        self._put_success(ended, report, rows)
        if rows.final_mask is not None and "action_mask" in report:
            masks = np.asarray(report["action_mask"]).reshape(rows.final_mask.shape).astype(np.bool_)
            rows.final_mask[ended] = masks[ended]

    def _count(self, tally: Tally, ended: np.ndarray, info: dict[str, Any], rows: Rows) -> None:
        """What each env said in this step; of one that ended and started anew in the same step, what it said before that."""
        final = info.get("final_info", {}) if self._mode is AutoresetMode.SAME_STEP else info
        for n in np.flatnonzero(~(self._pending | self._resting)).tolist():
            tally.add(n, _said_by(n, final if ended[n] else info))
            if ended[n] and rows.info is not None:
                tally.finish(n, rows.info[n])

    def _read(self, ended: np.ndarray, info: dict[str, Any], said: np.ndarray) -> None:
        final = info.get("final_info", {}) if self._mode is AutoresetMode.SAME_STEP else info
        for n in np.flatnonzero(~(self._pending | self._resting)).tolist():
            if not info_columns.read_step(_said_by(n, final if ended[n] else info), self._reads, said[n]):
                raise self.report.no_cost(n)

    def _put_success(self, ended: np.ndarray, info: dict[str, Any], rows: Rows) -> None:
        for key in ("is_success", "success"):
            if key in info:
                told = ended & np.asarray(info.get(f"_{key}", True))
                success = np.asarray(info[key], np.float32)
                rows.success[told] = np.where((success >= 0) & (success <= 1), success, np.nan)[told]
                return

    def _skip(self, ended: np.ndarray, rows: Rows) -> bool:
        """Mark the rows that are no transition; whether there are any."""
        idle = self._pending | self._resting
        rows.valid[idle] = False
        rows.reward[idle] = 0.0
        rows.obs[idle] = rows.next_obs[idle]
        for flags in (rows.terminated, rows.truncated):
            flags[self._resting] = False
        rows.success[self._resting] = np.nan
        if self._mode is AutoresetMode.NEXT_STEP:
            self._pending = ended & ~idle
        if self._once:
            self._resting |= ended
        return bool(idle.any())

    def _put(self, rows: np.ndarray, obs: Any) -> None:
        if self._write is None:
            if np.shape(obs) != rows.shape:
                raise WrongShape(np.shape(obs), rows.shape)
            rows[...] = obs
        else:
            # Strict: rows for which nothing came would keep what was in them.
            for row, single in zip(rows, iterate(self._env.observation_space, obs), strict=True):
                self._write(row, single)

    def _put_one(self, rows: np.ndarray, n: int, obs: Any) -> None:
        if self._write is not None:
            self._write(rows[n], obs)
        elif np.shape(obs) == rows.shape[1:]:
            rows[n] = obs
        else:
            raise WrongShape(np.shape(obs), rows.shape[1:])

    def _put_mask(self, rows: Rows, info: dict[str, Any], told: np.ndarray | None = None) -> None:
        if not self._masked:
            return
        assert rows.mask is not None
        if "action_mask" not in info:
            raise self.report.no_mask(0)
        masks = np.asarray(info["action_mask"]).reshape(rows.mask.shape).astype(np.bool_)
        where = slice(None) if told is None else told
        rows.mask[where] = masks[where]

    def set_taken(self, steps: int) -> None:
        """Of vectors that hold single envs; one that pays by itself keeps its own time."""
        for env in (self._env, *getattr(self._env.unwrapped, "envs", ())):
            stepping.set_taken(env, steps)

    def render(self, n: int) -> Any:
        frames = self._env.render()
        return None if frames is None else frames[n]

    def close(self) -> None:
        with suppress(Exception):  # as in stepping.Lanes
            self._env.close()


def autoreset_mode(env: VectorEnv[Any, Any, Any], name: str) -> AutoresetMode:
    """How the env says that it resets; guessing would mix episodes or learn from rows that are no transition."""
    mode = env.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        raise ConfigError(
            f'{name} does not say in metadata["autoreset_mode"] how it resets (it is {mode!r}).\n'
            "  A wrong guess would join episodes, or learn from steps in which nothing happened.\n"
            '  Try: metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP} (or SAME_STEP, DISABLED)'
        )
    return mode


def _said_by(n: int, info: dict[str, Any]) -> dict[str, Any]:
    """The numbers that env n has in a vector's info, one level of dicts deep; `_name` says whose values there are."""
    said: dict[str, Any] = {}
    for name, values in info.items():
        if isinstance(values, dict):
            said[name] = _said_by(n, values)
        elif not name.startswith("_") and isinstance(values, np.ndarray) and values.ndim == 1 and n < len(values):
            told = info.get(f"_{name}")
            if told is None or told[n]:
                said[name] = values[n]
    return said
