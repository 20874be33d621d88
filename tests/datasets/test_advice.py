"""Which way suits data: each answer follows from numbers, and changes with them."""

from dataclasses import replace

import numpy as np
import pytest

from rlclinic import references
from rlclinic.datasets import Episode, advice, quality
from rlclinic.datasets.advice import Cloning, Situation
from rlclinic.datasets.episodes import join
from tests.datasets.made import BOX, TORQUE, dataset

USUAL = quality.examine(dataset(tuple(range(60, 90))))


def situation(spread: float, grade: float | None = None, **known: object) -> Situation:
    """Data with this spread of actions and this quality, of which the rest is usual."""
    own = replace(USUAL, action_spread=spread, trajectory_quality=grade, findings=(), transitions=20_000, episodes=100)
    about = {"random_return": -10.0, "good_return": 10.0} if grade is not None else {}
    return Situation(own, **{**about, **known})  # type: ignore[arg-type]


def best(where: Situation) -> str:
    first = advice.rank(where)[0]
    return first.way if first.impossible is None and first.points > 0 else "collect"


FAST = {"steps_per_second": 10_000.0, "needed_steps": 100_000}
MIXED = {"mixture": 0.9, "start_explains": 0.1}


@pytest.mark.parametrize(
    ("where", "answer"),
    [
        (situation(0.05, 0.98), "imitation"),
        (situation(0.05, 0.98, **FAST), "imitation"),
        (situation(0.05), "imitation"),
        (situation(1.0, 0.2, **MIXED), "offline"),
        (situation(1.0, 0.2, **MIXED, **FAST), "offline"),
        (situation(0.6, 0.92), "offline"),
        (situation(0.6, 0.92, **FAST), "offline"),
        (situation(0.8, 0.45), "offline"),
        (situation(0.8, 0.45, **FAST), "hybrid"),
        (situation(0.8, 0.45, **FAST, budget=20_000), "hybrid"),
        (situation(0.8, 0.45, **FAST, budget=0), "offline"),
        (situation(1.0, 0.0, **FAST), "online"),
        (situation(1.0, 0.0), "collect"),
        (situation(1.0), "collect"),
        (situation(0.05, 0.3), "collect"),
        (situation(0.05, 0.3, **FAST), "hybrid"),
        (situation(1.0, 0.0, **FAST, expert_seconds=1.0, budget=20_000), "imitation"),
        (situation(1.0, 0.0, expert_seconds=1.0), "collect"),
    ],
)
def test_the_way_follows_from_the_numbers(where: Situation, answer: str) -> None:
    assert best(where) == answer


def test_an_expert_whose_answers_take_days_is_not_asked_everywhere() -> None:
    cheap, dear = (situation(1.0, 0.0, **FAST, expert_seconds=seconds) for seconds in (1.0, 10_000.0))
    points = [next(option for option in advice.rank(where) if option.way == "imitation").points for where in (cheap, dear)]
    assert points == [4, 1]
    assert best(dear) == "online"


def test_without_rewards_nothing_but_imitation_can_use_it() -> None:
    silent = replace(situation(0.05), quality=replace(USUAL, action_spread=0.05, return_std=0.0, findings=(), transitions=9_000))
    ranked = {option.way: option for option in advice.rank(replace(silent, steps_per_second=5_000.0, needed_steps=1_000_000_000))}
    assert best(silent) == "imitation"
    assert all("rewards" in str(ranked[way].impossible) for way in ("offline", "hybrid"))
    assert ranked["online"].impossible is None


def test_what_is_lacking_is_said_with_what_to_collect() -> None:
    def lacks(where: Situation) -> str:
        return " ".join(lack.what + lack.collect for lack in advice.find_lacks(where))

    assert "better policy" in lacks(situation(1.0, 0.0))
    assert "at random" in lacks(situation(0.05, 0.3))
    few = situation(0.8, 0.45)
    assert "few" in lacks(replace(few, quality=replace(few.quality, episodes=2)))
    assert advice.find_lacks(situation(0.8, 0.45)) == []


