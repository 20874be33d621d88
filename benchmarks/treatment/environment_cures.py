"""`python -m benchmarks.treatment.environment_cures`: does the first prescription cure faults of environments that a wrapper can undo?

A fault is planted in worlds, the group is trained and diagnosed, and its first prescription that a trial can try and that is not held
back is trained with fresh seeds, the fault still in the environment, beside the sick settings, the clean environment, and the wrapper
that undoes the fault (`undo`, for whoever knows it), all with the same seeds. Returns are compared in the true unit of the reward,
and where a time limit is what is wrong, of episodes as long as the world's own: a short episode's return is not a long one's.
Restored and harmful are those of benchmarks.treatment.cured. Which causes count as undoable was written down before any was tried;
whether the wrapper that is known to be right undoes it in a world is measured, and reported beside.
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
from benchmarks.diagnosis.worlds import cells, learnable, native, planted
from benchmarks.treatment.cured import Judged, Trained
from rlclinic.config import Config
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


def choose(part: str, most: int, worlds: Sequence[str] = (), causes: Sequence[str] = ()) -> list[cells.WorldCell]:
    """Every undoable fault once in every world, at the severity that the world's name decides, spread over worlds and causes."""
    measured = learnable.load()
    found: list[cells.WorldCell] = []
    for name in worlds or cells.worlds(part):
        task = cells.WorldTask(name, "", "fit" if part == "fit" else "test", own=True)
        menu = planted.menu(task.config)
        for cause in causes or UNDOABLE:
            fitting = [fault for fault in menu[cause] if fault.fits(task)]
            if fitting:
                fault = fitting[int(planted.draw(name, cause) * len(fitting))]
                found += cells._cell(task, (fault,), measured[name], part)
    found.sort(key=lambda cell: (int(cell.task.id.rpartition("-")[2]), cell.faults[0].cause, cell.task.id))
    return found[:most]


def train(jobs: Sequence[cells.WorldCell], cpu: int, seconds: float) -> dict[str, list[History]]:
    """Runs by the cell's id, with their thresholds."""
    entries: list[packing.Entry] = record.run(sorted(corpus_cells.cohorts(list(jobs)), key=record.cost, reverse=True), 0, cpu, seconds)
    by_id = {cell.id: cell for cell in jobs}
    return {str(entry.about["id"]): [cells.with_threshold(by_id[str(entry.about["id"])], run) for run in entry.runs] for entry in entries}


def prescribe(cell: cells.WorldCell, runs: Sequence[History]) -> tuple[str, dict[str, Any]]:
    """The first cause, and the changes of the first prescription that a trial can try and that is not held back; {} if there is none."""
    found = engine.diagnose(list(runs))
    for rx in make_prescriptions(found, list(runs), cell.config):
        if rx.changes and rx.trialable and rx.held_back is None:
            return found.causes[0].id, dict(rx.changes)
    return found.causes[0].id, {}


def undo(cell: cells.WorldCell) -> dict[str, Any] | None:
    """What someone who knows the fault would put around the environment; None where nothing can be."""
    fault = cell.env
    known: dict[str, dict[str, Any] | None] = {
        "observation-scale": {"env.normalize_obs": True},
        "observation-partial": {"env.frame_stack": 4},
        "reward-scale-too-large": {"env.normalize_reward": True},
        "reward-scale-too-small": {"env.normalize_reward": True},
        "reward-sign": {"env.train_reward_scale" if fault.train_only else "env.reward_scale": -1.0},
        "reward-shifted": {"env.train_reward_shift": -fault.reward_offset},
        "episode-too-short": {"env.max_episode_steps": cell.task.config.spec.max_episode_steps},
        "action-bounds": {"env.wrappers": [{"id": "RescaleAction", "min_action": -1.0, "max_action": 1.0}]} if fault.bound else None,
    }
    return known[cell.faults[0].cause]


def patch(config: Config, changes: dict[str, Any]) -> Config:
    return set_values(config, [f"{name}={json.dumps(value)}" for name, value in changes.items()])


