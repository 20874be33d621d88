"""`python -m tests.diagnosis.record [NAME ...]`: train the recipes again (all, or those named) and write cases/<name>.npz."""

import argparse
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from rlclinic.config import files
from rlclinic.runs import history
from rlclinic.runs.store import Store
from tests.diagnosis import recorded
from tests.diagnosis.recipes import RECIPES, Recipe
from tests.mutations import bugs, replay_bugs


def record(recipe: Recipe, runs_dir: Path) -> int:
    """Train one group and write its compact case; the bytes it takes."""
    from rlclinic.training.__main__ import train_runs

    config = files.load(recipe.ref, list(recipe.changes)).config
    seeds = range(recipe.first_seed, recipe.first_seed + recipe.seeds)
    group = Store(runs_dir).create_group([config.model_copy(update={"seed": seed}) for seed in seeds])
    bug = next((bug for bug in (*bugs.BUGS, *replay_bugs.BUGS) if bug.id == recipe.bug), None)
    if bug is None:
        train_runs(group.runs)
    else:
        with bugs.planted(bug):
            train_runs(group.runs)
    found = [replace(history.of_run(run), id=f"{recipe.name}-s{run.seed}") for run in group.runs]
    return recorded.save(recipe.name, {**asdict(recipe), "command": recipe.command}, found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="recipes; all without any")
    wanted = parser.parse_args().names
    with tempfile.TemporaryDirectory() as folder:
        for recipe in RECIPES:
            if not wanted or recipe.name in wanted:
                print(f"{recipe.name}: {record(recipe, Path(folder)):,} bytes", flush=True)


if __name__ == "__main__":
    main()
