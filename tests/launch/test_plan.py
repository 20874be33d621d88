from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlclinic.config import Config
from rlclinic.errors import UsageError
from rlclinic.launch.plan import MAX_MEMBERS, plan


def configs(count: int, n_steps: int = 64) -> list[Config]:
    base = Config.model_validate({"env": {"id": "CartPole-v1"}, "algo": {"name": "ppo", "n_steps": n_steps, "batch_size": 64}})
    return [base.model_copy(update={"seed": seed}) for seed in range(count)]


ONE = configs(1)


def sizes(cohorts: Sequence[Sequence[int]]) -> list[int]:
    return [len(cohort) for cohort in cohorts]


@pytest.mark.parametrize(
    ("runs", "cores", "expected"),
    [(8, 2, [4, 4]), (1, 2, [1]), (2, 2, [1, 1]), (3, 2, [2, 1]), (8, 1, [8]), (7, 4, [2, 2, 1, 2]), (3, 16, [1, 1, 1])],
)
def test_runs_of_one_shape_are_spread_over_the_cores(runs: int, cores: int, expected: list[int]) -> None:
    assert sorted(sizes(plan(configs(runs), cores))) == sorted(expected)


def test_a_cohort_on_a_cpu_has_at_most_64_members() -> None:
    assert sizes(plan(configs(200), 2)) == [50, 50, 50, 50]
    assert max(sizes(plan(configs(130), 1))) <= MAX_MEMBERS


def test_runs_of_two_shapes_never_share_a_cohort() -> None:
    mixed = [config for pair in zip(configs(4, 64), configs(4, 128), strict=True) for config in pair]
    assert plan(mixed, 2) == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_numbers_and_seeds_may_differ_within_a_cohort() -> None:
    first, second = configs(2)
    changed = second.model_copy(update={"algo": second.algo.model_copy(update={"learning_rate": 0.5})})
    assert plan([first, changed], 1) == [[0, 1]]


def test_a_gpu_takes_all_runs_of_a_shape_at_once() -> None:
    assert sizes(plan(configs(200), 2, "cuda")) == [200]


@settings(max_examples=30)
@given(runs=st.integers(1, 150), cores=st.integers(1, 16))
def test_every_run_is_planned_once_and_pieces_differ_by_one_at_most(runs: int, cores: int) -> None:
    cohorts = plan(ONE * runs, cores)
    assert sorted(position for cohort in cohorts for position in cohort) == list(range(runs))
    assert max(sizes(cohorts)) - min(sizes(cohorts)) <= 1
    assert runs > cores * MAX_MEMBERS or len(cohorts) <= cores


@pytest.mark.parametrize(("runs", "cores"), [(0, 2), (1, 0)])
def test_nothing_to_plan_is_refused(runs: int, cores: int) -> None:
    with pytest.raises(UsageError, match="nothing to plan"):
        plan(configs(runs), cores)
