"""Where time went: processes, stragglers and costs out of rows whose times are known."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from rlclinic.config import files
from rlclinic.errors import DiskFailed, NotFound
from rlclinic.ops.jobs import efficiency
from rlclinic.ops.jobs.audit import Caller
from rlclinic.ops.jobs.models import Job, save
from rlclinic.report import charts
from rlclinic.report.format import duration
from rlclinic.report.jobs import efficiency as report
from rlclinic.runs import jobs
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter
from rlclinic.serve.cli.app import app

BEGAN = 1.0e9
PHASES = {"time/env": 0.5, "time/act": 0.1, "time/learn": 0.2, "time/eval": 0.0, "time/write": 0.1}
COLUMNS = ["time", "total_timesteps", "epoch", "total_episodes", *PHASES]


def record(root: Path, *runs: tuple[int, float, int], solved: int = 0, state: str = "finished") -> Group:
    """A group of runs, each with (process, seconds after the first, rows of one second)."""
    config = files.load("CartPole-v1:ppo_zoo", ["run.max_env_steps=10240"]).config
    group = Store(root).create_group([config.model_copy(update={"seed": seed}) for seed in range(len(runs))])
    for place, (run, (process, after, rows)) in enumerate(zip(group.runs, runs, strict=True)):
        with RunWriter(run.path, COLUMNS) as writer:
            for row in range(rows):
                writer.row(
                    {
                        "time": BEGAN + after + row + 0.9,
                        "total_timesteps": 100 * (row + 1),
                        "epoch": row + 1,
                        "total_episodes": row,
                        **PHASES,
                    }
                )
            writer.status(state, 100 * rows, **({"threshold_reached_at": 100} if place < solved else {}))
        file = run.path / "status.json"
        known = json.loads(file.read_text())
        file.write_text(json.dumps({**known, "pid": 100 + process, "process_started": 1, "host": "node", "started": BEGAN + after}))
    return Group(group.path)


def test_members_of_a_process_share_its_time_and_a_straggler_is_named(tmp_path: Path) -> None:
    group = record(tmp_path, (0, 0, 10), (0, 0, 4), (1, 0, 10), (2, 0, 20), solved=2)
    found = efficiency.report_efficiency(group.id, tmp_path)
    assert [one.runs for one in found.processes] == [[group.runs[0].id, group.runs[1].id], [group.runs[2].id], [group.runs[3].id]]
    assert [round(one.seconds, 1) for one in found.processes] == [9.9, 9.9, 19.9]
    assert [one.straggles for one in found.processes] == [False, False, True]
    assert (found.places, found.ended, found.waited_seconds) == (3, True, None)
    assert found.process_seconds == pytest.approx(39.7)
    assert found.idle_share == pytest.approx(1 - 39.7 / (3 * 19.9))
    assert found.communication_share == pytest.approx(0.1, rel=0.02)
    assert sum(found.phases.values()) == pytest.approx(1.0)
    assert found.phases["env"] == pytest.approx(0.5, rel=0.02)
    assert (found.solved, found.env_steps) == (2, 4_400)
    assert found.process_seconds_per_solved_run == pytest.approx(39.7 / 2)
    assert found.with_one_more_place_seconds is None
    (said,) = [text for text in found.findings if group.runs[3].id in text]
    assert f"for {duration(10.0)} after" in said


def test_one_place_more_is_worth_what_its_processes_would_wait_less(tmp_path: Path) -> None:
    group = record(tmp_path, (0, 0, 10), (1, 10, 10), (2, 20, 10), (3, 30, 10))
    found = efficiency.report_efficiency(group.id, tmp_path)
    assert (found.places, found.idle_share) == (1, pytest.approx(0.0, abs=0.02))
    assert found.with_one_more_place_seconds == pytest.approx(found.wall_seconds / 2, rel=0.02)
    assert any("one place more" in text for text in found.findings)
    assert found.process_seconds_per_solved_run is None


def test_a_job_says_how_long_it_waited_and_is_asked_by_its_own_name(tmp_path: Path) -> None:
    group = record(tmp_path, (0, 0, 5), state="running")
    store = Store(tmp_path)
    job = Job(
        id=jobs.reserve(store), kind="training", state="finished", by=Caller(), digest="d", request={}, created=BEGAN - 90, refers=group.id
    )
    save(store, job)
    found = efficiency.report_efficiency(job.id, tmp_path)
    assert found.waited_seconds == pytest.approx(90.0)
    assert efficiency.report_efficiency("@last", tmp_path).waited_seconds == pytest.approx(90.0)
    assert any("in the queue" in text for text in found.findings)


def test_what_has_no_rows_says_so(tmp_path: Path) -> None:
    config = files.load("CartPole-v1:ppo_zoo").config
    group = Store(tmp_path).create_group([config])
    with pytest.raises(NotFound, match="no row that says when it was trained"):
        efficiency.report_efficiency(group.id, tmp_path)


@pytest.mark.parametrize(("lengths", "places", "seconds"), [([3, 3, 3], 1, 9), ([3, 3, 3], 2, 6), ([1, 5, 1], 2, 5), ([2], 4, 2)])
def test_processes_begin_as_soon_as_a_place_is_free(lengths: list[float], places: int, seconds: float) -> None:
    assert efficiency.schedule(lengths, places) == seconds


def test_one_that_begins_when_another_ends_takes_its_place() -> None:
    spans = [efficiency.Span(0.0, 1.0, {}), efficiency.Span(1.0, 2.0, {}), efficiency.Span(0.5, 0.6, {})]
    assert efficiency.count_at_once(spans) == 2


def test_the_command_says_it_in_words(tmp_path: Path) -> None:
    group = record(tmp_path, (0, 0, 10), (1, 0, 10), (2, 0, 30), solved=1)
    said = CliRunner().invoke(app, ["efficiency", group.id, "--runs-dir", str(tmp_path)])
    assert said.exit_code == 0, said.output
    assert "straggles" in said.output
    assert "1 of 3 runs" in said.output
    told = CliRunner().invoke(app, ["efficiency", "--runs-dir", str(tmp_path), "--json"])
    assert json.loads(told.stdout)["places"] == 3


def test_the_picture_has_a_bar_for_each_process_where_and_as_long_as_it_trained(tmp_path: Path) -> None:
    group = record(tmp_path / "runs", (0, 0, 10), (1, 10, 10), (2, 0, 30))
    found = efficiency.report_efficiency(group.id, tmp_path / "runs", out=tmp_path / "out")
    assert [Path(file).name for file in found.files] == [f"efficiency.{kind}" for kind in ("html", "md", "svg", "json")]
    picture = ElementTree.fromstring((tmp_path / "out" / "efficiency.svg").read_text())
    names = {"svg": "http://www.w3.org/2000/svg"}
    shown = [(float(each.get("x", 0)), float(each.get("width", 0)), each.findtext("svg:title", "", names)) for each in picture]
    bars = {run.id: [(x, width) for x, width, said in shown if said.startswith(f"{run.id}:")] for run in group.runs}
    begins = {id: min(x for x, _ in parts) for id, parts in bars.items()}
    lengths = {id: sum(width for _, width in parts) for id, parts in bars.items()}
    first, second, third = (run.id for run in group.runs)
    assert begins[first] == begins[third] < begins[second]
    assert lengths[third] == pytest.approx(3 * lengths[first], rel=0.02)
    assert begins[second] == pytest.approx(begins[first] + lengths[first], rel=0.02)
    assert sum("env 5" in said for _, _, said in shown) == 3
    page = (tmp_path / "out" / "efficiency.html").read_text()
    assert page.count("<svg") == 1
    assert "efficiency.svg" in (tmp_path / "out" / "efficiency.md").read_text()
    with pytest.raises(DiskFailed, match="There is no report"):
        efficiency.report_efficiency(group.id, tmp_path / "runs", out=tmp_path / "out" / "efficiency.md")


def test_the_terminal_draws_the_same_and_of_very_many_processes_those_that_ended_last(tmp_path: Path) -> None:
    group = record(tmp_path, (0, 0, 10), (1, 10, 10), (2, 0, 30))
    said = CliRunner().invoke(app, ["efficiency", group.id, "--runs-dir", str(tmp_path)]).output
    lines = [line.partition("│")[2].rpartition("│")[0] for line in said.splitlines() if line.count("│") == 2]
    assert [len(line) - len(line.lstrip()) > 0 for line in sorted(lines, key=str.lstrip)].count(True) == 1
    drawn = [len(line.strip()) for line in lines]
    assert sorted(drawn) == pytest.approx([max(drawn) / 3, max(drawn) / 3, max(drawn)], abs=1.5)
    many = [report.ProcessTime(runs=[f"r{n}"], host=None, began_seconds=0, seconds=n, phases={}, straggles=False) for n in range(1, 101)]
    whole = efficiency.report_efficiency(group.id, tmp_path).model_copy(update={"processes": many, "wall_seconds": 100.0})
    assert [bar.label for bar in report.list_bars(whole)] == [f"r{n}" for n in range(100 - report.MOST_BARS + 1, 101)]
    assert "Of 100 processes" in report.markdown(whole)
    assert charts.timeline_svg([], 0.0, "") == ""


def test_what_a_run_is_called_stays_text_in_the_picture() -> None:
    bar = charts.TimelineBar("<script>alert(1)</script>", 0.0, 1.0, {"env": 1.0})
    assert "<script" not in charts.timeline_svg([bar], 1.0, 'x" onload="alert(1)')


def test_ranks_are_measured_beside_one_process_and_a_straggler_among_them_is_named(tmp_path: Path) -> None:
    config = files.load("CartPole-v1:ppo_zoo", ["run.max_env_steps=10240", "run.data_parallel=2"]).config
    run = Store(tmp_path).create_group([config]).runs[0]
    ranks = {"time/exchange": 0.2, "time/ranks_communicate": 0.05, "time/ranks_idle": 0.1, "time/ranks_slowest": 1.0}
    columns = [*COLUMNS, "time/sentinels", *ranks, "time/ranks_slowest_ratio"]
    with RunWriter(run.path, columns) as writer:
        writer.annotate(engine={"ranks": 2, "alone_seconds": 1.5})
        for row in range(10):
            times = {"time": BEGAN + row + 1.1, "total_timesteps": 100 * (row + 1), "epoch": row + 1, "time/sentinels": 0.0}
            writer.row({**times, **PHASES, **ranks, "time/ranks_slowest_ratio": 1.6})
        writer.status("finished", 1000)
    found = efficiency.report_efficiency(run.id, tmp_path)
    (one,) = found.processes
    assert one.ranks is not None
    # An iteration: 0.5 + 0.1 + 0.2 of work and 0.2 in collectives, against 1.5 s of one process.
    assert one.ranks.speedup == pytest.approx(1.5)
    assert one.ranks.scaling_efficiency == pytest.approx(0.75)
    assert one.ranks.communication_share == pytest.approx(0.05)
    # 0.1 of waiting, and half of the 0.1 that rank 0 writes, in 1.1 s.
    assert one.ranks.idle_share == pytest.approx(0.15 / 1.1)
    assert (one.ranks.slowest_rank, one.ranks.stragglers) == (1, [1])
    # Work of 0.85 s falls by a third, messages grow by a third.
    assert one.ranks.one_more_rank_saves == pytest.approx((0.85 / 3 - 0.05 / 3) / 1.1)
    assert found.process_seconds == pytest.approx(2 * one.seconds)
    assert any("rank 1 works 1.6 times as long" in text for text in found.findings)
    shown = CliRunner().invoke(app, ["efficiency", run.id, "--runs-dir", str(tmp_path)]).output
    assert "1.50x one process" in shown
