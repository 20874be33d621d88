"""What cells and trials have taught: each outcome of a change is kept, and the next forecast of the same change rests on all of them.

What ships with the package are cells: a fault was planted in a config that works, and the cure trained on four seeds. A store's own
outcomes are trials.

A change is known by its cause, its settings and their directions ("algo.learning_rate down"); values differ from run to run,
and are computed. Few trials of one change are shrunk towards those of its cause, and these towards all: the forecast is a
normal prediction of the log of the steps' ratio (or of the share of the gap that was closed), with an interval that holds
four of five new trials; one that rests on a single own trial is wider, and holds nine of ten.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from rlclinic.config import ALGORITHMS, Config, to_record
from rlclinic.diagnosis.case import first_value
from rlclinic.errors import UsageError
from rlclinic.runs import trials
from rlclinic.runs.history import dotted
from rlclinic.runs.store import Store
from rlclinic.treatment.prescription.prescription import Expected, Measure, gap_closed

SCHEMA_VERSION: Final = 1
ANY: Final = ""
"""The cause of a change that was tried without a diagnosis."""
WITHIN: Final[dict[str, float]] = {"steps": 0.4, "return": 0.3}
"""Deviation of one trial of a change from another, on the log of the ratio or in shares of the gap, until trials tell."""
BETWEEN: Final[dict[str, float]] = {"steps": 0.6, "return": 0.4}
"""Deviation of one change from its relatives."""
BELIEF: Final = 4
"""Trials that the assumed deviations, and the assumed chance of helping, count for."""
HETEROGENEITY: Final[dict[str, float]] = {"steps": 0.42, "return": 0.29}
"""Deviation between trials of one change (other tasks, other settings) that is assumed where a single own trial cannot tell it. Cells of
the corpus that share change and cause lie 0.29 apart in shares of the gap; of steps none are recorded, and more is assumed."""
CELL: Final = "corpus "
"""How the name of an outcome begins that was measured on a planted fault, not in a trial."""
_T90: Final = 2.13
"""Student's t of a central 90 % interval, by the four degrees of freedom that assumed deviations count for."""
_T80: Final = ((1, 3.08), (2, 1.89), (3, 1.64), (4, 1.53), (6, 1.44), (10, 1.37), (20, 1.325), (60, 1.296))
"""Student's t: half of the width of a central 80 % interval by degrees of freedom."""


class RecordedOutcome(BaseModel):
    """What one trial showed of one change."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, defer_build=True)

    trial: str
    cause: str
    """Id of the diagnosed cause; empty if there was none."""
    changes: dict[str, str]
    """Direction by dotted setting: up, down, on, off, another number's schedule ("falls"), or the word that it was set to."""
    env_id: str
    algo: str
    measure: Measure
    value: float
    """steps: the ratio, treated over untreated; return: the share of the gap to the threshold that was closed."""
    low: float | None
    high: float | None
    """Its interval; None on a side without an end."""
    adopted: bool
    seeds: int


