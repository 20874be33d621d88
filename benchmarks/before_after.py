"""Whether a change of the code made training slower: the same commands by two trees of the source, side by side.

    git clone . build/before && git -C build/before checkout COMMIT
    python -m benchmarks.before_after build/before . --pairs 15

Both sides of a pair train at the same time on one core, which the kernel divides between them in slices of milliseconds: what slows that
core down, a neighbour or a lower clock, hits both alike. (On cores of their own, the sides of a pair differed by 13 % for no reason of
theirs.) With `--at-once 4`, four pairs run beside each other, each on its core. The figure is the env steps that `after` took over those
of `before` while both were in the training loop, by the rows that training logged: the median over pairs with a 95 % bootstrap interval.
Evaluation, plots and reports are off, as in `benchmarks.speed` and `benchmarks.off_policy_speed`. Each contest is saved when it is over.
"""

import csv
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import provenance
from rlclinic import stats

BAR = 0.95
"""What the interval's lower end must reach."""
THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


@dataclass(frozen=True)
class Contest:
    """One kind of training that both trees do."""

    target: str
    seeds: int
    steps: int
    settings: tuple[str, ...] = ()
    learning_starts: int = 0
    """Rows up to this step are left out: random steps cost next to nothing."""


OFF_POLICY = ("algo.learning_starts=300",)
CONTESTS = {
    "ppo": Contest("CartPole-v1:ppo_zoo", 1, 60_000),
    "a2c": Contest("CartPole-v1:a2c", 1, 60_000),
    "dqn": Contest("CartPole-v1:dqn_zoo", 1, 16_384, OFF_POLICY, 300),
    "sac": Contest("Pendulum-v1:sac_zoo", 1, 1_200, OFF_POLICY, 300),
    "td3": Contest("Pendulum-v1:td3_zoo", 1, 1_000, OFF_POLICY, 300),
    "ppo8": Contest("CartPole-v1:ppo_zoo", 8, 20_000),
    "dqn8": Contest("CartPole-v1:dqn_zoo", 8, 4_096, OFF_POLICY, 300),
    "sac8": Contest("Pendulum-v1:sac_zoo", 8, 600, OFF_POLICY, 300),
    "td38": Contest("Pendulum-v1:td3_zoo", 8, 600, OFF_POLICY, 300),
}
"""Some seconds each, start aside."""


def measure_pair(contest: Contest, trees: Sequence[Path], core: int) -> list[float]:
    """Env steps per second of each tree while both train, at the same time on one core."""
    settings = [f"run.max_env_steps={contest.steps}", "run.eval_every_env_steps=none", "run.eval_episodes=0", *contest.settings]
    flags = [text for setting in settings for text in ("--set", setting)] + (["--no-save-replay"] if contest.learning_starts else [])
    command = [sys.executable, "-m", "rlclinic", "train", contest.target, "--seeds", str(contest.seeds), "--no-report", *flags]
    packages = provenance.child_environment()["PYTHONPATH"]  # those that the interpreter does not have itself
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        folders = [Path(first), Path(second)]
        children = [
            subprocess.Popen(
                ["taskset", "-c", str(core), *command], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                env=os.environ | THREADS | {"PYTHONPATH": os.pathsep.join([str(tree), packages])},
            )
            for tree, folder in zip(trees, folders, strict=True)
        ]  # fmt: skip
        for tree, child in zip(trees, children, strict=True):
            _, errors = child.communicate()
            if child.returncode:
                raise SystemExit(f"{tree}: {' '.join(command)} failed\n{errors[-2000:]}")
        return compute_speeds([read_progress(folder, contest.learning_starts) for folder in folders])


