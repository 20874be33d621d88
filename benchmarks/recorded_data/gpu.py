"""Gradient steps per second of IQL on recorded data on one GPU: one cohort of many seeds, summed.

python -m benchmarks.recorded_data.gpu [--members 64] [--seconds 6]

The data are 20,000 transitions of Pendulum by a scripted policy, resident on the GPU. Each figure is the whole iteration as training takes
it (drawing rows, gathering, learning, readings), from the end of the first one after capture to the end of the last. Two sizes: the one
that peers use (two layers of 256, batches of 256) and the shipped variant's. Several ways: gradients written out and compiled, with TF32 or
without; not compiled; losses differentiated. One that fails says why and leaves the others their turn. `--device cpu` runs the same
programs without a graph, to try the script.

A machine with a GPU may have no installed package: there --lines FILE only notes the figures, and --collect FILE makes the results of
them elsewhere; the figures say themselves where they come from.
"""

import argparse
import json
import platform
import time
import traceback
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

from benchmarks import offline as recorded_tasks
from benchmarks import provenance
from rlclinic.config import files
from rlclinic.training import assembly, envs, replay_assembly
from rlclinic.training.data import recorded
from rlclinic.training.engines.captured_offline import CapturedOffline
from rlclinic.training.loops import off_policy
from rlclinic.training.members import replay_numbers

BAR, STRETCH, BARRED = 60_000, 150_000, 64
"""Updates per second, summed over so many members."""


class Way(NamedTuple):
    """How gradient steps are computed."""

    name: str
    engine: str
    compiles: bool = False
    tf32: bool = False


WAYS = (
    Way("compiled, captured, tf32", "eager", compiles=True, tf32=True),
    Way("compiled, captured", "eager", compiles=True),
    Way("written out, captured, tf32", "eager", tf32=True),
    Way("written out, captured", "eager"),
    Way("differentiated, captured", "reference"),
)
SIZES = {"256 x 256, batches of 256": ["net.hidden=[256,256]", "algo.batch_size=256"], "as shipped (64 x 64, batches of 128)": []}


def measure(
    algorithm: str, data: Path, way: Way, settings: list[str], members: int, device: torch.device, seconds: float
) -> dict[str, Any]:
    """Updates per second, summed over members; and the seconds until the graph stood."""
    config = files.load(f"Pendulum-v1:{algorithm}", [*settings, f"data.path={data}"]).config
    seeds = list(range(members))
    env = envs.make(config.env, seeds, 1, device=str(device))
    plan = assembly.with_engine(assembly.plan_for(config, env), way.engine)
    assert isinstance(plan, off_policy.Plan)
    learner = replay_assembly.fresh_learner(plan, seeds, 1, device)
    known = recorded.load(config, env, device)
    each: Any = SimpleNamespace(config=config, adapted={}, active=True)
    seed, everyone = torch.tensor(seeds, device=device).view(-1, 1, 1), torch.ones(members, 1, dtype=torch.bool, device=device)
    engine = CapturedOffline(compiles=way.compiles, tf32=way.tf32)

    def iterate() -> None:
        nonlocal learner
        hp = replay_numbers([each] * members, learner.updates, plan.memory.action_size, device)
        learner, readings = engine.learn(plan, learner, known, hp, everyone, seed)
        assert bool(torch.isfinite(readings["q"][-1]).all())  # waits for the GPU, as training does at every iteration

    began = time.perf_counter()
    iterate()
    stood = time.perf_counter() - began
    iterate()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds or not count:
        iterate()
        count += 1
    elapsed = time.perf_counter() - start
    return {"updates_per_second": members * count * plan.cycles / elapsed, "capture_seconds": stood, "iterations": count}


def to_row(algorithm: str, way: Way, size: str, members: int, found: dict[str, Any], name: str) -> dict[str, Any]:
    barred = algorithm == "iql" and members == BARRED
    return {
        "what": f"{algorithm} on {name}, {members} seed{'s as one cohort, summed' if members > 1 else ''}, {size}, {way.name}",
        "unit": "updates/s", "value": found["updates_per_second"], "better": "higher",
        "bar": BAR if barred else None, "stretch": STRETCH if barred else None, **found,
        "command": "python -m benchmarks.recorded_data.gpu",
        "measured_on": f"{name}, torch {torch.__version__}, Python {platform.python_version()}",
    }  # fmt: skip


def measured(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Every row that was asked for, noted as soon as it is there."""
    device = torch.device(args.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    home, rows = Path(mkdtemp()), []
    data = recorded_tasks.make_data(home)["medium"]
    plans = [("iql", size, way, members) for members in args.members for size in SIZES for way in WAYS]
    plans += [("td3_bc", next(iter(SIZES)), WAYS[0], args.members[0])]
    started = time.monotonic()
    for algorithm, size, way, members in plans:
        if time.monotonic() - started > args.within:
            print(f"no time left for {algorithm}, {members} seeds, {size}, {way.name}", flush=True)
            continue
        try:
            found = measure(algorithm, data, way, SIZES[size], members, device, args.seconds)
        except Exception:  # noqa: BLE001  # whatever a compiler or a driver says: the other ways are still to be measured
            print(f"failed: {algorithm}, {members} seeds, {size}, {way.name}\n{traceback.format_exc()}", flush=True)
            continue
        rows.append(to_row(algorithm, way, size, members, found, name))
        print(json.dumps(rows[-1]), flush=True)
        if args.lines:
            args.lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def main() -> None:
    parser = provenance.parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--members", nargs="*", type=int, default=[BARRED])
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--within", type=float, default=600.0, help="seconds after which no other way is begun")
    parser.add_argument("--lines", type=Path, help="only note the figures in this file, one line each")
    parser.add_argument("--collect", type=Path, help="make the results of a file of lines")
    args = parser.parse_args()
    rows = [json.loads(line) for line in args.collect.read_text().splitlines()] if args.collect else measured(args)
    if args.lines:
        return
    print(provenance.write("offline_gpu", rows, provenance.provenance("python -m benchmarks.recorded_data.gpu"), args.quick))


if __name__ == "__main__":
    main()
