"""`python -m benchmarks.treatment.environment_cures`: does the first prescription cure faults of environments that a wrapper can undo?

A fault is planted in worlds, the group is trained and diagnosed, and its first prescription that a trial can try is trained with fresh
seeds, the fault still in the environment, beside the sick settings and the clean environment with the same seeds. Restored and harmful are
those of benchmarks.treatment.cured. Which causes count as undoable was written down before any was tried.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks import provenance
from benchmarks.diagnosis import cells as corpus_cells
from benchmarks.diagnosis import packing, record
from benchmarks.diagnosis.faults import Fault
from benchmarks.diagnosis.measure import wilson
from benchmarks.diagnosis.worlds import cells, native
from benchmarks.treatment.cured import Judged, Trained
from rlclinic.config.overrides import set_values
from rlclinic.diagnosis import engine
from rlclinic.runs.history import History
from rlclinic.treatment.prescription.prescribe import make_prescriptions

UNDOABLE: Final = (
    "observation-scale", "observation-partial", "reward-scale-too-large", "reward-scale-too-small", "reward-sign", "reward-shifted",
    "episode-too-short", "action-bounds",
)  # fmt: skip
FRESH: Final = (900, 901, 902, 903)
RETURN: Final = "val/roll/ep_rew_mean"


def choose(part: str, most: int, worlds: Sequence[str]) -> list[cells.WorldCell]:
    """Cells with one undoable fault, spread over worlds and causes."""
    found = [
        cell
        for cell in cells.all_cells(part)
        if len(cell.faults) == 1 and cell.faults[0].cause in UNDOABLE and (not worlds or cell.task.id in worlds)
    ]
    found.sort(key=lambda cell: (int(cell.task.id.rpartition("-")[2]), cell.faults[0].cause, cell.task.id))
    return found[:most]


def train(jobs: Sequence[cells.WorldCell], cpu: int, seconds: float) -> dict[str, list[History]]:
    """Runs by the cell's id, with their thresholds."""
    entries: list[packing.Entry] = record.run(corpus_cells.cohorts(list(jobs)), 0, cpu, seconds)
    by_id = {cell.id: cell for cell in jobs}
    return {str(entry.about["id"]): [cells.with_threshold(by_id[str(entry.about["id"])], run) for run in entry.runs] for entry in entries}


def prescribe(cell: cells.WorldCell, runs: Sequence[History]) -> dict[str, Any]:
    """The changes of the first prescription that a trial can try; {} if there is none, or nothing was found to be wrong."""
    found = engine.diagnose(list(runs))
    if found.causes[0].calm:
        return {}
    for rx in make_prescriptions(found, list(runs), cell.config):
        if rx.changes and rx.trialable:
            return dict(rx.changes)
    return {}


