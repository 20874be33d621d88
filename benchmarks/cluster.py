"""The queue that workers share, in SQLite and in PostgreSQL: how fast it is, and whether jobs survive what happens to machines.

    python -m benchmarks.cluster                    all of it
    python -m benchmarks.cluster --only storms --jobs 200
    python -m benchmarks.cluster --only replicas    10,000 runs and 100 clients at two servers that share an index in PostgreSQL

Empty jobs: 4 processes claim and finish. Starts and stops: a worker in a process of its own, jobs whose training is pretended (lines in
a file). Ray: a pretended cohort, in turn on a cluster of this machine and without one. Storms: jobs under kill -9 and SIGSTOP of workers,
of jobs' processes, of a server, of Redis, of the database and of the raylet of a node on which every tenth job does its steps, and cuts of
the link to a worker on another machine (a network namespace, where they can be made); every line says which attempt wrote it and when, so
that two writers of one job are seen. Replicas: as benchmarks.serving, at two servers. The servers are private ones (tests/servers).
"""

import asyncio
import multiprocessing
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks import provenance, serving
from rlclinic import ray_cluster
from rlclinic.config import Config
from rlclinic.errors import UsageError
from rlclinic.launch import places
from rlclinic.launch import ray as ray_launcher
from rlclinic.ops.jobs import audited, budget, models, pool, start
from rlclinic.ops.jobs.audit import Caller
from rlclinic.ops.train import signals
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.runs import lease
from rlclinic.runs.database import connections, index, job_queue
from rlclinic.runs.store import Store
from tests.servers import namespaces, postgres, ray_server, redis_server

PRETENDED = "tests.ops.jobs.pretended_job"
KINDS = ("SQLite", "PostgreSQL")
PARTS = ("empty", "starts", "ray", "replicas", "storms")
RAY_TAG = "ray"
"""Of jobs that do their steps on Ray, and of workers that reach its cluster."""
ON_RAY = 10
"""One in so many jobs of a storm does."""
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


# ── empty jobs ──


def _finish_all(root: str) -> int:
    store, count = Store(Path(root)), 0
    while (claimed := job_queue.claim_shared(store, str(os.getpid()), cores=1, free=1)) is not None:
        count += job_queue.finish(store, claimed)
    return count


def measure_empty_jobs(kind: str, store: Store, jobs: int) -> dict[str, Any]:
    """Jobs a second that 4 processes claim and finish."""
    for number in range(jobs):
        job_queue.submit(store, f"j{number:06}", job_queue.ANY, float(number))
    with multiprocessing.get_context("spawn").Pool(4) as workers:
        workers.map(_finish_all, [str(store.root / "none")] * 4)  # everything is imported and connected
        began = time.perf_counter()
        done = sum(workers.map(_finish_all, [str(store.root)] * 4, chunksize=1))
        seconds = time.perf_counter() - began
    assert done == jobs, f"{done} of {jobs} jobs were done once"
    return row(f"{kind}: empty jobs, claimed and finished by 4 workers", done / seconds, "jobs/s", 200, 500, note=f"{jobs} jobs")


# ── starts and stops ──


def work(root: str) -> None:
    """What `rlclinic worker` does, with jobs whose training is pretended."""
    start.WORKER = PRETENDED  # type: ignore[misc]
    with signals.caught_signals() as caught:
        pool.Worker(Store(Path(root)), cores=4, tags=[RAY_TAG] if ray_cluster.ADDRESS in os.environ else []).work(stop=lambda: len(caught))


def _start_worker(store: Store, host: namespaces.Host | None = None, server: postgres.Server | None = None) -> "subprocess.Popen[bytes]":
    """A worker on this machine, or on another one that reaches the database over the network."""
    command = [sys.executable, "-c", f"from benchmarks import cluster; cluster.work({str(store.root)!r})"]
    if host is None or server is None:
        return subprocess.Popen(command)
    environment = {name: value for name, value in os.environ.items() if name != ray_cluster.ADDRESS}  # it does not reach the cluster
    return subprocess.Popen(host.command(command), env={**environment, connections.VARIABLE: server.reach(host.here)})


def _submit(store: Store, steps: int, seed: int, by: Caller = start.PERSON, *, on_ray: bool = False) -> models.Job:
    request = TrainRequest(ref="CartPole-v1:ppo_zoo", max_env_steps=2_000, seeds=1, seed=seed, runs_dir=store.root)
    os.environ[start.TAGS] = RAY_TAG if on_ray else ""
    return start.start_training(request, hypothesis=f"{steps} steps{' on Ray' if on_ray else ''}", by=by)


