"""Does `explore` know when exploration is what holds a run back? Runs of small worlds whose truth was written down first.

python -m benchmarks.exploration.assessment --look WHY       eight seeds of each world; every look is recorded in looks.json
python -m benchmarks.exploration.assessment --set first ...  the worlds of the first look (else: of the newest set)
python -m benchmarks.exploration.assessment --verify         the truth: worlds that are out of chance's reach, begun anywhere on the way

A run has an exploration problem if its world says so and it did not find what is wanted by luck: a run that ended solved has none. It is
right to say BOTTLENECK of those and of no other; NOT ASSESSABLE of one that has the problem is a miss. What has ended is kept in build/, so
that the command can be given again until everything is there (`--again` forgets it).
"""

import json
import re
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
from benchmarks.exploration import second, worlds
from benchmarks.exploration.worlds import SUCCESS, Case
from rlclinic.diagnosis import exploration
from rlclinic.runs import history
from rlclinic.runs.outcome import arrived, measure_history
from rlclinic.runs.store import Store

LOOKS: Final = Path(__file__).parent / "looks.json"
SETS: Final[dict[str, tuple[Case, ...]]] = {"first": worlds.CASES, "second": second.CASES}
SEEDS: Final = 8
FEWEST: Final = 200
"""Runs that a look takes; worlds that are not trained yet are named with it."""
SOLVED: Final = 0.5
"""The share of its last training episodes in which a run without a threshold has to succeed to count as solved."""


def train(case: Case, seeds: int, folder: Path, *, near: bool = False) -> None:
    """Runs of a world, in a folder of their own, which is there once all of them have ended."""
    begun = folder.with_name(folder.name + ".begun")
    shutil.rmtree(begun, ignore_errors=True)
    ppo = {"name": "ppo", "n_steps": 128, "batch_size": 256, "n_epochs": 6, "learning_rate": 1e-3, "ent_coef": 0.01}
    config = {
        "name": "World",
        "env": {"id": "World", "n_envs": 8},
        "algo": case.algo if "name" in case.algo else {**ppo, **case.algo},
        "spec": dict(case.spec),
        "run": {"max_env_steps": case.env_steps, "eval_every_env_steps": 3_072, "eval_episodes": 10},
    }
    make = partial(case.make, **{**case.options, "near": near})
    rlclinic.train(config, env=make, seeds=list(range(seeds)), runs_dir=str(begun))
    begun.rename(folder)


def ask(case: Case, folder: Path) -> list[dict[str, Any]]:
    """Of each run of a world: whether it was solved, and what `explore` says of it alone."""
    found = []
    for run in Store(folder).runs():
        read = history.of_run(run)
        said = exploration.assess([read])
        rate = read.series.get("train/roll/success_rate")
        often = rate is not None and len(rate) > 0 and float(rate.values[-1]) >= SOLVED
        solved = arrived(measure_history(read)) or often
        found.append({"case": case.name, "solved": bool(solved), "said": said.verdict, "reason": said.reason})
    return found


def _slug(case: Case) -> str:
    return re.sub(r"\W+", "-", case.name)


def main() -> None:
    """Measure, and save the rows as benchmarks/results/exploration.json."""
    parser = provenance.parser(__doc__)
    parser.add_argument("--look", metavar="WHY", help="look at what is said of the runs, and record it")
    parser.add_argument(
        "--set", choices=list(SETS), default=list(SETS)[-1], help="which worlds; those of one set were all drawn before its first look"
    )
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--again", action="store_true", help="forget what is kept of earlier calls")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no world after so many")
    args = parser.parse_args()
    until = time.monotonic() + args.seconds
    drawn = SETS[args.set]
    kept = provenance.SCRATCH / f"assessment-{args.set}{'-quick' if args.quick else ''}"
    if args.again or args.quick:
        shutil.rmtree(kept, ignore_errors=True)
    seeds = 1 if args.quick else SEEDS
    if args.verify:
        for case in (each for each in drawn if each.label == "bottleneck"):
            begun = replace(case, options={**case.options, "flagged": True}, spec=SUCCESS, env_steps=2 * case.env_steps)
            if not (folder := kept / f"{_slug(case)}-near").exists():
                train(begun, min(seeds, 2), folder, near=True)
            runs = ask(case, folder)
            print(f"{sum(run['solved'] for run in runs)} of {len(runs)} solved from anywhere on the way: {case.name}", flush=True)
        return
    cases: Sequence[Case] = drawn[::9] if args.quick else drawn
    for case in cases:
        if (kept / _slug(case)).exists() or time.monotonic() > until:
            continue
        started = time.process_time()
        train(case, seeds, kept / _slug(case))
        print(f"trained: {case.name} ({time.process_time() - started:.0f} s)", flush=True)  # what is said of it is for the look
    missing = {case.name for case in cases if not (kept / _slug(case)).exists()}
    if not (args.look or args.quick):
        print(f"{len(missing)} worlds are missing; nothing was looked at")
        return
    cases = tuple(case for case in cases if case.name not in missing)
    runs = [run for case in cases for run in ask(case, kept / _slug(case))]
    if len(runs) < FEWEST and not args.quick:
        print(f"{len(runs)} runs: a look takes {FEWEST}")
        return
    labels = {case.name: case.label for case in drawn}
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
        looks.append({"look": len(looks) + 1, "set": args.set, "why": args.look, **summary, "worlds_not_trained": sorted(missing)})
        LOOKS.write_text(json.dumps(looks, indent=1) + "\n")
    rows: list[dict[str, Any]] = [
        {
            "what": f"explore on {len(runs)} runs of worlds held out, {args.set} set: precision of BOTTLENECK",
            "unit": f"% of {len(said)}",
            "value": round(100 * len(right) / max(len(said), 1), 1),
            "better": "higher",
            "bar": 95,
            "stretch": 99,
        },
        {
            "what": f"explore on {len(runs)} runs of worlds held out, {args.set} set: recall of BOTTLENECK",
            "unit": f"% of {len(hard)}",
            "value": round(100 * len(right) / max(len(hard), 1), 1),
            "better": "higher",
            "bar": 85,
            "stretch": 95,
        },
    ]
    print(
        provenance.write(
            "exploration",
            rows,
            provenance.provenance(f"python -m benchmarks.exploration.assessment --set {args.set} --look WHY"),
            args.quick,
        )
    )


if __name__ == "__main__":
    main()
