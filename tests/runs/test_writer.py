import errno
import json
import math
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlclinic.config import Config
from rlclinic.errors import CheckpointCorrupt, DiskFailed, RunBusy, RunError
from rlclinic.runs import control, status_file, writer
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter

COLUMNS = ("time", "total_timesteps", "a", "b")


@pytest.fixture
def run(store: Store, make_config: Callable[..., Config]) -> Run:
    return store.create_group([make_config()]).runs[0]


def text(run: Run) -> str:
    return (run.path / "metrics.csv").read_text()


# ── rows ──


def test_rows_have_the_columns_order_and_blanks_where_nothing_was_given(run: Run) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        out.row({"b": 0.5, "total_timesteps": 10})
        out.row({"a": None, "time": 1.25})
    assert text(run) == "time,total_timesteps,a,b\n,10,,0.5\n1.25,,,\n"


@pytest.mark.parametrize(
    ("value", "cell"),
    [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf"), (True, "1"), (False, "0"), (-0.0, "-0.0"), (2**60, "1152921504606846976")],
)
def test_special_numbers_have_one_spelling(run: Run, value: float, cell: str) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        out.row({"a": value})
    assert text(run).splitlines()[1] == f",,{cell},"


def test_numpy_numbers_are_written_as_what_they_are(run: Run) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        out.row({"time": np.float32(0.1), "total_timesteps": np.int64(7), "a": np.float64(0.1), "b": np.bool_(True)})
    assert text(run).splitlines()[1] == "0.10000000149011612,7,0.1,1"


@given(numbers=st.lists(st.floats(allow_nan=False), min_size=4, max_size=4))
def test_a_float_reads_back_with_every_bit(numbers: list[float]) -> None:
    cells = writer._lines([tuple(numbers)], len(numbers))[0].decode().strip().split(",")
    assert [float(cell).hex() for cell in cells] == [number.hex() for number in numbers]


@pytest.mark.parametrize("value", ["text", "1", [1.0], {"x": 1}, b"1", 1j])
def test_what_is_no_number_is_refused_and_nothing_of_the_row_written(run: Run, value: object) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        with pytest.raises(RunError, match="holds numbers"):
            out.row({"a": value})
        out.row({"a": 1})
    assert text(run) == "time,total_timesteps,a,b\n,,1,\n"


def test_an_unknown_column_is_refused_with_the_nearest(run: Run) -> None:
    with RunWriter(run.path, ["total_timesteps", "train/loss/policy"]) as out, pytest.raises(RunError, match="nearest: train/loss/policy"):
        out.row({"train/loss/polcy": 1.0})


@pytest.mark.parametrize("columns", [[], ["a", "a"], ["a,b"], ["a\n"], [""], ['"a"']])
def test_columns_that_would_garble_the_table_are_refused(run: Run, columns: list[str]) -> None:
    with pytest.raises(RunError, match=r"metrics\.csv"):
        RunWriter(run.path, columns)


def test_rows_wait_for_a_flush_which_returns_the_tables_length(run: Run) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        empty = out.flush()
        out.row({"a": 1})
        assert len(run.metrics) == 0
        assert out.flush() == len(text(run)) == empty + len(",,1,\n")
        assert out.flush(sync=True) == len(text(run))


def test_rows_reach_the_disk_within_a_second_without_being_asked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(writer.time, "monotonic", lambda: now)
    with RunWriter(run.path, COLUMNS) as out:
        out.row({"a": 1})
        assert len(run.metrics) == 0
        now += 1.1
        out.row({"a": 2})
        assert len(run.metrics) == 2


# ── resuming ──


def test_a_resume_cuts_back_to_its_checkpoint_and_goes_on(run: Run) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        out.row({"a": 1})
        offset = out.flush()
        out.row({"a": 2})
    with (run.path / "metrics.csv").open("ab") as file:
        file.write(b",,99")  # a kill in the middle of a row
    with RunWriter(run.path, COLUMNS, offset) as out:
        out.row({"a": 3})
    assert run.metrics["a"].tolist() == [1, 3]
    assert run.status.resumes == 0  # nothing was reported yet


def test_a_resume_cuts_back_before_its_first_row(run: Run) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        out.row({"a": 1})
        offset = out.flush()
        out.row({"a": 2})
    out = RunWriter(run.path, COLUMNS, offset)
    assert run.metrics["a"].tolist() == [1]
    out.close()


def test_a_resume_with_other_columns_is_refused_and_changes_nothing(run: Run) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        out.row({"a": 1})
        offset = out.flush()
    before = text(run)
    with pytest.raises(RunError, match="other columns") as caught:
        RunWriter(run.path, (*COLUMNS[:-1], "new"), offset)
    assert "'new'" in str(caught.value)
    assert text(run) == before


def test_a_run_of_an_earlier_version_goes_on_under_its_own_header(run: Run) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        out.row({"a": 1})
        offset = out.flush()
    with RunWriter(run.path, ("time", "new", "total_timesteps", "a", "b"), offset) as out:
        assert out.columns == COLUMNS
        out.row({"a": 2, "b": 3, "new": 4})
    assert text(run).splitlines()[0] == ",".join(COLUMNS)
    assert run.metrics["a"].tolist() == [1, 2]
    assert run.metrics["b"].tolist()[1] == 3


def test_columns_in_another_order_are_other_columns(run: Run) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        out.row({"a": 1})
        offset = out.flush()
    with pytest.raises(RunError, match="other columns"):
        RunWriter(run.path, ("time", "total_timesteps", "b", "a"), offset)


@pytest.mark.parametrize("shift", [-1, 1, 1_000])
def test_an_offset_at_which_no_row_ends_is_refused(run: Run, shift: int) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        out.row({"a": 1})
        offset = out.flush()
        out.row({"a": 2})
    with pytest.raises(CheckpointCorrupt, match=f"byte {offset + shift}"):
        RunWriter(run.path, COLUMNS, offset + shift)
    assert run.metrics["a"].tolist() == [1, 2]


def test_starting_over_a_run_that_has_rows_is_refused_unless_asked_for(run: Run) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        out.row({"a": 1})
    with pytest.raises(RunError, match=f"--resume {run.id}"):
        RunWriter(run.path, COLUMNS)
    assert run.metrics["a"].tolist() == [1]
    with RunWriter(run.path, COLUMNS, 0) as out:
        out.row({"a": 2})
    assert run.metrics["a"].tolist() == [2]


def test_a_run_that_was_killed_before_its_first_row_starts_as_if_new(run: Run) -> None:
    (run.path / "metrics.csv").write_bytes(b"time,total_ti")
    with RunWriter(run.path, COLUMNS) as out:
        out.row({"a": 1})
    assert run.metrics["a"].tolist() == [1]


KILLED = """
import sys
from rlclinic.runs.writer import RunWriter
out = RunWriter(sys.argv[1], ["total_timesteps", "a", "b"])
print("ready", flush=True)
for step in range(10**9):
    out.row({"total_timesteps": step, "a": step / 7, "b": -step / 3})
    out.status("running", step)
    out.flush()
"""


def test_a_kill_at_any_moment_leaves_whole_rows_and_a_readable_status(run: Run) -> None:
    moments = random.Random(0)
    for _ in range(4):
        (run.path / "metrics.csv").unlink(missing_ok=True)
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(run.path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.02 + 0.1 * moments.random())
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        found = run.metrics
        assert found.skipped == 0
        assert found["total_timesteps"].tolist() == list(range(len(found)))
        assert found["a"].tolist() == [step / 7 for step in range(len(found))]
        assert run.status.state == "crashed"
        RunWriter(run.path, ["total_timesteps", "a", "b"], 0).close()


# ── failures ──


@pytest.mark.parametrize("taken", [0, 3])
def test_a_full_disk_loses_no_earlier_row_and_the_waiting_ones_can_be_written_later(
    run: Run, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    out = RunWriter(run.path, COLUMNS)
    out.row({"a": 1})
    out.flush()
    out.row({"a": 2})
    whole = os.pwrite

    def full(fd: int, data: bytes, offset: int) -> int:
        if len(data) > taken > 0:
            return whole(fd, data[:taken], offset)  # a disk that is nearly full takes a part
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(writer.os, "pwrite", full)
        with pytest.raises(DiskFailed, match="disk is full"):
            out.flush()
        assert text(run) == "time,total_timesteps,a,b\n,,1,\n"
    out.close()
    assert run.metrics["a"].tolist() == [1, 2]


def test_a_folder_that_was_removed_under_the_run_is_a_clear_error(run: Run, store: Store) -> None:
    out = RunWriter(run.path, COLUMNS)
    out.row({"a": 1})
    (run.path / "metrics.csv").unlink()
    with pytest.raises(DiskFailed, match="folder is gone"):
        out.flush()
    with pytest.raises(DiskFailed, match="folder is gone"):
        out.close()
    RunWriter(run.path, COLUMNS).close()  # the lock was let go all the same


def test_a_second_writer_is_refused_while_the_first_is_open(run: Run) -> None:
    out = RunWriter(run.path, COLUMNS)
    with pytest.raises(RunBusy, match=str(os.getpid())):
        RunWriter(run.path, COLUMNS)
    out.close()
    out.close()
    RunWriter(run.path, COLUMNS).close()


def test_a_writer_that_could_not_start_leaves_no_lock(run: Run) -> None:
    with pytest.raises(CheckpointCorrupt):
        RunWriter(run.path, COLUMNS, 10**6)
    RunWriter(run.path, COLUMNS).close()


# ── status, log, requests ──


def test_a_status_keeps_what_was_reported_before_and_names_the_process(run: Run) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        out.status("running", 10, best_eval=3.0)
        out.status("finished", 20, eval_mean=2.0)
    found = run.status
    assert (found.state, found.env_steps, found.best_eval, found.eval_mean) == ("finished", 20, 3.0, 2.0)
    assert found.pid == os.getpid()
    assert found.max_env_steps == 100_000
    assert found.started is not None


def test_a_run_that_says_it_has_ended_has_all_of_its_rows_on_the_disk(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is killed between the two would leave a finished run without its end."""
    rows_when_said = []
    write = status_file.write
    monkeypatch.setattr(
        status_file, "write", lambda path, status: (rows_when_said.append((status.state, text(run).count("\n"))), write(path, status))
    )
    with RunWriter(run.path, COLUMNS) as out:
        out.row({"total_timesteps": 10})
        out.row({"total_timesteps": 20})
        out.status("finished", 20)
    assert rows_when_said[-1] == ("finished", 3)


def test_a_running_status_is_replaced_twice_a_second_and_changes_at_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(writer.time, "monotonic", lambda: now)
    out = RunWriter(run.path, COLUMNS)
    steps = []
    for step, wait in ((1, 0.0), (2, 0.1), (3, 0.6), (4, 0.1)):
        now += wait
        out.status("running", step)
        steps.append(run.status.env_steps)
    assert steps == [1, 1, 3, 3]
    out.close()
    assert run.status.env_steps == 4


def test_a_resume_is_counted_and_forgets_why_the_run_had_stopped(run: Run) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        offset = out.flush()
        out.status("stopped", 5, reason="asked to")
    began = run.status.started
    with RunWriter(run.path, COLUMNS, offset) as out:
        out.status("running", 5)
        assert (run.status.resumes, run.status.reason, run.status.started) == (1, None, began)


@pytest.mark.parametrize(("state", "more"), [("resting", {}), ("crashed", {}), ("running", {"best_evel": 1.0})])
def test_states_and_fields_that_do_not_exist_are_refused(run: Run, state: str, more: dict[str, float]) -> None:
    with RunWriter(run.path, COLUMNS) as out, pytest.raises(RunError, match=r"is no state|has no field"):
        out.status(state, 1, **more)


def test_log_lines_carry_the_time_and_keep_their_order(run: Run) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        out.log("first\nsecond")
        out.log("third\n")
    lines = run.log.splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == ["first", "second", "third"]
    assert lines[0][:2] == "20"


def test_interventions_read_back_in_order_and_survive_half_a_line(run: Run) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        out.intervention({"env_steps": 1, "set": {"algo.gamma": 0.9}})
        with (run.path / "interventions.jsonl").open("a") as file:
            file.write('{"env_st')
        out.intervention({"env_steps": 2})
    assert [entry["env_steps"] for entry in run.interventions] == [1, 2]


def test_a_request_reaches_the_writer_once(run: Run) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        assert out.read_control() is None
        run.ask(numbers={"algo.gamma": 0.9})
        assert out.read_control() == {"set": {"algo.gamma": 0.9}}
        assert out.read_control() is None


def test_a_request_to_a_process_that_is_gone_does_not_stop_the_next_one(run: Run) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        offset = out.flush()
        out.status("running", 1)
    control.ask(run.path, stop=True)
    with RunWriter(run.path, COLUMNS, offset) as out:
        assert out.read_control() is None


def test_a_request_to_a_run_that_waits_is_kept_for_its_start(run: Run) -> None:
    control.ask(run.path, stop=True)
    with RunWriter(run.path, COLUMNS) as out:
        assert out.read_control() == {"stop": True}


def test_facts_are_added_to_the_record_and_settings_are_not_touched(run: Run) -> None:
    before = run.config
    with RunWriter(run.path, COLUMNS) as out:
        out.annotate(engine="eager", versions={"torch": "2"})
        with pytest.raises(RunError, match="algo belongs to the settings"):
            out.annotate(algo={"name": "a2c"})
    again = Run(run.path)
    assert (again.record["engine"], again.record["versions"]) == ("eager", {"torch": "2"})
    assert again.config == before


def test_a_status_that_nobody_reported_is_not_invented(run: Run) -> None:
    before = json.loads((run.path / "status.json").read_text())
    RunWriter(run.path, COLUMNS).close()
    assert json.loads((run.path / "status.json").read_text()) == before
    assert status_file.read(run.path).state == "queued"
