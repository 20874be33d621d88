"""What trained arms say of prescriptions: restored or not, harmful or not, as forecast or not, beside two baselines.

A run's score is the mean return of the last quarter of its evaluations: 0 at what a random policy gets (or below, or if the run
failed), 1 at the interquartile mean of the clean runs.

Restored: the interquartile mean of the scores is at least 0.9, or the median of the steps to the threshold is at most 1.2 times
that of the clean arm (a run that never gets there counts as infinite).
Harmful, against the sick arm: the 95 % bootstrap interval of the difference of interquartile means lies below 0, or the
interquartile mean falls by more than 20 % and by more than 0.05.
As forecast: the share of the gap between the sick arm and the threshold that a prescription closed lies within the 80 % interval
of the shipped table of effects, which was made from other cells (benchmarks/treatment/effects.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks import provenance
from benchmarks.diagnosis.corpus import Group
from benchmarks.diagnosis.measure import wilson
from benchmarks.treatment import cells
from rlclinic import stats
from rlclinic.runs.history import History
from rlclinic.treatment.prescription import recorded_effects
from rlclinic.treatment.prescription.recorded_effects import Effects

RETURN: Final = "val/roll/ep_rew_mean"
RESTORED, LATER = 0.9, 1.2
FALLS, LEAST_FALL = 0.2, 0.05
COMMAND: Final = "python -m benchmarks.treatment.cures measure"


@dataclass(frozen=True)
class Trained:
    """The runs of one arm of one cell, on a scale from a random policy to the clean arm."""

    scores: tuple[float, ...]
    steps: tuple[float, ...]
    """To the threshold; infinite where it was never reached."""

    @property
    def level(self) -> float:
        return float(stats.iqm(self.scores))


@dataclass(frozen=True)
class Judged:
    """A cell and what became of each of its arms."""

    cell: Mapping[str, Any]
    arms: Mapping[str, Trained]

    def restored(self, name: str) -> bool:
        """Whether an arm is as good as the clean one. What was not trained cured nothing."""
        arm = self.arms.get(name)
        if arm is None:
            return False
        fast = float(np.median(arm.steps)) <= LATER * float(np.median(self.arms["clean"].steps)) < np.inf
        return arm.level >= RESTORED or fast

    def harmful(self, name: str) -> bool:
        """Whether an arm is worse than the sick one."""
        arm, control = self.arms[name], self.arms["control"]
        high = stats.bootstrap_difference(arm.scores, control.scores).high
        fell = control.level - arm.level
        return (high is not None and high < 0) or (fell > FALLS * control.level and fell > LEAST_FALL)

    @property
    def prescribed(self) -> list[str]:
        return [name for name in ("rx1", "rx2", "rx3") if name in self.arms]


def kept(run: History) -> dict[str, Any]:
    """What is kept of a run: its evaluations, and what a random policy gets."""
    series, random = run.series.get(RETURN), run.series.get("train/sentinel/random_return")
    return {
        "seed": run.seed,
        "state": run.state,
        "steps": [] if series is None else [int(step) for step in series.steps],
        "returns": [] if series is None else [float(f"{value:.6g}") for value in series.values],
        "random": None if random is None or not len(random.values) else float(f"{random.values[0]:.6g}"),
    }


def final(row: Mapping[str, Any]) -> float | None:
    """The mean of the last quarter of a run's evaluations; None if it failed or was never evaluated."""
    returns = row["returns"]
    if row["state"] == "failed" or not returns:
        return None
    return float(np.mean(returns[-max(1, len(returns) // 4) :]))


def reached(row: Mapping[str, Any], threshold: float) -> float:
    """The env step of the first evaluation at the threshold or above."""
    return next((float(step) for step, value in zip(row["steps"], row["returns"], strict=True) if value >= threshold), np.inf)


def closed(treated: Sequence[Mapping[str, Any]], control: Sequence[Mapping[str, Any]], threshold: float) -> stats.Estimate | None:
    """The share of the gap between the sick runs' return and the threshold that a treatment closed; None where there is no gap."""
    known = [row["random"] for row in (*control, *treated) if row["random"] is not None]
    start = float(np.median(known)) if known else 0.0
    after, before = ([start if (value := final(row)) is None else value for row in rows] for rows in (treated, control))
    gap = threshold - float(stats.iqm(before))
    if gap <= 0:
        return None
    found = stats.bootstrap_difference(after, before)
    low, high = (None if end is None else end / gap for end in (found.low, found.high))
    return stats.Estimate(found.value / gap, low, high)


def judged(plan: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> list[Judged]:
    """Every cell of which the clean, the sick and the first prescription's arm were trained."""
    by_arm: dict[str, list[Mapping[str, Any]]] = {}
    for row in runs:
        by_arm.setdefault(row["arm"], []).append(row)
    first = cells.STAGES[0]
    return [
        Judged(cell, _arms(cell, plan, by_arm))
        for cell in plan["cells"]
        if all(cell["arms"][name] in by_arm for name in first if name in cell["arms"])
    ]


def _arms(cell: Mapping[str, Any], plan: Mapping[str, Any], whole: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Trained]:
    clean = whole[cell["arms"]["clean"]]
    start = float(np.median([row["random"] for row in clean]))
    top = float(stats.iqm([start if (value := final(row)) is None else value for row in clean]))
    made = {}
    for name, key in cell["arms"].items():
        if key in whole:
            unit = 1.0 if name == "clean" else cell["scores"]
            ends = [None if (value := final(row)) is None else value / unit for row in whole[key]]
            scores = tuple(0.0 if end is None else max((end - start) / (top - start), 0.0) for end in ends)
            threshold = plan["arms"][key]["config"]["spec"]["threshold"]
            made[name] = Trained(scores, tuple(reached(row, threshold) for row in whole[key]))
    return made


def forecasts(plan: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], table: Effects) -> list[tuple[bool, float]]:
    """Of every prescription that was trained and that the table knows: whether the outcome is in the interval, and its high / low."""
    by_arm: dict[str, list[Mapping[str, Any]]] = {}
    for row in runs:
        by_arm.setdefault(row["arm"], []).append(row)
    found = []
    for cell in plan["cells"]:
        control = cell["arms"]["control"]
        config = cells.Arm.of(plan["arms"][control]).config
        for rx in cell["rx"]:
            arm = cell["arms"].get(f"rx{rx['number']}")
            expected = table.expect(rx["cause"], rx["changes"], config) if arm in by_arm and control in by_arm else None
            if arm is None or expected is None or expected.measure != "return" or config.spec.threshold is None:
                continue
            measured = closed(by_arm[arm], by_arm[control], config.spec.threshold)
            if measured is not None:
                width = expected.high / expected.low if expected.low > 0 else np.inf
                found.append((expected.low <= measured.value <= expected.high, width))
    return found


# ── figures ──


def figures(found: Sequence[Judged]) -> dict[str, Any]:
    """Every measured share, with Wilson's interval."""
    tried = [(each, name) for each in found for name in each.prescribed]
    return {
        "first prescription restores 90 % of the clean return, or the steps within 1.2x": _share(each.restored("rx1") for each in found),
        "one of three prescriptions does": _share(any(each.restored(name) for name in ("rx1", "rx2", "rx3")) for each in found),
        "harmful prescriptions": _share(each.harmful(name) for each, name in tried),
        "harmful first prescriptions": _share(each.harmful("rx1") for each in found if "rx1" in each.arms),
        "no treatment restores it": _share(each.restored("control") for each in found),
        "baseline: a third of the learning rate restores it": _share(each.restored("lower") for each in found if "lower" in each.arms),
        "baseline: reset to defaults restores it": _share(each.restored("defaults") for each in found if "defaults" in each.arms),
    }


LIMITS: Final[dict[str, tuple[float, float, str]]] = {
    "first prescription restores 90 % of the clean return, or the steps within 1.2x": (65, 85, "higher"),
    "one of three prescriptions does": (85, 95, "higher"),
    "harmful prescriptions": (3, 0.5, "lower"),
}


def _share(hits: Iterable[bool]) -> dict[str, Any]:
    seen = list(hits)
    return wilson(sum(seen), len(seen))


def recorded(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """As benchmarks.table reads it."""
    made = []
    for what, value in found.items():
        bar, stretch, better = LIMITS.get(what, (None, None, "lower" if "harmful" in what else "higher"))
        part = (
            {"note": f"only {value['n']} of {cells.COUNT} cells trained"}
            if what.startswith("baseline") and value["n"] < cells.COUNT
            else {}
        )
        made.append(
            {
                "what": what, "unit": "%", "value": 100 * value["share"], "interval": [100 * value["low"], 100 * value["high"]],
                "n": value["n"], "better": better, "bar": bar, "stretch": stretch, **part,
            }
        )  # fmt: skip
    return made


def forecast_rows(found: Sequence[tuple[bool, float]]) -> list[dict[str, Any]]:
    """Coverage must be near 80 %, not high: it has a bar on both sides, of which the table shows the lower."""
    held = _share(inside for inside, _ in found)
    return [
        {
            "what": "expected effects: 80 % intervals that hold (at most 85)", "unit": "%", "value": 100 * held["share"],
            "interval": [100 * held["low"], 100 * held["high"]], "n": held["n"], "better": "higher", "bar": 75, "stretch": None,
        },
        {
            "what": "expected effects: median of high / low", "unit": "x", "value": float(np.median([width for _, width in found])),
            "n": held["n"], "better": "lower", "bar": 3, "stretch": None,
        },
    ]  # fmt: skip


def said_so(groups: Sequence[Group]) -> dict[str, Any]:
    """Where no setting undoes the fault: whether what is prescribed holds advice for code or environment."""
    given = [cells.prescriptions(group) for group in groups]
    return {"no setting undoes it: a prescription says so": _share(any(not rx.trialable for rx in each) for each in given)}


def report(plan: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], by_cell: bool, keep: bool) -> None:
    """Print the figures; keep those of the sixty."""
    found = judged(plan, runs)
    if by_cell:
        for each in found:
            print(line(each))
    shares = figures(found) | (said_so(cells.incurable()) if keep else {})
    rows = recorded({what: value for what, value in shares.items() if value["n"]})
    rows += forecast_rows(forecasts(plan, runs, recorded_effects.load(None))) if keep else []
    for row in rows:
        between = " [{:.1f}, {:.1f}]".format(*row["interval"]) if "interval" in row else ""
        print(f"{row['what']:80} {row['value']:.1f} {row['unit']}{between}, n = {row['n']}")
    if keep:
        provenance.write("treatment_cures", rows, provenance.provenance(COMMAND), quick=False)


def line(each: Judged) -> str:
    """A cell in a few lines: levels by arm, and what was prescribed."""
    marks = {name: ("+" if each.restored(name) else "") + ("!" if each.harmful(name) else "") for name in each.arms}
    levels = "  ".join(f"{name} {each.arms[name].level:.2f}{marks[name]}" for name in cells.ARMS if name in each.arms and name != "clean")
    titles = "\n".join(f"      {rx['number']} {rx['title']}" for rx in each.cell["rx"])
    return f"{'  ' if each.restored('rx1') else 'x '}{each.cell['id']}  {levels}\n{titles}"
