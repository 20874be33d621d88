"""Kills at random moments: is anything lost, judged otherwise, left running or locked?

A command is started in a session of its own, one of its processes (chosen at random: the command, a launcher, a trainer, a worker) gets
SIGKILL at a random moment, and the same command goes on where it was, until it ends by itself. Then rows and verdicts must be those of
the same command without kills, no process may be left, and every run's lock must be free. `train` trains for real; trials, searches,
studies, jobs and servers have `pretended` trainers, which are killed just as well.
"""

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
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.attack import pretended

KILLS: Final = {"quick": 12, "bar": 220, "stretch": 2_000}
SHARES: Final = {"train": 0.08, "trial": 0.3, "optimize": 0.2, "sensitivity": 0.2, "jobs": 0.1, "serve": 0.07, "mcp": 0.05}
MOST_SECONDS: Final = 240.0
PRETENDS: Final = """
import sys
if any("rlclinic" in word for word in sys.orig_argv):
    from rlclinic.launch import local
    local.start.__kwdefaults__["module"] = "benchmarks.attack.pretended"
"""
SICK: Final = ("CartPole-v1:ppo_zoo", "--set", "algo.learning_rate=0.1")
TRIAL: Final = ("trial", "{group}", "--set", "algo.learning_rate=1e-3", "--yes", "--looks", "2", "--per-look", "4")


@dataclass
class Harm:
    """What kills did."""

    kills: int = 0
    rows: list[str] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    locks: list[str] = field(default_factory=list)


def rows(size: str) -> Iterator[dict[str, Any]]:
    """How often kills did each kind of harm."""
    harm = storm(KILLS[size])
    limits = {"unit": "times", "better": "lower", "bar": 0, "stretch": 0}
    for what in ("rows", "verdicts", "orphans", "locks"):
        for text in getattr(harm, what)[:5]:
            print(f"  {what}: {text}", flush=True)
    yield {"what": f"{harm.kills} kills: runs that lost rows", "value": float(len(harm.rows)), **limits}
    yield {"what": f"{harm.kills} kills: verdicts that changed", "value": float(len(harm.verdicts)), **limits}
    yield {"what": f"{harm.kills} kills: processes left behind", "value": float(len(harm.orphans)), **limits}
    yield {"what": f"{harm.kills} kills: locks that stuck", "value": float(len(harm.locks)), **limits}


def storm(kills: int, seed: int = 0, only: Sequence[str] = tuple(SHARES)) -> Harm:
    """So many kills, spread over what can be killed."""
    harm, chance = Harm(), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="rlclinic-kills-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "pretends").mkdir()
        (folder / "pretends" / "sitecustomize.py").write_text(PRETENDS)
        for target in only:
            wanted = max(1, round(kills * SHARES[target] / sum(SHARES[each] for each in only)))
            began = harm.kills
            work = {"serve": _kill_servers, "mcp": _kill_agents, "jobs": _kill_jobs}.get(target, _kill_commands)
            work(target, folder, wanted, chance, harm)
            print(f"  {target}: {harm.kills - began} kills", flush=True)
    return harm


# ── commands ──


def _kill_commands(target: str, folder: Path, wanted: int, chance: random.Random, harm: Harm) -> None:
    base = folder / f"{target}-base"
    base.mkdir()
    real = target == "train"
    if not real:
        _run(base, folder, ["train", *SICK, "--seeds", "2", "--max-env-steps", "20000", "--no-report"])
    group = "" if real else next((base / "runs" / "@groups").iterdir()).name
    begin, go_on = _commands(target, group)
    plain = _copied(base, folder / f"{target}-plain")
    began = time.monotonic()
    _run(plain, folder, begin, pretend=not real)
    pause = min(max(1.0, 0.5 * (time.monotonic() - began)), 6.0)
    expected = _outcome(plain, target)
    done = number = 0
    while done < wanted:
        store = _copied(base, folder / f"{target}-{number}")
        number += 1
        done += _kill_until_done(store, folder, begin, go_on, pause, min(wanted - done, 10), chance, harm, pretend=not real)
        _compare(f"{target} {number}", expected, _outcome(store, target), harm)
        _look_for_leftovers(f"{target} {number}", store, harm)
        shutil.rmtree(store, ignore_errors=True)


