"""Env steps until a search holds a config that solves its task reliably: `optimize` beside random search and Optuna's TPE.

    python -m benchmarks.treatment.optimize draw            draws the bad starts and freezes them in bad_starts.json
    python -m benchmarks.treatment.optimize run [--methods ours random tpe] [--starts 0 1 ...] [--repetitions 2] [--jobs 2]
    python -m benchmarks.treatment.optimize rows            the figures, from the searches that were made

Each search has one core to itself; `run` goes on where it was, and may run on another machine (CELLS.json is all it leaves).

Two bad starts on each of five environments, drawn by a fixed seed; a draw counts if none of two runs reaches the threshold, and
if it takes at most 12,000 gradient steps. All
methods have the same 3M env steps, length of runs, pruning and rule for "reliable" (five of six runs, two of which picked it);
they differ in what they propose. The blind ones begin with the start too, and propose eight points at a time from the ranges that
tuned settings span. A config that a method calls reliable is checked on ten fresh seeds, which cost it nothing: below eight it
counts as not found. Where `optimize` has found one, the others are stopped once they have spent as much without: they have lost.
"""

import json
import math
import multiprocessing
import queue
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from benchmarks import provenance
from rlclinic.config import Config, describe, from_record, to_record
from rlclinic.config.overrides import set_values
from rlclinic.errors import ConfigError
from rlclinic.launch import batch
from rlclinic.launch.batch import Interrupted, Study
from rlclinic.runs import trials
from rlclinic.runs.history import History
from rlclinic.runs.store import Store
from rlclinic.treatment.optimize import blind_search, candidates
from rlclinic.treatment.optimize import search as optimize
from rlclinic.treatment.optimize.ledger import Entry, Ledger
from rlclinic.treatment.optimize.search import Request, prepare
from rlclinic.treatment.prescription.recorded_effects import Effects

STARTS = Path(__file__).with_name("bad_starts.json")
CELLS = Path(__file__).with_name("optimize_cells.json")
"""Every search that was made."""
SEED = 20_260
BUDGET = 3_000_000
METHODS = ("ours", "random", "tpe")
AT_A_TIME = 8
MOST_GRADIENT_STEPS = 12_000
"""Of a start: more would only take long."""
CHECKED, PASSED = 10, 8
CONTESTS, BAR, STRETCH = 20, 14, 18
TASKS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"threshold": 475, "limit": 500, "length": 100_000, "kwargs": {}},
    "Acrobot-v1": {"threshold": -100, "limit": 500, "length": 100_000, "kwargs": {}},
    "MountainCarContinuous-v0": {"threshold": 90, "limit": 999, "length": 100_000, "kwargs": {}},
    "Pendulum-v1": {"threshold": -200, "limit": 200, "length": 100_000, "kwargs": {}},
    "FrozenLake-v1": {"threshold": 0.7, "limit": 100, "length": 100_000, "kwargs": {"map_name": "4x4", "is_slippery": True}},
}


# ── bad starts ──


def bare(env_id: str) -> Config:
    """A task with the schema's own defaults: no tuned value."""
    task = TASKS[env_id]
    episodes = 200 if env_id == "FrozenLake-v1" else 20
    record = {
        "spec": {"threshold": task["threshold"], "max_episode_steps": task["limit"]},
        "env": {"id": env_id, "kwargs": task["kwargs"]},
        "run": {"max_env_steps": task["length"], "eval_every_env_steps": 5_000, "eval_episodes": episodes},
    }
    return from_record(record)


