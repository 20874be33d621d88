"""The image, really built and asked: minutes, and a registry or what stands in for one. `pytest -m loop tests/deploy/test_image.py`

RLCLINIC_BUILD_ARGS has what a machine needs that cannot reach the registries, as `--build-arg BASE=localhost/debian --volume …`.
"""

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator

import pytest

from tests.test_project import ROOT

pytestmark = [pytest.mark.loop, pytest.mark.skipif(shutil.which("buildah") is None, reason="no buildah: apt install buildah")]
MOST_BYTES = 1.2e9


def buildah(*words: str) -> str:
    done = subprocess.run(["buildah", *words], cwd=ROOT, capture_output=True, text=True, timeout=3_000, check=False)
    assert done.returncode == 0, f"buildah {' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout.strip()


@pytest.fixture(scope="module")
def container() -> Iterator[str]:
    """A container of the image, built here."""
    more = shlex.split(os.environ.get("RLCLINIC_BUILD_ARGS", ""))
    buildah("bud", "--isolation", "chroot", "--layers", "-f", "deploy/Dockerfile", "-t", "rlclinic:tested", *more, ".")
    made = buildah("from", "rlclinic:tested")
    yield made
    buildah("rm", made)


def test_the_image_trains_as_nobody_and_is_small(container: str) -> None:
    run = ("run", "--isolation", "chroot", container, "--")
    assert buildah(*run, "id", "-u") == "10001"
    trained = buildah(*run, "rlclinic", "train", "CartPole-v1:ppo_zoo", "--max-env-steps", "1000", "--quiet", "--json")
    assert json.loads(trained)["runs"]
    (image,) = json.loads(buildah("images", "--json", "rlclinic:tested"))
    size = buildah("run", "--isolation", "chroot", "--user", "root", container, "--", "du", "-sbx", "/opt", "/usr", "/var", "/etc")
    assert image["names"]
    assert sum(int(line.split()[0]) for line in size.splitlines()) < MOST_BYTES


def test_the_server_in_the_image_answers_those_who_have_its_token(container: str) -> None:
    run = ("run", "--isolation", "chroot", container, "--")
    token = buildah(*run, "rlclinic", "serve", "token", "add", "me", "--scope", "read").splitlines()[0]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(["buildah", *run, "rlclinic", "serve", "--host", "0.0.0.0", "--port", str(port)], start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/ready", timeout=10) as answer:
                    assert json.load(answer)["status"] == "ok"
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.5)
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/runs", headers={"authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            assert len(json.load(answer)["items"]) == 1
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)
