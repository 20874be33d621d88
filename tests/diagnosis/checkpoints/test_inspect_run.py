"""Checkpoints: every planted corruption is found, healthy ones stay silent, and no file can make it fail."""

import json
import math
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlclinic.diagnosis.checkpoints import inspect_run, measures
from rlclinic.diagnosis.findings import Severity
from rlclinic.runs.history import History, make_series
from rlclinic.runs.record import Run
from tests.diagnosis.saved_checkpoints import Change, Files, contents, make_run, write

RULES = {each.id: each for each in inspect_run.rules()}


def found(run: Run, history: History | None = None) -> set[str]:
    return {finding.rule for finding in inspect_run.examine(run, history)}


def last_only(change: Any) -> Change:
    return lambda made, place: change(made) if place == 0 else None


def always(change: Any) -> Change:
    return lambda made, place: change(made)


def nan_weight(made: Files) -> None:
    made["policy"]["actor.1.weight"][3, 5] = math.nan


def frozen_critic(made: Files) -> None:
    made["policy"] |= {name: np.full_like(value, 0.125) for name, value in made["policy"].items() if name.startswith("critic.")}


def frozen(made: Files) -> None:
    made["policy"] = contents(0, 0)["policy"] | {"obs_stats.count": made["policy"]["obs_stats.count"]}


def huge(made: Files) -> None:
    made["policy"]["actor.1.weight"] *= 200


def dead_units(made: Files) -> None:
    made["policy"]["actor.1.weight"][:] = 0


def saturated_units(made: Files) -> None:
    made["policy"]["actor.0.bias"] += 10


def one_direction(made: Files) -> None:
    made["policy"]["actor.1.weight"] = np.outer(np.linspace(-1, 1, 64), np.linspace(1, 2, 64)).astype(np.float32)


def moments_missing(made: Files) -> None:
    del made["optimizer"]["square"]


def moments_zero(made: Files) -> None:
    made["optimizer"]["mean"][:] = 0
    made["optimizer"]["square"][:] = 0


def steps_back(made: Files) -> None:
    made["optimizer"]["steps"][:] = 20


def moments_nan(made: Files) -> None:
    made["optimizer"]["mean"][7] = math.inf


def moments_negative(made: Files) -> None:
    made["optimizer"]["square"][7] = -1


def moments_of_another_network(made: Files) -> None:
    made["optimizer"]["mean"] = made["optimizer"]["mean"][:-5]


def moments_huge(made: Files) -> None:
    made["optimizer"]["square"][0] = 1e20


def other_normalizer(made: Files) -> None:
    made["policy"]["obs_stats.mean"] = np.array([0.0, 0.0, 500.0, 0.0])


def young_normalizer(made: Files) -> None:
    made["policy"]["obs_stats.count"] = np.array([64.0])


def negative_variance(made: Files) -> None:
    made["policy"]["obs_stats.var"] = np.array([1.0, -2.0, 1.0, 1.0])


def wide(made: Files) -> None:
    made["policy"]["log_std"] = np.full((1, 2), 2.1, np.float32)


def narrow(made: Files) -> None:
    made["policy"]["log_std"] = np.full((1, 2), -9.0, np.float32)


PLANTED = [
    ("CKP102", last_only(nan_weight)),
    ("CKP103", always(frozen_critic)),
    ("CKP103", always(frozen)),
    ("CKP104", last_only(huge)),
    ("CKP105", last_only(dead_units)),
    ("CKP105", last_only(saturated_units)),
    ("CKP106", last_only(one_direction)),
    ("CKP107", last_only(moments_missing)),
    ("CKP107", last_only(moments_zero)),
    ("CKP107", last_only(steps_back)),
    ("CKP108", last_only(moments_nan)),
    ("CKP108", last_only(moments_negative)),
    ("CKP108", last_only(moments_of_another_network)),
    ("CKP108", last_only(moments_huge)),
    ("CKP110", last_only(other_normalizer)),
    ("CKP110", last_only(young_normalizer)),
    ("CKP110", last_only(negative_variance)),
    ("CKP111", last_only(wide)),
    ("CKP111", last_only(narrow)),
]


@pytest.mark.parametrize(("id", "change"), PLANTED)
def test_every_planted_corruption_is_found(id: str, change: Change, tmp_path: Path) -> None:
    findings = [each for each in inspect_run.examine(make_run(tmp_path, change)) if each.rule == id]
    assert findings, f"{RULES[id].name} said nothing"
    assert findings[0].strength >= 0.5
    assert findings[0].severity is RULES[id].severity
    assert findings[0].evidence
    assert findings[0].remedies
    assert "nan " not in findings[0].text


def test_healthy_checkpoints_are_silent(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, seed=seed) for seed in range(3)]
    assert inspect_run.examine_group(runs) == []


def test_a_run_without_checkpoints_has_nothing_to_say(tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=())
    assert inspect_run.examine(run) == []
    assert inspect_run.inspect(run) is None


