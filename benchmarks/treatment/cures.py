"""Do prescriptions cure? Sixty sick groups are diagnosed, prescribed for, and trained again (benchmarks/treatment/cells.py).

    python -m benchmarks.treatment.cures plan PLAN.json [--split fit --count 40 --seeds 4]   what is prescribed, and the arms
    python -m benchmarks.treatment.cures train [PLAN.json RUNS.jsonl] --gpu 5 --cpu 11       trains the arms; goes on where it was
    python -m benchmarks.treatment.cures measure [PLAN.json RUNS.jsonl]                      the figures, from what was trained

`train` needs nothing but the plan: it can run on another machine. Arms that differ in numbers only share a cohort, and large
cohorts go to the GPU. Clean, sick and first prescriptions come first, so that a time limit leaves whole cells.
"""

import argparse
import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.diagnosis import cells as corpus_cells
from benchmarks.diagnosis import packing, record
from benchmarks.diagnosis.corpus import Group
from benchmarks.diagnosis.environments import buoy, docking
from benchmarks.treatment import cells, cured
from benchmarks.treatment.cells import Arm

FOLDER: Final = Path(__file__).parent
PLAN, RUNS = FOLDER / "cures_plan.json.gz", FOLDER / "cures_runs.jsonl.gz"
"""The sixty, as they were prescribed for and trained."""


def planned(groups: Sequence[Group], seeds: Sequence[int]) -> dict[str, Any]:
    """What is prescribed for each cell, and every arm once."""
    known: dict[str, Arm] = {}
    rows = []
    for group in groups:
        given = cells.prescriptions(group)
        made = cells.arms(group, given)
        known |= {arm.key: arm for arm in made.values()}
        rows.append(
            {
                "id": group.id,
                "causes": list(group.causes),
                "task": group.about["task"],
                "scores": cells.sick(group).faults[0].scores,
                "arms": {name: arm.key for name, arm in made.items()},
                "rx": [rx.model_dump(mode="json", include={"number", "cause", "title", "changes", "rationale"}) for rx in given],
            }
        )
    return {"seeds": list(seeds), "cells": rows, "arms": {key: arm.record() for key, arm in known.items()}}


def cohorts(plan: dict[str, Any], names: Sequence[str], trained: set[str]) -> list[list[Any]]:
    """The arms of these names that are not trained yet, as cohorts: the longest first."""
    wanted = {cell["arms"][name] for cell in plan["cells"] for name in names if name in cell["arms"]} - trained
    seeds = plan["seeds"][: cells.BASELINE_SEEDS] if set(names) <= set(cells.STAGES[-1]) else plan["seeds"]
    made = [Arm.of(plan["arms"][key]).cell(key, seeds) for key in sorted(wanted)]
    return sorted(corpus_cells.cohorts(made), key=record.cost, reverse=True)


def rows_of(entries: Iterable[packing.Entry]) -> list[dict[str, Any]]:
    """What is kept of each run: its evaluations, and what a random policy gets."""
    return [{"arm": entry.about["labels"][0], **cured.kept(run)} for entry in entries for run in entry.runs]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The runs of a file; a last line that was cut off is left out."""
    if not path.exists():
        return []
    lines = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode().split("\n")
    return [json.loads(line) for line in lines[:-1] if line]


def read_plan(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return found


def write_packed(path: Path, text: str) -> None:
    """In one step, and with no time stamp inside: the same content is the same file."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text.encode())
    temporary.replace(path)


def train(asked: argparse.Namespace) -> None:
    docking.register()
    buoy.register()
    plan = read_plan(asked.plan)
    # A cohort is written down when all of it has ended, so an arm is there with all of its seeds, or not at all.
    rows = read_lines(asked.runs)
    trained = {row["arm"] for row in rows}
    jobs: list[list[Any]] = []
    for names in [asked.arms] if asked.arms else cells.STAGES:
        jobs += cohorts(plan, names, trained)
        trained |= {cell["arms"][name] for cell in plan["cells"] for name in names if name in cell["arms"]}
    print(f"{len(jobs)} cohorts, {sum(len(cell.seeds) for job in jobs for cell in job)} runs", flush=True)

    def keep(entries: list[packing.Entry]) -> None:
        rows.extend(rows_of(entries))
        write_packed(asked.runs, "".join(json.dumps(row) + "\n" for row in rows))

    record.run(jobs, asked.gpu, asked.cpu, asked.seconds, keep)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    plan = verbs.add_parser("plan")
    plan.add_argument("plan", type=Path)
    plan.add_argument("--split", choices=["fit", "test"], default="test")
    plan.add_argument("--count", type=int, default=cells.COUNT)
    plan.add_argument("--seeds", type=int, default=len(cells.SEEDS))
    trainer = verbs.add_parser("train")
    trainer.add_argument("plan", type=Path, nargs="?", default=PLAN)
    trainer.add_argument("runs", type=Path, nargs="?", default=RUNS)
    trainer.add_argument("--arms", nargs="*", choices=cells.ARMS)
    trainer.add_argument("--gpu", type=int, default=0, help="processes on the GPU; 0: everything on the CPU")
    trainer.add_argument("--cpu", type=int, default=2)
    trainer.add_argument("--seconds", type=float, default=3600.0)
    measure = verbs.add_parser("measure")
    measure.add_argument("plan", type=Path, nargs="?", default=PLAN)
    measure.add_argument("runs", type=Path, nargs="?", default=RUNS)
    measure.add_argument("--by-cell", action="store_true")
    asked = parser.parse_args()
    if asked.verb == "plan":
        first = cells.SEEDS[0] if asked.split == "test" else cells.SEEDS[0] - 1_000
        made = planned(cells.treatable(asked.split)[: asked.count], range(first, first + asked.seeds))
        write_packed(asked.plan, json.dumps(made))
        runs = len(made["arms"]) * len(made["seeds"])
        print(f"{asked.plan}: {len(made['cells'])} cells, {len(made['arms'])} arms, {runs} runs")
    elif asked.verb == "train":
        train(asked)
    else:
        cured.report(read_plan(asked.plan), read_lines(asked.runs), asked.by_cell, keep=asked.plan == PLAN)


if __name__ == "__main__":
    main()
