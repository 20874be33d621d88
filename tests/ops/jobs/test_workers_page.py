"""docs/workers.md as it is typed, with a real database and a real training."""

import os
import re
import subprocess
import sys
from pathlib import Path

from rlclinic.ops.jobs import models
from rlclinic.runs.database import connections
from rlclinic.runs.store import Store
from tests.postgres import PASSWORD, Server

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_leads_from_an_empty_database_to_a_trained_group(postgres: Server, tmp_path: Path) -> None:
    (block, *_) = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "workers.md").read_text(), flags=re.DOTALL)
    typed = [line.partition(" #")[0].strip() for line in block.splitlines()]
    install, export, *commands = typed
    assert "postgres" in install
    assert export.startswith(f"export {connections.VARIABLE}=postgresql://")
    said = ""
    for command in commands:
        words = [sys.executable, "-m", *command.split()]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        said += done.stdout + done.stderr
    (job,) = models.everything(Store(tmp_path / "runs"))
    assert (job.state, job.shared) == ("finished", True)
    assert [run.status.state for run in Store(tmp_path / "runs").group(str(job.refers)).runs] == ["finished"] * 2
    written = [file.read_bytes() for file in (tmp_path / "runs").rglob("*") if file.is_file()]
    assert not any(PASSWORD.encode() in content for content in [said.encode(), *written])