def _commands(target: str, group: str) -> tuple[list[str], list[str]]:
    """The command, and the one that goes on with it after a kill."""
    match target:
        case "train":
            sizes = ["--set", "env.n_envs=4", "--set", "algo.n_steps=32", "--set", "algo.batch_size=64", "--max-env-steps", "12800"]
            return ["train", "CartPole-v1:ppo_zoo", *sizes, "--seeds", "2", "--no-report"], ["train", "--resume", "@last"]
        case "trial":
            return [word.format(group=group) for word in TRIAL], ["trial", "--resume", "@last"]
        case "optimize":
            words = ["optimize", group, "--budget", "600000", "--run-env-steps", "20000", "--yes"]
            return words, ["optimize", "--resume", "@last"]
        case _:
            words = ["sensitivity", group, "--yes", "--seeds", "3", "--only", "learning_rate", "--only", "gamma"]
            return words, ["sensitivity", "--resume", "@last"]


def _kill_until_done(
    store: Path,
    folder: Path,
    begin: list[str],
    go_on: list[str],
    pause: float,
    most: int,
    chance: random.Random,
    harm: Harm,
    *,
    pretend: bool,
) -> int:
    """Start, kill, go on, until it has ended by itself; at most so many kills."""
    kills, began = 0, time.monotonic()
    words = begin
    while time.monotonic() - began < MOST_SECONDS:
        process = _start(store, folder, words, pretend=pretend)
        while process.poll() is None and kills < most:
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0.2, pause))
            victims = _tree(process.pid) if process.poll() is None else []
            # The command itself as often as all that it has started together.
            victims = victims[:1] if chance.random() < 0.5 else victims
            if victims:
                with suppress(ProcessLookupError):
                    os.kill(chance.choice(victims), signal.SIGKILL)
                kills += 1
                harm.kills += 1
        with suppress(subprocess.TimeoutExpired):
            process.wait(MOST_SECONDS)
        if process.returncode == 0 or (process.returncode == 3 and words is go_on):
            return max(kills, 1)
        # Nothing was written down before the kill: there is nothing to go on with.
        words = go_on if _has_begun(store, begin[0]) else begin
    raise RuntimeError(f"{' '.join(begin)} did not end within {MOST_SECONDS:g} s")


def _has_begun(store: Path, command: str) -> bool:
    place = {"train": "@groups", "trial": "@trials"}.get(command, f"@{command}")
    files = {"train": "group.json", "trial": "trial.json"}.get(command, "*.json")
    return any((store / "runs").glob(f"{place}/*/{files}"))


def _outcome(store: Path, target: str) -> dict[str, Any]:
    """Rows by seed and config, and the verdict: what must not depend on kills."""
    from rlclinic.runs.store import Store

    found: dict[str, Any] = {}
    for run in Store(store / "runs").runs():
        table = run.metrics
        if target == "train":
            names = [name for name in table.names if not name.startswith("time")]
            found[f"rows {run.seed}"] = [run.status.state, *([round(float(value), 9) for value in table[name]] for name in names)]
            continue
        # A run is a function of its config and seed: which seeds a study takes depends on what was half made before a kill.
        rows, _ = pretended.compute_rows(run.config, run.seed)
        whole = all(len(table) == len(rows) and np.allclose(table[name], [row[name] for row in rows]) for name in rows[0])
        if run.status.state != "finished" or not whole:
            found[f"rows {run.record.get('label')} {run.seed}"] = f"{run.status.state}, {len(table)} of {len(rows)} rows"
    for file in sorted((store / "runs").glob("@trials/*/trial.json")):
        record = json.loads(file.read_text())
        found["verdict"] = [record["state"], record["verdict"], record["winner"], len(record["looks"]), record["used_env_steps"]]
    for file in sorted((store / "runs").glob("@optimize/*/*.json")):
        record = json.loads(file.read_text())
        if "rounds" in record:
            found["search"] = [record["verdict"], [(each["kind"], each["winner"], each["verdict"]) for each in record["rounds"]]]
    for file in sorted((store / "runs").glob("@sensitivity/*/*.json")):
        record = json.loads(file.read_text())
        if "rows" in record:
            found["study"] = [[row["verdict"], row["effect"], row["lost"]] for row in record["rows"]]
    assert found, f"{target} left nothing behind"
    return found


