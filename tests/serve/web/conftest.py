"""The dashboard in a real Chromium, over a real server and a store of recorded runs. Whatever the console says is a failure."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvicorn

from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.serve.http.app import create_app
from rlclinic.serve.http.settings import Settings
from tests.diagnosis import stored
from tests.ops.recorded import add_checkpoint, record_group
from tests.serve.web import chromium

NASTY = "<img src=x onerror=\"document.title='owned'\">"
"""What must stay text wherever it is shown."""


class Site(NamedTuple):
    """A server, and what lies in its store."""

    url: str
    root: Path
    sick: Group
    healthy: Group


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium for all tests of this process."""
    api = pytest.importorskip("playwright.sync_api", reason=chromium.NO_PLAYWRIGHT)
    path = chromium.find()
    if path is None:
        pytest.skip(chromium.MISSING)
    # A loop that another test has left behind in this thread is none that a browser could disturb: nobody runs it any more.
    asyncio._set_running_loop(None)
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server over two groups: one that takes steps that are too large, one that learns."""
    root = tmp_path_factory.mktemp("site") / "runs"
    healthy = record_group(root)
    add_checkpoint(healthy.runs[0].path, 10_240, best=True)
    sick = stored.write_group("cp-lr-x30", root, extra={"label": f"too hot {NASTY}"})
    with serving(root) as url:
        yield Site(url, root, sick, healthy)


class serving:
    """A server in a thread of this process, for as long as the block lasts."""

    def __init__(self, root: Path, **settings: Any) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        chosen = Settings(port=self.port, refresh_seconds=0.1, follow_seconds=0.05, mcp=False, prepare_films=False, **settings)
        app = create_app(Store(root), chosen)
        config = uvicorn.Config(app, host="127.0.0.1", port=self.port, log_level="critical", timeout_graceful_shutdown=1)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> str:
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        return f"http://127.0.0.1:{self.port}"

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(10)


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A fresh page; an error on its console, or a script that fails, fails the test."""
    context = browser.new_context(viewport={"width": 1360, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(20_000)
    opened = context.new_page()
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: said.append(str(error)))
    # Words of reports that a test brings about; the browser makes them whenever it gets to it. Other tests make and remove networks.
    opened.expected = ["ERR_NETWORK_CHANGED"]
    yield opened
    opened.close()
    context.close()
    odd = [text for text in said if not any(word in text for word in opened.expected)]
    assert not odd, f"the console said: {odd}"
