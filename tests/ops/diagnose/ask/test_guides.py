"""Questions that people bring: each has an answer that can be typed, called and opened, and says what it cannot tell."""

import re
import shlex
from typing import Any

import pytest
import typer

from docs.generate import questions
from rlclinic.errors import NotFound
from rlclinic.ops.diagnose.ask import guides
from rlclinic.references import REFERENCES
from rlclinic.serve.cli.app import app
from rlclinic.serve.web.routes import PAGES
from tests.serve.test_faces import tools

GUIDES = guides.list_guides().guides


def test_the_guides_are_the_thirteen_questions_in_their_order() -> None:
    assert len(GUIDES) == len(questions.QUESTIONS) == 13
    for guide, asked in zip(GUIDES, questions.QUESTIONS, strict=True):
        assert guide.question.startswith(asked.asked.rstrip("?")), (guide.question, asked.asked)


@pytest.fixture(scope="module")
def there() -> dict[str, Any]:
    return tools()


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
def test_what_a_guide_says_can_be_typed_called_and_opened(guide: guides.Guide, there: dict[str, Any]) -> None:
    for text in guide.type:
        words = shlex.split(text)
        command: Any = typer.main.get_command(app).commands[words[1]]
        if hasattr(command, "commands") and words[2] in command.commands:
            command = command.commands[words[2]]
        known = {spelled for parameter in command.params for spelled in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, text
    for text in guide.call:
        tool, _, arguments = text.partition("(")
        assert set(re.findall(r"(\w+)=", re.sub(r"\{.*?\}", "", arguments))) <= set(there[tool].input_schema["properties"]), text
    assert guide.page.href.partition("?")[0] in PAGES
    assert set(guide.cites) <= set(REFERENCES)
    assert set(re.findall(r"\[(\w+)\]", " ".join(guide.steps))) <= set(guide.cites)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("11", "dagger-diverges"),
        ("dagger", "dagger-diverges"),
        ("Should I use offline RL or set up an online training loop?", "offline-or-online"),
        ("What batch size for my robotics simulation?", "batch-size"),
        ("is RL overkill", "is-rl-overkill"),
    ],
)
def test_a_question_is_found_by_its_number_its_name_or_its_words(asked: str, name: str) -> None:
    assert guides.get_guide(asked).guide.name == name


@pytest.mark.parametrize("asked", ["", "0", "14", "quantum gravity", "training"])
def test_a_question_that_could_be_any_is_answered_with_all_of_them(asked: str) -> None:
    with pytest.raises(NotFound, match="offline-or-online"):
        guides.get_guide(asked)


@pytest.mark.parametrize("name", ["offline-or-online", "dagger-diverges"])
def test_what_is_not_trained_here_is_said_and_sourced(name: str) -> None:
    page = guides.get_guide(name)
    assert page.guide.cannot
    assert page.guide.steps
    assert all("http" in text for text in page.references)