def unit_of(cell: cells.WorldCell) -> float:
    """What a true reward of 1 is in the evaluations that a run logs: a fault that pays otherwise, and what was put around it."""
    return (1.0 if cell.env.train_only else cell.env.reward_scale) * cell.config.env.reward_scale


def score(runs: Sequence[History], unit: float, floor: float, top: float, threshold: float) -> Trained:
    """In true rewards, 0 at what a random policy gets and 1 at the clean arm; and steps to the threshold."""
    scores, steps = [], []
    for run in runs:
        series = run.series.get(RETURN)
        values = np.zeros(0) if series is None else np.asarray(series.values, dtype=float) / unit
        late = values[-max(1, len(values) // 4) :]
        scores.append(max(0.0, (float(late.mean()) - floor) / max(top - floor, 1e-9)) if len(late) and run.state != "failed" else 0.0)
        passed = np.flatnonzero(values >= threshold)
        steps.append(float(series.steps[passed[0]]) if series is not None and len(passed) else np.inf)
    return Trained(tuple(scores), tuple(steps))


def late_return(runs: Sequence[History]) -> float:
    ends = [np.asarray(run.series[RETURN].values, dtype=float)[-4:].mean() for run in runs if RETURN in run.series]
    return float(np.mean(ends)) if ends else float("nan")


def arms_of(cell: cells.WorldCell) -> dict[str, cells.WorldCell]:
    """What is trained whatever is prescribed. One clean arm serves all faults of a world."""
    healthy = (Fault("healthy", "clean", "test"),)
    threshold = learnable.load()[cell.task.id]["threshold"]
    made = {
        "sick": cell,
        "control": _arm(cell, "control"),
        "clean": replace(cell, config=cell.task.config, faults=healthy, seeds=FRESH, threshold=threshold),
    }
    if (changes := undo(cell)) is not None:
        made["undone"] = _arm(cell, "undone", changes)
    return made


def _arm(cell: cells.WorldCell, label: str, changes: dict[str, Any] | None = None) -> cells.WorldCell:
    """The fault with fresh seeds and other settings; evaluated as long as the world's own episodes are."""
    own, fault = cell.task.config.spec.max_episode_steps or 0, cell.faults[0]
    env = replace(fault.env, eval_limit=0 if cell.config.env.max_episode_steps in (None, own) else own)
    config = patch(cell.config, changes) if changes else cell.config
    return replace(cell, seeds=FRESH, config=config, faults=(replace(fault, label=f"{fault.label} {label}", env=env),))


def judge(cell: cells.WorldCell, arms: dict[str, cells.WorldCell], trained: dict[str, list[History]]) -> dict[str, Any]:
    """What became of a group, as it is reported."""
    runs = {name: trained[arm.id] for name, arm in arms.items() if name != "sick"}
    random = [run.series["train/sentinel/random_return"].values[0] for run in runs["clean"]]
    floor, top, threshold = float(np.mean(random)), late_return(runs["clean"]), learnable.load()[cell.task.id]["threshold"]
    judged = Judged({}, {name: score(each, unit_of(arms[name]), floor, top, threshold) for name, each in runs.items()})
    return {
        "sick": judged.arms["control"].level < 0.9,
        "undoable": judged.restored("undone"),
        "cured": judged.restored("rx1"),
        "harmful": "rx1" in runs and judged.harmful("rx1"),
        "levels": {name: round(arm.level, 3) for name, arm in judged.arms.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="fit", choices=list(cells.SEEDS))
    parser.add_argument("--most", type=int, default=150)
    parser.add_argument("--worlds", default="", help="only these, with commas between them")
    parser.add_argument("--causes", default="", help="only these, with commas between them")
    parser.add_argument("--cpu", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1200.0, help="for each of the two rounds of training")
    parser.add_argument("--out", type=Path, help="write every group to this file, as JSON lines")
    parser.add_argument("--groups", type=Path, help="such a file: nothing is trained, and the figures are recorded")
    parser.add_argument("--add", type=Path, nargs="+", help="such files: their groups are added to those that are recorded already")
    asked = parser.parse_args()
    if asked.groups or asked.add:
        keep(asked.part, asked.most, [asked.groups] if asked.groups else asked.add, added=not asked.groups)
        return
    native.register()
    started = time.perf_counter()
    chosen = choose(asked.part, asked.most, *([name for name in given.split(",") if name] for given in (asked.worlds, asked.causes)))
    arms = {cell.id: arms_of(cell) for cell in chosen}
    trained = train(list({arm.id: arm for each in arms.values() for arm in each.values()}.values()), asked.cpu, asked.seconds)
    chosen = [cell for cell in chosen if all(arm.id in trained for arm in arms[cell.id].values())]
    named: dict[str, tuple[str, dict[str, Any]]] = {}
    for cell in chosen:
        named[cell.id] = _, changes = prescribe(cell, trained[cell.id])
        if changes:
            mine = arms[cell.id]
            arm = _arm(cell, "rx1", changes)
            mine["rx1"] = mine["undone"] if "undone" in mine and arm.config == mine["undone"].config else arm
    trained |= train(
        [arms[cell.id]["rx1"] for cell in chosen if "rx1" in arms[cell.id] and arms[cell.id]["rx1"].id not in trained],
        asked.cpu,
        asked.seconds,
    )
    rows = []
    for cell in chosen:
        first, changes = named[cell.id]
        if changes and arms[cell.id]["rx1"].id not in trained:
            continue
        rows.append(
            {"id": cell.id, "commit": provenance.commit(), "named": first, "changes": changes, **judge(cell, arms[cell.id], trained)}
        )
        print(json.dumps(rows[-1]), flush=True)
    if asked.out:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    rated = rate(rows, asked.part)
    print(json.dumps(rated, indent=1), f"{time.perf_counter() - started:.0f} s")


def keep(part: str, most: int, files: Sequence[Path], *, added: bool) -> None:
    """Record the figures of groups that were trained: of these alone, or of these and those that are recorded. None counts twice."""
    name = f"environment_cures_{part}"
    rows = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    if added:
        before = json.loads((provenance.RESULTS / f"{name}.json").read_text("utf-8"))
        # Each group says which code trained and diagnosed it: not all of them were looked at on the same day.
        known = [{"commit": before["provenance"]["commit"], **row} for row in before["groups"]]
        again = {row["id"] for row in known} & {row["id"] for row in rows}
        if again:
            raise SystemExit(
                f"{len(again)} of these groups are recorded already, {min(again)} among them: a group counts once, the first time."
            )
        rows = [*known, *rows]
    command = f"python -m benchmarks.treatment.environment_cures --part {part} --most {most}"
    path = provenance.write(name, rate(rows, part), provenance.provenance(command), quick=False)
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "groups": rows}, indent=1) + "\n", "utf-8")


