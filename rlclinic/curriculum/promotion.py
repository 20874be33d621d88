"""When a stage is mastered, and when it is forgotten: exact binomial bounds that hold however often they are looked at.

The error that is allowed, e.g. 5 %, is for a whole stay in a stage. Look number j spends

    error x 10 / ((j + 9)(j + 10)),    which adds up to the error over all looks for ever,

so that an agent whose true success is at or below the threshold is promoted with at most that chance, by the union bound, whether looks
overlap or not. The spending starts low, as the first looks come before anything is learned. Two windows are looked at: the newest
episodes, and with many looks a longer one, whose bound is as tight as before although each look may spend less.
"""

import math
from typing import Final

from rlclinic.stats import share_upper_bound
from rlclinic.stats.distributions import incomplete_beta

FLAT: Final = 10
"""The first looks may spend nearly the same; larger is flatter."""
LONGEST: Final = 8
"""The longer window is at most so many windows long."""


def spend(error: float, look: int) -> float:
    """What the look with this number, from 1, may spend of the error."""
    return error * FLAT / ((look + FLAT - 1) * (look + FLAT))


def long_window(window: int, look: int) -> int:
    """How long the longer window is at this look: 100, 200 at the second, 330 at the fifth, 770 at the hundredth."""
    return min(round(window * (1 + math.log2(look))), LONGEST * window)


def is_above(successes: int, episodes: int, threshold: float, error: float) -> bool:
    """Whether success is certainly above a threshold: P(so many or more | threshold) is no more than the error."""
    return successes > 0 and incomplete_beta(successes, episodes - successes + 1, threshold) <= error


def is_below(successes: int, episodes: int, threshold: float, error: float) -> bool:
    """Whether success is certainly below a threshold."""
    return is_above(episodes - successes, episodes, 1.0 - threshold, error)


def lower_bound(successes: int, episodes: int, error: float) -> float:
    """The highest threshold that success is certainly above."""
    return 1.0 - share_upper_bound(episodes - successes, episodes, level=1.0 - error)