def _compare(what: str, expected: dict[str, Any], found: dict[str, Any], harm: Harm) -> None:
    for key in sorted({*expected, *found}):
        if json.dumps(expected.get(key)) == json.dumps(found.get(key)):
            continue
        (harm.rows if key.startswith("rows") else harm.verdicts).append(f"{what}: {key}")


def _look_for_leftovers(what: str, store: Path, harm: Harm) -> None:
    from rlclinic.errors import RunError
    from rlclinic.runs.lock import Lock
    from rlclinic.runs.store import Store

    end = time.monotonic() + 10
    while (left := _processes(str(store))) and time.monotonic() < end:
        time.sleep(0.1)
    for pid, words in left:
        harm.orphans.append(f"{what}: {words}")
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for run in Store(store / "runs").runs():
        try:
            Lock(run.path).release()
        except RunError:
            harm.locks.append(f"{what}: {run.id}")


# ── jobs, servers, agents ──


def _kill_jobs(_: str, folder: Path, wanted: int, chance: random.Random, harm: Harm) -> None:
    """The process that does a job is killed; asking for the same start again goes on with it."""
    base = folder / "jobs-base"
    base.mkdir()
    _run(base, folder, ["train", *SICK, "--seeds", "2", "--max-env-steps", "20000", "--no-report"])
    group = next((base / "runs" / "@groups").iterdir()).name
    plain = _copied(base, folder / "jobs-plain")
    _finish_job(plain, folder, group, 0, chance, harm)
    expected = _outcome(plain, "jobs")
    done = 0
    while done < wanted:
        store = _copied(base, folder / f"jobs-{done}")
        done += max(1, _finish_job(store, folder, group, min(3, wanted - done), chance, harm))
        _compare(f"job {done}", expected, _outcome(store, "jobs"), harm)
        _look_for_leftovers(f"job {done}", store, harm)
        shutil.rmtree(store, ignore_errors=True)


ASK: Final = """
import json, sys
from rlclinic.ops.jobs import start
from rlclinic.ops.treat.requests import TrialRequest
asked = dict(targets=[sys.argv[1]], changes=["algo.learning_rate=1e-3"], looks=2, per_look=4)
print(start.start_trial(TrialRequest(**asked), idempotency_key="one").id)
"""
SEE: Final = """
import sys
from rlclinic.ops.jobs import models
from rlclinic.runs.store import Store
job = models.load(Store("runs"), sys.argv[1])
print(job.state, job.pid)
"""


def _finish_job(store: Path, folder: Path, group: str, most: int, chance: random.Random, harm: Harm) -> int:
    kills, began = 0, time.monotonic()
    while time.monotonic() - began < MOST_SECONDS:
        job = _python(store, folder, ASK, group).split()[-1]
        end = time.monotonic() + (chance.uniform(0.2, 4.0) if kills < most else MOST_SECONDS)
        while True:
            state, pid = _python(store, folder, SEE, job).split()
            if state == "finished":
                return kills
            if time.monotonic() > end or state not in ("running", "queued"):
                break
            time.sleep(0.2)
        victims = _tree(int(pid)) if pid != "None" else []
        if victims and kills < most:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(victims), signal.SIGKILL)
            kills += 1
            harm.kills += 1
            time.sleep(0.5)
    raise RuntimeError("a job did not end")


