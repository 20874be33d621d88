"""Kills at random moments: is anything lost, judged otherwise, left running or locked?

A case starts a command, a job, a server or an agent's server in a store of its own. One of its processes (chosen at random: the command,
a launcher, a trainer, a worker) gets SIGKILL at a random moment, some are paused by SIGSTOP instead or see their clock jump by up to ten
years, and the same thing goes on where it was, until it ends by itself. Then rows and verdicts must be those of the same command that
nobody disturbed, no process may be left, and every run's lock must be free. `train` trains for real, and its rows and weights must be the
same to the byte. Cases of `full_disk` do the same with a training or a trial in a small file system: it is filled again and again, what
runs there is killed while nothing can be written, it is asked to go on while there is no room, and at last there is. Trials, searches,
studies, jobs and servers have `pretended` trainers, which are killed just as well. Cases run side by side (`--workers`), two cores each.
"""

import hashlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.attack import pretended

KILLS: Final = {"quick": 12, "bar": 300, "stretch": 2_000}
SHARES: Final = {
    "train": 0.15,
    "train_dqn": 0.05,
    "full_disk": 0.05,
    "full_disk_trial": 0.05,
    "trial": 0.15,
    "optimize": 0.15,
    "sensitivity": 0.15,
    "jobs": 0.1,
    "serve": 0.1,
    "mcp": 0.05,
}
PAUSES: Final = 0.2
"""Share of the blows that stop a process for a while instead of killing it."""
JUMPS: Final = 0.1
"""Share of the blows that let the clock of every process of a store jump instead."""
JUMP_SECONDS: Final = (60.0, 3_600.0, 86_400.0, 10 * 365 * 86_400.0)
CLOCK: Final = "clock"
"""The file of a store that says how far its clock is off."""
MOST_SECONDS: Final = 150.0
SLOWEST: Final = 8.0
"""A case may take so many times as long as it does undisturbed, where the machine is busy with others."""
GRACE_SECONDS: Final = 120.0
NOTHING_LEFT: Final = (2, 3)
"""How a command ends that is asked to go on with something that has finished: it was killed while it reported."""
DISK: Final = "4m"
JUMPING: Final = """
import os, time
def _jump(now=time.time):
    try:
        with open(os.environ["RLCLINIC_KILLED_STORE"] + "/clock") as file:
            return now() + float(file.read() or 0)
    except (OSError, KeyError, ValueError):
        return now()
time.time = _jump
"""
PRETENDS: Final = """
import sys
if any("rlclinic" in word for word in sys.orig_argv):
    from rlclinic.launch import local
    local.start.__kwdefaults__["module"] = "benchmarks.attack.pretended"
"""
SICK: Final = ("CartPole-v1:ppo_zoo", "--set", "algo.learning_rate=0.1")
TRIAL: Final = {"targets": ["{group}"], "changes": ["algo.learning_rate=1e-3"], "looks": 2, "per_look": 4}
COMMANDS: Final = {
    "train": (
        *("train", "CartPole-v1:ppo_zoo", "--seeds", "2", "--no-report", "--max-env-steps", "25600", "--set", "env.n_envs=4"),
        *("--set", "algo.n_steps=32", "--set", "algo.batch_size=64", "--set", "algo.n_epochs=2", "--set", "net.hidden=[16]"),
        *("--set", "run.eval_every_env_steps=1024", "--set", "run.checkpoint_every_env_steps=512"),
    ),
    "train_dqn": (
        *("train", "CartPole-v1:dqn", "--seeds", "2", "--no-report", "--max-env-steps", "8000", "--set", "net.hidden=[16]"),
        *("--set", "run.eval_every_env_steps=1000", "--set", "run.checkpoint_every_env_steps=500"),
    ),
    "trial": ("trial", "{group}", "--set", "algo.learning_rate=1e-3", "--yes", "--looks", "2", "--per-look", "4"),
    "optimize": ("optimize", "{group}", "--budget", "600000", "--run-env-steps", "20000", "--yes"),
    "sensitivity": ("sensitivity", "{group}", "--yes", "--seeds", "3", "--only", "learning_rate", "--only", "gamma"),
}
DISKS: Final = {"full_disk": "train", "full_disk_trial": "trial"}
"""Which command is disturbed by a disk that is full."""
HARMS: Final = {
    "rows": "runs that lost rows",
    "verdicts": "verdicts that changed",
    "orphans": "processes left behind",
    "locks": "locks that stuck",
    "unfinished": "that did not go on to their end",
}


