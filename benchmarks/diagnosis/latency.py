"""How long `rlclinic diagnose` takes, from the shell's prompt to the next: start-up, reading, examining, report files and all.

big       one run with 10,000 rows x 100 columns, the whole command: median of 9 calls
group     a group of 8 runs with 400 rows each, as `train` leaves them
store     the same group among 1,000 others of its environment: the best comparable one is looked for
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import provenance
from rlclinic.config import files
from rlclinic.metrics import METRICS
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store

RLCLINIC = Path(sys.executable).with_name("rlclinic")
BUDGET = 100_000
COLUMNS = 100


def columns(count: int) -> list[str]:
    """Metrics of ours, as many as asked for (there are a few less than a hundred in a PPO run)."""
    names = [name for name in METRICS if name != "total_timesteps"]
    return names[: count - 1]


def write_metrics(run: Run, rows: int, width: int, seed: int) -> None:
    """A metrics.csv with numbers of full length: noise around a curve that plateaus below the threshold."""
    rng = np.random.default_rng(seed)
    steps = np.linspace(BUDGET / rows, BUDGET, rows).round()
    names = columns(width)
    values = 0.5 + 0.1 * rng.standard_normal((rows, len(names)))
    for place, name in enumerate(names):
        if name.endswith("ep_rew_mean"):
            values[:, place] = 200 * (1 - np.exp(-steps / 20_000)) + 5 * rng.standard_normal(rows)
    lines = [",".join(["total_timesteps", *names])]
    lines += [f"{int(step)},{','.join(map(repr, row))}" for step, row in zip(steps.tolist(), values.tolist(), strict=True)]
    (run.path / "metrics.csv").write_text("\n".join(lines) + "\n")


def make_group(store: Store, runs: int, rows: int, width: int) -> Group:
    """A finished group."""
    config = files.load("CartPole-v1:ppo", [f"run.max_env_steps={BUDGET}"]).config
    group = store.create_group([config.model_copy(update={"seed": seed}) for seed in range(runs)])
    for run in group.runs:
        write_metrics(run, rows, width, run.seed)
        status = f'{{"state": "finished", "heartbeat": {time.time()}, "env_steps": {BUDGET}, "eval_mean": 190.0}}'
        (run.path / "status.json").write_text(status)
    return group


def seconds(folder: Path, target: str, calls: int) -> list[float]:
    """Wall time of each call of the whole command; a first one, not counted, warms the disk cache."""
    took = []
    for call in range(calls + 1):
        start = time.perf_counter()
        subprocess.run([str(RLCLINIC), "diagnose", target], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        took += [time.perf_counter() - start] if call else []
    return took


def row(what: str, samples: list[float]) -> dict[str, Any]:
    """One line of the table."""
    line = {"what": what, "unit": "s", "value": statistics.median(samples), "better": "lower", "bar": 1.0, "stretch": 0.8}
    return {**line, "command": "rlclinic diagnose", "samples": samples}


def measure(calls: int, rows: int, others: int) -> list[dict[str, Any]]:
    """All three."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = Store(folder / "runs")
        big = make_group(store, 1, rows, COLUMNS)
        measured = [row(f"`diagnose`, {rows:,} rows x {COLUMNS} columns, the whole command", seconds(folder, big.id, calls))]
        usual = make_group(store, 8, 400, COLUMNS)
        measured.append(row("`diagnose`, 8 runs of 400 rows", seconds(folder, usual.id, calls)))
        for _ in range(others):
            make_group(store, 1, 2, 10)
        measured.append(row(f"the same, among {others:,} other groups", seconds(folder, usual.id, calls)))
    return measured


def main() -> None:
    args = provenance.parser(__doc__).parse_args()
    rows = measure(calls=3 if args.quick else 9, rows=2_000 if args.quick else 10_000, others=50 if args.quick else 1_000)
    for line in rows:
        print(f"{line['what']}: {line['value']:.2f} s (bar {line['bar']})", file=sys.stderr)
    origin = provenance.provenance("python -m benchmarks.diagnosis.latency")
    print(provenance.write("diagnosis_latency", rows, origin, args.quick))


if __name__ == "__main__":
    main()
