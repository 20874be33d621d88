"""Growth charts of healthy runs: `python -m benchmarks.diagnosis.growth` writes rlclinic/diagnosis/forecast/growth.json.

Healthy are runs of the corpus in which nothing was planted and which reached their threshold. They are used to say where a
run lies among others, never to find causes.
"""

import argparse
import json
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from benchmarks.diagnosis import packing
from rlclinic.config.files import available
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.forecast import growth
from rlclinic.runs.history import History

CORPUS = Path(__file__).parent / "corpus"


def healthy_runs() -> Iterable[History]:
    """Of the corpus: nothing planted, threshold reached."""
    for file in sorted(CORPUS.glob("*.npz")):
        for entry in packing.load(file):
            if entry.about.get("causes") == ["healthy"]:
                yield from entry.runs


def folder_runs(folder: Path) -> Iterable[History]:
    """Of a folder of runs, all that reached their threshold."""
    from rlclinic.runs import history
    from rlclinic.runs.store import Store

    return (history.of_run(run) for run in Store(folder).runs() if not run.status.live)


def charts(runs: Iterable[History]) -> dict[str, Any]:
    """By environment and algorithm, for environments that have a shipped variant."""
    known = {each.env for each in available() if each.shipped}
    found: dict[tuple[str, str], list[History]] = {}
    for run in runs:
        # Made with other kwargs, an environment is another one than the name says.
        usual = run.env_id in known and not run.settings.get("env.kwargs")
        if usual and run.env_id is not None and run.algo is not None and Case(run).solved_at is not None:
            found.setdefault((run.env_id, run.algo), []).append(run)
    made = {}
    for (env, algo), group in sorted(found.items()):
        chart = growth.of_runs(env, algo, group)
        if chart is not None:
            made[f"{env}:{algo}"] = {"runs": chart.runs, "steps": list(chart.steps), "levels": [list(row) for row in chart.levels]}
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, help="a folder of runs to use instead of the corpus")
    asked = parser.parse_args()
    made = charts(folder_runs(asked.runs) if asked.runs else healthy_runs())
    about = "Quantiles of the training return by env steps over healthy runs; written by python -m benchmarks.diagnosis.growth"
    text = json.dumps({"about": about, "quantiles": growth.QUANTILES, "charts": made})
    target = Path(str(files("rlclinic.diagnosis") / "growth.json"))
    target.write_text(text.replace("}, ", "},\n ").replace("], [", "],\n  [") + "\n")
    for name, chart in made.items():
        print(f"{name}: {chart['runs']} runs, to {chart['steps'][-1]:,.0f} env steps")


if __name__ == "__main__":
    main()
