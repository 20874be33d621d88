"""Protocol-buffer messages, read without their descriptions: fields by number, as TensorBoard and Weights & Biases write them."""

from collections.abc import Iterator
from typing import Any, Final

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5


class Damaged(ValueError):
    """Bytes that are no record or no message."""


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


def read_fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """(field, wire type, value) of a message: numbers as int, everything else as bytes."""
    place, end = 0, len(data)
    while place < end:
        key = data[place]
        place += 1
        if key >= 0x80:
            key, place = _read_varint(data, place - 1)
        number, kind = key >> 3, key & 7
        if kind == BYTES:
            length, place = _read_varint(data, place)
            if place + length > end:
                raise Damaged("a field is longer than its message")
            yield number, kind, data[place : place + length]
            place += length
        elif kind == VARINT:
            value, place = _read_varint(data, place)
            yield number, kind, value
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
            if place + size > end:
                raise Damaged("a number is cut off")
            yield number, kind, data[place : place + size]
            place += size
        else:
            raise Damaged(f"wire type {kind}")


def find_messages(data: bytes, wanted: int) -> list[bytes]:
    return [value for number, kind, value in read_fields(data) if number == wanted and kind == BYTES]
