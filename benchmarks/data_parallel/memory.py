"""What a rank's memory takes, by what is shared out: the most that its process had, less what the same run of a tiny network had.

Beside it PyTorch's `fully_shard` (FSDP2): two such networks as modules, sharded layer by layer, made on the meta device, with Adam and a
clipped gradient; it neither plays nor evaluates nor writes checkpoints, and nothing ever has a whole network.

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

PEER: Final = "fully_shard"
PEER_STEPS: Final = 4
SHARED: Final = {"nothing": {}, "optimizer": {"shard_optimizer": True}, "weights": {"shard_weights": True}}
WIDTH: Final = 2048
TINY: Final = 16
RANKS: Final = 4


def compare(command: str) -> list[dict[str, Any]]:
    """A row for each way, and for rank 0 and the others: bytes for every weight."""
    rows = []
    for shared in (*SHARED, PEER):
        large, small = (measure(shared, RANKS, width) for width in (WIDTH, TINY))
        weights = large["weights"] - small["weights"]
        each = [(own - other) / weights for own, other in zip(large["bytes"], small["bytes"], strict=True)]
        for who, value in (("rank 0", each[0]), ("another rank", max(each[1:]))):
            way = "PyTorch's fully_shard" if shared == PEER else f"{shared} shared out"
            what = f"Pendulum-v1:ppo, {RANKS} ranks, {weights / 1e6:.1f} million weights, {way}: memory of {who}, at its most"
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


def measure_peer(rank: int, world: int, width: int, folder: str) -> None:
    """One rank of PyTorch's own."""
    from torch import distributed as dist
    from torch import nn
    from torch.distributed.fsdp import fully_shard

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    with torch.device("meta"):
        networks = [
            nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)) for _ in range(2)
        ]
    for network in networks:
        for layer in network:
            if isinstance(layer, nn.Linear):
                fully_shard(layer)
        fully_shard(network)
        network.to_empty(device="cpu")
        for parameter in network.parameters():
            nn.init.normal_(parameter.to_local(), std=0.01)  # type: ignore[attr-defined]
    parameters = [parameter for network in networks for parameter in network.parameters()]
    optimizer = torch.optim.Adam(parameters)
    for _ in range(PEER_STEPS):
        optimizer.zero_grad(set_to_none=True)
        obs = torch.randn(4, 3)
        torch.stack([network(obs).square().mean() for network in networks]).sum().backward()
        nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()
    Path(folder, str(rank)).write_text(json.dumps([sum(each.numel() for each in parameters), _most_bytes(os.getpid())]))
    dist.barrier()
    dist.destroy_process_group()


def run_peer(world: int, width: int) -> dict[str, Any]:
    """All of its ranks."""
    context = torch.multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        processes = [context.Process(target=measure_peer, args=(rank, world, width, folder)) for rank in range(world)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        found = [json.loads(Path(folder, str(rank)).read_text()) for rank in range(world)]
    return {"weights": found[0][0], "bytes": [each for _, each in found]}


def main() -> None:
    """Two iterations, and what every rank has had."""
    shared, world, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if shared == PEER:
        print(json.dumps(run_peer(world, width)), flush=True)
        return
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
