"""CSV and JSON lines as blocks of numbers, whatever their rows hold besides numbers."""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from rlclinic.errors import UsageError
from rlclinic.readers import text_files
from rlclinic.runs.metrics_file import table

MAX_COLUMNS: Final = 4_096
ARRAY_BYTES: Final = 64 << 20
_ARRAY_ROWS: Final = 4_096
_MAX_DEPTH: Final = 8
_GENERATOR: Final = re.compile(r"^(?:raw|mean)/gen/")
"""What imitation puts before the columns of the SB3 model that it trains."""


class Block(NamedTuple):
    """Some rows of a log."""

    names: list[str]
    values: NDArray[np.float64]
    """[rows, names]; NaN where there is no number."""
    blank: NDArray[np.bool_]
    """[rows, names]; "not logged" is another thing than "not a number"."""


@dataclass
class LeftOut:
    """What was left out while reading."""

    rows: int = 0
    skipped: int = 0
    """Lines that are no row: damaged, of another width, half written."""
    notes: list[str] = field(default_factory=list)

    def remember(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


def read_csv(file: BinaryIO, count: LeftOut) -> Iterator[Block]:
    """Rows of a CSV (comma, semicolon or tab). Another header further down begins other columns."""
    names: list[str] = []
    comma = b","
    for block, whole in text_files.read_blocks(file):
        pending = [line for line in block if line and not line.startswith(b"#")]
        if not whole:
            count.remember("the last line had no end yet and was left out")
            count.skipped += len(pending) if names else 0
            pending = [] if names else pending
        while pending:
            if not names:
                comma = _find_delimiter(pending[0])
                names, pending = _read_header(pending[0], comma, count, pending)
                continue
            place = _find_next_header(pending, names, comma)
            found = _parse_rows(pending[:place], names, comma, count)
            if found is not None:
                yield found
            pending, names = pending[place:], [] if place < len(pending) else names


def _find_delimiter(line: bytes) -> bytes:
    return max((b",", b";", b"\t"), key=line.count)


def _read_header(line: bytes, comma: bytes, count: LeftOut, pending: list[bytes]) -> tuple[list[str], list[bytes]]:
    cells = [cell.strip() for cell in _split_line(line.removeprefix(b"\xef\xbb\xbf"), comma)]
    if all(is_number(cell) for cell in cells):
        count.remember(f"no header: the columns are called column1 to column{len(cells)}")
        return [f"column{place + 1}" for place in range(len(cells))], pending
    if len(cells) > MAX_COLUMNS:
        raise UsageError(f"a header of {len(cells):,} columns; at most {MAX_COLUMNS:,} are read.\n  Write the columns that matter")
    return [_GENERATOR.sub("", cell.decode("utf-8", errors="replace")) for cell in cells], pending[1:]


def _split_line(line: bytes, comma: bytes) -> list[bytes]:
    if b'"' not in line:
        return line.split(comma)
    text = line.decode("utf-8", errors="replace")
    try:
        return [cell.encode() for cell in next(csv.reader([text], delimiter=comma.decode()))]
    except (csv.Error, StopIteration):
        return line.split(comma)


def is_number(cell: bytes) -> bool:
    """Whether a cell is a number, as Python reads it."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _find_next_header(pending: list[bytes], names: list[str], comma: bytes) -> int:
    """The place of the next line that is a header of another width; the number of lines if there is none."""
    width = len(names)
    for place, line in enumerate(pending):
        if line.count(comma) != width - 1 and b'"' not in line:
            cells = [cell.strip() for cell in line.split(comma)]
            if len(cells) > 1 and all(cells) and not any(is_number(cell) for cell in cells) and len(set(cells) & _encode(names)) > 1:
                return place
    return len(pending)


def _encode(names: list[str]) -> set[bytes]:
    return {name.encode() for name in names}


def _parse_rows(pending: list[bytes], names: list[str], comma: bytes, count: LeftOut) -> Block | None:
    width = len(names)
    if any(b'"' in line for line in pending):
        rows = [_split_line(line, comma) for line in pending]
        kept = [b",".join(cell.replace(b",", b"") for cell in row) for row in rows if len(row) == width]
    else:
        kept = [line for line in pending if line.count(comma) == width - 1]
        if comma != b",":
            # A comma inside of a cell is a decimal comma where columns are separated by something else.
            kept = [line.replace(b",", b".").replace(comma, b",") for line in kept]
    count.skipped += len(pending) - len(kept)
    count.rows += len(kept)
    if not kept:
        return None
    cells = b",".join(kept)
    if b"True" in cells or b"False" in cells:
        cells = cells.replace(b"True", b"1").replace(b"False", b"0")
    values, blank = table.numbers(cells)
    return Block(names, values.reshape(-1, width), blank.reshape(-1, width))


def read_json_lines(file: BinaryIO, count: LeftOut) -> Iterator[Block]:
    """Rows of a JSONL file; nested objects are flattened with "/" between their keys. Half an object at the end is left out."""
    for block, _ in text_files.read_blocks(file):
        found: list[dict[str, float]] = []
        for line in block:
            if not line.strip():
                continue
            row = _parse_json_line(line)
            if row is None:
                count.skipped += 1
            else:
                found.append(row)
        count.rows += len(found)
        if found:
            yield make_block(found, count)


def read_json_array(file: BinaryIO, count: LeftOut) -> Iterator[Block]:
    """Rows of a file that is one JSON array of objects: read as a whole, so it must not be large."""
    text = file.read(ARRAY_BYTES + 1)
    if len(text) > ARRAY_BYTES:
        raise UsageError(f"a JSON array of more than {ARRAY_BYTES >> 20} MB cannot be read in parts.\n  Write one object per line (JSONL)")
    try:
        value = from_json(text, allow_partial=True)
    except ValueError:
        value = None
    found = [flatten(row) for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []
    count.rows += len(found)
    for begin in range(0, len(found), _ARRAY_ROWS):
        yield make_block(found[begin : begin + _ARRAY_ROWS], count)


def read_json_object(file: BinaryIO, count: LeftOut) -> Iterator[Block]:
    """A file that is one JSON object of columns, `{"step": [...], "reward": [...]}`; JSON lines otherwise."""
    text = file.read(ARRAY_BYTES + 1)
    file.seek(0)
    found = {}
    if len(text) <= ARRAY_BYTES:
        try:
            found = _find_columns(from_json(text))
        except ValueError:
            found = {}
    if not found:
        yield from read_json_lines(file, count)
        return
    longest = max(len(values) for values in found.values())
    values, blank = np.full((longest, len(found)), np.nan), np.ones((longest, len(found)), dtype=bool)
    for place, column in enumerate(found.values()):
        values[: len(column), place] = column
        blank[: len(column), place] = False
    count.rows += longest
    yield Block(list(found), values, blank)


def _find_columns(record: Any, prefix: str = "", depth: int = 0) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for key, value in record.items() if isinstance(record, Mapping) else ():
        if isinstance(value, Mapping) and depth < _MAX_DEPTH:
            found |= _find_columns(value, f"{prefix}{key}/", depth + 1)
        elif isinstance(value, list) and len(value) > 1 and all(isinstance(item, int | float) for item in value):
            found[f"{prefix}{key}"] = [_to_float(item) for item in value]
    return dict(list(found.items())[:MAX_COLUMNS])


def _parse_json_line(line: bytes) -> dict[str, float] | None:
    try:
        value = from_json(line, cache_strings="keys")
    except ValueError:
        return None
    return flatten(value) if isinstance(value, Mapping) else None


def flatten(record: Mapping[str, Any], prefix: str = "", depth: int = 0) -> dict[str, float]:
    """The numbers of a record by path; texts and lists are left out."""
    found: dict[str, float] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            if depth < _MAX_DEPTH:
                found |= flatten(value, f"{prefix}{key}/", depth + 1)
        elif isinstance(value, int | float):
            found[f"{prefix}{key}"] = _to_float(value)
    return found


def _to_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def make_block(found: list[dict[str, float]], count: LeftOut) -> Block:
    """Rows that have different keys, as one block."""
    names = list(dict.fromkeys(name for row in found for name in row))
    if len(names) > MAX_COLUMNS:
        count.remember(f"{len(names) - MAX_COLUMNS:,} of {len(names):,} keys were left out")
        names = names[:MAX_COLUMNS]
    places = {name: place for place, name in enumerate(names)}
    values = np.full((len(found), len(names)), np.nan)
    blank = np.ones_like(values, dtype=bool)
    for line, row in enumerate(found):
        for name, value in row.items():
            place = places.get(name)
            if place is not None:
                values[line, place] = value
                blank[line, place] = False
    return Block(names, values, blank)
