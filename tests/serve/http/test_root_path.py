"""A server at a path of its own, and a store that cannot be written to."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from rlclinic.errors import UsageError
from rlclinic.runs.store import Store
from rlclinic.serve.http.app import create_app
from rlclinic.serve.http.settings import Settings, check_root_path
from tests.ops.recorded import record_group


@pytest.mark.parametrize(("typed", "meant"), [("", ""), ("/", ""), ("rl", "/rl"), ("/rl/", "/rl"), ("a/b", "/a/b")])
def test_a_path_is_understood_with_and_without_slashes(typed: str, meant: str) -> None:
    assert check_root_path(typed) == meant


@pytest.mark.parametrize("typed", ['/rl"><script>', "/a b", "/ü", "/a//b", "/" + 300 * "x"])
def test_what_is_no_path_is_refused(typed: str) -> None:
    with pytest.raises(UsageError):
        check_root_path(typed)


def test_the_frame_names_the_path_and_requests_are_answered_with_it_and_without(tmp_path: Path) -> None:
    with TestClient(create_app(Store(tmp_path / "runs"), Settings(no_token=True, root_path="/rl")), base_url="http://127.0.0.1") as client:
        for prefix in ("", "/rl"):
            frame = client.get(f"{prefix}/").text
            assert 'src="/rl/static/js/main.js"' in frame
            assert '<meta name="rlclinic-root" content="/rl">' in frame
            assert 'href="/static' not in frame
            assert client.get(f"{prefix}/static/js/main.js").status_code == 200
            assert client.get(f"{prefix}/api/v1/groups").status_code == 200
        assert client.get("/rlx/api/v1/groups").status_code == 404
        wrong = client.get("/rl/groups/x?token=wrong", follow_redirects=False)
        assert wrong.headers["location"] == "/rl/login"
    with TestClient(
        create_app(Store(tmp_path / "runs"), Settings(require_token=True, root_path="/rl")), base_url="http://127.0.0.1"
    ) as client:
        asked = client.get("/rl/", headers={"accept": "text/html"}, follow_redirects=False)
        assert asked.headers["location"] == "/rl/login"


LOOK = """
import sys
from pathlib import Path
from fastapi.testclient import TestClient
from rlclinic.ops.diagnose.diagnose import diagnose
from rlclinic.ops.diagnose.export.export import export
from rlclinic.ops.runs.requests import ExportRequest, TableRequest
from rlclinic.ops.runs.table import show_table
from rlclinic.runs.store import Store
from rlclinic.serve.http.app import create_app
from rlclinic.serve.http.settings import Settings
root, out = Path(sys.argv[1]), Path(sys.argv[2])
try:
    (root / "new").mkdir()
except PermissionError:
    pass
else:
    raise SystemExit("the folder can be written to")
report = diagnose(runs_dir=root)
assert report.not_written, report.files
assert show_table(TableRequest(runs_dir=root)).total == 1
export(ExportRequest(runs_dir=root, out=out / "page.html"))
with TestClient(create_app(Store(root), Settings(no_token=True, read_only=True, mcp=False)), base_url="http://127.0.0.1") as client:
    for path in ("table", "groups", f"groups/{report.group}", f"groups/{report.group}/diagnosis", "status", "ask?question=stuck"):
        answer = client.get(f"/api/v1/{path}")
        assert answer.status_code == 200, (path, answer.text)
print("all of it")
"""


def test_a_store_that_cannot_be_written_to_can_be_listed_diagnosed_exported_and_served(tmp_path: Path) -> None:
    root, out = tmp_path / "runs", tmp_path / "out"
    record_group(root, seeds=(0,))
    shutil.rmtree(root / "@index", ignore_errors=True)
    out.mkdir()
    folders = [path for path in (root, *root.rglob("*")) if path.is_dir() and not path.is_symlink()]
    for folder in folders:
        folder.chmod(0o555)
    prctl = ctypes.CDLL(None).prctl

    def forgo_override() -> None:
        for capability in (1, 2, 3):  # root may write everywhere while it has these
            prctl(24, capability, 0, 0, 0)

    environment = {**os.environ, "TMPDIR": str(out)}
    try:
        done = subprocess.run(
            [sys.executable, "-c", LOOK, str(root), str(out)],
            env=environment,
            preexec_fn=forgo_override,
            capture_output=True,
            text=True,
            timeout=120,
        )
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert done.stdout == "all of it\n", done.stderr[-2000:]
