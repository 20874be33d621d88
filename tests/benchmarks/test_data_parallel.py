"""Planted faults of synchronization are named, from the run's files alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import provenance
from benchmarks.data_parallel.__main__ import is_named


@pytest.mark.parametrize("fault", ["local-gradients", "left-out-collective"])
def test_a_planted_fault_is_named(fault: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.data_parallel.faults", fault, str(tmp_path), "1", "2", "FrozenLake a2c"]
    done = subprocess.run(
        command, cwd=provenance.ROOT, env=provenance.child_environment(), capture_output=True, text=True, timeout=120, check=False
    )
    (cell,) = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert is_named(cell), (cell, done.stderr[-2000:])
