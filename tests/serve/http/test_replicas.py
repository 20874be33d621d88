"""Several servers over one store, as behind a proxy: whichever is asked, the answer is the same, also to who follows along."""

from pathlib import Path

import pytest

from rlclinic.runs.database import index as indexing
from rlclinic.runs.store import Store
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
