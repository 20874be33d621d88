"""What recorded trials say about a change of a setting: how many tried it, how many adopted it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, get_args

from rlclinic.comparison.impacts import Direction

_DIRECTIONS: Final = get_args(Direction)


class Recorded(NamedTuple):
    """One change of one setting that a trial has judged."""

    key: str
    direction: Direction
    adopted: bool


def recorded(outcomes: Iterable[tuple[Mapping[str, str], bool]]) -> list[Recorded]:
    """From what trials have left: directions by dotted setting, and whether the change was adopted.

    A direction that is a word (the optimizer that was set) is "changed".
    """
    return [
        Recorded(key, way if way in _DIRECTIONS else "changed", adopted)  # type: ignore[arg-type]
        for changes, adopted in outcomes
        for key, way in changes.items()
    ]


def tally(key: str, direction: Direction, known: Sequence[Recorded]) -> tuple[int, int]:
    """How many trials changed this setting this way, and how many of them adopted the change."""
    same = [each for each in known if each.key == key and each.direction == direction]
    return len(same), sum(each.adopted for each in same)
