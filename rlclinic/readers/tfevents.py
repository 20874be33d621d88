"""TensorBoard event files, read without TensorBoard.

A file is a sequence of records: length (uint64), its checksum, data, its checksum. The data is a protocol-buffer Event:
1 wall time, 2 step, 5 summary{1 value{1 tag, 2 number, 8 tensor, 9 metadata{1 plugin{1 name, 2 content}}}}. Everything else
is skipped unread. A file that is still being written ends in half a record: reading stops there.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from rlclinic.runs.events import masked_crc

NAME: Final = "tfevents"
MAX_RECORD_BYTES: Final = 32 << 20
"""Larger records hold images, videos or graphs."""
MAX_TEXT_BYTES: Final = 1 << 20
_MAX_FILE_BYTES: Final = 1 << 50
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOAT: Final = struct.Struct("<f")
_TENSOR_NUMBERS: Final = {5: "<f", 6: "<d"}


class Damaged(ValueError):
    """Bytes that are no record or no message."""


@dataclass(slots=True)
class Scalar:
    """One number of one tag."""

    tag: str
    step: int
    value: float


@dataclass
class Text:
    """One text of one tag."""

    tag: str
    text: str


@dataclass
class Hyperparameters:
    """What the hparams plugin was told."""

    values: dict[str, Any] = field(default_factory=dict)


Item = Scalar | Text | Hyperparameters


def is_event_file(path: Path) -> bool:
    """Whether a file is called so, or begins with a record whose checksum holds."""
    if NAME in path.name:
        return True
    try:
        with path.open("rb") as file:
            header = file.read(12)
    except OSError:
        return False
    return len(header) == 12 and _has_checksum(header) and struct.unpack("<Q", header[:8])[0] < MAX_RECORD_BYTES


def read_items(path: Path, notes: list[str]) -> Iterator[Item]:
    """Every scalar, text and hyperparameter of a file, in order; where the file is damaged, it ends, and a note says so."""
    try:
        with path.open("rb") as file:
            for record in read_records(file, path.name, notes):
                scalar = _read_common_event(record)
                if scalar is not None:
                    yield scalar
                    continue
                try:
                    yield from _read_event(record)
                except (Damaged, struct.error):
                    note = f"{path.name}: records that are no events were left out"
                    if note not in notes:
                        notes.append(note)
    except OSError as error:
        notes.append(f"{path.name} cannot be read: {error.strerror}")


def read_records(file: BinaryIO, name: str, notes: list[str]) -> Iterator[bytes]:
    """The data of every record. Half a record at the end is what a live run looks like."""
    place = 0
    while True:
        header = file.read(12)
        if len(header) < 12:
            return
        length = int.from_bytes(header[:8], "little")
        # Checksums in Python are slow; the length's is looked at where it matters: a wrong length would end the file silently.
        if ((place == 0 or length > 4_096) and not _has_checksum(header)) or length > _MAX_FILE_BYTES:
            notes.append(f"{name} is damaged at byte {place:,}: what comes after it was left out")
            return
        if length > MAX_RECORD_BYTES:
            file.seek(length + 4, 1)
        else:
            data = file.read(length + 4)
            if len(data) < length + 4:
                if not _has_checksum(header):
                    notes.append(f"{name} is damaged at byte {place:,}: what comes after it was left out")
                return
            yield data[:length]
        place += length + 16


def _has_checksum(header: bytes) -> bool:
    return masked_crc(header[:8]) == int.from_bytes(header[8:12], "little")


# ── protocol buffers ──


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if place >= len(data) or shift > 63:
            raise Damaged("a number has no end")
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


def _read_fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """(field, wire type, value) of a message: numbers as int, everything else as bytes."""
    place, end = 0, len(data)
    while place < end:
        key = data[place]
        place += 1
        if key >= 0x80:
            key, place = _read_varint(data, place - 1)
        number, kind = key >> 3, key & 7
        if kind == _BYTES:
            length, place = _read_varint(data, place)
            if place + length > end:
                raise Damaged("a field is longer than its message")
            yield number, kind, data[place : place + length]
            place += length
        elif kind == _VARINT:
            value, place = _read_varint(data, place)
            yield number, kind, value
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
            if place + size > end:
                raise Damaged("a number is cut off")
            yield number, kind, data[place : place + size]
            place += size
        else:
            raise Damaged(f"wire type {kind}")


def _read_common_event(data: bytes) -> Scalar | None:
    """The event that most of a file consists of, read at its fixed places: time, step, one tag with one number; None for any other."""
    if len(data) < 20 or data[0] != 0x09 or data[9] != 0x10:
        return None
    place, step, shift = 10, 0, 0
    while data[place] >= 0x80 and shift < 28:
        step |= (data[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
    step |= data[place] << shift
    # 5 summary, 1 value, 1 tag, each with a length of one byte; 2 number.
    rest = len(data) - place
    if rest < 12 or data[place] >= 0x80 or data[place + 1] != 0x2A or data[place + 2] != rest - 3 or data[place + 3] != 0x0A:
        return None
    tag, end = place + 7, len(data) - 5
    if data[place + 4] != rest - 5 or data[place + 5] != 0x0A or tag + data[place + 6] != end or data[end] != 0x15:
        return None
    return Scalar(data[tag:end].decode("utf-8", errors="replace"), step, _FLOAT.unpack_from(data, end + 1)[0])


def _read_event(data: bytes) -> Iterator[Item]:
    step, summaries = 0, []
    for number, kind, value in _read_fields(data):
        if number == 2 and kind == _VARINT:
            step = value if value < 1 << 63 else value - (1 << 64)
        elif number == 5 and kind == _BYTES:
            summaries.append(value)
    for summary in summaries:
        for number, kind, value in _read_fields(summary):
            if number == 1 and kind == _BYTES:
                found = _read_value(value, step)
                if found is not None:
                    yield found


def _read_value(data: bytes, step: int) -> Item | None:
    tag, tensor, metadata = "", None, None
    for number, kind, value in _read_fields(data):
        if number == 1 and kind == _BYTES:
            tag = value.decode("utf-8", errors="replace")
        elif number == 2 and kind == _FIXED32:
            return Scalar(tag, step, struct.unpack("<f", value)[0])
        elif number == 8 and kind == _BYTES:
            tensor = value
        elif number == 9 and kind == _BYTES:
            metadata = value
    if tag.startswith("_hparams_/") and metadata is not None:
        return Hyperparameters(_read_hyperparameters(metadata))
    return _read_tensor(tag, step, tensor) if tensor is not None else None


def _read_tensor(tag: str, step: int, data: bytes) -> Item | None:
    """A tensor of one number or one text: how newer writers log scalars, and all writers texts."""
    kind_of_data, content = 0, b""
    for number, kind, value in _read_fields(data):
        if number == 1 and kind == _VARINT:
            kind_of_data = value
        elif number == 8 and kind == _BYTES and len(value) <= MAX_TEXT_BYTES:
            return Text(tag, value.decode("utf-8", errors="replace"))
        elif number in _TENSOR_NUMBERS:
            form = _TENSOR_NUMBERS[number]
            size = struct.calcsize(form)
            if isinstance(value, bytes) and len(value) == size:
                return Scalar(tag, step, float(struct.unpack(form, value)[0]))
        elif number == 4 and kind == _BYTES:
            content = value
    form = {1: "<f", 2: "<d"}.get(kind_of_data, "")
    if form and len(content) == struct.calcsize(form):
        return Scalar(tag, step, float(struct.unpack(form, content)[0]))
    return None


def _read_hyperparameters(metadata: bytes) -> dict[str, Any]:
    """metadata{1 plugin{2 content{3 session_start_info{1 hparams: map of key to value{2 number, 3 text, 4 truth}}}}}."""
    found: dict[str, Any] = {}
    for plugin in _find_messages(metadata, 1):
        for content in _find_messages(plugin, 2):
            for session in _find_messages(content, 3):
                for entry in _find_messages(session, 1):
                    key, value = "", None
                    for number, kind, part in _read_fields(entry):
                        if number == 1 and kind == _BYTES:
                            key = part.decode("utf-8", errors="replace")
                        elif number == 2 and kind == _BYTES:
                            value = _read_json_value(part)
                    if key and value is not None:
                        found[key] = value
    return found


def _find_messages(data: bytes, wanted: int) -> list[bytes]:
    return [value for number, kind, value in _read_fields(data) if number == wanted and kind == _BYTES]


def _read_json_value(data: bytes) -> Any:
    for number, kind, value in _read_fields(data):
        if number == 2 and kind == _FIXED64:
            return struct.unpack("<d", value)[0]
        if number == 3 and kind == _BYTES:
            return value.decode("utf-8", errors="replace")
        if number == 4 and kind == _VARINT:
            return bool(value)
    return None