def rate(rows: Sequence[dict[str, Any]], part: str) -> list[dict[str, Any]]:
    """The figures, in percent."""
    sick = [row for row in rows if row["sick"]]
    undoable = [row for row in sick if row["undoable"]]
    families = f"{part} families"
    listed = "environment faults of a cause that a wrapper can undo"
    return [
        _rate(f"environment faults that the right wrapper undoes, {families}: cured by the first prescription",
              sum(row["cured"] for row in undoable), len(undoable), 70.0, 85.0, "higher"),
        _rate(f"{listed}, {families}: harmed by the first prescription", sum(row["harmful"] for row in rows), len(rows), 2.0, 0.5, "lower"),
        _rate(f"{listed}, whether or not it does there, {families}: cured by the first prescription",
              sum(row["cured"] for row in sick), len(sick), None, None, "higher"),
    ]  # fmt: skip


def _rate(what: str, hits: int, count: int, bar: float | None, stretch: float | None, better: str) -> dict[str, Any]:
    """A row of the results' table, in percent."""
    share = wilson(hits, count)
    return {
        "what": what,
        "unit": "%",
        "better": better,
        "bar": bar,
        "stretch": stretch,
        "value": round(100 * share["share"], 2),
        "interval": [round(100 * share[end], 2) for end in ("low", "high")],
        "n": count,
    }


if __name__ == "__main__":
    main()
