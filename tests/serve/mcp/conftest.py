"""The tools are tried on recorded runs: slow, high, crashed, abc123 and fine have ended, going is training."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.generate import questions


@pytest.fixture(scope="module")
def recorded() -> Iterator[Path]:
    with questions.store() as folder:
        yield folder
