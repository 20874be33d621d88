"""`python -m benchmarks.diagnosis.worlds.record --out FOLDER --parts fit,held_out,reserve --cpu 16`: train the worlds' corpus.

One file for each part of the split. Nobody opens those of held-out families before the look.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.diagnosis import cells as corpus_cells
from benchmarks.diagnosis import packing, record
from benchmarks.diagnosis.worlds import cells, native


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", default="fit,held_out,reserve")
    parser.add_argument("--worlds", default="", help="only these, with commas between them")
    parser.add_argument("--gpu", type=int, default=0, help="processes on the GPU; 0: everything on the CPU")
    parser.add_argument("--cpu", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--most", type=int, default=0, help="only so many cohorts, to try it out")
    asked = parser.parse_args()
    native.register()
    started, wanted = time.perf_counter(), set(filter(None, asked.worlds.split(",")))
    found = [cell for part in asked.parts.split(",") for cell in cells.all_cells(part) if not wanted or cell.task.id in wanted]
    jobs = sorted(corpus_cells.cohorts(found), key=record.cost, reverse=True)
    jobs = jobs[: asked.most] if asked.most else jobs
    print(f"{len(found)} groups, {len(jobs)} cohorts after {time.perf_counter() - started:.0f} s", flush=True)
    entries = record.run(jobs, asked.gpu, asked.cpu, asked.seconds)
    by_id = {cell.id: cell for cell in found}
    asked.out.mkdir(parents=True, exist_ok=True)
    for part in asked.parts.split(","):
        mine = [entry for entry in entries if entry.about["part"] == part]
        mine.sort(key=lambda entry: str(entry.about["id"]))
        done = [replace(entry, runs=tuple(cells.with_threshold(by_id[entry.about["id"]], run) for run in entry.runs)) for entry in mine]
        path = asked.out / f"{part}.npz"
        print(f"{path}: {packing.save(path, done) / 1e6:.2f} MB, {len(done)} groups", flush=True)


if __name__ == "__main__":
    main()
