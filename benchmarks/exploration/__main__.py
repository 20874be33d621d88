"""Exploration, many runs at once: deep seas, sparse tasks with a bonus and without, and what a bonus costs where none is needed.

python -m benchmarks.exploration --processes 16 --seconds 270

Every job is one process with a few seeds; jobs are begun in the order of the list. What has ended is kept in build/, so the command can
be given again until everything is there (`--again` forgets it); rows say how many seeds they are of. Whether `explore` tells one run from
another is measured by `python -m benchmarks.exploration.assessment`.
"""

import json
import os
import time
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import asdict
from multiprocessing import get_context
from typing import Any, Final

from benchmarks import provenance
from benchmarks.exploration.jobs import Job, list_jobs, summarize, work

COMMAND: Final = "python -m benchmarks.exploration"
KEPT: Final = provenance.SCRATCH / "exploration.jsonl"


def main() -> None:
    """Train what fits into the time, and save the rows as benchmarks/results/exploration.json."""
    parser = provenance.parser(__doc__)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="train for so long; 0: only the rows of what is kept")
    parser.add_argument("--only", default="", help="jobs whose row begins so")
    parser.add_argument("--arms", nargs="*", help="and only these arms")
    parser.add_argument("--again", action="store_true", help="forget what is kept of earlier calls")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    jobs = [
        (number, job) for number, job in enumerate(list_jobs()) if job.row.startswith(args.only) and job.arm in (args.arms or [job.arm])
    ]
    if args.quick:
        jobs = [(number, Job(job.row, job.arm, job.ref, 2_500, job.seeds[:1], job.settings)) for number, job in jobs[::9]]
    kept = KEPT.with_suffix(".quick.jsonl") if args.quick else KEPT
    kept.parent.mkdir(parents=True, exist_ok=True)
    if args.again or args.quick:
        kept.unlink(missing_ok=True)
    runs: list[dict[str, Any]] = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done = {json.dumps({name: run[name] for name in asdict(jobs[0][1])}) for run in runs}
    pool = ProcessPoolExecutor(args.processes, get_context("spawn"))
    waiting = {pool.submit(work, job): job for job in jobs if args.seconds > 0 and json.dumps(asdict(job[1])) not in done}
    until = time.monotonic() + args.seconds
    while waiting and time.monotonic() < until:
        ended, _ = wait(waiting, timeout=max(0.0, until - time.monotonic()), return_when="FIRST_COMPLETED")
        for future in ended:
            _, job = waiting.pop(future)
            error = future.exception()
            if error is not None:
                print(f"FAILED {job.row} {job.arm}: {type(error).__name__}: {error}", flush=True)
                continue
            found = future.result()
            runs += found
            with kept.open("a") as file:
                file.write("".join(json.dumps(run) + "\n" for run in found))
            print(f"{job.row} | {job.arm} | solved at {[run['solved_at'] for run in found]} | {found[0]['seconds']:.0f} s", flush=True)
    listed = {json.dumps(asdict(job)) for _, job in jobs}  # what is kept of jobs that are none any more does not count
    rows = summarize([run for run in runs if json.dumps({name: run[name] for name in asdict(jobs[0][1])}) in listed])
    for row in rows:
        print(json.dumps(row), flush=True)
    print(f"{len(waiting)} jobs did not end in time")
    command = COMMAND + (f" --only {args.only}" if args.only else "")
    rows = [row | {"command": command} for row in rows]
    print(provenance.write("exploration", rows, provenance.provenance(command), args.quick), flush=True)
    for process in list((pool._processes or {}).values()):
        process.kill()  # what still trains has nowhere to go, and would keep the output open
    os._exit(0)


if __name__ == "__main__":
    main()
