"""What the dashboard is tested in, and what is said where it cannot be."""

from pathlib import Path
from typing import Any

import pytest

from tests.serve.web import chromium


def test_where_none_is_installed_one_is_fetched_and_where_that_fails_it_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(chromium, "find", lambda: "/opt/chromium" if len(asked) == 2 else None)
    monkeypatch.setattr(chromium.subprocess, "run", lambda command, **_: asked.append(command))
    chromium.main()
    assert asked[0][1:] == ["-m", "playwright", "install", "chromium"]
    assert "NOT tested in a browser" in capsys.readouterr().err
    chromium.main()
    assert "is tested in /opt/chromium" in capsys.readouterr().err


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
