"""How many times as fast several ranks are as one process, and where the seconds of an iteration go.

    python -m benchmarks.data_parallel.speed TASK RANKS ROWS [key=value ...]      one run; prints its figures as JSON

A run of a million env steps is begun and stopped after some rows: sentinels, testimony of ranks, rows and checkpoints come as often as in
the whole of it. Its speed is env steps by the wall clock between two rows, whatever was done there; one thread a process, no evaluation.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import rlclinic
from benchmarks import provenance
from rlclinic.runs.store import Store

LARGE = {
    "env.n_envs": 32,
    "algo.n_steps": 128,
    "algo.batch_size": 2048,
    "algo.n_epochs": 4,
    "net.hidden": "[384,384]",
    "run.max_env_steps": 1_000_000,
    "run.eval_every_env_steps": 50_000,  # a checkpoint as often
    "run.eval_episodes": 0,
    "run.threads": 1,
    "run.engine": "eager",
}
"""Two networks of 384 x 384 units: 300k weights and more."""
OTHERS = 0.05
"""Of the cores, what others may take during a measurement; a virtual machine with nothing else to do takes nearly 4 % for itself."""
FIRST_ROWS = 3
"""That are not counted: memory is touched for the first time, kernels are chosen."""


def train(task: str, world: int, rows: int, changes: dict[str, Any], folder: str) -> dict[str, Any]:
    """Env steps per second of a run that is stopped after so many rows, its weights, and seconds of an iteration by part."""
    settings = LARGE | {"run.data_parallel": world, "run.allow_slower": world > 1} | changes

    def stop(row: dict[str, Any]) -> bool:
        return row["epoch"] < rows

    group = rlclinic.train(task, callback=stop, overrides=[f"{key}={value}" for key, value in settings.items()], runs_dir=folder)
    (run,) = group.runs
    metrics = Store(folder).run(run.id).metrics
    steps, seconds = (metrics[name][FIRST_ROWS:] for name in ("total_timesteps", "time"))
    parts = {
        name.removeprefix("time/"): float(np.nanmean(metrics[name][FIRST_ROWS:]))
        for name in metrics.names
        if name.startswith("time/") and "ratio" not in name and name not in ("time/fps", "time/ranks_slowest")
    }
    policy = run.checkpoint("@last").path / "policy.safetensors"
    return {
        "env_steps_per_second": float((steps[-1] - steps[0]) / (seconds[-1] - seconds[0])),
        "weights": policy.stat().st_size // 4,
        "seconds": {name: round(each, 5) for name, each in parts.items()},
    }


def measure(task: str, world: int, rows: int, changes: list[str]) -> dict[str, Any]:
    """The same in a process of its own, with the share of this machine's cores that others took meanwhile."""
    began, used = time.monotonic(), read_busy() - read_own()
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "benchmarks.data_parallel.speed", task, str(world), str(rows), *changes]
        done = subprocess.run(
            command, capture_output=True, text=True, env=provenance.child_environment(TMPDIR=scratch), cwd=provenance.ROOT, check=False
        )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    others = (read_busy() - read_own() - used) / (time.monotonic() - began) / len(os.sched_getaffinity(0))
    return found | {"others": max(others, 0.0)}


def read_busy() -> float:
    """Seconds of all cores so far that they were not idle."""
    cells = [int(cell) for cell in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(cells) - cells[3] - cells[4]) / os.sysconf("SC_CLK_TCK")


def read_own() -> float:
    """Seconds of processor time of this process and of those of its children that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def compare(task: str, world: int, pairs: int, rows: int, command: str, changes: list[str]) -> Iterator[dict[str, Any]]:
    """How many times as fast as one process, in pairs whose order changes: the row after each pair that counts.

    One process leaves cores for whatever else the machine does, and ranks do not: a pair during which others took more than OTHERS of the
    cores says nothing about either. It is told, and not counted.
    """
    ratios: list[float] = []
    disturbed: list[float] = []
    number = 0
    batch = next((change.partition("=")[2] for change in changes if change.startswith("algo.batch_size=")), LARGE["algo.batch_size"])
    while len(ratios) < pairs and number < 3 * pairs:
        order = (1, world) if number % 2 else (world, 1)
        number += 1
        found = {ranks: measure(task, ranks, rows, changes) for ranks in order}
        speeds = [found[ranks]["env_steps_per_second"] for ranks in (1, world)]
        ratio, others = speeds[1] / speeds[0], max(each["others"] for each in found.values())
        print(
            f"{task}: {speeds[0]:,.0f} env steps/s with one process, {speeds[1]:,.0f} with {world}: {ratio:.2f}x; others {others:.1%}\n"
            f"  {found[1]['seconds']}\n  {found[world]['seconds']}",
            file=sys.stderr,
            flush=True,
        )
        if others > OTHERS:
            disturbed.append(ratio)
            continue
        ratios.append(ratio)
        weights = found[1]["weights"]
        yield {
            "what": f"{task}, {world} ranks over one process with one thread, {weights // 1000}k weights, minibatches of {batch}",
            "note": f"{min(ratios):.2f}-{max(ratios):.2f} over {len(ratios)} pairs, in turn; not counted (others took over {OTHERS:.0%} of "
            f"the cores): {', '.join(f'{each:.2f}' for each in disturbed) or 'none'}; seconds of an iteration of the last pair: "
            f"one process {found[1]['seconds']}, rank 0 of {world} {found[world]['seconds']}",
            "unit": "x",
            "value": statistics.median(ratios),
            "better": "higher",
            "bar": 1.6,
            "stretch": 1.85,
            "samples": ratios,
            "command": command,
        }
    if not ratios:
        sys.exit(f"others took too much of this machine in all {number} pairs: {disturbed}")


if __name__ == "__main__":
    asked, changed = sys.argv[1:4], dict(change.split("=", 1) for change in sys.argv[4:])
    with tempfile.TemporaryDirectory() as runs:
        print(json.dumps(train(asked[0], int(asked[1]), int(asked[2]), changed, runs)))
