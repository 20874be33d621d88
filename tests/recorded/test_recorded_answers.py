"""What users see is what was recorded: answers, exit codes, options, routes, tools, public names, config keys."""

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.recorded import answers, faces

ANSWERING = [name for name in answers.QUESTIONS if name != "shapes"]
SHAPES = ("commands", "config", "http", "mcp", "python")
HINT = "\nIf that is meant: python -m tests.recorded.record"


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """Ask a family of questions, once however many tests look at the answers."""
    return cache(lambda name: answers.QUESTIONS[name](tmp_path_factory.mktemp(name) / "here"))


@pytest.mark.parametrize("name", ANSWERING)
def test_fields_numbers_and_exit_codes_are_as_recorded(name: str, ask: Callable[[str], dict[str, Any]]) -> None:
    different = answers.facts(answers.load(name), ask(name))
    assert not different, "\n".join(different) + HINT


@pytest.mark.parametrize("name", ANSWERING)
def test_sentences_are_as_recorded(name: str, ask: Callable[[str], dict[str, Any]]) -> None:
    different = answers.words(answers.load(name), ask(name))
    assert not different, "\n".join(different) + HINT + " --words"


@pytest.mark.parametrize("name", SHAPES)
def test_names_types_and_defaults_are_as_recorded(name: str, ask: Callable[[str], dict[str, Any]]) -> None:
    different = answers.facts(answers.load("shapes")[name], ask("shapes")[name])
    assert not different, "\n".join(different) + HINT


SAID = (
    *("runs list", "runs show {healthy}", "status {sick}", "diagnose {sick}", "prescribe {sick}", "compare {healthy} {sick}"),
    *(
        "trial --show {trial}",
        "optimize --resume {optimize}",
        "sensitivity --resume {sensitivity}",
        "rules LRN101",
        "db status",
        "--version",
    ),
)


@pytest.mark.parametrize("line", SAID)
def test_a_command_without_json_says_something(line: str, tmp_path: Path) -> None:
    code, out, _ = answers.in_copy(tmp_path, lambda _: faces.run_command(*answers.filled(line).split()))
    assert code == 0
    assert out.strip()
    assert not out.startswith("{")


# ── and these tests would notice ──


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"a": 1}, {}),
        ({}, {"a": 1}),
        ({"a": 1}, {"b": 1}),
        ([1], [1, 2]),
        ({"a": 1.0}, {"a": 1.0 + 1e-7}),
        ({"a": 1}, {"a": True}),
        ({"a": "LRN101"}, {"a": "LRN102"}),
        ({"a": "rlclinic trial g1 --rx 1"}, {"a": "rlclinic trial g1 --rx 2"}),
        ({"a": "a sentence"}, {"a": None}),
    ],
)
def test_a_fact_that_changes_is_a_difference_and_is_never_taken_for_words(before: Any, now: Any) -> None:
    assert answers.facts(before, now)
    assert answers.with_words(before, now) == before


def test_a_sentence_that_changes_is_a_difference_of_words_alone() -> None:
    before, now = {"why": "the step is too large", "p": 0.9}, {"why": "steps are too large", "p": 0.9}
    assert answers.facts(before, now) == []
    assert answers.words(before, now)
    assert answers.with_words(before, now) == now


def test_what_was_recorded_is_of_no_folder_and_no_clock() -> None:
    for path in sorted(answers.ANSWERS.glob("*.json")):
        text = json.dumps(json.loads(path.read_text()))
        folders = (str(answers.FOLDER), str(Path.home()) + "/", "/tmp/", tempfile.gettempdir() + "/")
        assert not any(folder in text for folder in folders), path.name
