"""What `status` decides: go on, stop, adjust, and on what grounds."""

import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlclinic.diagnosis.forecast import growth, model
from rlclinic.errors import NotFound, UsageError
from rlclinic.ops.status import status
from rlclinic.ops.status.forecast import Charts, _command, assess, watch
from rlclinic.runs.history import History, make_series
from tests.diagnosis import recorded
from tests.ops.recorded import flat, record_group

RETURN = "train/roll/ep_rew_mean"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def running(name: str, used: float) -> list[History]:
    """A recorded group as it stood at a share of its budget, with everything that it logged until then."""
    found = []
    for run in recorded.histories(name):
        step = used * (run.max_env_steps or 0)
        series = {}
        for column, each in run.series.items():
            keep = each.steps <= step
            if keep.any():
                series[column] = replace(each, steps=each.steps[keep], values=each.values[keep])
        found.append(replace(run, series=series, env_steps=int(step), state="running"))
    return found


def test_a_healthy_group_is_told_to_continue_and_then_that_it_is_solved() -> None:
    found = assess(running("cp-healthy", 0.1), "g1")
    assert found.decision == "CONTINUE"
    assert found.probability is not None
    assert len(found.seeds) == 3
    done = assess(recorded.histories("cp-healthy"), "g1")
    assert (done.decision, done.probability, done.command) == ("SOLVED", 1.0, "rlclinic runs show g1")


def test_a_group_that_cannot_learn_is_told_to_stop() -> None:
    found = assess(running("cp-obs-const", 0.9), "g1")
    assert found.decision == "STOP"
    assert found.probability is not None
    assert found.probability < 0.15
    assert all(seed.doomed for seed in found.seeds)
    assert found.command == "rlclinic stop g1 && rlclinic diagnose g1"
    assert "of the way to 475" in found.reason


def test_a_number_that_would_help_is_offered_while_the_run_still_has_a_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    # What a fit calls doomed is not the point here.
    mild = replace(model.shipped(), doomed_below=0.0)
    monkeypatch.setattr(model, "shipped", lambda: mild)
    found = assess(running("cp-lr-d100", 0.5), "g1")
    assert found.decision == "ADJUST"
    assert found.command is not None
    assert found.command.startswith("rlclinic adjust g1 --set algo.learning_rate=")
    assert found.cause is not None
    assert "(p " in found.cause


def test_a_group_that_ended_says_so() -> None:
    found = assess(recorded.histories("cp-obs-const"), "g1")
    assert (found.decision, found.probability) == ("ENDED", 0.0)
    assert found.command == "rlclinic diagnose g1"


def test_without_a_threshold_nothing_is_decided() -> None:
    found = assess([replace(each, threshold=None) for each in running("cp-healthy", 0.3)], "g1")
    assert (found.decision, found.probability) == ("UNKNOWN", None)
    assert "threshold" in found.reason


def test_randomness_that_runs_out_before_the_budget_is_watched() -> None:
    steps = np.linspace(1_000, 50_000, 60)
    noise = np.random.default_rng(0).normal(0, 0.003, 60)
    entropy = make_series(steps, 0.6 - 0.5 * steps / 60_000 + noise, "train/sentinel/entropy_relative")
    returns = make_series(steps, steps / 1_000, RETURN)
    assert entropy is not None
    assert returns is not None
    run = History(
        id="r",
        source="rlclinic",
        algo="ppo",
        series={RETURN: returns, "train/sentinel/entropy_relative": entropy},
        settings={"algo.ent_coef": 0.004},
        threshold=475.0,
        max_env_steps=100_000,
        env_steps=50_000,
        state="running",
    )
    said = watch([run])
    assert said is not None
    assert said.startswith("entropy 18 % of maximum and falling; floor expected near 6")
    assert watch([replace(run, max_env_steps=60_000)]) is None
    assert _command("CONTINUE", "g1", [run], None) == "rlclinic adjust g1 --set algo.ent_coef=0.01"


def test_the_percentile_comes_from_the_users_own_solved_runs_or_else_from_recorded_ones(root: Path) -> None:
    first = record_group(root, seeds=range(9))
    group = record_group(root, seeds=(0,), returns=flat, state="running", share_done=0.5)
    found = status.get_training_status(group.id, root).groups[0].outlook
    assert found is not None
    assert (found.healthy_runs, found.healthy_source) == (9, "your runs")
    assert found.percentile == pytest.approx(5)
    for run in first.runs:
        (run.path / "config.json").unlink()
    found = status.get_training_status(group.id, root).groups[0].outlook
    assert found is not None
    assert found.healthy_source == "recorded runs"


def test_a_chart_is_made_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    charts = Charts(root)
    monkeypatch.setattr(growth, "shipped", lambda env, algo: made.append(env))
    assert charts.chart("Some-v0", "ppo") is None
    assert charts.chart("Some-v0", "ppo") is None
    assert made == ["Some-v0"]


def test_status_of_a_group_carries_its_outlook(root: Path) -> None:
    group = record_group(root, seeds=(0, 1), returns=flat, state="running", share_done=0.5)
    found = status.get_training_status(None, root).groups[0]
    assert found.id == group.id
    assert found.outlook is not None
    assert found.outlook.decision in ("CONTINUE", "ADJUST", "STOP")
    easy = status.get_training_status(group.id, root, threshold=50.0).groups[0].outlook
    assert easy is not None
    assert easy.decision == "SOLVED"


# ── other frameworks ──


def write_csv(path: Path, rows: int = 30, level: float = 1.0) -> Path:
    lines = ["global_step,ep_rew_mean"] + [f"{1000 * (row + 1)},{level * row}" for row in range(rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_another_frameworks_log_is_running_while_it_is_written_to(tmp_path: Path) -> None:
    log = write_csv(tmp_path / "log.csv")
    charts = Charts(tmp_path / "runs")
    assert status.is_foreign(str(log), tmp_path / "runs")
    found = status.observe_folder(str(log), charts, threshold=100.0, budget=100_000)[0]
    assert (found.state, found.env_steps, found.max_env_steps) == ("running", 30_000, 100_000)
    assert found.outlook is not None
    assert found.outlook.probability is not None
    assert found.outlook.command is None
    old = time.time() - 3_600
    os.utime(log, (old, old))
    assert status.observe_folder(str(log), charts, threshold=100.0, budget=100_000)[0].state == "stopped"
    assert status.observe_folder(str(log), charts, threshold=100.0, budget=30_000)[0].state == "finished"


def test_of_another_frameworks_log_it_is_said_what_to_give_and_where_to_look(tmp_path: Path) -> None:
    log, charts = write_csv(tmp_path / "log.csv"), Charts(tmp_path / "runs")
    asks = [
        ({}, f"rlclinic status {log} --threshold THRESHOLD --budget BUDGET"),
        ({"threshold": 100.0}, f"rlclinic status {log} --budget BUDGET"),
        ({"threshold": 100.0, "budget": 30_000}, f"rlclinic diagnose {log}"),
    ]
    for known, command in asks:
        outlook = status.observe_folder(str(log), charts, **known)[0].outlook  # type: ignore[arg-type]
        assert outlook is not None
        assert outlook.command == command


def test_a_run_of_ours_is_not_foreign(root: Path) -> None:
    group = record_group(root, seeds=(0,))
    assert not status.is_foreign(str(group.runs[0].path), root)
    assert not status.is_foreign("@last", root)
    assert not status.is_foreign(group.id, root)
    with pytest.raises((NotFound, UsageError)):
        status.get_training_status("nothing-here", root)
