"""What the user adds to a log that does not say everything."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rlclinic.errors import UsageError
from rlclinic.readers import guesses
from rlclinic.readers.guesses import Mapping
from rlclinic.readers.metric_aliases import Tag
from rlclinic.runs.history import History


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


def make(threshold: float | None = None, budget: float | None = None, mapping: Sequence[str] | Mapping | None = None) -> Options:
    """Checked options. `mapping` is a list of METRIC=COLUMN, or a Mapping."""
    if budget is not None and not 1 <= budget < math.inf:
        raise UsageError(f"--budget {budget:g}: a budget is a number of env steps, 1 or more.\n  Try: --budget 100000")
    if threshold is not None and threshold != threshold:
        raise UsageError("--threshold nan: a threshold is a return.\n  Try: --threshold 475")
    parsed = mapping if isinstance(mapping, Mapping) else guesses.parse(mapping or ())
    return Options(threshold, None if budget is None else int(budget), parsed)
