from pathlib import Path

import pytest

from rlclinic.config import Config
from rlclinic.errors import NotFound
from rlclinic.readers import run_folder
from rlclinic.readers.options import Options
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter


@pytest.fixture
def group(tmp_path: Path) -> Group:
    config = Config.model_validate({"name": "CartPole-v1:ppo", "env": {"id": "CartPole-v1"}})
    made = Store(tmp_path / "runs").create_group([config, config.model_copy(update={"seed": 1})])
    for run in made.runs:
        with RunWriter(run.path, ["total_timesteps", "time/fps"]) as writer:
            writer.row({"total_timesteps": 10, "time/fps": 5.0})
    return made


def test_a_run_its_metrics_a_group_and_a_store_are_read(group: Group) -> None:
    run = group.runs[0]
    for path, count in ((run.path, 1), (run.path / "metrics.csv", 1), (group.path, 2), (group.path.parent.parent, 2)):
        assert run_folder.matches(path)
        found = run_folder.read(path, Options())
        assert [history.source for history in found] == ["rlclinic"] * count
        assert found[0]["time/fps"].last == 5.0


def test_other_folders_are_not_ours(samples: Path, tmp_path: Path) -> None:
    assert not run_folder.matches(samples / "gymnasium_solver" / "a1b2c3d4")
    assert not run_folder.matches(samples / "sb3_ppo")
    assert not run_folder.matches(tmp_path / "missing")


def test_an_empty_store_has_nothing_to_read(tmp_path: Path) -> None:
    (tmp_path / "@groups").mkdir()
    with pytest.raises(NotFound, match="has no runs"):
        run_folder.read(tmp_path, Options())
