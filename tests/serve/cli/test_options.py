"""Options that are numbers: all of them are typed alike."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from rlclinic.ops import request
from rlclinic.serve.cli.app import app


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from commands(inner, (*path, name))
    else:
        yield path, command


def numeric_options() -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    for path, command in commands(typer.main.get_command(app)):
        for option in command.params:
            kind = str(option.type_descriptor.annotation)
            if option.param_type_name == "option" and not option.is_flag and ("int" in kind or "float" in kind):
                yield path, command, option


def test_every_option_that_is_a_number_reads_60k_and_says_in_plain_words_what_it_refuses() -> None:
    """A budget may be typed as 60k; then nobody should have to know of which options that is true."""
    seen = 0
    for path, command, option in numeric_options():
        required = ["x" for each in command.params if each.param_type_name == "argument" and each.required]
        for text in ("60k", "1e3", "2_000", "sixty"):
            said = ""
            try:
                command.make_context(path[-1], [*required, option.opts[0], text])
            except Exception as error:  # noqa: BLE001 — typer's own class of it is not public
                said = str(getattr(error, "message", error))
            about = f"{' '.join(path)} {option.opts[0]} {text}: {said}"
            assert "Input should" not in said, about
            if text == "sixty":
                assert "not a number" in said, about
            else:
                assert not said or "must be at most" in said, about
        seen += 1
    assert seen > 80


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("60k", 60_000),
        ("1.1k", 1_100),
        ("1e3", 1_000),
        ("2_000", 2_000),
        ("1.5M", 1_500_000),
        ("0", 0),
        ("-3", -3),
        (7, 7),
        ("2g", 2 * 10**9),
    ],
)
def test_a_whole_number_is_read_as_people_type_it(text: str, number: int) -> None:
    assert request.read_number(text, whole=True) == number


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "not a number"), ("k", "not a number"), ("nan", "not a number"), ("inf", "not a number"), ("1e3k", "not a number"),
     ("1.5", "not a whole number"), ("0.3k", ""), ("60 k", "")],
)  # fmt: skip
def test_what_is_no_whole_number_is_refused(text: str, says: str) -> None:
    if not says:
        assert request.read_number(text, whole=True) in (300, 60_000)
        return
    with pytest.raises(ValueError, match=says):
        request.read_number(text, whole=True)


def test_bounds_are_said() -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        request.read_number("0", whole=True, least=1)
    with pytest.raises(ValueError, match=r"must be at most 0\.5"):
        request.read_number("0.9", whole=False, most=0.5)
