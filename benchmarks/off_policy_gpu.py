"""Gradient steps per second of SAC on Pendulum-v1 with rl-zoo3's settings on one GPU: one member, and many summed.

Each figure is the whole captured iteration (acting, stepping, remembering, drawing, learning; compiled units), from the end of the first
one after capture to the end of the last. --device cpu runs the same program without a graph, to try the script.

A machine with a GPU may have no installed package: there --lines FILE only notes the figures, and --collect FILE makes the results of
them elsewhere; the figures say themselves where they come from.
"""

import argparse
import json
import platform
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks import provenance
from rlclinic.config import files
from rlclinic.training import assembly, envs, replay_assembly
from rlclinic.training.engines.captured_replay import CapturedReplay
from rlclinic.training.envs.native.engine import NativeEnv
from rlclinic.training.loops import off_policy
from rlclinic.training.loops.on_policy import Position
from rlclinic.training.members import replay_numbers

BARS = {1: (1_500, 3_000), 256: (60_000, 200_000)}
VARIANT = "Pendulum-v1:sac_zoo"


def measure(members: int, device: torch.device, seconds: float, precision: str, hidden: list[int] | None = None) -> dict[str, float]:
    """Updates per second, summed over members; and the seconds until the graph stood."""
    config = files.load(VARIANT, [f"net.hidden={json.dumps(hidden)}"] if hidden else []).config
    seeds = list(range(members))
    env = envs.make(config.env, seeds, config.env.n_envs, device=str(device))
    plan = assembly.plan_for(config, env)
    assert isinstance(plan, off_policy.Plan)
    assert isinstance(env, NativeEnv)
    learner = replay_assembly.fresh_learner(plan, seeds, config.env.n_envs, device)
    memory = replay_assembly.memory_for(plan, members, device)
    each: Any = SimpleNamespace(config=config, adapted={}, active=True)
    seed, position = torch.tensor(seeds, device=device).view(-1, 1, 1), Position(env.reset())
    engine, env_steps = CapturedReplay(compiles=True, tf32=precision == "tf32"), 0
    everyone = torch.ones(members, 1, dtype=torch.bool, device=device)
    collector = off_policy.Collector(plan, env, seed, 0, {"env": 0.0, "act": 0.0})
    hp = replay_numbers([each] * members, 0, plan.memory.action_size, device)
    for _ in range(plan.cycles):  # the random steps before learning starts
        learner = collector.collect(learner, position, memory, hp)
    env_steps = collector.env_steps

    def iterate() -> None:
        nonlocal learner, env_steps
        hp = replay_numbers([each] * members, env_steps, plan.memory.action_size, device)
        learner, taken = engine.iterate(plan, learner, env, position, memory, hp, everyone, seed, env_steps)
        env_steps += config.rollout_size
        assert bool(torch.isfinite(taken.readings["q"][-1]).all())  # waits for the GPU, as training does at every iteration

    began = time.perf_counter()
    iterate()
    stood, count, start = time.perf_counter() - began, 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        iterate()
        count += 1
    elapsed = time.perf_counter() - start
    updates = plan.cycles * plan.updates_per_cycle
    return {"updates_per_second": members * count * updates / elapsed, "capture_seconds": stood, "iterations": count}


def to_row(members: int, precision: str, found: dict[str, float], name: str) -> dict[str, Any]:
    bar, stretch = BARS.get(members, (None, None))
    what = f"SAC {VARIANT.split(':')[0]} on {name}, {members} member{'s summed' if members > 1 else ''}, captured, {precision}"
    return {
        "what": what, "unit": "updates/s", "value": found["updates_per_second"], "better": "higher", "bar": bar, "stretch": stretch,
        "members": members, "precision": precision, **found, "command": "python -m benchmarks.off_policy_gpu",
        "measured_on": f"{name}, torch {torch.__version__}, Python {platform.python_version()}",
    }  # fmt: skip


def measured(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Every row that was asked for, noted as soon as it is there."""
    device = torch.device(args.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    rows = []
    for members in args.members:
        for precision in args.precisions:
            rows.append(to_row(members, precision, measure(members, device, args.seconds, precision, args.hidden), name))
            print(json.dumps(rows[-1]), flush=True)
            if args.lines:
                args.lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def main() -> None:
    parser = provenance.parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--members", nargs="*", type=int, default=[1, 256])
    parser.add_argument("--precisions", nargs="*", default=["float32", "tf32"], choices=["float32", "tf32"])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--hidden", nargs="*", type=int, help="other layers, to try the script")
    parser.add_argument("--lines", type=Path, help="only note the figures in this file, one line each")
    parser.add_argument("--collect", type=Path, help="make the results of a file of lines")
    args = parser.parse_args()
    rows = [json.loads(line) for line in args.collect.read_text().splitlines()] if args.collect else measured(args)
    if args.lines:
        return
    print(provenance.write("off_policy_gpu", rows, provenance.provenance("python -m benchmarks.off_policy_gpu"), args.quick))


if __name__ == "__main__":
    main()
