"""What the dashboard is tested in, and what is said where it cannot be."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.serve.web import chromium


@pytest.mark.parametrize(
    ("user", "apt", "first"), [(0, "/usr/bin/apt-get", "apt-get"), (1000, "/usr/bin/apt-get", sys.executable), (0, None, sys.executable)]
)
def test_where_none_is_installed_it_is_installed_in_the_way_that_is_allowed(
    user: int, apt: str | None, first: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed: list[list[str]] = []
    monkeypatch.setattr(chromium.os, "geteuid", lambda: user)
    monkeypatch.setattr(chromium.shutil, "which", lambda name: apt if name == "apt-get" else None)
    monkeypatch.setattr(chromium, "find", lambda: "/opt/chromium" if typed else None)
    monkeypatch.setattr(chromium.subprocess, "run", lambda command, **_: typed.append(command))
    chromium.main()
    assert [command[0] for command in typed] == [first]
    assert "is tested in /opt/chromium" in capsys.readouterr().err


def test_where_nothing_can_be_installed_one_line_says_what_is_left_out_and_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(command: list[str], **_: Any) -> None:
        raise OSError(f"no network for {command[0]}")

    monkeypatch.setattr(chromium, "find", lambda: None)
    monkeypatch.setattr(chromium.subprocess, "run", fail)
    chromium.main()
    assert capsys.readouterr().err.splitlines()[-1] == chromium.MISSING


def test_the_one_that_playwright_fetched_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    there = tmp_path / "chrome"

    class Playwright:
        chromium: Any = type("Browser", (), {"executable_path": str(there)})

        def __enter__(self) -> "Playwright":
            return self

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(chromium.shutil, "which", lambda _: None)
    monkeypatch.setattr("playwright.sync_api.sync_playwright", Playwright)
    assert chromium.find() is None
    there.write_text("")
    assert chromium.find() == str(there)
