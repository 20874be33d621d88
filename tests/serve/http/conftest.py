"""A small store and a server over it, asked in process."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.serve.http.app import create_app
from rlclinic.serve.http.settings import Settings
from tests.ops.recorded import add_checkpoint, flat, record_group

Serve = Callable[..., TestClient]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def sick(root: Path) -> Group:
    """A group of three seeds that does not learn; its first run has a checkpoint."""
    group = record_group(root, returns=flat)
    add_checkpoint(group.runs[0].path, 10_240, best=True)
    return group


@pytest.fixture
def serve(root: Path) -> Iterator[Serve]:
    """Start a server over the store with the given settings; all end with the test."""
    with ExitStack() as stack:

        def start(base_url: str = "http://localhost", **settings: Any) -> TestClient:
            usual = {"refresh_seconds": 0.05, "follow_seconds": 0.02, "mcp": False, "prepare": False}
            # No system knows which user asks within one process.
            usual["no_token"] = not settings.get("require_token")
            app = create_app(Store(root), Settings(**{**usual, **settings}))
            return stack.enter_context(TestClient(app, base_url=base_url, follow_redirects=False))

        yield start


@pytest.fixture
def client(sick: Group, serve: Serve) -> TestClient:
    """A server on this machine's own address, as `rlclinic serve` starts it."""
    return serve()