class Effects:
    """Recorded outcomes, and what they forecast."""

    def __init__(self, outcomes: Sequence[RecordedOutcome] = (), widths: Mapping[str, float] | None = None) -> None:
        self.outcomes = tuple(outcomes)
        self.widths = dict(widths or {})
        """By measure: the deviations to each side that held four of five outcomes which were left out; Student's where nobody knows."""
        self._kin: dict[bool, Effects] = {}

    def expect(self, cause: str, changes: Mapping[str, Any], config: Config) -> Expected | None:
        """The forecast for a change of this config; None without a single trial of it."""
        wanted = directions(config, changes)
        kin = self.of_kin(config.algo.name)
        own = [outcome for outcome in kin.outcomes if outcome.changes == wanted and outcome.cause == cause]
        if not own:
            own = [outcome for outcome in kin.outcomes if outcome.changes == wanted]
        if not own:
            return None
        measure = max(("steps", "return"), key=lambda name: sum(each.measure == name for each in own))
        mine = [each for each in own if each.measure == measure]
        value, deviation, freedom = kin.predict(mine, measure)
        back: Callable[[float], float] = math.exp if measure == "steps" else float
        cells = [each for each in own if each.trial.startswith(CELL)]
        level, half = 0.8, self.widths.get(measure, _t80(freedom)) * deviation
        if len(mine) == 1 and mine[0] not in cells:
            level, half = 0.9, _T90 * kin.deviation_of_one(mine[0], value)
        low, high = back(value - half), back(value + half)
        return Expected(
            measure="steps" if measure == "steps" else "return",
            value=float(f"{back(value):.3g}"),
            low=float(f"{low:.3g}"),
            high=float(f"{high:.3g}"),
            trials=len(own),
            adopted=sum(each.adopted for each in own),
            cells=len(cells),
            cells_improved=sum(cell.adopted for cell in cells),
            level=level,
            has_threshold=config.spec.threshold is not None,
        )

    def deviation_of_one(self, own: RecordedOutcome, mean: float) -> float:
        """Deviation of the next trial from a forecast that rests on one own trial.

        As in a random-effects meta-analysis: the trial missed the change's mean by the deviation between trials, and so will the next;
        that deviation cannot come from one trial and is assumed. What the forecast was shrunk by may be missing, too.
        """
        apart = HETEROGENEITY[own.measure]
        return math.sqrt(2 * apart**2 + (scaled(own) - mean) ** 2)

    def chance(self, cause: str, changes: Mapping[str, Any], config: Config, prior: float) -> float:
        """How likely the change is to be adopted: what was believed before, and every trial of it for this cause since.

        Trials for other causes say little: a higher learning rate cures one that is too low, and nothing else.
        """
        wanted = directions(config, changes)
        own = [
            outcome.adopted for outcome in self.of_kin(config.algo.name).outcomes if outcome.changes == wanted and outcome.cause == cause
        ]
        return (prior * BELIEF + sum(own)) / (BELIEF + len(own))

    def of_kin(self, algo: str) -> "Effects":
        """What was tried with learners of the same kind: a change of PPO's learning rate says nothing about DQN's."""
        kind = _replays(algo)
        if kind not in self._kin:
            self._kin[kind] = Effects([outcome for outcome in self.outcomes if _replays(outcome.algo) == kind], self.widths)
        return self._kin[kind]

    def predict(self, own: Sequence[RecordedOutcome], measure: str) -> tuple[float, float, int]:
        """Mean and deviation of the next trial's outcome, and the degrees of freedom that the deviation rests on."""
        groups: dict[str, list[RecordedOutcome]] = {}
        for outcome in self.outcomes:
            if outcome.measure == measure:
                groups.setdefault(_key(outcome), []).append(outcome)
        within, freedom = _within(groups.values(), measure)
        between, key, cause = BETWEEN[measure], _key(own[0]), own[0].cause
        others = [members for members in groups.values() if members[0].cause != cause]
        relatives = [members for members in groups.values() if members[0].cause == cause and _key(members[0]) != key]
        # No effect, then what all changes show, then those of the same cause, then this one: each level is the next one's prior.
        mean, spread = 0.0, between
        for level in (others, relatives, [list(own)]):
            if level:
                seen = fmean(fmean(scaled(member) for member in members) for members in level)
                noise = fmean(within**2 / len(members) for members in level) / len(level)
                noise += 0.0 if level[0] == list(own) else between**2 / len(level)
                weight = spread**2 / (spread**2 + noise)
                mean, spread = mean + weight * (seen - mean), math.sqrt(spread**2 * (1 - weight))
            if not level or level[0] != list(own):
                # The next level's own deviation from this one.
                spread = math.hypot(spread, between)
        return mean, math.hypot(spread, within), freedom


def _replays(algo: str) -> bool:
    """Whether an algorithm learns from a replay."""
    return algo in ALGORITHMS and ALGORITHMS[algo].loop == "off_policy"


