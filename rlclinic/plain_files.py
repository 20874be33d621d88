"""Opens what is a plain file, and nothing else: a pipe or a device with a log's name would block its reader for ever, or never end."""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

__all__ = ["NotPlain", "TooLarge", "is_plain", "open_plain", "read_bytes", "read_text"]


class NotPlain(FileNotFoundError):
    """A pipe, a socket, a device or a folder where a file was expected: there is no such file."""


class TooLarge(OSError):
    """A file with more bytes than its kind has."""


def is_plain(path: Path | str) -> bool:
    """Whether a path leads to a plain file; False also where it leads nowhere, or in a circle."""
    try:
        return stat.S_ISREG(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return False


def open_plain(path: Path | str) -> BufferedReader:
    """A plain file, opened for reading; OSError for anything else, at once."""
    try:
        # Without O_NONBLOCK a pipe that nobody writes to would be waited for.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except ValueError as error:  # a NUL in the name
        raise NotPlain(errno.EINVAL, str(error), str(path)) from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise NotPlain(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise NotPlain(errno.EINVAL, "not a plain file (a pipe, a socket or a device)", str(path))
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path | str, most: int | None = None) -> bytes:
    """The whole of a plain file; TooLarge if that is more than `most` bytes."""
    with open_plain(path) as file:
        content = file.read() if most is None else file.read(most + 1)
    if most is not None and len(content) > most:
        raise TooLarge(errno.EFBIG, f"larger than {most:,} bytes, which no file of its kind is", str(path))
    return content


def read_text(path: Path | str, most: int | None = None, errors: str = "strict") -> str:
    """The text of a plain file in UTF-8, with every line end as a newline."""
    text = read_bytes(path, most).decode("utf-8", errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")
