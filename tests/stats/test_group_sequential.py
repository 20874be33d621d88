"""Bounds against the published tables (Jennison and Turnbull 2000, tables 2.1 and 2.3), simulation and closed forms."""

import math

import numpy as np
import pytest
import scipy.stats

from rlclinic import stats
from rlclinic.errors import UsageError

POCOCK = {
    (1, 0.05): 1.960, (2, 0.05): 2.178, (3, 0.05): 2.289, (4, 0.05): 2.361, (5, 0.05): 2.413, (8, 0.05): 2.512, (10, 0.05): 2.555,
    (2, 0.10): 1.875, (4, 0.10): 2.067, (2, 0.01): 2.772, (4, 0.01): 2.939, (10, 0.01): 3.117,
}  # fmt: skip
OBRIEN_FLEMING = {
    (1, 0.05): 1.960, (2, 0.05): 1.977, (3, 0.05): 2.004, (4, 0.05): 2.024, (5, 0.05): 2.040, (8, 0.05): 2.072, (10, 0.05): 2.087,
    (2, 0.10): 1.678, (4, 0.10): 1.733, (2, 0.01): 2.580, (4, 0.01): 2.609, (20, 0.05): 2.126,
}  # fmt: skip


@pytest.mark.parametrize(("looks", "alpha"), POCOCK)
def test_pococks_bound_is_the_published_one(looks: int, alpha: float) -> None:
    assert stats.pocock_bound(looks, alpha) == pytest.approx(POCOCK[looks, alpha], abs=0.0006)


@pytest.mark.parametrize(("looks", "alpha"), OBRIEN_FLEMING)
def test_obrien_and_flemings_bounds_are_the_published_ones(looks: int, alpha: float) -> None:
    bounds = stats.obrien_fleming_bounds(looks, alpha)
    expected = [OBRIEN_FLEMING[looks, alpha] * math.sqrt(looks / look) for look in range(1, looks + 1)]
    assert bounds == pytest.approx(expected, rel=0.0006)


def walks(looks: int, cases: int = 200_000, drift: float = 0.0) -> np.ndarray:
    """Z at each of equally spaced looks, of which the last has mean `drift`."""
    steps = np.random.default_rng(1).normal(drift / math.sqrt(looks), 1.0, (cases, looks))
    return steps.cumsum(axis=1) / np.sqrt(np.arange(1, looks + 1))


def test_a_simulated_walk_crosses_as_often_as_promised() -> None:
    crossed = np.abs(walks(4)) > stats.obrien_fleming_bounds(4, 0.05)
    assert crossed.any(axis=1).mean() == pytest.approx(0.05, abs=0.002)
    assert (np.abs(walks(4)) > stats.pocock_bound(4, 0.05)).any(axis=1).mean() == pytest.approx(0.05, abs=0.002)


def test_the_bound_of_a_single_test_at_every_look_alarms_far_too_often() -> None:
    assert (np.abs(walks(4)) > 1.96).any(axis=1).mean() > 0.11


def test_unequal_information_moves_the_bounds_and_keeps_the_promise() -> None:
    information = [1.0, 4.0, 5.0]
    bounds = stats.obrien_fleming_bounds(3, 0.05, information)
    steps = np.random.default_rng(2).normal(size=(200_000, 3)) * np.sqrt(np.diff([0.0, *information]))
    z = steps.cumsum(axis=1) / np.sqrt(information)
    assert (np.abs(z) > bounds).any(axis=1).mean() == pytest.approx(0.05, abs=0.002)
    assert bounds[0] / bounds[2] == pytest.approx(math.sqrt(5))


@pytest.mark.parametrize("drift", [0.0, 2.0, 3.5])
def test_crossing_probabilities_agree_with_simulation(drift: float) -> None:
    bounds = stats.obrien_fleming_bounds(4, 0.05)
    simulated = (np.abs(walks(4, drift=drift)) > bounds).any(axis=1).mean()
    assert stats.crossing_probability(bounds, drift=drift) == pytest.approx(simulated, abs=0.004)


def test_one_look_is_the_ordinary_test() -> None:
    assert stats.obrien_fleming_bounds(1, 0.05) == pytest.approx([scipy.stats.norm.ppf(0.975)])
    power = scipy.stats.norm.sf(1.96 - 2.8) + scipy.stats.norm.cdf(-1.96 - 2.8)
    assert stats.crossing_probability([1.96], drift=2.8) == pytest.approx(power)


@pytest.mark.parametrize(("looks", "alpha"), [(0, 0.05), (51, 0.05), (4, 0.0), (4, 1.0), (4, float("nan"))])
def test_bounds_that_make_no_sense_are_refused(looks: int, alpha: float) -> None:
    with pytest.raises(UsageError, match="looks"):
        stats.pocock_bound(looks, alpha)
    with pytest.raises(UsageError, match="looks"):
        stats.obrien_fleming_bounds(looks, alpha)


@pytest.mark.parametrize("information", [[1.0], [0.0, 1.0], [2.0, 2.0], [2.0, 1.0]])
def test_information_must_rise_with_every_look(information: list[float]) -> None:
    with pytest.raises(UsageError, match="rising"):
        stats.obrien_fleming_bounds(2, 0.05, information)
