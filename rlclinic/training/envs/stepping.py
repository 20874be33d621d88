"""Steps a member's Gymnasium environments one after another into arrays. Free of torch: workers run this too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import gymnasium as gym
import numpy as np

from rlclinic.rewards.terms import Rewards
from rlclinic.training.data import info_columns
from rlclinic.training.data.info_columns import Tally
from rlclinic.training.envs import making, reports
from rlclinic.training.envs.reports import NotGymnasium, Reports, WrongShape
from rlclinic.training.envs.spaces import Actions, Observations

MOST_LAYERS: Final = 50


@dataclass
class Rows:
    """Where a step's results go; every array has one row per env of one member (or [M, N] rows for all members)."""

    next_obs: np.ndarray
    obs: np.ndarray
    """Written only where an episode ended: the next one's first observation."""
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    success: np.ndarray
    """Written only where an episode ended."""
    valid: np.ndarray
    mask: np.ndarray | None = None
    goes_on: np.ndarray | None = None
    final_mask: np.ndarray | None = None
    """Where an episode ended: the actions allowed in its final observation, all where nobody tells them."""
    info: np.ndarray | None = None
    """Where an episode ended: what it said of itself, a number for each of `info_columns.columns`."""
    said: np.ndarray | None = None
    """What training reads of every step's info, a number for each of `EnvConfig.step_info`."""

    def blank(self) -> None:
        """Ready for the next step: nothing ended, nothing reported."""
        for array in (self.reward, self.terminated, self.truncated):
            array[...] = 0
        self.success[...] = np.nan
        self.valid[...] = True
        if self.said is not None:
            self.said[...] = 0

    def clear(self) -> None:
        """A failed member's rows: zeros, and every action allowed."""
        self.blank()
        self.next_obs[...] = 0
        self.obs[...] = 0
        if self.mask is not None:
            self.mask[...] = True
        if self.final_mask is not None:
            self.final_mask[...] = True

    def of(self, place: Any) -> Rows:
        """The same arrays, one member's rows (views)."""
        optional = (self.mask, self.goes_on, self.final_mask, self.info, self.said)
        mask, goes_on, final_mask, info, said = (None if each is None else each[place] for each in optional)
        return Rows(
            self.next_obs[place],
            self.obs[place],
            self.reward[place],
            self.terminated[place],
            self.truncated[place],
            self.success[place],
            self.valid[place],
            mask,
            goes_on,
            final_mask,
            info,
            said,
        )


class Stepper(Protocol):
    """A member's envs, however they are stepped. Any call may raise EnvironmentFailed; the member is then not used again."""

    report: Reports
    """Where it is: the step, and the env that is being stepped."""

    def reset(self, seeds: list[int], rows: Rows) -> None:
        """Start all episodes; observations go to rows.obs."""
        ...

    def step(self, action: np.ndarray, rows: Rows) -> bool:
        """One step of every env; whether rows.obs differs from rows.next_obs anywhere."""
        ...

    def set_taken(self, steps: int) -> None:
        """Weights of reward terms that go along a ramp go on as after so many steps of each env."""
        ...

    def render(self, n: int) -> Any:
        """The picture of env n, if it was made with a render_mode."""
        ...

    def close(self) -> None: ...


def set_taken(env: Any, steps: int) -> None:
    """The same for one env: in whichever of its layers a `Rewards` stands."""
    for rewards in _find_rewards(env):
        rewards.taken = steps


class Potentials(NamedTuple):
    """What of an env's reward is known to be a potential."""

    gamma: float
    """What they are discounted by."""
    names: tuple[str, ...]


def find_potentials(env: Any) -> Potentials | None:
    """The potentials of an env's reward; None where it has none."""
    return next((Potentials(rewards.gamma, tuple(rewards.potentials)) for rewards in _find_rewards(env) if rewards.potentials), None)


def _find_rewards(env: Any) -> list[Rewards]:
    """Those of an env and of what it is wrapped around; an env may hold itself."""
    found: list[Rewards] = []
    for _ in range(MOST_LAYERS):
        held = getattr(env, "__dict__", {})
        found += [value for value in held.values() if isinstance(value, Rewards)]
        env = held.get("env")
    return found


