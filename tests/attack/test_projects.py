"""A token of one project sees nothing of another, by any route, list, search, stream or tool, and changes nothing there."""

import gc
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from rlclinic.errors import UsageError
from rlclinic.runs import notes
from rlclinic.runs.database import connections
from rlclinic.runs.database import index as indexing
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app as command_line
from rlclinic.serve.http.app import create_app
from rlclinic.serve.http.security.tokens import Tokens
from rlclinic.serve.http.settings import Settings, check
from tests.ops.recorded import add_checkpoint, flat, record_group

API = "/api/v1"
SECRET = "whisper"
"""A tag of the other project's runs: it must turn up nowhere."""


class Shared(NamedTuple):
    client: TestClient
    folder: Path
    maze: Group
    arm: Group
    tokens: dict[str, str]

    def ask(self, who: str, method: str, path: str, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.tokens[who]}", **more.pop("headers", {})}
        return self.client.request(method, path if path.startswith("/mcp") else API + path, headers=headers, **more)


@pytest.fixture(scope="module", params=["file", "postgresql"])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """Projects whose indexes, queues and audits are files of theirs, and such that share one database."""
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "postgresql":
            patched.setenv(connections.VARIABLE, request.getfixturevalue("postgres_server").url)
            patched.setenv(indexing.VARIABLE, "shared")
            connections.migrate(Store(tmp_path_factory.mktemp("any") / "runs"))
        with serve_projects(tmp_path_factory.mktemp("shared")) as served:
            yield served
    # Connections of the server's threads end with them, in an order that is chance: not in the middle of another test.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@contextmanager
def serve_projects(folder: Path) -> Iterator[Shared]:
    """A server with two projects: bob writes in the maze; eve reads the arm; ann reads the maze and has work of her own in the arm."""
    groups = {}
    for name in ("maze", "arm"):
        (folder / name).mkdir()
        groups[name] = record_group(folder / name / "runs", returns=flat)
    maze, arm = groups["maze"], groups["arm"]
    for run in (maze, *maze.runs):
        notes.write(run.path, notes.Notes((SECRET,)))
    add_checkpoint(maze.runs[0].path, 10_240, best=True)
    (folder / "maze" / "config" / "environments").mkdir(parents=True)
    (folder / "maze" / "config" / "environments" / f"{SECRET}-v0.yaml").write_text("ppo:\n  env: {id: CartPole-v1}\n  algo: {name: ppo}\n")
    tokens = Tokens(folder / "tokens.json")
    secrets = {
        "bob": tokens.add("bob", projects={"maze": "write"}).token,
        "eve": tokens.add("eve", projects={"arm": "write"}).token,
        "ann": tokens.add("ann", projects={"maze": "read", "arm": "own"}).token,
        "boss": tokens.add("boss", scope="write").token,
        "gone": tokens.add("gone", projects={"cave": "write"}).token,
    }
    settings = Settings(
        require_token=True,
        token_file=tokens.path,
        projects={"maze": folder / "maze", "arm": folder / "arm"},
        mcp_write=True,
        prepare=False,
        refresh_seconds=0.05,
        follow_seconds=0.02,
    )
    with TestClient(create_app(Store(folder / "runs"), settings), base_url="http://localhost", follow_redirects=False) as client:
        yield Shared(client, folder, maze, arm, secrets)


def test_everybody_sees_their_projects_and_no_other(shared: Shared) -> None:
    for who, sees in (("bob", ["maze"]), ("eve", ["arm"]), ("ann", ["arm", "maze"]), ("boss", [""])):
        session = shared.ask(who, "GET", "/session").json()
        assert (session["projects"], session["name"]) == (sees, f"token:{who}")
    ids = {who: [run["id"] for run in shared.ask(who, "GET", "/runs").json()["items"]] for who in ("bob", "eve", "boss")}
    assert sorted(ids["bob"]) == sorted(run.id for run in shared.maze.runs)
    assert sorted(ids["eve"]) == sorted(run.id for run in shared.arm.runs)
    assert ids["boss"] == [], "a token without projects is about the server's own store"


def test_rights_differ_from_project_to_project(shared: Shared) -> None:
    for project, group, may in (("maze", shared.maze, 403), ("arm", shared.arm, 400)):
        headers = {"X-Project": project}
        assert shared.ask("ann", "GET", f"/groups/{group.id}", headers=headers).status_code == 200
        answer = shared.ask("ann", "POST", f"/groups/{group.id}/adjust", headers=headers, json={"changes": ["algo.ent_coef=0.1"]})
        assert answer.status_code == may, answer.text  # ann reads the maze; in the arm she acts on what she has started