def read_progress(folder: Path, learning_starts: int) -> list[np.ndarray]:
    """When each run of a folder had taken how many env steps, [rows, 2] each; read without the code that is compared."""
    progress = []
    for file in sorted(folder.glob("runs/*/metrics.csv")):
        if not file.parent.name.startswith("@"):  # a link to the newest run
            with file.open(newline="") as lines:
                rows = np.array([(float(row["time"]), float(row["total_timesteps"])) for row in csv.DictReader(lines)])
            progress.append(rows[rows[:, 1] > learning_starts])
    if not progress:
        raise SystemExit(f"no metrics.csv was written below {folder / 'runs'}")
    return progress


def compute_speeds(sides: Sequence[list[np.ndarray]]) -> list[float]:
    """Env steps per second of each side, all of its runs together, in the stretch of time in which every run trained."""
    begin = max(rows[0, 0] for runs in sides for rows in runs)
    end = min(rows[-1, 0] for runs in sides for rows in runs)
    if begin >= end:
        raise SystemExit("one side was over before the other began to train.\n  Try: more env steps per contest")
    return [float(sum(np.diff(np.interp([begin, end], *rows.T))[0] for rows in runs) / (end - begin)) for runs in sides]


def run_pairs(contest: Contest, trees: Sequence[Path], pairs: int, at_once: int) -> list[list[float]]:
    """(before, after) of every pair; every second pair begins with the other tree, on a core and beside each other."""
    cores = sorted(os.sched_getaffinity(0))[:at_once]

    def fill(lane: int) -> list[list[float]]:
        measured = []
        for pair in range(lane, pairs, len(cores)):
            order = 1 if (pair // len(cores) + lane) % 2 == 0 else -1
            measured.append(measure_pair(contest, trees[::order], cores[lane])[::order])
            print(f"{contest.target} x {contest.seeds}, pair {pair + 1} of {pairs}: {measured[-1]}", file=sys.stderr, flush=True)
        return measured

    with ThreadPoolExecutor(len(cores)) as pool:
        return [pair for measured in pool.map(fill, range(len(cores))) for pair in measured]


def to_row(name: str, contest: Contest, measured: list[list[float]]) -> dict[str, Any]:
    """The ratio after over before: median over pairs with its interval, and every single measurement."""
    before, after = np.array(measured).T
    ratios = after / before
    interval = stats.bootstrap_interval(ratios, np.median) if len(ratios) > 1 else (ratios[0], ratios[0])
    return {
        "what": f"{name}: {contest.target}, {contest.seeds} seed{'s' * (contest.seeds > 1)}, {contest.steps} env steps",
        "unit": "x before", "value": float(np.median(ratios)), "interval": list(interval), "better": "higher", "bar": BAR, "stretch": None,
        "counts": "lower end", "pairs": len(measured), "before": before.tolist(), "after": after.tolist(),
    }  # fmt: skip


def main() -> None:
    """Run the contests that the command line asks for, and save their rows as benchmarks/results/before_after.json."""
    parser = provenance.parser(__doc__)
    parser.add_argument("before", type=Path, help="the tree that it was")
    parser.add_argument("after", type=Path, help="the tree that it is")
    parser.add_argument("--only", nargs="*", choices=list(CONTESTS), default=list(CONTESTS))
    parser.add_argument("--pairs", type=int, help="pairs per contest (15; with --quick 1)")
    parser.add_argument("--at-once", type=int, default=1, help="pairs that run beside each other, each on its core")
    args = parser.parse_args()
    trees = [args.before.resolve(), args.after.resolve()]
    pairs = args.pairs or (1 if args.quick else 15)
    for name in args.only:
        contest = CONTESTS[name]
        row = to_row(name, contest, run_pairs(contest, trees, pairs, args.at_once))
        low, high = row["interval"]
        command = f"python -m benchmarks.before_after BEFORE AFTER --only {name} --pairs {pairs} --at-once {args.at_once}"
        path = provenance.write("before_after", [row], provenance.provenance(command), args.quick)
        print(f"{row['what']}: {row['value']:.3f} [{low:.3f}, {high:.3f}] -> {path}", flush=True)


if __name__ == "__main__":
    main()
