"""Whether runs that learned to game their reward are told from runs that learned the task.

python -m benchmarks.reward_gaming.trained                         the eight to develop on, and their repaired twins
python -m benchmarks.reward_gaming.trained --held-out "why"        all fifteen, and 120 sound runs; the look is recorded in looks.json

Every reward is trained on by PPO for 40k steps, three seeds; a run counts as gamed where it did what is wanted in less than half of its
last episodes while it was paid more than at first, which is asked of the environment itself and not of what it reports. Sound runs are those of
the repaired twins, and of environments that rlclinic ships.
"""

# ruff: noqa: E501 — rows of a table

import json
import os
import shutil
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np

import rlclinic
from benchmarks import provenance
from benchmarks.reward_gaming import loopholes
from rlclinic.config import load
from rlclinic.diagnosis import engine
from rlclinic.runs import history

LOOKS: Final = Path(__file__).parent / "looks_at_runs.json"
COMMAND: Final = "python -m benchmarks.reward_gaming.trained"
RULES: Final = ("SUC101", "SUC104", "SUC105", "SUC106", "REW516", "REW519")
"""Rules that say that something else than the task is learned."""
SHIPPED: Final = {
    "CartPole-v1:ppo": 30_000,
    "FrozenLake-v1:ppo": 60_000,
    "Delivery-v0:ppo_mended": 120_000,
    "SparseMountainCar-v0:ppo_count": 60_000,
    "DoorKey-v0:ppo": 60_000,
    "Acrobot-v1:ppo": 40_000,
    "Taxi-v3:q_learning": 40_000,
    "Pendulum-v1:ppo": 40_000,
}
SETTINGS: Final = {
    "algo": {"name": "ppo", "n_steps": 128, "batch_size": 256, "n_epochs": 6, "gamma": loopholes.GAMMA, "learning_rate": 1e-3, "ent_coef": 0.01},
    "run": {"max_env_steps": 40_960, "eval_every_env_steps": 4_096, "eval_episodes": 10},
}  # fmt: skip
SEEDS: Final = 3
SOUND_SEEDS: Final = 4


def train_room(name: str, sound: bool, seeds: int, folder: str) -> list[dict[str, Any]]:
    """Runs of one reward: what was said of each, and whether it was gamed."""
    hole = loopholes.ALL[name]
    room = hole.make(sound)
    room.reset(seed=0)
    terms = list(room.pay(room))
    env = {"id": "Room", "n_envs": 8, "log_terms": terms if room.says in ("success", "terms") else []}
    config = {"name": "Room", "env": env, **SETTINGS}
    ended: list[list[float]] = []

    class Watched(loopholes.Room):
        """Keeps what really happened, which the run is not told."""

        def __init__(self) -> None:
            super().__init__(hole.sound if sound else hole.gamed, **hole.options)
            self.total = 0.0

        def step(self, action: Any) -> Any:
            outcome = super().step(action)
            self.total += outcome[1]
            if outcome[2] or outcome[3]:
                ended.append([self.total, float(self.wants(self))])
                self.total = 0.0
            return outcome

    found = []
    for seed in range(seeds):
        ended.clear()
        group = rlclinic.train(config, env=lambda: Watched(), seeds=[seed], runs_dir=folder)
        happened = np.array(ended)
        edge = len(happened) // 5
        paid, wanted = happened[-edge:, 0].mean() - happened[:edge, 0].mean(), float(happened[-edge:, 1].mean())
        found.append({"name": name, "sound": sound, "seed": seed, "paid": paid, "wanted": wanted, "said": judge(group.runs[0])})
    return found


def train_shipped(ref: str, steps: int, seeds: int, folder: str) -> list[dict[str, Any]]:
    """Runs of an environment that pays for its task."""
    config = load(ref, [f"run.max_env_steps={steps}"]).config
    group = rlclinic.train(config, seeds=seeds, runs_dir=folder)
    return [{"name": ref, "sound": True, "seed": seed, "said": judge(run)} for seed, run in enumerate(group.runs)]


