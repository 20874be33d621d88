import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def child(parent: int, *command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "rlclinic.launch.child", str(parent), *command], capture_output=True, text=True, check=False, cwd=ROOT
    )


def test_a_child_becomes_the_module_with_its_arguments() -> None:
    shown = child(os.getpid(), "json.tool", "--no-such-option")
    assert shown.returncode == 2
    assert "--no-such-option" in shown.stderr
    assert "tool" in shown.stderr


def test_a_child_whose_parent_is_already_gone_ends_at_once() -> None:
    shown = child(os.getpid() + 1, "json.tool", "--help")
    assert shown.returncode == -signal.SIGTERM
    assert shown.stdout == ""


def test_a_child_without_a_parent_to_die_with_runs_all_the_same() -> None:
    assert child(0, "json.tool", "--help").returncode == 0