@dataclass
class Harm:
    """What the blows did, and what they hit. Threads append to it; each list is one kind of harm."""

    kills: Counter[str] = field(default_factory=Counter)
    pauses: Counter[str] = field(default_factory=Counter)
    filled: int = 0
    full_kills: int = 0
    """Kills of a training whose disk was full at that moment."""
    jumps: Counter[str] = field(default_factory=Counter)
    rows: list[str] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    locks: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)

    def add(self, kind: str, case: "Case", what: str) -> None:
        """Note a harm of a case, and say it at once."""
        getattr(self, kind).append(f"{case.name}: {what}")
        case.harms += 1
        print(f"  {case.name}: {kind}: {what}", flush=True)


@dataclass
class Case:
    """One store that is disturbed, and by what."""

    target: str
    number: int
    folder: Path
    store: Path
    ready: "Ready"
    chance: random.Random
    harm: Harm
    end: float
    """On the clock of `time.monotonic`: whoever has not gone on to its end by then does not."""
    cut_off: bool
    """The end is that of the whole storm: what is still under way then is not counted."""
    blows: list[str] = field(default_factory=list)
    kills: int = 0
    harms: int = 0
    """Of this case alone: others run beside it."""

    @property
    def left(self) -> float:
        return max(0.0, self.end - time.monotonic())

    @property
    def name(self) -> str:
        return f"{self.target} {self.number}"


@dataclass(frozen=True)
class Ready:
    """What the cases of a target begin from, what they must end with, and how long that takes undisturbed."""

    base: Path
    expected: dict[str, Any]
    seconds: float
    group: str = ""


def rows(size: str, workers: int = 2, seconds: float = 1e9, seed: int = 0) -> Iterator[dict[str, Any]]:
    """How often kills did each kind of harm."""
    harm = storm(KILLS[size], seed, workers=workers, seconds=seconds)
    limits = {"unit": "times", "better": "lower", "bar": 0, "stretch": 0}
    kills = sum(harm.kills.values())
    what = ", ".join(f"{name} {count}" for name, count in sorted(harm.kills.items()))
    beside = f"{sum(harm.pauses.values())} paused, {sum(harm.jumps.values())} jumps of the clock, disks filled {harm.filled} times beside"
    note = f"{what}; {harm.full_kills} of them while the disk was full; {beside}; seed {seed}, {workers} cases at a time"
    for kind, text in HARMS.items():
        yield {"what": f"kills at random moments: {text}", "value": float(len(getattr(harm, kind))), **limits, "note": note}
    yield {"what": "kills at random moments", "value": float(kills), "unit": "kills", "better": "higher", "bar": 200, "stretch": 2_000}


def storm(kills: int, seed: int = 0, only: Sequence[str] = tuple(SHARES), workers: int = 2, seconds: float = 1e9) -> Harm:
    """So many kills, spread over what can be killed; no case begins after `seconds`, and none lasts much longer."""
    harm, began, choosing = Harm(), time.monotonic(), threading.Lock()
    given: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="rlclinic-kills-", ignore_cleanup_errors=True) as name, ThreadPoolExecutor(workers) as pool:
        folder = Path(name)
        (folder / "pretends").mkdir()
        (folder / "pretends" / "sitecustomize.py").write_text(JUMPING + PRETENDS)
        (folder / "clocks").mkdir()
        (folder / "clocks" / "sitecustomize.py").write_text(JUMPING)
        (folder / "base").mkdir()
        base = folder / "base"
        run(base, folder, ["train", *SICK, "--seeds", "2", "--max-env-steps", "20000", "--no-report"])
        can_mount = any(target in DISKS for target in only) and _can_mount(folder)
        targets = [target for target in only if target not in DISKS or can_mount]
        ready = dict(zip(targets, pool.map(lambda target: _prepare(target, base, folder), targets), strict=True))
        print(f"  undisturbed after {time.monotonic() - began:.0f} s", flush=True)

        def choose() -> tuple[str, int] | None:
            """The target that is furthest behind its share."""
            with choosing:
                done = sum(harm.kills.values())
                if done >= kills or time.monotonic() - began > seconds:
                    return None
                whole = sum(SHARES[each] for each in targets)
                # What is under way will kill about twice.
                target = min(targets, key=lambda each: max(harm.kills[each], 2 * given[each]) / (SHARES[each] / whole))
                given[target] += 1
                return target, given[target]

        def work(worker: int) -> None:
            if hasattr(os, "sched_setaffinity"):
                # Of this thread and of all that it starts: a command takes the cores that it sees.
                cores = sorted(os.sched_getaffinity(0))
                os.sched_setaffinity(0, {cores[worker % len(cores)], cores[(worker + 1) % len(cores)]})
            while (chosen := choose()) is not None:
                target, number = chosen
                chance = random.Random(f"{seed} {target} {number}")
                place, last = folder / f"{target}-{number}", began + seconds + GRACE_SECONDS
                end = min(time.monotonic() + max(MOST_SECONDS, SLOWEST * ready[target].seconds), last)
                _carry_out(Case(target, number, folder, place, ready[target], chance, harm, end, cut_off=end == last))

        for future in [pool.submit(work, worker) for worker in range(workers)]:
            future.result()
        for target in targets:
            print(f"  {target}: {harm.kills[target]} kills, {harm.pauses[target]} pauses in {given[target]} cases", flush=True)
    return harm


