"""The recorded samples, and small logs that tests write themselves."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rlclinic.runs.export.events import EventFile

SAMPLES = Path(__file__).parent / "samples"
CopySample = Callable[..., Path]


@pytest.fixture
def samples() -> Path:
    return SAMPLES


@pytest.fixture
def copy_sample(tmp_path: Path) -> CopySample:
    """A copy of a sample, to damage it."""

    def copy(name: str, *keep: str) -> Path:
        target = tmp_path / name
        shutil.copytree(SAMPLES / name, target)
        for path in sorted(target.rglob("*")) if keep else []:
            if path.is_file() and not any(path.match(pattern) for pattern in keep):
                path.unlink()
        return target

    return copy


@pytest.fixture
def write_events(tmp_path: Path) -> Callable[..., Path]:
    """A folder with one event file: rows of (step, {tag: number})."""

    def write(rows: Sequence[tuple[int, dict[str, float]]], folder: str = "run") -> Path:
        path = tmp_path / folder
        path.mkdir(parents=True, exist_ok=True)
        events = EventFile(path)
        for step, scalars in rows:
            events.add(step, 1.0, scalars)
        return path

    return write
