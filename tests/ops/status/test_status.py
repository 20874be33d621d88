from pathlib import Path

import pytest

from rlclinic.errors import ConfigError, NotFound, UsageError
from rlclinic.ops.status import status
from rlclinic.report.models import LiveGroup
from rlclinic.report.status import standing
from rlclinic.runs import control
from tests.ops.recorded import add_checkpoint, record_group


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_a_running_group_is_observed_with_rate_and_time_left(root: Path) -> None:
    group = record_group(root, seeds=(0, 1), state="running", share_done=0.5)
    seen = status.observe(group)
    assert (seen.state, seen.env_steps, seen.max_env_steps) == ("running", 5120, 10240)
    assert seen.steps_per_second == 10_000
    assert seen.eta_seconds == pytest.approx(2 * 5120 / 10_000)
    member = seen.members[1]
    assert (member.seed, member.kl, member.explained_variance) == (1, 0.01, 0.5)
    assert member.entropy == pytest.approx(0.48)
    assert seen.return_mean.low is not None


def test_the_pace_is_measured_over_the_last_seconds(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = status.observe(record_group(root, seeds=(0, 1), state="running", share_done=0.1))
    clock = iter([0.0, 2.0, 4.0, 100.0])
    monkeypatch.setattr(status.time, "monotonic", lambda: next(clock))

    def at(steps: int) -> LiveGroup:
        return seen.model_copy(update={"members": [member.model_copy(update={"env_steps": steps}) for member in seen.members]})

    pace = status.Pace(window_seconds=10.0)
    assert seen.eta_seconds is not None
    begun = pace(at(1_000))
    assert begun.steps_per_second == seen.steps_per_second
    assert begun.eta_seconds is None, "the first rows took as long as the start did"
    assert pace(at(2_000)).steps_per_second == 2 * 1_000 / 2
    assert pace(at(3_000)).eta_seconds == pytest.approx(2 * (10_240 - 3_000) / 1_000)
    assert pace(at(3_960)).steps_per_second == 2 * 960 / 96


def test_one_seed_has_no_interval_and_no_seed_has_no_estimate() -> None:
    assert status.estimate([3.0]).model_dump() == {"value": 3.0, "low": None, "high": None}
    assert status.estimate([]).value is None


def test_without_a_name_status_shows_what_runs_now_else_the_last_group(root: Path) -> None:
    running = record_group(root, seeds=(0,), state="running", share_done=0.2)
    record_group(root, seeds=(0,))
    assert [group.id for group in status.get_training_status(None, root).groups] == [running.id]
    assert [group.id for group in status.get_training_status("@running", root).groups] == [running.id]
    other = root.parent / "other"
    last = record_group(other, seeds=(0,))
    assert [group.id for group in status.get_training_status(None, other).groups] == [last.id]
    with pytest.raises(NotFound, match="nothing is running"):
        status.get_training_status("@running", other)


def test_a_group_with_a_failed_member_reads_as_failed_only_when_nothing_runs(root: Path) -> None:
    assert status._joint(["finished", "failed", "running"]) == "running"
    assert status._joint(["finished", "failed", "stopped"]) == "failed"
    assert status._joint(["finished", "finished"]) == "finished"


def test_stop_asks_live_runs_and_leaves_the_others_alone(root: Path) -> None:
    group = record_group(root, seeds=(0, 1), state="running", share_done=0.2)
    asked = status.stop(group.id, root)
    assert asked.runs == [run.id for run in group.runs]
    assert all(control.pending(run.path) == {"stop": True} for run in group.runs)
    ended = record_group(root, seeds=(0,))
    with pytest.raises(NotFound, match="none of these runs is training now"):
        status.stop(ended.id, root)
    assert control.pending(ended.runs[0].path) is None


def test_adjust_writes_numbers_typed_by_the_schema(root: Path) -> None:
    group = record_group(root, seeds=(0,), state="running", share_done=0.2)
    asked = status.adjust("@running", ["ent_coef=1e-2", "algo.clip_range=0.1"], root)
    assert asked.changes == {"algo.ent_coef": 0.01, "algo.clip_range": 0.1}
    assert control.pending(group.runs[0].path) == {"set": asked.changes}


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        (["n_steps=64"], ConfigError, r"algo.n_steps cannot change while a run is running[\s\S]*@STEP"),
        (["env.n_envs=4"], ConfigError, "env.n_envs cannot change"),
        (["learning_rat=1"], ConfigError, "learning_rate"),
        (["gamma=0.98"], UsageError, "nothing would change"),
        ([], UsageError, "adjust needs something to change"),
    ],
)
def test_adjust_refuses_what_is_no_number_or_no_change(root: Path, changes: list[str], error: type[Exception], text: str) -> None:
    group = record_group(root, seeds=(0,), state="running", share_done=0.2)
    with pytest.raises(error, match=text):
        status.adjust(group.id, changes, root)
    assert control.pending(group.runs[0].path) is None


def test_a_checkpoint_cannot_be_stopped(root: Path) -> None:
    group = record_group(root, seeds=(0,), state="running", share_done=0.5)
    add_checkpoint(group.runs[0].path, 5120)
    with pytest.raises(UsageError, match="is a checkpoint"):
        status.stop(f"{group.runs[0].id}@5120", root)


def test_success_is_shown_where_the_environment_reports_it(root: Path) -> None:
    from rlclinic.report.status import list_members
    from rlclinic.serve.cli import progress

    seen = status.observe(record_group(root, seeds=(0, 1), state="running", share_done=0.5))
    assert "success" not in progress.plain_line(seen)
    rates = [0.25, 0.75]
    members = [member.model_copy(update={"success_rate": rate}) for member, rate in zip(seen.members, rates, strict=True)]
    reported = seen.model_copy(update={"members": members})
    assert "eval 325  success 75 %" in progress.plain_line(reported)
    assert [column.header for column in progress.member_table(reported).columns][4] == "success"
    assert [row[5] for row in list_members(reported).rows] == ["25 %", "75 %"]


def test_a_return_that_is_there_without_the_success_that_is_required_does_not_look_like_a_slip(root: Path) -> None:
    """ "0 of 2 seeds reached 15 · return 28.4" left out what was missing."""
    group = status.get_training_status(record_group(root, seeds=(0,), returns=lambda seed, share: 480.0).id, root).groups[0]
    assert group.outlook is not None
    assert group.required_success is None
    asked = group.model_copy(update={"required_success": 0.9})
    assert "reached 475 and 90 % success" in standing(asked, group.outlook)
    assert "reached 475 ·" in standing(group, group.outlook)