def _prepare(target: str, base: Path, folder: Path) -> Ready:
    group = "" if DISKS.get(target, target).startswith("train") else next((base / "runs" / "@groups").iterdir()).name
    plain = folder / f"{target}-plain"
    began = time.monotonic()
    if group:
        shutil.copytree(base, plain, symlinks=True)
    else:
        plain.mkdir()
    if target in ("jobs", "serve", "mcp"):
        _finish_job(plain, _ask_in_python(plain, folder, group), 4 * MOST_SECONDS)
    else:
        run(plain, folder, _command(target, group), pretend=bool(group))
    ready = Ready(base if group else folder, _outcome(plain, target), time.monotonic() - began, group)
    shutil.rmtree(plain)
    return ready


def _carry_out(case: Case) -> None:
    began = time.monotonic()
    with _place(case):
        if case.ready.group:
            shutil.copytree(case.ready.base / "runs", case.store / "runs", symlinks=True)
        work: Callable[[Case], None]
        work = {"serve": _kill_server, "mcp": _kill_agent, "jobs": _kill_job, **dict.fromkeys(DISKS, _fill_disk)}.get(
            case.target, _kill_command
        )
        try:
            work(case)
        except (RuntimeError, OSError, ValueError, subprocess.TimeoutExpired) as error:
            if case.cut_off and not case.left:
                case.harm.kills[case.target] -= case.kills
                print(f"  {case.name} was under way at the end: not counted", flush=True)
                for pid, _ in processes(str(case.store)):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                return
            case.harm.add("unfinished", case, str(error))
        else:
            _compare(case)
        _look_for_leftovers(case)
        print(f"  {case.name}: {time.monotonic() - began:.0f} s, {len(case.blows)} notes", flush=True)
        if case.harms:
            print(f"  {case.name} was harmed by {'; '.join(case.blows)}", flush=True)
            if keep := os.environ.get("RLCLINIC_KEEP_HARMED"):
                shutil.make_archive(f"{keep}/{case.target}-{case.number}", "gztar", case.store)


@contextmanager
def _place(case: Case) -> Iterator[None]:
    """The store's folder; for a disk that is to be full, a file system of its own."""
    case.store.mkdir()
    mounted = case.target in DISKS and _mount(case.store)
    try:
        yield
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(case.store)], check=False)
        shutil.rmtree(case.store, ignore_errors=True)


# ── what must not depend on kills ──


