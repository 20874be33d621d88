"""A run's way through stages: when it goes on, when it goes back, what it plays meanwhile."""

import numpy as np
import pytest

from rlclinic.curriculum import make_sampler
from rlclinic.curriculum.stages import WAITING, Staircase
from tests.curriculum.agents import STAGES, episodes, make_config


def make(n_envs: int = 4, budget: int = 100_000, **settings) -> Staircase:
    sampler = make_sampler(make_config(**settings), n_envs, budget)
    assert isinstance(sampler, Staircase)
    return sampler


def give(sampler: Staircase, task: int, success: bool, count: int, n_envs: int = 4, at: int = 1) -> list[str]:
    return sampler.add(episodes(*((k % n_envs, task, success) for k in range(count))), at)


def test_a_run_begins_in_the_first_stage_alone():
    assert make().chances.tolist() == [1.0, 0.0, 0.0]


def test_a_mastered_stage_is_left_and_rehearsed():
    sampler = make()
    said = give(sampler, 0, True, 100, at=500)
    assert sampler.stage == 1
    assert sampler.chances.tolist() == pytest.approx([0.15, 0.85, 0.0])
    assert len(said) == 1
    assert "stage 1 (small) is mastered: 100 of 100" in said[0]
    give(sampler, 1, True, 100)
    assert sampler.chances.tolist() == pytest.approx([0.075, 0.075, 0.85])


def test_no_stage_is_left_before_its_least_number_of_episodes():
    stages = [{**STAGES[0], "min_episodes": 300}, *STAGES[1:]]
    sampler = make(stages=stages)
    give(sampler, 0, True, 299)
    assert sampler.stage == 0
    give(sampler, 0, True, 101)
    assert sampler.stage == 1


def test_the_last_stage_is_never_left():
    sampler = make()
    for stage in range(3):
        give(sampler, stage, True, 300)
    assert sampler.stage == 2
    assert give(sampler, 2, True, 300, at=10**9) == []


def test_one_slow_environment_holds_the_decision_back_and_loses_nothing_it_should_count():
    sampler = make()
    # Three fast environments succeed for ever; the fourth has not finished its first episode.
    sampler.add(episodes(*((k % 3, 0, True) for k in range(1_000))), 1)
    assert sampler.stage == 0
    assert "train/curriculum/success" not in sampler.cells()
    sampler.add(episodes(*((3, 0, False) for _ in range(WAITING))), 2)
    assert sampler.stage == 0
    assert sampler.cells()["train/curriculum/success"] == pytest.approx(0.75)


def test_a_stage_that_is_not_mastered_is_left_after_its_share_of_the_budget():
    sampler = make(budget=9_000)
    assert give(sampler, 0, False, 50, at=2_999) == []
    said = give(sampler, 0, False, 50, at=3_000)
    assert "left after 3000 env steps although it is not mastered" in said[0]
    assert sampler.cells()["train/curriculum/escapes"] == 1
    assert sampler.cells()["train/curriculum/promotions"] == 0


@pytest.mark.parametrize(("after", "expected"), [(0.5, 4_500), (700, 700)])
def test_an_escape_is_a_share_of_the_budget_or_a_number_of_env_steps(after: float, expected: int):
    sampler = make(budget=9_000, escape_after=after)
    sampler.add(episodes(), expected - 1)
    assert sampler.stage == 0
    sampler.add(episodes(), expected)
    assert sampler.stage == 1


def test_a_forgotten_stage_is_gone_back_to():
    sampler = make()
    give(sampler, 0, True, 100)
    said = give(sampler, 0, False, 100, at=900)
    assert sampler.stage == 0
    assert "is forgotten: 0 of the last 25" in said[0]
    assert sampler.cells()["train/curriculum/demotions"] == 1
    give(sampler, 0, True, 200)
    assert sampler.stage == 1


def test_rehearsal_that_still_goes_well_enough_takes_nothing_back():
    sampler = make()
    give(sampler, 0, True, 100)
    random = np.random.default_rng(0)
    for _ in range(100):
        sampler.add(episodes(*((0, 0, random.random() < 0.55) for _ in range(20))), 10)
    assert sampler.stage == 1


def test_a_stage_that_was_escaped_from_cannot_be_forgotten():
    sampler = make(budget=300)
    give(sampler, 0, False, 40, at=100)
    give(sampler, 0, False, 400, at=101)
    assert sampler.stage == 1


def test_nothing_is_taken_back_where_that_is_switched_off():
    sampler = make(demote_below=0)
    give(sampler, 0, True, 100)
    give(sampler, 0, False, 400)
    assert sampler.stage == 1


def test_a_sampler_goes_on_from_its_state_at_any_moment():
    random = np.random.default_rng(1)
    whole, resumed = make(), make()
    for turn in range(200):
        ended = episodes(*((k, whole.stage if random.random() < 0.8 else 0, random.random() < 0.5 + turn / 300) for k in range(4)))
        assert whole.add(ended, turn) == resumed.add(ended, turn)
        again = make()
        again.load(resumed.state())
        resumed = again
        assert {name: each.tolist() for name, each in whole.state().items()} == {n: each.tolist() for n, each in resumed.state().items()}
    assert whole.stage == 2
    assert whole.cells() == resumed.cells()
