"""Effects of many values against one base: what equal values, collapsing seeds and large effects come to, by simulation."""

import itertools
import math

import numpy as np
import pytest

from benchmarks.proof import sensitivity as simulated
from rlclinic.treatment.sensitivity import effects

SIMULATIONS = 2_000
TOLERANCE = 0.01
"""About two standard deviations of a share of 5 % in 2,000 studies."""


@pytest.mark.parametrize("world", simulated.NULLS)
def test_a_study_of_24_equal_values_shows_one_to_matter_in_at_most_five_percent(world):
    rng = np.random.default_rng(7)
    assert simulated.shown(simulated.NULLS[world](rng, (SIMULATIONS, 25, 8))).any(axis=1).mean() <= 0.05 + TOLERANCE


def test_values_that_do_not_matter_are_not_shown_beside_many_that_do():
    rng = np.random.default_rng(8)
    scores = simulated.NULLS["log-normal"](rng, (SIMULATIONS, 25, 8))
    # Eight values take four times as long, and eight never get there at all: those have no spread left.
    scores[:, 1:9] += math.log(4)
    scores[:, 9:17] = scores.max()
    found = simulated.shown(scores)
    assert found[:, 16:].any(axis=1).mean() <= 0.05 + TOLERANCE
    assert found[:, :8].mean() > 0.85


def test_a_factor_of_four_is_shown_by_the_usual_number_of_seeds():
    rng = np.random.default_rng(9)
    scores = simulated.NULLS["log-normal"](rng, (SIMULATIONS, 25, 8))
    scores[:, 1] += math.log(4)
    assert simulated.shown(scores)[:, 0].mean() == pytest.approx(effects.POWER[8][0], abs=0.02)


@pytest.mark.parametrize("world", ["log-normal", "seeds that are lucky in every arm", "half of the runs censored"])
def test_the_intervals_of_a_study_hold_together(world):
    rng = np.random.default_rng(10)
    assert simulated.covered(simulated.NULLS[world](rng, (300, 25, 8))).mean() >= 0.92


def test_fewer_than_six_seeds_show_nothing_and_have_no_interval():
    base = dict.fromkeys(range(5), 0.0)
    found = effects.compare(base, [{seed: 9.0 + 0.1 * seed for seed in base}])[0]
    assert found is not None
    assert (found.shown, found.low, found.high) == (False, None, None)
    assert effects.fewest_seeds() == 6
    more = dict.fromkeys(range(6), 0.0)
    assert effects.compare(more, [{seed: 9.0 + 0.1 * seed for seed in more}])[0].shown


def test_the_critical_value_is_that_of_all_flips_counted_by_hand():
    differences = np.array([[0.3, -0.1, 0.4, 0.2, 0.5, -0.2, 0.1], [1.0, 0.9, 1.1, 1.2, 0.8, 1.0, 1.0]])
    largest = sorted(
        (
            max(abs(sum(sign * d for sign, d in zip(signs, row, strict=True))) / math.sqrt(sum(d * d for d in row)) for row in differences)
            for signs in itertools.product((1, -1), repeat=7)
        ),
        reverse=True,
    )
    # 128 flips, of which 6.4 may be more extreme: the seventh.
    assert effects.critical_value(differences) == pytest.approx(largest[6])


def test_an_interval_excludes_no_effect_exactly_where_a_difference_is_shown():
    rng = np.random.default_rng(3)
    for _ in range(40):
        base = dict(enumerate(rng.standard_normal(8)))
        arms = [dict(enumerate(rng.standard_normal(8) + shift)) for shift in (0, 0, 1, 2, 4)]
        for effect in effects.compare(base, arms):
            assert effect is not None
            assert effect.low is not None
            assert effect.high is not None
            assert effect.shown == (not effect.low <= 0 <= effect.high)


def test_what_evaluations_cannot_tell_apart_is_not_shown():
    base = {seed: math.log(1000) for seed in range(8)}
    arm = {seed: math.log(1010) for seed in range(8)}
    assert effects.compare(base, [arm])[0].shown
    assert not effects.compare(base, [arm], resolution=0.05)[0].shown


def test_a_run_that_never_arrives_counts_as_twice_the_budget_and_a_missing_seed_as_nothing():
    assert effects.as_scores([100, None], 1_000.0) == [math.log(100), math.log(2_000)]
    base = dict.fromkeys(range(8), 0.0)
    whole = {seed: 1.0 + 0.1 * seed for seed in range(8)}
    short = {seed: score for seed, score in whole.items() if seed != 3}
    found = effects.compare(base, [short])[0]
    assert found is not None
    assert found.value == pytest.approx(np.mean(list(short.values())))
    assert effects.compare(base, [{}]) == [None]
    assert effects.compare({}, [whole]) == [None]