def _outcome(store: Path, target: str) -> dict[str, Any]:
    """Rows by seed and config, weights, and the verdict."""
    from rlclinic.runs.store import Store

    outcome: dict[str, Any] = {}
    for run in Store(store / "runs").runs():
        if DISKS.get(target, target).startswith("train"):
            lines = [line.split(",") for line in (run.path / "metrics.csv").read_text().splitlines()] or [["nothing"]]
            kept = [place for place, name in enumerate(lines[0]) if not name.startswith("time")]
            outcome[f"rows {run.seed}"] = [run.status.state, *(",".join(line[place] for place in kept) for line in lines)]
            last = run.checkpoint("@last").path
            outcome[f"rows {run.seed}, weights"] = [_hash(last / f"{name}.safetensors") for name in ("policy", "optimizer", "loop")]
            continue
        # A run is a function of its config and seed: which seeds a study takes depends on what was half made before a kill.
        rows, _ = pretended.compute_rows(run.config, run.seed)
        table = run.metrics
        whole = all(len(table) == len(rows) and np.allclose(table[name], [row[name] for row in rows]) for name in rows[0])
        if run.status.state != "finished" or not whole:
            outcome[f"rows {run.record.get('label')} {run.seed}"] = f"{run.status.state}, {len(table)} of {len(rows)} rows"
    for file in sorted((store / "runs").glob("@trials/*/trial.json")):
        record = json.loads(file.read_text())
        outcome["verdict"] = [record["state"], record["verdict"], record["winner"], len(record["looks"]), record["used_env_steps"]]
        # Asked twice by mistake would be judged twice.
        outcome["trials"] = outcome.get("trials", 0) + 1
    for file in sorted((store / "runs").glob("@optimize/*/*.json")):
        record = json.loads(file.read_text())
        if "rounds" in record:
            outcome["search"] = [record["verdict"], [(each["kind"], each["winner"], each["verdict"]) for each in record["rounds"]]]
    for file in sorted((store / "runs").glob("@sensitivity/*/*.json")):
        record = json.loads(file.read_text())
        if "rows" in record:
            outcome["study"] = [[row["verdict"], row["effect"], row["lost"]] for row in record["rows"]]
    if not outcome:
        raise RuntimeError(f"{target} left nothing behind")
    return outcome


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "none"


def _compare(case: Case) -> None:
    from rlclinic.errors import RlclinicError

    expected = case.ready.expected
    try:
        outcome = _outcome(case.store, case.target)
    except (OSError, ValueError, RuntimeError, RlclinicError) as error:
        outcome = {"rows": str(error)}
    for key in sorted({*expected, *outcome}):
        wanted, got = json.dumps(expected.get(key)), json.dumps(outcome.get(key))
        if wanted != got:
            case.harm.add("rows" if key.startswith("rows") else "verdicts", case, f"{key}: {wanted[:300]} became {got[:300]}")


def _look_for_leftovers(case: Case) -> None:
    from rlclinic.errors import RunError
    from rlclinic.runs.lock import Lock
    from rlclinic.runs.store import Store

    end = time.monotonic() + 10
    while (left := processes(str(case.store))) and time.monotonic() < end:
        time.sleep(0.1)
    for pid, words in left:
        case.harm.add("orphans", case, words)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for run in Store(case.store / "runs").runs():
        try:
            Lock(run.path).release()
        except RunError:
            case.harm.add("locks", case, run.id)


# ── blows ──


def _strike(case: Case, victims: list[int], began: float) -> bool:
    """Kill or pause one of these processes; whether it was killed."""
    victim = case.chance.choice(victims)
    words = _words(victim)
    if case.chance.random() < PAUSES:
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGSTOP)
            time.sleep(case.chance.uniform(0.3, 2.0))
            os.kill(victim, signal.SIGCONT)
        case.blows.append(f"{time.monotonic() - began:.1f} s: paused {words}")
        case.harm.pauses[case.target] += 1
        return False
    if case.chance.random() < JUMPS / (1 - PAUSES):
        jump = case.chance.choice(JUMP_SECONDS) * case.chance.choice((-1, 1))
        with suppress(OSError):
            (case.store / CLOCK).write_text(str(jump))
        case.blows.append(f"{time.monotonic() - began:.1f} s: the clock is off by {jump:g} s")
        case.harm.jumps[case.target] += 1
        return False
    with suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)
    case.blows.append(f"{time.monotonic() - began:.1f} s: killed {words}")
    case.harm.kills[case.target] += 1
    case.kills += 1
    return True


# ── commands ──


def _command(target: str, group: str) -> list[str]:
    words = COMMANDS[DISKS.get(target, target)]
    return [word.replace("{group}", group) for word in words]


