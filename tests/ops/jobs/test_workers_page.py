"""docs/workers.md as it is typed, with a real database and a real training."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlclinic.ops.jobs import models
from rlclinic.runs.database import connections
from rlclinic.runs.object_store import artifacts
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app
from tests.servers.postgres import PASSWORD, Server

ROOT = Path(__file__).resolve().parents[3]
WHERE = f"export {artifacts.VARIABLE}=s3://bucket/prefix"


def find_block(word: str) -> str:
    """The commands of the page among which one is."""
    (block,) = [
        text for text in re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "workers.md").read_text(), flags=re.DOTALL) if word in text
    ]
    return block


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
    block = find_block("artifacts pull")
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


def test_the_page_leads_from_home_to_a_worker_that_shares_no_disk_and_back(postgres: Server, tmp_path: Path) -> None:
    if not os.environ.get("RLCLINIC_CI"):
        pytest.importorskip("obstore", reason="object stores are not tested: pip install 'rlclinic[s3]'")
    typed = [line.partition(" #")[0].strip() for line in find_block("at home").splitlines()]
    install, database, objects, *commands = typed
    assert ("postgres,s3" in install, database.partition("=")[0], objects) == (True, f"export {connections.VARIABLE}", WHERE)
    own = {artifacts.VARIABLE: f"file://{tmp_path}/objects", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    for place in ("home", "elsewhere"):
        (tmp_path / place).mkdir()
    for command in commands:
        place = "elsewhere" if " worker " in command else "home"
        words = [sys.executable, "-m", *command.split()]
        environment = {**os.environ, **own, "RLCLINIC_LEASE_SECONDS": "10"}
        done = subprocess.run(
            words, cwd=tmp_path / place, env=environment, capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        if "status" in command:
            assert "finished" in done.stdout
    home = Store(tmp_path / "home" / "runs")
    (job,) = models.everything(home)
    assert [run.checkpoint("@last").valid for run in home.group(str(job.refers)).runs] == [True, True]
    assert not Store(tmp_path / "elsewhere" / "runs").runs()


def test_the_queue_can_be_named_with_every_command_that_starts_stops_or_looks_at_jobs(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setenv("RLCLINIC_DB", "")
    monkeypatch.chdir(tmp_path)
    named = ["--db", f"postgresql://clinic@/postgres?host={postgres.folder}&port={postgres.port}"]

    def type_in(*words: str) -> str:
        # Each is a process of its own: none may learn it from the one before.
        monkeypatch.setenv("RLCLINIC_DB", "")
        done = CliRunner().invoke(app, [*words, *named])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert "tables of version" in type_in("db", "migrate")
    job = json.loads(type_in("train", "CartPole-v1:ppo_zoo", "--max-env-steps", "2000", "--detach", "--json"))
    assert "1 queued" in type_in("db", "check")
    type_in("stop", job["group"])
    type_in("worker", "--until-empty")
    assert "1 stopped" in type_in("db", "check")
    refused = CliRunner().invoke(app, ["train", "CartPole-v1:ppo_zoo", "--detach", "--db", f"postgresql://clinic:{PASSWORD}@db/clinic"])
    assert refused.exit_code == 2
    assert PASSWORD not in refused.output + str(refused.exception)
    connections.forget()
