"""What a rank's memory takes, by what is shared out: the most that its process had, less what the same run of a tiny network had.

python -m benchmarks.data_parallel.memory SHARED RANKS WIDTH     prints what each rank had, in bytes (one process for each measurement)
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks import provenance
from rlclinic.config import Config
from rlclinic.runs.store import Store
from rlclinic.training.__main__ import train_runs
from rlclinic.training.parallel import ranks

SHARED: Final = {"nothing": {}, "optimizer": {"shard_optimizer": True}, "weights": {"shard_weights": True}}
WIDTH: Final = 2048
TINY: Final = 16
RANKS: Final = 4


def compare(command: str) -> list[dict[str, Any]]:
    """A row for each way, and for rank 0 and the others: bytes for every weight."""
    rows = []
    for shared in SHARED:
        large, small = (measure(shared, RANKS, width) for width in (WIDTH, TINY))
        weights = large["weights"] - small["weights"]
        each = [(own - other) / weights for own, other in zip(large["bytes"], small["bytes"], strict=True)]
        for who, value in (("rank 0", each[0]), ("another rank", max(each[1:]))):
            what = f"Pendulum-v1:ppo, {RANKS} ranks, {weights / 1e6:.1f} million weights, {shared} shared out: memory of {who}, at its most"
            rows.append({"what": what, "unit": "bytes a weight", "value": value, "better": "lower", "bar": None, "command": command})
            print(f"{what}: {value:.1f} bytes a weight", file=sys.stderr)
    return rows


def measure(shared: str, world: int, width: int) -> dict[str, Any]:
    """One run, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.data_parallel.memory", shared, str(world), str(width)],
        capture_output=True, text=True, env=provenance.child_environment(), cwd=provenance.ROOT, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _most_bytes(pid: int) -> int:
    """The most memory that a process ever had."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def main() -> None:
    """Two iterations, and what every rank has had."""
    shared, world, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    config = Config.model_validate(
        {
            "env": {"id": "Pendulum-v1", "n_envs": world},
            "algo": {"name": "ppo", "n_steps": 8, "batch_size": 4 * world, "n_epochs": 1},
            "net": {"hidden": [width, width]},
            "run": {
                "max_env_steps": 2 * 8 * world, "eval_episodes": 0, "data_parallel": world, "allow_slower": True, "engine": "reference",
                **SHARED[shared],
            },
        }
    )  # fmt: skip
    ranks.joined.append(ranks.begin(world, torch.device("cpu")))
    others = [int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]
    others = [pid for pid in others if b"parallel" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    with tempfile.TemporaryDirectory() as folder:
        (run,) = Store(folder).create_group([config]).runs
        train_runs([run])
        assert run.status.state == "finished", run.status.reason
        weights = sum(path.stat().st_size for path in run.checkpoint("@last").path.glob("policy.safetensors")) // 4
    print(json.dumps({"weights": weights, "bytes": [_most_bytes(pid) for pid in (os.getpid(), *others)]}), flush=True)
    ranks.leave()


if __name__ == "__main__":
    main()
