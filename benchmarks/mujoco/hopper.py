"""Return of the shipped Hopper-v5:sac after 50,000 env steps, next to Stable-Baselines3 with rl-zoo3's settings.

Both sides: seeds 100–102, one process per seed, one thread, then 20 deterministic episodes from fixed start states. Our figure is
the mean over seeds; the bar is the lower end of the interval of SB3's mean (bootstrap over its seeds). Ours are saved after every
run, and go on where they stopped; the peer's lie in benchmarks/baselines/, made by benchmarks/sb3/hopper.py.
"""

import argparse
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import provenance
from benchmarks.sb3.hopper import DEFAULT_OUT as BASELINE
from benchmarks.sb3.hopper import ENV_ID, ENV_STEPS, SEEDS
from benchmarks.sb3.runs import EVAL_EPISODES, save
from rlclinic import stats
from rlclinic.runs.store import Store

TASK = f"{ENV_ID}:sac"
OURS = provenance.SCRATCH / "hopper.json"


def command(seed: int, env_steps: int, settings: list[str]) -> list[str]:
    """What a user types to repeat one of our runs."""
    wanted = [f"run.max_env_steps={env_steps}", f"run.eval_every_env_steps={env_steps}", f"run.eval_episodes={EVAL_EPISODES}", *settings]
    flags = [text for setting in wanted for text in ("--set", setting)]
    return ["rlclinic", "train", TASK, "--seed", str(seed), "--no-save-replay", *flags]


def train(seed: int, env_steps: int, settings: list[str]) -> dict[str, Any]:
    """One seed in a process of its own to the end of its budget, and what it can do then."""
    folder = provenance.SCRATCH / "hopper" / "-".join([str(seed), str(env_steps), *settings])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = provenance.child_environment(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
    typed = [sys.executable, "-m", *command(seed, env_steps, settings)]
    subprocess.run(typed, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=environment)
    (run,) = Store(folder / "runs").runs()
    steps, means, _ = run.evaluations
    return {"seed": seed, "env_steps": int(steps[-1]), "settings": settings, "return": round(float(means[-1]), 2)}


def fill(out: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Train the seeds that `out` does not have yet."""
    versions = {name: metadata.version(name) for name in ("torch", "gymnasium", "mujoco")}
    record: dict[str, Any] = (
        json.loads(out.read_text()) if out.exists() else {"versions": versions, "cpu": provenance.cpu_model(), "runs": []}
    )
    have = {(run["seed"], tuple(run["settings"])) for run in record["runs"] if run["env_steps"] >= args.steps}
    missing = [seed for seed in args.seeds if (seed, tuple(args.set)) not in have]
    out.parent.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(args.procs) as pool:
        for done in as_completed([pool.submit(train, seed, args.steps, args.set) for seed in missing]):
            record["runs"].append(done.result())
            print(record["runs"][-1], file=sys.stderr, flush=True)
            save(record, out)
    return record


def of_seeds(record: dict[str, Any], env_steps: int) -> list[float]:
    """The contest's returns by seed. All must be there: a part of them would be another comparison."""
    runs = [run for run in record["runs"] if run["env_steps"] >= env_steps and run["seed"] in SEEDS and not run.get("settings")]
    if len(runs) != len(SEEDS):
        raise SystemExit(f"{len(runs)} of {len(SEEDS)} seeds of {TASK} are there.\n  Try: python -m benchmarks.sb3.hopper, then this again")
    return [run["return"] for run in sorted(runs, key=lambda run: run["seed"])]


def to_row(ours: list[float], peer: list[float]) -> dict[str, Any]:
    """Our mean with its interval, against the lower end of the peer's."""
    low, high = stats.bootstrap_interval(peer, np.mean)
    return {
        "what": f"{TASK}, return after {ENV_STEPS:,} env steps", "unit": "", "value": float(np.mean(ours)), "better": "higher",
        "interval": list(stats.bootstrap_interval(ours, np.mean)), "bar": round(low, 1), "stretch": round(high, 1),
        "note": f"bar and stretch are the ends of the interval of SB3's mean {np.mean(peer):.0f}, bootstrap over 3 seeds",
        "ours": ours, "peer": peer, "command": " ".join(command(SEEDS[0], ENV_STEPS, [])),
    }  # fmt: skip


def main() -> None:
    parser = provenance.parser(__doc__)
    parser.add_argument("--out", type=Path, default=OURS, help="the JSON file to fill with our runs")
    parser.add_argument("--seeds", nargs="*", type=int, default=list(SEEDS))
    parser.add_argument("--procs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=ENV_STEPS)
    parser.add_argument("--set", action="append", default=[], metavar="SETTING", help="another setting, to tune with on other seeds")
    parser.add_argument("--only-train", action="store_true", help="fill the file, without the peer's and without a row")
    args = parser.parse_args()
    args.steps = min(args.steps, 11_000) if args.quick else args.steps
    record = fill(args.out, args)
    if args.only_train or args.quick:
        return
    peer = json.loads(BASELINE.read_text())
    row = to_row(of_seeds(record, ENV_STEPS), of_seeds(peer, ENV_STEPS))
    origin = provenance.provenance("python -m benchmarks.mujoco.hopper", peer["versions"])
    print(provenance.write("hopper", [row], origin | {"cpu": record["cpu"]}, args.quick))


if __name__ == "__main__":
    main()
