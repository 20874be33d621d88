"""The short form of `python -m benchmarks.attack --only requests`: no server error, and nothing changes without a token."""

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.attack import requests
from tests.serve.mcp.stores import ran


def test_fuzzed_requests_find_no_server_error_and_change_nothing_without_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert ran(partial(requests._attack, 7, 200)) == ([], [])


def test_the_fuzzer_sees_a_server_error_and_an_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def burn(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("rlclinic.serve.http.routes.status.get_training_status", burn)
    monkeypatch.setattr("rlclinic.serve.http.security.guard.SAFE", frozenset({"GET", "HEAD", "OPTIONS", "DELETE"}))
    # These routes alone: of all, a few hundred requests seldom find one that removes something.
    everything = requests._Fuzzer.__init__

    def some(self: Any, app: Any, chance: random.Random) -> None:
        everything(self, app, chance)
        self.routes = [route for route in self.routes if route[0] == "DELETE" or route[1] == "/api/v1/status"]

    monkeypatch.setattr(requests._Fuzzer, "__init__", some)
    errors, effects = ran(partial(requests._attack, 7, 120))
    assert any("/api/v1/status" in error for error in errors)
    assert effects
