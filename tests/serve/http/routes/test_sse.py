"""Live streams from a real server: rows as they are written, states as they change, nothing lost when a connection breaks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rlclinic.runs.metrics_file.rows import Follower
from rlclinic.runs.record import Group
from tests.ops.recorded import COLUMNS, flat, record_group
from tests.serve.http.processes import Server

KL = "train/metrics/kl_divergence"


def line(step: int, kl: float) -> str:
    cells = {"total_timesteps": step, KL: kl}
    return ",".join(str(cells.get(name, "")) for name in COLUMNS) + "\n"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events") / "runs"


@pytest.fixture(scope="module")
def server(store: Path) -> Iterator[Server]:
    record_group(store)
    with Server(store) as running:
        yield running


def test_a_row_on_disk_becomes_an_event(server: Server, store: Path) -> None:
    group = record_group(store, seeds=(0,), returns=flat)
    run = group.runs[0]
    events = server.events(f"/api/v1/runs/{run.id}/events?names={KL}")
    kind, data, _ = next(events)
    assert (kind, data["state"]) == ("state", "finished")
    with (run.path / "metrics.csv").open("a") as file:
        file.write(line(11_000, 0.5))
        file.write(line(12_000, 0.25)[:-9])  # half a row is not a row
        file.flush()
        kind, data, id = next(events)
        assert kind == "rows"
        assert data == {"run": run.id, "names": ["total_timesteps", KL], "rows": [[11_000.0, 0.5]]}
        file.write(line(12_000, 0.25)[-9:])
    assert next(events)[1]["rows"] == [[12_000.0, 0.25]]
    again = server.events(f"/api/v1/runs/{run.id}/events?names={KL}", **{"last-event-id": str(id)})
    seen = [data["rows"] for kind, data, _ in (next(again), next(again)) if kind == "rows"]
    assert seen == [[[12_000.0, 0.25]]]


def test_a_stream_can_begin_with_the_first_row(server: Server, store: Path) -> None:
    group = record_group(store, seeds=(0,), returns=flat)
    events = server.events(f"/api/v1/runs/{group.runs[0].id}/events?names={KL}&offset=0")
    kind, data, _ = next(events)
    assert kind == "rows"
    assert len(data["rows"]) == 10


def test_a_group_streams_all_its_seeds(server: Server, store: Path) -> None:
    group = record_group(store, seeds=(0, 1), returns=flat)
    events = server.events(f"/api/v1/groups/{group.id}/events?names={KL}")
    assert {next(events)[1]["run"], next(events)[1]["run"]} == {run.id for run in group.runs}
    for run in group.runs:
        with (run.path / "metrics.csv").open("a") as file:
            file.write(line(11_000, 0.5))
    rows = [next(events), next(events)]
    assert {data["run"] for kind, data, _ in rows if kind == "rows"} == {run.id for run in group.runs}


def test_new_groups_are_announced(server: Server, store: Path) -> None:
    events = server.events("/api/v1/events")
    made: Group | None = None

    def first() -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {"runs": {}, "groups": {}}
        for kind, data, _ in events:
            assert kind == "changed"
            for name in found:
                found[name] |= data[name]
            if made is not None and made.id in found["groups"]:
                return found
        raise AssertionError("the stream ended")

    assert server.ask("GET", "/api/v1/health")[0] == 200
    made = record_group(store, seeds=(0,))
    assert made.runs[0].id in first()["runs"]


def test_a_file_that_was_cut_back_by_a_resume_is_followed_on(tmp_path: Path) -> None:
    group = record_group(tmp_path / "runs", seeds=(0,))
    path = group.runs[0].path / "metrics.csv"
    follower = Follower(group.runs[0].path / "metrics.csv")
    assert follower.rows() == []
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:5]))
    assert follower.rows() == []
    with path.open("a") as file:
        file.write(lines[5])
    assert [row[1] for row in follower.rows()] == [lines[5].split(",")[1]]
