"""Training processes that start in milliseconds: a process that has imported torch forks one for each order.

They are processes like any other, `python -m rlclinic.training` less the import: they can be killed at any moment, and what a
fault does to one (see faults) is gone with it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE_SECONDS = 120


class Warm:
    """The parent. A context manager: leaving it ends all that it started."""

    def __enter__(self) -> "Warm":
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONWARNINGS": "ignore",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.warm"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_SECONDS)
        self._process.stdout.close()

    def start(self, *arguments: object, printed: Path, fault: Sequence[Any] = ()) -> "Child":
        """A training process with these arguments; `printed` gets what it prints, `fault` is a function of faults and its arguments."""
        return Child(self, self.ask("start", [str(argument) for argument in arguments], str(printed), list(fault)), printed)

    def run(self, *arguments: object, printed: Path, fault: Sequence[Any] = ()) -> int:
        """The same, to its end: the exit code, or minus the signal that ended it."""
        return self.start(*arguments, printed=printed, fault=fault).wait()

    def ask(self, *order: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


class Child:
    """One training process."""

    def __init__(self, parent: Warm, pid: int, printed: Path) -> None:
        self._parent, self.pid, self._printed, self._code = parent, pid, printed, None

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Its exit code, or minus the signal that ended it. One that takes longer than `seconds` is killed."""
        code = self.poll(seconds)
        if code is None:
            self.kill(signal.SIGKILL)
            raise TimeoutError(f"the training process did not end in {seconds} s; it printed:\n{self._printed.read_text()}")
        return code

    def poll(self, seconds: float = 0.0) -> int | None:
        """The exit code if it ends within `seconds`, else None."""
        if self._code is None:
            self._code = self._parent.ask("wait", self.pid, seconds)
        return self._code

    def kill(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)


def _start(arguments: list[str], printed: str, fault: list[Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        # The pipes to the test belong to the parent alone.
        file = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        for standard in (1, 2):
            os.dup2(file, standard)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        from tests.crash import faults

        if fault:
            getattr(faults, fault[0])(*fault[1:])
        from rlclinic.training.__main__ import main

        code = main(arguments)
    except BaseException:  # noqa: BLE001  # an unforeseen error must be seen by the test, whatever it is
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _wait(pid: int, seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            return None
        time.sleep(0.002)


def _serve() -> None:
    # What a training process imports late is imported here once.
    import gymnasium  # noqa: F401

    import rlclinic.config.files
    import rlclinic.training.__main__  # noqa: F401

    children: list[Any] = []
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        answer = _start(*arguments) if command == "start" else _wait(*arguments)
        if command == "start":
            children.append(answer)
        print(json.dumps(answer), flush=True)
    for pid in children:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    _serve()
