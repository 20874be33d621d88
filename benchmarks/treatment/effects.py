"""The starting table of learned effects: every finished trial of the given stores, as rlclinic/treatment/effects.json.

    python -m benchmarks.treatment.effects RUNS_DIR [RUNS_DIR ...]

Trials that were made without a diagnosis count for their change only. A trial that is in several stores counts once.
"""

import argparse
from pathlib import Path

from rlclinic.runs import trials
from rlclinic.runs.store import Store
from rlclinic.treatment import effects

OUT = Path(__file__).resolve().parents[2] / "rlclinic" / "treatment" / "effects.json"


def gathered(folders: list[Path]) -> list[effects.Outcome]:
    """Outcomes of all finished trials, each once, in a fixed order."""
    found = {(each.trial, each.cause, str(sorted(each.changes.items()))): each for folder in folders for each in of_store(folder)}
    return [found[key] for key in sorted(found)]


def of_store(folder: Path) -> list[effects.Outcome]:
    """Outcomes of one folder of runs."""
    return [outcome for trial in trials.trials(Store(folder)) for outcome in effects.of_trial(trial)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="folders that hold runs and @trials")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    found = gathered(args.folders)
    about = "What recorded trials of a change showed. Made by: python -m benchmarks.treatment.effects RUNS_DIR ..."
    effects.write(args.out, found, about)
    print(f"{len(found)} outcomes of {len({each.trial for each in found})} trials: {args.out}")


if __name__ == "__main__":
    main()
