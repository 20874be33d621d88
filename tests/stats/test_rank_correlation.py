"""Spearman's correlation."""

import numpy as np
import pytest

from rlclinic.stats import rank_correlation


def test_equal_values_share_the_mean_of_their_places() -> None:
    assert rank_correlation(np.array([1.0, 2.0, 2.0, 3.0]), np.array([10.0, 20.0, 20.0, 90.0])) == pytest.approx(1.0)
    # Places 2.5, 1, 2.5 against 1, 2, 3: the covariance is 0.
    assert rank_correlation(np.array([5.0, 1.0, 5.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx(0.0)
    assert rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([9.0, 4.0, 1.0])) == pytest.approx(-1.0)


def test_what_never_changes_rises_with_nothing() -> None:
    assert rank_correlation(np.array([1.0, 1.0, 1.0]), np.array([1.0, 2.0, 3.0])) is None
    assert rank_correlation(np.array([1.0, 2.0]), np.array([1.0, 2.0])) is None, "two points always lie on a line"
