"""How fast the server answers: 100 clients with 200 ms think time over lists, groups, metrics and diagnoses of 10,000 runs.

The store holds copies of two real groups of four seeds (one that learns, one whose learning rate is too high), each under ids and
times of its own. Half of the visits go to the newest hundred groups, the other half to any of them. `cold` begins with a server that
has never answered anything; `kept` with one that has diagnosed every group once, which it keeps over restarts.

python -m benchmarks.serving            10,000 runs, 100 clients, 60 s each
python -m benchmarks.serving --quick    400 runs, 20 clients, 5 s each: shows that it works
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks import provenance
from rlclinic.ops.runs import search
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store

THINK_SECONDS: Final = 0.2
MIX: Final = {"list": 30, "group": 25, "metrics": 25, "diagnosis": 20}
TEMPLATES: Final = (["--set", "algo.learning_rate=0.001"], ["--set", "algo.learning_rate=0.1"])
RECENT: Final = 100
NAMES: Final = "train/roll/ep_rew_mean&names=val/roll/ep_rew_mean&names=train/metrics/kl_divergence&names=train/metrics/entropy"


# ── the store ──


def make_store(root: Path, runs: int) -> list[str]:
    """Copies of real groups until there are as many runs; the ids of all groups, oldest first."""
    for changes in TEMPLATES:
        command = ["train", "CartPole-v1:ppo_zoo", "--seeds", "4", "--max-env-steps", "20000", "--runs-dir", str(root), "-q", "--no-report"]
        subprocess.run([sys.executable, "-m", "rlclinic", *command, *changes], check=True, capture_output=True)
    templates = Store(root).groups()
    now = time.time()
    ids = []
    for number in range(runs // 4):
        template = templates[number % len(templates)]
        ids.append(copy_group(root, template, f"b{number:05d}", now - 30.0 * (runs // 4 - number)))
    for template in templates:
        Store(root).remove(template)
    return ids


def copy_group(root: Path, template: Group, id: str, created: float) -> str:
    """A group like another one: rows and logs are the same files, what names it is its own."""
    for run in template.runs:
        folder = root / run.id.replace(template.id, id)
        folder.mkdir()
        for name in ("metrics.csv", "run.log"):
            os.link(run.path / name, folder / name)
        for name in ("config.json", "status.json"):
            (folder / name).write_text(_renamed(run.path / name, template.id, id, created))
    folder = root / "@groups" / id
    folder.mkdir()
    (folder / "group.json").write_text(_renamed(template.path / "group.json", template.id, id, created))
    return id


def _renamed(path: Path, old: str, new: str, created: float) -> str:
    record: dict[str, Any] = json.loads(path.read_text().replace(old, new))
    times = {name: created for name in ("created", "started", "heartbeat") if name in record}
    return json.dumps({**record, **times})


# ── the server ──


def cpu_seconds(parent: int) -> float:
    """Processor time of a process and all below it, so far: it does not depend on what else the machine is doing."""
    ticks, parents = {}, {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            cells = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        pid = int(file.parent.name)
        parents[pid], ticks[pid] = int(cells[1]), int(cells[11]) + int(cells[12])
    family = {parent}
    while more := {pid for pid, above in parents.items() if above in family} - family:
        family |= more
    return sum(ticks.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(root: Path, workers: int) -> Iterator[tuple[int, int]]:
    """A server over the store; its port and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "rlclinic",
        "serve",
        "--port",
        str(port),
        "--runs-dir",
        str(root),
        "--workers",
        str(workers),
        "--no-mcp",
    ]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL)
    try:
        _wait(port)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(30)


def _wait(port: int) -> None:
    """Until it answers: its port takes connections earlier, while the app is being made."""
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/health", timeout=60):
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server does not answer")


# ── the clients ──


@dataclass
class Seen:
    """What the clients saw."""

    took: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in MIX})
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    """That the server used meanwhile."""

    @property
    def all(self) -> list[float]:
        return [took for kind in self.took.values() for took in kind]