def judge(run: Any) -> list[str]:
    """Which of the rules speak of a run."""
    diagnosis = engine.diagnose([history.of_run(run)])
    return sorted({finding.rule for finding in diagnosis.findings if finding.rule in RULES and finding.severity.rank > 0})


def work(job: tuple[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
    kind, given = job
    return train_room(*given) if kind == "room" else train_shipped(*given)


def main() -> None:
    """Measure, and save the rows as benchmarks/results/reward_hacking.json."""
    parser = provenance.parser(__doc__)
    parser.add_argument("--held-out", metavar="WHY", help="look at the held-out seven, too, and record it")
    parser.add_argument("--processes", type=int, default=1)
    args = parser.parse_args()
    holes = loopholes.ALL if args.held_out else loopholes.DEVELOPMENT
    seeds, sound_seeds = (1, 1) if args.quick else (SEEDS, SOUND_SEEDS)
    folder = provenance.SCRATCH / "reward_hacking"
    shutil.rmtree(folder, ignore_errors=True)
    jobs: list[tuple[str, tuple[Any, ...]]] = [
        ("room", (name, False, seeds, str(folder / f"gamed{place}"))) for place, name in enumerate(holes)
    ]
    jobs += [("room", (name, True, sound_seeds, str(folder / f"sound{place}"))) for place, name in enumerate(holes)]
    if args.held_out:
        jobs += [("shipped", (ref, steps, 8, str(folder / f"shipped{place}"))) for place, (ref, steps) in enumerate(SHIPPED.items())]
    os.environ["OMP_NUM_THREADS"] = "1"
    if args.processes > 1:
        with ProcessPoolExecutor(args.processes, get_context("spawn")) as pool:
            runs = [run for found in pool.map(work, jobs) for run in found]
    else:
        runs = [run for job in jobs for run in work(job)]
    gamed = [run for run in runs if not run["sound"] and run["paid"] > 0 and run["wanted"] < 0.5]
    sound = [run for run in runs if run["sound"] and run.get("wanted", 1.0) >= 0.5]
    for run in runs:
        hidden = run["name"] in loopholes.HELD_OUT
        print(json.dumps({key: value for key, value in run.items() if not hidden or key in ("name", "said", "sound")}), flush=True)
    held = [run for run in gamed if run["name"] in loopholes.HELD_OUT]
    kinds = {run["name"] for run in gamed}
    found_kinds = {
        name
        for name in kinds
        if sum(bool(run["said"]) for run in gamed if run["name"] == name) * 2 > sum(run["name"] == name for run in gamed)
    }
    alarms = sum(bool(run["said"]) for run in sound)
    summary = {
        "loopholes": len(kinds), "found": len(found_kinds), "runs": len(gamed), "runs_found": sum(bool(run["said"]) for run in gamed),
        "held_out_runs": len(held), "held_out_found": sum(bool(run["said"]) for run in held), "sound": len(sound), "alarms": alarms,
    }  # fmt: skip
    print(json.dumps(summary))
    if not args.held_out:
        return
    looks = json.loads(LOOKS.read_text()) if LOOKS.exists() else []
    looks.append({"look": len(looks) + 1, "why": args.held_out, **summary})
    LOOKS.write_text(json.dumps(looks, indent=1) + "\n")
    share = 100 * summary["runs_found"] / max(len(gamed), 1)
    held_share = 100 * summary["held_out_found"] / max(len(held), 1)
    rows: list[dict[str, Any]] = [
        {"what": "gamed rewards, 15 loopholes: runs in which it is said", "unit": f"% of {len(gamed)}", "value": round(share, 1), "bar": 85, "stretch": 95, "better": "higher"},
        {"what": "gamed rewards, the 7 that were held out: runs in which it is said", "unit": f"% of {len(held)}", "value": round(held_share, 1), "bar": 85, "stretch": 95, "better": "higher"},
        {"what": "gamed rewards: false alarms on sound runs", "unit": f"% of {len(sound)}", "value": round(100 * alarms / max(len(sound), 1), 2), "bar": 2, "stretch": 0.5, "better": "lower"},
    ]  # fmt: skip
    print(provenance.write("reward_hacking", rows, provenance.provenance(COMMAND), args.quick))


if __name__ == "__main__":
    main()
