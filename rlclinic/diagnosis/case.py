"""One run as the rules see it: resampled series, settings, and how far it got."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
from pydantic import ValidationError

from rlclinic.config.algorithms import ALGORITHMS
from rlclinic.config.schedule import Schedule, value_at
from rlclinic.diagnosis import columns
from rlclinic.diagnosis.signals import detect
from rlclinic.diagnosis.signals.detect import Signal
from rlclinic.runs import outcome
from rlclinic.runs.history import History

_EMPTY: Final = np.empty(0)
EARLY: Final = 0.2
"""Before this share of its budget a run may still do anything; see Case.first_part for those with a replay."""
NEAR: Final = 0.1
"""Share of the way to the threshold that noise can explain; what is missing beyond that is lost, however noisy."""
NEARLY: Final = 0.95
"""From this share on, it has as good as ended."""

Standing = Literal["solved", "lost", "learning", "collapsed", "plateau", "stuck", "failed", "early", "unknown"]
"""solved: at or above the threshold at the end, but for noise · lost: was there, and fell below again · learning: below it, still rising ·
collapsed: fell from its best · plateau: got better, then stopped · stuck: never got better · failed: ended by an error ·
early: too little was trained to tell · unknown: no return was logged."""
SICK: Final = frozenset({"lost", "learning", "collapsed", "plateau", "stuck", "failed"})


@dataclass(frozen=True)
class Progress:
    """How far a run got, on its evaluation returns (training returns where it has none)."""

    source: str
    """"evaluation" or "training"."""
    start: float
    """The level before learning: the first training returns where there are some, the policy is random then."""
    best: float
    best_at: float
    last: float
    """Median of the last part."""
    gain: float
    """Best smoothed level minus start."""
    noise: float
    """Point-to-point deviation."""
    share: float | None
    """Of the way from start to threshold, what the last level has covered; None without a threshold."""


class Case:
    """A run under examination. Every property is computed once, from the history alone."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._signals: dict[str, Signal] = {}
        self._learning: dict[str, Signal] = {}

    @property
    def id(self) -> str:
        return self.history.id

    @property
    def algo(self) -> str:
        return self.history.algo or "unknown"

    @property
    def knows_algorithm(self) -> bool:
        """Whether rules know how its algorithm works; one that the log does not name is not known to be unknown."""
        return self.history.algo is None or self.algo in ALGORITHMS or self.algo in columns.OFF_POLICY

    @property
    def ours(self) -> bool:
        """Written by rlclinic: a column that is missing does not apply, it was not forgotten."""
        return self.history.source == "rlclinic"

    @property
    def has_ranks(self) -> bool:
        """Whether several processes took part in this run, and said so: ranks, or actors."""
        logged = any("/ranks_" in name or "/actors_" in name for name in self.history.series)
        return logged or self.setting("run.data_parallel", 1) != 1

    # ── series ──

    def signal(self, name: str) -> Signal:
        """A series on at most 256 points; empty if it was not logged."""
        if name not in self._signals:
            series = self.history.series.get(name)
            self._signals[name] = (
                Signal(_EMPTY, _EMPTY, _EMPTY, _EMPTY, name) if series is None else detect.resample(series.steps, series.values, name)
            )
        return self._signals[name]

    def sentinel(self, name: str) -> Signal:
        return self.signal(columns.sentinel(name))

    def has(self, name: str) -> bool:
        series = self.history.series.get(name)
        return series is not None and len(series.values) > 0

    def learning(self, name: str) -> Signal:
        """The part of a series in which the run had something to learn: after the first twentieth, and before it was solved.

        Metrics of a solved run mean little: targets hardly vary, updates polish. A run that was never solved gives all of it.
        """
        if name not in self._learning:
            signal = self.signal(name)
            part = self.while_learning(signal)
            self._learning[name] = part if len(part) >= 3 else signal
        return self._learning[name]

    def while_learning(self, signal: Signal) -> Signal:
        """The points of a signal after the first twentieth of the run and before it was solved."""
        return signal.between(self.span[0] + 0.05 * (self.span[1] - self.span[0]), math.inf if self.solved_at is None else self.solved_at)

    # ── settings ──

    def setting(self, name: str, default: Any = None) -> Any:
        """A setting by dotted name, as the source wrote it; a schedule is a mapping."""
        value = self.history.settings.get(name)
        return default if value is None else value

    @property
    def continues(self) -> bool:
        """Whether it began with the policy of another run: its first rows say nothing about a beginning."""
        return bool(self.setting("about.start"))

    def real(self, name: str) -> float | None:
        """A setting that is a number, or the first value of its schedule; None for anything else."""
        return first_value(self.setting(name))

    def count(self, name: str) -> int | None:
        """A setting that is a whole number of at least 1; None for anything else."""
        return to_count(self.setting(name))

    @property
    def time_limit(self) -> int | None:
        """Steps after which an episode is cut: the config's own limit, else the task's usual one."""
        return self.count("env.max_episode_steps") or self.count("spec.max_episode_steps")

    def number(self, name: str) -> float | None:
        """A number of the algorithm ("learning_rate"): the median of what was applied, else the setting's first value."""
        logged = self.signal(columns.applied(name))
        if len(logged):
            return logged.median
        return self.real(f"algo.{name}")

    def planned(self, name: str, at: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]] | None:
        """The values that a setting's schedule asks for at env steps; None if unknown or steered by the run itself."""
        value, budget = self.setting(f"algo.{name}"), self.budget
        if isinstance(value, Mapping):
            if budget is None or value.get("schedule") == "kl_adaptive":
                return None
            try:
                schedule = Schedule.model_validate(dict(value))
            except ValidationError:
                # Another framework's idea of a schedule.
                return None
            return np.array([value_at(schedule, step, budget) for step in at])
        fixed = first_value(value)
        return None if fixed is None else np.full(len(at), fixed)

    def default(self, name: str) -> Any:
        """The default of an algorithm's setting in our schema: what is usual."""
        kind = ALGORITHMS.get(self.algo, ALGORITHMS["ppo"])
        field = kind.model_fields.get(name)
        return None if field is None else field.default

    @cached_property
    def rollout(self) -> int | None:
        """Transitions between two updates."""
        envs, steps = self.count("env.n_envs"), self.count("algo.n_steps")
        return envs * steps if envs and steps else None

    @cached_property
    def planned_updates(self) -> int | None:
        """Gradient steps per rollout that the config asks for."""
        if self.rollout is None:
            return None
        batch, epochs = self.real("algo.batch_size"), self.count("algo.n_epochs")
        if self.algo != "ppo":
            return 1
        if not batch or batch < 0 or not epochs:
            return None
        rows = max(1, round(batch * self.rollout)) if batch <= 1 else int(batch)
        return epochs * max(1, self.rollout // rows)

    # ── how far it got ──

    @property
    def budget(self) -> int | None:
        return self.history.max_env_steps

    @cached_property
    def span(self) -> tuple[float, float]:
        """First and last env step of anything that was logged."""
        ends = [(float(s.steps[0]), float(s.steps[-1])) for s in self.history.series.values() if len(s.steps)]
        return (min(first for first, _ in ends), max(last for _, last in ends)) if ends else (0.0, 0.0)

    @property
    def trained(self) -> float:
        """Env steps taken."""
        return float(self.history.env_steps or self.span[1])

    @property
    def threshold(self) -> float | None:
        return self.history.threshold

    @cached_property
    def solved_at(self) -> float | None:
        """Env step of the first evaluation at or above the threshold; of the first training return, where it has no evaluation.

        This says where a run had nothing left to learn. Whether it counts for the verdict: `rlclinic.runs.outcome`.
        """
        return self._outcome.reached_at

    @property
    def required_success(self) -> float | None:
        """The share of episodes that must succeed; None where nothing is required: see `rlclinic.runs.goal`."""
        return self._outcome.required_success

    @property
    def lost(self) -> bool:
        """Whether the verdict on it is that it reached the threshold and lost it; `standing` asks whether that takes a cause."""
        return self._outcome.lost

    @cached_property
    def _outcome(self) -> outcome.Outcome:
        source: outcome.ReturnSource = "evaluation" if self.has(columns.EVAL_RETURN) else "training"
        return outcome.measure_log(self.history, self.history.goal, source)

    @cached_property
    def returns(self) -> Signal:
        """Evaluation returns where there are at least three, else training returns."""
        judged = self.signal(columns.EVAL_RETURN)
        return judged if len(judged) >= 3 or self.algo in columns.OFFLINE else self.signal(columns.RETURN)

    @property
    def ended_at(self) -> float:
        """The return that it ended with, by its last evaluation if it has any; NaN without a return."""
        judged = self.signal(columns.EVAL_RETURN)
        return float(judged.last if len(judged) else self.returns.last)

    @cached_property
    def progress(self) -> Progress | None:
        """None if no return was logged."""
        judged, trained = self.returns, self.signal(columns.RETURN)
        if not len(judged):
            return None
        head = trained if len(trained) >= 3 else judged
        start = detect.median(head.values[: max(1, min(5, len(head) // 8))])
        smooth = detect.smoothed(judged.values, max(3, len(judged) // 12) if len(judged) >= 6 else 1)
        top = int(np.argmax(smooth))
        last = detect.median(judged.values[-max(1, min(5, len(judged) // 5)) :])
        way = None if self.threshold is None else self.threshold - start
        return Progress(
            source="evaluation" if judged.name == columns.EVAL_RETURN else "training",
            start=start,
            best=float(judged.values.max()),
            best_at=float(judged.steps[int(np.argmax(judged.values))]),
            last=last,
            gain=float(smooth[top]) - start,
            noise=max(detect.noise(judged.values), detect.noise(trained.values) if len(trained) else 0.0),
            share=None if not way or way <= 0 else (last - start) / way,
        )

    @cached_property
    def improved(self) -> bool:
        """Whether training returns rose by more than chance, and by more than a twentieth of the way to the threshold."""
        trained = self.signal(columns.RETURN) if len(self.signal(columns.RETURN)) >= detect.SHORTEST else self.returns
        if len(trained) < 4 or self.progress is None:
            return False
        smooth = detect.smoothed(trained.values, max(3, len(trained) // 12))
        gain = float(smooth.max() - self.progress.start)
        least = max(2 * detect.noise(trained.values), 0.0 if self.threshold is None else 0.05 * abs(self.threshold - self.progress.start))
        return gain > least and (gain > 0.1 * abs(self.progress.start) or self.threshold is not None)

    @cached_property
    def standing(self) -> Standing:
        """Where the run stands; see Standing."""
        progress = self.progress
        if self.history.state == "failed":
            return "failed"
        if progress is None:
            return "unknown"
        if self.solved_at is not None and self.threshold is None:
            # By success alone.
            return "lost" if self._outcome.lost else "solved"
        if self.solved_at is not None and self.threshold is not None:
            # Evaluations of a few episodes scatter: what ends within two deviations of the threshold has not lost it.
            scatter = min(2 * progress.noise, NEAR * (self.threshold - progress.start))
            # With one or two evaluations the rest is judged by training returns, which lag behind them.
            ended = self.ended_at if progress.source == "training" else progress.last
            if ended >= self.threshold - max(0.02 * abs(self.threshold), scatter):
                return "lost" if self._gave_up_success else "solved"
            if not (self.unfinished and self.is_early):
                return "lost"
        if self.is_early:
            return "early"
        trained = self.signal(columns.RETURN) if len(self.signal(columns.RETURN)) >= detect.SHORTEST else self.returns
        if detect.collapse(trained, 0.5) is not None and self.improved:
            return "collapsed"
        if not self.improved:
            return "stuck"
        _, late = detect.late_trend(trained)
        grew = late.rising and late.rise > 0.1 * max(progress.gain, detect.spread(trained.values))
        return "learning" if grew else "plateau"

    @property
    def _gave_up_success(self) -> bool:
        """Whether episodes succeeded, and hardly any does any more: a return that stayed above its threshold is paid for something else."""
        if self.required_success is None or not self._outcome.lost:
            return False
        judged = self.signal(columns.EVAL_SUCCESS)
        late = (judged if len(judged) >= 3 else self.signal(columns.SUCCESS)).share(0.8)
        return len(late) > 0 and late.median < 0.5 * self.required_success

    @property
    def is_early(self) -> bool:
        """Too little was trained to judge: its first part while it still runs, or hardly any rows."""
        rows = len(self.signal(columns.RETURN)) or len(self.returns)
        # That another framework's log still grows is a guess from its files' dates, which a copy has, too: all that it says is judged.
        knows = self.history.source == "rlclinic" and self.history.state == "running"
        running = knows and self.budget is not None and self.trained < self.first_part * self.budget
        # A run that ended with hardly any rows is not early: that is all that it will ever be.
        return running or (rows < 4 and not (rows >= 2 and self.history.state == "finished"))

    @cached_property
    def first_part(self) -> float:
        """The share of its budget before which a run may still do anything.

        With a replay it is longer: first it is filled, then actions become less and less random, and only then returns can rise.
        """
        if self.algo not in columns.OFF_POLICY:
            return EARLY
        filled = (self.real("algo.learning_starts") or 0.0) / max(self.budget or 1, 1)
        return float(np.clip(max(filled, self.real("algo.exploration_fraction") or 0.0) + EARLY, 2 * EARLY, 3 * EARLY))

    @property
    def never_ran(self) -> bool:
        """Whether it failed before it had trained a single step."""
        return self.history.state == "failed" and not self.trained

    @property
    def unfinished(self) -> bool:
        """Whether it still runs, with budget left."""
        return self.history.state == "running" and self.budget is not None and self.trained < NEARLY * self.budget

    @cached_property
    def on_course(self) -> bool:
        """Whether it still runs, rises, and at that rate gets to its threshold within its budget."""
        if not self.unfinished or self.standing != "learning" or self.threshold is None or self.progress is None:
            return False
        trained = self.signal(columns.RETURN) if len(self.signal(columns.RETURN)) >= detect.SHORTEST else self.returns
        left = (self.budget or 0) - self.trained
        return trained.share(0.8).median + detect.late_trend(trained)[1].slope * left >= self.threshold

    @property
    def unproven(self) -> bool:
        """Whether nothing says that it does well: sick, or better than at first with no threshold to tell whether that is enough."""
        return self.sick or (self.threshold is None and self.standing in ("learning", "plateau"))

    @cached_property
    def sick(self) -> bool:
        """Whether something about the returns needs an explanation. Without a threshold, getting better is enough, unless success is
        required and missing: a return alone may be gamed."""
        aimless = self.threshold is None and (self.required_success is None or self.solved_at is not None)
        if (aimless and self.standing in ("learning", "plateau")) or self.on_course:
            return False
        return self.standing in SICK


def case_of(history: History) -> Case:
    """The case of a history, made once: rules, evidence and prescriptions ask for the same signals."""
    made: Case = history.derived.setdefault("case", Case(history))
    return made


def first_value(value: Any) -> float | None:
    """A number, or the start of a schedule; None for anything else."""
    if isinstance(value, Mapping):
        points: Sequence[Any] = value.get("points") or ()
        value = value.get("start", points[0][1] if points else None)
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None


def to_count(value: Any) -> int | None:
    """A whole number of at least 1; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None
