"""Training processes on the nodes of a Ray cluster, with the interface of `launch.local`. Ray places them; correctness is ours.

A cohort is one actor (a task could not be told anything), which starts the same process as the local launcher and is never restarted:
only the launcher takes runs up again. Ray's word that something is dead proves nothing, so a cohort has one writer by a deadline that its
trainer keeps itself (`runs.lease`):

- the launcher tells every actor each second that it is still wanted, and gives back the time at which the actor answered last, by the
  actor's own clock. The trainer may write for LEASE_SECONDS from then on. A message that comes late thus gives no time;
- an actor that hears nothing for two thirds of that lets its runs write a checkpoint and stop; past the deadline it kills them, and where
  the actor itself is gone the trainer finds its deadline over before it writes;
- the launcher, in turn, counts a cohort as lost only when the last deadline that it can have given is over.

The nodes see the run folders under the same path, and have the same rlclinic installed.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

from rlclinic import ray_cluster, trust
from rlclinic.errors import ConfigError, UsageError
from rlclinic.launch import deaths, local
from rlclinic.launch.local import Cohort, Launch
from rlclinic.launch.places import RayPlace
from rlclinic.runs import launcher_status, lease, lock
from rlclinic.runs.record import Run

BEAT_SECONDS: Final = 1.0
WATCH_SECONDS: Final = 0.05
IDLE_SECONDS: Final = 5.0
"""How long an actor is kept for the next cohort."""
_PASSED_ON: Final = ("PYTHONPATH", trust.STATE, "RLCLINIC_CACHE", "RLCLINIC_LEASE_SECONDS")


# ── on the node ──


class Order(NamedTuple):
    """What an actor is to start."""

    module: str
    runs: list[str]
    resume: bool
    threads: int
    environment: dict[str, str]
    folder: str
    version: str
    machine: str
    """Of the launcher; where it is the same, processes are looked up by their numbers, under the same name."""
    host: str
    lease_seconds: float


class Greeting(NamedTuple):
    """An actor's first word: its clock, and what keeps it from training."""

    clock: float
    problem: str = ""


class Ended(NamedTuple):
    """How a training process ended."""

    returncode: int
    out_of_memory: bool


class Keeper:
    """A place on a node: one training process at a time, its deadline, and what it is told. A thread starts and watches each."""

    def greet(self, order: Order) -> Greeting:
        """The clock of this machine, or what keeps it from training this."""
        self._order, self._begun = order, False
        self._deadline = Path(tempfile.mkdtemp(prefix="rlclinic-ray-")) / "deadline"
        self._signals: list[int] = []
        self._over = threading.Event()
        self._ended = Ended(-signal.SIGKILL, False)
        missing = [run for run in self._order.runs if not Path(run).is_dir()]
        here = _version()
        if missing:
            problem = (
                f"the node {socket.gethostname()} does not see {missing[0]}.\n  It could not write there.\n"
                "  Mount the folder of the runs under the same path on every node"
            )
        elif here != self._order.version:
            problem = (
                f"the node {socket.gethostname()} has rlclinic {here}, and this machine {self._order.version}.\n"
                "  They may not train alike.\n  Install the same version on both"
            )
        else:
            problem = ""
        return Greeting(lease.now(), problem)

    def beat(self, answered: float, seconds: float, signals: Sequence[int]) -> float:
        """Train, or go on, until `seconds` after what this answered last; the time now."""
        if self._over.is_set():
            return lease.now()  # its folder is gone, or about to be
        try:
            lease.write_deadline(self._deadline, answered + seconds)
        except FileNotFoundError:
            return lease.now()
        self._signals += signals
        if not self._begun:
            self._begun = True
            threading.Thread(target=self._keep, daemon=True).start()
        return lease.now()

    def wait(self) -> Ended:
        """How the process ended, once it has."""
        self._over.wait()
        return self._ended

    def _keep(self) -> None:
        """Start the process, pass on what it is told, end it when its time is over. It gets SIGTERM when this thread ends."""
        order, killed = self._order, deaths.oom_kills()
        # A trainer whose actors are on Ray asks this cluster for them.
        cluster = {"RAY_ADDRESS": address} if (address := ray_cluster.find_own_address()) else {}
        host = {"RLCLINIC_HOST": order.host if _machine() == order.machine else f"{socket.gethostname()}-{secrets.token_hex(3)}"}
        environment = {**local.environment(order.threads), **order.environment, **cluster, **host, lease.VARIABLE: str(self._deadline)}
        cwd = order.folder if Path(order.folder).is_dir() else None
        try:
            with launcher_status.open_log(launcher_status.launch_log(Path(order.runs[0]))) as log:
                process = subprocess.Popen(
                    local.command(order.module, order.runs, order.resume),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    process_group=0,
                    env=environment,
                    cwd=cwd,
                )
            warned = False
            while process.poll() is None:
                left = lease.left(self._deadline)
                if left <= 0:
                    self._signals.append(signal.SIGKILL)
                elif left < order.lease_seconds / 3 and not warned:
                    warned = True
                    self._signals.append(signal.SIGTERM)
                while self._signals:
                    _send(process.pid, self._signals.pop(0))
                time.sleep(WATCH_SECONDS)
            _send(process.pid, signal.SIGKILL)  # env workers that outlived it
            self._ended = Ended(process.returncode, deaths.oom_kills() > killed)
        finally:
            self._over.set()
            shutil.rmtree(self._deadline.parent, ignore_errors=True)