def _lines(store: Store) -> list[list[str]]:
    file = store.root / "did"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def _wait(until: Any, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.005)


def measure_starts_and_stops(kind: str, store: Store, jobs: int) -> list[dict[str, Any]]:
    """Seconds from a submission to the start of its process, and from a request to stop to the trainer that hears it."""
    starts, stops = [], []
    worker = _start_worker(store)
    try:
        for number in range(jobs):
            _submit(store, 100_000, 10 * number)
            submitted = lease.now()
            job = models.everything(store)[-1]
            _wait(lambda job=job: any(line[0] == job.id for line in _lines(store)))
            pid = next(int(line[2]) for line in _lines(store) if line[0] == job.id)
            began = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]) / CLOCK_TICKS
            if number:  # the worker itself starts beside the first one
                starts.append(began - submitted)
            asked = time.time()
            audited.stop_training(job.id, store.root)
            _wait(lambda job=job: (models.load(store, job.id) or job).state == "stopped")
            stops.append(max(float(line[3]) for line in _lines(store) if line[0] == job.id) - asked)
    finally:
        worker.terminate()
        worker.wait()
    return [
        row(
            f"{kind}: from a submission to the start of its process",
            max(max(starts), 0.0),
            "s",
            0.5,
            0.2,
            "lower",
            f"worst of {len(starts)}",
        ),
        row(f"{kind}: from a request to stop to the last step of a job", max(stops), "s", 2.0, 1.0, "lower", f"worst of {len(stops)}"),
    ]


# ── Ray ──


def measure_ray(store: Store, cohorts: int) -> list[dict[str, Any]]:
    """Seconds that a cohort takes longer on a warm Ray cluster of this machine than in a process of our own; nothing is trained."""
    base = Config.model_validate({"env": {"id": "CartPole-v1"}})
    runs = store.create_group([base.model_copy(update={"seed": seed}) for seed in range(2 * cohorts)]).runs
    os.environ["PRETEND"], here = "finish", str(Path(__file__).resolve().parent.parent)
    os.environ["PYTHONPATH"] = here
    ray_launcher._PASSED_ON = (*ray_launcher._PASSED_ON, "PRETEND")  # type: ignore[misc, assignment]
    taken: dict[str, list[float]] = {"local": [], "ray": []}
    for number, run in enumerate(runs):
        place = ("local", "ray")[number % 2]
        os.environ[places.VARIABLE] = place
        if number == 1:
            ray_launcher.connect(places.RayPlace())
        began = time.perf_counter()
        launch = places.start([[run.path]], module="tests.launch.pretended")
        while launch.poll():
            time.sleep(0.005)
        taken[place].append(time.perf_counter() - began)
        assert run.status.state == "finished", run.status.reason
        time.sleep(1.0)  # what comes next finds the cluster as idle as this one did
    os.environ[places.VARIABLE] = ""
    added = statistics.median(taken["ray"][1:]) - statistics.median(taken["local"][1:])
    note = f"medians of {cohorts - 1}, in turn with local ones ({statistics.median(taken['local'][1:]):.2f} s)"
    return [row("Ray: added to a cohort by a warm cluster", max(added, 0.0), "s", 1.0, 0.3, "lower", note)]


# ── storms ──


@contextmanager
def _open_redis() -> Iterator[redis_server.Server | None]:
    """Redis for this process and its children, where there is one."""
    if redis_server.find_binary() is None:
        yield None
        return
    with redis_server.serve() as server:
        os.environ["RLCLINIC_REDIS"] = server.url
        try:
            yield server
        finally:
            del os.environ["RLCLINIC_REDIS"]


@contextmanager
def _open_ray(*, wanted: bool) -> Iterator[ray_server.Node | None]:
    """A Ray cluster for this process and its children, where it is wanted and installed."""
    if not wanted or not ray_server.is_there():
        yield None
        return
    with ray_server.serve() as node:
        yield node


