"""docs/questions.md: its commands run, on the store that the page was written with, and still give the answers that it shows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.generate import questions

PAGE = Path(__file__).resolve().parents[1] / "docs" / "questions.md"


@pytest.fixture(scope="module", autouse=True)
def store() -> Iterator[Path]:
    with questions.store() as folder:
        yield folder


COMMANDS = list(dict.fromkeys(command for question in questions.QUESTIONS for command in question.commands))
CALLS = {questions.spelled(call): call for question in questions.QUESTIONS for call in question.calls}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_documented_answer_is_what_the_command_says(command: str) -> None:
    code, text = questions.answer(command)
    assert code == 0, text
    page = PAGE.read_text()
    assert f"```sh\n{command}\n```" in page
    first = questions.steady(text).splitlines()[0]
    assert first.split(" · ")[0] in page
    for line in text.splitlines():
        if line.startswith("CAUSE 1"):
            # Probabilities move as the rules are refined; the cause and its rule are the answer.
            assert line[len("CAUSE 1  p 0.97  HIGH  ") :].split("  ")[0] in page


@pytest.mark.parametrize("spelled", CALLS)
def test_an_agent_gets_the_documented_answer_too(spelled: str) -> None:
    error, text = questions.called(CALLS[spelled])
    assert not error, text
    page = PAGE.read_text()
    assert f"```text\n{spelled}\n" in page
    assert questions.steady(text).splitlines()[0].split(" · ")[0] in page
    for line in text.splitlines():
        if line.startswith("CAUSE 1"):
            assert line.partition("HIGH  ")[2] in page


def test_every_question_can_be_typed_and_called() -> None:
    assert [question.asked for question in questions.QUESTIONS if not (question.commands and question.calls)] == []


def test_every_question_is_on_the_page() -> None:
    page = PAGE.read_text()
    assert [question.asked for question in questions.QUESTIONS if question.asked not in page] == []
