"""Several cohorts on one GPU of a real Ray cluster, whose node is told that it has one: `pytest -m loop tests/launch/test_ray_gpus.py`"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rlclinic.config import Config
from rlclinic.runs.store import Store
from rlclinic.training.__main__ import train_runs
from tests.servers import ray_server

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.loop, pytest.mark.skipif(not ray_server.is_there(), reason="Ray is not installed: pip install 'rlclinic[ray]'")]
LAUNCH = """
import json, sys, time
from pathlib import Path
from rlclinic.launch import batch, places, ray
from rlclinic.ray_cluster import ClusterAway
from rlclinic.runs.record import Run
places.choose("ray?gpus=0.25")
place, runs = places.current(), [Run(Path(name)) for name in sys.argv[1:]]
for _ in range(100):
    try:
        if ray.count_gpus(place) == 4:
            break
    except ClusterAway:
        pass
    time.sleep(1.0)  # its node has not joined yet
# The configs say cpu, so each trains there; what Ray is asked for is a quarter of a GPU for each.
launch = batch.start(runs, processes=len(runs), members=1, device="cuda")
most, free, together = 0, 1.0, 0
while launch.poll():
    most = max(most, len(launch.running))
    free = min(free, ray.connect().available_resources().get("GPU", 0.0))
    together = max(together, sum(run.status.state == "running" for run in runs))
    time.sleep(0.02)
print("\\nsaid", json.dumps({"most": most, "free": free, "together": together, "failed": len(launch.failed)}), flush=True)
"""
"""In a process of its own: Ray ends those that lose their cluster."""


def test_four_cohorts_share_a_gpu_at_once_and_train_what_they_train_alone(tmp_path: Path) -> None:
    base = Config.model_validate(
        {
            "env": {"id": "CartPole-v1", "n_envs": 2},
            "algo": {"name": "ppo", "n_steps": 32, "batch_size": 32, "n_epochs": 2},
            "run": {"max_env_steps": 16_384, "eval_every_env_steps": 8192, "eval_episodes": 2, "stop_at_threshold": False},
        }
    )
    configs = [base.model_copy(update={"seed": seed}) for seed in range(8)]
    here, there = (Store(tmp_path / name).create_group(configs).runs for name in ("here", "there"))
    assert train_runs(here)
    with ray_server.serve(gpus=1):
        command = [sys.executable, "-c", LAUNCH, *(str(run.path) for run in there)]
        done = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600, check=False
        )
    (said,) = [json.loads(line.removeprefix("said ")) for line in done.stdout.splitlines() if line.startswith("said ")] or [done.stderr]
    assert said == {"most": 4, "free": 0.0, "together": 8, "failed": 0}, "four cohorts of two"
    for one, other in zip(here, there, strict=True):
        assert one.status.state == other.status.state == "finished", other.status.reason
        for name in (name for name in one.metrics.names if not name.startswith("time")):
            np.testing.assert_array_equal(one.metrics[name], other.metrics[name])
        checkpoints = [sorted(run.path.glob("checkpoints/*/*.safetensors")) for run in (one, other)]
        assert [path.read_bytes() for path in checkpoints[0]] == [path.read_bytes() for path in checkpoints[1]] != []
