"""Runs the examination of an environment where it can do no harm: in a process with a limit, or in a thread that may be left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Any

from rlclinic import core_time
from rlclinic.errors import ConfigError, NotFound, RlclinicError, UsageError

GRACE = 3.0
"""Seconds of the limit that are kept for starting Python, importing and the last step before the end."""
MOST_WAITED, LEAST_LEFT = 3.0, 0.05
"""How many times the limit it may wait for a core besides, and seconds that are not worth waiting for."""
MOST_FACTS, MOST_SAID, READ_OUT = 50_000_000, 100_000, 2.0
"""Bytes of facts, and of what an environment prints, that are kept; seconds for what was written last to arrive."""
Facts = dict[str, Any]


def facts_of(target: str, kwargs: dict[str, Any], seconds: float, *, searches: bool = False) -> Facts:
    """What was seen of the environment within the time; errors of making it are raised as they are."""
    inside = max(seconds - GRACE, 0.5 * seconds)
    command = [sys.executable, "-m", "rlclinic.training.envs.examine.environment", target, str(inside), json.dumps(kwargs)]
    command += ["search"] if searches else []
    # A window would wait for somebody to look at it.
    surroundings = {**os.environ, "SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy", "MPLBACKEND": "Agg"}
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=surroundings, process_group=0, bufsize=0
    )
    out, err, late = _wait_for(child, seconds)
    return _read(out, err, target, seconds, late, child.returncode)


def _wait_for(child: subprocess.Popen[bytes], seconds: float) -> tuple[str, str, bool]:
    """What it wrote, and whether it had to be ended: it had a core for that long, or waited for one three times as long.

    Only the examiner itself is waited for: a simulator that it started may outlive it, and would hold its output open for ever.
    """
    assert child.stdout is not None
    assert child.stderr is not None
    written = bytearray(), bytearray()
    readers = [
        threading.Thread(target=_read_on, args=(pipe, kept, most), daemon=True)
        for pipe, kept, most in zip((child.stdout, child.stderr), written, (MOST_FACTS, MOST_SAID), strict=True)
    ]
    for reader in readers:
        reader.start()
    began, left, late = time.monotonic(), seconds, False
    try:
        while child.poll() is None and not late:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(left)
            left = _left(began, seconds, child.pid)
            late = child.returncode is None and left <= LEAST_LEFT
    finally:
        # It and all that it started.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.kill()
        child.wait()
    for reader in readers:
        reader.join(READ_OUT)
    out, err = (bytes(kept).decode(errors="replace") for kept in written)
    return out, err, late


def _read_on(pipe: IO[bytes], kept: bytearray, most: int) -> None:
    """Read until nobody holds the other end any more; the last of it is kept."""
    with pipe:
        while chunk := pipe.read(65_536):
            kept += chunk
            del kept[:-most]


def _left(began: float, seconds: float, task: int | None) -> float:
    """Seconds that are left of the limit; those in which the process or thread waited for a core are added."""
    return seconds + min(core_time.waited(task), MOST_WAITED * seconds) - (time.monotonic() - began)


def _read(out: str, err: str, target: str, seconds: float, late: bool, status: int) -> Facts:
    lines = [line for line in out.splitlines() if line.startswith("{")]
    facts: Facts = json.loads(lines[-1]) if lines else {"name": target, "limit": seconds, "phase": "starting", "skipped": {}}
    if "error" in facts:
        raise {2: ConfigError, 3: NotFound}.get(facts["exit_code"], UsageError)(facts["error"])
    if facts["phase"] == "finished":
        return facts
    if late:
        return facts | {
            "limit": seconds,
            "blocked_in": facts["phase"],
            "seconds": seconds,
            "skipped": {**facts["skipped"], facts["phase"]: "it did not come back"},
        }
    if "No module named 'gymnasium'" in err:
        raise ConfigError('Looking at environments needs gymnasium, which is not installed.\n  Try: pip install "rlclinic[train]"')
    last = err.strip().splitlines()[-1] if err.strip() else f"exit status {status}"
    died = {"kind": "raises", "text": f"the process died while {facts['phase']} was looked at: {last[:200]}", "count": 1, "numbers": {}}
    return facts | {
        "breaches": [*facts.get("breaches", []), died],
        "seconds": seconds,
        "skipped": {**facts["skipped"], facts["phase"]: "the process died"},
    }


def facts_in_process(make: Callable[[], Any], name: str, seconds: float, *, searches: bool = False) -> Facts:
    """The same for an object of this program: in a thread, which is left behind if the environment does not come back."""
    from rlclinic.training.envs.examine.environment import examine

    latest: Facts = {"name": name, "limit": seconds, "phase": "making", "skipped": {}}
    raised: list[BaseException] = []

    def look() -> None:
        try:
            inside = max(seconds - GRACE, 0.5 * seconds)
            examine(make, name, inside, lambda facts: latest.update(json.loads(json.dumps(facts, default=float))), searches=searches)
        except (RlclinicError, Exception) as reason:  # noqa: BLE001 — whatever the maker raised is told below, in the caller's thread
            raised.append(reason)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    began, left = time.monotonic(), seconds
    while thread.is_alive() and left > LEAST_LEFT:
        thread.join(left)
        left = _left(began, seconds, thread.native_id)
    if raised:
        if isinstance(raised[0], RlclinicError):
            raise raised[0]
        raise ConfigError(
            f"{name} was not made: {type(raised[0]).__name__}: {raised[0]}\n  There is nothing to look at.\n  Try: mend its __init__"
        ) from raised[0]
    if thread.is_alive():
        return latest | {"limit": seconds, "blocked_in": latest["phase"], "seconds": seconds}
    return latest
