"""Logs of others that are still being written."""

import os
import time
from pathlib import Path

from rlclinic.ops.diagnose.diagnose import diagnose
from rlclinic.readers import live


def write(folder: Path, age_seconds: float = 0.0) -> Path:
    """The first fifth of a CSV log."""
    folder.mkdir()
    log = folder / "progress.csv"
    rows = [f"{step},{10 + step / 100},0.01" for step in range(500, 10_500, 500)]
    log.write_text("\n".join(["time/total_timesteps,rollout/ep_rew_mean,train/approx_kl", *rows, ""]))
    then = time.time() - age_seconds
    os.utime(log, (then, then))
    return folder


def test_a_log_that_is_short_of_its_budget_and_still_written_to_runs(tmp_path: Path) -> None:
    young = diagnose(str(write(tmp_path / "young")), budget=50_000, threshold=475.0, write=False).diagnosis
    assert young.facts.state == "running"
    assert not any(finding.rule == "BUD102" for finding in young.findings)


def test_a_log_that_nobody_writes_to_any_more_does_not_run(tmp_path: Path) -> None:
    old = diagnose(str(write(tmp_path / "old", live.SILENT_SECONDS + 60)), budget=50_000, threshold=475.0, write=False).diagnosis
    assert old.facts.state != "running"
    assert any(finding.rule == "BUD102" for finding in old.findings)


def test_a_log_that_has_used_its_budget_has_ended_however_young_it_is(tmp_path: Path) -> None:
    assert diagnose(str(write(tmp_path / "young")), budget=10_000, threshold=475.0, write=False).diagnosis.facts.state != "running"


def test_that_a_log_may_still_grow_does_not_silence_what_it_says(tmp_path: Path) -> None:
    """A folder that was copied a moment ago looks alive, too."""
    folder = tmp_path / "copied"
    folder.mkdir()
    rows = [f"{step},-20.4,-20.4,1e-9,1e-7,-1.79" for step in range(8_192, 983_040, 8_192)]
    heads = "time/total_timesteps,rollout/ep_rew_mean,eval/mean_reward,train/approx_kl,train/learning_rate,train/entropy_loss"
    (folder / "progress.csv").write_text("\n".join([heads, *rows, ""]))
    found = diagnose(str(folder), budget=10_000_000, threshold=18.0, write=False).diagnosis
    assert found.facts.state == "running"
    assert found.causes[0].id == "learning-rate-too-low"