def drawn(env_id: str, dice: random.Random) -> Config:
    """A config with settings drawn far beyond what is usual."""
    log: Callable[[float, float], float] = lambda low, high: float(f"{low * (high / low) ** dice.random():.3g}")  # noqa: E731
    steps = dice.choice([8, 16, 64, 256, 1024])
    changes = [
        f"env.n_envs={dice.choice([1, 4, 8, 16])}",
        f"algo.n_steps={steps}",
        f"algo.batch_size={dice.choice([1, 0.5, 0.25])}",
        f"algo.n_epochs={dice.choice([1, 4, 10, 40])}",
        f"algo.learning_rate={log(1e-6, 0.3)}",
        f"algo.gamma={1 - log(1e-3, 0.7):.4g}",
        f"algo.gae_lambda={dice.choice([0, 0.5, 0.9, 0.99, 1])}",
        f"algo.ent_coef={dice.choice([0, 0, 0.01, 0.3])}",
        f"algo.clip_range={log(2e-3, 0.8)}",
        f"algo.vf_coef={log(1e-3, 50)}",
        f"algo.max_grad_norm={log(1e-3, 10)}",
        f"net.activation={dice.choice(['tanh', 'relu', 'sigmoid'])}",
    ]
    return set_values(bare(env_id), changes)


def draw(folder: Path) -> list[dict[str, Any]]:
    """Two starts an environment that two runs do not solve, in the order of the dice."""
    dice, found = random.Random(SEED), []
    for env_id in TASKS:
        kept = 0
        while kept < 2:
            try:
                config = drawn(env_id, dice)
            except ConfigError:
                continue
            if describe(config)["gradient_steps"] > MOST_GRADIENT_STEPS:
                continue
            if not solves(folder, config, range(2)):
                kept += 1
                found.append({"env": env_id, "config": to_record(config)})
                print(f"{env_id}: start {len(found) - 1}", file=sys.stderr, flush=True)
    return found


def solves(folder: Path, config: Config, seeds: Sequence[int], wanted: int = 1) -> bool:
    """Whether at least so many runs of a config reach its threshold."""
    return reached(folder, config, seeds) >= wanted


def reached(folder: Path, config: Config, seeds: Sequence[int]) -> int:
    """How many runs of a config reach its threshold; where they lay is forgotten."""
    shutil.rmtree(folder, ignore_errors=True)
    store = Store(folder)
    work = Study(store, "sensitivity", "check", cores=1)
    (folder / "@sensitivity" / "check").mkdir(parents=True)
    ready = prepare(config, config.run.max_env_steps, "steps")
    group = batch.train(work, {"check": ready}, seeds)["check"]
    count = sum(run.status.threshold_reached_at is not None for run in group.runs)
    shutil.rmtree(folder, ignore_errors=True)
    return count


# ── searches ──


@contextmanager
def blind(use_optuna: bool) -> Iterator[None]:
    """Everything of `optimize` but its proposals: points of a search instead, eight at a time."""

    def proposals(ledger: Ledger, histories: Sequence[History], config: Config, effects: Effects, count: int) -> tuple[list[Entry], str]:
        start = Config(**ledger.start)
        told = [(entry.params, entry.score) for entry in ledger.tried if entry.params and entry.score is not None]
        seed = ledger.rounds[0].seeds[0]
        points = (
            blind_search.tpe_points(start, told, count, seed)
            if use_optuna
            else [uniform(start, seed + 1_000 * (len(told) + place)) for place in range(count)]
        )
        entries = []
        for place, at in enumerate(points):
            made = candidates.changed_or_none(start, blind_search.settings(start, at))
            if made is not None:
                name = f"search{len(told) + place}"
                entries.append(Entry(name=name, source="search", why="", changes=(), config=to_record(made), params=at))
        return entries, ""

    before = (candidates.candidates, optimize.SCREENED, optimize.MOST_SCREENED)
    candidates.candidates = proposals
    optimize.SCREENED = optimize.MOST_SCREENED = AT_A_TIME  # type: ignore[misc]
    try:
        yield
    finally:
        candidates.candidates, optimize.SCREENED, optimize.MOST_SCREENED = before  # type: ignore[misc]


def uniform(config: Config, seed: int) -> dict[str, float]:
    """A point of the cube by the dice."""
    dice = random.Random(seed)
    return {name: dice.random() for name in blind_search.space(config)}


