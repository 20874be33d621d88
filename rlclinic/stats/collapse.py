"""Which runs collapsed: those that came out far below the others of their kind, not merely somewhat lower.

Returns of deep RL come in two heaps: seeds that learned, and seeds that did not or fell back. A mean, a rank and an interquartile mean see
few failures late or never, so failures are counted, too.
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from rlclinic.stats.distributions import Numbers
from rlclinic.stats.estimates import ranked

FAR_OUT: Final = 3.0
"""Interquartile ranges below the first quartile: Tukey's outer fence, which one of 400,000 normal values lies beyond."""
LEAST: Final = 0.1
"""A return that lies less than this share of the median's size below it has not collapsed, however closely the others agree."""


def find_collapse_bound(reference: ArrayLike, size: float | None = None) -> Numbers:
    """The return below which a run counts as collapsed, by reference runs in the last axis.

    It lies `FAR_OUT` interquartile ranges below their first quartile, and at least `LEAST` of `size` (None: of their median) below their
    median, so that runs which all solved the task do not make a hair's breadth a collapse. The reference may have collapsed runs of its
    own, as long as they are fewer than a quarter; from there on its quartiles lie in both heaps, and nothing is far from them. A run
    without a return is -inf.
    """
    values = np.atleast_1d(ranked(reference))
    known = np.isfinite(values)
    lowest = np.min(np.where(known, values, np.inf), axis=-1, keepdims=True)
    # A run without any return stands at the lowest one: a quartile of infinities has no number.
    values = np.where(known, values, np.where(np.isfinite(lowest), lowest, 0.0))
    first, middle, third = np.quantile(values, [0.25, 0.5, 0.75], axis=-1)
    least = LEAST * (np.abs(middle) if size is None else size)
    return np.asarray(np.minimum(first - FAR_OUT * (third - first), middle - least), dtype=np.float64)
