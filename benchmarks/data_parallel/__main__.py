"""Data parallelism: how much faster several ranks are than one process, and whether planted faults of synchronization are named.

    python -m benchmarks.data_parallel --only speed     needs as many idle cores as ranks
    python -m benchmarks.data_parallel --only faults    needs no idle machine, and some minutes

Speed: env steps per second of whole iterations by `time/fps` of finished runs (the median row, without the first), one thread a process,
no evaluation; one process and N ranks in turn. Faults: see `faults`. A fault counts as named where its cause comes first, and one that
only costs time where its rule fires. Any finding about ranks in a sound run is a false alarm, but for the remark that they are slower.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import provenance
from benchmarks.data_parallel.faults import FAULTS, TASKS
from rlclinic.runs.store import Store

COMMAND = "python -m benchmarks.data_parallel"
LARGE = {
    "env.n_envs": 32,
    "algo.n_steps": 128,
    "algo.batch_size": 2048,
    "algo.n_epochs": 4,
    "net.hidden": "[384,384]",
    "run.eval_episodes": 0,
    "run.threads": 1,
    "run.engine": "eager",
}
"""Two networks of 384 x 384 units: 300k weights and more."""


def train(folder: Path, world: int, env_steps: int, task: str) -> tuple[float, int]:
    """Env steps per second of one run, and its weights."""
    changes = [f"--set={key}={value}" for key, value in {**LARGE, "run.data_parallel": world, "run.allow_slower": world > 1}.items()]
    command = [sys.executable, "-m", "rlclinic", "train", task, "--max-env-steps", str(env_steps), "--no-report", *changes]
    done = subprocess.run(
        [*command, "--runs-dir", str(folder)], capture_output=True, text=True, env=provenance.child_environment(), check=False
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    run = Store(folder).run("@last")
    policy = run.checkpoint("@last").path / "policy.safetensors"
    return float(np.median(run.metrics["time/fps"][1:])), policy.stat().st_size // 4


def measure_speed(world: int, pairs: int, env_steps: int, task: str) -> dict[str, Any]:
    """One row: how many times as fast as one process."""
    ratios, weights = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(pairs):
            order = (1, world) if number % 2 else (world, 1)
            speeds = {}
            for ranks in order:
                speeds[ranks], weights = train(Path(scratch) / "runs", ranks, env_steps, task)
            ratios.append(speeds[world] / speeds[1])
            print(
                f"{task}: {speeds[1]:,.0f} env steps/s with one process, {speeds[world]:,.0f} with {world}: {ratios[-1]:.2f}x",
                file=sys.stderr,
            )
    return {
        "what": f"{task}, {world} ranks over one process with one thread, {weights // 1000}k weights, minibatches of 2,048",
        "note": f"{min(ratios):.2f}-{max(ratios):.2f} over {pairs} pairs, in turn",
        "unit": "x",
        "value": statistics.median(ratios),
        "better": "higher",
        "bar": 1.6,
        "stretch": 1.85,
        "samples": ratios,
        "command": f"{COMMAND} --only speed",
    }


def measure_faults(seeds: int, sound_seeds: int) -> list[dict[str, Any]]:
    """Two rows: planted faults named, false alarms."""
    with tempfile.TemporaryDirectory() as scratch:
        cells = [cell for name in FAULTS for cell in examine(name, Path(scratch), seeds, 2)]
        sound = [cell for world in (2, 4) for cell in examine("none", Path(scratch) / str(world), sound_seeds, world)]
    named = [cell for cell in cells if is_named(cell)]
    missed = [f"{cell['fault']} in {cell['task']}: {cell['cause']}, {cell['rules']}" for cell in cells if not is_named(cell)]
    alarms = [cell for cell in sound if set(cell["rules"]) - {"RNK109"}]
    slowest = max(cell["seconds"] for cell in cells if FAULTS[cell["fault"]].rule in ("RNK107", "RNK108"))
    return [
        {
            "what": f"planted faults of synchronization that are named first ({len(FAULTS)} faults, {len(TASKS)} tasks)",
            "note": f"{len(named)} of {len(cells)}; missed: {'; '.join(missed) or 'none'}; lost or hung: over in {slowest:.0f} s",
            "unit": "share",
            "value": len(named) / len(cells),
            "better": "higher",
            "bar": 0.95,
            "stretch": None,
            "command": f"{COMMAND} --only faults",
        },
        {
            "what": f"false alarms about ranks in sound runs of 2 and 4 ranks ({len(TASKS)} tasks)",
            "note": f"{len(alarms)} of {len(sound)}: {sorted({rule for cell in alarms for rule in cell['rules']})}",
            "unit": "runs",
            "value": float(len(alarms)),
            "better": "lower",
            "bar": 0,
            "stretch": None,
            "command": f"{COMMAND} --only faults",
        },
    ]


def is_named(cell: dict[str, Any]) -> bool:
    """Whether the fault of a cell was named."""
    fault = FAULTS[cell["fault"]]
    return cell["cause"] == fault.cause if fault.cause is not None else fault.rule in cell["rules"]


def examine(name: str, folder: Path, seeds: int, world: int) -> list[dict[str, Any]]:
    """All cells of one fault, in a process of their own."""
    command = [sys.executable, "-m", "benchmarks.data_parallel.faults", name, str(folder), str(seeds), str(world)]
    done = subprocess.run(command, capture_output=True, text=True, env=provenance.child_environment(), cwd=provenance.ROOT, check=False)
    cells = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    expected = seeds * len(FAULTS[name].tasks if name in FAULTS else TASKS)
    if len(cells) != expected:
        sys.exit(f"{name}: {len(cells)} of {expected} cells\n{done.stderr[-3000:]}")
    for cell in cells:
        right = (set(cell["rules"]) <= {"RNK109"}) if name == "none" else is_named(cell)
        what = f"{name} x{world}, {cell['task']}, seed {cell['seed']}"
        print(f"{'   ' if right else '!! '}{what}: {cell['cause']} {cell['rules']} {cell['reason']}", file=sys.stderr)
    return cells


def main() -> None:
    """Measure what was asked for."""
    parser = provenance.parser(__doc__)
    parser.add_argument("--only", choices=("speed", "faults"))
    parser.add_argument("--ranks", type=int, default=2)
    asked = parser.parse_args()
    rows = []
    if asked.only != "faults":
        pairs, env_steps = (1, 16_384) if asked.quick else (5, 65_536)
        rows += [measure_speed(asked.ranks, pairs, env_steps, task) for task in ("CartPole-v1:ppo", "Pendulum-v1:ppo")]
    if asked.only != "speed":
        rows += measure_faults(1 if asked.quick else 2, 1 if asked.quick else 6)
    print(provenance.write("data_parallel", rows, provenance.provenance(COMMAND), asked.quick))


if __name__ == "__main__":
    main()
