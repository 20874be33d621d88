"""Several servers over one store, as behind a proxy: whichever is asked, the answer is the same, also to who follows along."""

from pathlib import Path

import pytest

from rlclinic.runs.database import connections
from rlclinic.runs.database import index as indexing
from rlclinic.runs.store import Store
from rlclinic.serve.http.security.tokens import Tokens
from tests.ops.recorded import record_group
from tests.serve.http.processes import Server, wait_for
from tests.servers.postgres import PASSWORD
from tests.servers.postgres import Server as Database


def test_two_servers_share_an_index_and_see_what_the_other_was_told(
    tmp_path: Path, postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(indexing.VARIABLE, "shared")
    root = tmp_path / "runs"
    first = record_group(root)
    with Server(root) as one, Server(root, said=tmp_path / "said") as other:

        def listed(server: Server) -> set[str]:
            return {item["id"] for item in server.ask("GET", "/api/v1/groups")[1]["items"]}

        assert listed(one) == listed(other) == {first.id}
        second = record_group(root)
        assert wait_for(lambda: listed(one) == listed(other) == {first.id, second.id})
        Store(root).remove(first)
        assert wait_for(lambda: listed(one) == listed(other) == {second.id})
        one.kill()
        assert listed(other) == {second.id}
        # The database goes away and comes back: lists that nobody has asked for yet must wait, the server lives.
        postgres.stop()
        status, problem = other.ask("GET", "/api/v1/groups?q=never-asked-before")
        assert (status, "does not answer" in str(problem)) == (503, True), (status, problem)
        assert PASSWORD not in str(problem)
        assert other.ask("GET", "/api/v1/health")[0] == 200
        postgres.start()
        assert wait_for(lambda: other.ask("GET", "/api/v1/groups")[0] == 200)
        assert listed(other) == {second.id}
    assert PASSWORD not in (tmp_path / "said").read_text()


def test_a_token_of_one_project_is_the_same_at_every_server_and_over_at_all_of_them_at_once(
    tmp_path: Path, postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(indexing.VARIABLE, "shared")
    groups = {name: record_group(tmp_path / name / "runs") for name in ("maze", "arm")}
    connections.migrate(Store(tmp_path / "runs"))
    tokens = Tokens(tmp_path / "tokens.json")
    eve = {"authorization": f"Bearer {tokens.add('eve', projects={'arm': 'own'}).token}"}
    served = [option for name in groups for option in ("--project", f"{name}={tmp_path / name}")]
    options = [*served, "--require-token", "--token-file", str(tokens.path)]
    with Server(tmp_path / "runs", *options) as one, Server(tmp_path / "runs", *options) as other:
        for server in (one, other):
            assert [item["id"] for item in server.ask("GET", "/api/v1/groups", **eve)[1]["items"]] == [groups["arm"].id]
            assert server.ask("GET", "/api/v1/groups", **eve, **{"x-project": "maze"})[0] == 404
            assert server.ask("GET", f"/api/v1/groups/{groups['maze'].id}/diagnosis", **eve)[0] == 404
        # What starts at one is known at the other: the same key, and its job, to nobody of another project.
        wanted = {"ref": "CartPole-v1:ppo_zoo", "max_env_steps": 2000, "seeds": 1}
        status, begun = one.ask("POST", "/api/v1/trainings", wanted, **eve, **{"idempotency-key": "once"})
        assert status == 202, begun
        status, again = other.ask("POST", "/api/v1/trainings", wanted, **eve, **{"idempotency-key": "once"})
        assert (status, again["id"]) == (200, begun["id"]), again
        bob = {"authorization": f"Bearer {tokens.add('bob', projects={'maze': 'write'}).token}"}
        assert [server.ask("GET", f"/api/v1/jobs/{begun['id']}", **bob)[0] for server in (one, other)] == [404, 404]
        assert other.ask("POST", f"/api/v1/groups/{begun['refers']}/stop", {}, **bob)[0] == 404
        # Changes of the project alone are told.
        followed = other.events("/api/v1/events", **eve)
        added = record_group(tmp_path / "arm" / "runs")
        seen: set[str] = set()
        while added.id not in seen:
            seen |= set(next(followed)[1].get("groups", {}))
        assert groups["maze"].id not in seen
        tokens.revoke("eve")
        assert [server.ask("GET", "/api/v1/groups", **eve)[0] for server in (one, other)] == [401, 401]
        followed.close()