def search(start: dict[str, Any], method: str, repetition: int, folder: Path, most: int = BUDGET) -> dict[str, Any]:
    """One search until it holds a reliable config or its budget is used up, or `most` env steps; then the check on fresh seeds."""
    shutil.rmtree(folder, ignore_errors=True)
    store = Store(folder)
    # Repetitions differ in their seeds, and so in what blind methods draw.
    trials.fresh_seeds(store, 10_000 * repetition)
    request = Request(start["env"], from_record(start["config"]), BUDGET, use_optuna=method == "tpe", recorded=False)
    ledger = optimize.begin(store, request)

    def enough(known: Ledger) -> bool:
        return (known.best is not None and known.best.reliable) or known.spent >= most

    looked, used = 0.0, 0

    def overspent() -> bool:
        """Whether it has lost already; looked up every other second."""
        nonlocal looked, used
        if time.monotonic() > looked + 2.0:
            looked, used = time.monotonic(), sum(run.status.env_steps for run in store.runs())
        return used >= most

    with blind(method == "tpe") if method != "ours" else nullcontext():
        try:
            ledger = optimize.carry_out(store, ledger, stop=overspent, enough=enough, cores=1)
        except Interrupted:
            ledger = optimize.load(store, ledger.id)
    best = ledger.best
    found = best is not None and best.reliable
    passed = reached(folder / "check", best.entry.load_config(), range(90_000, 90_000 + CHECKED)) if found and best is not None else 0
    row = {
        "env": start["env"],
        "method": method,
        "repetition": repetition,
        "spent": max(ledger.spent, used) if not found else ledger.spent,
        "checked": passed,
        "steps": ledger.spent if passed >= PASSED else None,
        "stopped_at": most if not found and most < BUDGET else None,
        "configs": len(ledger.tried),
        "changes": list(best.entry.changes) if best else [],
    }
    shutil.rmtree(folder, ignore_errors=True)
    return row