def score(runs: Sequence[History], floor: float, top: float) -> Trained:
    """0 at what a random policy gets, 1 at the clean arm; and steps to the threshold."""
    scores, steps = [], []
    for run in runs:
        series = run.series.get(RETURN)
        values = np.zeros(0) if series is None else np.asarray(series.values, dtype=float)
        late = values[-max(1, len(values) // 4) :]
        scores.append(max(0.0, (float(late.mean()) - floor) / max(top - floor, 1e-9)) if len(late) and run.state != "failed" else 0.0)
        passed = np.flatnonzero(values >= (np.inf if run.threshold is None else run.threshold))
        steps.append(float(series.steps[passed[0]]) if series is not None and len(passed) else np.inf)
    return Trained(tuple(scores), tuple(steps))


def late_return(runs: Sequence[History]) -> float:
    ends = [np.asarray(run.series[RETURN].values, dtype=float)[-4:].mean() for run in runs if RETURN in run.series]
    return float(np.mean(ends)) if ends else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="held_out", choices=["fit", "held_out", "reserve"])
    parser.add_argument("--most", type=int, default=80)
    parser.add_argument("--worlds", default="")
    parser.add_argument("--cpu", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1200.0, help="for each of the two rounds of training")
    parser.add_argument("--recorded", type=Path, help="sick groups that were trained already, a file of benchmarks.diagnosis.worlds.record")
    asked = parser.parse_args()
    native.register()
    chosen = choose(asked.part, asked.most, [name for name in asked.worlds.split(",") if name])
    if asked.recorded:
        stored = {str(entry.about["id"]): list(entry.runs) for entry in packing.load(asked.recorded)}
        sick = {cell.id: stored[cell.id] for cell in chosen if cell.id in stored}
    else:
        sick = train(chosen, asked.cpu, asked.seconds)
    arms: list[tuple[cells.WorldCell, str, cells.WorldCell]] = []
    patches = {}
    for cell in chosen:
        if cell.id not in sick:
            continue
        patches[cell.id] = changes = prescribe(cell, sick[cell.id])
        # One clean arm for all faults of a world, in the units of its own reward.
        healthy = (Fault("healthy", "clean", "test"),)
        own = round(cell.threshold / cell.faults[0].scores, 6)
        clean = replace(cell, config=cell.task.config, faults=healthy, seeds=FRESH, threshold=own)
        arms += [(cell, "control", replace(cell, seeds=FRESH)), (cell, "clean", clean)]
        if changes:
            patched = set_values(cell.config, [f"{name}={json.dumps(value)}" for name, value in changes.items()])
            arms.append((cell, "rx1", replace(cell, config=patched, seeds=FRESH, faults=(replace(cell.faults[0], label="rx1"),))))
    started = time.perf_counter()
    trained = train(list({arm.id: arm for _, _, arm in arms}.values()), asked.cpu, asked.seconds)
    rows: list[dict[str, Any]] = []
    for cell in chosen:
        runs = {name: trained[arm.id] for owner, name, arm in arms if owner is cell and arm.id in trained}
        if not {"control", "clean"} <= runs.keys() or (patches.get(cell.id) and "rx1" not in runs):
            continue
        # The environment's own units: a fault that scales rewards scales what is good by the same factor.
        factor = cell.faults[0].scores
        random = [run.series["train/sentinel/random_return"].values[0] for run in runs["clean"]]
        floor, top = float(np.mean(random)) * factor, late_return(runs["clean"]) * factor
        judged = Judged(
            {},
            {
                name: score(each, floor, top) if name != "clean" else score(each, floor / factor, top / factor)
                for name, each in runs.items()
            },
        )
        hurt = "rx1" in runs and judged.harmful("rx1")
        ill = judged.arms["control"].level < 0.9
        levels = {name: round(arm.level, 3) for name, arm in judged.arms.items()}
        rows.append(
            {"id": cell.id, "changes": patches[cell.id], "sick": ill, "cured": judged.restored("rx1"), "harmful": hurt, "levels": levels}
        )
        print(json.dumps(rows[-1]), flush=True)
    sick_rows = [row for row in rows if row["sick"]]
    cured, harmful = sum(row["cured"] for row in sick_rows), sum(row["harmful"] for row in rows)
    rated = [
        _rate("cured by the first prescription", cured, len(sick_rows), 70.0, "higher"),
        _rate("harmed", harmful, len(rows), 2.0, "lower"),
    ]
    print(json.dumps(rated), f"{time.perf_counter() - started:.0f} s")
    if asked.part == "held_out":
        command = f"python -m benchmarks.treatment.environment_cures --part {asked.part} --most {asked.most}"
        path = provenance.write("environment_cures", rated, provenance.provenance(command), quick=False)
        path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "groups": rows}, indent=1) + "\n", "utf-8")


def _rate(what: str, hits: int, count: int, bar: float, better: str) -> dict[str, Any]:
    """A row of the results' table, in percent."""
    share = wilson(hits, count)
    return {
        "what": f"environment faults that a wrapper can undo, held-out families: {what}",
        "unit": "%",
        "better": better,
        "bar": bar,
        "stretch": None,
        "value": round(100 * share["share"], 2),
        "interval": [round(100 * share[end], 2) for end in ("low", "high")],
        "n": count,
    }


if __name__ == "__main__":
    main()
