"""What recorded trials say about a change of a setting: how many tried it, how many adopted it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rlclinic.comparison.impacts import Direction


class Recorded(NamedTuple):
    """One change of one setting that a trial has judged."""

    key: str
    direction: str
    """up, down, on, off, falls, holds, or the word that it was set to."""
    adopted: bool


def recorded(outcomes: Iterable[tuple[Mapping[str, str], bool]]) -> list[Recorded]:
    """From what trials have left: directions by dotted setting, and whether the change was adopted."""
    return [Recorded(key, way, adopted) for changes, adopted in outcomes for key, way in changes.items()]


def tally(key: str, direction: Direction, value: Any, known: Sequence[Recorded]) -> tuple[int, int]:
    """How many trials changed this setting this way, and how many of them adopted the change.

    value: what it is changed to. A word has no direction: trials that set another one say nothing about it.
    """
    wanted = str(value) if direction == "changed" else direction
    same = [each for each in known if each.key == key and each.direction == wanted]
    return len(same), sum(each.adopted for each in same)
