"""Files in Weights & Biases' format, for tests that need odd ones: records of a few fields, in blocks of 32 kB."""

import json
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

MAGIC = b":W&B\xe1\xbe\x00"
BLOCK = 32_768


def number(value: int) -> bytes:
    """A varint."""
    parts = []
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def field(place: int, content: bytes) -> bytes:
    """A field with a length."""
    return number(place << 3 | 2) + number(len(content)) + content


def items(values: dict[str, Any], place: int = 1) -> bytes:
    return b"".join(field(place, field(2, key.encode()) + field(16, json.dumps(value).encode())) for key, value in values.items())


def history(step: int, row: dict[str, Any]) -> bytes:
    """The record of one wandb.log."""
    return field(2, items(row) + field(2, b"\x08" + number(step)))


def typed_history(step: int, row: dict[str, float]) -> bytes:
    """As newer releases write numbers: by their type."""
    values = b"".join(field(1, field(2, key.encode()) + number(6 << 3 | 1) + struct.pack("<d", value)) for key, value in row.items())
    return field(2, values + field(2, b"\x08" + number(step)))


def about(config: dict[str, Any], name: str = "run") -> bytes:
    return field(17, field(1, b"abc123") + field(4, items(config)) + field(8, name.encode()))


def ended(code: int) -> bytes:
    return field(18, b"\x08" + number(code))


def printed(text: str) -> bytes:
    return field(13, field(3, text.encode()))


def chunk(content: bytes, kind: int) -> bytes:
    checksum = zlib.crc32(content, zlib.crc32(bytes([kind])))
    return checksum.to_bytes(4, "little") + len(content).to_bytes(2, "little") + bytes([kind]) + content


def write(path: Path, records: Iterable[bytes]) -> Path:
    written = bytearray(MAGIC)
    for record in records:
        rest, first = record, True
        while first or rest:
            room = BLOCK - len(written) % BLOCK - 7
            if room < 0:
                written += bytes(room + 7)
                continue
            part, rest = rest[:room], rest[room:]
            written += chunk(part, (2 if rest else 1) if first else (3 if rest else 4))
            first = False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(written)
    return path
