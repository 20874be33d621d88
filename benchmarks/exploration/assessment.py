"""Does `explore` know when exploration is what holds a run back? Runs of small worlds whose truth was written down first.

python -m benchmarks.exploration.assessment --look WHY       eight seeds of each world; every look is recorded in looks.json
python -m benchmarks.exploration.assessment --verify         the truth: worlds that are out of chance's reach, begun anywhere on the way

A run has an exploration problem if its world says so and it did not find what is wanted by luck: a run that ended solved has none. It is
right to say BOTTLENECK of those and of no other; NOT ASSESSABLE of one that has the problem is a miss. What has ended is kept in build/, so
that the command can be given again until everything is there (`--again` forgets it).
"""

import json
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import rlclinic
from benchmarks import provenance
from benchmarks.exploration.worlds import CASES, SUCCESS, Case
from rlclinic.diagnosis import exploration
from rlclinic.runs import history
from rlclinic.runs.outcome import arrived, measure_history

LOOKS: Final = Path(__file__).parent / "looks.json"
COMMAND: Final = "python -m benchmarks.exploration.assessment --look WHY"
KEPT: Final = provenance.SCRATCH / "assessment.jsonl"
SEEDS: Final = 8
FEWEST: Final = 200
"""Runs that a look takes; worlds that are not trained yet are named with it."""
SOLVED: Final = 0.5
"""The share of its last training episodes in which a run without a threshold has to succeed to count as solved."""


def train(case: Case, seeds: int, *, near: bool = False) -> list[dict[str, Any]]:
    """Runs of a world: whether each was solved, and what `explore` says of it alone."""
    folder = provenance.SCRATCH / "assessment"
    shutil.rmtree(folder, ignore_errors=True)
    algo = {"name": "ppo", "n_steps": 128, "batch_size": 256, "n_epochs": 6, "learning_rate": 1e-3, "ent_coef": 0.01, **case.algo}
    config = {
        "name": "World",
        "env": {"id": "World", "n_envs": 8},
        "algo": algo,
        "spec": dict(case.spec),
        "run": {"max_env_steps": case.env_steps, "eval_every_env_steps": 3_072, "eval_episodes": 10},
    }
    make = partial(case.make, **{**case.options, "near": near})
    started = time.process_time()
    group = rlclinic.train(config, env=make, seeds=list(range(seeds)), runs_dir=str(folder))
    seconds = time.process_time() - started
    found = []
    for run in group.runs:
        read = history.of_run(run)
        said = exploration.assess([read])
        rate = read.series.get("train/roll/success_rate")
        often = rate is not None and len(rate) > 0 and float(rate.values[-1]) >= SOLVED
        solved = arrived(measure_history(read)) or often
        found.append({"case": case.name, "solved": bool(solved), "said": said.verdict, "reason": said.reason, "seconds": seconds})
    shutil.rmtree(folder, ignore_errors=True)
    return found


def main() -> None:
    """Measure, and save the rows as benchmarks/results/exploration.json."""
    parser = provenance.parser(__doc__)
    parser.add_argument("--look", metavar="WHY", help="look at what is said of the runs, and record it")
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--again", action="store_true", help="forget what is kept of earlier calls")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no world after so many")
    args = parser.parse_args()
    until = time.monotonic() + args.seconds
    if args.verify:
        for case in (each for each in CASES if each.label == "bottleneck"):
            asked = replace(case, options={**case.options, "flagged": True}, spec=SUCCESS, env_steps=2 * case.env_steps)
            begun = train(asked, 1 if args.quick else 2, near=True)
            print(f"{sum(run['solved'] for run in begun)} of {len(begun)} solved from anywhere on the way: {case.name}", flush=True)
        return
    kept = KEPT.with_suffix(".quick.jsonl") if args.quick else KEPT
    kept.parent.mkdir(parents=True, exist_ok=True)
    if args.again or args.quick:
        kept.unlink(missing_ok=True)
    runs: list[dict[str, Any]] = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    cases: Sequence[Case] = CASES[::9] if args.quick else CASES
    for case in cases:
        if case.name in {run["case"] for run in runs} or time.monotonic() > until:
            continue
        found = train(case, 1 if args.quick else SEEDS)
        runs += found
        with kept.open("a") as file:
            file.write("".join(json.dumps(run) + "\n" for run in found))
        print(f"trained: {case.name} ({found[0]['seconds']:.0f} s)", flush=True)  # what was said of it is for the look
    missing = {case.name for case in cases} - {run["case"] for run in runs}
    if not (args.look or args.quick):
        print(f"{len(missing)} worlds are missing; nothing was looked at")
        return
    if len(runs) < FEWEST and not args.quick:
        print(f"{len(runs)} runs: a look takes {FEWEST}")
        return
    cases = tuple(case for case in cases if case.name not in missing)
    labels = {case.name: case.label for case in CASES}
    hard = [run for run in runs if labels[run["case"]] == "bottleneck" and not run["solved"]]
    said = [run for run in runs if run["said"] == "BOTTLENECK"]
    right = [run for run in hard if run["said"] == "BOTTLENECK"]
    for case in cases:
        of = [run for run in runs if run["case"] == case.name]
        told, solved = dict(Counter(run["said"] for run in of)), sum(run["solved"] for run in of)
        print(f"{case.label:10} {told} solved {solved}: {case.name}; {of[0]['reason']}")
    summary = {"runs": len(runs), "hard": len(hard), "said": len(said), "right": len(right)}
    print(json.dumps(summary))
    if not args.quick:
        looks = json.loads(LOOKS.read_text()) if LOOKS.exists() else []
        looks.append({"look": len(looks) + 1, "why": args.look, **summary, "worlds_not_trained": sorted(missing)})
        LOOKS.write_text(json.dumps(looks, indent=1) + "\n")
    rows: list[dict[str, Any]] = [
        {
            "what": f"explore on {len(runs)} runs of worlds held out: precision of BOTTLENECK",
            "unit": f"% of {len(said)}",
            "value": round(100 * len(right) / max(len(said), 1), 1),
            "better": "higher",
            "bar": 95,
            "stretch": 99,
        },
        {
            "what": f"explore on {len(runs)} runs of worlds held out: recall of BOTTLENECK",
            "unit": f"% of {len(hard)}",
            "value": round(100 * len(right) / max(len(hard), 1), 1),
            "better": "higher",
            "bar": 85,
            "stretch": 95,
        },
    ]
    print(provenance.write("exploration", rows, provenance.provenance(COMMAND), args.quick))


if __name__ == "__main__":
    main()