def _kill_command(case: Case) -> None:
    """Start, kill, go on, until it has ended by itself."""
    begin = _command(case.target, case.ready.group)
    go_on = [begin[0], "--resume", "@last"]
    kills, most, began = 0, case.chance.randint(1, 6), time.monotonic()
    words = begin
    while case.left:
        process = start(case.store, case.folder, words, pretend=bool(case.ready.group))
        pause = max(1.0, min(case.ready.seconds * (0.9 if words is begin else 0.6), 0.25 * MOST_SECONDS / most))
        while process.poll() is None and kills < most:
            with suppress(subprocess.TimeoutExpired):
                process.wait(case.chance.uniform(0.2, pause))
            victims = _tree(process.pid) if process.poll() is None else []
            if victims:
                # The command itself as often as all that it has started together.
                kills += _strike(case, victims[:1] if case.chance.random() < 0.5 else victims, began)
        with suppress(subprocess.TimeoutExpired):
            process.wait(case.left)
        if process.poll() is None:
            process.kill()
            process.wait()
            break
        case.blows.append(f"{' '.join(words[:3])} ended with {process.returncode}")
        if process.returncode == 0 or (words is go_on and process.returncode in NOTHING_LEFT and _has_finished(case.store)):
            return
        # Nothing was written down before the kill: there is nothing to go on with.
        words = go_on if _has_begun(case.store, begin[0]) else begin
    raise RuntimeError(f"{' '.join(begin)} did not end in time")


def _has_finished(store: Path) -> bool:
    from rlclinic.runs.store import Store

    return all(run.status.state == "finished" for run in Store(store / "runs").runs())


def _has_begun(store: Path, command: str) -> bool:
    place = {"train": "@groups", "trial": "@trials"}.get(command, f"@{command}")
    files = {"train": "group.json", "trial": "trial.json"}.get(command, "*.json")
    return any((store / "runs").glob(f"{place}/*/{files}"))


def _fill_disk(case: Case) -> None:
    """A training or a trial whose disk is full at random moments: killed then, asked to go on while there is no room, and once there is."""
    begin = _command(case.target, case.ready.group)
    go_on = [begin[0], "--resume", "@last"]
    kills, most, began = 0, case.chance.randint(2, 6), time.monotonic()
    words = begin
    while case.left:
        process = start(case.store, case.folder, words, pretend=bool(case.ready.group))
        if kills < most:
            with suppress(subprocess.TimeoutExpired):
                process.wait(case.chance.uniform(0.5, max(2.0, min(0.9 * case.ready.seconds, 0.25 * MOST_SECONDS / most))))
            kills += _strike_when_full(case, process, began)
            for _ in range(case.chance.randint(0, 2)):
                # Nothing can be written: it may end at once, and must lose nothing.
                words = go_on if _has_begun(case.store, begin[0]) else begin
                process = start(case.store, case.folder, words, pretend=bool(case.ready.group))
                with suppress(subprocess.TimeoutExpired):
                    process.wait(case.chance.uniform(0.2, 4.0))
                kills += _strike_when_full(case, process, began)
            (case.store / "ballast").unlink(missing_ok=True)
        with suppress(subprocess.TimeoutExpired):
            process.wait(case.left)
        if process.poll() is None:
            process.kill()
            process.wait()
            break
        case.blows.append(f"{' '.join(words[:3])} ended with {process.returncode}")
        if process.returncode == 0 or (words is go_on and process.returncode in NOTHING_LEFT and _has_finished(case.store)):
            return
        words = go_on if _has_begun(case.store, begin[0]) else begin
    raise RuntimeError(f"{' '.join(begin)} did not end in time after its disk was full")


def _strike_when_full(case: Case, process: "subprocess.Popen[bytes]", began: float) -> bool:
    """Take all room that is left, and strike a moment later; whether something was killed while nothing could be written."""
    killed = False
    if process.poll() is None:
        with suppress(OSError), (case.store / "ballast").open("ab") as out:
            while out.tell() < 64 << 20:
                out.write(bytes(case.chance.choice((1, 511, 4096, 65536))))
                out.flush()
        case.harm.filled += 1
        case.blows.append(f"{time.monotonic() - began:.1f} s: no room")
        with suppress(subprocess.TimeoutExpired):
            process.wait(case.chance.uniform(0.0, 0.3))
        victims = _tree(process.pid) if process.poll() is None else []
        if victims:
            killed = _strike(case, victims[:1] if case.chance.random() < 0.5 else victims, began)
            case.harm.full_kills += killed
    with suppress(subprocess.TimeoutExpired):
        # What is left of it fails at its next write; what only waits is ended.
        process.wait(min(20.0, case.left))
    if process.poll() is None:
        process.kill()
        process.wait()
        case.harm.kills[case.target] += 1
        case.kills += 1
        case.harm.full_kills += 1
        case.blows.append(f"{time.monotonic() - began:.1f} s: killed what waited")
        killed = True
    return killed


