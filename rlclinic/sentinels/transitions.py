"""Transitions of any framework, step by step, as our columns: what the callbacks for RLlib, Tianshou, skrl and TorchRL are made of.

It only looks: arrays are copied as they pass, no random number is drawn, and the networks are only compared with themselves.
"""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from rlclinic.sentinels import readings
from rlclinic.sentinels.readings import Array
from rlclinic.stats import variance_shares

EVERY: Final = 1_000
"""Env steps in a row."""


class Transitions:
    """A stretch of transitions of N envs, and what it shows.

    action_space and observation_space: those of one env (Gymnasium's, or anything with their attributes), for the shares of
    actions and the bounds; parameters: the network's, for how far it moves between two rows. in_time: what is added is not a step of
    N envs but the steps of one env, one after the other. resets_take_a_step: the step after an end only resets, its action is ignored
    and its reward is 0 (Gymnasium's NEXT_STEP): it is no transition, and does not count.
    """

    def __init__(
        self,
        *,
        action_space: Any = None,
        observation_space: Any = None,
        parameters: Iterable[Any] = (),
        every: int = EVERY,
        in_time: bool = False,
        resets_take_a_step: bool = False,
    ) -> None:
        self._action_space, self._observation_space = action_space, observation_space
        self._parameters = list(parameters)
        self._every, self._in_time, self._resets_take_a_step = every, in_time, resets_take_a_step
        self._before: Array | None = None
        self._weights: Any = None
        self.env_steps = 0
        self._clear()

    def _clear(self) -> None:
        self._steps: list[tuple[Array, ...]] = []
        self._taken = 0

    def add(self, obs: Any, actions: Any, rewards: Any, terminated: Any, truncated: Any) -> dict[str, float] | None:
        """One step of all envs, leading axis N. A row of columns where a stretch is full, else None."""
        paid = to_array(rewards)
        count = paid.size
        # Copied: frameworks write the next step into the same memory.
        tables = tuple(to_array(part).reshape(count, -1).copy() for part in (obs, actions))
        columns = tuple(to_array(part).reshape(count).copy() for part in (paid, terminated, truncated))
        valid = np.ones(count, dtype=bool)
        if self._resets_take_a_step:
            valid = valid if self._before is None else ~self._before
            self._before = (columns[1].astype(bool) | columns[2].astype(bool)) & valid
        self._steps.append((*tables, *columns, valid))
        self._taken += count
        self.env_steps += count
        return self.take_row() if self._taken >= self._every else None

    def take_row(self) -> dict[str, float]:
        """What was added since the last row, by the full names of our columns; {} if nothing was."""
        if not self._steps:
            return {}
        found: dict[str, float] = {}
        obs, actions, rewards, terminated, truncated, valid = (np.concatenate([step[part] for step in self._steps]) for part in range(6))
        found |= readings.measure_rewards(rewards[valid])
        if obs.size and np.issubdtype(obs.dtype, np.number):
            stride = readings.choose_stride(obs.size)
            found |= readings.measure_observations(obs[valid][::stride].astype(np.float64), *_find_bounds(self._observation_space))
            ended = terminated.astype(bool) | truncated.astype(bool)
            sizes = [step[2].size for step in self._steps]
            if self._in_time:
                begins = np.zeros(len(ended), dtype=bool)
                begins[np.cumsum([0, *sizes[:-1]])] = True
                begins[1:] |= ended[:-1]
                found |= readings.measure_repeated_observations(obs[:, None], begins[:, None])
                # Parts of episodes that were cut off where they were handed over: what follows is not their next step.
                ended = np.append(begins[1:], True)
                found |= self._measure_environment(*(part[:, None] for part in (obs, actions, rewards, ended, terminated, valid)))
            elif len(set(sizes)) == 1:
                shape = (len(sizes), sizes[0])
                table = ended.reshape(shape)
                begins = np.concatenate([np.zeros((1, sizes[0]), dtype=bool), (table | ~valid.reshape(shape))[:-1]])
                found |= readings.measure_repeated_observations(obs.reshape(*shape, -1), begins)
                grids = [part.reshape(*shape, *part.shape[1:]) for part in (obs, actions, rewards, ended, terminated, valid)]
                found |= self._measure_environment(*grids)
        found |= self._measure_actions(actions[valid])
        found |= {
            "terminated": float(terminated.astype(bool).sum()),
            "truncated": float((truncated.astype(bool) & ~terminated.astype(bool)).sum()),
        }
        found |= self._measure_weights()
        self._clear()
        return readings.add_prefix(found)

    def _measure_environment(
        self, obs: Array, actions: Array, rewards: Array, ended: Array, terminated: Array, valid: Array
    ) -> dict[str, float]:
        """What the stretch [T, N, ...] says about the environment."""
        count = getattr(self._action_space, "n", None)
        if count is not None:
            actions = actions.argmax(-1) if actions.shape[-1] == count > 1 else actions[..., 0]
        table = obs[valid]
        if table.shape[1] > variance_shares.WIDEST:
            return variance_shares.measure_reward_timing(rewards, ended, terminated, valid=valid)
        choices = None if count is None else int(count)
        found = variance_shares.measure(obs, actions, rewards, ended, choices=choices, terminated=terminated, valid=valid)
        return found | variance_shares.measure_scales(table, table, *_find_bounds(self._observation_space))

    def _measure_actions(self, actions: Array) -> dict[str, float]:
        count = getattr(self._action_space, "n", None)
        if count is not None:
            taken = actions.argmax(1) if actions.shape[1] == count > 1 else actions[:, 0]  # one-hot, as TorchRL keeps them
            return readings.measure_discrete_actions(taken, int(count))
        low, high = _find_bounds(self._action_space)
        known = low is not None and high is not None and np.isfinite(low).all() and np.isfinite(high).all() and low.size == actions.shape[1]
        return readings.measure_box_actions(actions, low, high) if known else {}  # type: ignore[arg-type]

    def _measure_weights(self) -> dict[str, float]:
        if not self._parameters:
            return {}
        from rlclinic.sentinels import networks  # torch, which who has parameters has

        moved = self._weights.moved() if self._weights is not None else {}
        self._weights = networks.Weights(self._parameters)
        return moved


def _find_bounds(space: Any) -> tuple[Array | None, Array | None]:
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    return (None, None) if low is None or high is None else (to_array(low).reshape(-1), to_array(high).reshape(-1))


def to_array(value: Any) -> Array:
    """A tensor or array as an array on the CPU."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