def _key(each: RecordedOutcome) -> str:
    return json.dumps([each.cause, sorted(each.changes.items())])


def scaled(each: RecordedOutcome) -> float:
    """On the scale that is averaged: ratios by their logarithm."""
    return math.log(max(each.value, 1e-3)) if each.measure == "steps" else each.value


def _within(groups: Iterable[Sequence[RecordedOutcome]], measure: str) -> tuple[float, int]:
    """The deviation of trials of one change around its mean, pooled over changes and with what was assumed before."""
    squares, freedom = BELIEF * WITHIN[measure] ** 2, BELIEF
    for members in groups:
        values = [scaled(member) for member in members]
        squares += sum((value - fmean(values)) ** 2 for value in values)
        freedom += len(values) - 1
    return math.sqrt(squares / freedom), freedom


def _t80(freedom: int) -> float:
    below = [width for degrees, width in _T80 if degrees <= freedom]
    return below[-1] if below and freedom < 120 else 1.282


# ── changes by direction ──


def directions(config: Config, changes: Mapping[str, Any]) -> dict[str, str]:
    """Where a change leads from a config, by dotted setting."""
    settings = dotted(to_record(config))
    return {setting: direction(settings.get(setting), value) for setting, value in sorted(changes.items())}


def direction(old: Any, new: Any) -> str:
    """up, down, on, off, falls (the same number, now a schedule), or the word that it was set to."""
    if new is None or new is False:
        return "off"
    if new is True or old is None:
        return "on"
    before, after = first_value(old), first_value(new)
    if before is not None and after is not None:
        if math.isclose(before, after, rel_tol=0.05):
            return "falls" if isinstance(new, Mapping) else "holds"
        return "up" if after > before else "down"
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        return "up" if _size(new) > _size(old) else "down"
    return str(new)


def _size(layers: Sequence[Any]) -> float:
    return float(sum(layer if isinstance(layer, int | float) else 1 for layer in layers))


# ── where they come from ──


def load(store: Store | None, *, recorded: bool = True) -> Effects:
    """What the store's own trials showed, and what ships with the package unless it is left out."""
    found = shipped() if recorded else []
    if store is not None:
        found += [outcome for trial in trials.trials(store) for outcome in of_trial(trial)]
    return Effects(found, widths() if recorded else None)


def shipped() -> list[RecordedOutcome]:
    """The starting table; made by `python -m benchmarks.treatment.effects`."""
    return list(_shipped())


@cache
def _shipped() -> tuple[RecordedOutcome, ...]:
    """Read once: every diagnosis asks for it."""
    return tuple(read(_table(), "rlclinic/treatment/prescription/recorded_effects.json"))


@cache
def widths() -> Mapping[str, float]:
    """How wide the starting table's intervals must be: outcomes have longer tails than the normal law."""
    return {str(name): float(width) for name, width in json.loads(_table()).get("widths", {}).items()}


def _table() -> str:
    return (files("rlclinic.treatment.prescription") / "recorded_effects.json").read_text("utf-8")


def read(text: str, name: str) -> list[RecordedOutcome]:
    """A table of outcomes; UsageError if it is none."""
    try:
        record = json.loads(text)
        if record.get("schema_version", 0) > SCHEMA_VERSION:
            raise UsageError(f"{name} was written by a newer rlclinic.\n  Its forecasts cannot be read.\n  pip install -U rlclinic")
        return [RecordedOutcome.model_validate(each) for each in record["outcomes"]]
    except (ValueError, KeyError, TypeError, AttributeError, ValidationError) as error:
        raise UsageError(f"{name} is no table of outcomes: {error}\n  Make one: python -m benchmarks.treatment.effects") from None


def write(path: Path, outcomes: Sequence[RecordedOutcome], about: str, widths: Mapping[str, float] | None = None) -> None:
    """Write a table of outcomes, one a line."""
    head = {"schema_version": SCHEMA_VERSION, "about": about, "widths": dict(widths or {})}
    lines = ",\n  ".join(json.dumps(outcome.model_dump()) for outcome in outcomes)
    path.write_text(json.dumps(head, indent=1)[:-2] + f',\n "outcomes": [\n  {lines}\n ]\n}}\n', encoding="utf-8")


