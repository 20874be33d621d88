"""Being asked to stop while something long runs: signals are collected, and the work looks at them between two steps."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def caught_signals() -> Iterator[list[signal.Signals]]:
    """Collect SIGINT and SIGTERM instead of ending; only the main thread may, elsewhere nothing is caught."""
    caught: list[signal.Signals] = []
    if threading.current_thread() is not threading.main_thread():
        yield caught
        return

    def catch(number: int, _: FrameType | None) -> None:
        caught.append(signal.Signals(number))

    before = {number: signal.signal(number, catch) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