class Lanes:
    """A Stepper: single envs, one after another, each with its own time limit."""

    def __init__(
        self,
        envs: list[gym.Env[Any, Any]],
        name: str,
        observations: Observations,
        actions: Actions,
        masked: bool,
        once: bool,
        first: int = 0,
        tally: Tally | None = None,
        reads: Sequence[str] = (),
    ) -> None:
        peeled = [making.peel(env) for env in envs]
        self._envs = envs
        self._inner = [env for env, _ in peeled]
        self._limits = [limit for _, limit in peeled]
        self._spaces = [env.action_space for env in self._inner]
        self.report = Reports(name, first)
        self._write = observations.write
        self._decode = actions.decode
        self._masked = masked
        # Evaluation counts one episode per env: playing a second one would only take time.
        self._once = once
        self._elapsed = [0] * len(envs)
        self._resting = [False] * len(envs)
        self._tally, self._reads = tally, reads

    def reset(self, seeds: list[int], rows: Rows) -> None:
        self.report.steps = 0
        with self.report.during("reset"):
            for n, seed in enumerate(seeds):
                self.report.at = n
                self._restart(n, rows, seed)

    def step(self, action: np.ndarray, rows: Rows) -> bool:
        self.report.steps += 1
        with self.report.during("step"):
            ended = self._step(action, rows)
        self.report.check("observation", rows.next_obs)
        self.report.check("reward", rows.reward)
        if rows.said is not None:
            self.report.check("cost or term", rows.said)
        return ended

    def _step(self, action: np.ndarray, rows: Rows) -> bool:
        next_obs, reward_rows, write, masked = rows.next_obs, rows.reward, self._write, self._masked
        shape = next_obs.shape[1:]
        elapsed, limits, resting, tally = self._elapsed, self._limits, self._resting, self._tally
        report, ended = self.report, False
        for n, (env, act) in enumerate(zip(self._inner, self._decode(action), strict=True)):
            if resting[n]:
                next_obs[n] = rows.obs[n]
                rows.valid[n] = False
                continue
            report.at = n
            given = env.step(act)
            try:
                obs, reward, terminated, truncated, info = given
            except (TypeError, ValueError):
                reports.check_parts("step()", given, "obs, reward, terminated, truncated, info")
                raise
            if write is not None:
                write(next_obs[n], obs)
            elif np.shape(obs) == shape:
                next_obs[n] = obs
            else:
                raise WrongShape(np.shape(obs), shape)
            try:
                reward_rows[n] = reward
            except (TypeError, ValueError):
                raise NotGymnasium(f"reward = {reward!r} from step(), which must be a number") from None
            elapsed[n] += 1
            if tally is not None:
                tally.add(n, info)
            if rows.said is not None and not info_columns.read_step(info, self._reads, rows.said[n]):
                raise report.no_cost(n)
            limit = limits[n]
            if limit is not None and elapsed[n] >= limit:
                truncated = True
            try:
                over = bool(terminated or truncated)
            except ValueError:  # several flags in an array
                reports.check_end(terminated, truncated, info)
                raise
            if over:
                reports.check_end(terminated, truncated, info)
                ended = True
                rows.terminated[n], rows.truncated[n] = terminated, truncated
                rows.success[n] = _success(info)
                if tally is not None and rows.info is not None:
                    tally.finish(n, rows.info[n])
                if rows.final_mask is not None:
                    rows.final_mask[n] = True
                    if info.get("action_mask") is not None:
                        self._write_mask(n, rows.final_mask, info["action_mask"])
                if self._once:
                    resting[n] = True
                    rows.obs[n] = next_obs[n]
                else:
                    self._restart(n, rows, None)
            elif masked:
                self._mask(n, rows, info)
        return ended

    def _restart(self, n: int, rows: Rows, seed: int | None) -> None:
        given = self._inner[n].reset(seed=seed)
        reports.check_parts("reset()", given, "obs, info")
        obs, info = given
        if (space := self._inner[n].action_space) is not self._spaces[n] and space != self._spaces[n]:
            raise NotGymnasium(f"{space} as its action_space, which was {self._spaces[n]} when training began and must stay")
        self._elapsed[n], self._resting[n] = 0, False
        if self._tally is not None:
            self._tally.start(n)
        if self._write is not None:
            self._write(rows.obs[n], obs)
        elif np.shape(obs) == rows.obs.shape[1:]:
            rows.obs[n] = obs
        else:
            raise WrongShape(np.shape(obs), rows.obs.shape[1:])
        if not np.isfinite(rows.obs[n]).all():
            raise self.report.not_finite("observation of reset()", n, rows.obs[n])
        if self._masked:
            self._mask(n, rows, info)

    def _mask(self, n: int, rows: Rows, info: dict[str, Any]) -> None:
        mask = info.get("action_mask")
        if mask is None:
            raise self.report.no_mask(n)
        assert rows.mask is not None
        self._write_mask(n, rows.mask, mask)

    def _write_mask(self, n: int, masks: np.ndarray, mask: Any) -> None:
        flat = np.concatenate([np.ravel(part) for part in mask]) if isinstance(mask, tuple) else np.ravel(mask)
        if flat.shape != masks.shape[1:]:
            raise WrongShape(flat.shape, masks.shape[1:], "an action mask", "its action_space has the shape")
        masks[n] = flat

    def set_taken(self, steps: int) -> None:
        for env in self._envs:
            set_taken(env, steps)

    def render(self, n: int) -> Any:
        return self._envs[n].render()

    def close(self) -> None:
        for env in self._envs:
            making.close(env)


def _success(info: dict[str, Any]) -> float:
    value = info.get("is_success", info.get("success"))
    # An env may keep something else under this name, a text or a count, which is no report of ours to read.
    return float(value) if isinstance(value, bool | int | float | np.bool_ | np.number) and 0 <= value <= 1 else np.nan
