"""docs/questions.md: its commands run, on the store that the page was written with, and still give the answers that it shows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import questions_page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "questions.md"


@pytest.fixture(scope="module", autouse=True)
def store() -> Iterator[Path]:
    with questions_page.store() as folder:
        yield folder


@pytest.mark.parametrize("command", [command for question in questions_page.QUESTIONS for command in question.commands])
def test_a_documented_answer_is_what_the_command_says(command: str) -> None:
    code, text = questions_page.answer(command)
    assert code == 0, text
    page = PAGE.read_text()
    assert f"```sh\n{command}\n```" in page
    first = questions_page.steady(text).splitlines()[0]
    assert first.split(" · ")[0] in page
    for line in text.splitlines():
        if line.startswith("CAUSE 1"):
            # Probabilities move as the rules are refined; the cause and its rule are the answer.
            assert line[len("CAUSE 1  p 0.97  HIGH  ") :].split("  ")[0] in page


def test_every_question_is_on_the_page() -> None:
    page = PAGE.read_text()
    assert [question.asked for question in questions_page.QUESTIONS if question.asked not in page] == []