def _can_mount(folder: Path) -> bool:
    place = folder / "mounted"
    place.mkdir()
    mounted = _mount(place)
    # Where the size is not kept to, nothing would ever be full.
    possible = mounted and shutil.disk_usage(place).total < 8 << 20
    if mounted:
        subprocess.run(["umount", str(place)], check=False)
    if not possible:
        print("  full_disk: left out, since no file system can be made here (root, or `unshare -Urm` around the command)", flush=True)
    return possible


def _mount(place: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=755", "none", str(place)]
    return shutil.which("mount") is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0


# ── jobs, servers, agents ──


ASK: Final = """
import json, sys
from rlclinic.ops.jobs import start
from rlclinic.ops.treat.requests import TrialRequest
print(start.start_trial(TrialRequest(**json.loads(sys.argv[1])), idempotency_key="one").id)
"""


def _kill_job(case: Case) -> None:
    """The process that does a job is killed; asking for the same start again goes on with it."""
    kills, most, began = 0, case.chance.randint(1, 6), time.monotonic()
    while case.left:
        job = _ask_in_python(case.store, case.folder, case.ready.group)
        if kills >= most:
            _finish_job(case.store, job, case.left)
            return
        # Where the machine was busier before, the job would end first.
        end = time.monotonic() + case.chance.uniform(0.0, min(0.4 * case.ready.seconds, 8.0))
        state, pid = _see_job(case.store, job)
        while state in ("starting", "queued", "running") and time.monotonic() < end:
            time.sleep(0.1)
            state, pid = _see_job(case.store, job)
        if state == "finished":
            return
        if pid is not None and (victims := _tree(pid)):
            kills += _strike(case, victims, began)
            _end_of_job(case.store, job, 3.0)
    raise RuntimeError("a job did not end")


def _ask_in_python(store: Path, folder: Path, group: str) -> str:
    command = [sys.executable, "-c", ASK, _trial(group)]
    done = subprocess.run(command, cwd=store, capture_output=True, text=True, env=_environment(store, folder), check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-600:])
    return done.stdout.split()[-1]


def _trial(group: str) -> str:
    return json.dumps(TRIAL).replace("{group}", group)


def _see_job(store: Path, job: str) -> tuple[str, int | None]:
    from rlclinic.ops.jobs import models
    from rlclinic.runs.store import Store

    found = models.load(Store(store / "runs"), job)
    return ("gone", None) if found is None else (found.state, found.pid)


def _end_of_job(store: Path, job: str, seconds: float) -> str:
    """How a job stands once it has ended, or after so many seconds."""
    end = time.monotonic() + seconds
    while (state := _see_job(store, job)[0]) in ("starting", "queued", "running") and time.monotonic() < end:
        time.sleep(0.1)
    return state


def _finish_job(store: Path, job: str, seconds: float) -> None:
    state = _end_of_job(store, job, seconds)
    if state != "finished":
        raise RuntimeError(f"job {job} is {state}")


def _kill_server(case: Case) -> None:
    """A server is killed while it starts a trial and answers; the next one over the same store says the same, and goes on with it."""
    expected, began = None, time.monotonic()
    most = case.chance.randint(1, 3)
    for kills in range(most + 1):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        process = start(case.store, case.folder, ["serve", "--port", str(port), "--no-mcp"])
        try:
            ids = sorted(id for id in re.findall(r'"id": "([^"]+)"', json.dumps(get(port, "/api/v1/runs"))) if case.ready.group in id)
            expected = expected or ids
            if ids != expected:
                case.harm.add("rows", case, "another list of runs")
            starting = threading.Thread(target=_post, args=(port, "/api/v1/trials", _trial(case.ready.group)))
            starting.start()
            if kills == most:
                starting.join()
                break
            time.sleep(case.chance.uniform(0, 1.5))
            with suppress(OSError):
                get(port, "/api/v1/groups", patience=0.0)
        finally:
            if process.poll() is None:
                case.harm.kills[case.target] += kills < most
                case.kills += kills < most
                case.blows.append(f"{time.monotonic() - began:.1f} s: killed the server")
                process.kill()
            process.wait()
        starting.join()
    _finish_job(case.store, _only_job(case.store), case.left)


