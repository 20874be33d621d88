"""`rlclinic status` on the command line."""

import json
from pathlib import Path
from threading import current_thread, main_thread

import pytest
from typer.testing import CliRunner

from rlclinic.ops.status import status
from rlclinic.runs.record import Run
from rlclinic.serve.cli.app import app
from rlclinic.serve.cli.commands.status import join_events, time
from rlclinic.serve.cli.text.status import ordinal
from tests.ops.recorded import flat, record_group, rising


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLCLINIC_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def rlclinic(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.output


def test_status_says_how_likely_it_is_and_why(root: Path) -> None:
    group = record_group(root, seeds=(0, 1), returns=flat, state="running", share_done=0.5)
    code, text = rlclinic("status")
    assert code == 0
    assert text.startswith(f"{group.id} · CartPole-v1:ppo · 2 seeds · 5,120/10,240 env steps · 10,000 steps/s · 1.0 s left\n")
    assert "reaches 475 by 10.2k · return 80.4" in text
    assert "because   " in text
    assert "of the way to 475" in text


def test_status_as_json_has_the_same_content(root: Path) -> None:
    record_group(root, seeds=(0,), returns=flat, state="running", share_done=0.5)
    code, text = rlclinic("status", "--json")
    outlook = json.loads(text)["groups"][0]["outlook"]
    assert code == 0
    assert 0 <= outlook["low"] <= outlook["probability"] <= outlook["high"] <= 1
    assert outlook["seeds"][0]["reason"] in outlook["reason"]


def test_a_finished_group_needs_no_forecast(root: Path) -> None:
    record_group(root, seeds=(0, 1), returns=rising)
    _, text = rlclinic("status", "@last")
    assert "SOLVED    2 of 2 seeds reached 475" in text
    assert "because" not in text


def test_watching_ends_with_the_runs_and_prints_lines_where_nobody_looks(root: Path) -> None:
    record_group(root, seeds=(0,), returns=rising)
    told = root.parent / "told"
    code, text = rlclinic("status", "@last", "--watch", "--every", "0.2", "--on", "solved", f"echo $RLCLINIC_RUN > {told}")
    assert code == 0
    assert len([line for line in text.splitlines() if "SOLVED" in line]) == 1
    assert told.read_text().strip() == status.get_training_status("@last", root).groups[0].members[0].run


def test_watching_looks_again_until_the_end(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = record_group(root, seeds=(0,), returns=flat, state="running", share_done=0.5)
    run = Run(group.runs[0].path)

    sleep = time.sleep

    def finish(seconds: float) -> None:
        if current_thread() is not main_thread():
            sleep(seconds)  # a thread of another test
            return
        status = json.loads((run.path / "status.json").read_text())
        (run.path / "status.json").write_text(json.dumps({**status, "state": "finished"}))

    monkeypatch.setattr(time, "sleep", finish)
    code, text = rlclinic("status", group.id, "--watch", "--json")
    states = [json.loads(line)["groups"][0]["state"] for line in text.splitlines()]
    assert code == 0
    assert states == ["running", "finished"]


def test_an_event_without_a_command_and_an_unknown_event_are_refused(root: Path) -> None:
    record_group(root, seeds=(0,))
    code, text = rlclinic("status", "--on", "doomed")
    assert code == 2
    assert "what should be run then" in " ".join(text.replace("│", " ").split())
    code, text = rlclinic("status", "--on", "dommed", "true")
    assert code == 2
    assert "there is no such event" in text


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["--on", "doomed", "rm x"], ["--on", "doomed=rm x"]),
        (["--on", "doomed=rm x", "-w"], ["--on", "doomed=rm x", "-w"]),
        (["g1", "--on", "failed", "a", "--on", "solved", "b"], ["g1", "--on", "failed=a", "--on", "solved=b"]),
        (["--on"], ["--on"]),
    ],
)
def test_an_event_and_its_command_are_two_words(given: list[str], wanted: list[str]) -> None:
    assert join_events(given) == wanted


def test_a_log_of_another_framework_has_a_status(tmp_path: Path) -> None:
    log = tmp_path / "progress.csv"
    log.write_text("global_step,ep_rew_mean\n" + "".join(f"{1000 * row},{row}\n" for row in range(1, 40)))
    code, text = rlclinic("status", str(log), "--threshold", "100", "--budget", "100k")
    assert code == 0
    assert "39,000/100,000 env steps" in text
    assert "reaches 100 by 100k" in text


@pytest.mark.parametrize(("value", "text"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (11, "11th"), (31, "31st"), (50, "50th")])
def test_percentiles_are_spoken(value: int, text: str) -> None:
    assert ordinal(value) == text


def test_a_checkpoint_can_be_looked_into(tmp_path: Path) -> None:
    from tests.diagnosis.saved_checkpoints import make_run

    run = make_run(tmp_path / "runs")
    code, text = rlclinic("runs", "checkpoints", run.id, "--inspect", "--runs-dir", str(tmp_path / "runs"))
    assert code == 0
    assert "changes since 20,000 · 3,000 optimizer steps" in text
    assert "actor.1.weight" in text
    assert "nothing is wrong with it" in text
    code, text = rlclinic("runs", "checkpoints", str(run.path / "checkpoints" / "30000" / "policy.safetensors"), "--inspect", "--json")
    assert code == 0
    assert len(json.loads(text)["inspection"]["layers"]) == 12
