"""Runs that were trained and stopped before a change go on after it: resumed to the same bits, forked, evaluated, loaded from Python."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.recorded import answers, faces, resumes


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a copy of the recorded runs."""
    answers.in_copy(tmp_path, lambda _: None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Any:
    code, out, err = faces.run_command(*(answers.filled(word) for word in words), "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize("name", resumes.STOPPED)
def test_a_stopped_run_is_resumed_to_the_rows_and_weights_that_the_old_code_gave(name: str, here: Path) -> None:
    recorded = resumes.expected()
    wanted, found = recorded[name], resumes.resume(name, here)
    assert found["state"] == "finished"
    if recorded["fingerprint"] == resumes.fingerprint():
        different = [column for column in wanted["rows"] if wanted["rows"][column] != found["rows"].get(column)]
        assert different == []
        assert found == wanted
        return
    # Another processor or BLAS: its last bits differ.
    assert (found["step"], list(found["rows"])) == (wanted["step"], list(wanted["rows"]))
    for column, values in wanted["rows"].items():
        assert all(map(resumes.alike, found["rows"][column], values)), column


def test_the_recorded_runs_were_stopped_in_the_middle() -> None:
    for name in resumes.STOPPED:
        status = json.loads((answers.RUNS / f"{answers.ids()[name]}-s0" / "status.json").read_text())
        assert status["state"] == "stopped"
        assert 0 < status["env_steps"] < status["max_env_steps"]


def test_an_old_checkpoint_is_forked_with_a_changed_setting(here: Path) -> None:
    forked = run("train", "{ppo}-s0@1024", "--set", "algo.learning_rate=1e-4", "--max-env-steps", "2048", "--quiet")
    shown = run("runs", "show", forked["runs"][0])
    assert forked["failed"] == []
    assert shown["run"]["state"] == "finished"
    assert shown["run"]["parent"].startswith(answers.ids()["ppo"])
    assert shown["config"]["algo"]["learning_rate"] == 1e-4


@pytest.mark.parametrize("name", resumes.EVALUATED)
def test_an_old_checkpoint_is_worth_what_it_was(name: str, here: Path) -> None:
    recorded = resumes.expected()
    wanted, found = recorded["evaluations"][name], resumes.evaluate(name)
    assert list(found) == list(wanted)
    if recorded["fingerprint"] == resumes.fingerprint():
        assert found == wanted


def test_old_runs_are_loaded_from_python_and_their_policies_act(here: Path) -> None:
    import numpy as np

    import rlclinic

    group = rlclinic.load_group(here / "runs" / "@groups" / answers.ids()["healthy"])
    assert [member.id for member in group.runs] == [f"{group.id}-s0", f"{group.id}-s1"]
    first = rlclinic.load_run(here / "runs" / f"{group.id}-s0")
    assert first.status.state == "finished"
    assert first.policy("@best").act(np.zeros(4, dtype=np.float32)) in (0, 1)
    sick = rlclinic.load_group(here / "runs" / "@groups" / answers.ids()["sick"])
    recorded = answers.load("cli_diagnose")["diagnose {sick}"]["json"]
    assert [cause.id for cause in rlclinic.diagnose(sick).causes] == [cause["id"] for cause in recorded["diagnosis"]["causes"]]
    assert rlclinic.prescribe(sick).prescriptions
    assert rlclinic.compare(group, sick).compared