def _kill_servers(_: str, folder: Path, wanted: int, chance: random.Random, harm: Harm) -> None:
    """A server is killed while it answers; the next one over the same store says the same."""
    store = folder / "serve"
    store.mkdir()
    _run(store, folder, ["train", *SICK, "--seeds", "2", "--max-env-steps", "20000", "--no-report"])
    expected = None
    for _round in range(wanted + 1):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        process = _start(store, folder, ["serve", "--port", str(port), "--no-mcp"])
        answer = _get(port, "/api/v1/runs")
        if expected is None:
            expected = answer
        elif _ids(answer) != _ids(expected):
            harm.rows.append("serve: another list of runs")
        end = time.monotonic() + chance.uniform(0, 0.5)
        while time.monotonic() < end:
            with suppress(OSError):
                _get(port, "/api/v1/groups", patience=1.0)
        process.kill()
        process.wait()
        harm.kills += 1
    _look_for_leftovers("serve", store, harm)


def _kill_agents(_: str, folder: Path, wanted: int, chance: random.Random, harm: Harm) -> None:
    """The server that an agent talks to is killed in the middle of its calls; nothing of it stays."""
    store = folder / "mcp"
    store.mkdir()
    _run(store, folder, ["train", *SICK, "--seeds", "2", "--max-env-steps", "20000", "--no-report"])
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    for _round in range(wanted):
        process = _start(store, folder, ["mcp"], stdin=subprocess.PIPE)
        assert process.stdin is not None
        calls = (("initialize", hello), ("tools/call", {"name": "diagnose_run", "arguments": {"run_id": "@last"}}))
        for number, (method, more) in enumerate(calls):
            with suppress(BrokenPipeError):
                process.stdin.write((json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": more}) + "\n").encode())
                process.stdin.flush()
        time.sleep(chance.uniform(0, 4))
        process.kill()
        process.wait()
        process.stdin.close()
        harm.kills += 1
    _look_for_leftovers("mcp", store, harm)


def _ids(answer: Any) -> list[str]:
    return re.findall(r'"id": "([^"]+)"', json.dumps(answer))


def _get(port: int, path: str, patience: float = 60.0) -> Any:
    end = time.monotonic() + patience
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return json.load(answer)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


# ── processes ──


def _environment(store: Path, folder: Path, *, pretend: bool = True) -> dict[str, str]:
    here = str(Path(__file__).resolve().parents[2])
    path = [str(folder / "pretends"), here] if pretend else [here]
    # The working folder is in every process's environment: that is how those of a store are found again.
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1", "RLCLINIC_KILLED_STORE": str(store)}


def _start(
    store: Path, folder: Path, words: Sequence[str], *, pretend: bool = True, stdin: int = subprocess.DEVNULL
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "rlclinic", *words],
        cwd=store,
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=_environment(store, folder, pretend=pretend),
        start_new_session=True,
    )


def _run(store: Path, folder: Path, words: Sequence[str], *, pretend: bool = True) -> None:
    command = [sys.executable, "-m", "rlclinic", *words]
    done = subprocess.run(command, cwd=store, capture_output=True, text=True, env=_environment(store, folder, pretend=pretend), check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr[-600:]}")


def _python(store: Path, folder: Path, code: str, *words: str) -> str:
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, cwd=store, capture_output=True, text=True, env=_environment(store, folder), check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-600:])
    return done.stdout


def _copied(base: Path, place: Path) -> Path:
    shutil.copytree(base, place, symlinks=True)
    return place


def _tree(pid: int) -> list[int]:
    """A process and everything below it."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                parents.setdefault(int((folder / "stat").read_text().rpartition(")")[2].split()[1]), []).append(int(folder.name))
    found, waiting = [], [pid] if Path(f"/proc/{pid}").exists() else []
    while waiting:
        found.append(waiting.pop())
        waiting += parents.get(found[-1], [])
    return found


def _processes(store: str) -> list[tuple[int, str]]:
    """Processes that were started for a store and have not ended."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with suppress(OSError):
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z" and f"RLCLINIC_KILLED_STORE={store}\0".encode() in (folder / "environ").read_bytes():
                    found.append((int(folder.name), (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:160]))
    return found
