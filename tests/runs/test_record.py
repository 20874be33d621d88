import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rlclinic.config import Config
from rlclinic.errors import NotFound, RunError
from rlclinic.runs import disk
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store
from tests.runs.conftest import MakeGroup


@pytest.fixture
def group(make_group: MakeGroup) -> Group:
    return make_group([[10.0, 500.0], [20.0, None, 30.0]])


def checkpoint(run: Run, step: int, *links: str, manifest: bool = True) -> Path:
    folder = run.path / "checkpoints" / str(step)
    folder.mkdir(parents=True)
    (folder / "policy.safetensors").write_bytes(b"weights")
    (folder / "state.json").write_text("{}")
    if manifest:
        files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
        disk.write_json(folder / "manifest.json", files)
    for link in links:
        disk.point(run.path / "checkpoints" / link, str(step))
    return folder


def test_a_run_knows_what_it_was_asked_to_do(group: Group, make_config: Callable[..., Config]) -> None:
    run = group.runs[1]
    assert run.config == make_config(seed=1)
    assert (run.id, run.seed, run.env_id, run.algo, run.name) == (f"{group.id}-s1", 1, "CartPole-v1", "ppo", "CartPole-v1:ppo")
    assert (run.threshold, run.group_id, run.parent) == (475.0, group.id, None)
    assert run.group == group


def test_settings_lie_in_config_json_as_they_do_in_yaml(group: Group) -> None:
    record = json.loads((group.runs[0].path / "config.json").read_text())
    assert record["env"]["id"] == "CartPole-v1"
    assert record["run"]["max_env_steps"] == 100_000
    assert record["schema_version"] == 1
    assert record["versions"]["python"] == sys.version.split()[0]


def test_a_group_knows_its_members_and_their_config(group: Group, make_config: Callable[..., Config]) -> None:
    again = Group(group.path)
    assert again.seeds == [0, 1]
    assert again.config == make_config(seed=0)
    assert "seed" not in again.record
    assert not again.live
    assert {again, group} == {group}


def test_evaluations_are_the_rows_in_which_one_was_made(group: Group) -> None:
    steps, mean, std = group.runs[1].evaluations
    assert steps.tolist() == [10_000, 30_000]
    assert mean.tolist() == [20.0, 30.0]
    assert std.tolist() == [1.0, 1.0]


def test_the_latest_numbers_come_from_the_tables_end(group: Group) -> None:
    assert group.runs[0].latest["val/roll/ep_rew_mean"] == 500.0


def test_checkpoints_are_in_order_with_best_and_last_marked(group: Group) -> None:
    run = group.runs[0]
    assert run.checkpoints == []
    checkpoint(run, 9_000, "@best")
    checkpoint(run, 10_000, "@last")
    (run.path / "checkpoints" / ".11000.77").mkdir()  # left by a kill
    found = run.checkpoints
    assert [(each.step, each.best, each.last, each.valid) for each in found] == [(9_000, True, False, True), (10_000, False, True, True)]
    assert run.checkpoint("@best").step == run.checkpoint("9000").step == 9_000
    assert run.checkpoint().step == 10_000
    assert run.checkpoint().run is run


def test_a_missing_checkpoint_lists_those_there_are(group: Group) -> None:
    checkpoint(group.runs[0], 9_000)
    with pytest.raises(NotFound, match="there: 9000"):
        group.runs[0].checkpoint("10000")
    with pytest.raises(NotFound, match="there: none"):
        group.runs[1].checkpoint("@best")


@pytest.mark.parametrize("damage", ["no manifest", "changed", "missing", "manifest cut"])
def test_a_damaged_checkpoint_is_not_valid(group: Group, damage: str) -> None:
    folder = checkpoint(group.runs[0], 1, manifest=damage != "no manifest")
    if damage == "changed":
        (folder / "policy.safetensors").write_bytes(b"weighte")
    elif damage == "missing":
        (folder / "policy.safetensors").unlink()
    elif damage == "manifest cut":
        (folder / "manifest.json").write_bytes((folder / "manifest.json").read_bytes()[:40])
    assert [each.valid for each in group.runs[0].checkpoints] == [False]


def test_a_folder_that_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no config\.json"):
        Run(tmp_path).record  # noqa: B018
    with pytest.raises(NotFound, match=r"no group\.json"):
        Group(tmp_path).record  # noqa: B018


def test_a_damaged_record_and_one_of_a_newer_version_say_so(group: Group) -> None:
    run = group.runs[0]
    (run.path / "config.json").write_text("{")
    with pytest.raises(RunError, match="not JSON any more"):
        Run(run.path).config  # noqa: B018
    disk.write_json(run.path / "config.json", {"schema_version": 99})
    with pytest.raises(RunError, match="newer rlclinic"):
        Run(run.path).config  # noqa: B018


def test_a_run_without_its_store_stands_alone(group: Group, tmp_path: Path) -> None:
    moved = group.runs[0].path.rename(tmp_path / "elsewhere")
    assert Run(moved).group is None
    assert Run(moved).metrics["val/roll/ep_rew_mean"].tolist() == [10.0, 500.0]
    assert [run.seed for run in Group(group.path).runs] == [1]


def test_reports_are_replaced_beside_the_run(group: Group) -> None:
    group.write_report("report.md", "old")
    assert group.write_report("report.md", "new").read_text() == "new"
    assert group.runs[0].write_report("curve.png", b"\x89PNG").read_bytes() == b"\x89PNG"


def test_missing_files_read_as_nothing(store: Store, make_config: Callable[..., Config]) -> None:
    run = store.create_group([make_config()]).runs[0]
    assert run.log == ""
    assert run.interventions == []
    assert run.latest == {}
    assert len(run.metrics) == 0
    assert all(len(part) == 0 for part in run.evaluations)
    assert run.status.state == "queued"


def test_standard_deviations_are_nan_where_a_table_has_none(group: Group) -> None:
    run = group.runs[0]
    (run.path / "metrics.csv").write_text("total_timesteps,val/roll/ep_rew_mean\n1,2\n")
    np.testing.assert_array_equal(run.evaluations[2], [np.nan])


def test_listing_runs_needs_neither_numpy_nor_pydantic(group: Group, store: Store) -> None:
    code = (
        "import sys; from rlclinic.runs.store import Store\n"
        "runs = Store(sys.argv[1]).runs(); print(len(runs), [run.status.state for run in runs])\n"
        "print(sorted({'numpy', 'pydantic', 'torch'} & sys.modules.keys()))"
    )
    shown = subprocess.run([sys.executable, "-c", code, str(store.root)], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == ["2 ['finished', 'finished']", "[]"]
