"""Programs that answer JSON lines, and answers that are no actions."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlclinic import trust
from rlclinic.errors import ConfigError, Untrusted
from rlclinic.training.imitation import experts
from rlclinic.training.imitation.experts import Program, Question

PROGRAM = """
import json, os, sys, time
for number, line in enumerate(sys.stdin):
    asked = json.loads(line)
    if asked["step"] == 1:
        time.sleep(60)
    if asked["step"] == 2:
        sys.exit(3)
    print("what?" if asked["step"] == 3 else json.dumps({"action": [2 * asked["observation"][0]]}), flush=True)
"""


@pytest.fixture
def command(tmp_path: Path) -> str:
    (tmp_path / "expert.py").write_text(PROGRAM)
    return f"{sys.executable} {tmp_path / 'expert.py'}"


def test_a_program_that_is_late_dead_or_wrong_gives_no_answer_and_the_next_one_counts(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(trust.TRUST, "all")
    said: list[str] = []
    program = Program(command, 5.0, said.append)

    def ask(step: int) -> Any:
        return program.ask(np.array([0.25]), Question(tmp_path, (0, step, 0, 0)))

    try:
        assert ask(0) == [0.5]
        program.seconds = 0.2
        assert ask(1) is None
        program.seconds = 5.0
        assert ask(0) == [0.5], "an answer that came late is not taken for the next one's"
        assert ask(2) is None
        assert ask(0) == [0.5]
        with pytest.raises(ConfigError, match="no JSON"):
            ask(3)
    finally:
        program.close()
    assert "did not answer within 0.2 s" in said[0]
    assert "exit code 3" in said[1]


def test_a_program_that_cannot_be_started_is_tried_a_few_times_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(trust.TRUST, "all")
    said: list[str] = []
    program = Program(str(tmp_path / "nowhere"), 1.0, said.append)
    answers = [program.ask(np.zeros(1), Question(tmp_path, (0, 0, 0, 0))) for _ in range(10)]
    assert answers == [None] * 10
    assert len(said) == experts.RESTARTS + 1


def test_a_command_that_nobody_approved_is_not_run(command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(trust.TRUST, raising=False)
    monkeypatch.setenv(trust.STATE, str(tmp_path))
    with pytest.raises(Untrusted):
        Program(command, 1.0, print)


@pytest.mark.parametrize(
    ("answer", "why"), [("left", "no number"), ([1.0, 2.0], "2 numbers"), ([float("inf")], "not finite"), (None, "not finite")]
)
def test_what_is_no_vector_of_the_environment_s_is_refused(answer: Any, why: str) -> None:
    env: Any = SimpleNamespace(action=SimpleNamespace(kind="box", sizes=(1,), low=np.array([-2.0]), high=np.array([2.0])))
    with pytest.raises(ConfigError, match=why):
        experts.read_action(answer, env)
    assert experts.read_action(7, env).tolist() == [2.0]


@pytest.mark.parametrize("answer", [3, -1, 0.5, [0, 1], True + 2])
def test_what_is_no_choice_of_the_environment_s_is_refused(answer: Any) -> None:
    env: Any = SimpleNamespace(action=SimpleNamespace(kind="discrete", sizes=(3,), low=None, high=None))
    with pytest.raises(ConfigError, match="choices 0 to 2"):
        experts.read_action(answer, env)
    assert experts.read_action([2.0], env) == 2
