"""Text files in blocks of whole lines: a log of any size in a few megabytes of memory, packed by gzip or in UTF-16 too."""

import codecs
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from rlclinic import plain_files
from rlclinic.actions import Action
from rlclinic.errors import NotFound, UsageError

BLOCK_BYTES: Final = 1 << 20
LINE_BYTES: Final = 16 << 20
"""A longer line is no line of a log."""
_HEAD_BYTES: Final = 8_192
_GZIP: Final = b"\x1f\x8b"
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SPOOL_BYTES: Final = 16 << 20
_UNPACKED_BYTES: Final = 128 << 20
_UNPACKED_RATIO: Final = 64
"""More is not unpacked, by size and beside what it is packed into: a file of a few kilobytes may claim to hold terabytes."""
_SMALL_BYTES: Final = 8 << 20
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def read_head(path: Path) -> bytes:
    """The first bytes of a file's text; empty if it cannot be opened."""
    try:
        with plain_files.open_plain(path) as file, decode(file, _HEAD_BYTES) as text:
            return text.read(_HEAD_BYTES)
    except OSError:
        return b""


def decode(file: BinaryIO, most: int | None = None) -> BinaryIO:
    """The same file at its beginning; where it is packed by gzip or written in UTF-16 (as PowerShell's > does), its text as UTF-8.

    What is damaged or half written is unpacked as far as it goes; of one that is packed beyond measure, UsageError says so.
    most: so many bytes are enough.
    """
    beginning = file.read(2)
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if beginning == _GZIP:
        return _spool(_unpack(file), most, size)
    if beginning in _UTF16:
        return _spool(_decode_utf16(file), most, size)
    return file


def _spool(chunks: Iterator[bytes], most: int | None, packed: int) -> BinaryIO:
    spool = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # noqa: SIM115 — the caller closes it
    limit = min(max(_SMALL_BYTES, _UNPACKED_RATIO * packed), _UNPACKED_BYTES)
    for chunk in chunks:
        spool.write(chunk)
        if most is not None and spool.tell() >= most:
            break
        if spool.tell() > limit:
            spool.close()
            raise UsageError(
                f"a packed file of {packed:,} bytes holds more than {limit >> 20} MB.\n"
                "  Such a file may hold anything, and take for ever; nothing of it was read.\n  If it is a log: unpack it first (gunzip)"
            )
    spool.seek(0)
    return spool  # type: ignore[return-value]


def _unpack(file: BinaryIO) -> Iterator[bytes]:
    import gzip  # hardly any log is packed
    import zlib

    try:
        with gzip.GzipFile(fileobj=file) as packed:
            while chunk := packed.read(1 << 16):
                yield chunk
    except (OSError, EOFError, zlib.error):
        return


def _decode_utf16(file: BinaryIO) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
    while chunk := file.read(1 << 16):
        yield decoder.decode(chunk).encode("utf-8", errors="replace")


def is_binary(beginning: bytes) -> bool:
    """Whether these bytes are no text: control characters, or hardly anything that decodes."""
    if not beginning:
        return False
    if len(_CONTROL.findall(beginning)) > 0.02 * len(beginning) + 1:
        return True
    return beginning.decode("utf-8", errors="replace").count("�") > 0.1 * len(beginning) + 2


def open_text(path: Path) -> BinaryIO:
    """Open a text file for `blocks`. UsageError if it is binary, NotFound if it is not there."""
    try:
        file = plain_files.open_plain(path)
    except plain_files.NotPlain as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.\n  It might never end.\n  Give a file, its folder, or - for text from a pipe"
        ) from None
    except FileNotFoundError:
        raise NotFound(
            f"{path} does not exist.\n  ", Action("diagnose", "PATH"), " takes a run folder, a log file, or - for text from a pipe"
        ) from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.\n  Check its permissions") from error
    try:
        text = decode(file)
    except UsageError as error:
        file.close()
        raise UsageError(f"{path}: {error}") from None
    if text is not file:
        file.close()
    beginning = text.read(_HEAD_BYTES)
    if is_binary(beginning):
        text.close()
        raise UsageError(
            f"{path} is a binary file and no log.\n  Give the folder that it lies in, or a CSV, JSONL, tfevents or console file"
        )
    text.seek(0)
    return text


def read_blocks(file: BinaryIO, size: int | None = None) -> Iterator[tuple[list[bytes], bool]]:
    """(lines, whole) for each block; a last line that has no end yet comes by itself, with whole=False. UsageError if a line has no end."""
    rest = b""
    while True:
        chunk = file.read(size or BLOCK_BYTES)
        if not chunk:
            break
        text = rest + chunk if rest else chunk
        cut = text.rfind(b"\n") + 1
        rest = text[cut:]
        if cut:
            whole = text[:cut]
            yield (whole.replace(b"\r\n", b"\n") if b"\r" in whole else whole).split(b"\n")[:-1], True
        if len(rest) > LINE_BYTES:
            raise UsageError(
                f"a line of more than {LINE_BYTES >> 20} MB: this is no log with a row per line.\n"
                "  Write one record per line (JSONL or CSV), or give the framework's own folder"
            )
    if rest:
        yield [rest.rstrip(b"\r")], False
