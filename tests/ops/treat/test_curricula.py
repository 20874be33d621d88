"""Trials of the task itself: a curriculum that chooses has the uniform one beside it, and what `explore` prescribes can be tried."""

from pathlib import Path

import pytest

import rlclinic
from rlclinic.config import set_values
from rlclinic.ops.tasks.explore import explore
from rlclinic.ops.treat import arms
from rlclinic.ops.treat.requests import TrialRequest

SIZES = "curriculum={{kind: {kind}, parameter: size, range: [5, 9], bins: 3}}"


def arms_of(target: str, *changes: str, **more: object) -> dict[str, tuple[str, ...]]:
    resolved = arms.resolve(TrialRequest(targets=[target], changes=list(changes), **more))
    return {arm.name: arm.changes for arm in (resolved.control, *resolved.treatments)}


@pytest.mark.parametrize("kind", ["learnability", "alp_gmm", "plr"])
def test_a_curriculum_that_chooses_is_tried_beside_the_uniform_one(kind: str) -> None:
    found = arms_of("Maze-v0:ppo", SIZES.format(kind=kind))
    assert list(found) == ["control", "change", "uniform"]
    assert found["uniform"] == tuple(change.replace(kind, "uniform") for change in found["change"])


def test_the_uniform_one_is_not_tried_twice_nor_where_nothing_is_chosen(tmp_path: Path) -> None:
    maze = tmp_path / "maze.yaml"
    maze.write_text("env: {id: Maze-v0}\n" + SIZES.format(kind="uniform").replace("=", ": ", 1) + "\n")
    assert list(arms_of(str(maze), "curriculum.kind=learnability")) == ["control", "change"]
    assert list(arms_of("Maze-v0:ppo", SIZES.format(kind="uniform"))) == ["control", "change"]
    assert list(arms_of("Maze-v0:ppo", "algo.learning_rate=1e-4")) == ["control", "change"]
    # Both sides choose alike: what is asked is something else.
    maze.write_text(maze.read_text().replace("uniform", "learnability"))
    assert list(arms_of(str(maze), "algo.learning_rate=1e-4")) == ["control", "change"]


def test_what_explore_prescribes_can_be_tried_as_it_is_said(tmp_path: Path) -> None:
    small = ["run.max_env_steps=2560", "run.eval_every_env_steps=1280", "run.eval_episodes=2", "algo.n_epochs=1"]
    group = rlclinic.train("DeepSea-v0:ppo", seeds=2, overrides=small, runs_dir=tmp_path)
    report = explore(group.id, tmp_path)
    assert (report.verdict, report.prescription) == ("BOTTLENECK", {"bonus.kind": "count", "bonus.coef": 0.1})
    assert report.next == f"rlclinic trial {group.id} --set bonus.kind=count --set bonus.coef=0.1"
    changes = ["bonus.kind=count", "bonus.coef=0.1"]
    resolved = arms.resolve(TrialRequest(targets=[group.id], changes=changes, runs_dir=tmp_path))
    (arm,) = resolved.treatments
    assert arm.changes == ("bonus.kind=count", "bonus.coef=0.1")
    assert resolved.control.config is not None
    assert arm.config == set_values(resolved.control.config, changes)
