"""What an environment says of itself in `info`: terms of its reward and numbers that the user asked for, as columns of metrics.csv.

`train/terms/NAME/return` is what a term of `info["reward_terms"]` added up to in an episode, `train/terms/NAME/share` its share of the
sizes of all terms; `train/info/NAME/mean` and `train/info/NAME/last` are the mean of a number (`env.log_info`) over an episode and its
value at the end. All are means over a member's last episodes. Free of torch: workers count here, too.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rlclinic import trust

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlclinic.config import Config, EnvConfig

TERMS: Final = "reward_terms"
COST: Final = "cost"
TERM: Final = "term."
WINDOW: Final = 100
MOST_TERMS: Final = 16
LOOKED_STEPS: Final = 20
_NAME: Final = re.compile(r"[\w.+-]{1,40}")


def columns(config: EnvConfig) -> list[str]:
    """The columns of a run's metrics.csv."""
    terms = [f"train/terms/{name}/{what}" for what in ("return", "share") for name in config.log_terms or ()]
    return terms + [f"train/info/{name}/{what}" for what in ("mean", "last") for name in config.log_info]


def list_step_numbers(config: Config) -> tuple[str, ...]:
    """What training reads of every step's info: the cost where there is a limit, and the terms whose advantages are asked for."""
    asked = config.env.log_terms or () if config.env.term_advantages and config.algo.loop == "on_policy" else ()
    terms = dict.fromkeys([*asked, *sorted(config.env.term_weights)])
    return ((COST,) if config.cost is not None else ()) + tuple(TERM + name for name in terms)


def list_term_advantages(config: Config) -> list[str]:
    """The columns of the terms' advantages."""
    if not config.env.term_advantages:
        return []
    return [f"train/terms/{name.removeprefix(TERM)}/advantage" for name in list_step_numbers(config) if name.startswith(TERM)]


def read_step(info: dict[str, Any], names: Sequence[str], row: np.ndarray) -> bool:
    """The numbers of one step into row [K]; False if its cost is not among what the environment said."""
    terms, known = info.get(TERMS), True
    for k, name in enumerate(names):
        if name == COST:
            cost, parts = info.get("cost"), info.get("costs")
            if cost is None and isinstance(parts, dict):
                cost = sum(_number(part) for part in parts.values())
            known = cost is not None
            row[k] = _number(cost)
        else:
            row[k] = np.nan_to_num(_number(terms.get(name.removeprefix(TERM)))) if isinstance(terms, dict) else 0.0
    return known


def find_terms(config: EnvConfig, factory: Callable[..., Any] | None) -> tuple[str, ...]:
    """The terms of the reward that an environment of the user's own reports, seen in a few random steps of a copy of its own."""
    if factory is None and not trust.names_code(config.id):
        return ()
    if factory is not None and not isinstance(factory, type):
        # A function may count its calls, or start something that there is only one of: it is not called once more than copies are needed.
        return ()
    from rlclinic.training.envs import making  # natively stepped environments need not wait for Gymnasium

    before = random.getstate(), np.random.get_state()  # noqa: NPY002 — an environment may draw from the generators that all share
    try:
        env = making.make_single(config, factory)
        try:
            return _look_for_terms(env)
        finally:
            env.close()
    except Exception:  # noqa: BLE001 — training's own copies say what is wrong, where it matters
        return ()
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002


def _look_for_terms(env: Any) -> tuple[str, ...]:
    names: dict[str, None] = {}
    env.action_space.seed(0)
    env.reset(seed=0)
    for _ in range(LOOKED_STEPS):
        _, _, terminated, truncated, info = env.step(env.action_space.sample())
        terms = info.get(TERMS)
        if isinstance(terms, dict):
            names |= {str(name): None for name, value in terms.items() if _NAME.fullmatch(str(name)) and _number(value) == _number(value)}
        if terminated or truncated:
            env.reset()
    return tuple(names)[:MOST_TERMS]


def _number(value: Any) -> float:
    return float(value) if isinstance(value, bool | int | float | np.bool_ | np.number) else np.nan


class Tally:
    """What the environments of one member have said since their episodes began. The values of an episode are [K]: sums of the terms,
    sums of their sizes, means of the numbers, their last values."""

    def __init__(self, config: EnvConfig, n_envs: int) -> None:
        self._terms, self._numbers = config.log_terms or (), config.log_info
        self._sums = np.zeros((n_envs, len(self._terms)))
        self._sizes = np.zeros_like(self._sums)
        self._totals = np.zeros((n_envs, len(self._numbers)))
        self._counts = np.zeros_like(self._totals)
        self._last = np.full_like(self._totals, np.nan)

    def start(self, n: int) -> None:
        """A new episode of env n."""
        for array in (self._sums, self._sizes, self._totals, self._counts):
            array[n] = 0.0
        self._last[n] = np.nan

    def add(self, n: int, info: dict[str, Any]) -> None:
        """One step of env n."""
        reported = info.get(TERMS)
        if self._terms and isinstance(reported, dict):
            values = np.nan_to_num([_number(reported.get(name)) for name in self._terms])
            self._sums[n] += values
            self._sizes[n] += np.abs(values)
        if self._numbers:
            values = np.array([_number(info.get(name)) for name in self._numbers])
            known = np.isfinite(values)
            self._totals[n][known] += values[known]
            self._counts[n][known] += 1
            self._last[n][known] = values[known]

    def finish(self, n: int, row: np.ndarray) -> None:
        """The values of the episode of env n, which ends, into row [K]."""
        mean = np.divide(self._totals[n], self._counts[n], out=np.full_like(self._totals[n], np.nan), where=self._counts[n] > 0)
        row[:] = np.concatenate([self._sums[n], self._sizes[n], mean, self._last[n]])
        self.start(n)


class Window:
    """The values of the last episodes of every member, [M, WINDOW, K], the newest last; rows without a number are empty."""

    def __init__(self, config: EnvConfig, members: int) -> None:
        self.names = columns(config)
        self._terms = len(config.log_terms or ())
        self.recent = np.full((members, WINDOW, len(self.names)), np.nan)

    def add(self, over: np.ndarray, values: np.ndarray) -> None:
        """Episodes that ended: over [M, N], values [M, N, K]."""
        for member, env in zip(*np.nonzero(over), strict=True):
            self.recent[member, :-1] = self.recent[member, 1:]
            self.recent[member, -1] = values[member, env]

    def cells(self) -> dict[str, list[float | None]]:
        """Every member's cells, by column; blank where nothing was said."""
        known = np.isfinite(self.recent)
        count = known.sum(1)
        means = np.divide(np.where(known, self.recent, 0.0).sum(1), count, out=np.full(count.shape, np.nan), where=count > 0)  # [M, K]
        sizes = means[:, self._terms : 2 * self._terms]
        whole = np.nansum(sizes, 1, keepdims=True)
        means[:, self._terms : 2 * self._terms] = np.divide(sizes, whole, out=np.full_like(sizes, np.nan), where=whole > 0)
        return {name: [None if value != value else float(value) for value in means[:, k]] for k, name in enumerate(self.names)}
