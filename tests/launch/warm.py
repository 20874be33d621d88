"""Processes that start in milliseconds: one that has imported torch forks another for each order.

They are processes like any other, `python -m rlclinic.training` or `python -m rlclinic` less the import, which takes longer than most
tests: they can be killed at any moment, and what a fault does to one (see tests.crash.faults) is gone with it.
"""

import atexit
import faulthandler
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from rlclinic.launch import local

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE_SECONDS = 120


class Warm:
    """The parent, which starts with the first order. A context manager: leaving it ends all that it started."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._one_at_a_time = threading.Lock()

    def __enter__(self) -> "Warm":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()
            self._process.wait(PATIENCE_SECONDS)
            self._process.stdout.close()

    def start(
        self,
        *arguments: object,
        printed: Path,
        fault: Sequence[Any] = (),
        module: str = local.TRAINING,
        cwd: Path = ROOT,
        environment: Mapping[str, str] | None = None,
    ) -> "Child":
        """A process of a module with these arguments; `printed` gets what it prints, `fault` is a function of faults and its arguments."""
        words = [str(argument) for argument in arguments]
        pid = self.ask("start", module, words, str(printed), list(fault), str(cwd), environment and dict(environment))
        return Child(pid, printed, lambda seconds: self.ask("wait", pid, seconds))

    def run(self, *arguments: object, printed: Path, fault: Sequence[Any] = ()) -> int:
        """The same, to its end: the exit code, or minus the signal that ended it."""
        return self.start(*arguments, printed=printed, fault=fault).wait()

    def ask(self, *order: Any) -> Any:
        with self._one_at_a_time:
            if self._process is None:
                self._process = _start_parent()
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())


class Child:
    """One process, with what the launcher needs of a `subprocess.Popen`."""

    def __init__(self, pid: int, printed: Path, wait: Callable[[float], int | None]) -> None:
        self.pid, self._printed, self._wait = pid, printed, wait
        self.returncode: int | None = None

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Its exit code, or minus the signal that ended it. One that takes longer than `seconds` is killed."""
        code = self.poll(seconds)
        if code is None:
            self.send_signal(signal.SIGKILL)
            raise TimeoutError(f"the process did not end in {seconds} s; it printed:\n{self._printed.read_text()}")
        return code

    def poll(self, seconds: float = 0.0) -> int | None:
        """The exit code if it ends within `seconds`, else None."""
        if self.returncode is None:
            self.returncode = self._wait(seconds)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)


@contextmanager
def used_by_the_launcher(warm: Warm) -> Iterator[None]:
    """While this lasts, the launcher of this process starts its training processes warm; other modules start as ever."""
    cold: Callable[..., Any] = local._spawn

    def spawn(command: list[str], log: IO[bytes], threads: int) -> Any:
        module, *arguments = command[4:]
        if module != local.TRAINING:
            return cold(command, log, threads)
        return warm.start(*arguments, printed=Path(log.name), cwd=Path.cwd(), environment=local.environment(threads))

    local._spawn = spawn
    try:
        yield
    finally:
        local._spawn = cold


# ── the parent's own process ──


def _start_parent() -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "tests.launch.warm"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)


def _start(module: str, arguments: list[str], printed: str, fault: Sequence[Any], cwd: str, environment: Mapping[str, str] | None) -> int:
    pid = os.fork()
    if pid:
        # As the launcher has it: a group of its own. Here too, or a kill of the group could come before there is one.
        with suppress(OSError):
            os.setpgid(pid, pid)
        return pid
    code: Any = 1
    try:
        os.setpgid(0, 0)
        # The pipes to the test belong to the parent alone.
        file = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        for standard in (1, 2):
            os.dup2(file, standard)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        faulthandler.enable()
        os.chdir(cwd)
        sys.path[0] = cwd
        if environment is not None:
            # rlclinic.training has set it when it was imported, which does not happen again: without it, bits depend on addresses.
            reproducible = {"MKL_CBWR": os.environ["MKL_CBWR"]}
            os.environ.clear()
            os.environ.update(reproducible | dict(environment))
            sys.path[1:1] = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path and path not in sys.path]
        if fault:
            from tests.crash import faults

            getattr(faults, fault[0])(*fault[1:])
        if module == local.TRAINING:
            module, arguments = "rlclinic.launch.child", [str(os.getppid()), module, *arguments]
        else:
            local._spawn = _spawn_here  # type: ignore[assignment]
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:  # noqa: BLE001  # an unforeseen error must be seen by the test, whatever it is
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _spawn_here(command: list[str], log: IO[bytes], threads: int) -> Child:
    """How a command that was forked launches: it has imported torch, and forks in its turn."""
    module, *arguments = command[4:]
    pid = _start(module, arguments, log.name, (), str(Path.cwd()), local.environment(threads))
    return Child(pid, Path(log.name), lambda seconds: _wait(pid, seconds))


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
    # What a training process imports late is imported here once; its main module is not, for each process runs that anew.
    import gymnasium  # noqa: F401

    import rlclinic.config.files
    import rlclinic.training.trainer  # noqa: F401

    # No test cuts the power.
    os.fsync = lambda _: None

    children: set[int] = set()
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        answer = _start(*arguments) if command == "start" else _wait(*arguments)
        if command == "start":
            children.add(answer)
        elif answer is not None:
            children.discard(arguments[0])
        print(json.dumps(answer), flush=True)
    for pid in children:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    _serve()
