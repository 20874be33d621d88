"""Weights & Biases' own files, `run-<id>.wandb`, as every run leaves one in its folder, online or offline; read without its package.

A file is a header of 7 bytes and blocks of 32 kB. A block holds chunks: checksum (uint32), length (uint16), kind (1 whole, 2 first,
3 middle, 4 last part of a record). A record is a protocol-buffer message, of which these fields are read:

    2 history{1 item{1 key, 2 nested key, 4 truth, 5 integer, 6 number, 8 or 16 JSON}, 2 step{1 number}}
    5 config{1 update{1 key, 2 nested key, 16 JSON}}
    13 raw output{3 text}     17 run{1 id, 3 project, 4 config, 8 name}     18 exit{1 code}

A file that is still being written, or was cut off, is read as far as it goes. Records with a wrong checksum are left out.
"""

import json
import struct
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from rlclinic import plain_files
from rlclinic.actions import Argument
from rlclinic.errors import UsageError
from rlclinic.readers import column_names, hyperparameters, metric_aliases, tables
from rlclinic.readers.options import Options
from rlclinic.readers.raw_log import RawLog
from rlclinic.readers.trackers import tagged_logs
from rlclinic.readers.trackers.protobuf import BYTES, FIXED64, VARINT, Damaged, find_messages, read_fields
from rlclinic.runs.history import History

SUFFIX: Final = ".wandb"
_MAGIC: Final = b":W&B\xe1\xbe\x00"
_BLOCK_BYTES: Final = 32_768
_CHUNK_HEADER: Final = 7
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
MAX_RECORD_BYTES: Final = 16 << 20
"""Longer records hold tables, pictures and files."""
_MAX_JSON_BYTES: Final = 1 << 20
_MAX_TAGS: Final = 4_096
_MAX_RUNS: Final = 256
_MAX_LINES: Final = 400
_MAX_LINE: Final = 2_000
_MAX_PARTS: Final = 8
_FLUSH: Final = 4_096
_STEP: Final = "_step"
_OWN: Final = ("_step", "_runtime", "_timestamp", "_wandb")


def matches(path: Path) -> bool:
    """One of its files, a run's folder, or the folder `wandb` that holds those."""
    return path.suffix == SUFFIX and _has_magic(path) if path.is_file() else next(_find_files(path), None) is not None


def _find_files(path: Path) -> Iterator[Path]:
    """The files of runs in a folder or one below it; `latest-run` is a link to one of them."""
    folders = [path, *sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.is_symlink())[: 4 * _MAX_RUNS]]
    for folder in folders:
        try:
            yield from (file for file in sorted(folder.glob(f"*{SUFFIX}")) if file.is_file() and _has_magic(file))
        except OSError:
            continue


def _has_magic(path: Path) -> bool:
    try:
        with plain_files.open_plain(path) as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def read(path: Path, options: Options) -> list[History]:
    """One history for each file; runs without a metric that is known are passed over where there are others."""
    files = [path] if path.is_file() else [file for file, _ in zip(_find_files(path), range(_MAX_RUNS), strict=False)]
    found = [_read_run(file, options) for file in files]
    kept = [history for history in found if history.series]
    if not kept:
        about = "; ".join(found[0].notes) if found else "no file could be read"
        raise UsageError(
            f"{path}: no metric in it is known ({about}).\n  Nothing can be said about the run.\n  Say which key is which: ",
            Argument("map", "return=KEY"),
            " ",
            Argument("map", "step=KEY"),
        )
    return kept


@dataclass
class _Run:
    """What a file says about its run, besides the history."""

    id: str = ""
    name: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    """Rows in which each number was logged."""
    rows: int = 0
    counts_rows: bool = True
    """Its step goes up by one with every row: the script gave none."""
    exit_code: int | None = None
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_MAX_LINES))


