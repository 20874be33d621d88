"""What rlclinic itself costs: start-up time, listing a thousand runs, memory while training, disk, and the sentinels' share.

start     `rlclinic --help`, and `rlclinic runs list` in a folder with 1,000 runs: median of 7 calls
memory    proportional set size (PSS) of all processes of CartPole-v1 with 8 seeds: the largest sum seen
sentinels the share of training's wall time that they took in those 8 runs, from the time/* columns
install   a fresh virtual environment with the base package in it (no torch)
"""

import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

from benchmarks import provenance
from rlclinic.config import files
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter

RLCLINIC = Path(sys.executable).with_name("rlclinic")
MEGABYTE = 1_000_000


def row(what: str, unit: str, value: float, bar: float, stretch: float | None, command: str, **more: Any) -> dict[str, Any]:
    """One line of the table; everything here is better when it is less."""
    return {"what": what, "unit": unit, "value": value, "better": "lower", "bar": bar, "stretch": stretch, "command": command, **more}


def seconds(arguments: list[str], folder: Path, calls: int) -> list[float]:
    """Wall time of each call of the command line in a folder."""
    took = []
    for _ in range(calls):
        start = time.perf_counter()
        subprocess.run([str(RLCLINIC), *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        took.append(time.perf_counter() - start)
    return took


def make_runs(root: Path, count: int) -> None:
    """Finished runs in groups of 8, as training leaves them, with a few rows of metrics each."""
    config, store = files.load("CartPole-v1:ppo").config, Store(root)
    for first in range(0, count, 8):
        seeds = range(first, min(first + 8, count))
        for run in store.create_group([config.model_copy(update={"seed": seed}) for seed in seeds]).runs:
            finish(run, config.run.max_env_steps)


def finish(run: Run, env_steps: int) -> None:
    """Write what a run that trained to its end has in its folder."""
    writer = RunWriter(run.path, ["time", "total_timesteps", "epoch", "train/roll/ep_rew_mean"])
    for epoch in range(1, 11):
        writer.row({"time": epoch, "total_timesteps": epoch * env_steps // 10, "epoch": epoch, "train/roll/ep_rew_mean": 20.0 * epoch})
    writer.flush()
    writer.status("finished", env_steps, return_mean=200.0, eval_mean=480.0, best_eval=500.0)
    writer.close()


def start_rows(calls: int, runs: int) -> list[dict[str, Any]]:
    """`--help`, and `runs list` with many runs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_runs(folder / "runs", runs)
        help_seconds, list_seconds = seconds(["--help"], folder, calls), seconds(["runs", "list"], folder, calls)
    return [
        row("`--help`", "s", statistics.median(help_seconds), 0.3, None, "rlclinic --help", samples=help_seconds),
        row(f"`runs list` with {runs:,} runs", "s", statistics.median(list_seconds), 0.5, None, "rlclinic runs list", samples=list_seconds),
    ]


def descendants(pid: int) -> list[int]:
    """A process and all that it started, directly or not."""
    family, unseen = [], [pid]
    while unseen:
        parent = unseen.pop()
        family.append(parent)
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                unseen += [int(child) for child in task.read_text().split()]
            except OSError:
                continue  # it ended between the two reads
    return family


def pss_bytes(pid: int) -> int:
    """A process's memory, with its part of what it shares; 0 if it has just ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def training_rows(steps: int | None) -> list[dict[str, Any]]:
    """Memory of all processes while 8 seeds train, and what the sentinels took of their time."""
    arguments = ["train", "CartPole-v1:ppo", "--seeds", "8", *(["--set", f"run.max_env_steps={steps}"] if steps else [])]
    typed = " ".join(["rlclinic", *arguments])
    with tempfile.TemporaryDirectory() as name:
        process = subprocess.Popen([str(RLCLINIC), *arguments], cwd=name, stdout=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            peak = max(peak, sum(pss_bytes(pid) for pid in descendants(process.pid)))
            time.sleep(0.2)
        if process.returncode:
            raise SystemExit(f"`{typed}` ended with exit code {process.returncode}")
        share = sentinel_share(Store(Path(name) / "runs").runs())
    return [
        row("memory of all processes (PSS), CartPole-v1, 8 seeds", "MB", peak / MEGABYTE, 800, None, typed),
        row("sentinels' share of wall time, CartPole-v1, 8 seeds", "%", 100 * share, 3.0, 1.5, typed),
    ]


def sentinel_share(runs: list[Run]) -> float:
    """Seconds in sentinels over seconds of training, summed over runs, from the end of the first iteration on."""
    spent = sum(float(run.metrics["time/sentinels"][1:].sum()) for run in runs)
    wall = sum(float(run.metrics["time"][-1] - run.metrics["time"][0]) for run in runs)
    return spent / wall


def folder_bytes(folder: Path) -> int:
    """Disk space of all files under a folder; links are not followed."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def install_row() -> dict[str, Any]:
    """The size of a fresh environment with the base package, which must also work there."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "venv"
        venv.create(folder, with_pip=True)
        empty = folder_bytes(folder)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "-c", "constraints.txt", "."]
        subprocess.run(pip, cwd=provenance.ROOT, check=True)
        for arguments in (["--help"], ["envs"], ["runs", "list"]):
            subprocess.run([str(folder / "bin" / "rlclinic"), *arguments], cwd=name, check=True, stdout=subprocess.DEVNULL)
        size = folder_bytes(folder)
    what = "base install in a fresh environment, without pip itself"
    return row(what, "MB", (size - empty) / MEGABYTE, 150, 100, "pip install -c constraints.txt .", with_pip_mb=size / MEGABYTE)


def main() -> None:
    args = provenance.parser(__doc__).parse_args()
    rows = start_rows(calls=3 if args.quick else 7, runs=200 if args.quick else 1_000)
    rows += training_rows(steps=20_480 if args.quick else None)
    rows.append(install_row())
    for line in rows:
        print(f"{line['what']}: {line['value']:.3g} {line['unit']} (bar {line['bar']})", file=sys.stderr)
    print(provenance.write("footprint", rows, provenance.provenance("python -m benchmarks.footprint"), args.quick))


if __name__ == "__main__":
    main()
