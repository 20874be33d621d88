"""deploy/compose.yaml, really started: `pytest -m loop tests/deploy/test_compose.py`, with a Docker engine and the compose plugin.

It starts the images that compose.yaml names, as docs/deploy.md says (`docker compose build` first), in a project of its own, which it
takes away again with its volumes. Whatever stands in for images of others must have their names.
"""

import json
import os
import secrets
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.test_project import ROOT

PATIENCE = float(os.environ.get("RLCLINIC_COMPOSE_SECONDS", "300"))
COMPOSE = ROOT / "deploy" / "compose.yaml"
STEPS = 400_000


def ask_docker(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["docker", *words], capture_output=True, text=True, timeout=2 * PATIENCE, check=False)


def missing() -> str:
    if shutil.which("docker") is None or ask_docker("info").returncode or ask_docker("compose", "version").returncode:
        return "no Docker engine with the compose plugin answers"
    named = {service["image"] for service in yaml.safe_load(COMPOSE.read_text())["services"].values()}
    images = [image.partition(":-")[2].rstrip("}") or image for image in named]
    return ", ".join(image for image in images if ask_docker("image", "inspect", image).returncode)


class Stack:
    """The project: its server, and what is typed for it."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.name = f"rlclinic-test-{secrets.token_hex(3)}"
        self.token = secrets.token_hex(32)
        (folder / "token").write_text(self.token)
        (folder / "token").chmod(0o644)
        self.variables = {
            "RLCLINIC_DB_PASSWORD": secrets.token_hex(16),
            "RLCLINIC_TOKEN_FILE": str(folder / "token"),
            "RLCLINIC_LISTEN": f"127.0.0.1:{self.port}",
        }

    def type(self, *words: str) -> str:
        """`docker compose` with these words."""
        command = ["docker", "compose", "-p", self.name, "-f", str(COMPOSE), *words]
        environment = os.environ | self.variables
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=2 * PATIENCE, check=False)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The server's answer to who has the first token."""
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}/api/v1/{path}", data=data, headers=headers)
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.load(answer)

    def inside(self, number: int, script: str) -> str:
        """What a shell in a worker's container prints."""
        return self.type("exec", "-T", "--index", str(number), "worker", "sh", "-c", script)


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = Stack(tmp_path)
    try:
        yield made
    finally:
        made.type("down", "--volumes", "--timeout", "1")


def wait_for(what: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if found := what():
                return found
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            pass
        assert time.monotonic() < deadline, what()
        time.sleep(0.5)


@pytest.mark.loop
def test_a_training_goes_through_the_containers_and_outlives_their_stop_and_their_kill(stack: Stack) -> None:
    if names := missing():
        pytest.skip(names)
    stack.type("up", "-d", "--no-build", "--scale", "worker=2")
    assert wait_for(lambda: stack.ask("ready")["redis"])
    assert stack.ask("ready") == {"schema_version": 1, "status": "ok", "runs": True, "queue": True, "redis": True}
    for number in (1, 2):
        said = stack.inside(number, "id -u; touch /x || echo refused; touch /work/runs/x /tmp/x && echo kept; grep CapBnd /proc/1/status")
        assert said.split() == ["10001", "refused", "kept", "CapBnd:", "0000000000000000"]
    changes = ["run.stop_at_threshold=false"]
    job = stack.ask("trainings", {"ref": "CartPole-v1:ppo_zoo", "seeds": 1, "max_env_steps": STEPS, "changes": changes})
    (name,) = job["runs"]

    def steps() -> int:
        return int(stack.ask(f"runs/{name}")["env_steps"])

    before = wait_for(steps)
    stack.type("stop", "worker")
    assert wait_for(lambda: stack.ask(f"jobs/{job['id']}")["state"] == "queued")
    assert STEPS > steps() >= before, "it must stop in the middle"
    stack.type("up", "-d", "--no-build", "--scale", "worker=2")
    before = wait_for(lambda: steps() if steps() > before else 0)
    stack.type("kill", "worker")
    stack.type("up", "-d", "--no-build", "--scale", "worker=2")
    done = wait_for(lambda: stack.ask(f"jobs/{job['id']}") if stack.ask(f"jobs/{job['id']}")["ended"] else None)
    assert done["state"] == "finished", done
    assert steps() >= STEPS
