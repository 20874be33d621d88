"""Forecasts of runs in training: are the probabilities right, how early is a doomed run flagged, how often is a good one stopped?

python -m benchmarks.diagnosis.forecast          measure, on environments, severities and seeds that were not fitted on
python -m benchmarks.diagnosis.forecast --fit    fit again first, and write rlclinic/diagnosis/forecast/forecast.json

Beside it stands the constant-rate baseline: a straight line from the start through now, scored by a logistic curve that was
fitted on the same runs; it calls a run doomed by the same rule (lying low, below a level set on the same fit runs). Two medians say
when doomed runs are flagged: over all runs that missed, near misses included, and over those that never came half way; a run that
is never flagged counts as flagged at the end. What could be known is measured beside it: the forecasts that runs that missed had
at 30 % of their budget, and how many of them had come half way by then.
"""

import argparse
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import provenance
from benchmarks.diagnosis import forecast_fit, packing
from benchmarks.diagnosis.forecast_fit import Looks, Vector, probabilities
from rlclinic.diagnosis.forecast.features import FEATURES, POLICY
from rlclinic.diagnosis.forecast.model import SETTLED, Model
from rlclinic.runs.history import History

COMMAND = "python -m benchmarks.diagnosis.forecast"
CORPUS = Path(__file__).parent / "corpus"
HALF_WAY = 0.5
STAGES = ((0.05, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.0))

Cells = Iterable[tuple[str, Sequence[History]]]


def corpus_cells(split: str) -> Iterator[tuple[str, Sequence[History]]]:
    """The corpus's groups of a split."""
    for file in sorted(CORPUS.glob("*.npz")):
        for entry in packing.load(file):
            if entry.about.get("split") == split:
                yield entry.about["id"], entry.runs


def folder_cells(folder: Path) -> Iterator[tuple[str, Sequence[History]]]:
    """Groups of a folder of runs."""
    from rlclinic.runs import history
    from rlclinic.runs.store import Store

    for group in Store(folder).groups():
        yield group.id, [history.of_run(run) for run in group.runs if not run.status.live]


# ── measuring ──


def measure(data: Looks, p: Vector, below: float, *, alone: bool = False) -> dict[str, Any]:
    """Brier score, calibration error by stage of the run, and what stopping doomed runs would have done. alone: without siblings."""
    flags = forecast_fit.flagged(data, p, below, forecast_fit.low(data, alone=alone))
    made_it, missed = sorted(set(data.run[data.reached == 1])), sorted(set(data.run[data.reached == 0]))
    wrong = sum(run in flags for run in made_it)
    best = {run: float(data.rows[data.run == run, FEATURES.index("covered")].max()) for run in missed}
    shares = [flags.get(run, 1.0) for run in missed]
    far = [flags.get(run, 1.0) for run in missed if best[run] < HALF_WAY]
    stages = {
        f"{low:.0%}-{high:.0%}": {
            "looks": int(here.sum()),
            "brier": _round(np.mean((p[here] - data.reached[here]) ** 2)),
            "calibration_error": _round(calibration_error(p[here], data.reached[here])),
        }
        for low, high in STAGES
        if (here := (data.used >= low) & (data.used < high)).any()
    }
    return {
        "runs_that_made_it": len(made_it),
        "runs_that_missed": len(missed),
        "brier": _round(np.mean((p - data.reached) ** 2)),
        "calibration_error": _round(calibration_error(p, data.reached)),
        "stages": stages,
        "doomed_below": below,
        "wrong_stops": wrong,
        "wrong_stop_share": _round(wrong / max(len(made_it), 1)),
        "wrong_stop_wilson": [_round(bound) for bound in wilson(wrong, len(made_it))],
        "doomed_flagged": sum(run in flags for run in missed),
        "missed_median_share": _round(np.median(shares)) if shares else None,
        "never_half_way": len(far),
        "doomed_median_share": _round(np.median(far)) if far else None,
        "flagged_that_made_it": _round(wrong / max(len(flags), 1)),
        **_at_30(data, p),
    }


def _at_30(data: Looks, p: Vector) -> dict[str, float | None]:
    """Of the runs that missed and are looked at when 30 % of the budget is used: how many looked as if they would make it."""
    here = (data.reached == 0) & np.isclose(data.used, SETTLED)
    covered = data.rows[here, FEATURES.index("covered")]
    found = {"missed_likely_at_30": p[here] >= HALF_WAY, "missed_half_way_at_30": covered >= HALF_WAY}
    return {name: _round(np.mean(value)) if len(value) else None for name, value in found.items()}


def calibration_error(p: Vector, happened: Vector, bins: int = 10) -> float:
    """Mean distance between forecast and frequency, over bins of equal width, weighted by how many fell into each."""
    place = np.minimum((p * bins).astype(int), bins - 1)
    gaps = [abs(p[place == each].mean() - happened[place == each].mean()) * (place == each).mean() for each in set(place)]
    return float(sum(gaps))


