"""What the user adds to a log that does not say everything: `--threshold`, `--budget` and `--map`."""

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rlclinic import metrics
from rlclinic.actions import Argument
from rlclinic.errors import UsageError, nearest
from rlclinic.readers import column_names
from rlclinic.readers.metric_aliases import Tag
from rlclinic.runs.history import History

_COLUMN: Final = re.compile(r"(?P<sign>-)?(?P<column>.+?)(?:\*(?P<scale>-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?))?(?P<each>:episodes)?")


@dataclass(frozen=True)
class Mapping:
    """`--map` as data: what the user calls columns, and which of them is the axis."""

    tags: tuple[Tag, ...] = ()
    step: str | None = None
    """The column of the axis."""
    step_factor: float = 1.0
    """Env steps in one unit of that column."""

    def check(self, names: Collection[str]) -> None:
        """UsageError if `--map` names a column that the log does not have."""
        wanted = [tag.tag for tag in self.tags] + ([self.step] if self.step else [])
        for column in wanted:
            if column not in names:
                offered = nearest(column, names) or sorted(names)[:6]
                raise UsageError(
                    Argument("map"),
                    f": the log has no column {column!r}; it has {', '.join(offered)}.\n  The metric would be missing.\n  Try: ",
                    Argument("map", "METRIC=COLUMN"),
                    " with one of these",
                )


@dataclass(frozen=True)
class Options:
    """`--threshold`, `--budget` and `--map`, and the settings that the caller knows."""

    threshold: float | None = None
    budget: int | None = None
    mapping: Mapping = field(default_factory=Mapping)

    def table(self, tags: Sequence[Tag]) -> list[Tag]:
        """A framework's table with the user's own words in front."""
        return [*self.mapping.tags, *tags]

    @property
    def episodic(self) -> frozenset[str]:
        return frozenset(tag.tag for tag in self.mapping.tags if tag.episodic)

    def complete(self, history: History) -> History:
        """What the user said counts more than what the log says."""
        changes: dict[str, Any] = {}
        settings = dict(history.settings)
        if self.threshold is not None:
            changes["threshold"] = settings["spec.threshold"] = self.threshold
        if self.budget is not None:
            changes["max_env_steps"] = settings["run.max_env_steps"] = self.budget
        return replace(history, settings=settings, **changes) if changes else history


def make_options(threshold: float | None = None, budget: float | None = None, mapping: Sequence[str] | Mapping | None = None) -> Options:
    """Checked options. `mapping` is a list of METRIC=COLUMN, or a Mapping."""
    if budget is not None and not 1 <= budget < math.inf:
        raise UsageError(
            Argument("budget", budget), ": a budget is a number of env steps, 1 or more.\n  Try: ", Argument("budget", 100_000)
        )
    if threshold is not None and threshold != threshold:
        raise UsageError(Argument("threshold", threshold), ": a threshold is a return.\n  Try: ", Argument("threshold", 475))
    parsed = mapping if isinstance(mapping, Mapping) else parse_mapping(mapping or ())
    return Options(threshold, None if budget is None else int(budget), parsed)


def parse_mapping(entries: Iterable[str]) -> Mapping:
    """`--map` options: METRIC=COLUMN, METRIC=-COLUMN, METRIC=COLUMN*0.5, METRIC=COLUMN:episodes, step=COLUMN*2048."""
    tags, step, step_factor = [], None, 1.0
    for entry in entries:
        left, equals, right = entry.partition("=")
        match = _COLUMN.fullmatch(right.strip())
        if not equals or not left.strip() or match is None:
            raise UsageError(
                Argument("map"),
                f" {entry!r} is not METRIC=COLUMN.\n  Nothing was read.\n  Try: ",
                Argument("map", "entropy=-ent_loss"),
                ", ",
                Argument("map", "train/loss/value=vf*2"),
                ", ",
                Argument("map", "step=iteration*2048"),
            )
        factor = float(match["scale"] or 1.0) * (-1.0 if match["sign"] else 1.0)
        if column_names.normalize_name(left) in (*column_names.STEPS, "steps", "axis"):
            step, step_factor = match["column"], factor
        else:
            tags.append(Tag(find_metric_name(left.strip()), match["column"], factor, episodic=bool(match["each"])))
    return Mapping(tuple(tags), step, step_factor)


def find_metric_name(word: str) -> str:
    """The canonical name that a user's word means: in full, a usual name, or its end where only one metric has it.

    UsageError offers the nearest.
    """
    if metrics.find(word) is not None:
        return word
    known = [*metrics.METRICS, *metrics.FOREIGN]
    ends = [name for name in known if name.endswith("/" + word)]
    guessed = column_names.find_metric(word)
    if guessed is not None:
        return guessed.canonical
    if len(ends) == 1:
        return ends[0]
    offered = ends[:4] or nearest(word, [*known, "return", "eval_return", "kl", "entropy", "step"])
    hint = f"; nearest: {', '.join(offered)}" if offered else ""
    raise UsageError(
        Argument("map", f"{word}=…"),
        f": no metric has this name{hint}.\n  The column would be read as nothing.\n  See docs/metrics.md for all names",
    )
