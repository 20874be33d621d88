"""Whether two rows of numbers rise together."""

import numpy as np


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float | None:
    """Spearman's, ties by their mean rank; None of fewer than three, or where one of them never changes."""
    if len(one) < 3 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    first, second = _ranks(one), _ranks(other)
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """The place of each value among the sorted ones; equal values share the mean of theirs."""
    _, which, counted = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counted)
    return ((last - counted + 1 + last) / 2)[which]
