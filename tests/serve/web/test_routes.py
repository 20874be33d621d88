import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from rlclinic.runs.store import Store
from rlclinic.serve.http.app import create_app
from rlclinic.serve.http.settings import Settings
from rlclinic.serve.web.routes import FILES, PAGES

OURS = [path for path in sorted(FILES.rglob("*")) if path.is_file() and "vendor" not in path.parts]
SCRIPTS = [path for path in OURS if path.suffix == ".js"]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    app = create_app(Store(tmp_path_factory.mktemp("empty")), Settings(mcp=False, no_token=True))
    return TestClient(app, base_url="http://localhost")


@pytest.mark.parametrize("address", PAGES)
def test_every_address_of_the_dashboard_gives_its_page(client: TestClient, address: str) -> None:
    answer = client.get(address.replace("{id}", "g7k2"))
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_every_file_is_served_as_what_it_is(client: TestClient, path: Path) -> None:
    answer = client.get(f"/static/{path.relative_to(FILES)}")
    assert answer.status_code == 200
    kinds = {".js": "javascript", ".css": "text/css", ".svg": "image/svg", ".html": "text/html"}
    assert kinds[path.suffix] in answer.headers["content-type"]


@pytest.mark.parametrize("address", ["/static/../routes.py", "/static/%2e%2e/routes.py", "/static/..%2froutes.py", "/static/nothere.js"])
def test_nothing_beside_the_static_files_is_handed_out(client: TestClient, address: str) -> None:
    assert client.get(address).status_code in (400, 404)


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_nothing_is_loaded_from_elsewhere_and_no_text_becomes_markup(path: Path) -> None:
    text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://", text), "everything a page needs is in the package"
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)


@pytest.mark.parametrize(("named", "status"), [("nothere", 404), ("../../etc", 422), ("@last", 404), ("a b", 422)])
def test_the_first_curve_of_what_is_not_there_is_refused_in_words(client: TestClient, named: str, status: int) -> None:
    answer = client.get("/first-curve", params={"of": named})
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.status_code in (status, 400)
    assert answer.json()["detail"]


def test_the_frame_has_no_script_or_style_of_its_own() -> None:
    frame = (FILES / "index.html").read_text("utf-8")
    assert not re.search(r"<script(?![^>]*src=)|<style|style=|\son\w+=", frame)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_every_module_that_is_imported_exists_and_has_what_is_asked_of_it(path: Path) -> None:
    text = path.read_text("utf-8")
    for names, where in re.findall(r'^import \{([^}]*)\} from "(\.[^"]+)";', text, re.MULTILINE):
        target = (path.parent / where).resolve()
        assert target.is_file(), where
        given = target.read_text("utf-8")
        exported = "\n".join(re.findall(r"export (?:async )?(?:function|class|const|let) [^;{(]*", given))
        for name in (part.strip() for part in names.split(",")):
            assert not name or re.search(rf"\b{name}\b", exported), name
    for where in re.findall(r'import\("(\.[^"]+)"\)', text):
        assert (path.parent / where).is_file(), where


def test_the_chart_library_brings_its_licence() -> None:
    assert "MIT" in (FILES / "vendor" / "uPlot.LICENSE").read_text("utf-8")
    assert (FILES / "vendor" / "uPlot.iife.min.js").stat().st_size < 60_000