@pytest.mark.parametrize("project", ["maze", "cave", "", "../maze", "MAZE", "maze/", "%6daze", "arm,maze"])
def test_a_project_that_is_not_ones_own_is_refused_and_not_said_to_be_there(shared: Shared, project: str) -> None:
    for path in ("/runs", f"/groups/{shared.maze.id}", "/session", "/events"):
        answer = shared.ask("eve", "GET", path, headers={"X-Project": project})
        assert answer.status_code == 404, (path, answer.text)
        assert answer.json()["detail"].startswith(f"there is no project {project!r} for token:eve")


def test_a_forged_cookie_of_a_project_opens_nothing(shared: Shared) -> None:
    answer = shared.ask("eve", "GET", "/runs", headers={"Cookie": "rlclinic_project=maze"})
    assert sorted(run["id"] for run in answer.json()["items"]) == sorted(run.id for run in shared.arm.runs)


def routes(shared: Shared) -> list[tuple[str, str]]:
    described = shared.ask("eve", "GET", "/openapi.json").json()["paths"]
    return [(method.upper(), path.removeprefix(API)) for path, methods in described.items() for method in methods]


def test_no_route_knows_anothers_runs_by_their_ids(shared: Shared) -> None:
    """Every route with a parameter in its path, those of later too: with the other project's names in their places."""
    run, group = shared.maze.runs[0].id, shared.maze.id
    before = listing(shared.folder / "maze")
    tried = 0
    bodies: list[Any] = [{}, {"changes": ["algo.ent_coef=0.1"]}, {"tags": ["mine"], "note": ""}, {"ref": "CartPole-v1:mine"}]
    for method, path in routes(shared):
        if "{run}" not in path and "{group}" not in path and "{id}" not in path:
            continue
        if path.startswith(("/rules", "/guides")):
            continue
        for name in dict.fromkeys((run if "{run}" in path else group, group if "{id}" in path else f"{run}@10240")):
            asked = path.replace("{run}", name).replace("{group}", name).replace("{id}", name).replace("{name}", "report.html")
            for body in bodies if method not in ("GET", "DELETE") else [None]:
                answer = shared.ask("eve", method, asked, json=body)
                assert 400 <= answer.status_code < 500, (method, asked, answer.text[:300])
                assert SECRET not in answer.text
                tried += 1
    assert tried > 50
    assert listing(shared.folder / "maze") == before


def test_no_list_search_comparison_or_curve_shows_anothers_runs(shared: Shared) -> None:
    run, group = shared.maze.runs[0].id, shared.maze.id
    for method, path in routes(shared):
        if method != "GET" or "{" in path or path.endswith("/events") or path == "/doctor":
            continue
        lists = path in ("/runs", "/groups")
        queries: list[dict[str, Any]] = (
            [{}, {"q": SECRET}, {"tag": SECRET}, {"group": group}] if lists else [{"of": [group, shared.arm.id], "env": "CartPole-v1"}]
        )
        for query in queries:
            answer = shared.ask("eve", "GET", path, params=query)
            assert answer.status_code < 500
            text = answer.text
            assert SECRET not in text, (path, query)
            if answer.status_code == 200:
                assert not [name for name in (run, group) if name in text], (path, query)


def test_no_trial_race_or_search_takes_anothers_arms(shared: Shared) -> None:
    group, run, own = shared.maze.id, shared.maze.runs[0].id, shared.arm.id
    starts = [
        ("/trials", {"targets": [group], "changes": ["algo.learning_rate=1e-3"]}),
        ("/trials", {"targets": [own, group]}),
        ("/trials", {"resume": group}),
        ("/trials/preview", {"targets": [own, run]}),
        ("/races", {"targets": [own, group, run]}),
        ("/races/preview", {"targets": [own, group, run]}),
        ("/studies/optimize", {"target": group, "budget": 1_000}),
        ("/studies/sensitivity", {"target": run}),
        ("/trainings", {"ref": group}),
        ("/trainings", {"ref": f"{run}@10240"}),
        ("/trainings", {"ref": f"{SECRET}-v0"}),
        ("/config/validate", {"ref": group}),
    ]
    for path, body in starts:
        answer = shared.ask("eve", "POST", path, json=body)
        assert 400 <= answer.status_code < 500, (path, body, answer.text[:300])
    assert shared.ask("eve", "GET", "/jobs").json()["jobs"] == []
    assert not (shared.folder / "arm" / "runs" / "@trials").exists()


def test_configs_of_a_project_are_its_own(shared: Shared) -> None:
    assert SECRET in shared.ask("bob", "GET", "/environments").text
    assert SECRET not in shared.ask("eve", "GET", "/environments").text
    assert SECRET not in shared.ask("boss", "GET", "/environments").text


