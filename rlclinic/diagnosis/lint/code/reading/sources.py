"""Reading scripts: Python files, notebooks and folders of them, with a place for every line."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rlclinic.actions import Action
from rlclinic.errors import NotFound, UsageError

LARGEST: Final = 5_000_000
"""Bytes of a file that is still read; nobody writes more by hand."""
MOST_FILES: Final = 2_000
_SKIPPED: Final = frozenset(
    {".git", ".venv", "venv", "env", "node_modules", "__pycache__", "build", "dist", "site-packages", ".tox", "runs"}
)
_MAGIC: Final = re.compile(r"^(\s*)([%!?].*)$", flags=re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """The text of one script."""

    name: str
    """As the user would type it."""
    text: str
    cells: tuple[tuple[int, int], ...] = ()
    """For a notebook: the first line of each code cell in the text, and the cell's number."""

    def place(self, line: int) -> str:
        """train.py:42, or train.ipynb:cell 3:7."""
        begins = [cell for cell in self.cells if cell[0] <= line]
        return f"{self.name}:cell {begins[-1][1]}:{line - begins[-1][0] + 1}" if begins else f"{self.name}:{line}"


def read(target: str) -> list[Source]:
    """The scripts that a path means: one file, or all below a folder. NotFound and UsageError say what to type."""
    path = Path(target)
    if path.is_dir():
        sources = [source for file in _below(path) if (source := _read_quietly(file)) is not None]
        if not sources:
            raise NotFound(f"{target} holds no .py or .ipynb file.\n  There is no code to check.\n  Try: ", Action("lint", code="train.py"))
        return sources
    if not path.exists():
        raise NotFound(f"{target} does not exist.\n  There is no code to check.\n  Try: ", Action("lint", code="path/to/train.py"))
    return [_read(path)]


def _below(folder: Path) -> Iterator[Path]:
    files = sorted(file for pattern in ("*.py", "*.ipynb") for file in folder.rglob(pattern))
    kept = [file for file in files if not _SKIPPED & set(file.relative_to(folder).parts[:-1]) and ".ipynb_checkpoints" not in file.parts]
    yield from (file for file in kept[:MOST_FILES] if file.is_file())


def _read_quietly(path: Path) -> Source | None:
    try:
        return _read(path)
    except UsageError:
        return None


def _read(path: Path) -> Source:
    size = path.stat().st_size
    if size > LARGEST:
        raise UsageError(
            f"{path} has {size:,} bytes; scripts of up to {LARGEST:,} are checked.\n  Try: the file that holds the training loop"
        )
    try:
        # utf-8-sig: some editors put a mark at the beginning, which Python itself skips too.
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as reason:
        raise UsageError(
            f"{path} cannot be read as text ({reason}).\n  There is no code to check.\n  Try: a .py or .ipynb file"
        ) from reason
    return _notebook(path, text) if path.suffix == ".ipynb" else Source(str(path), text)


def _notebook(path: Path, text: str) -> Source:
    try:
        cells: list[dict[str, Any]] = [cell for cell in json.loads(text)["cells"] if cell.get("cell_type") == "code"]
        sources = [cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"]) for cell in cells]
    except (ValueError, KeyError, TypeError, AttributeError) as reason:
        raise UsageError(
            f"{path} is not a notebook that can be read ({type(reason).__name__}: {reason}).\n  There is no code to check.\n"
            f"  Try: jupyter nbconvert --to script {path.name}"
        ) from reason
    lines: list[str] = []
    begins = []
    for number, source in enumerate(sources, 1):
        begins.append((len(lines) + 1, number))
        # Shell commands and magics are no Python; the rest of the cell is.
        lines += ["# cell magic"] * len(source.splitlines()) if source.startswith("%%") else _MAGIC.sub(r"\1pass", source).splitlines()
    return Source(str(path), "\n".join(lines) + "\n", tuple(begins))
