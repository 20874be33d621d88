"""Programs that answer JSON lines, and answers that are no actions."""

import sys
import time
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
        program.seconds = 0.3
        assert ask(3) is None
    finally:
        program.close()
    assert "did not answer within 0.2 s" in said[0]
    assert "exit code 3" in said[1]
    assert "'what?', which is no answer" in said[2]
    assert "did not answer within 0.3 s" in said[3]


CHATTER = """
import json, sys
print("loading the model", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    print("thinking about", asked["step"], flush=True)
    print(json.dumps({"action": asked["observation"]}), flush=True)
    if asked["step"] == 1:
        for number in range(3000):
            print(json.dumps({"note": number}), flush=True)
"""


def test_what_a_program_writes_beside_its_answers_pushes_none_to_the_next_question(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(trust.TRUST, "all")
    (tmp_path / "expert.py").write_text(CHATTER)
    said: list[str] = []
    program = Program(f"{sys.executable} {tmp_path / 'expert.py'}", 20.0, said.append)
    try:
        answers = [program.ask(np.array([float(step)]), Question(tmp_path, (0, step, 0, 0))) for step in (0, 0, 1, 2, 3)]
        assert answers == [[0.0], [0.0], [1.0], [2.0], [3.0]]
        program.ask(np.array([1.0]), Question(tmp_path, (0, 1, 0, 0)))
        time.sleep(0.3)
        assert program._lines.qsize() <= experts.MOST_LINES
    finally:
        program.close()
    assert len(said) == 1
    assert "'loading the model', which is no answer" in said[0]


FORGETFUL = r"""
import sys
line = sys.stdin.readline()
sys.stdout.buffer.write(b"\xff\xfe caf\xe9\n[0.5]\n")
"""


def test_a_program_that_ends_after_every_answer_is_started_again_as_often_as_it_takes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And what it writes need not be text."""
    monkeypatch.setenv(trust.TRUST, "all")
    (tmp_path / "expert.py").write_text(FORGETFUL)
    said: list[str] = []
    program = Program(f"{sys.executable} -S {tmp_path / 'expert.py'}", 20.0, said.append)
    answers = [program.ask(np.zeros(1), Question(tmp_path, (0, step, 0, 0))) for step in range(4 * experts.RESTARTS)]
    program.close()
    assert answers.count([0.5]) >= 2 * experts.RESTARTS, said  # every second one meets a program that has just ended
    assert answers[-2:].count([0.5]) == 1


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