def _send(pid: int, number: int) -> None:
    """SIGKILL goes to the whole group. Everything else to the process alone: its env workers must live until the checkpoint is written."""
    try:
        os.killpg(pid, number) if number == signal.SIGKILL else os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _machine() -> str:
    """What tells machines apart, and containers of one machine that do not see each other's processes."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - no path of the file system
    except OSError:
        return socket.gethostname()


def _version() -> str:
    try:
        return metadata.version("rlclinic")
    except metadata.PackageNotFoundError:
        return "from a checkout"


# ── at the launcher ──


class RemoteProcess:
    """A training process on a node, as the launcher sees it."""

    pid = 0

    def __init__(self, order: Order, options: Mapping[str, Any]) -> None:
        self._ray, self._options = connect(), options
        self.returncode: int | None = None
        self.reason: str | None = None
        """What is to be said of its end, where its exit code does not say it."""
        self.out_of_memory = False
        self._actor: Any = None
        self._greeting: Any = None
        self._ended: Any = None
        self._beat: Any = None
        self._answered = self._sent = 0.0
        self._signals: list[int] = []
        self._lost: str | None = None
        try:
            self._actor = _take_idle(options) or self._ray.remote(**options)(Keeper).remote()
            self._greeting = self._actor.greet.remote(order)
        except ray_cluster.errors_of(self._ray) as error:
            self._lost = _describe_loss(error)

    def poll(self) -> int | None:
        """Its exit code, once it has ended for sure. Never blocks."""
        if self.returncode is not None:
            return self.returncode
        if self._lost is None:
            try:
                self._listen()
            except ray_cluster.errors_of(self._ray) as error:
                self._lost = _describe_loss(error)
        if self._lost is not None and lease.now() > self._sent + (lease.SECONDS if self._sent else 0.0):
            # Whatever it still does, it does not write any more.
            self._close(-signal.SIGKILL, self._lost)
        return self.returncode

    def send_signal(self, sig: int, /) -> None:
        """Pass a signal on; to one that has not begun, by taking its place away."""
        if self._greeting is not None:
            self._close(-sig)
        else:
            self._signals.append(sig)
            self.poll()

    def wait(self) -> int | None:
        """Its exit code; at most as long as a lease, after which it is over for sure."""
        while self.poll() is None:
            time.sleep(WATCH_SECONDS)
        return self.returncode

    def _listen(self) -> None:
        if self._greeting is not None:
            if not self._ready(self._greeting):
                return
            greeting = self._ray.get(self._greeting)
            self._greeting, self._answered = None, greeting.clock
            if greeting.problem:
                self._close(ConfigError.exit_code, greeting.problem)
                return
            self._ended = self._actor.wait.remote()
        if self._beat is not None and self._ready(self._beat):
            self._answered, self._beat = self._ray.get(self._beat), None
        now = lease.now()
        if self._ready(self._ended):
            ended = self._ray.get(self._ended)
            self.out_of_memory = ended.out_of_memory
            self.returncode = ended.returncode
            _keep_idle(self._options, self._actor)
        elif self._beat is None and (self._signals or now - self._sent > BEAT_SECONDS * min(1.0, lease.SECONDS / 30)):
            own = os.environ.get(lease.VARIABLE)
            seconds = lease.SECONDS * (1 - lease.SAFETY)
            # A job whose own lease is over cannot give any more.
            self._beat = self._actor.beat.remote(self._answered, seconds if own is None else min(seconds, lease.left(own)), self._signals)
            self._sent, self._signals = now, []
        elif now - self._sent > lease.SECONDS:
            self._lost = f"killed by a cut: its node was not heard of for {lease.SECONDS:g} s"

    def _ready(self, reference: Any) -> bool:
        return bool(self._ray.wait([reference], timeout=0)[0])

    def _close(self, returncode: int, reason: str | None = None) -> None:
        self.returncode, self.reason, self._greeting = returncode, reason, None
        with suppress(*ray_cluster.errors_of(self._ray), ValueError):  # the cluster is gone, or another one by now
            self._ray.kill(self._actor)  # its place is free for others


def _describe_loss(error: Exception) -> str:
    return f"killed by the loss of its Ray worker: {ray_cluster.shorten(error)}"


_idle: dict[str, list[Any]] = {}
"""Actors that have nothing to do, by what they take of their node. Starting one takes longer than all that Ray adds otherwise."""
_guard = threading.Lock()


def _take_idle(options: Mapping[str, Any]) -> Any:
    with _guard:
        actors = _idle.get(str(options))
        return actors.pop() if actors else None


def _keep_idle(options: Mapping[str, Any], actor: Any) -> None:
    """Keep an actor for what comes next, but not for long: its place is not only ours."""
    module = connect()

    def release() -> None:
        with _guard:
            unused = actor in _idle.get(str(options), ())
            if unused:
                _idle[str(options)].remove(actor)
        if unused and module.is_initialized():
            module.kill(actor)

    with _guard:
        _idle.setdefault(str(options), []).append(actor)
    timer = threading.Timer(IDLE_SECONDS, release)
    timer.daemon = True
    timer.start()


def forget_idle() -> None:
    """Free the places of all actors that have nothing to do; they belong to a cluster that this process leaves."""
    with _guard:
        _idle.clear()


@dataclass
class RayLaunch(Launch):
    """Cohorts on a Ray cluster."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """What Ray is told about an actor: its CPUs and its share of a GPU."""

    def _start(self, cohort: Cohort) -> None:
        order = Order(
            self.module,
            [str(run) for run in cohort.runs],
            self.resume,
            self.threads,
            _environment(cohort.runs[0]),
            str(Path.cwd()),
            _version(),
            _machine(),
            lock.HOST,
            lease.SECONDS,
        )
        with launcher_status.open_log(cohort.log) as log:
            cohort.log_start = log.tell()
        cohort.process = RemoteProcess(order, self.options)
        self.running.append(cohort)

    def _kill(self, cohort: Cohort) -> None:
        if cohort.process is not None and cohort.process.returncode is None:
            cohort.process.send_signal(signal.SIGKILL)

    def _explain(self, cohort: Cohort, printed: str) -> str:
        process = cohort.process
        assert isinstance(process, RemoteProcess)
        return process.reason or deaths.explain(cohort.returncode or 0, printed, out_of_memory=process.out_of_memory)


def start(
    place: RayPlace,
    cohorts: Sequence[Sequence[Path | str]],
    *,
    parallel: int | None = None,
    resume: bool = False,
    threads: int = 1,
    module: str = local.TRAINING,
    device: str = "cpu",
) -> RayLaunch:
    """Train run folders on a cluster, an actor for each cohort; at most `parallel` at a time (default: as many as it has room for)."""
    gpus = place.gpus if device != "cpu" else 0.0
    with ray_cluster.reached(connect(place)):
        # With the ranks or workers that it starts: a node must have room for all of them.
        cpus = max([threads, *(Run(Path(runs[0])).config.cores for runs in cohorts if runs)])
        _check_room(cpus, gpus)
        room = count_gpus(place) if gpus else max(1, count_cores(place) // cpus)
    options: dict[str, Any] = {"num_cpus": cpus, "num_gpus": gpus, "max_restarts": 0, "max_task_retries": 0, "max_concurrency": 3}
    options["scheduling_strategy"] = "SPREAD"
    launch = RayLaunch(local.queue_cohorts(cohorts), parallel or room, resume, threads, module, options=options)
    launch.poll()
    return launch


def count_cores(place: RayPlace) -> int:
    """CPUs of all nodes."""
    module = connect(place)
    with ray_cluster.reached(module):
        return max(1, int(module.cluster_resources().get("CPU", 0)))


def count_gpus(place: RayPlace) -> int:
    """Cohorts that the GPUs of all nodes take at a time."""
    module = connect(place)
    with ray_cluster.reached(module):
        nodes = [node["Resources"].get("GPU", 0.0) for node in module.nodes() if node["Alive"]]
    return sum(int(gpus / place.gpus + 1e-9) for gpus in nodes)


def _check_room(cpus: int, gpus: float) -> None:
    """UsageError where no node could ever take a cohort, ClusterAway where there is none now: Ray would wait without a word."""
    nodes = [node["Resources"] for node in connect().nodes() if node["Alive"]]
    if any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus for node in nodes):
        return
    if not any(node.get("CPU", 0) for node in nodes):
        # Nobody's settings are wrong: a job of the queue is tried again, and finds the node that is starting.
        raise ray_cluster.ClusterAway(
            "no node of the Ray cluster that takes work is alive.\n  Nothing was started.\n"
            "  See ray status, and try again once a node has joined"
        )
    there = ", ".join(f"{node.get('CPU', 0):g} CPUs and {node.get('GPU', 0):g} GPUs" for node in nodes) or "none"
    raise UsageError(
        f"a cohort takes {cpus} CPUs and {gpus:g} GPUs, and no node of the cluster has that many ({there}).\n"
        "  It would wait forever.\n"
        "  Take fewer threads, ranks or env.workers, device cpu, or a smaller share of a GPU: --on 'ray?gpus=0.25'"
    )


def _environment(run: Path) -> dict[str, str]:
    """What training processes elsewhere get of this environment; no secret is among it."""
    names = trust.names_in(Run(run).config.env)
    trust.check(*names)
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | trust.pass_on(*names)


# ── the cluster ──


def connect(place: RayPlace | None = None) -> Any:
    """The module `ray`, connected: to the cluster that the place names, unless this process is connected already."""
    if place is None or ray_cluster.is_connected():
        return ray_cluster.load()
    forget_idle()
    return ray_cluster.connect(place.address, local.available_cores())
