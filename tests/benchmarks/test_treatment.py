"""The treatment benchmarks' own arithmetic: starts are the same every time, wins are counted right, outcomes are gathered once."""

import random
from typing import Any

import pytest

from benchmarks.treatment import effects as effects_table
from benchmarks.treatment import optimize as searches
from rlclinic.config import from_record, to_record
from rlclinic.runs import trials
from rlclinic.runs.store import Store
from rlclinic.treatment.optimize import candidates, search
from tests.treatment.prescription.test_recorded_effects import record


@pytest.mark.parametrize("env_id", list(searches.TASKS))
def test_bad_starts_are_the_same_every_time_and_valid(env_id):
    first, again = (searches.drawn(env_id, random.Random(7)) for _ in range(2))
    assert first == again
    assert from_record(to_record(first)) == first
    assert first.spec.threshold == searches.TASKS[env_id]["threshold"]


def test_the_blind_methods_replace_the_proposals_and_put_them_back():
    before = candidates.candidates
    with searches.blind(False):
        assert candidates.candidates is not before
        assert search.SCREENED == searches.AT_A_TIME
    assert candidates.candidates is before
    assert search.SCREENED == 4


def cell(start: int, method: str, steps: int | None) -> dict[str, Any]:
    return {"start": start, "repetition": 0, "method": method, "steps": steps}


def test_a_win_is_fewer_steps_and_never_finding_it_is_no_win():
    results = [
        *(cell(0, "ours", 100), cell(0, "random", 200)),
        *(cell(1, "ours", None), cell(1, "random", 300)),
        *(cell(2, "ours", 100), cell(2, "random", None)),
        *(cell(3, "ours", None), cell(3, "random", None)),
    ]
    rows = searches.to_rows(results)
    assert len(rows) == 1
    assert (rows[0]["value"], rows[0]["unit"]) == (2, "of 4")


def test_a_trial_in_two_stores_counts_once(tmp_path):
    for name in ("a", "b"):
        store = Store(tmp_path / name)
        trials.folder(store, "t3f").mkdir(parents=True)
        trials.write(store, "t3f", record())
    assert len(effects_table.gathered([tmp_path / "a", tmp_path / "b"])) == 1


def test_searches_that_were_made_are_not_made_again_and_contests_stand_together():
    done = [{"start": 0, "repetition": 0, "method": "ours"}]
    todo = searches.tasks([0, 1], 2, ["ours", "random"], done)
    assert todo[:3] == [(0, 0, "random"), (1, 0, "ours"), (1, 0, "random")]
    assert len(todo) == 7