class Client:
    """One keep-alive connection that asks, thinks and asks again."""

    def __init__(self, port: int, groups: list[str], seed: int) -> None:
        self.port, self.groups, self.random = port, groups, random.Random(seed)

    async def run(self, until: float, seen: Seen) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        await asyncio.sleep(self.random.random() * THINK_SECONDS)
        while time.perf_counter() < until:
            kind = self.random.choices(list(MIX), list(MIX.values()))[0]
            start = time.perf_counter()
            status, size = await self._get(reader, writer, self._path(kind))
            seen.took[kind].append(time.perf_counter() - start)
            if status != 200 or not size:
                seen.errors.append(f"{kind}: {status}")
            await asyncio.sleep(THINK_SECONDS)
        writer.close()

    def _path(self, kind: str) -> str:
        recent = self.random.random() < 0.5
        group = self.random.choice(self.groups[-RECENT:] if recent else self.groups)
        if kind == "list":
            asked = ("groups?limit=50", f"runs?limit=50&q={group[:4]}", "groups?state=finished&sort=best_eval", f"runs?group={group}")
            return f"/api/v1/{self.random.choice(asked)}"
        if kind == "metrics":
            return f"/api/v1/runs/{group}-s{self.random.randrange(4)}/metrics?points=300&names={NAMES}"
        return f"/api/v1/groups/{group}" + ("/diagnosis" if kind == "diagnosis" else "")

    async def _get(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> tuple[int, int]:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(None, 2)[1])
        size = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        await reader.readexactly(size)
        return status, size


async def visit(port: int, groups: list[str], clients: int, seconds: float) -> Seen:
    """What `clients` see in that time."""
    seen = Seen(seconds=seconds)
    until = time.perf_counter() + seconds
    await asyncio.gather(*(Client(port, groups, seed).run(until, seen) for seed in range(clients)))
    return seen


async def diagnose_all(port: int, groups: list[str]) -> None:
    """Ask for everything once, four at a time."""
    waiting = iter(groups)

    async def one() -> None:
        client = Client(port, groups, 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for group in waiting:
            await client._get(reader, writer, f"/api/v1/groups/{group}/diagnosis")
            await client._get(reader, writer, f"/api/v1/groups/{group}")
        writer.close()

    await asyncio.gather(*(one() for _ in range(4)))


def rows(label: str, seen: Seen, clients: int, runs: int, command: str) -> list[dict[str, Any]]:
    """The table's lines."""
    took = statistics.quantiles(seen.all, n=100)
    by_kind = {kind: round(statistics.quantiles(each, n=20)[18], 3) for kind, each in seen.took.items() if len(each) > 1}
    what = f"{clients} clients, {runs:,} runs, {label}: p95 of an answer"
    more = {
        "label": label,
        "p50": took[49],
        "p99": took[98],
        "p95_by_kind": by_kind,
        "requests_per_second": len(seen.all) / seen.seconds,
        "server_cpu_ms_per_answer": 1_000 * seen.cpu_seconds / len(seen.all),
        "errors": len(seen.errors),
    }
    # The first minute of a server that has never seen the store is worth knowing; what people live with is the other.
    bar, stretch = (1.0, 0.3) if label == "kept" else (None, None)
    return [{"what": what, "unit": "s", "value": took[94], "better": "lower", "bar": bar, "stretch": stretch, "command": command, **more}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="A store to make, or to use again.")
    asked = parser.parse_args()
    runs, clients, seconds = (400, 20, 5.0) if asked.quick else (10_000, 100, 60.0)
    root = asked.keep or provenance.SCRATCH / "serving" / "runs"
    groups = [f"b{number:05d}" for number in range(runs // 4)] if asked.keep and root.exists() else make_fresh(root, runs)
    command = "python -m benchmarks.serving" + (" --quick" if asked.quick else "")
    shutil.rmtree(root / "@index", ignore_errors=True)
    found = search.reindex(root)
    print(f"{found.runs} runs indexed in {found.seconds:.1f} s", file=sys.stderr)
    measured = []
    for label in ("cold", "kept"):
        with serving(root, asked.workers) as (port, process):
            if label == "kept":
                asyncio.run(diagnose_all(port, groups))
            before = cpu_seconds(process)
            seen = asyncio.run(visit(port, groups, clients, seconds))
            seen.cpu_seconds = cpu_seconds(process) - before
        measured += rows(label, seen, clients, runs, command)
        print(json.dumps(measured[-1], indent=1), seen.errors[:5], file=sys.stderr)
    provenance.write("serving", measured, provenance.provenance(command), asked.quick)


def make_fresh(root: Path, runs: int) -> list[str]:
    """A store in an empty folder."""
    shutil.rmtree(root.parent, ignore_errors=True)
    root.mkdir(parents=True)
    return make_store(root, runs)


if __name__ == "__main__":
    main()
