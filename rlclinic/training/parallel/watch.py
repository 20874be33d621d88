"""Where every rank is, by its own word; which one is lost, and which collective hangs.

Every rank says twice a second what it is doing: the number and the name of the collective that it is in, or what it computes, and for how
long. Rank 0 reads that beside its own training. A rank that has died is named at once, one that is not heard of (paused, cut off)
or collectives that can never meet within seconds. Rank 0 is then inside of a collective, which nothing but the end of the others ends.
"""

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from torch import distributed as dist

from rlclinic.errors import RunError

BEAT_SECONDS: Final = 0.5
SAY_SECONDS: Final = 5.0
"""Of waiting, after which the run's log names who is waited for."""
DEADLOCK_SECONDS: Final = 3.0
"""Ranks that are in different collectives for so long will never meet."""
LOST_SECONDS: Final = float(os.environ.get("RLCLINIC_RANK_LOST_SECONDS", "20"))
"""A rank that was not heard of for so long is lost."""
AWAKE_SECONDS: Final = 2 * BEAT_SECONDS
"""Between two looks at the others, what counts at most: where rank 0 itself did not come to look (its machine slept, or was too busy), the
others may have been held up with it."""
START_SECONDS: Final = 120.0
"""How long ranks are waited for when they start: each imports PyTorch, and machines may be busy."""
OBITUARY_SECONDS: Final = 4.0
"""How long a broken collective waits for the reason to become known."""


class RankLost(RunError):
    """A rank has died, is not heard of, or waits for something that will never come; the text says which one and where."""


class Beat(NamedTuple):
    """What a rank is doing."""

    sequence: int = 0
    """Collectives that it has entered so far."""
    collective: str | None = None
    """The one that it is in; None: it computes."""
    doing: str = "starting"
    seconds: float = 0.0
    """For how long."""
    said: int = 0
    """How often it has said something."""

    def describe(self) -> str:
        """In words."""
        if self.collective is not None:
            return f"in collective {self.sequence} ({self.collective}) for {self.seconds:.0f} s"
        return f"{self.doing} for {self.seconds:.0f} s, after {self.sequence} collectives"


@dataclass
class Pulse:
    """What this rank is doing: written by the thread that trains, at the cost of a few assignments."""

    sequence: int = 0
    collective: str | None = None
    doing: str = "starting"
    since: float = field(default_factory=time.monotonic)

    def enter(self, collective: str) -> None:
        """Begin a collective."""
        self.sequence += 1
        self.collective, self.since = collective, time.monotonic()

    def leave(self, doing: str | None = None) -> None:
        """End it, and go on with what is computed."""
        self.collective, self.since = None, time.monotonic()
        self.doing = doing or self.doing

    def does(self, what: str) -> None:
        """Say what is computed from here on."""
        self.doing, self.since = what, time.monotonic()

    def beat(self, count: int) -> Beat:
        """As it is now."""
        return Beat(self.sequence, self.collective, self.doing, time.monotonic() - self.since, count)


