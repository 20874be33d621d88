"""Who gets in and who does not: addresses, tokens, cookies, other sites, large bodies, paths and links, scripts in names."""

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from rlclinic.errors import NotFound, UsageError
from rlclinic.ops.jobs.audit import audit_log
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.serve.http import settings
from rlclinic.serve.http.security.tokens import Tokens
from rlclinic.serve.http.settings import Settings
from tests.serve.http.conftest import Serve

API = "/api/v1"
READS = [
    f"{API}/runs",
    f"{API}/groups",
    f"{API}/trials",
    f"{API}/audit",
    f"{API}/events",
    f"{API}/openapi.json",
    f"{API}/runs/@last/metrics.csv",
]
CHANGES = [
    ("POST", f"{API}/trainings"),
    ("POST", f"{API}/trials"),
    ("POST", f"{API}/studies/optimize"),
    ("POST", f"{API}/studies/sensitivity"),
    ("POST", f"{API}/groups/@last/stop"),
    ("POST", f"{API}/runs/@last/adjust"),
    ("POST", f"{API}/trials/@last/adopt"),
    ("PUT", f"{API}/groups/@last/notes"),
    ("DELETE", f"{API}/groups/@last"),
]


@pytest.fixture
def guarded(sick: Group, serve: Serve) -> TestClient:
    return serve(require_token=True)


def token(client: TestClient, scope: str = "read") -> str:
    made: str = client.app.state.context.tokens.add(f"{scope}-token", scope).token  # type: ignore[attr-defined]
    return made


def bearer(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


# ── addresses ──


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "gpu-box"])
def test_an_address_that_others_reach_is_refused_without_a_token(host: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="rlclinic serve token add"):
        settings.check(Settings(host=host), tokens=0)
    settings.check(Settings(host=host), tokens=1)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_this_machines_own_address_needs_none(host: str) -> None:
    settings.check(Settings(host=host), tokens=0)
    assert not Settings(host=host).guarded


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8642", "localhost.evil.example", "", "127.0.0.1.evil.example"])
def test_a_foreign_host_name_is_refused(client: TestClient, host: str) -> None:
    answer = client.get(f"{API}/runs", headers={"host": host})
    assert answer.status_code == 421
    assert "allow-host" in answer.json()["detail"]


