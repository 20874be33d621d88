"""A prescription: one or two settings to change, why, and what to expect; and the config that comes of it."""

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from rlclinic.config import Config, set_values
from rlclinic.errors import UsageError
from rlclinic.plain_text import figure

MOST_SETTINGS: Final = 2
"""More at once and nobody could say which of them helped."""

EffectClass = Literal["> 30 %", "10-30 %", "< 10 %", "no data"]
"""Fewer env steps to the threshold, or more return at the end; tied to recorded trials, else "no data"."""
Priority = Literal["critical", "high", "medium", "low"]
Measure = Literal["steps", "return"]

_MODEL = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, defer_build=True)


class Expected(BaseModel):
    """What the same change has done so far, in own trials and in the cells that ship with the package, as a forecast for the next trial."""

    model_config = _MODEL

    measure: Measure
    """steps: env steps to the threshold, treated over untreated, below 1 is better. return: the gain, in shares of the way from
    the untreated return to the threshold; 1 gets there."""
    value: float
    low: float
    high: float
    """A share `level` of new trials should fall between these."""
    trials: int
    """How many outcomes of this change it rests on, cells and own trials; those of its relatives are shrunk into it and not counted."""
    adopted: int = 0
    """How many of them ended in favour of the change."""
    cells: int = 0
    """How many of the outcomes are cells of the shipped corpus: a fault was planted, and this change trained on four seeds. No trials."""
    cells_improved: int = 0
    """How many cells ended higher than the sick runs, by an interval above no gain."""
    level: float = 0.8
    """Of the interval; 0.9 where a single own trial is all there is."""
    has_threshold: bool = True
    """Whether the run that it is for has a threshold; else there is no gap to close here, only where the change was measured."""

    @property
    def text(self) -> str:
        """As the terminal says it: "0.41x the steps [0.25, 0.66] (80 %); such a change was adopted by 7 of 9 own trials"."""
        if self.measure == "steps":
            said = f"{self.value:.2g}x the steps [{self.low:.2g}, {self.high:.2g}]"
        elif self.has_threshold:
            said = f"{100 * self.value:.0f} % of the gap closed [{100 * self.low:.0f}, {100 * self.high:.0f}]"
        else:
            said = ""  # there is no gap to close
        own, own_adopted = self.trials - self.cells, self.adopted - self.cells_improved
        parts = [f"{said} ({100 * self.level:.0f} %)" if said else "measured on tasks with a threshold; this one has none"]
        # Outcomes are of changes in the same direction, not of this value alone.
        seen = [f"improved {count_cells(self.cells_improved, self.cells)}"] if self.cells else []
        seen += [f"was adopted by {own_adopted} of {own} own trial{'s' if own != 1 else ''}"] if own else []
        return "; ".join([*parts, *([f"such a change {' and '.join(seen)}"] if seen else [])])


def count_cells(improved: int, cells: int) -> str:
    """ "10 of 11 groups with this fault planted (4 seeds each)": what ships with the package was measured so, not in trials."""
    return f"{improved} of {cells} group{'s' if cells != 1 else ''} with this fault planted (4 seeds each)"


def gap_closed(before: float | None, after: float | None, threshold: float | None) -> float | None:
    """The share of the way from the untreated return to the threshold; None where that is reached already, or something is not known.

    Returns are interquartile means over seeds of the last evaluations. Forecasts, what is recorded of a trial, and whether a forecast held
    all count by this.
    """
    if before is None or after is None or threshold is None or threshold <= before:
        return None
    return (after - before) / (threshold - before)


class Prescription(BaseModel):
    """A validated patch of at most two settings, or advice where no setting helps."""

    model_config = _MODEL

    number: int
    """As `--rx` takes it."""
    cause: str
    """Id of the cause that it treats."""
    title: str
    """"learning_rate 0.01 → 0.001, linear to 0"."""
    changes: dict[str, Any]
    """New values by dotted setting, one or two; none where it is advice."""
    current: dict[str, Any]
    """What they are now."""
    rationale: str
    """Why this value: how it follows from the run's own numbers."""
    evidence: tuple[str, ...]
    """What was seen that speaks for it."""
    expected: Expected | None
    effect: EffectClass
    risk: str
    """What it may cost."""
    priority: Priority
    foreign: str | None = None
    """The same in the words of the framework that the run came from."""
    held_back: str | None = Field(None, exclude_if=lambda reason: reason is None)
    """Why it should be tried before it is used; None where what is known speaks for it."""

    @property
    def trialable(self) -> bool:
        """Whether a trial can tell if it helps. What must change in code or in an environment cannot be tried from here."""
        return bool(self.changes)

    @property
    def overrides(self) -> list[str]:
        """As `--set` takes them."""
        return [f"{setting}={spelled(value)}" for setting, value in self.changes.items()]

    @property
    def yaml(self) -> str:
        """The patch as a piece of a config file."""
        sections: dict[str, list[str]] = {}
        for setting, value in self.changes.items():
            section, _, name = setting.partition(".")
            sections.setdefault(section, []).append(f"{name}: {flow(value)}")
        return "\n".join(f"{section}: {{{', '.join(entries)}}}" for section, entries in sections.items())


def apply(config: Config, rx: Prescription) -> Config:
    """The config with the prescription's changes; UsageError for advice, ConfigError if the schema refuses the result."""
    if not rx.trialable:
        raise UsageError(
            f"prescription {rx.number} is advice, not a setting: {rx.rationale}\n"
            "  Training with the same settings would only repeat the run.\n"
            "  Change it in your code or environment, then train again"
        )
    return set_values(config, rx.overrides)


def changed(config: Config, changes: Mapping[str, Any]) -> Config:
    """The config with settings replaced; ConfigError if the schema refuses the result."""
    return set_values(config, [f"{setting}={spelled(value)}" for setting, value in changes.items()])


def spelled(value: Any) -> str:
    """A value as `--set` reads it."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)


def flow(value: Any) -> str:
    """A value as YAML on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(inner) for inner in value) + "]"
    if isinstance(value, float) and not isinstance(value, bool):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return "null" if value is None else spelled(value) if isinstance(value, str) else json.dumps(value)


def worded(value: Any) -> str:
    """A value for a sentence: "0.001, linear to 0", "none", "64, 64"."""
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        return _schedule(value)
    if isinstance(value, list | tuple):
        # Wrappers are known by their names.
        return flow([each.get("id", each) if isinstance(each, Mapping) else each for each in value])
    return figure(value) if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


def _schedule(value: Mapping[str, Any]) -> str:
    start, end = value.get("start"), value.get("end")
    if not isinstance(start, int | float) or not isinstance(end, int | float):
        return flow(value)
    until = value.get("to", 1)
    by = f" by {100 * until:g} % of the run" if isinstance(until, int | float) and until < 1 else ""
    return f"{figure(start)}, {value.get('schedule', 'linear')} to {figure(end)}{by}"
