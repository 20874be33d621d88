"""A person as the expert: the question that waits, answers to it, and a dialogue that can be left."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rlclinic.config import Config
from rlclinic.errors import NotFound, UsageError
from rlclinic.ops.status.label import answer_question, get_question
from rlclinic.ops.status.requests import LabelRequest
from rlclinic.runs import labelling
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app


@pytest.fixture
def run(tmp_path: Path) -> Run:
    config = Config.model_validate({"env": {"id": "Pendulum-v1"}, "algo": {"name": "dagger", "expert": "person"}})
    return Store(tmp_path).create_group([config]).runs[0]


def ask(run: Run, place: tuple[int, ...] = (0, 3, 0, 0), **about: Any) -> tuple[threading.Thread, list[Any]]:
    """Put a question as the training process does, and wait in a thread."""
    said: list[Any] = []
    bounds = about or {"low": [-2.0], "high": [2.0]}
    waiting = threading.Thread(
        target=lambda: said.append(labelling.wait(run.path, place, [1.0, -0.5, 0.25], lambda: False, **bounds)), daemon=True
    )
    waiting.start()
    while labelling.read_question(run.path) is None:
        pass
    return waiting, said


def test_a_question_waits_until_it_is_answered(run: Run, tmp_path: Path) -> None:
    assert get_question(run.id, tmp_path).id is None
    waiting, said = ask(run)
    question = get_question(run.id, tmp_path)
    assert (question.id, question.observation, question.low) == ("0-3-0-0", [1.0, -0.5, 0.25], [-2.0])
    assert answer_question(LabelRequest(target=run.id, action=[5.0], runs_dir=tmp_path)).id is None
    waiting.join(5)
    assert said == [[2.0]], "beyond the bounds it is cut to them"


def test_an_answer_is_for_its_own_question_alone(run: Run, tmp_path: Path) -> None:
    ask(run)
    with pytest.raises(UsageError, match="asks 0-3-0-0 now"):
        answer_question(LabelRequest(target=run.id, action=[0.0], id="0-2-0-0", runs_dir=tmp_path))
    with pytest.raises(NotFound):
        labelling.answer(run.path, "0-2-0-0", [0.0])
    with pytest.raises(UsageError, match="1 numbers are needed"):
        answer_question(LabelRequest(target=run.id, action=[0.0, 1.0], runs_dir=tmp_path))


def test_choices_are_checked(run: Run, tmp_path: Path) -> None:
    ask(run, choices=3)
    for wrong in ([3.0], [-1.0], [0.5], [0.0, 1.0]):
        with pytest.raises(UsageError, match="none of the choices 0 to 2"):
            answer_question(LabelRequest(target=run.id, action=wrong, runs_dir=tmp_path))


def test_what_is_no_number_or_forbidden_is_no_answer(run: Run, tmp_path: Path) -> None:
    ask(run, choices=4, allowed=[1, 3])
    for wrong, why in ((float("nan"), "none of the choices"), (float("inf"), "none of the choices"), (2.0, r"forbidden here: \[1, 3\]")):
        with pytest.raises(UsageError, match=why):
            answer_question(LabelRequest(target=run.id, action=[wrong], runs_dir=tmp_path))
    said = CliRunner().invoke(app, ["label", run.id, "--runs-dir", str(tmp_path)], input="2\nnan\nq\n").output
    assert "one of 1, 3" in said
    assert said.count("that is no action here") == 2
    ask(run, (0, 4, 0, 0))
    said = CliRunner().invoke(app, ["label", run.id, "--runs-dir", str(tmp_path)], input="nan\n1 2\nq\n").output
    assert said.count("that is no action here") == 2


def test_a_dialogue_answers_and_can_be_left(run: Run, tmp_path: Path) -> None:
    waiting, said = ask(run)
    left = CliRunner().invoke(app, ["label", run.id, "--runs-dir", str(tmp_path)], input="never\nq\n")
    assert left.exit_code == 0
    assert "that is no action here" in left.output
    assert "0 answered" in left.output
    assert waiting.is_alive()
    answered = CliRunner().invoke(app, ["label", run.id, "--runs-dir", str(tmp_path), "--action", "0.5", "--json"])
    assert json.loads(answered.stdout)["id"] is None
    waiting.join(5)
    assert said == [[0.5]]


def test_a_run_that_is_asked_to_stop_leaves_its_question(run: Run) -> None:
    with pytest.raises(labelling.Interrupted, match="what was answered is kept"):
        labelling.wait(run.path, (0, 0, 0, 0), [0.0], lambda: True)
