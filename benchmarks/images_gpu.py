"""What shorter numbers do for training from a screen on a GPU: whole iterations of PPO on Pong, and their gradient steps alone.

Each figure is the median over rounds of TF32 or bfloat16 over float32, the three measured one after the other in every round. Gradient
steps are the phases forward and backward, each of which waits for its kernels; whole iterations are timed without phases.

    python -m benchmarks.images_gpu [--only NAME ...] [--rounds 2] [--out FOLDER]
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks import provenance
from benchmarks.gpu import origin
from rlclinic.config import load
from rlclinic.ops.train.machine import usable_cores
from rlclinic.training import profiling

GAME: Final = "ALE/Pong-v5:ppo"
PRECISIONS: Final[dict[str, tuple[str, ...]]] = {
    "float32": (),
    "tf32": ("run.precision=tf32",),
    "bfloat16": ("net.image_precision=bfloat16",),
}


class Contest(NamedTuple):
    """A shape of training."""

    what: str
    members: int
    changes: tuple[str, ...] = ()


LARGE: Final = ("env.n_envs=64", "algo.batch_size=2048")
CONTESTS: Final = {
    "shipped": Contest("the shipped settings, 1 member", 1),
    "large": Contest("1 member, 64 games, minibatches of 2,048", 1, LARGE),
    "impala-8": Contest("IMPALA's network, 8 members", 8, ("net.images=impala",)),
}


def speeds(contest: Contest, precision: str, seconds: float, device: str) -> dict[str, float]:
    """Of whole iterations, in env steps per second; and of gradient steps, in iterations' worth of them per second."""
    workers = min(usable_cores(), load(GAME, contest.changes).config.env.n_envs)
    run = (f"run.device={device}", "run.engine=eager", f"env.workers={workers}")
    config = load(GAME, [*contest.changes, *PRECISIONS[precision], *run]).config
    whole = profiling.measure(config, contest.members, seconds)
    phases = profiling.measure(config, contest.members, seconds, apart=True).phases
    return {"whole iterations": whole.env_steps_per_second, "gradient steps": 1 / (phases["forward"] + phases["backward"])}


def rows_of(name: str, rounds: int, seconds: float, device: str) -> list[dict[str, Any]]:
    """A contest's rows: both ways of shorter numbers, both speeds."""
    contest, found = CONTESTS[name], []
    for number in range(rounds):
        found.append({precision: speeds(contest, precision, seconds, device) for precision in PRECISIONS})
        print(f"{name}, round {number + 1}: {json.dumps(found[-1])}", file=sys.stderr, flush=True)
    rows = []
    for precision in list(PRECISIONS)[1:]:
        for part in ("gradient steps", "whole iterations"):
            ratios = [each[precision][part] / each["float32"][part] for each in found]
            rows.append({
                "what": f"PPO Pong, {contest.what}: {precision} over float32, {part}", "unit": "x", "value": statistics.median(ratios),
                "better": "higher", "bar": None, "stretch": None, "samples": ratios,
                "env_steps_per_second": [each[precision]["whole iterations"] for each in found],
                "command": f"python -m benchmarks.images_gpu --only {name}",
            })  # fmt: skip
    return rows


def main() -> None:
    parser = provenance.parser(__doc__)
    parser.add_argument("--only", nargs="*", choices=list(CONTESTS), default=list(CONTESTS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path, help="where to write images_gpu.json, instead of benchmarks/results")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try the script")
    args = parser.parse_args()
    if args.out:
        provenance.RESULTS = args.out
    quick = args.quick or args.device == "cpu"
    source = provenance.provenance("python -m benchmarks.images_gpu") if args.device == "cpu" else origin("python -m benchmarks.images_gpu")
    for name in args.only:
        rows = rows_of(name, 1 if quick else args.rounds, 0.2 if quick else 3.0, args.device)
        print(provenance.write("images_gpu", rows, source, quick and not args.out), flush=True)


if __name__ == "__main__":
    main()
