"""The short forms of `python -m benchmarks.attack --only requests` and `--only files`: no error of the server, no crash, no effect."""

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.attack import files, hostile_files, requests
from tests.serve.mcp.stores import ran


def test_fuzzed_requests_find_no_server_error_and_change_nothing_without_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert ran(partial(requests._attack, 7, 100)) == ([], [])


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


def test_hostile_files_crash_nothing_and_are_not_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = hostile_files._hand_made

    def sample(mark: Any) -> Any:
        # Every 61st: contents and kinds of file in turn; the long form has all.
        return (case for place, case in enumerate(made(mark)) if place % 61 == 0)

    monkeypatch.setattr(hostile_files, "_hand_made", sample)
    found = files.attack(15, seed=7)
    assert found["files"] == 15
    for harm in ("crashes", "hangs", "memory", "executed"):
        assert not found[harm], (harm, found[harm][:5])