def _read_run(file: Path, options: Options) -> History:
    notes: list[str] = []
    run = _survey(file, notes)
    raw_log = RawLog(metric_aliases.EPISODIC | options.episodic)
    counter = options.mapping.step or _find_counter(run)
    if options.mapping.step is not None:
        options.mapping.check([*run.names, _STEP])
    _fill(file, raw_log, counter)
    raw_log.step_factor = options.mapping.step_factor
    said = [f"Weights & Biases' file {file.name}" + (f", on the axis {counter}" if counter else "")]
    if counter is None and run.counts_rows and run.rows > 1:
        said.append(
            "its step counts calls of wandb.log, not env steps; a map of step=KEY says which key does, one of step=_step*FACTOR converts"
        )
    made = tagged_logs.make_history(
        *(run.name or run.id or file.stem, "wandb", file.parent, raw_log, tagged_logs.translate_settings(run.config, run.name), options),
        notes=said,
        last_notes=notes if run.names else [*notes, "it has no history"],
        log="\n".join(run.lines),
        on_env_steps=counter is not None,
    )
    if made.state == "unknown" and run.exit_code is not None:
        ended = "finished" if run.exit_code == 0 else "failed"
        made = replace(made, state=ended, reason=None if run.exit_code == 0 else f"its process ended with code {run.exit_code}")
    unknown = counter is None and run.counts_rows and options.mapping.step_factor == 1.0
    return replace(made, env_steps=None) if unknown else made


def _survey(file: Path, notes: list[str]) -> _Run:
    """The first of two passes: settings, output, and which numbers there are; the second one puts them on the axis."""
    run, last = _Run(), None
    for number, message in _read_messages(file, notes):
        if number == 2:
            step, row = _read_history(message)
            run.rows += 1
            run.counts_rows &= last is None or step is None or step == last + 1
            last = step
            for name in row:
                if name in run.names or len(run.names) < _MAX_TAGS:
                    run.names[name] = run.names.get(name, 0) + 1
        elif number == 5:
            run.config |= _read_items(message, 1)
        elif number == 13:
            run.lines.extend(_read_text(message, 3)[:_MAX_LINE].splitlines())
        elif number == 17:
            run.id, run.name = _read_text(message, 1), _read_text(message, 8)
            for config in find_messages(message, 4):
                run.config |= _read_items(config, 1)
        elif number == 18:
            run.exit_code = next((code for place, kind, code in read_fields(message) if place == 1 and kind == VARINT), 0)
    run.config.pop("_wandb", None)
    # Its callbacks write whatever is no number as text: "True", "None".
    run.config = {key: hyperparameters.parse_value(value) if isinstance(value, str) else value for key, value in run.config.items()}
    return run


def _find_counter(run: _Run) -> str | None:
    """The key that counts env steps in most rows, as what TensorBoard's events are synchronized with; None if there is none."""
    often = [name for name, count in run.names.items() if 10 * count >= run.rows or count >= max(run.names.values())]
    step = column_names.guess_columns(often).step
    # "x" and "t" are columns of small tables; among the keys of a tracker they can be anything.
    return step if step is not None and len(step) > 1 else None


def _fill(file: Path, raw_log: RawLog, counter: str | None) -> None:
    """Every number of the history at the env step of its row; a row that has none is at the last one that was told."""
    buffers: dict[str, tuple[list[float], list[float], list[float]]] = {}
    order, at = 0, float("nan")
    for number, message in _read_messages(file, []):
        if number != 2:
            continue
        step, row = _read_history(message)
        at = (float(step) if step is not None else at) if counter is None or counter == _STEP else row.get(counter, at)
        for name, value in row.items():
            if name != counter and (name in buffers or len(buffers) < _MAX_TAGS):
                buffer = buffers.setdefault(name, ([], [], []))
                for column, item in zip(buffer, (float(order), at, value), strict=True):
                    column.append(item)
                order += 1
                if len(buffer[0]) >= _FLUSH:
                    raw_log.add_points(name, *(np.array(column) for column in buffer))
                    buffers[name] = ([], [], [])
    for name, buffer in buffers.items():
        if buffer[0]:
            raw_log.add_points(name, *(np.array(column) for column in buffer))


# ── messages ──


def _read_messages(file: Path, notes: list[str]) -> Iterator[tuple[int, bytes]]:
    """(field, content) of every record; what is no record is left out, with a note."""
    try:
        with plain_files.open_plain(file) as opened:
            for record in read_records(opened, file.name, notes):
                try:
                    # A record has one content, and then numbers about itself; broken ones show when all fields are read.
                    found = [(number, value) for number, kind, value in read_fields(record) if kind == BYTES and number in _CONTENTS]
                    for _number, value in found:
                        for _ in read_fields(value):
                            pass
                except Damaged:
                    _note(notes, f"{file.name}: records that are no messages were left out")
                    continue
                yield from found
    except OSError as error:
        _note(notes, f"{file.name} cannot be read: {error.strerror}")