def to_rows(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """How often ours was first, against each other method that was run. Where ours has found nothing, it was not, whoever else was."""
    rows: list[dict[str, Any]] = []
    cells = {(each["start"], each["repetition"], each["method"]): each["steps"] or math.inf for each in results}
    ours = {(start, again): steps for (start, again, name), steps in cells.items() if name == "ours"}
    for method in METHODS[1:]:
        held = {contest: cells[*contest, method] for contest in ours if (*contest, method) in cells}
        decided = held | {contest: math.inf for contest, steps in ours.items() if steps == math.inf and contest not in held}
        if held:
            rows.append({
                "what": f"optimize: fewer env steps to a reliable config than {method}", "unit": f"of {len(decided)}",
                "value": sum(ours[contest] < other for contest, other in decided.items()),
                "better": "higher", "bar": BAR, "stretch": STRETCH,
                "command": "python -m benchmarks.treatment.optimize run",
                **({"note": f"{len(decided)} of {CONTESTS} contests are decided"} if len(decided) < CONTESTS else {}),
            })  # fmt: skip
    return rows


Task = tuple[int, int, str]
"""Start, repetition, method."""


def tasks(starts: Sequence[int], repetitions: int, methods: Sequence[str], done: Sequence[dict[str, Any]]) -> list[Task]:
    """Searches that are still to be made; the methods of one contest stand together, so that a time limit leaves whole ones."""
    known = {(each["start"], each["repetition"], each["method"]) for each in done}
    wanted = [(start, again, method) for again in range(repetitions) for start in starts for method in methods]
    return [task for task in wanted if task not in known]


def ready(waiting: Sequence[Task], to_beat: Mapping[tuple[int, int], int]) -> Task | None:
    """The next search that can be made: other methods' once it is known what they have to beat, and those first, to end a contest."""
    others = (task for task in waiting if task[2] != "ours" and task[:2] in to_beat)
    return next(others, None) or next((task for task in waiting if task[2] == "ours"), None)


def carry_out(todo: Sequence[Task], done: Sequence[dict[str, Any]], scratch: Path, jobs: int, seconds: float) -> Iterator[dict[str, Any]]:
    """The searches as they end, each in a process of its own; what takes longer than `seconds` in all is given up."""
    starts = json.loads(STARTS.read_text())["starts"]
    ends, waiting, left = time.monotonic() + seconds, list(todo), len(todo)
    # Without a search of ours to wait for, the others go all the way.
    to_beat = {task[:2]: BUDGET for task in todo if (*task[:2], "ours") not in todo} | _found(done)
    context = multiprocessing.get_context("fork")
    answers: Any = context.Queue()
    running: list[Any] = []
    while left and time.monotonic() < ends:
        while len(running) < jobs and (task := ready(waiting, to_beat)) is not None:
            waiting.remove(task)
            most = to_beat.get(task[:2], BUDGET) if task[2] != "ours" else BUDGET
            running.append(
                context.Process(target=_searched, args=(task, starts[task[0]], scratch / "-".join(map(str, task)), most, answers))
            )
            running[-1].start()
        running = [process for process in running if process.is_alive()]  # before the look: whoever has ended by then has answered
        try:
            found = answers.get(timeout=1.0)
        except queue.Empty:
            found = None
        if found is not None:
            left -= 1
            to_beat |= _found([found])
            yield found
        elif not running and ready(waiting, to_beat) is None:
            return
    for process in running:
        process.kill()


def _found(results: Sequence[dict[str, Any]]) -> dict[tuple[int, int], int]:
    """By contest, the env steps that ours took; the whole budget if it did not get there."""
    return {(each["start"], each["repetition"]): each["steps"] or BUDGET for each in results if each["method"] == "ours"}


def _searched(task: Task, start: dict[str, Any], folder: Path, most: int, answers: Any) -> None:
    began = time.monotonic()
    row = search(start, task[2], task[1], folder, most)
    answers.put({"start": task[0], **row, "seconds": round(time.monotonic() - began, 1)})


def report(results: Sequence[dict[str, Any]], quick: bool) -> None:
    """Print and keep the figures."""
    rows = to_rows(results)
    for row in rows:
        print(f"{row['what']}: {row['value']} {row['unit']}")
    provenance.write("treatment_optimize", rows, provenance.provenance("python -m benchmarks.treatment.optimize run"), quick)


def main() -> None:
    parser = provenance.parser(__doc__)
    parser.add_argument("what", choices=["draw", "run", "rows"])
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--starts", nargs="*", type=int)
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2, help="searches at a time")
    parser.add_argument("--seconds", type=float, default=36_000.0)
    parser.add_argument("--cells", type=Path, default=CELLS, help="where searches are written down")
    parser.add_argument("--scratch", type=Path, default=provenance.SCRATCH / "optimize")
    args = parser.parse_args()
    if args.what == "draw":
        STARTS.write_text(json.dumps({"seed": SEED, "starts": draw(args.scratch / "draw")}, indent=1) + "\n")
        return
    results: list[dict[str, Any]] = json.loads(args.cells.read_text()) if args.cells.exists() else []
    if args.what == "run":
        methods = [name for name in args.methods if name != "tpe" or blind_search.has_optuna()]
        count = len(json.loads(STARTS.read_text())["starts"])
        starts = args.starts if args.starts is not None else range(1 if args.quick else count)
        todo = tasks(starts, 1 if args.quick else args.repetitions, methods, results)
        for row in carry_out(todo, list(results), args.scratch, args.jobs, args.seconds):
            results.append(row)
            args.cells.write_text(json.dumps(results, indent=1) + "\n")
            print(json.dumps(row), file=sys.stderr, flush=True)
        return
    report(results, args.quick)


if __name__ == "__main__":
    main()