@pytest.mark.parametrize("name", ["policy.safetensors", "optimizer.safetensors", "loop.safetensors", "state.json", "manifest.json"])
def test_a_file_that_is_missing_or_changed_is_named(name: str, tmp_path: Path) -> None:
    run = make_run(tmp_path)
    file = run.path / "checkpoints" / "30000" / name
    file.write_bytes(file.read_bytes()[:-3])
    assert "CKP101" in found(run)
    file.unlink()
    said = next(each for each in inspect_run.examine(run) if each.rule == "CKP101")
    assert name in said.text
    assert said.severity is Severity.HIGH


def test_a_flipped_bit_is_found_by_its_checksum(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    file = run.path / "checkpoints" / "30000" / "policy.safetensors"
    data = bytearray(file.read_bytes())
    data[-100] ^= 1
    file.write_bytes(data)
    assert found(run) == {"CKP101"}


def test_the_optimizer_is_compared_with_the_log(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    steps = np.array([10_000.0, 20_000.0, 30_000.0])
    name = "train/sentinel/optimizer_steps"
    right = make_series(steps, 0.1 * steps, name)
    assert right is not None
    history = History(id=run.id, source="rlclinic", series={name: right})
    assert found(run, history) == set()
    assert found(run, replace(history, series={name: replace(right, values=right.values + 40)})) == {"CKP109"}


def test_seeds_with_the_same_weights_are_told(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, seed=seed) for seed in range(2)]
    shutil.rmtree(runs[1].path / "checkpoints")
    shutil.copytree(runs[0].path / "checkpoints", runs[1].path / "checkpoints")
    twins = [each for each in inspect_run.examine_group(runs) if each.rule == "CKP112"]
    assert {each.run for each in twins} == {run.id for run in runs}


def test_an_inspection_gives_the_numbers_of_every_layer(tmp_path: Path) -> None:
    seen = inspect_run.inspect(make_run(tmp_path))
    assert seen is not None
    assert (seen.step, seen.before, seen.optimizer_steps) == (30_000, 20_000, 3_000)
    layer = next(each for each in seen.layers if each.name == "actor.1.weight")
    assert (layer.shape, layer.width, layer.dead, layer.saturated) == ((64, 64), 64, 0, 0)
    assert layer.norm == pytest.approx(math.hypot(math.sqrt(2 * 64), 0.03 * 64), rel=0.02)
    assert layer.rank == pytest.approx(64, rel=0.05)
    assert layer.change == pytest.approx(math.hypot(0.02, 0.03) * 64 / layer.norm, rel=0.05)
    assert "draws from the normalizer" in seen.observations


def test_a_file_of_weights_alone_is_inspected_as_far_as_it_goes(tmp_path: Path) -> None:
    made = contents(100, 0)
    nan_weight(made)
    folder = write(tmp_path / "x", made)
    seen = inspect_run.inspect_file(folder / "policy.safetensors")
    assert [each.rule for each in seen.findings] == ["CKP102"]
    assert len(seen.layers) == 12


def test_a_pickled_model_is_not_opened_but_told_how_to_save(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("policy.pth", b"\x80\x04.")
    seen = inspect_run.inspect_file(path)
    assert seen.layers == ()
    assert "save_file" in " ".join(seen.unassessable[0].paste)


def test_the_effective_rank_counts_directions() -> None:
    assert measures.effective_rank(np.eye(16)) == pytest.approx(16)
    assert measures.effective_rank(np.outer(np.ones(16), np.arange(1.0, 9.0))) == pytest.approx(1)
    assert measures.effective_rank(np.zeros((4, 4))) == 0
    assert measures.effective_rank(np.ones(4)) is None


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["policy.safetensors", "optimizer.safetensors", "loop.safetensors", "state.json", "manifest.json"]),
    data=st.binary(max_size=300),
    head=st.sampled_from([b"", b"\x40" + b"\0" * 7, b'\x08\0\0\0\0\0\0\0{"a":{}}', b"\xff" * 8]),
)
def test_no_bytes_make_an_examination_fail(name: str, data: bytes, head: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    shutil.rmtree(folder, ignore_errors=True)
    run = make_run(folder, steps=(1_000, 2_000))
    (run.path / "checkpoints" / "2000" / name).write_bytes(head + data)
    assert "CKP101" in found(run)
    assert inspect_run.inspect(run) is not None


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shapes=st.dictionaries(
        st.sampled_from(["actor.0.weight", "actor.0.bias", "log_std", "obs_stats.mean", "obs_stats.var", "obs_stats.count", "odd"]),
        st.lists(st.integers(0, 5), max_size=3),
    ),
    value=st.sampled_from([0.0, 1e300, -1.0, math.nan, math.inf]),
)
def test_tensors_of_any_shape_and_value_can_be_examined(shapes: dict[str, list[int]], value: float, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    shutil.rmtree(folder, ignore_errors=True)

    def change(made: Files, place: int) -> None:
        made["policy"] |= {name: np.full(shape, value) for name, shape in shapes.items()}

    run = make_run(folder, change, steps=(1_000, 2_000))
    seen = inspect_run.inspect(run)
    assert seen is not None
    json.loads(seen.model_dump_json())


def test_checks_are_documented_and_none_imports_torch(tmp_path: Path) -> None:
    for each in RULES.values():
        assert each.title.endswith(".")
        assert "## Why it hurts" in each.doc
        assert "## When it is fine" in each.doc
    run = make_run(tmp_path)
    code = (
        "import sys; from rlclinic.runs.record import Run; from rlclinic.diagnosis.checkpoints import inspect_run; "
        f"inspect_run.examine(Run({str(run.path)!r})); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'scipy', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
def test_checkpoints_of_a_real_training_are_silent(tmp_path: Path) -> None:
    from rlclinic.config import files
    from rlclinic.runs import history
    from rlclinic.runs.store import Store
    from rlclinic.training.__main__ import train_runs

    changes = ["run.max_env_steps=6000", "run.eval_every_env_steps=2000", "env.normalize_obs=true"]
    config = files.load("CartPole-v1:ppo_zoo", changes).config
    group = Store(tmp_path).create_group([config.model_copy(update={"seed": seed}) for seed in range(2)])
    train_runs(group.runs)
    assert all(len(run.checkpoints) >= 2 for run in group.runs)
    assert [each.text for each in inspect_run.examine_group(group.runs, [history.of_run(run) for run in group.runs])] == []


@pytest.mark.parametrize("kind", ["td3", "sac", "dqn", "bootstrapped_dqn", "reinforce without baseline", "q_learning"])
def test_checkpoints_of_every_kind_of_learner_are_silent(tmp_path: Path, kind: str) -> None:
    from tests.training import cohorts

    name = cohorts.task_of(kind) if kind in cohorts.REPLAY | cohorts.TABLES else "discrete"
    task = (cohorts.STATES if name == "states" else cohorts.TASKS[name])[0]
    config = cohorts.make_config(kind, task, run={"checkpoint_every_env_steps": 96, "eval_episodes": 0})
    (run,) = cohorts.train(tmp_path, [config])
    assert len(run.checkpoints) >= 2
    # A few steps have not gone through every layer; what was lost or stands still would be told at HIGH.
    assert [each.text for each in inspect_run.examine(run) if each.severity is Severity.HIGH] == []


def test_a_normalizer_of_recorded_data_need_not_see_more_rows_than_there_are(tmp_path: Path) -> None:
    from tests.training import cohorts, recordings

    (run,) = cohorts.train(tmp_path, [recordings.make_config("bc", run={"max_env_steps": 900, "eval_episodes": 0})])
    assert [each.text for each in inspect_run.examine(run) if each.rule == "CKP110"] == []


@pytest.mark.parametrize("kind", ["bc", "td3_bc", "iql", "awac", "cql", "cal_ql", "dt", "dagger", "gail"])
def test_checkpoints_of_what_learns_from_data_or_an_expert_are_silent(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.training import cohorts, recordings
    from tests.training.imitation import test_adversarial, test_iteration

    monkeypatch.setenv("RLCLINIC_TRUST", "all")
    if kind == "dagger":
        config = test_iteration.make()
    elif kind == "gail":
        config = test_adversarial.make_config(kind, "discrete", 0)
    else:
        config = recordings.make_config(kind, run={"checkpoint_every_env_steps": 24, "eval_episodes": 0})
    (run,) = cohorts.train(tmp_path, [config])
    assert len(run.checkpoints) >= 2
    assert [each.text for each in inspect_run.examine(run) if each.severity is Severity.HIGH] == []


# ── as a part of a diagnosis ──


def test_a_diagnosis_of_our_own_run_tells_about_its_checkpoints_unasked(tmp_path: Path) -> None:
    from rlclinic.ops.diagnose.diagnose import diagnose

    run = make_run(tmp_path / "runs", last_only(nan_weight))
    whole = diagnose(run.id, tmp_path / "runs", write=False).diagnosis
    told = next(each for each in whole.findings if each.rule == "CKP102")
    assert told.runs == (run.id,)
    less = diagnose(run.id, tmp_path / "runs", ignore=["CKP"], write=False).diagnosis
    assert not any(each.rule.startswith("CKP") for each in less.findings)
    assert whole.checks.total == less.checks.total + len(RULES)
    only = diagnose(run.id, tmp_path / "runs", select=["CKP102"], write=False).diagnosis
    assert [each.rule for each in only.findings] == ["CKP102"]
    assert only.checks.total == 1


def test_checks_of_checkpoints_are_explained_like_rules() -> None:
    from rlclinic.ops.diagnose import rules

    assert {row.id for row in rules.list_rules("checkpoints").rules} == set(RULES)
    assert rules.explain_rule("ckp107").rule.name == "optimizer-state-was-lost"
    assert {row.id for row in rules.list_rules().rules} > set(RULES)
