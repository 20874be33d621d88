"""The newest numbers of a metrics.csv that is still growing, without reading the rest of it."""

import os
from pathlib import Path
from typing import Final

BLOCK_BYTES: Final = 65_536


def latest(path: Path, block_bytes: int = BLOCK_BYTES) -> dict[str, float]:
    """The last number written in each column, looked for in the file's end only; {} if there is none.

    A live view asks for this several times a second: the cost must not grow with the length of the run.
    """
    try:
        with path.open("rb") as file:
            header = file.readline()
            start = len(header)
            size = file.seek(0, os.SEEK_END)
            begin = max(start, size - block_bytes)
            file.seek(begin)
            body = file.read()
    except FileNotFoundError:
        return {}
    if not header.endswith(b"\n"):
        return {}
    lines = body[: body.rfind(b"\n") + 1].decode("utf-8", errors="replace").splitlines()
    if begin > start:
        lines = lines[1:]  # the block begins somewhere inside a line
    names = header.decode().rstrip("\r\n").split(",")
    found: dict[str, float] = {}
    for line in reversed(lines):
        cells = line.split(",")
        if len(cells) != len(names):
            continue
        for name, cell in zip(names, cells, strict=True):
            if cell and name not in found:
                try:
                    found[name] = float(cell)
                except ValueError:
                    continue
        if len(found) == len(names):
            break
    return found
