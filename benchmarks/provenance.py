"""Where a figure comes from: every results file says when, what, with which versions, on which processor and by which command."""

import argparse
import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
# Quick runs show that a benchmark works; their figures must not take the place of measured ones.
QUICK_RESULTS = ROOT / "build" / "quick-results"
SCRATCH = ROOT / "build" / "benchmark-runs"

PACKAGES = ("rlclinic", "torch", "gymnasium", "numpy", "pydantic", "typer")


def commit() -> str:
    """The checked-out commit, marked when source files differ from it (results and docs may: benchmarks write them)."""
    head = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    if head.returncode:
        return "unknown"
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--", "rlclinic", "pyproject.toml"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return head.stdout.strip() + ("+changes" if changed.stdout.strip() else "")


def cpu_model() -> str:
    """The processor's own name, with the number of cores this process may use."""
    info = Path("/proc/cpuinfo")
    names = (
        [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    )
    return f"{names[0] if names else platform.processor() or platform.machine()}, {len(os.sched_getaffinity(0))} cores"


def provenance(command: str, peer_versions: dict[str, str] | None = None) -> dict[str, Any]:
    """What a reader needs to repeat a measurement. `command` is what to type, without paths of the machine that ran it."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "command": command,
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in PACKAGES},
        "peer_versions": peer_versions or {},
        "cpu": cpu_model(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def child_environment(**more: str) -> dict[str, str]:
    """The environment of a child that works in another folder: PYTHONPATH, by which the package may have been found, made whole."""
    paths = [str(Path(path).resolve()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | more


def write(name: str, rows: list[dict[str, Any]], origin: dict[str, Any], quick: bool) -> Path:
    """Save one benchmark's rows with their provenance, in one step; rows that were not measured this time stay as they were."""
    folder = QUICK_RESULTS if quick else RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    measured = [{key: origin[key] for key in ("date", "commit", "command")} | row for row in rows]
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    rows = [row for row in before if row["what"] not in {new["what"] for new in measured}] + measured
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"provenance": origin, "rows": rows}, indent=1) + "\n")
    temporary.replace(path)
    return path


def parser(doc: str | None) -> argparse.ArgumentParser:
    """An argument parser that shows the module's docstring and knows --quick."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        "--quick", action="store_true", help=f"a minute's worth, to see that it works; written to {QUICK_RESULTS.relative_to(ROOT)}/"
    )
    return made