def test_agents_over_http_are_kept_to_their_project(shared: Shared) -> None:
    accepts = {"Accept": "application/json, text/event-stream"}

    def call(who: str, tool: str, **arguments: Any) -> str:
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        answer = shared.ask(who, "POST", "/mcp", json=asked, headers=accepts)
        assert answer.status_code == 200, answer.text
        return answer.text

    run, group = shared.maze.runs[0].id, shared.maze.id
    assert run in call("bob", "list_runs")
    for answer in (call("eve", "list_runs"), call("eve", "list_runs", text=SECRET), call("eve", "describe_environment", pattern=SECRET)):
        assert run not in answer
        assert "-v0" not in answer
    for tool in ("get_run_info", "diagnose_run", "get_run_metrics", "get_run_logs", "list_checkpoints"):
        answer = call("eve", tool, run_id=run)
        assert '"isError":true' in answer, (tool, answer[:300])
        assert SECRET not in answer
    assert '"isError":true' in call("eve", "start_trial", run_id=group, changes={"algo.learning_rate": 1e-3})
    assert '"isError":true' in call("eve", "stop_training", run_id=group)


def test_streams_tell_of_ones_own_project_only(shared: Shared) -> None:
    from rlclinic.serve.http.context import Context

    apps = next(part for part in shared.client.app.user_middleware if "apps" in part.kwargs).kwargs["apps"]  # type: ignore[attr-defined]
    stores = {}
    for name, part in apps.items():
        here: Context = part.state.context
        stores[name] = here.store.root
        assert here.feeds is not shared.client.app.state.context.feeds  # type: ignore[attr-defined]
    # Streams are made from the store of the app that answers, and each app has one.
    assert stores == {name: shared.folder / name / "runs" for name in ("maze", "arm")}
    for path in (f"/runs/{shared.maze.runs[0].id}/events", f"/groups/{shared.maze.id}/events"):
        assert shared.ask("eve", "GET", path).status_code == 404


def test_a_token_whose_projects_are_not_served_comes_in_nowhere(shared: Shared) -> None:
    for path in ("/runs", "/groups", "/audit"):
        assert shared.ask("gone", "GET", path).status_code == 400
    assert shared.client.post(API + "/session", json={"token": shared.tokens["gone"]}).status_code == 400
    assert shared.ask("gone", "POST", "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).status_code == 400


def test_a_browser_changes_between_its_projects_and_the_audit_names_who_did_what(shared: Shared) -> None:
    client = shared.client
    try:
        came_in = client.post(API + "/session", json={"token": shared.tokens["ann"]}).json()
        assert (came_in["projects"], came_in["project"]) == (["arm", "maze"], "maze")
        assert client.get("/projects/cave").status_code == client.get("/projects/").status_code == 404
        assert client.get("/projects/arm").headers["location"] == "/"
        assert client.get(API + "/session").json()["project"] == "arm"
        assert [group["id"] for group in client.get(API + "/groups").json()["items"]] == [shared.arm.id]
    finally:
        client.cookies.clear()
    spare = record_group(shared.folder / "maze" / "runs", seeds=(7,))
    assert shared.ask("eve", "DELETE", f"/groups/{spare.id}").status_code == 404
    removed = shared.ask("bob", "DELETE", f"/groups/{spare.id}")
    assert removed.status_code == 200, removed.text
    lines = {who: shared.ask(who, "GET", "/audit").json()["lines"] for who in ("bob", "eve")}
    assert [(line["name"], line["action"]) for line in lines["bob"]] == [("token:bob", "remove")]
    assert lines["eve"] == []


def test_two_projects_do_not_share_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for other in (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / ".." / "b"):
        with pytest.raises(UsageError, match="share"):
            check(Settings(projects={"one": tmp_path / "a", "two": other}), 1)
    with pytest.raises(UsageError, match="there is no folder"):
        check(Settings(projects={"one": tmp_path / "c"}), 1)


def test_projects_are_given_on_the_command_line(tmp_path: Path) -> None:
    def type_in(*words: str) -> Any:
        return CliRunner().invoke(command_line, ["serve", "token", *words, "--runs-dir", str(tmp_path)])

    assert type_in("add", "ann", "--project", "maze=write", "--project", "arm").exit_code == 0
    listed = json.loads(type_in("list", "--json").stdout)["tokens"]
    assert listed[0]["projects"] == {"maze": "write", "arm": "read"}
    assert "maze=write,arm=read" in type_in("list").stdout
    for wrong in ("maze=all", "a/b", "=write", ""):
        assert type_in("add", "eve", "--project", wrong).exit_code == 2, wrong


def listing(folder: Path) -> list[tuple[str, int]]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".sqlite", ".sqlite-wal", ".sqlite-shm", ".db"))
    return sorted((str(path), path.stat().st_mtime_ns) for path in files if "@server" not in path.parts and "@index" not in path.parts)
