"""Weights & Biases: an offline run for each seed, as `wandb sync DIR/offline-run-*` sends it.

A file is a header of 7 bytes and blocks of 32 kB with chunks: checksum (uint32), length (uint16), kind (1 whole, 2 first, 3 middle,
4 last part of a record). A record is a protocol-buffer message: 1 its number and one of

    2 history{1 item{1 key, 16 JSON}, 2 step{1 number}}     3 summary{1 update{1 key, 16 JSON}}
    17 run{1 id, 3 project, 4 config{1 update{1 key, 16 JSON}}, 6 group, 8 name, 10 tag, 17 start{1 seconds}}     18 exit{1 code}
    20 final     21 header{1 version{1 producer, 2 least consumer}}
"""

import hashlib
import json
import re
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rlclinic.runs import disk
from rlclinic.runs.export.events import encode_bytes, encode_varint
from rlclinic.runs.export.rows import read_rows, read_settings, summarize
from rlclinic.runs.notes import read
from rlclinic.runs.record import Run

MAGIC: Final = b":W&B\xe1\xbe\x00"
BLOCK: Final = 32_768
HEADER: Final = 7
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4
PRODUCER, LEAST_CONSUMER = "0.18.0", "0.13.0"


def write(run: Run, folder: Path) -> list[Path]:
    """FOLDER/offline-run-TIME-ID with run-ID.wandb, and its config and summary as files."""
    rows, settings = list(read_rows(run)), read_settings(run)
    id = hashlib.blake2b(f"{run.group_id} {run.id}".encode(), digest_size=4).hexdigest()
    began = rows[0][1] if rows else run.created
    place = folder / f"offline-run-{time.strftime('%Y%m%d_%H%M%S', time.gmtime(began))}-{id}"
    with disk.guarded(place):
        (place / "files").mkdir(parents=True, exist_ok=True)
    path = place / f"run-{id}.wandb"
    disk.write(path, _join(_records(run, id, began, rows, settings)))
    import yaml

    config = {"wandb_version": 1} | {name: {"desc": None, "value": value} for name, value in settings.items()}
    disk.write(place / "files" / "config.yaml", yaml.safe_dump(json.loads(json.dumps(config, default=str))))
    disk.write(place / "files" / "wandb-summary.json", json.dumps(summarize(rows)) + "\n")
    return [path]


def _records(run: Run, id: str, began: float, rows: list[tuple[int, float, dict[str, float]]], settings: dict[str, Any]) -> Iterator[bytes]:
    config = b"".join(encode_bytes(1, _item(name, value)) for name, value in settings.items())
    about = encode_bytes(1, id.encode()) + encode_bytes(3, re.sub(r"[^\w.-]", "-", run.name).encode()) + encode_bytes(4, config)
    about += encode_bytes(6, (run.group_id or "").encode()) + encode_bytes(8, run.id.encode())
    about += b"".join(encode_bytes(10, tag.encode()) for tag in read(run.path).tags)
    about += encode_bytes(17, encode_varint(1, int(began)))
    contents = [(21, encode_bytes(1, encode_bytes(1, PRODUCER.encode()) + encode_bytes(2, LEAST_CONSUMER.encode()))), (17, about)]
    for place, (steps, wall, numbers) in enumerate(rows):
        # The step of W&B counts calls; env steps are a key of their own, which charts choose as their axis.
        row = numbers | {"total_timesteps": float(steps), "_timestamp": wall, "_runtime": wall - began, "_step": float(place)}
        items = b"".join(encode_bytes(1, _item(name, number)) for name, number in row.items())
        contents.append((2, items + encode_bytes(2, encode_varint(1, place))))
    contents.append((3, b"".join(encode_bytes(1, _item(name, number)) for name, number in summarize(rows).items())))
    ended = run.status.state in ("finished", "stopped")
    contents += [(18, encode_varint(1, 0 if ended else 1)), (20, b"")]
    for number, (field, content) in enumerate(contents, 1):
        yield encode_varint(1, number) + encode_bytes(field, content)


def _item(name: str, value: Any) -> bytes:
    plain = int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
    return encode_bytes(1, name.encode()) + encode_bytes(16, json.dumps(plain, default=str).encode())


def _join(records: Iterator[bytes]) -> bytes:
    """Records in chunks that cross no block."""
    blob = bytearray(MAGIC)
    for record in records:
        rest, first = memoryview(record), True
        while first or rest:
            room = BLOCK - len(blob) % BLOCK
            if room < HEADER:
                blob += bytes(room)
                continue
            part, rest = bytes(rest[: room - HEADER]), rest[room - HEADER :]
            kind = (FIRST if rest else WHOLE) if first else (MIDDLE if rest else LAST)
            blob += struct.pack("<IHB", zlib.crc32(part, zlib.crc32(bytes([kind]))), len(part), kind) + part
            first = False
    return bytes(blob)
