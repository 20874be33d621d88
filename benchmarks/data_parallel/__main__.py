"""Data parallelism: how much faster several ranks are than one process, and whether planted faults of synchronization are named.

    python -m benchmarks.data_parallel --only speed     needs as many idle cores as ranks
    python -m benchmarks.data_parallel --only faults    needs no idle machine, and some minutes
    python -m benchmarks.data_parallel --only memory    what a rank's memory takes, by what is shared out
    python -m benchmarks.data_parallel --only fresh --keep FILE      other tasks, seeds, faults, three ranks; can be stopped

Speed: see `speed`; one process and N ranks in turn. Faults: see `faults`. A fault counts as named where its cause comes first, and one that
only costs time where its rule fires. Any finding about ranks in a sound run is a false alarm, but for the remark that they are slower.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import provenance
from benchmarks.data_parallel import memory, speed
from benchmarks.data_parallel.faults import FAULTS, FRESH_TASKS, TASKS

COMMAND = "python -m benchmarks.data_parallel"
FRESH_RANKS = 3
SPEED_TASKS = ("CartPole-v1:ppo", "Pendulum-v1:ppo")


def measure_faults(seeds: int, sound_seeds: int) -> list[dict[str, Any]]:
    """Two rows: planted faults named, false alarms."""
    tuned = [name for name, planted in FAULTS.items() if not planted.fresh]
    with tempfile.TemporaryDirectory() as scratch:
        cells = [cell for name in tuned for cell in examine(name, Path(scratch), seeds, 2, FAULTS[name].tasks)]
        sound = [cell for world in (2, 4) for cell in examine("none", Path(scratch) / str(world), sound_seeds, world, tuple(TASKS))]
    return describe(cells, sound, f"{len(tuned)} faults, {len(TASKS)} tasks, 2 ranks", "2 and 4 ranks", f"{COMMAND} --only faults")


def measure_fresh_faults(keep: Path, sound_seeds: int) -> list[dict[str, Any]]:
    """The same with tasks, seeds and a number of ranks that the weights of the ranking were not set with; kept as they come."""
    known = [json.loads(line) for line in keep.read_text().splitlines()] if keep.exists() else []
    wanted = [(name, task) for name, fault in FAULTS.items() for task in fault.tasks_of(fresh=True)]
    wanted += [("none", task) for task in FRESH_TASKS]
    for name, task in wanted:
        if not any((cell["fault"], cell["task"]) == (name, task) for cell in known):
            with tempfile.TemporaryDirectory() as scratch:
                cells = examine(name, Path(scratch), sound_seeds if name == "none" else 1, FRESH_RANKS, (task,))
            with keep.open("a") as file:
                file.writelines(json.dumps(cell) + "\n" for cell in cells)
            known += cells
    cells, sound = [cell for cell in known if cell["fault"] != "none"], [cell for cell in known if cell["fault"] == "none"]
    what = f"{len(FAULTS)} faults, {len(FRESH_TASKS)} other tasks and seeds, {FRESH_RANKS} ranks, looked at once"
    return describe(cells, sound, what, f"{FRESH_RANKS} ranks", f"{COMMAND} --only fresh --keep FILE")


def describe(cells: list[dict[str, Any]], sound: list[dict[str, Any]], what: str, sound_ranks: str, command: str) -> list[dict[str, Any]]:
    """The two rows of faults and of sound runs."""
    named = [cell for cell in cells if is_named(cell)]
    missed = [f"{cell['fault']} in {cell['task']}: {cell['cause']}, {cell['rules']}" for cell in cells if not is_named(cell)]
    alarms = [cell for cell in sound if set(cell["rules"]) - {"RNK109"}]
    slowest = max(cell["seconds"] for cell in cells if FAULTS[cell["fault"]].rule in ("RNK107", "RNK108"))
    share = {"unit": "share", "value": len(named) / len(cells), "better": "higher", "bar": 0.95, "stretch": None, "command": command}
    none = {"unit": "runs", "value": float(len(alarms)), "better": "lower", "bar": 0, "stretch": None, "command": command}
    return [
        {
            "what": f"planted faults of synchronization that are named first ({what})",
            "note": f"{len(named)} of {len(cells)}; missed: {'; '.join(missed) or 'none'}; lost or hung: over in {slowest:.0f} s",
            **share,
        },
        {
            "what": f"false alarms about ranks in sound runs of {sound_ranks} ({len({cell['task'] for cell in sound})} tasks)",
            "note": f"{len(alarms)} of {len(sound)}: {sorted({rule for cell in alarms for rule in cell['rules']})}",
            **none,
        },
    ]


def is_named(cell: dict[str, Any]) -> bool:
    """Whether the fault of a cell was named."""
    fault = FAULTS[cell["fault"]]
    return cell["cause"] == fault.cause if fault.cause is not None else fault.rule in cell["rules"]


def examine(name: str, folder: Path, seeds: int, world: int, tasks: tuple[str, ...]) -> list[dict[str, Any]]:
    """All cells of one fault, in a process of their own."""
    command = [sys.executable, "-m", "benchmarks.data_parallel.faults", name, str(folder), str(seeds), str(world), *tasks]
    done = subprocess.run(command, capture_output=True, text=True, env=provenance.child_environment(), cwd=provenance.ROOT, check=False)
    cells = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(cells) != seeds * len(tasks):
        sys.exit(f"{name}: {len(cells)} of {seeds * len(tasks)} cells\n{done.stderr[-3000:]}")
    for cell in cells:
        right = (set(cell["rules"]) <= {"RNK109"}) if name == "none" else is_named(cell)
        what = f"{name} x{world}, {cell['task']}, seed {cell['seed']}"
        print(f"{'   ' if right else '!! '}{what}: {cell['cause']} {cell['rules']} {cell['reason']}", file=sys.stderr)
    return cells


def main() -> None:
    """Measure what was asked for."""
    parser = provenance.parser(__doc__)
    parser.add_argument("--only", choices=("speed", "memory", "faults", "fresh"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--task", action="append", help="whose speed is measured; repeatable")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=53, help="iterations of a run whose speed is measured")
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE", help="another setting for both sides")
    parser.add_argument("--keep", type=Path, default=provenance.SCRATCH / "fresh-faults.jsonl", help="where cells of fresh faults are kept")
    asked = parser.parse_args()
    pairs, rows = (1, 9) if asked.quick else (asked.pairs, asked.rows)
    changed = "".join(f" --set {change}" for change in asked.changes)
    for task in (asked.task or SPEED_TASKS) if asked.only in (None, "speed") else ():
        for found in speed.compare(task, asked.ranks, pairs, rows, f"{COMMAND} --only speed --task {task}{changed}", asked.changes):
            save([found], asked.quick)
    if asked.only in (None, "memory"):
        save(memory.compare(f"{COMMAND} --only memory"), asked.quick)
    if asked.only in (None, "faults"):
        save(measure_faults(1 if asked.quick else 2, 1 if asked.quick else 6), asked.quick)
    if asked.only == "fresh":
        save(measure_fresh_faults(asked.keep, 4), asked.quick)


def save(rows: list[dict[str, Any]], quick: bool) -> None:
    """Write what has been measured so far."""
    for row in rows:
        print(f"{row['what']}: {row['value']:.2f} {row['unit']} (bar {row['bar']})")
    print(provenance.write("data_parallel", rows, provenance.provenance(COMMAND), quick), flush=True)


if __name__ == "__main__":
    main()
