"""How fast DQN, SAC and TD3 train next to Stable-Baselines3, both with rl-zoo3's settings, evaluation and plots off on both sides.

Each pair runs one side after the other, and the next pair the other way round, so that a slow minute of the machine hits both. A
ratio is the median over pairs, with a 95 % bootstrap interval. The figure is env steps per second from the first gradient step to the
end, on both sides, summed over seeds: 1 seed on one core, or 8 on 2 cores, ours as one cohort per core, the peer's one after the other
on each core. learning_starts is the same small number on both sides, as random steps cost next to nothing. What starting and stopping
adds is in `whole_command`, which these short runs make look larger than it is.

The peer runs in its own interpreter: --sb3-python, or the environment variable RLCLINIC_SB3_PYTHON.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import provenance
from benchmarks.speed import ENVIRONMENT, LOOP, RLCLINIC, WHOLE, Figures, peer_versions
from rlclinic import stats
from rlclinic.runs.store import Store

LEARNING_STARTS = 300


@dataclass(frozen=True)
class Contest:
    """One kind of training, run by both sides, and what it must reach."""

    task: str
    variant: str
    seeds: int
    steps: int
    quick_steps: int
    what: str
    bar: float
    stretch: float


# Sentinels and checkpoints come so many times in a run, however long it is: a budget far below the zoo's 50,000 would be filled by them.
CONTESTS = {
    "dqn": Contest("CartPole-v1:dqn", "CartPole-v1:dqn_zoo", 1, 16_384, 2_048, "DQN CartPole-v1, 1 seed", 2.0, 3.0),
    "dqn8": Contest("CartPole-v1:dqn", "CartPole-v1:dqn_zoo", 8, 16_384, 2_048, "DQN CartPole-v1, 8 seeds on 2 cores", 3.5, 5.0),
    "sac": Contest("Pendulum-v1:sac", "Pendulum-v1:sac_zoo", 1, 900, 600, "SAC Pendulum-v1, 1 seed", 1.15, 1.6),
    "sac8": Contest("Pendulum-v1:sac", "Pendulum-v1:sac_zoo", 8, 600, 500, "SAC Pendulum-v1, 8 seeds on 2 cores", 1.15, 1.6),
    "td3": Contest("Pendulum-v1:td3", "Pendulum-v1:td3_zoo", 1, 900, 600, "TD3 Pendulum-v1, 1 seed", 1.15, 1.6),
    "td38": Contest("Pendulum-v1:td3", "Pendulum-v1:td3_zoo", 8, 600, 500, "TD3 Pendulum-v1, 8 seeds on 2 cores", 1.15, 1.6),
}


def rlclinic_command(contest: Contest, steps: int) -> list[str]:
    """What a user types to train without evaluations; results go to the folder it runs in."""
    settings = [
        f"run.max_env_steps={steps}",
        "run.eval_every_env_steps=none",
        "run.eval_episodes=0",
        f"algo.learning_starts={LEARNING_STARTS}",
    ]
    flags = [text for setting in settings for text in ("--set", setting)]
    return ["rlclinic", "train", contest.variant, "--seeds", str(contest.seeds), "--no-report", "--no-save-replay", *flags]


def measure_ours(contest: Contest, steps: int, folder: Path) -> Figures:
    """Train in an empty folder and read the loop's speed from the rows that training logged after learning had begun."""
    start = time.perf_counter()
    command = [str(RLCLINIC), *rlclinic_command(contest, steps)[1:]]
    subprocess.run(command, cwd=folder, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    whole, speed = time.perf_counter() - start, 0.0
    for run in Store(folder / "runs").runs():
        clock, env_steps = run.metrics["time"], run.metrics["total_timesteps"]
        first = int(np.argmax(env_steps > LEARNING_STARTS))
        speed += float((env_steps[-1] - env_steps[first]) / (clock[-1] - clock[first]))
    return {WHOLE: whole, LOOP: speed}


def measure_sb3(contest: Contest, steps: int, python: str) -> Figures:
    """One process per core, each with its share of the seeds one after the other."""
    processes = min(2, contest.seeds)
    start = time.perf_counter()
    children = []
    for index in range(processes):
        seeds = [str(seed) for seed in range(index, contest.seeds, processes)]
        options = ["--steps", str(steps), "--learning-starts", str(LEARNING_STARTS), "--seeds", *seeds]
        command = [python, "-m", "benchmarks.sb3.off_policy_train", contest.task, *options]
        children.append(subprocess.Popen(command, cwd=provenance.ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True))
    outputs = [child.communicate()[0] for child in children]
    whole = time.perf_counter() - start
    if any(child.returncode for child in children):
        raise SystemExit("the peer failed; its message is above")
    per_core = [json.loads(output)["loops"] for output in outputs]
    speed = sum(sum(loop["env_steps"] for loop in loops) / sum(loop["wall_seconds"] for loop in loops) for loops in per_core)
    return {WHOLE: whole, LOOP: speed}


def run_pairs(contest: Contest, steps: int, pairs: int, python: str) -> list[tuple[Figures, Figures]]:
    """(ours, peer) per pair, measured in alternating order."""
    sides: list[Callable[[Path], Figures]] = [
        lambda folder: measure_ours(contest, steps, folder),
        lambda folder: measure_sb3(contest, steps, python),
    ]
    measured = []
    for pair in range(pairs):
        figures: list[Figures] = [{}, {}]
        for side in (0, 1) if pair % 2 == 0 else (1, 0):
            with tempfile.TemporaryDirectory() as folder:
                figures[side] = sides[side](Path(folder))
        print(f"{contest.what}, pair {pair + 1} of {pairs}: ours {figures[0]}, SB3 {figures[1]}", file=sys.stderr, flush=True)
        measured.append((figures[0], figures[1]))
    return measured


def to_row(contest: Contest, steps: int, measured: list[tuple[Figures, Figures]]) -> dict[str, Any]:
    """The speed-up: median over pairs with its interval, and every single measurement."""
    (ours, peer), (whole, peer_whole) = (
        [np.array([pair[side][figure] for pair in measured]) for side in (0, 1)] for figure in (LOOP, WHOLE)
    )
    ratios = ours / peer
    interval = stats.bootstrap_interval(ratios, np.median) if len(ratios) > 1 else (ratios[0], ratios[0])
    return {
        "what": contest.what, "unit": "x SB3", "value": float(np.median(ratios)), "interval": list(interval), "better": "higher",
        "bar": contest.bar, "stretch": contest.stretch, "pairs": len(measured), "figure": LOOP, "ours": ours.tolist(),
        "peer": peer.tolist(), "whole_command": float(np.median(peer_whole / whole)), "command": " ".join(rlclinic_command(contest, steps)),
    }  # fmt: skip


def main() -> None:
    parser = provenance.parser(__doc__)
    parser.add_argument("--only", nargs="*", choices=list(CONTESTS), default=list(CONTESTS))
    parser.add_argument("--pairs", type=int, help="pairs per contest (5; with --quick 1)")
    parser.add_argument(
        "--sb3-python", default=os.environ.get("RLCLINIC_SB3_PYTHON", "python3"), help="an interpreter with stable-baselines3"
    )
    args = parser.parse_args()
    versions = peer_versions(args.sb3_python)
    pairs, rows = args.pairs or (1 if args.quick else 5), []
    for name in args.only:
        contest = CONTESTS[name]
        steps = contest.quick_steps if args.quick else contest.steps
        rows.append(to_row(contest, steps, run_pairs(contest, steps, pairs, args.sb3_python)))
    asked = "" if args.only == list(CONTESTS) else " --only " + " ".join(args.only)
    origin = provenance.provenance(f"python -m benchmarks.off_policy_speed --pairs {pairs}{asked}", versions)
    print(provenance.write("off_policy_speed", rows, origin, args.quick))


if __name__ == "__main__":
    main()
