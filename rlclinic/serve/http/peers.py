"""The groups that a diagnosis may compare with, from the index: looking through ten thousand folders for each would take a second."""

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from starlette.concurrency import run_in_threadpool

from rlclinic.ops.runs.ranking import RankedGroup
from rlclinic.ops.runs.search import outcomes
from rlclinic.runs.database.index import Index

SECONDS: Final = 5.0
"""For so long an answer stands: what other groups did changes slowly, and asking costs more than most answers."""


@dataclass(frozen=True, slots=True)
class Peers:
    """How the groups of one environment and algorithm did."""

    outcomes: list[RankedGroup]
    mark: str
    """Another text when another group is the best: part of what a diagnosis was made from."""
    asked: float


class PeerTable:
    """Peers by environment and algorithm."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._known: dict[tuple[str, str], Peers] = {}
        self._reading: dict[tuple[str, str], asyncio.Task[Peers]] = {}

    async def of(self, env: str, algo: str) -> Peers:
        """The groups of a kind, at most SECONDS old. However many ask at once, they are read once."""
        kind = (env, algo)
        known = self._known.get(kind)
        if known is not None and time.monotonic() - known.asked <= SECONDS:
            return known
        if kind not in self._reading:
            self._reading[kind] = asyncio.create_task(run_in_threadpool(self._read, env, algo))
            self._reading[kind].add_done_callback(lambda _: self._reading.pop(kind))
        # Whoever leaves must not take the answer from those who wait for it, too.
        known = self._known[kind] = await asyncio.shield(self._reading[kind])
        return known

    def _read(self, env: str, algo: str) -> Peers:
        groups = outcomes(self._index, env, algo)
        best = sorted(groups, key=lambda each: (each.rank, each.group.id))[-2:]
        return Peers(groups, "+".join(f"{each.group.id}:{each.rank}" for each in best), time.monotonic())
