"""Features crossed two by two: every row of a cover trains, or is refused in words, and keeps all promises at once."""

import itertools
from pathlib import Path

import gymnasium
import pytest

from rlclinic.errors import ConfigError
from tests.crossings import environment
from tests.crossings.cover import FEATURES, Checked, Cover, Refused, Row, all_pairs, go_through, unusual, usual_task
from tests.training import cohorts

SAMPLE = 5
"""Rows of the cover that are checked with every commit; `-m loop` goes on from there."""
FOUND: dict[str, dict[str, str]] = {
    "LAMB with several critics": {"algorithm": "sac", "optimizer": "lamb"},
    "LAMB with the critics of recorded data": {"algorithm": "td3_bc", "optimizer": "lamb"},
    "a bonus where a vector environment resets in a step of its own": {"algorithm": "a2c", "task": "NEXT_STEP", "bonus": "rnd"},
    "a count where a vector environment resets in a step of its own": {"task": "NEXT_STEP", "bonus": "episodic_count", "copies": "3"},
    "a curriculum whose frames are stacked": {"task": "own", "wrapping": "stacked", "curriculum": "uniform"},
    "a curriculum whose reward terms have other weights": {"task": "own", "curriculum": "stages", "reports": "weights of terms"},
}
"""Combinations that were wrong once."""


def row_of(levels: dict[str, str]) -> Row:
    algorithm = levels.get("algorithm", "ppo")
    return {name: next(iter(each)) for name, each in FEATURES.items()} | {"task": usual_task(algorithm)} | levels


@pytest.mark.parametrize("name", FOUND)
def test_a_combination_that_was_wrong_once_keeps_all_promises(tmp_path: Path, name: str) -> None:
    Checked(row_of(FOUND[name]), tmp_path).check()


def test_the_first_rows_of_a_cover_train_or_are_refused_in_words(tmp_path: Path) -> None:
    cover, trained = Cover(seed=7), 0
    for number, row in enumerate(cover.rows()):
        checked = Checked(row, tmp_path / str(number))
        outcome, why = checked.judge()
        assert outcome != "failed", f"{unusual(row)}\n{why}"
        assert outcome == "trained" or "\n" in why, f"a bare refusal: {why}"
        cover.refuse(cover.missing[-1]) if outcome == "refused" else cover.trained(row)
        trained += outcome == "trained"
        if trained == SAMPLE:
            return


@pytest.mark.loop
def test_every_two_features_keep_all_promises_together(tmp_path: Path) -> None:
    failed = [each for each in go_through(tmp_path, seed=1, seconds=40 * 60) if each["outcome"] == "failed"]
    assert not failed


@pytest.mark.loop
@pytest.mark.parametrize("algorithm", ["a3c", "impala", "appo"])
@pytest.mark.parametrize("task", FEATURES["task"])
def test_actors_keep_all_promises_on_every_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, algorithm: str) -> None:
    monkeypatch.setitem(FEATURES, "actors", {"2": {"algo": {"n_actors": 2}}})
    report = "info" if task.startswith("own") else "none"
    outcome, why = Checked(row_of({"algorithm": algorithm, "task": task, "reports": report, "normalizers": "both"}), tmp_path).judge()
    assert outcome != "failed", why
    assert outcome == "trained" or "\n" in why, f"a bare refusal: {why}"


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "images beside numbers, for a learner of vectors": (
        {"algorithm": "td3", "task": "own, image and box"},
        "a picture with numbers beside it",
    ),
    "scaled rewards, for a learner that sees none": (
        {"algorithm": "dagger", "normalizers": "reward"},
        "learns from what an expert answers",
    ),
}
"""What was let through once, and broke in training."""


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_go_together_is_refused_in_words(tmp_path: Path, name: str) -> None:
    levels, words = REFUSED[name]
    with pytest.raises((ConfigError, Refused), match=words):
        Checked(row_of(levels), tmp_path).check()


def test_a_learner_of_choices_tells_a_hundred_thousand_apart(tmp_path: Path) -> None:
    class Many(environment.Crossed):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = gymnasium.spaces.Discrete(100_000)

    settings = {"max_env_steps": 104, "eval_episodes": 0}
    run = cohorts.train(tmp_path, [cohorts.make_config("dqn", {"id": "Many"}, run=settings, net={"hidden": [2]})], factory=Many)[0]
    assert run.status.state == "finished", run.status.reason


def test_a_cover_has_every_two_levels_or_says_that_they_are_refused() -> None:
    cover = Cover(seed=0, candidates=2)
    for row in itertools.islice(cover.rows(), 40):
        cover.trained(row)
    assert len(cover.covered) > 3_000
    assert {pair for pair in all_pairs() if pair not in cover.covered} == set(cover.missing) | (cover.refused - cover.covered)
