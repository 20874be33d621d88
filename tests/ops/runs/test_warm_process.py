"""The process that films without importing anything: it is used where it is there, and nothing depends on it."""

import json
from pathlib import Path

import pytest

from rlclinic.ops.runs import video, warm_process
from rlclinic.runs.recording.films import FOLDER
from rlclinic.runs.store import Store
from tests.training.cohorts import make_config, train


def test_an_episode_is_recorded_in_a_fork_and_what_goes_wrong_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(tmp_path, [make_config(env={"id": "CartPole-v1", "max_episode_steps": 30})])[0]
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("an ordinary process was started"))
    warm_process.warm()
    try:
        made = video.film(run.id, tmp_path / "runs")
        missing = warm_process.record(f"{run.id}@7", tmp_path / "runs", tmp_path / "a.gif", tmp_path / "a.json", 60.0)
    finally:
        warm_process.stop()
    assert (made.file, made.trace) == (f"{made.step}.gif", f"{made.step}.json")
    assert (run.path / FOLDER / made.file).read_bytes().startswith(b"GIF89a")
    trace = json.loads((run.path / FOLDER / f"{made.step}.json").read_text())
    assert sorted(trace["observations"]) == ["0", "1", "2", "3"]
    assert missing is not None
    assert missing.returncode == 1
    assert "no checkpoint" in missing.stderr
    assert warm_process.record("x", tmp_path, tmp_path, tmp_path, 1.0) is None, "it is gone"
    assert video.list_films(Store(tmp_path / "runs").run(run.id)).films == [made]
