"""How fast we train next to Stable-Baselines3, both with rl-zoo3's PPO settings, evaluation and plots off on both sides.

Each pair runs one side after the other, and the next pair the other way round, so that a slow minute of the machine hits both.
A ratio is the median over pairs, with a 95 % bootstrap interval. "Training loop" is env steps per second from the end of the
first iteration to the end of the last, on both sides; "whole command" is from typing it to the prompt coming back.

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
from rlclinic import stats
from rlclinic.runs.store import Store

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
RLCLINIC = Path(sys.executable).with_name("rlclinic")
Figures = dict[str, float]


@dataclass(frozen=True)
class Row:
    """One line of the table: what is compared, and what it must reach."""

    figure: str
    what: str
    bar: float
    stretch: float
    higher_is_better: bool


@dataclass(frozen=True)
class Contest:
    """One kind of training, run by both sides; it fills one row or several."""

    env: str
    variant: str
    seeds: int
    steps: int
    quick_steps: int
    rows: tuple[Row, ...]
    flags: tuple[str, ...] = ()
    """More to type, on our side."""
    peer: str = "benchmarks.sb3.train"
    """The module that trains the same with Stable-Baselines3."""
    piece: bool = False
    """Whether our side trains with its whole budget and is stopped after `steps` (benchmarks.stopped), as a run to the end takes hours."""


LOOP = "loop_env_steps_per_second"
WHOLE = "wall_seconds"
CONTESTS = {
    "cartpole": Contest(
        "CartPole-v1", "ppo_zoo", 1, 100_000, 10_240,
        (
            Row(WHOLE, "PPO CartPole-v1, 1 seed, whole command", 1.8, 2.2, False),
            Row(LOOP, "PPO CartPole-v1, 1 seed, training loop", 2.3, 3.0, True),
        ),
    ),
    "compiled": Contest(
        "CartPole-v1", "ppo_zoo", 1, 100_000, 20_480,
        (Row(LOOP, "PPO CartPole-v1, 1 seed, compiled engine, warm cache, training loop", 4.0, 5.0, True),),
        ("--engine", "compiled"),
    ),
    "seeds": Contest(
        "CartPole-v1", "ppo_zoo", 8, 100_000, 10_240,
        (Row(WHOLE, "PPO CartPole-v1, 8 seeds on 2 cores, whole command", 4.0, 5.5, False),),
    ),
    "lunarlander": Contest(
        "LunarLander-v3", "ppo_zoo", 1, 98_304, 49_152,
        (Row(LOOP, "PPO LunarLander-v3, 1 seed, training loop", 2.0, 2.7, True),),
    ),
}  # fmt: skip


def rlclinic_command(contest: Contest, steps: int) -> list[str]:
    """What a user types to train without evaluations; results go to the folder it runs in."""
    if contest.piece:
        return ["python", "-m", "benchmarks.stopped", f"{contest.env}:{contest.variant}", "--steps", str(steps)]
    settings = [f"run.max_env_steps={steps}", "run.eval_every_env_steps=none", "run.eval_episodes=0"]
    flags = [text for setting in settings for text in ("--set", setting)]
    return ["rlclinic", "train", f"{contest.env}:{contest.variant}", "--seeds", str(contest.seeds), "--no-report", *flags, *contest.flags]


def measure_ours(contest: Contest, steps: int, folder: Path) -> Figures:
    """Train in an empty folder and read the loop's speed from the rows that training logged."""
    start = time.perf_counter()
    command = [sys.executable if contest.piece else str(RLCLINIC), *rlclinic_command(contest, steps)[1:]]
    surroundings = ENVIRONMENT | {"PYTHONPATH": str(provenance.ROOT)}
    subprocess.run(command, cwd=folder, env=surroundings, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    figures = {WHOLE: time.perf_counter() - start}
    if contest.seeds == 1:
        (run,) = Store(folder / "runs").runs()
        clock, env_steps = run.metrics["time"], run.metrics["total_timesteps"]
        figures[LOOP] = float((env_steps[-1] - env_steps[0]) / (clock[-1] - clock[0]))
    return figures


def measure_sb3(contest: Contest, steps: int, folder: Path, python: str) -> Figures:
    """One process per core, each with its share of the seeds one after the other."""
    processes = min(2, contest.seeds)
    start = time.perf_counter()
    children = []
    for index in range(processes):
        seeds = [str(seed) for seed in range(index, contest.seeds, processes)]
        command = [python, "-m", contest.peer, contest.env, "--steps", str(steps), "--out", str(folder), "--seeds", *seeds]
        children.append(subprocess.Popen(command, cwd=provenance.ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True))
    outputs = [child.communicate()[0] for child in children]
    figures = {WHOLE: time.perf_counter() - start}
    if any(child.returncode for child in children):
        raise SystemExit("the peer failed; its message is above")
    (loop, *_) = json.loads(outputs[0].strip().rpartition("\n")[2])["loops"]  # simulators may have printed before
    figures[LOOP] = loop["env_steps"] / loop["wall_seconds"]
    return figures


def run_pairs(contest: Contest, steps: int, pairs: int, python: str) -> list[tuple[Figures, Figures]]:
    """(ours, peer) per pair, measured in alternating order."""
    sides: list[Callable[[Path], Figures]] = [
        lambda folder: measure_ours(contest, steps, folder),
        lambda folder: measure_sb3(contest, steps, folder, python),
    ]
    measured = []
    for pair in range(pairs):
        figures: list[Figures] = [{}, {}]
        for side in (0, 1) if pair % 2 == 0 else (1, 0):
            with tempfile.TemporaryDirectory() as folder:
                figures[side] = sides[side](Path(folder))
        print(
            f"{contest.env} x {contest.seeds}, pair {pair + 1} of {pairs}: ours {figures[0]}, SB3 {figures[1]}", file=sys.stderr, flush=True
        )
        measured.append((figures[0], figures[1]))
    return measured


def to_row(row: Row, contest: Contest, steps: int, measured: list[tuple[Figures, Figures]]) -> dict[str, Any]:
    """The speed-up of a figure: median over pairs with its interval, and every single measurement."""
    ours, peer = (np.array([pair[side][row.figure] for pair in measured]) for side in (0, 1))
    ratios = ours / peer if row.higher_is_better else peer / ours
    interval = stats.bootstrap_interval(ratios, np.median) if len(ratios) > 1 else (ratios[0], ratios[0])
    return {
        "what": row.what, "unit": "x SB3", "value": float(np.median(ratios)), "interval": list(interval), "better": "higher",
        "bar": row.bar, "stretch": row.stretch, "pairs": len(measured), "figure": row.figure,
        "ours": ours.tolist(), "peer": peer.tolist(), "command": " ".join(rlclinic_command(contest, steps)),
    }  # fmt: skip


def peer_versions(python: str) -> dict[str, str]:
    """The versions in the peer's interpreter; also finds out early that it is not there."""
    names = ["stable-baselines3", "torch", "gymnasium", "numpy"]
    code = f"import importlib.metadata as m, json; print(json.dumps({{name: m.version(name) for name in {names}}}))"
    try:
        answer = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(
            f"{python} cannot import stable-baselines3, so there is nothing to compare with.\n"
            "  Try: make bench, which installs it, or --sb3-python PATH_TO_AN_INTERPRETER_THAT_HAS_IT"
        ) from error
    versions: dict[str, str] = json.loads(answer.stdout)
    return versions


def main(contests: dict[str, Contest] = CONTESTS, name: str = "speed", doc: str | None = __doc__) -> None:
    """Run the contests that the command line asks for, and save their rows as benchmarks/results/<name>.json."""
    parser = provenance.parser(doc)
    parser.add_argument("--only", nargs="*", choices=list(contests), default=list(contests))
    parser.add_argument("--pairs", type=int, help="pairs per contest (5; with --quick 1)")
    parser.add_argument("--steps", type=int, help="env steps per run, instead of each contest's own")
    default_python = os.environ.get("RLCLINIC_SB3_PYTHON", "python3")
    parser.add_argument("--sb3-python", default=default_python, help="an interpreter with stable-baselines3")
    args = parser.parse_args()
    versions = peer_versions(args.sb3_python)
    pairs = args.pairs or (1 if args.quick else 5)
    rows = []
    for asked in args.only:
        contest = contests[asked]
        steps = args.steps or (contest.quick_steps if args.quick else contest.steps)
        measured = run_pairs(contest, steps, pairs, args.sb3_python)
        rows += [to_row(row, contest, steps, measured) for row in contest.rows]
    options = "" if args.only == list(contests) else " --only " + " ".join(args.only)
    options += f" --steps {args.steps}" if args.steps else ""
    origin = provenance.provenance(f"python -m benchmarks.{name} --pairs {pairs}{options}", versions)
    print(provenance.write(name, rows, origin, args.quick))


if __name__ == "__main__":
    main()
