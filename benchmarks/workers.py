"""Where worker processes (or ALE's threads) step environments faster than the training process: whole iterations, pair by pair.

Each row is the median over pairs of training speed with `env.workers` = cores over that with 0: one seed, one thread, no evaluation.
`rlclinic train` sets env.workers by what comes out here (rlclinic/ops/train/plan.py). Needs idle cores.
"""

import statistics
import sys
from typing import Any

from benchmarks import provenance
from rlclinic.config import load
from rlclinic.ops.train.machine import usable_cores
from rlclinic.ops.train.plan import best_workers
from rlclinic.training import profiling

TASKS = {
    "BipedalWalker-v3:ppo": ("algo.n_steps=128",),
    "LunarLander-v3:ppo": (),
    "HalfCheetah-v5:ppo": ("env.n_envs=8", "algo.n_steps=128"),
    "Walker2d-v5:ppo": ("env.n_envs=8", "algo.n_steps=128"),
    "ALE/Pong-v5:ppo": (),
}
"""Configs and changes: shorter rollouts where an iteration would take minutes, more environments where one leaves nothing to share."""


def speed(ref: str, changes: tuple[str, ...], workers: int, seconds: float) -> float:
    """Env steps per second of whole iterations."""
    config = load(ref, ["run.engine=eager", *changes, f"env.workers={workers}"]).config
    return profiling.measure(config, 1, seconds).env_steps_per_second


def contest(ref: str, cores: int, pairs: int, seconds: float) -> dict[str, Any]:
    """One row: how many times as fast with workers."""
    changes = TASKS[ref]
    config = load(ref, [*changes, "run.threads=1"]).config
    ratios = []
    for number in range(pairs):
        order = (cores, 0) if number % 2 else (0, cores)
        found = {workers: speed(ref, changes, workers, seconds) for workers in order}
        ratios.append(found[cores] / found[0])
        print(f"{ref}: {found[0]:,.0f} env steps/s in the process, {found[cores]:,.0f} with {cores} workers", file=sys.stderr)
    settings = f"{config.env.n_envs} environments" + "".join(f", {change}" for change in changes)
    chosen = best_workers(config, cores)
    return {
        "what": f"{ref}, {settings}: env.workers={cores} over 0",
        "note": f"train sets {chosen}",
        "unit": "x",
        "value": statistics.median(ratios),
        "better": "higher",
        "bar": None,
        "stretch": None,
        "samples": ratios,
        "command": "python -m benchmarks.workers",
    }


def main() -> None:
    """Measure all tasks."""
    asked = provenance.parser(__doc__).parse_args()
    cores = usable_cores()
    if cores == 1:
        sys.exit("There is one core here: nothing could be shared out.")
    pairs, seconds = (1, 0.2) if asked.quick else (5, 6.0)
    rows = [contest(ref, cores, pairs, seconds) for ref in TASKS]
    print(provenance.write("workers", rows, provenance.provenance("python -m benchmarks.workers"), asked.quick))


if __name__ == "__main__":
    main()
