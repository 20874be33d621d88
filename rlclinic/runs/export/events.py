"""TensorBoard event files, written without TensorBoard: the record framing and the two messages that scalars need.

A file is a sequence of records: length (uint64), its checksum, data, its checksum. The data is a protocol-buffer Event:
1 wall time (double), 2 step (varint), 3 file version (text), 5 summary{1 value{1 tag (text), 2 number (float)}}.
"""

import math
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeGuard

from rlclinic.runs import disk
from rlclinic.runs.lock import HOST

_POLYNOMIAL: Final = 0x82F63B78  # CRC-32C (Castagnoli), bits reversed
_MASK: Final = 0xA282EAD8


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE: Final = _table()


class EventFile:
    """One event file of a run. A resume opens another; TensorBoard joins them and drops the steps that were repeated."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"events.out.tfevents.{time.time_ns() // 1000}.{HOST}.rlclinic"
        self._write(_double(1, time.time()) + encode_bytes(3, b"brain.Event:2"))

    def add(self, step: int, wall_time: float, scalars: Mapping[str, object]) -> None:
        """One event with every scalar that is a finite number; blanks are left out."""
        values = [encode_bytes(1, tag.encode()) + _float(2, number) for tag, number in scalars.items() if _is_number(number)]
        self._write(_double(1, wall_time) + encode_varint(2, step) + encode_bytes(5, b"".join(encode_bytes(1, value) for value in values)))

    def _write(self, event: bytes) -> None:
        length = struct.pack("<Q", len(event))
        record = length + struct.pack("<I", masked_crc(length)) + event + struct.pack("<I", masked_crc(event))
        with disk.guarded(self.path), self.path.open("ab") as file:
            file.write(record)


def masked_crc(data: bytes) -> int:
    """CRC-32C, rotated and offset, as the record format wants it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and math.isfinite(value)


def _varint(number: int) -> bytes:
    parts = []
    while number > 0x7F:
        parts.append((number & 0x7F) | 0x80)
        number >>= 7
    return bytes([*parts, number])


def encode_varint(field: int, number: int) -> bytes:
    """A whole number as a field of a protocol-buffer message."""
    return _varint(field << 3) + _varint(number)


def encode_bytes(field: int, data: bytes) -> bytes:
    """A text or a message as a field of a protocol-buffer message."""
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _double(field: int, number: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", number)


def _float(field: int, number: float) -> bytes:
    return _varint(field << 3 | 5) + struct.pack("<f", number)