def _start_server(store: Store) -> "subprocess.Popen[bytes]":
    """A server over the store, of which nobody asks anything: it reads the runs, and tells others what has changed."""
    command = [sys.executable, "-m", "rlclinic", "serve", "--port", "0", "--runs-dir", str(store.root), "--no-mcp"]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def storm(
    kind: str,
    store: Store,
    server: postgres.Server | None,
    host: namespaces.Host | None,
    ray_node: ray_server.Node | None,
    jobs: int,
    seed: int,
    seconds: float,
) -> list[dict[str, Any]]:
    """Jobs under kills, pauses and cuts: those that were lost, those that two wrote at once, and the budget."""
    chance = random.Random(seed)
    counts: dict[str, int] = defaultdict(int)
    agent = Caller(face="mcp", name="storm", budgeted=True)
    budget.set_budget(store.root, env_steps=jobs * 2_048)
    on_ray = ray_node is not None
    submitted = [_submit(store, 30, 10 * number, agent, on_ray=on_ray and number % ON_RAY == 0) for number in range(jobs)]
    refused = _is_refused(store, 10 * jobs, agent)
    faults = ["kill worker", "pause worker", "stop worker", "kill job", "pause job", "pause job", "kill server", "pause server"]
    faults += ["kill database", "pause database"] if server is not None else []
    faults += ["cut link", "cut link"] if host is not None else []
    faults += ["kill raylet", "pause raylet"] if ray_node is not None else []
    deadline = time.monotonic() + seconds
    paused: list[tuple[float, int]] = []
    mended_at = 0.0
    with _open_redis() as redis:
        faults += ["kill Redis"] if redis is not None else []
        # The second one is on another machine, where one can be made.
        hosts = [None, host]
        workers = [_start_worker(store, place, server) for place in hosts]
        replica = _start_server(store)
        try:
            while time.monotonic() < deadline and any(state in ("queued", "claimed") for state in _states(store)):
                time.sleep(chance.uniform(0.5, 4.0))
                for until, pid in list(paused):
                    if time.monotonic() > until:
                        paused.remove((until, pid))
                        with suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGCONT)
                if host is not None and mended_at and time.monotonic() > mended_at:
                    host.mend()
                    mended_at = 0.0
                writers = sorted({int(line[2]) for line in _lines(store)[-20:]} & _living())
                what = chance.choice(faults)
                if what in ("kill worker", "stop worker"):
                    victim = chance.randrange(len(workers))
                    # Asked to leave, as by a cluster that has less to do, it gives its jobs back first.
                    workers[victim].send_signal(signal.SIGKILL if what == "kill worker" else signal.SIGTERM)
                    workers[victim].send_signal(signal.SIGCONT)
                    workers[victim].wait()
                    workers[victim] = _start_worker(store, hosts[victim], server)
                elif what == "pause worker":
                    paused.append(_pause(chance.choice(workers).pid, chance))
                elif what == "kill job" and writers:
                    with suppress(ProcessLookupError):
                        os.kill(chance.choice(writers), signal.SIGKILL)
                elif what == "pause job" and writers:
                    paused.append(_pause(chance.choice(writers), chance))
                elif what == "kill server":
                    replica.kill()
                    replica.wait()
                    replica = _start_server(store)
                elif what == "pause server":
                    paused.append(_pause(replica.pid, chance))
                elif what == "kill Redis" and redis is not None:
                    redis.kill()
                    time.sleep(chance.uniform(0.0, 2.0))
                    redis.start()
                elif what == "kill database" and server is not None:
                    server.kill()
                    time.sleep(chance.uniform(0.0, 1.5 * job_queue.LEASE_SECONDS))
                    server.start()
                elif what == "pause database" and server is not None:
                    with server.paused():
                        time.sleep(chance.uniform(0.0, 1.5 * job_queue.LEASE_SECONDS))
                elif what == "kill raylet" and ray_node is not None:
                    ray_node.kill_raylet()
                    time.sleep(chance.uniform(0.0, 2.0))
                    ray_node.start()
                elif what == "pause raylet" and ray_node is not None:
                    ray_node.start()  # if the cluster has thrown it out while it was paused before
                    paused += [_pause(pid, chance) for pid in ray_node.find_raylets()]
                elif what == "cut link" and host is not None and not mended_at:
                    host.cut()
                    mended_at = time.monotonic() + chance.uniform(0.2, 2.5) * job_queue.LEASE_SECONDS
                else:
                    continue
                counts[what] += 1
            for _, pid in paused:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            if host is not None:
                host.mend()
            if ray_node is not None:
                ray_node.start()
            # What the storm has left is done in peace: only then can be told what is lost.
            while time.monotonic() < deadline + max(60.0, 2 * seconds) and any(state in ("queued", "claimed") for state in _states(store)):
                time.sleep(1.0)
        finally:
            for process in (*workers, replica):
                process.send_signal(signal.SIGCONT)
                process.terminate()
            for process in (*workers, replica):
                process.wait()
    lost = [job.id for job in submitted if (models.load(store, job.id) or job).state not in ("finished", "failed")]
    failed = [job.id for job in submitted if (models.load(store, job.id) or job).state == "failed"]
    _tell_failures(store)
    spent = budget.get_budget(store.root)
    overdrawn = max(0, spent.used_env_steps + spent.held_env_steps - (spent.env_steps or 0)) + (not refused)
    told = ", ".join(f"{what} {count}" for what, count in sorted(counts.items()))
    note = f"{jobs} jobs, lease {job_queue.LEASE_SECONDS:g} s; {told}; {len(failed)} given up"
    return [
        row(f"{kind}, storm: jobs that were lost", len(lost), "jobs", 0, None, "lower", note),
        row(f"{kind}, storm: jobs with two writers at a time", len(_find_overlaps(store)), "jobs", 0, None, "lower", note),
        row(f"{kind}, storm: budget overdrawn", overdrawn, "env steps", 0, None, "lower", note),
        row(f"{kind}, storm: jobs given up", len(failed), "jobs", 0, None, "lower", note),
    ]


