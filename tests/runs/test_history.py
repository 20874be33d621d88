import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rlclinic.config import Config
from rlclinic.errors import NotFound
from rlclinic.runs import history, status_file
from rlclinic.runs.history import make_series, of_run
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter

KL = "train/metrics/kl_divergence"
RETURN = "train/roll/ep_rew_mean"
EVAL = "val/roll/ep_rew_mean"


@pytest.fixture
def run(store: Store, make_config: Callable[..., Config]) -> Run:
    """Four rows; the KL of the third is not a number, and two rows have an evaluation."""
    made = store.create_group([make_config(3)]).runs[0]
    with RunWriter(made.path, ["time", "total_timesteps", RETURN, KL, EVAL]) as writer:
        for row, (kl, tested) in enumerate([(0.01, None), (0.02, 100.0), (float("nan"), None), (0.03, 200.0)], start=1):
            writer.row({"time": 5.0, "total_timesteps": 1_000 * row, RETURN: 10.0 * row, KL: kl, EVAL: tested})
        writer.status("finished", 4_000)
    return made


def test_the_history_of_a_run_has_every_column_on_the_axis_of_env_steps(run: Run) -> None:
    found = of_run(run)
    assert (found.id, found.source, found.path) == (run.id, "rlclinic", run.path)
    assert (found.env_id, found.algo, found.seed, found.threshold) == ("CartPole-v1", "ppo", 3, 475.0)
    assert (found.max_env_steps, found.env_steps, found.state) == (100_000, 4_000, "finished")
    assert found[RETURN].steps.tolist() == [1_000, 2_000, 3_000, 4_000]
    assert found[RETURN].values.tolist() == [10, 20, 30, 40]
    assert found[EVAL].steps.tolist() == [2_000, 4_000]
    assert "total_timesteps" not in found


def test_what_is_no_number_is_set_aside_with_its_step(run: Run) -> None:
    kl = of_run(run)[KL]
    assert kl.values.tolist() == [0.01, 0.02, 0.03]
    assert kl.broken.tolist() == [3_000]


def test_settings_have_dotted_names_and_schedules_stay_whole(store: Store) -> None:
    schedule = {"start": 1e-3, "end": 0.0, "schedule": "linear"}
    config = Config.model_validate({"env": {"id": "CartPole-v1"}, "algo": {"name": "ppo", "learning_rate": schedule}})
    settings = of_run(store.create_group([config]).runs[0]).settings
    assert settings["env.n_envs"] == config.env.n_envs
    assert settings["net.hidden"] == [64, 64]
    assert settings["algo.learning_rate"]["schedule"] == "linear"
    assert settings["algo.learning_rate"]["start"] == 1e-3


def test_the_bounds_of_actions_are_known_where_training_has_recorded_them(run: Run) -> None:
    assert "about.action_low" not in of_run(run).settings
    path = run.path / "config.json"
    action = {"kind": "box", "sizes": [6], "low": -1.0, "high": 2.0}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"engine": {"kind": "eager", "action": action}}))
    found = of_run(run).settings
    assert (found["about.action_low"], found["about.action_high"]) == (-1.0, 2.0), "although the run was opened before"


def test_a_run_that_continues_another_one_says_so(store: Store, make_config: Callable[..., Config]) -> None:
    group = store.create_group([make_config()], parent="gabc-s0@512", extra={"start": "extend"})
    assert of_run(group.runs[0]).settings["about.start"] == "extend"
    assert "about.start" not in of_run(store.create_group([make_config()]).runs[0]).settings


def test_a_run_that_has_not_begun_has_no_series(store: Store, make_config: Callable[..., Config]) -> None:
    found = of_run(store.create_group([make_config()]).runs[0])
    assert found.series == {}
    assert (found.env_steps, found.state) == (0, "running")


def test_a_line_that_is_half_written_is_left_out(run: Run) -> None:
    with (run.path / "metrics.csv").open("ab") as file:
        file.write(b"5.0,5000,5")
    found = of_run(run)
    assert found[RETURN].values.tolist() == [10, 20, 30, 40]
    assert found.env_steps == 4_000


def test_damaged_lines_are_counted_in_the_notes(run: Run) -> None:
    with (run.path / "metrics.csv").open("ab") as file:
        file.write(b"1,2\n5.0,5000,50.0,0.04,\n")
    found = of_run(run)
    assert found.env_steps == 5_000
    assert any("1 damaged lines" in note for note in found.notes)


def test_a_damaged_config_leaves_the_curves(run: Run) -> None:
    (run.path / "config.json").write_text('{"seed": 3, "env": {"id"')
    found = of_run(run)
    assert found[RETURN].last == 40
    assert (found.env_id, found.settings) == (None, {})
    assert any("config.json" in note for note in found.notes)


def test_a_folder_that_is_no_run_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="is not a run"):
        of_run(Run(tmp_path))


def test_resumes_and_changes_of_numbers_are_segments(run: Run) -> None:
    with RunWriter(run.path, ["time", "total_timesteps", RETURN, KL, EVAL], offset=0) as writer:
        writer.log("resume from env step 2000, exactly where it was")
        writer.intervention({"env_steps": 3_000, "set": {"algo.ent_coef": 0.01}})
        writer.status("finished", 4_000)
    found = of_run(run)
    assert found.segments == (2_000.0, 3_000.0)
    assert "resume from env step 2000" in found.log_tail


def test_a_run_whose_process_is_gone_failed(run: Run) -> None:
    status_file.write(
        run.path, status_file.Status(state="running", env_steps=4_000, pid=2**22 + 1, host=status_file.lock.HOST, heartbeat=1.0)
    )
    found = of_run(run)
    assert found.state == "failed"
    assert found.reason is not None


def test_the_log_keeps_its_last_lines_only() -> None:
    lines = [f"line {number}" for number in range(1_000)]
    assert history.tail("\n".join(lines) + "\n").split("\n") == lines[-history.LOG_TAIL_LINES :]


def test_a_status_without_steps_is_completed_by_the_table(run: Run) -> None:
    (run.path / "status.json").write_text(json.dumps({"state": "finished"}))
    assert of_run(run).env_steps == 4_000


def test_every_run_of_a_group_has_a_history(make_group: Callable[..., Group]) -> None:
    group = make_group([[1.0, 2.0], [3.0, 4.0]])
    assert [of_run(run)[EVAL].values.tolist() for run in group.runs] == [[1.0, 2.0], [3.0, 4.0]]


def test_a_series_is_sorted_and_without_steps_that_are_no_number() -> None:
    made = make_series([3.0, 1.0, np.nan, 2.0], [30.0, 10.0, 99.0, np.inf], "x", estimator="k1", rounded=True)
    assert made is not None
    assert (made.steps.tolist(), made.values.tolist(), made.broken.tolist()) == ([1.0, 3.0], [10.0, 30.0], [2.0])
    assert (made.name, made.estimator, made.rounded, made.last, len(made)) == ("x", "k1", True, 30.0, 2)


def test_a_series_of_nothing_is_none() -> None:
    assert make_series([], [], "x") is None
    assert make_series([np.nan], [1.0], "x") is None


def test_every_section_of_a_config_is_told_apart_by_its_settings() -> None:
    """A section that is not known stays one mapping, and no rule ever finds a setting of it."""
    from rlclinic.config.yaml_lines import SECTIONS

    sections = {name for name in Config.model_fields if name not in ("name", "seed")}
    assert set(SECTIONS) == sections
    told = history.dotted({name: {"setting": 1} for name in sections})
    assert set(told) == {f"{name}.setting" for name in sections}
