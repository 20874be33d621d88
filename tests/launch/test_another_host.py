"""A run that stops on one machine and goes on on another, through an object store: the same bytes as if it had never stopped."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlclinic.ops.train.plan import plan_training
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.ops.train.run import train
from rlclinic.runs import disk, status_file
from rlclinic.runs.object_store import artifacts
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store

if not os.environ.get("RLCLINIC_CI"):
    pytest.importorskip("obstore", reason="object stores are not tested: pip install 'rlclinic[s3]'")


def request(root: Path, **more: object) -> TrainRequest:
    return TrainRequest(runs_dir=root, report=False, lint_env=False, **more)  # type: ignore[arg-type]


def bytes_of(run: Run) -> dict[str, bytes]:
    """Its last policy and optimizer, and every column that does not depend on the clock."""
    last = run.checkpoint("@last")
    metrics = run.metrics
    columns = {name: np.asarray(metrics[name]).tobytes() for name in metrics.names if not name.startswith("time")}
    return columns | {name: (last.path / name).read_bytes() for name in ("policy.safetensors", "optimizer.safetensors", "loop.safetensors")}


def lose_the_end(run: Run) -> None:
    """As a machine leaves it that is switched off after the last checkpoint but one."""
    before, last = run.checkpoints[-2:]
    shutil.rmtree(last.path)
    disk.point(last.path.parent / "@last", str(before.step))
    if last.best:
        disk.point(last.path.parent / "@best", str(before.step))
    status_file.write(run.path, replace(status_file.raw(run.path), state="stopped", env_steps=before.step))


def test_resumed_on_another_host_is_the_same_as_never_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = ["run.checkpoint_every_env_steps=512"]
    alone = Store(tmp_path / "alone")
    gid = train(plan_training(request(alone.root, ref="CartPole-v1:ppo_zoo", max_env_steps=1_500, seeds=2, changes=changes))).group
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    shutil.copytree(alone.root, here.root, symlinks=True)
    runs = here.group(gid).runs
    for run in runs:
        lose_the_end(run)
    monkeypatch.setenv(artifacts.VARIABLE, f"file://{tmp_path}/objects")
    artifacts.push([*runs, here.group(gid)])
    artifacts.pull(there, [gid])
    resumed = train(plan_training(request(there.root, resume=gid)))
    assert resumed.failed == []
    wanted, found = ([bytes_of(run) for run in store.group(gid).runs] for store in (alone, there))
    assert [sorted(each) for each in found] == [sorted(each) for each in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert [name for name in one if one[name] != other[name]] == []
    # Put there by the training itself; the first machine does not know that it went on, and is not let back in.
    (runs[0].path / "report.md").write_text("late")
    with pytest.raises(artifacts.Taken, match="another machine has gone on"):
        artifacts.push([runs[0]])
    third = Store(tmp_path / "third")
    artifacts.pull(third, [gid])
    assert [bytes_of(run) for run in third.group(gid).runs] == wanted
