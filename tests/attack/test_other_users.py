"""Another user of the same machine, who finds the port of a server that its owner started for themselves."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.serve.http.security import peer
from rlclinic.serve.http.security.tokens import hash_token, make_token
from tests.ops.recorded import record_group
from tests.serve.http.processes import Server
from tests.serve.web.conftest import serving

API = "/api/v1"
TOKEN = make_token()


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return record_group(tmp_path / "runs")


@pytest.fixture
def url(group: Group, tmp_path: Path) -> Iterator[str]:
    with serving(tmp_path / "runs", link=hash_token(TOKEN)) as address:
        yield address


@pytest.fixture
def another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is somebody else's: whoever runs these tests is not its user."""
    monkeypatch.setattr(peer, "find_user", lambda client, server: os.getuid() + 1)


@pytest.mark.usefixtures("another_user")
def test_another_user_removes_and_reads_nothing(url: str, group: Group, tmp_path: Path) -> None:
    with httpx2.Client(base_url=url) as client:
        assert client.delete(f"{API}/groups/{group.id}").status_code == 401
        assert client.post(f"{API}/trainings", json={"ref": "CartPole-v1:ppo"}).status_code == 401
        for path in ("/runs", "/audit", f"/groups/{group.id}", "/runs/@last/log", "/events"):
            assert client.get(API + path).status_code == 401, path
        assert client.get("/", headers={"accept": "text/html"}).headers["location"] == "/login"
    assert [each.id for each in Store(tmp_path / "runs").groups()] == [group.id]


def test_the_user_who_runs_the_server_needs_no_token(url: str, group: Group, tmp_path: Path) -> None:
    with httpx2.Client(base_url=url) as client:
        assert client.get(f"{API}/runs").status_code == 200
        assert client.delete(f"{API}/groups/{group.id}").status_code == 200
    assert Store(tmp_path / "runs").groups() == []


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"])
def test_what_comes_through_a_proxy_is_not_taken_for_the_user_who_runs_it(url: str, header: str) -> None:
    assert httpx2.get(f"{url}{API}/runs", headers={header: "127.0.0.1"}).status_code == 401


@pytest.mark.usefixtures("another_user")
def test_the_printed_link_lets_a_browser_in_and_does_not_stay_in_its_address(url: str, group: Group) -> None:
    with httpx2.Client(base_url=url) as client:
        answer = client.get(f"/groups/{group.id}?axis=steps&token={TOKEN}", headers={"accept": "text/html"})
        assert answer.status_code == 303
        assert answer.headers["location"] == f"/groups/{group.id}?axis=steps"
        session = client.get(f"{API}/session").json()
        assert (session["name"], session["write"]) == ("local", True)
        # The cookie alone is not enough to change something: another site could make a browser send it.
        assert client.delete(f"{API}/groups/{group.id}").status_code == 403
        assert client.delete(f"{API}/groups/{group.id}", headers={"x-csrf-token": session["csrf"]}).status_code == 200


@pytest.mark.usefixtures("another_user")
@pytest.mark.parametrize(
    "query", ["token=", "token=wrong", f"token={hash_token(TOKEN)}", f"token={TOKEN[:-1]}"], ids=["none", "wrong", "hash", "cut"]
)
def test_a_link_with_another_token_leads_to_the_login_page(url: str, query: str) -> None:
    answer = httpx2.get(f"{url}/?{query}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example/", "///evil.example"])
def test_a_link_leads_to_no_other_server(url: str, path: str) -> None:
    answer = httpx2.get(f"{url}{path}?token={TOKEN}")
    assert answer.headers.get("location", "/").startswith("/evil.example") or answer.status_code in (401, 404, 421)


@pytest.mark.usefixtures("another_user")
def test_the_token_of_the_link_is_taken_by_programs_too(url: str) -> None:
    assert httpx2.get(f"{url}{API}/runs", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert httpx2.get(f"{url}{API}/runs?token={TOKEN}").status_code == 401


def test_a_cookie_that_was_logged_out_lets_nobody_in(url: str) -> None:
    with httpx2.Client(base_url=url) as client:
        client.get(f"/?token={TOKEN}")
        session = client.get(f"{API}/session").json()
        stolen = dict(client.cookies)
        assert client.delete(f"{API}/session", headers={"x-csrf-token": session["csrf"]}).status_code == 204
    with httpx2.Client(base_url=url, cookies=stolen, headers={"x-forwarded-for": "192.0.2.1"}) as thief:
        assert thief.get(f"{API}/runs").status_code == 401


@pytest.mark.skipif(os.getuid() != 0, reason="only root can ask as somebody else")
def test_the_kernel_tells_users_apart_and_the_server_prints_a_link(group: Group, tmp_path: Path) -> None:
    with Server(tmp_path / "runs", said=tmp_path / "said") as server:
        ask = (
            "import encodings.idna, http.client, os, sys\n"
            "os.setuid(65_534)\n"
            "client = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]))\n"
            f"client.request('DELETE', '{API}/groups/{group.id}', headers=dict([sys.argv[2:]] if sys.argv[2:] else []))\n"
            "print(client.getresponse().status)\n"
        )
        command = [sys.executable, "-I", "-c", ask, str(server.port)]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "401"
        link = re.search(r"http://127\.0\.0\.1:\d+/\?token=(rlc_\S+)", (tmp_path / "said").read_text())
        assert link is not None
        command += ["Authorization", f"Bearer {link[1]}"]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "200"
