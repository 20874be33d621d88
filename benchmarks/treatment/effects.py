"""The starting table of learned effects (recorded_effects.json): what was measured of each change, one outcome per trial.

    python -m benchmarks.treatment.effects [RUNS_DIR ...]

From the development cells of the treatment benchmark (sick groups of the corpus' fit split, each prescription trained on four
fresh seeds, against the corpus' own sick runs), and from every finished trial of the stores that are named. Trials that were made
without a diagnosis count for their change only. A trial that is in several stores counts once.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.diagnosis.cells import Cell
from benchmarks.treatment import cells, cured, cures
from rlclinic.runs import trials
from rlclinic.runs.store import Store
from rlclinic.treatment.prescription import recorded_effects

OUT = Path(__file__).resolve().parents[2] / "rlclinic" / "treatment" / "prescription" / "recorded_effects.json"
ENOUGH = 30
"""Outcomes from which on the width of intervals is taken from them."""
PLAN, RUNS = cures.FOLDER / "development_plan.json.gz", cures.FOLDER / "development_runs.jsonl.gz"


def gathered(folders: Sequence[Path], more: Sequence[recorded_effects.RecordedOutcome] = ()) -> list[recorded_effects.RecordedOutcome]:
    """Outcomes of all finished trials, each once, in a fixed order."""
    everything = [*more, *(each for folder in folders for each in of_store(folder))]
    found = {(each.trial, each.cause, str(sorted(each.changes.items()))): each for each in everything}
    return [found[key] for key in sorted(found)]


def of_store(folder: Path) -> list[recorded_effects.RecordedOutcome]:
    """Outcomes of one folder of runs."""
    return [outcome for trial in trials.trials(Store(folder)) for outcome in recorded_effects.of_trial(trial)]


def of_cells(plan: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> list[recorded_effects.RecordedOutcome]:
    """Outcomes of the cells of a plan: each prescription that was trained, against the recorded sick runs."""
    by_arm: dict[str, list[Mapping[str, Any]]] = {}
    for row in runs:
        by_arm.setdefault(row["arm"], []).append(row)
    groups = {group.id: group for split in ("fit", "test") for group in cells.treatable(split)}
    found = []
    for cell in plan["cells"]:
        group = groups[cell["id"]]
        for rx in cell["rx"]:
            treated = by_arm.get(cell["arms"].get(f"rx{rx['number']}", ""))
            outcome = (
                _outcome(f"{cell['id']} rx{rx['number']}", rx, treated, [cured.kept(run) for run in group.runs], cells.sick(group))
                if treated
                else None
            )
            if outcome is not None:
                found.append(outcome)
    return found


def _outcome(
    trial: str, rx: Mapping[str, Any], treated: Sequence[Mapping[str, Any]], control: Sequence[Mapping[str, Any]], cell: Cell
) -> recorded_effects.RecordedOutcome | None:
    threshold = cell.config.spec.threshold
    share = cured.closed(treated, control, threshold) if threshold is not None else None
    if share is None:
        return None
    value, low, high = (None if end is None else float(f"{end:.4g}") for end in (share.value, share.low, share.high))
    return recorded_effects.RecordedOutcome(
        trial=f"corpus {trial}",
        cause=rx["cause"],
        changes=recorded_effects.directions(cell.config, rx["changes"]),
        env_id=cell.config.env.id,
        algo=cell.config.algo.name,
        measure="return",
        value=value if value is not None else 0.0,
        low=low,
        high=high,
        adopted=low is not None and low > 0,
        seeds=len(treated),
    )


def calibrated(outcomes: Sequence[recorded_effects.RecordedOutcome]) -> dict[str, float]:
    """By measure: the deviations to each side that hold four of five outcomes, each forecast from all cells but its own."""
    found = {}
    for measure in ("steps", "return"):
        mine = [each for each in outcomes if each.measure == measure]
        apart = [away for each in mine if (away := _apart(each, [other for other in outcomes if _cell(other) != _cell(each)])) is not None]
        if len(apart) >= ENOUGH:
            found[measure] = round(float(np.quantile(apart, 0.8)), 3)
    return found


def _apart(each: recorded_effects.RecordedOutcome, others: Sequence[recorded_effects.RecordedOutcome]) -> float | None:
    """How many deviations an outcome lies from its forecast; None without one."""
    alike = [other for other in others if other.changes == each.changes and other.measure == each.measure]
    own = [other for other in alike if other.cause == each.cause] or alike
    if not own:
        return None
    mean, deviation, _ = recorded_effects.Effects(others).predict(own, each.measure)
    return abs(recorded_effects.scaled(each) - mean) / deviation


def _cell(each: recorded_effects.RecordedOutcome) -> str:
    return each.trial.rpartition(" ")[0] or each.trial


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="folders that hold runs and @trials")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    found = gathered(args.folders, of_cells(cures.read_plan(PLAN), cures.read_lines(RUNS)))
    about = "What recorded trials of a change showed. Made by: python -m benchmarks.treatment.effects"
    recorded_effects.write(args.out, found, about, calibrated(found))
    print(f"{len(found)} outcomes of {len({each.trial for each in found})} trials: {args.out}")


if __name__ == "__main__":
    main()
