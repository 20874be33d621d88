"""Why a training process died, in words that help."""

import re
import signal
from pathlib import Path
from typing import Final

from rlclinic.errors import ConfigError, NotFound

_OUT_OF_MEMORY: Final = re.compile(r"MemoryError|out of memory|can't allocate memory|Cannot allocate memory", re.IGNORECASE)
_CRASH: Final = re.compile(
    r"Fatal Python error: (?P<what>[^\n]+)\n[\s\S]*?^Current thread[^\n]*\(most recent call first\):\n"
    r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>[^\n]+)',
    re.MULTILINE,
)
"""What faulthandler prints."""
_REFUSED: Final = frozenset({ConfigError.exit_code, NotFound.exit_code})
"""Exit codes of a process that found something wrong with what it was asked to do, and printed it."""
_VMSTAT: Final = Path("/proc/vmstat")


def explain(returncode: int, printed: str, *, out_of_memory: bool = False) -> str:
    """What ended the process, and the last thing that it said: a line, or the whole of an error that says what to type.

    `out_of_memory`: the kernel killed something for want of memory while it ran.
    """
    if returncode in _REFUSED and printed.strip():
        return printed.strip()
    last = _find_last_message(printed)
    if returncode == -signal.SIGKILL:
        if out_of_memory or _OUT_OF_MEMORY.search(printed):
            return "killed by SIGKILL: the machine ran out of memory; train fewer seeds at once, or fewer envs"
        return "killed by SIGKILL: by a person, or by the kernel for want of memory (dmesg tells)"
    if _OUT_OF_MEMORY.search(printed):
        return f"out of memory ({last}); train fewer seeds at once, or fewer envs"
    what = f"killed by {_signal_name(-returncode)}" if returncode < 0 else f"ended with exit code {returncode} and no final status"
    return f"{what}: {last}" if last else what


def _find_last_message(printed: str) -> str:
    """The last line that is not indented, with the indented ones below it: what we say ourselves has several.

    A crash below Python prints where every thread was, and then a list of modules: the place of the thread that crashed says more.
    """
    if crash := _CRASH.search(printed):
        return f"{crash['what'].strip()} in {crash['function'].strip()} ({Path(crash['file']).name}:{crash['line']})"
    lines = [line.rstrip() for line in printed.splitlines() if line.strip()]
    first = next((place for place in reversed(range(len(lines))) if not lines[place].startswith(" ")), 0)
    return "\n".join(lines[first:]).strip()


def oom_kills() -> int:
    """Processes that the kernel has killed for want of memory since boot; 0 where it does not say."""
    try:
        text = _VMSTAT.read_text()
    except OSError:
        return 0
    found = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
