"""The groups that a diagnosis may compare with, from the index: looking through ten thousand folders for each would take a second."""

import time
from dataclasses import dataclass
from typing import Final

from starlette.concurrency import run_in_threadpool

from rlclinic.ops.runs.ranking import Outcome
from rlclinic.ops.runs.search import outcomes
from rlclinic.runs.database.index import Index

SECONDS: Final = 5.0
"""For so long an answer stands: what other groups did changes slowly, and asking costs more than most answers."""


@dataclass(frozen=True, slots=True)
class Peers:
    """How the groups of one environment and algorithm did."""

    outcomes: list[Outcome]
    mark: str
    """Another text when another group is the best: part of what a diagnosis was made from."""
    asked: float


class PeerTable:
    """Peers by environment and algorithm."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._known: dict[tuple[str, str], Peers] = {}

    async def of(self, env: str, algo: str) -> Peers:
        """The groups of a kind, at most SECONDS old."""
        known = self._known.get((env, algo))
        if known is None or time.monotonic() - known.asked > SECONDS:
            known = self._known[(env, algo)] = await run_in_threadpool(self._read, env, algo)
        return known

    def _read(self, env: str, algo: str) -> Peers:
        groups = outcomes(self._index, env, algo)
        best = sorted(groups, key=lambda each: (each.rank, each.group.id))[-2:]
        return Peers(groups, "+".join(f"{each.group.id}:{each.rank}" for each in best), time.monotonic())
