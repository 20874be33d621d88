"""`python -m benchmarks.diagnosis.record --out FOLDER [--shard I/N] [--tasks …] [--device cuda]`: train the corpus.

Cohorts of at least GPU_MEMBERS go to the GPU, small ones to CPU cores. What was trained is packed into one file per task;
cohorts that did not end within the time are left out and named.
"""

import argparse
import multiprocessing
import queue
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from benchmarks.diagnosis import cells as corpus_cells
from benchmarks.diagnosis import faulty, fresh_replay_cells, packing, replay_cells
from benchmarks.diagnosis.cells import Cell
from benchmarks.diagnosis.environments import buoy, docking, greenhouse

GPU_MEMBERS: Final = 24
FAMILIES: Final = {
    "on-policy": corpus_cells.all_cells,
    replay_cells.FAMILY: replay_cells.all_cells,
    fresh_replay_cells.FAMILY: fresh_replay_cells.all_cells,
}


def train(cells: list[Cell], device: str) -> list[packing.Entry]:
    """Train one cohort and read its groups back."""
    from rlclinic.runs import history
    from rlclinic.runs.store import Store
    from rlclinic.training.__main__ import train_runs
    from tests.mutations import bugs, replay_bugs

    docking.register()
    buoy.register()
    greenhouse.register()
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").exists() else None))
    try:
        store = Store(folder)
        groups = []
        for cell in cells:
            run = cell.config.run.model_copy(update={"device": device})
            configs = [cell.config.model_copy(update={"seed": seed, "run": run}) for seed in cell.seeds]
            groups.append(store.create_group(configs))
        with ExitStack() as planted:
            planted.enter_context(faulty.planted([cell.env for cell in cells for _ in cell.seeds]))
            if cells[0].bug is not None:
                known = (*bugs.BUGS, *replay_bugs.BUGS)
                planted.enter_context(bugs.planted(next(bug for bug in known if bug.id == cells[0].bug)))
            train_runs([run for group in groups for run in group.runs])
        return [
            packing.Entry(cell.about(), tuple(_plain(history.of_run(run), cell, run.seed) for run in group.runs))
            for cell, group in zip(cells, groups, strict=True)
        ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _plain(found: Any, cell: Cell, seed: int) -> Any:
    """Without what differs from machine to machine."""
    settings = {key: value for key, value in found.settings.items() if key not in ("run.device", "run.threads")}
    return replace(found, id=f"{cell.id}-s{seed}", path=None, settings=settings, log_tail="", notes=())


def work(jobs: list[list[Cell]], queues: Sequence[Any], done: Any, device: str) -> None:
    """A process that trains cohorts until there are none in its queues, those of the first one first."""
    import torch

    from rlclinic.training import trainer

    torch.set_num_threads(1)
    # No checkpoint is ever read here, and writing them is most of the time of a large cohort.
    trainer.save_member = lambda *_: None
    while (number := _take(queues)) is not None:
        started = time.perf_counter()
        try:
            done.put((number, train(jobs[number], device), time.perf_counter() - started))
        except Exception:  # noqa: BLE001 - one cohort that fails is reported, the others go on
            done.put((number, traceback.format_exc(), time.perf_counter() - started))


def _take(queues: Sequence[Any]) -> int | None:
    for waiting in queues:
        try:
            return int(waiting.get_nowait())
        except queue.Empty:
            continue
    return None


def cost(cells: list[Cell]) -> float:
    """A guess, to start the longest first."""
    config = cells[0].config
    if config.algo.loop == "off_policy":
        return (
            config.run.max_env_steps * (0.4 + config.updates_per_cycle / config.cycle_size) * (5 + sum(len(cell.seeds) for cell in cells))
        )
    updates = getattr(config.algo, "n_epochs", 1) * max(1, config.rollout_size // max(1, config.batch_rows))
    iterations = config.run.max_env_steps / config.rollout_size
    members = sum(len(cell.seeds) for cell in cells)
    return iterations * (config.rollout_size / config.env.n_envs * 0.4 + updates) * (members if members < GPU_MEMBERS else 60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shard", default="1/1")
    parser.add_argument("--tasks", default="")
    parser.add_argument("--family", default="on-policy", choices=tuple(FAMILIES))
    parser.add_argument("--causes", default="", help="only cells with one of these causes")
    parser.add_argument("--gpu", type=int, default=0, help="processes on the GPU; 0: everything on the CPU")
    parser.add_argument("--cpu", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--steps", type=float, default=1.0, help="share of every budget, to try it out")
    asked = parser.parse_args()
    docking.register()
    buoy.register()
    greenhouse.register()
    index, count = (int(part) for part in asked.shard.split("/"))
    tasks, causes = set(filter(None, asked.tasks.split(","))), set(filter(None, asked.causes.split(",")))
    cells = [c for c in FAMILIES[asked.family]() if not tasks or c.task.id in tasks]
    cells = [c for c in cells if not causes or causes & {f.cause for f in c.faults}]
    if asked.steps < 1:
        cells = [replace(c, config=_shorter(c.config, asked.steps)) for c in cells]
    jobs = sorted(corpus_cells.cohorts(cells), key=cost, reverse=True)[index - 1 :: count]
    print(f"{len(cells)} cells, {len(jobs)} cohorts, {sum(len(c.seeds) for job in jobs for c in job)} runs", flush=True)
    entries = run(jobs, asked.gpu, asked.cpu, asked.seconds)
    asked.out.mkdir(parents=True, exist_ok=True)
    for task in sorted({entry.about["task"] for entry in entries}):
        part = [entry for entry in entries if entry.about["task"] == task]
        path = asked.out / (f"{task}.npz" if count == 1 else f"{task}-{index}of{count}.npz")
        print(f"{path}: {packing.save(path, part) / 1e6:.2f} MB, {len(part)} groups", flush=True)


def _shorter(config: Any, share: float) -> Any:
    steps = max(int(config.run.max_env_steps * share), 2 * config.rollout_size)
    return config.model_copy(
        update={"run": config.run.model_copy(update={"max_env_steps": steps, "eval_every_env_steps": max(1, steps // 2)})}
    )


def run(
    jobs: list[list[Cell]], gpu: int, cpu: int, seconds: float, keep: Callable[[list[packing.Entry]], None] | None = None
) -> list[packing.Entry]:
    """Train cohorts in processes; whatever is not done in time is dropped. `keep` is given each cohort's groups as they come."""
    context = multiprocessing.get_context("fork")
    large, small, done = context.Queue(), context.Queue(), context.Queue()
    for number, job in enumerate(jobs):
        (large if gpu and sum(len(cell.seeds) for cell in job) >= GPU_MEMBERS else small).put(number)
    time.sleep(0.5)
    workers = [context.Process(target=work, args=(jobs, (large,), done, "cuda"), daemon=True) for _ in range(gpu)]
    workers += [context.Process(target=work, args=(jobs, (small, large), done, "cpu"), daemon=True) for _ in range(cpu)]
    for worker in workers:
        worker.start()
    started, entries, missing = time.perf_counter(), [], set(range(len(jobs)))
    while missing and time.perf_counter() - started < seconds:
        try:
            number, result, spent = done.get(timeout=1.0)
        except queue.Empty:
            if not any(worker.is_alive() for worker in workers):
                break
            continue
        missing.discard(number)
        members = sum(len(cell.seeds) for cell in jobs[number])
        label = jobs[number][0].id + (f" and {len(jobs[number]) - 1} more" if len(jobs[number]) > 1 else "")
        print(f"{time.perf_counter() - started:6.0f} s  {spent:6.1f} s  {members:3} runs  {label}", flush=True)
        if isinstance(result, str):
            print(result, flush=True)
        else:
            entries.extend(result)
            if keep is not None:
                keep(result)
    for number in sorted(missing):
        print("not done:", jobs[number][0].id, len(jobs[number]), flush=True)
    for worker in workers:
        worker.kill()
    return entries


if __name__ == "__main__":
    main()
