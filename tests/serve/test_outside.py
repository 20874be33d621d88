"""An operation of another package: one function, one request, one entry point, and all faces have it."""

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from rlclinic.errors import ConfigError
from rlclinic.ops import operations
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app
from tests.serve.mcp.stores import ran

MODULE = '''
from pathlib import Path
from typing import Annotated

from pydantic import Field

from rlclinic.ops.operations import Operation
from rlclinic.ops.request import Cli, Http, Mcp, Request
from rlclinic.report.models import Result


class CountRequest(Request):
    """Count the runs of a store."""

    times: Annotated[int, Cli("--times", "-t"), Http(le=10), Mcp("factor", le=10)] = Field(1, ge=1)
    """Count each so often."""
    label: Annotated[str, Http(max_length=20), Mcp()] = "runs"
    """What to call them."""
    secret: Path | None = None
    """A file, which nobody elsewhere may name."""


class Counted(Result):
    label: str
    count: int
    secret: str | None


def count_runs(request: CountRequest) -> Counted:
    """Say how many runs there are."""
    found = len(list(request.runs_dir.glob("*/config.json")))
    return Counted(label=request.label, count=found * request.times, secret=None if request.secret is None else str(request.secret))


COUNT = Operation("counting:count_runs", "read", "count", "count_runs", ("POST /count", "GET /count"), "Count")
MARK = Operation("counting:count_runs", "write", "mark", "mark_runs", ("POST /mark",), "Mark")
'''
POINTS = "[rlclinic.operations]\ncount = counting:COUNT\nmark = counting:MARK\n"


def install(folder: Path, points: str = POINTS) -> None:
    """What `pip install` leaves: a module, and the metadata that names its entry points."""
    (folder / "counting.py").write_text(MODULE)
    about = folder / "counting-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(points)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    site = tmp_path / "site"
    site.mkdir()
    install(site)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b", "c"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "config.json").write_text("{}")
    yield tmp_path / "runs"
    sys.modules.pop("counting", None)


def test_it_is_a_command_with_options_from_its_request(store: Path) -> None:
    runner = CliRunner()
    found = runner.invoke(app, ["count", "-t", "2", "--label", "all", "--secret", "x.txt", "--json"])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout) | {"schema_version": 0} == {"label": "all", "count": 6, "secret": "x.txt", "schema_version": 0}
    assert "count                3" in runner.invoke(app, ["count"]).stdout
    assert runner.invoke(app, ["count", "--times", "0"]).exit_code == 2
    assert "Count each so often." in runner.invoke(app, ["count", "--help"]).stdout
    listed = runner.invoke(app, ["--help"]).stdout
    assert "Say how many runs there are." in listed
    assert runner.invoke(app, ["cuont"]).exit_code == 2


def test_it_is_a_route_that_takes_what_may_come_from_elsewhere_and_nothing_else(store: Path) -> None:
    from rlclinic.serve.http.app import create_app
    from rlclinic.serve.http.settings import Settings

    with TestClient(create_app(Store(store), Settings(mcp=False, prepare=False, no_token=True)), base_url="http://localhost") as client:
        assert client.post("/api/v1/count", json={"times": 2, "label": "all"}).json()["count"] == 6
        assert client.get("/api/v1/count", params={"times": 3}).json()["count"] == 9
        assert client.post("/api/v1/count", json={"times": 11}).status_code == 422
        assert client.post("/api/v1/count", json={"secret": "/etc/passwd"}).status_code == 422
        assert client.post("/api/v1/count", json={"runs_dir": "/"}).status_code == 422
        body = client.get("/api/v1/openapi.json").json()["components"]["schemas"]["CountBody"]["properties"]
        assert set(body) == {"times", "label"}
        assert body["times"]["description"] == "Count each so often."


def test_it_is_a_tool_with_arguments_from_its_request(store: Path) -> None:
    from mcp import Client

    from rlclinic.serve.mcp.server import build
    from rlclinic.serve.mcp.settings import Settings

    async def asked(read_only: bool) -> tuple[dict[str, object], object]:
        async with Client(build(Store(store), Settings(local=True, read_only=read_only))) as client:
            listed = {tool.name: tool.input_schema["properties"] for tool in (await client.list_tools()).tools}
            return listed, (await client.call_tool("count_runs", {"factor": 2})).structured_content

    listed, answer = ran(partial(asked, False))
    assert set(listed["count_runs"]) == {"factor", "label"}  # type: ignore[call-overload]
    assert isinstance(answer, dict)
    assert answer["count"] == 6
    assert "mark_runs" in listed
    assert "mark_runs" not in ran(partial(asked, True))[0]


def test_what_changes_something_is_written_into_the_audit_log(store: Path) -> None:
    from rlclinic.ops.jobs.audit import audit_log

    assert CliRunner().invoke(app, ["mark", "--label", "x"]).exit_code == 0
    assert CliRunner().invoke(app, ["count"]).exit_code == 0
    assert [(line.target, line.about["label"]) for line in audit_log(store).lines] == [("counting:count_runs", "x")]


def test_an_operation_that_takes_a_name_of_ours_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path)
    (tmp_path / "counting.py").write_text(MODULE.replace('"count", "count_runs"', '"train", "count_runs"'))
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match="calls itself train"):
        operations.find_outside()
    sys.modules.pop("counting", None)


def test_a_package_that_cannot_be_imported_is_named_and_spoils_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, POINTS.replace("counting:COUNT", "countless:COUNT"))
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=r"'count' of another package .countless:COUNT. cannot be loaded"):
        operations.find_outside()
    assert CliRunner().invoke(app, ["--help"]).exit_code == 0
    assert CliRunner().invoke(app, ["count"]).exit_code == 2
    sys.modules.pop("counting", None)


def test_what_changes_something_is_never_a_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlclinic.serve.http.routes import outside

    install(tmp_path)
    (tmp_path / "counting.py").write_text(MODULE.replace("POST /mark", "GET /mark"))
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match="Make it POST /mark"):
        outside.build_router()
    sys.modules.pop("counting", None)


def test_without_such_a_package_nothing_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "find_outside", lambda: pytest.fail("entry points were read"))
    assert CliRunner().invoke(app, ["--help"]).exit_code == 0
