"""A hundred pages over a store that nobody has diagnosed yet: errors, and how long they wait for an answer.

2,000 runs in 500 groups; two worker processes. Clients ask as a page does, for lists, groups, series and diagnoses, with `Prefer: wait=10`:
a diagnosis is sent as soon as it is there; one that takes longer is a 202 that says when to ask again, and it goes on being made, once for
all who ask.

The loop is closed: a client waits for its answer, thinks for 200 ms and asks again, as a page does that shows one group after the other.
So at most a hundred diagnoses are waited for at a time. A client whose answer is a 202 has not been answered: what is measured is the time
until the diagnosis itself is there. No server can be faster than its processor: the groups that were diagnosed, times what a diagnosis
takes by itself, over the cores that the clients leave to it; the note says both.
"""

import asyncio
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks import provenance
from benchmarks.serving import THINK_SECONDS, Client, Seen, cpu_seconds, make_fresh, serving
from rlclinic.ops.diagnose import diagnose
from rlclinic.ops.runs import search
from rlclinic.runs.history import of_run
from rlclinic.runs.store import Store

WAIT_SECONDS: Final = 10
"""As the page has it (serve/web/static/js/api.js)."""
RUNS: Final = {"quick": 40, "bar": 2_000, "stretch": 2_000}
CLIENTS: Final = {"quick": 10, "bar": 100, "stretch": 100}
SECONDS: Final = {"quick": 5.0, "bar": 60.0, "stretch": 60.0}


class Page(Client):
    """A client that can be told to wait."""

    def __init__(self, port: int, groups: list[str], seed: int) -> None:
        super().__init__(port, groups, seed)
        self.diagnoses: list[float] = []
        """How long each took until it was there."""

    async def run(self, until: float, seen: Seen) -> None:
        """Ask, think, and ask again where the server said to wait."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        await asyncio.sleep(self.random.random() * THINK_SECONDS)
        while time.perf_counter() < until:
            kind = self.random.choices(["list", "group", "metrics", "diagnosis"], [30, 25, 25, 20])[0]
            path, first = self._path(kind), time.perf_counter()
            while True:
                began = time.perf_counter()
                status, wait = await self._ask(reader, writer, path)
                seen.took[kind].append(time.perf_counter() - began)
                if status != 202 or time.perf_counter() > until:
                    break
                writer.close()
                await asyncio.sleep(wait)
                # The server closes a connection that is silent for five seconds; a browser opens another.
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            if status not in (200, 202):
                seen.errors.append(f"{kind}: {status}")
            if kind == "diagnosis" and status == 200:
                self.diagnoses.append(time.perf_counter() - first)
            await asyncio.sleep(THINK_SECONDS)
        writer.close()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> tuple[int, float]:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nPrefer: wait={WAIT_SECONDS}\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        await reader.readexactly(int(fields[b"content-length"]))
        return int(head.split(None, 2)[1]), float(fields.get(b"retry-after", b"1"))


def rows(size: str) -> Iterator[dict[str, Any]]:
    """Errors and the 95th percentile of all answers."""
    count, clients = RUNS[size], CLIENTS[size]
    root = provenance.SCRATCH / f"attack-clients-{count}" / "runs"
    groups = [f"b{number:05d}" for number in range(count // 4)] if root.exists() else make_fresh(root, count)
    shutil.rmtree(root / "@index", ignore_errors=True)
    search.reindex(root)
    seen = Seen()
    pages = [Page(0, groups, seed) for seed in range(clients)]
    with serving(root, workers=2) as (port, process):
        before, own = cpu_seconds(process), time.process_time()
        asyncio.run(_visit(pages, port, SECONDS[size], seen))
        server, own = cpu_seconds(process) - before, time.process_time() - own
    what = f"{clients} clients, {count:,} runs never diagnosed"
    diagnoses = sorted(took for page in pages for took in page.diagnoses)
    kinds = {kind: f"{statistics.quantiles(took, n=20)[18]:.2f} s" for kind, took in seen.took.items() if len(took) > 1}
    alone = _diagnose_alone(root, groups)
    note = f"p95 {', '.join(f'{kind} {took}' for kind, took in kinds.items())}; {len(seen.all):,} answers"
    yield {"what": f"{what}: errors", "unit": "errors", "value": len(seen.errors), "better": "lower", "bar": 0, "stretch": 0}
    p95 = statistics.quantiles(seen.all, n=20)[18]
    yield {"what": f"{what}: p95 of an answer", "unit": "s", "value": p95, "better": "lower", "bar": 2.0, "stretch": 0.5, "note": note}
    note = (
        f"median {statistics.median(diagnoses):.2f} s, longest {diagnoses[-1]:.1f} s, of {len(diagnoses):,}; {len(groups)} groups of "
        f"{alone * 1_000:.0f} ms of a core each: {len(groups) * alone / 2:.0f} s of both cores; in {SECONDS[size]:.0f} s the server took "
        f"{server:.0f} s of processor, the clients {own:.0f} s"
    )
    yield {
        "what": f"{what}: p95 until a diagnosis is there",
        "unit": "s",
        "value": statistics.quantiles(diagnoses, n=20)[18],
        "better": "lower",
        "bar": 2.0,
        "stretch": 0.5,
        "note": note,
    }


def _diagnose_alone(root: Path, groups: list[str]) -> float:
    """Processor seconds of one cold diagnosis with nothing beside it: the middle of twenty."""
    store, took = Store(root), []
    for id in groups[-20:]:
        began = time.process_time()
        diagnose.examine(group := store.group(id), [of_run(run) for run in group.runs], id, others=())
        took.append(time.process_time() - began)
    return statistics.median(took)


async def _visit(pages: list[Page], port: int, seconds: float, seen: Seen) -> None:
    until = time.perf_counter() + seconds
    for page in pages:
        page.port = port
    await asyncio.gather(*(page.run(until, seen) for page in pages))
