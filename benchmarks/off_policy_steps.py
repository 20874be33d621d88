"""Env steps until the shipped DQN, SAC and TD3 variants reach their threshold, next to Stable-Baselines3 with rl-zoo3's settings.

Both sides: 20 greedy episodes from fixed start states, as often as `every` in sb3/off_policy_steps.py says, seeds 100–104, the zoo's
budget. Steps-to-threshold is the env step of the first evaluation at or above the threshold; a run that does not get there counts as
the whole budget (restricted mean). Below 1 we need fewer steps. Variants were tuned on other seeds (0–4).

The peer's runs lie in benchmarks/baselines/, made by benchmarks/sb3/off_policy_steps.py.
"""

import json
import shutil
import subprocess
import sys
from typing import Any

from benchmarks import provenance
from benchmarks.sb3.off_policy_steps import DEFAULT_OUT as BASELINE
from benchmarks.sb3.off_policy_steps import SETTINGS
from benchmarks.sb3.runs import EVAL_EPISODES
from benchmarks.steps_to_threshold import first_at_threshold
from rlclinic import stats
from rlclinic.runs.store import Store

FIRST_SEED, SEEDS = 100, 5
LANDER = "LunarLander-v3:dqn"
LANDINGS: dict[int, tuple[int | None, int | None]] = {200_000: (4, None), 100_000: (None, 5)}
"""Bar and stretch for how many of five seeds land within so many env steps."""


def command(task: str, seeds: int) -> list[str]:
    """What a user types to repeat our side of a row."""
    settings = [f"run.eval_every_env_steps={SETTINGS[task]['every']}", f"run.eval_episodes={EVAL_EPISODES}", "run.stop_at_threshold=true"]
    flags = [text for setting in settings for text in ("--set", setting)]
    return ["rlclinic", "train", task, "--seed", str(FIRST_SEED), "--seeds", str(seeds), "--no-save-replay", *flags]


def train(task: str, seeds: int, reuse: bool) -> list[int | None]:
    """Train the shipped variant; the step at which each seed reached the threshold, None where it did not."""
    folder = provenance.SCRATCH / "off-policy-steps" / task.replace(":", "-")
    if not (reuse and folder.exists()):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        typed = [sys.executable, "-m", *command(task, seeds)]
        subprocess.run(typed, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=provenance.child_environment())
    runs = sorted(Store(folder / "runs").runs(), key=lambda run: run.seed)
    if len(runs) != seeds:
        raise SystemExit(f"{task}: {len(runs)} runs where {seeds} were asked for; see {folder / 'runs'}")
    return [first_at_threshold(*run.evaluations[:2], SETTINGS[task]["threshold"]) for run in runs]


def baseline(task: str) -> list[int | None]:
    """The peer's steps-to-threshold, by seed. All seeds must be there: a part of them would be another comparison."""
    runs = [run for run in json.loads(BASELINE.read_text())["runs"] if run["task"] == task]
    if len(runs) < SEEDS:
        raise SystemExit(
            f"{BASELINE.name} has {len(runs)} of {SEEDS} seeds of {task}.\n"
            f"  Try: python -m benchmarks.sb3.off_policy_steps --tasks {task}, with an interpreter that has stable-baselines3"
        )
    return [run["steps_to_threshold"] for run in sorted(runs, key=lambda run: run["seed"])]


def to_row(task: str, ours: list[int | None], peer: list[int | None]) -> dict[str, Any]:
    """The ratio of restricted means with its interval, and every seed's steps."""
    budget = SETTINGS[task]["budget"]
    within = [step if step is not None and step <= budget else None for step in ours]
    ratio = stats.restricted_mean_ratio(within, peer, budget)
    return {
        "what": f"env steps to {SETTINGS[task]['threshold']}, {task}", "unit": "x SB3", "value": ratio.value,
        "interval": [ratio.low, ratio.high], "better": "lower", "bar": 1.05, "stretch": None,
        "task": task, "budget": budget, "ours": ours, "peer": peer, "command": " ".join(command(task, len(ours))),
    }  # fmt: skip


def landed(ours: list[int | None], within: int) -> dict[str, Any]:
    """How many seeds land within so many env steps."""
    bar, stretch = LANDINGS[within]
    return {
        "what": f"{LANDER}: seeds at 200 within {within:,} env steps", "unit": f"of {len(ours)}", "better": "higher",
        "value": sum(step is not None and step <= within for step in ours), "bar": bar, "stretch": stretch, "ours": ours,
        "command": " ".join(command(LANDER, len(ours))),
    }  # fmt: skip


def main() -> None:
    parser = provenance.parser(__doc__)
    parser.add_argument("--tasks", nargs="*", choices=list(SETTINGS), help="only these (all; with --quick Pendulum-v1:sac)")
    parser.add_argument("--reuse", action="store_true", help="read our runs of an earlier call where there are any")
    args = parser.parse_args()
    tasks = args.tasks or (["Pendulum-v1:sac"] if args.quick else list(SETTINGS))
    seeds = 2 if args.quick else SEEDS
    peers = {task: baseline(task) for task in tasks}
    rows = []
    for task in tasks:
        ours = train(task, seeds, args.reuse)
        row = to_row(task, ours, peers[task])
        print(f"{task}: {row['value']:.2f}, ours {ours}, SB3 {peers[task]}", file=sys.stderr, flush=True)
        rows += [row, *(landed(ours, within) for within in LANDINGS if task == LANDER)]
    versions = json.loads(BASELINE.read_text())["versions"]
    typed = "python -m benchmarks.off_policy_steps" + (f" --tasks {' '.join(args.tasks)}" if args.tasks else "")
    print(provenance.write("off_policy_steps", rows, provenance.provenance(typed, versions), args.quick))


if __name__ == "__main__":
    main()
