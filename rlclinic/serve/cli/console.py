"""Where output goes: results to stdout, progress and errors to stderr; plain text when nobody is watching."""

import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

    from rlclinic.ops.jobs.audit import Caller
    from rlclinic.ops.jobs.models import Job
    from rlclinic.report.models import Result

# A pipe has no width; a table must not be cut for it.
PIPE_WIDTH = 200
CHART_WIDTH = 78
"""Columns for a curve; fewer where the terminal is narrower."""


def results() -> "Console":
    """The console for results."""
    return _console(stderr=False)


def chart_width() -> int:
    """Columns for a curve on this terminal."""
    return min(CHART_WIDTH, results().width)


def progress() -> "Console":
    """The console for everything that is not the result."""
    return _console(stderr=True)


def print_json(result: "Result") -> None:
    """One JSON object on stdout."""
    from rlclinic.report.document import escape_json

    sys.stdout.write(escape_json(result.model_dump_json(indent=2)) + "\n")


def print_job(job: "Job", as_json: bool) -> None:
    """What was started in the background, and what it waits for."""
    print_json(job) if as_json else sys.stdout.write(f"{job.refers}  job {job.id} {job.reason or job.state}\n")


class Visible:
    """A stream without the characters that make a terminal show something else than is there (U+202E and the like)."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write what can be seen."""
        # Most texts have none, and need no regular expression.
        return self._stream.write(text if text.isascii() else _invisible().sub("", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@cache
def _invisible() -> re.Pattern[str]:
    from rlclinic.plain_text import INVISIBLE

    return re.compile(f"[{INVISIBLE}]")


def is_attended() -> bool:
    """Whether somebody is there to answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str) -> bool:
    """Ask on the terminal; without one the answer is no, and the caller says what to type instead."""
    if not is_attended():
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def person() -> "Caller":
    """Whoever types: the audit log names the account."""
    import getpass

    from rlclinic.ops.jobs.audit import Caller

    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # no account for this number, as in some containers
        name = "user"
    return Caller(face="cli", name=name)


def audit_start(runs_dir: Path, kind: str, target: str, **about: Any) -> None:
    """Write down that somebody starts something at a terminal."""
    from rlclinic.ops.jobs.audit import audit
    from rlclinic.runs.store import Store

    audit(Store(runs_dir), person(), "start", target, kind=kind, **about)


def _console(*, stderr: bool) -> "Console":
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    # Looked up at every call: a test runner or a caller may have replaced the streams since the import.
    return Console(file=stream, width=width, highlight=False, emoji=False, markup=False)