def test_a_copy_that_is_judged_worse_than_the_data_counts_against_imitation() -> None:
    def points(low: float, high: float) -> int:
        where = situation(0.05, 0.98, cloning=Cloning(1.0, 2.0, low, high))
        return next(option for option in advice.rank(where) if option.way == "imitation").points

    assert points(-2.0, -1.0) + 2 == points(-1.0, 1.0) + 1 == points(1.0, 2.0)


def test_every_reason_has_a_number_and_a_source_that_can_be_looked_up() -> None:
    cases = [situation(spread, grade, **FAST, **MIXED, budget=5) for spread in (0.05, 1.0) for grade in (0.0, 0.5, 0.9)]
    for where in [*cases, situation(0.5, 0.5, expert_seconds=2.0, **FAST)]:
        for option in advice.rank(where):
            assert option.points == sum(reason.points for reason in option.reasons)
            for reason in option.reasons:
                assert np.isfinite(reason.number)
                assert reason.source in references.REFERENCES or reason.source in ("measured", "given") or "benchmarks/" in reason.source


def _played(returns: list[float], starts: list[float]) -> "tuple[float | None, float | None]":
    made = []
    for place, (total, start) in enumerate(zip(returns, starts, strict=True)):
        observations = np.full((3, 2), start, np.float32) + place * 1e-4
        made.append(Episode(observations, np.zeros((2, 1), np.float32), np.array([total, 0.0], np.float32), False, True))
    return advice.measure_returns(join(made, BOX, TORQUE))


def test_two_kinds_of_episodes_are_told_from_starts_that_decide() -> None:
    draw = np.random.default_rng(0)
    kinds = [float(value) for value in np.where(draw.random(60) < 0.2, -100.0, -1_000.0) + draw.normal(0, 50, 60)]
    starts = [float(value) for value in draw.normal(0, 1, 60)]
    mixture, explained = _played(kinds, starts)
    assert mixture is not None
    assert explained is not None
    assert mixture > advice.TWO_KINDS
    assert explained < advice.BY_START
    assert _played(kinds, kinds)[1] > advice.BY_START  # type: ignore[operator]
    even = [float(value) for value in draw.normal(0, 1, 60)]
    assert _played(even, starts)[0] < advice.TWO_KINDS  # type: ignore[operator]


def test_few_or_equal_returns_say_nothing_about_kinds() -> None:
    assert _played([1.0, 2.0], [0.0, 1.0]) == (None, None)
    assert _played([1.0] * 30, [0.0] * 30) == (None, None)


@pytest.mark.parametrize(
    ("where", "suit"),
    [
        (situation(0.05, 0.98), {"bc"}),
        (situation(0.6, 0.92), {"bc", "td3_bc", "iql", "awac", "cql"}),
        (situation(0.8, 0.45), {"td3_bc", "iql", "awac", "cql"}),
        (situation(1.0, 0.2, **MIXED), {"bc with data.best", "dt", "td3_bc", "iql", "awac", "cql"}),
        (situation(1.0, 0.0), {"cql"}),
        (situation(0.05, 0.3), set()),
    ],
)
def test_which_algorithms_suit_follows_from_the_numbers(where: Situation, suit: set[str]) -> None:
    judged = advice.judge_algorithms(where, vectors=True)
    assert {each.algorithm for each in judged if each.suits} == suit
    assert all(each.why for each in judged)
    assert "td3_bc" not in {each.algorithm for each in advice.judge_algorithms(where, vectors=False)}


def test_no_algorithm_suits_damaged_data_or_next_to_none() -> None:
    good = situation(0.6, 0.92)
    error = quality.Finding("error", "not-finite", "3 rows hold numbers that are not finite", "leave them out")
    for where, why in (
        (replace(good, quality=replace(good.quality, findings=(error,))), "damaged"),
        (replace(good, quality=replace(good.quality, transitions=100)), "few"),
    ):
        judged = advice.judge_algorithms(where, vectors=True)
        assert not any(each.suits for each in judged)
        assert all(why in each.why for each in judged)