def _only_job(store: Path) -> str:
    from rlclinic.ops.jobs import models
    from rlclinic.runs.store import Store

    jobs = [job for job in models.everything(Store(store / "runs")) if job.key == "one"]
    if len(jobs) != 1:
        raise RuntimeError(f"one start became {len(jobs)} jobs")
    return jobs[0].id


def _kill_agent(case: Case) -> None:
    """The server that an agent talks to is killed in the middle of its calls; the same call to the next one goes on with the trial."""
    began, most = time.monotonic(), case.chance.randint(1, 3)
    run(case.store, case.folder, ["agents", "budget", "--env-steps", "100000000"])
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    asked = {"run_id": case.ready.group, "changes": TRIAL["changes"], "looks": 2, "per_look": 4, "idempotency_key": "one"}
    calls = (
        {"id": 0, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/call", "params": {"name": "diagnose_run", "arguments": {"run_id": "@last"}}},
        {"id": 2, "method": "tools/call", "params": {"name": "start_trial", "arguments": asked}},
    )
    for kills in range(most + 1):
        process = start(case.store, case.folder, ["mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for call in calls:
                process.stdin.write((json.dumps({"jsonrpc": "2.0", **call}) + "\n").encode())
                process.stdin.flush()
            if kills == most:
                answers = [json.loads(process.stdout.readline()) for _ in range(3)]
                last = next(answer for answer in answers if answer.get("id") == 2)
                if last.get("error") or last["result"].get("isError"):
                    raise RuntimeError(f"start_trial: {json.dumps(last)[:400]}")
                break
            time.sleep(case.chance.uniform(0, 2.5 * min(case.ready.seconds, 3.0)))
            case.harm.kills[case.target] += 1
            case.kills += 1
            case.blows.append(f"{time.monotonic() - began:.1f} s: killed the agent's server")
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
    _finish_job(case.store, _only_job(case.store), case.left)


def get(port: int, path: str, patience: float = 60.0) -> Any:
    end = time.monotonic() + patience
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return json.load(answer)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def _post(port: int, path: str, body: str) -> None:
    headers = {"Content-Type": "application/json", "Idempotency-Key": "one", "Origin": f"http://127.0.0.1:{port}"}
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body.encode(), headers, method="POST")
    # The server dies while it answers.
    with suppress(OSError, ValueError), urllib.request.urlopen(asked, timeout=60) as answer:
        answer.read()


# ── processes ──


def _environment(store: Path, folder: Path, *, pretend: bool = True) -> dict[str, str]:
    here = str(Path(__file__).resolve().parents[2])
    path = [str(folder / ("pretends" if pretend else "clocks")), here, os.environ.get("PYTHONPATH", "")]
    # The working folder is in every process's environment: that is how those of a store are found again.
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1", "RLCLINIC_KILLED_STORE": str(store)}


def start(
    store: Path,
    folder: Path,
    words: Sequence[str],
    *,
    pretend: bool = True,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "rlclinic", *words],
        cwd=store,
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env=_environment(store, folder, pretend=pretend),
        start_new_session=True,
    )


def run(store: Path, folder: Path, words: Sequence[str], *, pretend: bool = True) -> None:
    command = [sys.executable, "-m", "rlclinic", *words]
    done = subprocess.run(command, cwd=store, capture_output=True, text=True, env=_environment(store, folder, pretend=pretend), check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr[-600:]}")


def _tree(pid: int) -> list[int]:
    """A process and everything below it."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                parents.setdefault(int((folder / "stat").read_text().rpartition(")")[2].split()[1]), []).append(int(folder.name))
    members, waiting = [], [pid] if Path(f"/proc/{pid}").exists() else []
    while waiting:
        members.append(waiting.pop())
        waiting += parents.get(members[-1], [])
    return members


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:160]
    except OSError:
        return "a process that had ended"


def processes(store: str) -> list[tuple[int, str]]:
    """Processes that were started for a store and have not ended."""
    living = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with suppress(OSError):
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z" and f"RLCLINIC_KILLED_STORE={store}\0".encode() in (folder / "environ").read_bytes():
                    living.append((int(folder.name), _words(int(folder.name))))
    return living
