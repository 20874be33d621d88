"""Whether it is always the same few of several that come first, or one or another by chance."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

NEARLY_ALL: Final = 0.85
CHANCE: Final = 0.01
"""How often others that are all alike may look as uneven."""


def find_recurring(firsts: Sequence[int], count: int) -> list[int]:
    """The fewest of `count` that are nearly all of `firsts`, in order; none where chance picks any so well, were they all alike.

    Of three machines two may be slow: then now the one comes last, now the other, and the third never.
    """
    often = Counter(firsts).most_common()
    total, covered = len(firsts), 0
    for number, (_, times) in enumerate(often, start=1):
        covered += times
        if covered >= NEARLY_ALL * total:
            # Whichever of them so many are: each choice had its chance.
            luck = math.comb(count, number) * binomial_tail(covered, total, number / count) if number < count else 1.0
            return sorted(place for place, _ in often[:number]) if luck < CHANCE else []
    return []


def binomial_tail(successes: int, trials: int, chance: float) -> float:
    """How likely so many successes or more are; in logarithms, since of thousands of trials the counts of ways are no floats."""
    if successes <= 0 or chance >= 1.0:
        return 1.0
    if chance <= 0.0:
        return 0.0
    won, lost, ways = math.log(chance), math.log1p(-chance), math.lgamma(trials + 1)
    logs = [ways - math.lgamma(n + 1) - math.lgamma(trials - n + 1) + n * won + (trials - n) * lost for n in range(successes, trials + 1)]
    return min(1.0, math.fsum(map(math.exp, logs)))
