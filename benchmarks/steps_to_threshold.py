"""Env steps until the shipped variants reach their threshold, next to Stable-Baselines3 with rl-zoo3's PPO settings.

Both sides: 20 greedy episodes from fixed start states every 5,000 env steps (LunarLander-v3 and MountainCar-v0: 10,000), seeds
100–109, the zoo's budget. Steps-to-threshold is the env step of the first evaluation at or above the threshold; a run that does
not get there counts as the whole budget (restricted mean). Below 1 we need fewer steps. Variants were tuned on other seeds (0–9).

The peer's runs lie in benchmarks/baselines/, made by benchmarks/sb3/steps_to_threshold.py.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import provenance
from benchmarks.sb3.runs import EVAL_EPISODES
from benchmarks.sb3.steps_to_threshold import DEFAULT_OUT as BASELINE
from benchmarks.sb3.steps_to_threshold import SETTINGS
from rlclinic import stats
from rlclinic.config import files
from rlclinic.runs.store import Store

RLCLINIC = Path(sys.executable).with_name("rlclinic")
FIRST_SEED, SEEDS = 100, 10


def command(env_id: str, seeds: int) -> list[str]:
    """What a user types to repeat our side of a row."""
    settings = [f"run.eval_every_env_steps={SETTINGS[env_id]['every']}", f"run.eval_episodes={EVAL_EPISODES}", "run.stop_at_threshold=true"]
    flags = [text for setting in settings for text in ("--set", setting)]
    return ["rlclinic", "train", f"{env_id}:ppo", "--seed", str(FIRST_SEED), "--seeds", str(seeds), *flags]


def check_protocol(env_id: str) -> None:
    """The shipped variant must play by the peer's rules: the same threshold, and no larger budget."""
    config, settings = files.load(f"{env_id}:ppo").config, SETTINGS[env_id]
    if config.spec.threshold != settings["threshold"] or config.run.max_env_steps > settings["budget"]:
        raise SystemExit(
            f"{env_id}:ppo has threshold {config.spec.threshold} and a budget of {config.run.max_env_steps} env steps; "
            f"the comparison is for {settings['threshold']} within {settings['budget']}.\n  Try: change them in {env_id}.yaml"
        )


def train(env_id: str, seeds: int, reuse: bool) -> list[int | None]:
    """Train the shipped variant; the step at which each seed reached the threshold, None where it did not."""
    folder = provenance.SCRATCH / "steps-to-threshold" / env_id
    if not (reuse and folder.exists()):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        subprocess.run([str(RLCLINIC), *command(env_id, seeds)[1:]], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    runs = sorted(Store(folder / "runs").runs(), key=lambda run: run.seed)
    if len(runs) != seeds:
        raise SystemExit(f"{env_id}: {len(runs)} runs where {seeds} were asked for; see {folder / 'runs'}")
    return [first_at_threshold(*run.evaluations[:2], SETTINGS[env_id]["threshold"]) for run in runs]


def first_at_threshold(steps: Any, means: Any, threshold: float) -> int | None:
    """The env step of the first evaluation at or above the threshold: the peer's definition, on our evaluations."""
    reached = np.flatnonzero(np.asarray(means) >= threshold)
    return int(steps[reached[0]]) if len(reached) else None


def baseline(env_id: str) -> list[int | None]:
    """The peer's steps-to-threshold, by seed. All seeds must be there: a part of them would be another comparison."""
    runs = [run for run in json.loads(BASELINE.read_text())["runs"] if run["env"] == env_id]
    if len(runs) < SEEDS:
        raise SystemExit(
            f"{BASELINE.name} has {len(runs)} of {SEEDS} seeds of {env_id}.\n"
            f"  Try: python -m benchmarks.sb3.steps_to_threshold --envs {env_id}, with an interpreter that has stable-baselines3"
        )
    return [run["steps_to_threshold"] for run in sorted(runs, key=lambda run: run["seed"])]


def to_row(env_id: str, ours: list[int | None], peer: list[int | None]) -> dict[str, Any]:
    """The ratio of restricted means with its interval, and every seed's steps."""
    budget = SETTINGS[env_id]["budget"]
    ratio = stats.restricted_mean_ratio(ours, peer, budget)
    return {
        "what": f"env steps to {SETTINGS[env_id]['threshold']}, {env_id}:ppo", "unit": "x SB3", "value": ratio.value,
        "interval": [ratio.low, ratio.high], "better": "lower", "bar": 1.05, "stretch": None,
        "env": env_id, "budget": budget, "ours": ours, "peer": peer, "command": " ".join(command(env_id, len(ours))),
    }  # fmt: skip


def clear_wins(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many environments need at most 0.7 of the peer's steps, with an interval that ends below 1."""
    wins = sum(row["value"] <= 0.7 and row["interval"][1] < 1 for row in rows)
    return {
        "what": "environments at ≤ 0.7 with the interval below 1", "unit": f"of {len(rows)}", "value": wins, "better": "higher",
        "bar": 2, "stretch": 3, "command": "python -m benchmarks.steps_to_threshold",
    }  # fmt: skip


def markdown(rows: list[dict[str, Any]]) -> str:
    """A table to read at once; docs/benchmarks.md has the same figures."""
    lines = ["| environment | ratio | 95 % interval | ours reached | SB3 reached |", "|---|---|---|---|---|"]
    for row in rows:
        reached = [f"{sum(step is not None for step in row[side])} of {len(row[side])}" for side in ("ours", "peer")]
        lines.append(
            f"| {row['env']} | {row['value']:.2f} | {row['interval'][0]:.2f}–{row['interval'][1]:.2f} | {reached[0]} | {reached[1]} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = provenance.parser(__doc__)
    parser.add_argument("--envs", nargs="*", choices=list(SETTINGS), help="only these (all; with --quick CartPole-v1)")
    parser.add_argument("--reuse", action="store_true", help="read our runs of an earlier call where there are any")
    args = parser.parse_args()
    envs = args.envs or (["CartPole-v1"] if args.quick else list(SETTINGS))
    seeds = 2 if args.quick else SEEDS
    peers = {env_id: baseline(env_id) for env_id in envs}
    for env_id in envs:
        check_protocol(env_id)
    rows = []
    for env_id in envs:
        rows.append(to_row(env_id, train(env_id, seeds, args.reuse), peers[env_id]))
        print(markdown(rows[-1:]), file=sys.stderr, flush=True)
    versions = json.loads(BASELINE.read_text())["versions"]
    typed = "python -m benchmarks.steps_to_threshold" + (f" --envs {' '.join(args.envs)}" if args.envs else "")
    print(markdown(rows))
    print(provenance.write("steps_to_threshold", [*rows, clear_wins(rows)], provenance.provenance(typed, versions), args.quick))


if __name__ == "__main__":
    main()