_CONTENTS: Final = frozenset({2, 5, 13, 17, 18})


def _note(notes: list[str], note: str) -> None:
    if note not in notes:
        notes.append(note)


def _read_history(message: bytes) -> tuple[int | None, dict[str, float]]:
    """(step, numbers by key) of one call of wandb.log."""
    step = None
    for part in _find(message, 2):
        step = next((number for place, kind, number in _fields(part) if place == 1 and kind == VARINT), 0)
    items = _read_items(message, 1)
    if step is None and isinstance(items.get(_STEP), int):
        step = items[_STEP]
    if step is not None and not 0 <= step < 1 << 63:
        step = None
    return step, {name: value for name, value in tables.flatten(items).items() if name not in _OWN and not name.startswith("_wandb/")}


def _read_items(message: bytes, wanted: int) -> dict[str, Any]:
    """Keys and values; nested keys are joined as the script would have written them."""
    found: dict[str, Any] = {}
    for item in _find(message, wanted):
        key, value = "", None
        parts: list[str] = []
        for place, kind, content in _fields(item):
            if place == 1 and kind == BYTES:
                key = content.decode("utf-8", errors="replace")
            elif place == 2 and kind == BYTES and len(parts) < _MAX_PARTS:
                parts.append(content.decode("utf-8", errors="replace"))
            elif place > 2:
                value = _read_value(place, kind, content)
        name = key or "/".join(parts)
        if name and value is not None:
            found[name] = value
    return found


def _read_value(place: int, kind: int, content: Any) -> Any:
    """A value as JSON (all that older releases write), or by its type; None for a text and for what cannot be read."""
    if kind == VARINT and place == 4:
        return bool(content)
    if kind == VARINT and place == 5:
        return (content >> 1) ^ -(content & 1)  # zigzag: small negative numbers are short, too
    if kind == FIXED64 and place == 6:
        return struct.unpack("<d", content)[0]
    if kind != BYTES or place not in (8, 16) or len(content) > _MAX_JSON_BYTES:
        return None
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return float(value) if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity") else value


def _read_text(message: bytes, wanted: int) -> str:
    return next((value.decode("utf-8", errors="replace") for value in _find(message, wanted)), "")


def _fields(message: bytes) -> Iterator[tuple[int, int, Any]]:
    """The fields of a message as far as they can be read."""
    try:
        yield from read_fields(message)
    except Damaged:
        return


def _find(message: bytes, wanted: int) -> list[bytes]:
    return [value for number, kind, value in _fields(message) if number == wanted and kind == BYTES]


# ── records ──


def read_records(file: BinaryIO, name: str, notes: list[str]) -> Iterator[bytes]:
    """The records of a file, at its beginning. After a damaged place it goes on with the next block, where a chunk begins again."""
    parts: list[bytes] = []
    size = 0
    first = True
    while block := file.read(_BLOCK_BYTES):
        place = len(_MAGIC) if first else 0
        first = False
        while len(block) - place >= _CHUNK_HEADER:
            length, kind = int.from_bytes(block[place + 4 : place + 6], "little"), block[place + 6]
            data = block[place + _CHUNK_HEADER : place + _CHUNK_HEADER + length]
            if kind == 0 and length == 0:
                break  # the block was filled up with zeros
            if len(data) < length:
                if len(block) == _BLOCK_BYTES:
                    _note(notes, f"{name} is damaged: parts of it were left out")
                break  # the file ends here, for now
            whole = zlib.crc32(data, zlib.crc32(bytes([kind]))) == int.from_bytes(block[place : place + 4], "little")
            place += _CHUNK_HEADER + length
            if not whole or kind not in (_WHOLE, _FIRST, _MIDDLE, _LAST):
                _note(notes, f"{name} is damaged: parts of it were left out")
                parts, size = [], 0
                if kind not in (_WHOLE, _FIRST, _MIDDLE, _LAST):
                    break
                continue
            if kind in (_WHOLE, _FIRST):
                parts, size = [], 0
            elif not size:
                continue  # its beginning was lost
            size += max(length, 1)
            if size > MAX_RECORD_BYTES:
                parts = []
            else:
                parts.append(data)
            if kind in (_WHOLE, _LAST):
                if parts:
                    yield b"".join(parts)
                parts, size = [], 0
