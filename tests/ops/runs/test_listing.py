import os
from pathlib import Path

import pytest

from rlclinic.errors import NotFound, UsageError
from rlclinic.ops.runs import listing, series
from rlclinic.runs import status_file
from rlclinic.runs.record import Run
from tests.ops.recorded import add_checkpoint, flat, record_group


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_the_list_is_newest_first_and_says_how_many_there_are(root: Path) -> None:
    first = record_group(root, seeds=(0, 1))
    second = record_group(root, seeds=(0,), returns=flat)
    listed = listing.list_runs(root, limit=2)
    assert [row.id for row in listed.runs] == [f"{second.id}-s0", f"{first.id}-s1"]
    assert listed.total == 3
    assert listing.list_runs(root, limit=None).runs[-1].id == f"{first.id}-s0"


def test_the_list_can_be_narrowed_by_state_group_and_name(root: Path) -> None:
    group = record_group(root, seeds=(0, 1))
    record_group(root, seeds=(0,), state="failed", reason="NaN")
    assert listing.list_runs(root, state="failed").total == 1
    assert {row.group for row in listing.list_runs(root, group=group.id).runs} == {group.id}
    assert listing.list_runs(root, env="cartpole").total == 3
    assert listing.list_runs(root, env="Acrobot").total == 0


def test_a_row_says_what_the_run_reached(root: Path) -> None:
    record_group(root, seeds=(0,))
    row = listing.list_runs(root).runs[0]
    assert (row.name, row.state, row.env_steps, row.best_eval, row.threshold) == ("CartPole-v1:ppo", "finished", 10240, 500.0, 475.0)
    assert row.threshold_reached_at == 8192


def test_a_run_whose_process_is_gone_reads_as_crashed(root: Path) -> None:
    group = record_group(root, seeds=(0,), state="running", share_done=0.3)
    path = group.runs[0].path
    status_file.write(path, status_file.Status(state="running", pid=2**22 - 1, host=os.uname().nodename, env_steps=5))
    assert listing.list_runs(root).runs[0].state == "crashed"


def test_a_runs_facts_hold_its_config_curve_and_newest_metrics(root: Path) -> None:
    group = record_group(root, seeds=(4,))
    add_checkpoint(group.runs[0].path, 10240, best=True)
    info = listing.get_run_info(group.runs[0].id, root)
    assert info.config["algo"]["name"] == "ppo"
    assert "created" not in info.config
    assert info.latest["val/roll/ep_rew_mean"] == 500.0
    assert info.curve.seeds[0].seed == 4
    assert info.curve.return_range == (0.0, 500.0)
    assert [(row.step, row.best, row.last) for row in info.checkpoints] == [(10240, True, True)]
    assert info.wall_seconds == pytest.approx(10.0)


def test_metrics_are_found_by_a_part_of_their_name_and_explained(root: Path) -> None:
    record_group(root, seeds=(0,))
    table = series.get_run_metrics("@last", ["kl"], root)
    assert [series.name for series in table.series] == ["train/metrics/kl_divergence"]
    assert table.series[0].unit == "nats"
    assert table.series[0].meaning
    with pytest.raises(NotFound, match="nearest: train/metrics/entropy"):
        series.get_run_metrics("@last", ["train/metrics/entropyy"], root)


def test_thinning_keeps_a_spike_of_one_row(root: Path) -> None:
    import numpy as np

    values = np.zeros(1_000)
    values[617] = 9.0
    steps, kept = series.thin(np.arange(1_000.0), values, 20)
    assert len(kept) <= 20
    assert kept.max() == 9.0
    assert 617 in steps


def test_metrics_can_be_limited_to_a_range_of_steps(root: Path) -> None:
    record_group(root, seeds=(0,))
    found = series.get_run_metrics("@last", ["val/roll/ep_rew_mean"], root, from_step=5_000, to_step=8_000).series[0]
    assert (min(found.steps), max(found.steps)) == (5120.0, 7168.0)


def test_a_run_without_rows_has_facts_but_no_curve(root: Path) -> None:
    from rlclinic.config import files
    from rlclinic.runs.store import Store

    Store(root).create_group([files.load("CartPole-v1:ppo").config])
    info = listing.get_run_info("@last", root)
    assert info.run.state == "queued"
    assert info.curve.steps == []
    assert series.get_run_metrics("@last", [], root).series == []


def test_the_log_is_cut_to_its_last_lines(root: Path) -> None:
    record_group(root, seeds=(0,))
    log = listing.get_run_logs("@last", root, lines=1)
    assert log.total_lines == 2
    assert log.lines[0].endswith("finished at env step 10240")


def test_removing_names_everything_first_and_deletes_nothing_on_a_wrong_name(root: Path) -> None:
    group = record_group(root, seeds=(0, 1))
    with pytest.raises(NotFound, match="no run or group 'zzz'"):
        listing.remove_runs([group.id, "zzz"], root)
    planned = listing.remove_runs([group.id, group.runs[0].id], root, dry_run=True)
    assert (len(planned.runs), planned.groups, planned.deleted) == (2, [group.id], False)
    assert all(run.path.exists() for run in group.runs)
    assert listing.remove_runs([group.id], root).deleted
    assert listing.list_runs(root).total == 0


def test_a_checkpoint_cannot_be_removed_alone(root: Path) -> None:
    group = record_group(root, seeds=(0,))
    add_checkpoint(group.runs[0].path, 5120)
    with pytest.raises(UsageError, match="runs are removed as a whole"):
        listing.remove_runs([f"{group.runs[0].id}@5120"], root)


def test_a_shell_is_offered_words_groups_and_runs(root: Path) -> None:
    group = record_group(root, seeds=(0, 1))
    assert listing.complete_selector("@", root) == ["@last", "@best", "@running"]
    assert listing.complete_selector(group.id, root) == [group.id, f"{group.id}-s1", f"{group.id}-s0"]
    assert listing.complete_selector("nothing", root) == []


def test_a_damaged_checkpoint_is_listed_as_such(root: Path) -> None:
    run: Run = record_group(root, seeds=(0,)).runs[0]
    add_checkpoint(run.path, 5120)
    assert listing.list_checkpoints(run.id, root).checkpoints[0].valid
    (run.path / "checkpoints" / "5120" / "state.json").write_text("damaged")
    assert not listing.list_checkpoints(run.id, root).checkpoints[0].valid
