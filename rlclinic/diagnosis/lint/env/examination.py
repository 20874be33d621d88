"""An examination of an environment, as checks look at it. Its facts are what rlclinic.training.envs.examine.environment wrote down."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from rlclinic.diagnosis.findings import DiagnosisPart

_T: Final = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}
"""Student's t at 97.5 % for few degrees of freedom."""


class Played(DiagnosisPart):
    """Episodes with one way to act."""

    label: str
    episodes: int
    mean: float | None
    low: float | None
    """The 95 % interval of the mean return; None with fewer than two episodes."""
    high: float | None
    length: float | None
    """Mean episode length."""
    unfinished_steps: int
    """Steps of the last episode, if it did not end."""


FAR = 200.0
"""A range of actions that is wider is wider than any policy explores."""


@dataclass(frozen=True)
class Remark:
    """What a check has to say."""

    text: str
    fix: str = ""
    strength: float = 1.0
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Examination:
    """The facts of one examination."""

    facts: Mapping[str, Any]

    @property
    def action(self) -> Mapping[str, Any]:
        return self.facts.get("action_space") or {}

    @property
    def observation(self) -> Mapping[str, Any]:
        return self.facts.get("observation_space") or {}

    @property
    def random(self) -> Mapping[str, Any]:
        return self.facts.get("random") or {}

    def is_normalized(self, what: str) -> bool:
        """Whether a wrapper with running statistics rescales it: "Observation" or "Reward"."""
        return f"Normalize{what}" in (self.facts.get("running_statistics") or ())

    @property
    def rewards(self) -> Mapping[str, float]:
        return self.facts.get("rewards") or {}

    @property
    def dimensions(self) -> list[Mapping[str, Any]]:
        """Of every number of the observation; empty where it was summed up."""
        return [] if self.facts.get("summed_up") else list(self.facts.get("dimensions") or [])

    @cached_property
    def played(self) -> list[Played]:
        """Random, constant and scripted actions, as far as they were tried."""
        ways = {"random": self.random, **(self.facts.get("constant") or {}), "scripted": self.facts.get("scripted") or {}}
        return [played(label, episodes) for label, episodes in ways.items() if episodes]

    @property
    def ends(self) -> int:
        """Episodes that ended, however they were played."""
        return sum(each.episodes for each in self.played) + bool((self.facts.get("resets") or {}).get("end_reached"))

    @property
    def steps_per_second(self) -> float | None:
        speed = self.facts.get("speed") or {}
        return speed["steps"] / speed["seconds"] if speed.get("steps") and speed.get("seconds") else None

    def breach(self, kind: str) -> Mapping[str, Any] | None:
        """What was noted under the name of a check."""
        return next((each for each in self.facts.get("breaches") or [] if each["kind"] == kind), None)

    def noted(self, kind: str) -> "Iterator[Remark]":
        """The same as a remark: for checks that the examination itself made."""
        breach = self.breach(kind)
        if breach is not None:
            again = f" ({breach['count']} times)" if breach["count"] > 1 else ""
            yield Remark(breach["text"] + again, numbers={"count": float(breach["count"])})

    def bounds(self) -> Iterator[tuple[int, float, float]]:
        """Of a box of actions: place, low and high."""
        if self.action.get("kind") == "Box":
            for place, (low, high) in enumerate(zip(self.action["low"], self.action["high"], strict=True)):
                yield place, float(low), float(high)

    @property
    def has_usual_bounds(self) -> bool:
        """Whether actions have some room around 0; bounds that leave no choice, or lie far out, are faults of their own."""
        return not any(low >= high or high - low > FAR or low + high > high - low for _, low, high in self.bounds())


def played(label: str, told: Mapping[str, Any]) -> Played:
    """Mean and interval of some episodes."""
    returns, lengths = list(told["returns"]), list(told["lengths"])
    count = len(returns)
    mean = sum(returns) / count if count else None
    half = None
    if mean is not None and count > 1:
        spread = math.sqrt(sum((each - mean) ** 2 for each in returns) / (count - 1))
        half = _T.get(count - 1, 1.96 + 2.5 / (count - 1)) * spread / math.sqrt(count)
    return Played(
        label=label,
        episodes=count,
        mean=mean,
        low=None if mean is None or half is None else mean - half,
        high=None if mean is None or half is None else mean + half,
        length=sum(lengths) / count if count else None,
        unfinished_steps=int(told["unfinished_steps"]),
    )