def test_another_name_can_be_allowed(sick: Group, serve: Serve) -> None:
    client = serve(allow_hosts=("gpu-box",))
    assert client.get(f"{API}/runs", headers={"host": "gpu-box:8642"}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://localhost.evil.example", "http://localhost:9999"])
def test_another_site_is_refused(client: TestClient, origin: str) -> None:
    assert client.get(f"{API}/runs", headers={"origin": origin}).status_code == 403
    answer = client.put(f"{API}/groups/@last/notes", json={"note": "x"}, headers={"origin": origin})
    assert answer.status_code == 403


def test_our_own_pages_may_ask(client: TestClient) -> None:
    answer = client.put(
        f"{API}/groups/@last/notes", json={"note": "x"}, headers={"origin": "http://localhost", "sec-fetch-site": "same-origin"}
    )
    assert answer.status_code == 200


# ── tokens ──


@pytest.mark.parametrize("path", READS)
def test_nothing_is_read_without_a_token(guarded: TestClient, path: str) -> None:
    answer = guarded.get(path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("wrong", ["", "rlc_", "rlc_" + "x" * 43, "Ümläut"])
def test_a_wrong_token_is_refused_everywhere(guarded: TestClient, client: TestClient, wrong: str) -> None:
    header = {"authorization": f"Bearer {wrong}".encode()}
    assert guarded.get(f"{API}/runs", headers=header).status_code == 401
    # Where none is needed, a wrong one is still wrong: whoever sends it believes to be somebody.
    assert client.get(f"{API}/runs", headers=header).status_code == 401


def test_a_token_to_read_reads_and_changes_nothing(guarded: TestClient) -> None:
    known = bearer(token(guarded))
    assert guarded.get(f"{API}/runs", headers=known).status_code == 200
    for method, path in CHANGES:
        assert guarded.request(method, path, json={}, headers=known).status_code == 403, path
    assert guarded.post(f"{API}/config/validate", json={"ref": "CartPole-v1:ppo"}, headers=known).status_code == 200


def test_a_token_to_write_changes_and_the_audit_log_names_it(guarded: TestClient, sick: Group, root: Path) -> None:
    answer = guarded.delete(f"{API}/groups/{sick.id}", headers=bearer(token(guarded, "write")))
    assert answer.status_code == 200
    line = audit_log(root).lines[0]
    assert (line.action, line.name, line.target) == ("remove", "token:write-token", sick.id)


def test_read_only_holds_for_every_token(sick: Group, serve: Serve) -> None:
    client = serve(require_token=True, read_only=True)
    known = bearer(token(client, "write"))
    for method, path in CHANGES:
        assert client.request(method, path, json={}, headers=known).status_code == 403, path


def test_a_revoked_token_ends_at_once(guarded: TestClient) -> None:
    known = bearer(token(guarded))
    assert guarded.get(f"{API}/runs", headers=known).status_code == 200
    guarded.app.state.context.tokens.revoke("read-token")  # type: ignore[attr-defined]
    assert guarded.get(f"{API}/runs", headers=known).status_code == 401


def test_only_hashes_are_kept_and_only_the_owner_reads_them(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "server" / "tokens.json")
    made = tokens.add("ci", "write")
    text = tokens.path.read_text()
    assert made.token not in text
    assert made.token.removeprefix("rlc_") not in text
    assert tokens.path.stat().st_mode & 0o077 == 0
    assert [(row.name, row.scope) for row in tokens.listed().tokens] == [("ci", "write")]
    with pytest.raises(UsageError, match="already"):
        tokens.add("ci")
    with pytest.raises(NotFound, match="ci"):
        tokens.revoke("c")


# ── browsers ──


def test_a_browser_is_sent_to_the_login_page_and_comes_in_with_a_cookie(guarded: TestClient) -> None:
    page = guarded.get("/", headers={"accept": "text/html"})
    assert (page.status_code, page.headers["location"]) == (303, "/login")
    assert guarded.get(f"{API}/session").json()["login"] is True
    assert guarded.post(f"{API}/session", json={"token": "wrong"}).status_code == 401
    answer = guarded.post(f"{API}/session", json={"token": token(guarded, "write")})
    assert answer.status_code == 200
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert guarded.get(f"{API}/runs").status_code == 200


def test_a_cookie_alone_changes_nothing(guarded: TestClient) -> None:
    session = guarded.post(f"{API}/session", json={"token": token(guarded, "write")}).json()
    assert guarded.put(f"{API}/groups/@last/notes", json={"note": "x"}).status_code == 403
    assert guarded.put(f"{API}/groups/@last/notes", json={"note": "x"}, headers={"x-csrf-token": "0" * 64}).status_code == 403
    held = {"x-csrf-token": session["csrf"]}
    assert guarded.put(f"{API}/groups/@last/notes", json={"note": "x"}, headers=held).status_code == 200


@pytest.mark.parametrize("cookie", ["", "x", "WyJhIl0=.00", "é.é", "a" * 5_000])
def test_a_forged_cookie_is_nobody(guarded: TestClient, cookie: str) -> None:
    token(guarded, "write")
    header = {"cookie": f"rlclinic_session={cookie}".encode()}
    assert guarded.get(f"{API}/runs", headers=header).status_code == 401


def test_a_cookie_ends_with_its_token_and_with_the_logout(guarded: TestClient) -> None:
    session = guarded.post(f"{API}/session", json={"token": token(guarded, "write")}).json()
    guarded.app.state.context.tokens.revoke("write-token")  # type: ignore[attr-defined]
    assert guarded.get(f"{API}/runs").status_code == 401
    guarded.post(f"{API}/session", json={"token": token(guarded, "write")})
    session = guarded.get(f"{API}/session").json()
    assert guarded.delete(f"{API}/session", headers={"x-csrf-token": session["csrf"]}).status_code == 204
    assert guarded.get(f"{API}/runs").status_code == 401


# ── bodies, paths, links ──


def test_a_body_that_is_too_large_is_refused_with_or_without_its_length(sick: Group, serve: Serve) -> None:
    client = serve(max_body_bytes=2_000)
    large = json.dumps({"note": "x" * 5_000})
    assert client.put(f"{API}/groups/@last/notes", content=large).status_code == 413
    assert client.put(f"{API}/groups/@last/notes", content=iter([large.encode()])).status_code == 413
    assert client.put(f"{API}/groups/@last/notes", json={"note": "short"}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        f"{API}/runs/..%2F..%2Fetc",
        f"{API}/runs/%2e%2e",
        f"{API}/runs/..",
        f"{API}/groups/.%2e%2fx/files/passwd",
        f"{API}/groups/@last/files/..%2F..%2F..%2Fsecret.json",
        f"{API}/groups/@last/files/%2e%2e%2fsecret.json",
        f"{API}/runs/@last/videos/..%2fstatus.json",
        f"{API}/trials/..%2f@groups",
        f"{API}/jobs/..%2f..%2fsecret",
        "/static/..%2f..%2froutes.py",
        "/static/../../routes.py",
    ],
)
def test_no_path_leads_out_of_the_store(client: TestClient, root: Path, path: str) -> None:
    (root.parent / "secret.json").write_text('{"secret": "hunter2"}')
    answer = client.get(path)
    assert answer.status_code in (400, 404, 422), answer.text
    assert "hunter2" not in answer.text
    assert "APIRouter" not in answer.text


def test_a_run_that_links_out_of_the_store_is_not_followed(client: TestClient, sick: Group, root: Path) -> None:
    secret = root.parent / "secret"
    secret.mkdir()
    (secret / "config.json").write_text('{"env": {"id": "hunter2"}}')
    (root / "linked").symlink_to(secret)
    log = sick.runs[1].path / "run.log"
    log.unlink()
    (secret / "log").write_text("hunter2\n")
    log.symlink_to(secret / "log")
    report = sick.path / "report.md"
    client.app.state.context.watch.look()  # type: ignore[attr-defined]
    for path in ("runs/linked", f"runs/{sick.runs[1].id}/log", f"groups/{sick.id}/diagnosis", "runs/linked/metrics.csv"):
        answer = client.get(f"{API}/{path}")
        assert answer.status_code == 404, path
        assert "hunter2" not in answer.text
    assert client.get(f"{API}/runs", params={"q": "linked"}).json()["total"] == 0
    log.unlink()
    report.symlink_to(secret / "log")
    assert client.get(f"{API}/groups/{sick.id}/files/report.md").status_code == 404


def test_a_request_chooses_no_file_no_command_and_no_module(
    client: TestClient, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    secret = "spec: {description: hunter2}\nppo: {env: {id: CartPole-v1}, algo: {name: ppo}, hunter2: 1}"
    (tmp_path / "mine.yaml").write_text(secret)
    files = [str(tmp_path / "mine.yaml"), "../mine.yaml", "mine.yaml", "mine.yaml:ppo", "mine.YML:ppo", "git:HEAD:x.yaml", "~/x", "."]
    for ref in (*files, "os:CartPole-v1", "antigravity:Flying-v0"):
        for path, body in (
            ("trainings", {"ref": ref}),
            ("config/validate", {"ref": ref}),
            ("trials", {"targets": [ref], "changes": ["algo.gamma=0.9"]}),
            ("studies/optimize", {"target": ref}),
            ("studies/sensitivity", {"target": ref}),
        ):
            answer = client.post(f"{API}/{path}", json=body)
            assert answer.status_code in (400, 404, 422), (path, ref, answer.text)
            assert "hunter2" not in answer.text
            assert ref not in files or "names a file" in answer.json()["detail"], (path, ref, answer.text)
    for change in ("env.id=antigravity:Flying-v0", "env_id=antigravity:X-v0", 'env.wrappers=["antigravity:Wrap"]', 'env_wrappers=["os:X"]'):
        answer = client.post(f"{API}/trainings", json={"ref": "CartPole-v1:ppo", "changes": [change]})
        assert answer.status_code in (400, 422), (change, answer.text)
    answer = client.post(f"{API}/trials", json={"targets": ["@last"], "command": "touch /tmp/x", "arms": ["a=1"]})
    assert answer.status_code == 422
    assert len(Store(root).groups()) == 1


# ── scripts in names ──


def test_scripts_in_names_notes_and_logs_stay_text(client: TestClient, sick: Group) -> None:
    script = "<script>alert(1)</script>"
    record = json.loads((sick.path / "group.json").read_text())
    (sick.path / "group.json").write_text(json.dumps({**record, "label": script, "name": script}))
    client.put(f"{API}/groups/{sick.id}/notes", json={"note": script})
    with (sick.runs[0].path / "run.log").open("a") as file:
        file.write(script + "\n")
    for path in ("groups", f"groups/{sick.id}", f"runs/{sick.runs[0].id}/log"):
        answer = client.get(f"{API}/{path}")
        assert script in answer.text  # JSON, which no browser renders
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe-inline" not in policy


def test_pages_forbid_inline_scripts_and_frames(client: TestClient) -> None:
    headers = client.get("/").headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "'unsafe" not in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    assert "access-control-allow-origin" not in headers


def test_a_tag_must_be_one(client: TestClient) -> None:
    answer = client.put(f"{API}/groups/@last/notes", json={"tags": ["<b>"]})
    assert answer.status_code == 400
    assert "cannot be a tag" in answer.json()["detail"]


def test_websockets_are_not_served(client: TestClient) -> None:
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/api/v1/events"):
        pass


def test_the_store_of_tokens_is_made_for_its_owner(serve: Serve, sick: Group, root: Path) -> None:
    client = serve(require_token=True)
    client.post(f"{API}/session", json={"token": token(client)})
    key = root / "@server" / "cookie.key"
    assert key.stat().st_mode & 0o077 == 0
    assert len(key.read_bytes()) == 32


def test_agents_pass_the_same_guard(sick: Group, serve: Serve) -> None:
    client = serve(require_token=True, mcp=True, max_body_bytes=2_000)
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    known = {**bearer(token(client)), "accept": "application/json, text/event-stream"}
    assert client.post("/mcp", json=asked).status_code == 401
    assert client.post("/mcp", json=asked, headers={**known, "host": "evil.example"}).status_code == 421
    assert client.post("/mcp", json=asked, headers={**known, "origin": "http://evil.example"}).status_code == 403
    assert client.post("/mcp", json={**asked, "params": {"cursor": "x" * 5_000}}, headers=known).status_code == 413
    assert client.post("/mcp", json=asked, headers=known).status_code == 200
