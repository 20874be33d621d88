"""The short form of `python -m benchmarks.attack --only requests`: no server error, and nothing changes without a token."""

from functools import partial
from pathlib import Path

import pytest

from benchmarks.attack import requests
from tests.serve.mcp.stores import ran


def test_fuzzed_requests_find_no_server_error_and_change_nothing_without_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert ran(partial(requests._attack, 7, 400)) == ([], [])


def test_the_fuzzer_sees_a_server_error_and_an_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def burn(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("rlclinic.serve.http.routes.status.get_training_status", burn)
    monkeypatch.setattr("rlclinic.serve.http.security.guard.SAFE", frozenset({"GET", "HEAD", "OPTIONS", "DELETE"}))
    errors, effects = ran(partial(requests._attack, 7, 400))
    assert any("/api/v1/status" in error for error in errors)
    assert effects
