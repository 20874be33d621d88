"""Notices an environment that does not come back, says so, and lets a request to stop end the run all the same.

A thread looks once a second whether the environments are where they were: inside of the same call, at the same env. The training thread
only counts its calls. After `env.step_timeout` (60 s where it is not set) the run's status and log say which env hangs. Where
`env.step_timeout` is set, the run then ends: a worker process is killed and only its members fail; an environment of this process cannot
be ended without the process, so every folder gets its rows and its last words first. A request to stop (control.json, SIGTERM) waits
some seconds for a call that hangs, and does the same. The last checkpoint stands.
"""

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from rlclinic.runs import control

if TYPE_CHECKING:
    from rlclinic.training.trainer import Session

LOOK_SECONDS: Final = 1.0
SAY_SECONDS: Final = 60.0
"""When it is said that an environment hangs, where `env.step_timeout` does not say another time."""
GRACE_SECONDS: Final = 20.0
"""How long a request to stop waits for an environment's call: less than the launcher waits for a process."""
FOREVER: Final = float("inf")


@contextmanager
def watching(session: "Session", *, own_process: bool) -> Iterator[None]:
    """Look after a cohort while it trains. own_process: this process is there for nothing else, and may be ended."""
    dog = _Watchdog(session, own_process)
    dog.start()
    try:
        yield
    finally:
        dog.leave()


class _Watchdog(threading.Thread):
    def __init__(self, session: "Session", own_process: bool) -> None:
        super().__init__(daemon=True, name="rlclinic-watchdog")
        self._session, self._own_process = session, own_process
        timeout = session.cohort.config.env.step_timeout
        self._say_after = SAY_SECONDS if timeout is None else timeout
        self._end_after = FOREVER if timeout is None else timeout
        self._grace = min(GRACE_SECONDS, self._say_after)
        self._marker: Any = None
        self._since = time.monotonic()
        self._said = False
        self._signals = 0
        self._ears, self._mouth = os.pipe()
        os.set_blocking(self._mouth, False)
        self._wakeup: int | None = None
        if own_process and threading.current_thread() is threading.main_thread():
            # A signal is handled between two instructions of the main thread, which may be inside of a call that has no end.
            self._wakeup = signal.set_wakeup_fd(self._mouth, warn_on_full_buffer=False)

    def leave(self) -> None:
        """The training has ended: nothing is to be watched any more."""
        if self._wakeup is not None:
            signal.set_wakeup_fd(self._wakeup)
        os.write(self._mouth, b"\0")
        self.join(timeout=5.0)
        os.close(self._mouth)
        os.close(self._ears)

    def run(self) -> None:
        while True:
            ready, _, _ = select.select([self._ears], [], [], min(LOOK_SECONDS, self._say_after / 4))
            heard = os.read(self._ears, 64) if ready else b""
            if b"\0" in heard:
                return
            self._signals += sum(byte in (signal.SIGTERM, signal.SIGINT) for byte in heard)
            # Whatever goes wrong here must not end a training that goes well.
            with suppress(Exception):
                self._look()

    def _look(self) -> None:
        env = next((env for env in (self._session.cohort.env, self._session.cohort.eval_env) if _is_inside(env)), None)
        now = time.monotonic()
        marker = None if env is None else (id(env), _base(env).calls, _base(env).progress())
        if env is None or marker != self._marker:
            if self._said:
                self._tell(None, f"the environment came back after {now - self._since:.0f} s")
            self._marker, self._since, self._said = marker, now, False
            return
        stuck = now - self._since
        if stuck >= self._say_after and not self._said:
            self._said = True
            where = _base(env).describe_wait()
            self._tell(f"{where} has not come back for {stuck:.0f} s", f"{where} has not come back for {stuck:.0f} s; a stop still ends it")
        asked = stuck >= self._grace and (self._signals or self._session.stop_requested or self._is_asked_to_stop())
        if asked or stuck >= self._end_after or self._signals > 1:
            self._end(env, stuck, asked=bool(asked or self._signals))

    def _is_asked_to_stop(self) -> bool:
        return any((control.pending(member.path) or {}).get("stop") for member in self._session.cohort.members if member.active)

    def _tell(self, reason: str | None, line: str) -> None:
        for member in self._session.cohort.members:
            if member.active:
                with member.writing(self._session.cohort.env_steps):
                    member.writer.log(line)
                    member.writer.status("running", self._session.cohort.env_steps, reason=reason)
                    member.writer.flush()

    def _end(self, env: Any, stuck: float, *, asked: bool) -> None:
        where = _base(env).describe_wait()
        text = (
            f"{where} did not come back within {stuck:.0f} s.\n"
            f"  {'Somebody asked to stop, and' if asked else 'env.step_timeout is over, and'} nothing else ends such a call.\n"
            "  Everything up to the last checkpoint is intact: step the environment alone and see where it waits"
        )
        if _base(env).interrupt(text):  # worker processes: the training goes on without their members
            self._since = time.monotonic()
            return
        if not self._own_process:
            return
        self._close(_base(env).find_waiting_member(), text, asked)
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
        os._exit(0 if asked else 1)

    def _close(self, hangs: int | None, text: str, asked: bool) -> None:
        """Rows and last words in every folder: the training thread, which would write them, is inside of the call."""
        from rlclinic.training import trainer

        cohort = self._session.cohort
        with suppress(Exception):
            trainer.write_rows(self._session, None)
        for index, member in enumerate(cohort.members):
            if member.active and asked:
                member.end("stopped", f"asked to stop: {text}", cohort.env_steps)
            elif member.active and index == hangs:
                member.end("failed", text, cohort.env_steps)
            elif member.active:
                # A neighbour's fault: the launcher takes it up again.
                member.end("failed", f"killed by the watchdog, with a neighbour: {text}", cohort.env_steps)
        for member in cohort.everyone:
            with member.writing(cohort.env_steps):
                member.writer.close()


def _base(env: Any) -> Any:
    """The environments themselves, under whatever presents them to the agent."""
    return env.stepping.copies


def _is_inside(env: Any) -> bool:
    """Whether a call to the environments has begun and not come back."""
    return env is not None and getattr(_base(env), "calls", 0) % 2 == 1