def wilson(successes: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    if not count:
        return 0.0, 1.0
    share, square = successes / count, z * z / count
    middle, half = share + square / 2, z * math.sqrt(share * (1 - share) / count + square / (4 * count))
    return max((middle - half) / (1 + square), 0.0), min((middle + half) / (1 + square), 1.0)


def _round(value: Any) -> float:
    return round(float(value), 4)


def baseline(fit: Looks, test: Looks) -> tuple[Vector, float]:
    """The constant-rate forecast for the test looks, and the level below which it calls a run doomed."""

    def design(data: Looks) -> Vector:
        line = np.clip(data.constant_rate, -1.0, 2.0)
        return np.stack([np.ones(len(data)), line, data.used, line * data.used], axis=1)

    weights = forecast_fit.logistic(design(fit), fit.reached, forecast_fit.balance(fit), 0.1)

    def chance(data: Looks) -> Vector:
        return np.asarray(1 / (1 + np.exp(-design(data) @ weights)), dtype=np.float64)

    p, lies = chance(fit), forecast_fit.low(fit)
    return chance(test), forecast_fit.doomed_level(fit, lambda below: forecast_fit.flagged(fit, p, below, lies))


def left_out(data: Looks) -> dict[str, dict[str, Any]]:
    """By environment: measured with everything fitted on the others."""
    found = {}
    for env in sorted(set(data.env)):
        model = forecast_fit.fit(data.where(data.env != env))
        here = data.where(data.env == env)
        found[env] = measure(here, probabilities(here, model), model.doomed_below)
    return found


# ── the command ──


def table(name: str, found: dict[str, Any]) -> str:
    """One line of the printed table."""
    low, high = found["wrong_stop_wilson"]
    far, missed = ("–" if value is None else f"{value:.0%}" for value in (found["doomed_median_share"], found["missed_median_share"]))
    return (
        f"{name:<36} Brier {found['brier']:.3f}  calibration {found['calibration_error']:.3f}  "
        f"wrong stops {found['wrong_stops']}/{found['runs_that_made_it']} [{low:.1%}, {high:.1%}]  "
        f"flagged at {far} of the budget ({found['never_half_way']} never half way), {missed} (all {found['runs_that_missed']} that missed)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", action="store_true", help="fit again and write rlclinic/diagnosis/forecast/forecast.json")
    parser.add_argument("--runs", type=Path, help="a folder of runs to fit on instead of the corpus; nothing is measured")
    asked = parser.parse_args()
    target = Path(str(files("rlclinic.diagnosis") / "forecast.json"))
    fit = forecast_fit.looks(folder_cells(asked.runs) if asked.runs else corpus_cells("fit"))
    if asked.fit:
        made = forecast_fit.fit(fit)
        target.write_text(json.dumps(forecast_fit.record(made, fit, sorted(set(fit.env))), indent=1) + "\n")
    if asked.runs is None:
        report(fit, forecast_fit.looks(corpus_cells("test")), Model.read(json.loads(target.read_text())))


def report(fit: Looks, test: Looks, model: Model) -> None:
    """Measure, print, and write benchmarks/results/forecast.json."""
    p = probabilities(test, model)
    line, level = baseline(fit, test)
    unseen = np.array([env not in set(fit.env) for env in test.env])
    rows = test.rows.copy()
    rows[:, [place for place, name in enumerate(FEATURES) if name in POLICY]] = np.nan
    blind = replace(test, rows=rows)
    found = {
        "forecast": measure(test, p, model.doomed_below),
        "constant rate": measure(test, line, level),
        "forecast, unseen environments": measure(test.where(unseen), p[unseen], model.doomed_below),
        "constant rate, unseen environments": measure(test.where(unseen), line[unseen], level),
        "forecast, each run by itself": measure(test, probabilities(test, model, alone=True), model.doomed_below, alone=True),
        "forecast, returns only": measure(test, probabilities(blind, model), model.doomed_below),
        **{f"fitted without {env}": each for env, each in left_out(fit).items()},
    }
    for name, each in found.items():
        print(table(name, each))
    print(provenance.write("forecast", rows_of(found), provenance.provenance(COMMAND), quick=False))


def rows_of(found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The page's rows; each way to forecast has one of its own, with everything that was measured."""
    ours = found["forecast"]
    low, high = (100 * bound for bound in ours["wrong_stop_wilson"])

    def row(
        what: str, value: float, unit: str = "%", bar: float | None = None, stretch: float | None = None, **more: Any
    ) -> dict[str, Any]:
        return {"what": what, "value": value, "unit": unit, "better": "lower", "bar": bar, "stretch": stretch, **more}

    return [
        row(
            "doomed runs (all that missed the threshold, however closely): budget used when flagged, median",
            100 * ours["missed_median_share"],
            bar=30,
            stretch=15,
            n=ours["runs_that_missed"],
        ),
        row(
            "those that never came half way to the threshold: the same median", 100 * ours["doomed_median_share"], n=ours["never_half_way"]
        ),
        row("runs that made it but would have been stopped", 100 * ours["wrong_stop_share"], bar=2, stretch=0.5, interval=[low, high]),
        row("calibration error of the forecast", 100 * ours["calibration_error"]),
        row("runs that missed: forecast of at least 50 % when 30 % of the budget was used", 100 * ours["missed_likely_at_30"]),
        row("runs that missed: half way to the threshold by then", 100 * ours["missed_half_way_at_30"]),
        *(row(f"Brier score: {name}", 100 * each["brier"], details=each) for name, each in found.items()),
    ]


if __name__ == "__main__":
    main()
