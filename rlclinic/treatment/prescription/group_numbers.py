"""The numbers of a sick group that doses are computed from: medians over its sick runs, and the settings that they had."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from statistics import median
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlclinic.config import Config, to_record
from rlclinic.diagnosis import columns
from rlclinic.diagnosis.case import Case, case_of, first_value, to_count
from rlclinic.diagnosis.signals import measures
from rlclinic.runs.history import History, dotted

_PHASES: Final = ("env", "act", "learn")
_STEPPED: Final = 8
"""Gradient steps per epoch that are assumed where the minibatch is not known."""


FEWEST_READINGS: Final = 20
"""Of a gradient's signal, before their mean is believed."""


class Chart:
    """What is known of a group, as one number each. NaN where nothing was logged."""

    def __init__(self, histories: Sequence[History], config: Config | None = None) -> None:
        cases = [case_of(history) for history in histories]
        self.cases = [case for case in cases if case.sick] or cases
        self.config = config
        known = dict(histories[0].settings) if histories else {}
        self.settings: dict[str, Any] = {**known, **(dotted(to_record(config)) if config is not None else {})}

    # ── settings ──

    def setting(self, name: str, default: Any = None) -> Any:
        """A setting by dotted name; None where it is off or unknown."""
        value = self.settings.get(name)
        return default if value is None else value

    def real(self, name: str) -> float | None:
        """A setting that is a number, or the first value of its schedule."""
        return first_value(self.setting(name))

    def count(self, name: str) -> int | None:
        return to_count(self.setting(name))

    @property
    def algo(self) -> str:
        return str(self.setting("algo.name") or (self.cases[0].algo if self.cases else "unknown"))

    @property
    def n_envs(self) -> int:
        return self.count("env.n_envs") or 1

    @property
    def rollout(self) -> int | None:
        """Transitions between two updates."""
        steps = self.count("algo.n_steps")
        return steps * self.n_envs if steps else None

    @property
    def batch_rows(self) -> int | None:
        """Rows of a minibatch, with a fraction resolved."""
        size, rollout = self.real("algo.batch_size"), self.rollout
        if not size or not rollout or size < 0:
            return None
        return max(1, round(size * rollout)) if size <= 1 else int(size)

    @property
    def updates(self) -> int:
        """Gradient steps per rollout that the settings ask for."""
        if self.algo != "ppo":
            return 1
        epochs, rollout, rows = self.count("algo.n_epochs") or 10, self.rollout, self.batch_rows
        return epochs * (max(1, rollout // rows) if rollout and rows else _STEPPED)

    @property
    def budget(self) -> int | None:
        return self.count("run.max_env_steps") or (self.cases[0].budget if self.cases else None)

    @property
    def time_limit(self) -> int | None:
        """Steps after which an episode is cut: the config's own limit, else the task's usual one."""
        return self.count("env.max_episode_steps") or self.count("spec.max_episode_steps")

    # ── what was measured ──

    def of(self, measure: Callable[[Case], float]) -> float:
        """The median over runs of a number; NaN if no run has it."""
        with np.errstate(all="ignore"):
            found = [value for case in self.cases if math.isfinite(value := float(measure(case)))]
        return median(found) if found else math.nan

    def level(self, name: str) -> float:
        """The median of a series while there was something to learn."""
        return self.of(lambda case: case.learning(name).median if case.has(name) else math.nan)

    def sentinel(self, name: str) -> float:
        return self.level(columns.sentinel(name))

    @cached_property
    def step_size(self) -> float:
        """KL of an update in units of a usual one."""
        return self.of(measures.step_size)

    @cached_property
    def step_scale(self) -> float:
        """The KL of a usual update: clip_range² / 2 for PPO."""
        return self.of(measures.step_scale)

    @cached_property
    def kl(self) -> float:
        """KL of an update in the first half of the run."""
        return self.step_size * self.step_scale

    @cached_property
    def early_kl(self) -> float:
        """KL of an update in the first tenth of the run."""
        return self.of(lambda case: _part(case, 0.0, 0.1))

    @cached_property
    def later_kl(self) -> float:
        """KL of an update after the first tenth of the run."""
        return self.of(lambda case: _part(case, 0.1, 1.0))

    @cached_property
    def rate(self) -> float | None:
        """The learning rate that was applied (median), else the setting's first value."""
        applied = self.of(lambda case: case.number("learning_rate") or math.nan)
        return applied if applied == applied else self.real("algo.learning_rate")

    @cached_property
    def entropy_share(self) -> float:
        """Entropy as a share of its maximum over the later part; NaN for continuous actions."""
        return self.of(lambda case: measures.relative_entropy(case).share(0.6).median if len(measures.relative_entropy(case)) else math.nan)

    @cached_property
    def noise_rows(self) -> float:
        """Rows at which the policy's gradient is half signal and half noise (arXiv:1812.06162); infinite without signal, NaN if unknown.

        Of means over all readings of all sick runs: a single reading is mostly chance. The signal is taken a standard error above its
        mean, because too large a batch costs more than too small a one.
        """
        signal, noise = (self._readings(name) for name in ("grad_signal", "grad_noise"))
        if len(signal) < FEWEST_READINGS or not len(noise):
            return math.nan
        seen = float(signal.mean() + signal.std() / math.sqrt(len(signal)))
        return max(float(noise.mean()), 0.0) / seen if seen > 0 else math.inf

    def _readings(self, name: str) -> NDArray[np.float64]:
        """What all runs logged of a sentinel, reading by reading."""
        known = [case.history.series.get(columns.sentinel(name)) for case in self.cases]
        values = np.concatenate([np.empty(0), *(series.values for series in known if series is not None)])
        return np.asarray(values[np.isfinite(values)], dtype=np.float64)

    @cached_property
    def continuous(self) -> bool:
        return any(measures.is_continuous(case) for case in self.cases)

    @cached_property
    def targets(self) -> float:
        """Size of the critic's targets."""
        return self.of(lambda case: measures.target_size(case).median if len(measures.target_size(case)) else math.nan)

    @cached_property
    def episode_length(self) -> float:
        """The longest that episodes got on average: a bad policy may end them early."""
        name = "train/roll/ep_len_mean"
        return self.of(lambda case: case.signal(name).top if case.has(name) else math.nan)

    @cached_property
    def task_length(self) -> float:
        """Steps that an episode may last: the time limit where it is known, else the longest that was seen."""
        return float(self.time_limit) if self.time_limit else self.episode_length

    @cached_property
    def rare_reward(self) -> bool:
        """Whether a few rewards are far larger than the others: a goal that pays, a crash that costs."""
        largest = self.of(lambda case: case.sentinel("reward_max").top if len(case.sentinel("reward_max")) else math.nan)
        return largest > 10 * max(self.sentinel("reward_std"), abs(self.sentinel("reward_mean")), 1e-9)

    @cached_property
    def late_reward(self) -> bool:
        """Whether most steps say nothing about the task: rewards are rare, or the same at every step."""
        rare, spread, size = self.sentinel("reward_nonzero"), self.sentinel("reward_std"), abs(self.sentinel("reward_mean"))
        if rare == rare and rare < 0.2:
            return True
        return spread == spread and size == size and spread < 0.05 * size

    def share_of_time(self, *phases: str) -> float:
        """What stepping, acting or learning takes of the three together."""

        def share(case: Case) -> float:
            spent = {phase: case.history.series.get(f"time/{phase}") for phase in _PHASES}
            seconds = {phase: float(np.sum(series.values)) for phase, series in spent.items() if series is not None and len(series)}
            total = sum(seconds.values())
            return sum(seconds.get(phase, 0.0) for phase in phases) / total if total > 0 else math.nan

        return self.of(share)


def _part(case: Case, begin: float, end: float) -> float:
    """The median KL over a share of the budget."""
    series = case.history.series.get(columns.KL)
    if series is None or not len(series):
        return math.nan
    whole = float(case.budget or series.steps[-1])
    inside = series.values[(series.steps > begin * whole) & (series.steps <= end * whole) & np.isfinite(series.values)]
    return float(np.median(inside)) if len(inside) else math.nan
