"""The real command in processes of its own: what it imports, how it ends, what is left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app

REPOSITORY = Path(__file__).resolve().parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
COMMAND = [sys.executable, "-m", "rlclinic.serve.cli.app"]
# Ten thousand iterations: long enough to be interrupted.
LONG = ["train", "CartPole-v1:ppo_zoo", "--max-env-steps", "2560k", "--seeds", "2", "--jobs", "1"]


def rlclinic(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=120)


def start(*arguments: str, folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen([*COMMAND, *arguments], cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def has_learned(folder: Path) -> bool:
    return any(run.status.state == "running" and run.status.env_steps > 0 for run in Store(folder / "runs").runs())


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], ["pydantic", "numpy", "yaml", "rlclinic.runs", "rlclinic.config", "rlclinic.launch"]),
        (["runs", "list"], ["numpy", "yaml", "rlclinic.config", "rlclinic.launch"]),
    ],
)
def test_a_command_imports_nothing_that_it_does_not_need(tmp_path: Path, arguments: list[str], absent: list[str]) -> None:
    code = (
        "import sys, json\nfrom rlclinic.serve.cli.app import app\n"
        f"try:\n    app({arguments!r})\nexcept SystemExit as end:\n    assert not end.code\n"
        f"print('\\n' + json.dumps([name for name in {absent!r} if name in sys.modules]))"
    )
    outcome = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert json.loads(outcome.stdout.splitlines()[-1]) == []


def test_a_shell_completes_environments_and_runs(tmp_path: Path) -> None:
    asked = {**ENVIRONMENT, "_RLCLINIC_COMPLETE": "complete_bash", "COMP_WORDS": "rlclinic train CartPole-v1:ppo_", "COMP_CWORD": "2"}
    code = "from rlclinic.serve.cli.app import app; app(prog_name='rlclinic')"
    outcome = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=asked, capture_output=True, text=True, check=False)
    assert "CartPole-v1:ppo_zoo" in outcome.stdout.split()


def test_a_terminal_without_utf8_gets_question_marks_instead_of_a_crash(tmp_path: Path) -> None:
    from tests.ops.recorded import record_group

    record_group(tmp_path / "runs", seeds=(0,))
    ascii_only = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    outcome = subprocess.run([*COMMAND, "runs", "show"], cwd=tmp_path, env=ascii_only, capture_output=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert b"SOLVED" in outcome.stdout


def test_a_reader_that_goes_away_is_no_error_to_shout_about(tmp_path: Path) -> None:
    from tests.ops.recorded import record_group

    record_group(tmp_path / "runs", seeds=(0, 1, 2))
    piped = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m rlclinic.serve.cli.app runs list | head -1"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert piped.stdout.startswith("run ")
    assert "Traceback" not in piped.stderr


@pytest.mark.slow
def test_train_evaluate_fork_and_extend_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training is a command in a process of its own; what is asked of its runs afterwards is typed in this one."""
    monkeypatch.chdir(tmp_path)
    trained = rlclinic(
        "train", "CartPole-v1:ppo_zoo", "--seeds", "2", "--max-env-steps", "2048", "--set", "run.eval_every_env_steps=1024", folder=tmp_path
    )
    assert trained.returncode == 0, trained.stderr
    assert "2,048/2,048" in trained.stderr
    group = Store(tmp_path / "runs").group()
    assert (group.path / "curve.png").exists()

    def type_here(*words: str) -> Any:
        result = CliRunner().invoke(app, [*words, "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    scored = type_here("evaluate", f"{group.id}-s0", "-n", "5", "--video", "e.gif")
    assert (scored["episodes"], len(scored["returns"]), scored["video"]) == (5, 5, "e.gif")
    assert (tmp_path / "e.gif").read_bytes().startswith(b"GIF8")
    report = type_here("train", "--resume", group.id, "--max-env-steps", "3072", "-q")["report"]
    assert (report["parent"], [seed["env_steps"] for seed in report["seeds"]]) == (group.id, [3072, 3072])
    forked = type_here("train", f"{group.id}-s1@1024", "--set", "algo.ent_coef=0.01", "-q")
    assert forked["report"]["parent"] == f"{group.id}-s1@1024"


@pytest.mark.slow
def test_ctrl_c_saves_and_stops_and_resume_goes_on(tmp_path: Path) -> None:
    process = start(*LONG, folder=tmp_path)
    wait_until(lambda: has_learned(tmp_path))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "stopping after a checkpoint" in err
    assert "rlclinic train --resume" in out
    runs = Store(tmp_path / "runs").runs()
    assert {run.status.state for run in runs} == {"stopped"}
    before = runs[0].status.env_steps
    assert [checkpoint.step for checkpoint in runs[0].checkpoints][-1] == before
    again = start("train", "--resume", runs[0].group_id or "", folder=tmp_path)
    wait_until(lambda: Store(tmp_path / "runs").runs()[0].status.env_steps > before)
    again.send_signal(signal.SIGTERM)
    again.communicate(timeout=60)
    assert again.returncode == 143


@pytest.mark.slow
def test_no_process_survives_a_killed_command(tmp_path: Path) -> None:
    process = start(*LONG, folder=tmp_path)
    wait_until(lambda: has_learned(tmp_path))
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: not any(run.status.live for run in Store(tmp_path / "runs").runs()))