def _tell_failures(store: Store) -> None:
    """Print how often jobs failed by themselves, why they were given up, and what their processes said."""
    for found in job_queue.list_rows(store):
        if found.failures or found.state not in ("finished", "stopped"):
            job = models.load(store, found.id)
            print(f"{found.id} {found.state}, failed {found.failures} times, lost {found.losses}: {job and job.reason}", file=sys.stderr)
            log = store.root / "@jobs" / found.id / "job.log"
            print(log.read_text(errors="replace")[-4000:] if log.exists() else "no log", file=sys.stderr)


def _is_refused(store: Store, seed: int, by: Caller) -> bool:
    """Whether a start that the budget does not pay for any more is refused."""
    try:
        _submit(store, 30, seed, by)
    except UsageError:
        return True
    return False


def _states(store: Store) -> list[str]:
    try:
        return [found.state for found in job_queue.list_rows(store)]
    except Exception as error:  # noqa: BLE001 - the database is down at times
        print(error, file=sys.stderr)
        return ["claimed"]


def _living() -> set[int]:
    return {int(entry.name) for entry in Path("/proc").glob("[0-9]*")}


def _pause(pid: int, chance: random.Random) -> tuple[float, int]:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    return time.monotonic() + chance.uniform(0.2, 2.5) * job_queue.LEASE_SECONDS, pid


def _find_overlaps(store: Store) -> set[str]:
    """Jobs of which an attempt wrote a line after a later one had begun."""
    began: dict[tuple[str, int], float] = {}
    overlaps = set()
    for id, attempt, _, moment in _lines(store):
        began.setdefault((id, int(attempt)), float(moment))
    for id, attempt, _, moment in _lines(store):
        if any(other == id and number > int(attempt) and float(moment) > first for (other, number), first in began.items()):
            overlaps.add(id)
    return overlaps


# ── replicas ──


