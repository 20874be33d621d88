"""What tests of training share."""

import os

import pytest


@pytest.fixture(autouse=True)
def do_not_wait_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of small files are written here, and none must outlive a power cut."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
