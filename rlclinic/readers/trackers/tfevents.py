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

from rlclinic import plain_files
from rlclinic.readers.trackers.protobuf import BYTES, FIXED32, FIXED64, VARINT, Damaged, find_messages, read_fields
from rlclinic.runs.export.events import masked_crc

NAME: Final = "tfevents"
MAX_RECORD_BYTES: Final = 32 << 20
"""Larger records hold images, videos or graphs."""
MAX_TEXT_BYTES: Final = 1 << 20
_MAX_FILE_BYTES: Final = 1 << 50
_FLOAT: Final = struct.Struct("<f")
_TENSOR_NUMBERS: Final = {5: "<f", 6: "<d"}


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
        with plain_files.open_plain(path) as file:
            header = file.read(12)
    except OSError:
        return False
    return len(header) == 12 and _has_checksum(header) and struct.unpack("<Q", header[:8])[0] < MAX_RECORD_BYTES


def read_items(path: Path, notes: list[str]) -> Iterator[Item]:
    """Every scalar, text and hyperparameter of a file, in order; where the file is damaged, it ends, and a note says so."""
    try:
        with plain_files.open_plain(path) as file:
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
    for number, kind, value in read_fields(data):
        if number == 2 and kind == VARINT:
            step = value if value < 1 << 63 else value - (1 << 64)
        elif number == 5 and kind == BYTES:
            summaries.append(value)
    for summary in summaries:
        for number, kind, value in read_fields(summary):
            if number == 1 and kind == BYTES:
                found = _read_value(value, step)
                if found is not None:
                    yield found


def _read_value(data: bytes, step: int) -> Item | None:
    tag, tensor, metadata = "", None, None
    for number, kind, value in read_fields(data):
        if number == 1 and kind == BYTES:
            tag = value.decode("utf-8", errors="replace")
        elif number == 2 and kind == FIXED32:
            return Scalar(tag, step, struct.unpack("<f", value)[0])
        elif number == 8 and kind == BYTES:
            tensor = value
        elif number == 9 and kind == BYTES:
            metadata = value
    if tag.startswith("_hparams_/") and metadata is not None:
        return Hyperparameters(_read_hyperparameters(metadata))
    return _read_tensor(tag, step, tensor) if tensor is not None else None


def _read_tensor(tag: str, step: int, data: bytes) -> Item | None:
    """A tensor of one number or one text: how newer writers log scalars, and all writers texts."""
    kind_of_data, content = 0, b""
    for number, kind, value in read_fields(data):
        if number == 1 and kind == VARINT:
            kind_of_data = value
        elif number == 8 and kind == BYTES and len(value) <= MAX_TEXT_BYTES:
            return Text(tag, value.decode("utf-8", errors="replace"))
        elif number in _TENSOR_NUMBERS:
            form = _TENSOR_NUMBERS[number]
            size = struct.calcsize(form)
            if isinstance(value, bytes) and len(value) == size:
                return Scalar(tag, step, float(struct.unpack(form, value)[0]))
        elif number == 4 and kind == BYTES:
            content = value
    form = {1: "<f", 2: "<d"}.get(kind_of_data, "")
    if form and len(content) == struct.calcsize(form):
        return Scalar(tag, step, float(struct.unpack(form, content)[0]))
    return None


def _read_hyperparameters(metadata: bytes) -> dict[str, Any]:
    """metadata{1 plugin{2 content{3 session_start_info{1 hparams: map of key to value{2 number, 3 text, 4 truth}}}}}."""
    found: dict[str, Any] = {}
    for plugin in find_messages(metadata, 1):
        for content in find_messages(plugin, 2):
            for session in find_messages(content, 3):
                for entry in find_messages(session, 1):
                    key, value = "", None
                    for number, kind, part in read_fields(entry):
                        if number == 1 and kind == BYTES:
                            key = part.decode("utf-8", errors="replace")
                        elif number == 2 and kind == BYTES:
                            value = _read_json_value(part)
                    if key and value is not None:
                        found[key] = value
    return found


def _read_json_value(data: bytes) -> Any:
    for number, kind, value in read_fields(data):
        if number == 2 and kind == FIXED64:
            return struct.unpack("<d", value)[0]
        if number == 3 and kind == BYTES:
            return value.decode("utf-8", errors="replace")
        if number == 4 and kind == VARINT:
            return bool(value)
    return None
