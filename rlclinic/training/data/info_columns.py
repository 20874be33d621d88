"""What an environment says of itself in `info`: terms of its reward and numbers that the user asked for, as columns of metrics.csv.

`train/terms/NAME/return` is what a term of `info["reward_terms"]` added up to in an episode, `train/terms/NAME/share` its share of the
sizes of all terms; `train/info/NAME/mean` and `train/info/NAME/last` are the mean of a number (`env.log_info`) over an episode and its
value at the end. All are means over a member's last episodes. Free of torch: workers count here, too.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from rlclinic import trust
from rlclinic.actions import Change
from rlclinic.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlclinic.config import Config, EnvConfig

Told = TypeVar("Told")
TERMS: Final = "reward_terms"
COST: Final = "cost"
TERM: Final = "term."
BEYOND: Final = "train/terms_beyond/advantage"
"""What is learned from beside the terms' own advantages."""
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
    """The columns of the terms' advantages, and of what is learned beside them."""
    if not config.env.term_advantages:
        return []
    names = [name.removeprefix(TERM) for name in list_step_numbers(config) if name.startswith(TERM)]
    return [*(f"train/terms/{name}/advantage" for name in names), *((BEYOND,) if names else ())]


def read_step(info: dict[str, Any], names: Sequence[str], row: np.ndarray) -> bool:
    """The numbers of one step into row [K]; False if its cost is not among what the environment said."""
    terms, known = info.get(TERMS), True
    for k, name in enumerate(names):
        if name == COST:
            cost, parts = info.get("cost"), info.get("costs")
            if cost is None and isinstance(parts, dict):
                cost = sum(read_term(part) for part in parts.values())
            known = cost is not None
            row[k] = read_term(cost)
        else:
            row[k] = np.nan_to_num(read_term(terms.get(name.removeprefix(TERM)))) if isinstance(terms, dict) else 0.0
    return known


def check_told(env: Told, settings: EnvConfig) -> Told:
    """The environment, if it can tell what is asked of every step; else ConfigError."""
    if settings.step_info and tuple(getattr(env, "step_info", ())) != settings.step_info:
        setting = "cost" if settings.step_info[0] == COST else "env.term_advantages"
        raise ConfigError(
            f"{setting} is set, but {settings.id} is stepped in a way that tells nothing of each step but its reward.\n"
            "  There is no cost and no term to learn from.\n  Try: ",
            Change(setting, None if setting == "cost" else False),
            ", or an environment of your own that returns it in info",
        )
    return env


def find_terms(config: EnvConfig, factory: Callable[..., Any] | None) -> tuple[str, ...]:
    """The terms of the reward that an environment of the user's own reports, seen in a few random steps of a copy of its own."""
    if factory is None and not trust.names_code(config.id):
        return ()
    if factory is not None and not isinstance(factory, type):
        # A function may count its calls, or start something that there is only one of: it is not called once more than copies are needed.
        return ()
    import gymnasium  # natively stepped environments need not wait for it

    from rlclinic.training.envs import making

    if factory is not None and not issubclass(factory, gymnasium.Env):
        return ()  # a vector environment; what is none at all, training's own copies say
    before = random.getstate(), np.random.get_state()  # noqa: NPY002 — an environment may draw from the generators that all share
    try:
        env = making.make_single(config, factory)
    except Exception:  # noqa: BLE001 — training's own copies say what is wrong, where it matters
        return ()
    else:
        try:
            return _look_for_terms(env)
        except ConfigError:
            raise
        except Exception:  # noqa: BLE001 — the same
            return ()
        finally:
            making.close(env)
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
            _check_shapes(terms)
            names |= {
                str(name): None for name, value in terms.items() if _NAME.fullmatch(str(name)) and read_term(value) == read_term(value)
            }
        if terminated or truncated:
            env.reset()
    return tuple(names)[:MOST_TERMS]


def _check_shapes(terms: dict[str, Any]) -> None:
    """ConfigError for a term that is several numbers: its column would be empty, and nobody would know why. Words are left out."""
    for name, value in terms.items():
        if isinstance(value, np.ndarray | list | tuple) and np.size(value) != 1:
            raise ConfigError(
                f'info["reward_terms"]: {name} is of shape {np.shape(value)}, where one number is needed.\n'
                "  What it pays could not be logged, and the terms would not sum to the reward.\n"
                "  Mend it: a number for each step, or a term for each part"
            )


def read_term(value: Any) -> float:
    """The number that a term is; NaN for what is none."""
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "fiub":
        return float(value.reshape(()))
    return float(value) if isinstance(value, bool | int | float | np.bool_ | np.number) else np.nan


def _find(info: dict[str, Any], name: str) -> Any:
    """What `info` says under a name, or, with a dot, under a name inside of another: costs.crash."""
    holder, _, inner = name.partition(".")
    inside = info.get(holder) if inner and name not in info else None
    return inside.get(inner) if isinstance(inside, dict) else info.get(name)


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
            values = np.nan_to_num([read_term(reported.get(name)) for name in self._terms])
            self._sums[n] += values
            self._sizes[n] += np.abs(values)
        if self._numbers:
            values = np.array([read_term(_find(info, name)) for name in self._numbers])
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
        self._scale = config.reward_scale  # terms are told inside of it
        self.recent = np.full((members, WINDOW, len(self.names)), np.nan)
        self.fresh: list[tuple[int, np.ndarray]] | None = None
        """Episodes that another process is to hear of, as (member, values); None: nobody is."""
        self._shown = config.log_terms or ()
        self._weights = np.ones((members, self._terms))

    def weigh(self, weights: Sequence[dict[str, float]]) -> None:
        """Members that learn from terms of other weights (`env.term_weights`): shares are of what is learned from."""
        self._weights = np.array([[abs(own.get(name, 1.0)) for name in self._shown] for own in weights]).reshape(self._weights.shape)

    def add(self, over: np.ndarray, values: np.ndarray) -> None:
        """Episodes that ended: over [M, N], values [M, N, K]."""
        for member, env in zip(*np.nonzero(over), strict=True):
            self.append(int(member), values[member, env].copy())

    def append(self, member: int, values: np.ndarray) -> None:
        """One episode of a member, [K]."""
        self.recent[member, :-1] = self.recent[member, 1:]
        self.recent[member, -1] = values
        if self.fresh is not None:
            self.fresh.append((member, values))

    def cells(self) -> dict[str, list[float | None]]:
        """Every member's cells, by column; blank where nothing was said."""
        known = np.isfinite(self.recent)
        count = known.sum(1)
        means = np.divide(np.where(known, self.recent, 0.0).sum(1), count, out=np.full(count.shape, np.nan), where=count > 0)  # [M, K]
        means[:, : self._terms] *= self._scale
        sizes = means[:, self._terms : 2 * self._terms] * self._weights
        whole = np.nansum(sizes, 1, keepdims=True)
        means[:, self._terms : 2 * self._terms] = np.divide(sizes, whole, out=np.full_like(sizes, np.nan), where=whole > 0)
        return {name: [None if value != value else float(value) for value in means[:, k]] for k, name in enumerate(self.names)}
