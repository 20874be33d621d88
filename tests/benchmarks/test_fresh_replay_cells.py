"""Off-policy runs that nobody had looked at: apart from the others in task and seed, and their first figure stays as it was."""

import pytest

from benchmarks.diagnosis import corpus, first_look, fresh_replay_cells, measure, replay_cells
from benchmarks.diagnosis.cells import Cell
from benchmarks.diagnosis.environments import docking, greenhouse
from rlclinic.diagnosis import causes


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    docking.register()
    greenhouse.register()
    return list(fresh_replay_cells.all_cells())


def test_no_task_or_seed_of_the_other_part_is_among_them_and_nothing_is_fitted(cells: list[Cell]) -> None:
    docking.register()
    others = list(replay_cells.all_cells())
    assert not {cell.task.id for cell in cells} & {cell.task.id for cell in others}
    assert not {seed for cell in cells for seed in cell.seeds} & {seed for cell in others for seed in cell.seeds}
    assert {cell.split for cell in cells} == {"test"}


def test_every_planted_fault_is_a_cause_that_can_be_named(cells: list[Cell]) -> None:
    named = {fault.cause for cell in cells for fault in cell.faults if fault.kind == "user"}
    assert len(named) >= 25
    assert named <= set(causes.table())


def test_what_is_recorded_are_these_cells(cells: list[Cell]) -> None:
    groups = [group for group in corpus.load(corpus.OFF_POLICY_FRESH) if group.about["labels"] != ["copied"]]
    assert {group.id for group in groups} == {cell.id for cell in cells}


WITHOUT_SUCCESS = frozenset({"td3-docking-continuous/healthy:mild-3/test"})
"""Healthy by its return, as it was judged at the first look: one of its seeds never docks as often as is required since success counts."""


@pytest.mark.parametrize("look", sorted(first_look.LOOKS))
def test_a_first_look_is_taken_once(look: str) -> None:
    with pytest.raises(SystemExit, match="taken once"):
        first_look.write(look, [], {})


@pytest.mark.parametrize("look", sorted(first_look.LOOKS))
def test_a_first_look_judged_the_groups_that_count_today_by_what_counts_as_right(look: str) -> None:
    everything = (*corpus.load(corpus.OFF_POLICY), *corpus.load(corpus.OFF_POLICY_FRESH))
    groups = {group.id: group for group in measure.counted(everything) if group.about["task"] in first_look.LOOKS[look]}
    seen = [each for each in first_look.load(look) if each.id not in WITHOUT_SUCCESS]
    assert {each.id: each.role for each in seen} == {id: group.role for id, group in groups.items()}
    assert all(each.right == (each.answers[0] in groups[each.id].accepted) for each in seen)


def test_a_group_whose_return_is_good_and_whose_success_is_not_is_no_healthy_one() -> None:
    (group,) = (group for group in corpus.load(corpus.OFF_POLICY_FRESH) if group.id in WITHOUT_SUCCESS)
    assert group.role == "unclear"
    assert min(run.series[corpus.RETURN].values.max() - (run.threshold or 0.0) for run in group.runs) > 0
    assert min(run.series["val/roll/success_rate"].values.max() for run in group.runs) < 0.9


def test_a_fault_of_each_task_is_still_named_first() -> None:
    picked = {}
    for group in corpus.load(corpus.OFF_POLICY_FRESH):
        if group.role == "fault" and group.causes == ("learning-rate-too-low",):
            picked[group.about["task"]] = measure.asked(group).right
    assert len(picked) >= 6
    assert all(picked.values())