def measure_replicas(root: Path, runs: int, clients: int, seconds: float, when: Path | None) -> list[dict[str, Any]]:
    """What clients of two servers see that share an index of so many runs; every diagnosis was made once before."""
    root.mkdir(parents=True)
    groups = serving.make_store(root, runs)
    with _open_redis() as redis, serving.serving(root, 1) as (one, first), serving.serving(root, 1) as (other, second):
        asyncio.run(serving.diagnose_all(one, groups))
        print("prepared", file=sys.stderr, flush=True)
        while when is not None and not when.exists():
            time.sleep(0.1)
        before = serving.cpu_seconds(first) + serving.cpu_seconds(second)

        async def visit() -> list[serving.Seen]:
            return list(await asyncio.gather(*(serving.visit(port, groups, clients // 2, seconds) for port in (one, other))))

        seen = asyncio.run(visit())
        used = serving.cpu_seconds(first) + serving.cpu_seconds(second) - before
    answers = sum(len(each.all) for each in seen)
    errors = [error for each in seen for error in each.errors]
    told = "Redis" if redis is not None else "NOTIFY"
    note = f"{answers / seconds:.0f} answers/s, {1_000 * used / answers:.1f} ms of processor time each, {len(errors)} errors, {told}"
    print(errors[:5], file=sys.stderr)

    def p95(*kinds: str) -> float:
        return statistics.quantiles([took for each in seen for kind in kinds for took in each.took[kind]], n=20)[18]

    where = f"{runs:,} runs on PostgreSQL, {clients} clients at two servers"
    return [
        row(f"{where}: p95 of lists", p95("list"), "s", 0.3, 0.1, "lower", note),
        row(f"{where}: p95 of kept diagnoses", p95("diagnosis"), "s", 0.3, 0.1, "lower", note),
        row(f"{where}: p95 of groups and metrics", p95("group", "metrics"), "s", 0.3, 0.1, "lower", note),
    ]


# ── all of it ──


def row(what: str, value: float, unit: str, bar: float, stretch: float | None, better: str = "higher", note: str = "") -> dict[str, Any]:
    """A figure with its bar."""
    print(f"{what}: {value:.3g} {unit}   {note}", file=sys.stderr)
    return {"what": what, "value": value, "unit": unit, "bar": bar, "stretch": stretch, "better": better, "note": note}


@contextmanager
def opened(kind: str, listen: Sequence[str] = ()) -> Iterator[tuple[Store, postgres.Server | None]]:
    """A store of its own, whose queue is of this kind; for this process and its children."""
    with tempfile.TemporaryDirectory(prefix="rlclinic-cluster-", ignore_cleanup_errors=True) as folder:
        store = Store(Path(folder) / "runs")
        if kind == "SQLite":
            os.environ[connections.VARIABLE] = "sqlite"
            yield store, None
            return
        with postgres.serve(listen) as server:
            os.environ[connections.VARIABLE] = server.url
            connections.migrate(store)
            yield store, server
            connections.forget()


def main() -> None:
    """Measure what is asked for."""
    parser = provenance.parser(__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="leave out the rest; repeatable")
    parser.add_argument("--kind", choices=KINDS, action="append", help="one database alone")
    parser.add_argument("--jobs", type=int, default=200, help="jobs of a storm")
    parser.add_argument(
        "--seconds", type=float, default=1800.0, help="how long a storm goes on; what is left is done in peace, for twice as long at most"
    )
    parser.add_argument("--lease", type=float, default=5.0, help="seconds of a lease in a storm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--when", type=Path, help="once replicas are prepared, wait for this file: the machine may be busy until then")
    asked = parser.parse_args()
    parts = asked.only or PARTS
    rows: list[dict[str, Any]] = []
    if "ray" in parts:
        with tempfile.TemporaryDirectory(prefix="rlclinic-cluster-", ignore_cleanup_errors=True) as folder:
            rows += measure_ray(Store(Path(folder) / "runs"), 3 if asked.quick else 11)
    for kind in asked.kind or KINDS:
        if "empty" in parts:
            with opened(kind) as (store, _):
                rows.append(measure_empty_jobs(kind, store, 100 if asked.quick else 2_000))
        if "starts" in parts:
            with opened(kind) as (store, _):
                rows += measure_starts_and_stops(kind, store, 3 if asked.quick else 11)
        if "storms" in parts:
            os.environ["RLCLINIC_LEASE_SECONDS"] = str(asked.lease)
            job_queue.LEASE_SECONDS = asked.lease
            start.MOST_WAITING = asked.jobs + 1  # type: ignore[misc]
            remote = kind == "PostgreSQL" and namespaces.can_be_made()
            with (
                namespaces.hosts(int(remote)) as hosts,
                opened(kind, [host.here for host in hosts]) as (store, server),
                # Jobs that only some workers can do have tags, which a local queue does not need.
                _open_ray(wanted=kind == "PostgreSQL") as ray_node,
            ):
                jobs, seconds = (4, 60.0) if asked.quick else (asked.jobs, asked.seconds)
                rows += storm(kind, store, server, hosts[0] if hosts else None, ray_node, jobs, asked.seed, seconds)
            del os.environ["RLCLINIC_LEASE_SECONDS"], os.environ[start.TAGS]
            job_queue.LEASE_SECONDS = 30.0
    if "replicas" in parts and "PostgreSQL" in (asked.kind or KINDS):
        with opened("PostgreSQL") as (store, _):
            os.environ[index.VARIABLE] = "shared"
            sizes = (400, 20, 5.0) if asked.quick else (10_000, 100, 60.0)
            rows += measure_replicas(store.root.parent / "served" / "runs", *sizes, asked.when)
            del os.environ[index.VARIABLE]
    command = "python -m benchmarks.cluster" + "".join(f" --only {part}" for part in asked.only or [])
    command += "".join(f" --kind {kind}" for kind in asked.kind or [])
    command += f" --jobs {asked.jobs} --seconds {asked.seconds:g} --lease {asked.lease:g} --seed {asked.seed}" if "storms" in parts else ""
    print(provenance.write("cluster", [{**each, "command": command} for each in rows], provenance.provenance(command), asked.quick))


if __name__ == "__main__":
    main()