class Heart(threading.Thread):
    """Tells the others what this rank is doing; on rank 0 also looks after them."""

    def __init__(self, store: Any, rank: int, world: int, pulse: Pulse, children: Sequence["subprocess.Popen[bytes]"] = ()) -> None:
        super().__init__(daemon=True, name=f"rlclinic-rank-{rank}")
        self._store, self._rank, self._world, self._pulse, self._children = store, rank, world, pulse, list(children)
        self._over = threading.Event()
        self._heard: dict[int, tuple[Beat, float]] = {}
        """Every other rank's last word, and for how long it has been silent since."""
        self._looked: float | None = None
        self.links: list[socket.socket] = []
        """Connections to ranks on other machines, which cannot be killed from here."""
        self.reason: str | None = None
        """Why the ranks cannot go on, once that is known."""
        self.known = threading.Event()
        self.abort: Callable[[], None] = lambda: None
        """Ends collectives that do not end with the others."""
        self.say: Callable[[str], None] = lambda text: None
        """Where it is told who is waited for."""
        self._said: tuple[int, str] | None = None
        self._differ_seconds = 0.0

    def stop(self) -> None:
        """No more beats."""
        self._over.set()
        self.join(timeout=2.0)

    def run(self) -> None:
        count = 0
        while count == 0 or not self._over.wait(BEAT_SECONDS):
            count += 1
            # A store that is gone takes its word back by itself: the collectives then fail, too.
            try:
                self._store.set(_key(self._rank), json.dumps(self._pulse.beat(count)))
            except dist.DistNetworkError:
                if self._rank:
                    return  # its connection does not come back, and each further beat would print a page of torch's frames
            except Exception:  # noqa: BLE001 - a beat that is late is no reason to end
                pass
            if self._rank == 0 and self.reason is None:
                with suppress(Exception):
                    self._look(count)

    def last_words(self, text: str) -> None:
        """Why this rank ends, for rank 0's log."""
        with suppress(Exception):
            self._store.set(f"{_key(self._rank)}/end", text)

    def describe_others(self) -> str:
        """Where the other ranks were when they were last heard of."""
        heard = [f"rank {rank} was last {beat.describe()}" for rank, (beat, _) in sorted(self._heard.items())]
        return ", ".join(heard) or "nothing was heard of the others"

    def _look(self, count: int) -> None:
        now = time.monotonic()
        awake = min(now - (self._looked or now), AWAKE_SECONDS)
        self._looked = now
        own = self._pulse.beat(count)
        for rank in range(1, self._world):
            if (death := self._find_death(rank)) is not None:
                self._give_up(death)
                return
            beat, (known, silence) = self._read(rank), self._heard.get(rank, (Beat(), 0.0))
            self._heard[rank] = (beat, 0.0) if beat is not None and beat.said != known.said else (known, silence + awake)
        if own.collective is None:
            self._said, self._differ_seconds = None, 0.0
            return
        silent = {rank: silence for rank, (_, silence) in self._heard.items() if silence > 4 * BEAT_SECONDS}
        beats = {0: own, **{rank: beat for rank, (beat, _) in self._heard.items()}}
        for rank, seconds in silent.items():
            if seconds >= (LOST_SECONDS if beats[rank].said else START_SECONDS):
                self._give_up(
                    f"rank {rank} was not heard of for {seconds:.0f} s (paused, cut off, or its machine is gone), last seen "
                    f"{beats[rank].describe()}; killed by the watch, as rank 0 is {own.describe()}"
                )
                return
        if not silent:
            self._look_for_deadlock(beats, awake)
        behind = [rank for rank in range(1, self._world) if rank in silent or not _meets(beats[rank], own)]
        if own.seconds >= SAY_SECONDS and behind and self._said != (own.sequence, own.collective):
            self._said = own.sequence, own.collective
            names = "; ".join(f"rank {rank}, {'silent, last ' if rank in silent else ''}{beats[rank].describe()}" for rank in behind)
            self.say(f"rank 0 is {own.describe()} and waits for {names}")

    def _look_for_deadlock(self, beats: dict[int, Beat], awake: float) -> None:
        """All ranks are in collectives, which are not the same one: nobody will ever come."""
        stands = all(beat.collective is not None and beat.seconds > 1.0 for beat in beats.values())
        if not stands or len({(beat.sequence, beat.collective) for beat in beats.values()}) == 1:
            self._differ_seconds = 0.0
            return
        self._differ_seconds += awake
        if self._differ_seconds >= DEADLOCK_SECONDS:
            where = ", ".join(f"rank {rank} {beat.describe()}" for rank, beat in sorted(beats.items()))
            self._give_up(f"hanging collective: {where}. They wait for each other, and none will come")

    def _find_death(self, rank: int) -> str | None:
        said = None
        key = f"{_key(rank)}/end"
        if self._store.check([key]):
            said = self._store.get(key).decode()
        process = self._children[rank - 1] if self._children else None
        code = None if process is None else process.poll()
        if code is None:
            return None if said is None else f"rank {rank} ended: {said}"
        own = f"rank {rank} (process {process.pid})" if process is not None else f"rank {rank}"
        if code < 0:
            # Not every number has a name, and who is gone must be told all the same.
            name = next((known.name for known in signal.Signals if known == -code), f"signal {-code}")
            return f"{own} was killed by {name}"
        return f"{own} ended: {said}" if said else f"{own} ended with exit code {code}"

    def _read(self, rank: int) -> Beat | None:
        if not self._store.check([_key(rank)]):
            return None
        return Beat(*json.loads(self._store.get(_key(rank))))

    def _give_up(self, reason: str) -> None:
        self.reason = reason
        self.known.set()
        for process in self._children:
            with suppress(ProcessLookupError, PermissionError):
                process.kill()  # ends the collective that rank 0 is in
        for link in self.links:
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)  # so does this
        with suppress(Exception):
            self.abort()


def _meets(beat: Beat, own: Beat) -> bool:
    return (beat.sequence, beat.collective) == (own.sequence, own.collective)


def _key(rank: int) -> str:
    return f"rlclinic/rank/{rank}"
