"""The off-policy part of the corpus: enough kinds of faults, severities apart, and what is recorded is what the cells say."""

from collections import defaultdict

import pytest

from benchmarks.diagnosis import corpus, replay_cells
from benchmarks.diagnosis.cells import Cell
from benchmarks.diagnosis.environments import docking
from benchmarks.diagnosis.measure import asked
from rlclinic.diagnosis import causes


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    docking.register()
    return list(replay_cells.all_cells())


def test_there_are_at_least_twelve_user_faults_and_each_is_a_cause(cells: list[Cell]) -> None:
    named = {fault.cause for cell in cells for fault in cell.faults if fault.kind == "user"}
    assert len(named) >= 12
    assert named <= set(causes.table())


def test_no_severity_is_both_fitted_and_measured(cells: list[Cell]) -> None:
    splits: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for cell in cells:
        for fault in cell.faults:
            splits[cell.task.id, fault.cause, fault.label].add(cell.split)
    assert all(len(split) == 1 for split in splits.values())
    assert {cell.split for cell in cells if cell.task.split == "test"} == {"test"}
    assert not {seed for cell in cells if cell.split == "fit" for seed in cell.seeds} & {
        seed for cell in cells if cell.split == "test" for seed in cell.seeds
    }


def test_what_is_recorded_are_cells_of_this_list(cells: list[Cell]) -> None:
    known = {cell.id for cell in cells}
    groups = [group for group in corpus.load(corpus.OFF_POLICY) if group.about["labels"] != ["copied"]]
    assert len(groups) >= 90
    assert {group.id for group in groups} <= known


def test_three_of_four_faults_of_an_environment_that_nobody_fitted_are_named_first() -> None:
    groups = [
        g for g in corpus.load(corpus.OFF_POLICY) if g.about["task"] == "dqn-docking" and g.role == "fault" and g.about["kind"] == "user"
    ]
    answers = [asked(group) for group in groups]
    assert len(answers) >= 15
    assert sum(answer.right for answer in answers) >= 0.75 * len(answers)