def of_trial(trial: trials.TrialRecord) -> list[RecordedOutcome]:
    """What a finished trial says of each of its treatment arms; nothing while it runs, or where a command was tried."""
    if trial.verdict is None:
        return []
    if several := trial.record.get("environments"):
        each = [trials.TrialRecord(trial.id, trial.path, {**trial.record, **own, "environments": ()}) for own in several]
        return [outcome for one in each for outcome in of_trial(one)]
    arms = {str(arm.get("name")): arm for arm in trial.record.get("arms") or [] if isinstance(arm, Mapping)}
    control = next(iter(arms.values()), {})
    found = [_outcome(trial, control, arms.get(str(effect.get("arm")), {}), effect) for effect in trial.effects]
    return [each for each in found if each is not None]


def _outcome(
    trial: trials.TrialRecord, control: Mapping[str, Any], arm: Mapping[str, Any], effect: Mapping[str, Any]
) -> RecordedOutcome | None:
    before, after = control.get("config"), arm.get("config")
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return None
    old, new = dotted(before), dotted(after)
    changes = {name: direction(old.get(name), new.get(name)) for name in sorted(_named(arm.get("changes") or ())) if name in new}
    measured = _measure(trial.record, control, arm, effect)
    if measured is None or not changes:
        return None
    measure, value, low, high = measured
    return RecordedOutcome(
        trial=trial.id,
        cause=str(_cause(trial.context, str(effect.get("arm"))) or ANY),
        changes=changes,
        env_id=trial.env_id or "?",
        algo=trial.algo or "?",
        measure=measure,
        value=value,
        low=low,
        high=high,
        adopted=effect.get("verdict") == "adopt",
        seeds=int(effect.get("seeds") or 0),
    )


def _cause(context: Mapping[str, Any], arm: str) -> Any:
    """The diagnosed cause: of the arm's own prescription where arms treat different ones."""
    causes = context.get("causes")
    return causes.get(arm, context.get("cause")) if isinstance(causes, Mapping) else context.get("cause")


def _named(changes: Iterable[Any]) -> set[str]:
    """The settings of KEY=VALUE texts; a key inside a schedule is its setting's."""
    keys = (str(change).partition("=")[0].split(".") for change in changes)
    return {".".join(key[:2]) for key in keys if len(key) >= 2}


def _measure(
    record: Mapping[str, Any], control: Mapping[str, Any], arm: Mapping[str, Any], effect: Mapping[str, Any]
) -> tuple[Measure, float, float | None, float | None] | None:
    """The ratio of steps where there is one (or its bound, where no untreated run got there), else the share of the gap closed."""
    ratio, gain = effect.get("ratio") or {}, effect.get("gain") or {}
    if record.get("outcome") == "steps" and isinstance(ratio, Mapping):
        low, high = _number(ratio.get("low")), _number(ratio.get("high"))
        value = _number(ratio.get("value")) or high or low
        if value is not None and value > 0:
            return "steps", value, low, high
    threshold, before, after = _number(record.get("threshold")), _final(control), _final(arm)
    gains = {side: _number(gain.get(side)) if isinstance(gain, Mapping) else None for side in ("value", "low", "high")}
    if gains["value"] is None:
        return None
    low, value, high = (
        gap_closed(before, None if before is None or end is None else before + end, threshold)
        for end in map(gains.get, ("low", "value", "high"))
    )
    share = value if after is None else gap_closed(before, after, threshold)
    return None if share is None else ("return", share, low, high)


def _final(arm: Mapping[str, Any]) -> float | None:
    """The final return of an arm."""
    final = arm.get("final")
    return _number(final.get("value")) if isinstance(final, Mapping) else None


def _number(value: Any) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None
