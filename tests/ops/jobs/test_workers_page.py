"""docs/workers.md as it is typed, with a real database and a real training."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rlclinic.ops.jobs import models
from rlclinic.runs.database import connections
from rlclinic.runs.object_store import artifacts
from rlclinic.runs.store import Store
from tests.servers.postgres import PASSWORD, Server

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


def test_the_page_leads_from_one_machine_to_another_through_an_object_store(tmp_path: Path) -> None:
    if not os.environ.get("RLCLINIC_CI"):
        pytest.importorskip("obstore", reason="object stores are not tested: pip install 'rlclinic[s3]'")
    (block,) = [
        text for text in re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "workers.md").read_text(), flags=re.DOTALL) if "s3://" in text
    ]
    install, export, train, *elsewhere = [line.partition(" #")[0].strip() for line in block.splitlines()]
    url = export.partition("=")[2]
    assert ("s3" in install, export) == (True, f"export {artifacts.VARIABLE}={url}")
    place = f"file://{tmp_path}/objects"
    own = {artifacts.VARIABLE: place, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}

    def type_in(folder: Path, command: str) -> str:
        folder.mkdir(exist_ok=True)
        words = [sys.executable, "-m", *command.split()]
        done = subprocess.run(words, cwd=folder, env={**os.environ, **own}, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    type_in(tmp_path / "here", train)
    group = Store(tmp_path / "here" / "runs").group()
    said = [type_in(tmp_path / "there", command.replace(url, place).replace("GROUP", group.id)) for command in elsewhere]
    assert len(said) == 5
    assert group.runs[0].id in said[0]
    assert [run.id for run in Store(tmp_path / "there" / "runs").group(group.id).runs] == [run.id for run in group.runs]
