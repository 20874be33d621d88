"""What a real Ray cluster may lose: raylet, GCS, the link to a node. Who writes stops within its lease, and the launcher is told."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlclinic.config import Config
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from tests.servers import namespaces, ray_server

ROOT = Path(__file__).resolve().parents[2]
LEASE = 5.0
if importlib.util.find_spec("ray") is None and not os.environ.get("RLCLINIC_CI"):
    pytest.skip("Ray is not installed: what it does is NOT tested (pip install 'rlclinic[ray]')", allow_module_level=True)
LAUNCH = """
import sys, time
from pathlib import Path
from rlclinic.launch import ray
from rlclinic.launch.places import RayPlace
from rlclinic.ray_cluster import ClusterAway
ray._PASSED_ON = (*ray._PASSED_ON, "PRETEND")
for _ in range(100):
    try:
        launch = ray.start(RayPlace(), [[Path(sys.argv[1])]], module="tests.launch.pretended")
        break
    except ClusterAway:
        time.sleep(1.0)  # its node has not joined yet
try:
    while launch.poll():
        time.sleep(0.05)
    print("ended", [cohort.returncode for cohort in launch.failed], flush=True)
except Exception as error:
    print("ended", type(error).__name__, str(error).splitlines()[0], flush=True)
"""
"""The launcher, as in a job's process; in one of its own, since Ray ends processes that lose their cluster."""


def lines(file: Path) -> list[float]:
    return [float(line.split()[3]) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize("lost", ["raylet", "gcs", "link"])
def test_a_writer_stops_within_its_lease_whatever_of_the_cluster_is_lost(
    lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
    if lost == "link" and not namespaces.can_be_made():
        (pytest.fail if os.environ.get("RLCLINIC_CI") else pytest.skip)(namespaces.MISSING)
    (run,) = Store(tmp_path / "runs").create_group([Config.model_validate({"env": {"id": "CartPole-v1"}})]).runs
    file = tmp_path / "did"
    with namespaces.hosts(int(lost == "link")) as hosts, ray_server.serve(hosts[0] if hosts else None) as node:
        environment = {**os.environ, "RLCLINIC_LEASE_SECONDS": str(LEASE), "PYTHONPATH": str(ROOT), "PRETEND": f"steps 100000 {file} job 1"}
        launcher = subprocess.Popen([sys.executable, "-c", LAUNCH, str(run.path)], env=environment, stdout=subprocess.PIPE, text=True)
        try:
            deadline = time.monotonic() + 120
            while len(lines(file)) < 10:
                assert launcher.poll() is None, launcher.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            began = time.time()
            if lost == "link":
                hosts[0].cut()
                last = 0.0
                while (latest := max(lines(file))) != last or time.time() < latest + LEASE:
                    # Nothing more for as long as a lease: it has stopped.
                    last = latest
                    assert latest < began + LEASE, "it went on writing beyond its lease"
                    time.sleep(0.2)
            elif lost == "raylet":
                node.kill_raylet()
            else:
                node.kill_gcs()
            # Without raylet or GCS the launcher and its place on the node may still hear each other, and go on for so long.
            said, _ = launcher.communicate(timeout=120)
            ended = time.time()
            # Ray itself ends a process whose GCS is gone; what that had started is left alone, and keeps its own deadline.
            told = any(line.startswith("ended") for line in said.splitlines())  # between what Ray prints
            assert told or lost == "gcs", said
            time.sleep(LEASE)
            assert max(lines(file)) < ended + (0.5 if told else LEASE), "it wrote when it had been given up"
            assert Run(run.path).status.state in ("stopped", "failed", "crashed")
        finally:
            for host in hosts:
                host.mend()
            launcher.kill()
            launcher.wait()
            assert launcher.stdout is not None
            launcher.stdout.close()
