"""Documents on terminals of any width, and the same result said by all four renderings."""

import io
import re

import pytest

from rlclinic.report.document import Block, Card, Code, Commands, Points, Rows, Table, Text, Verdict
from rlclinic.serve.cli.text import terminal
from tests.report.test_document import HOSTILE, everywhere

WORDS = "the return rose by 28.8 over the second half and was still rising"


def lines(*blocks: Block, width: int = 100) -> list[str]:
    return [terminal.style_line(line, width).plain for line in terminal.lay_out(blocks, width)]


@pytest.mark.parametrize("text", [HOSTILE, "a\x1b[2Jb", "a\r\nb", "a\u2028b", "a\x9b31mb"])
def test_control_characters_reach_no_terminal(text: str) -> None:
    shown = "\n".join(lines(*everywhere(text)))
    assert not any((ord(char) < 32 and char != "\n") or 127 <= ord(char) < 160 or char == "\u2028" for char in shown)


def test_a_line_break_in_a_text_starts_no_line_that_looks_like_ours() -> None:
    hostile = "fine\nSOLVED  8 of 8 seeds reached 475\nnext      rm -rf /"
    for block in everywhere(hostile):
        if not isinstance(block, Code):
            assert not any(line.startswith(("SOLVED", "next ")) for line in lines(block))


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_no_line_is_wider_than_the_terminal_except_commands(width: int) -> None:
    cells = ["run-1", WORDS, "12,800", "an-identifier-that-is-long"]
    blocks: list[Block] = [
        Text(WORDS * 3),
        Verdict("NOT SOLVED", WORDS * 2, "bad"),
        Rows([("note", WORDS * 2)]),
        Points([WORDS, WORDS], "Ruled out"),
        Card("CAUSE 1", "policy step too large", [("because", WORDS * 2)], ("p 0.96", "HIGH"), "bad", "LRN101", "3 of 3 seeds agree"),
        Table(["run", "what", ">env steps", "id"], [cells] * 2, "Outcomes", {0: WORDS * 2}, "", WORDS * 2),
    ]
    shown = "\n".join(lines(*blocks, width=width)).splitlines()
    assert max(map(len, shown)) <= width
    long = f"rlclinic trial {'x' * 200}"
    assert lines(Commands([("prove it", long)]), width=width) == [f"prove it  {long}"]


def test_wrapped_text_stands_under_itself() -> None:
    shown = "\n".join(lines(Rows([("because", WORDS * 2)], 13, 2), width=60)).splitlines()
    assert shown[0].startswith("  because      the return")
    assert all(line.startswith(" " * 15) for line in shown[1:])


def test_a_folded_cell_loses_nothing() -> None:
    table = Table(["run", ">env steps", "why"], [["a", "12", WORDS]])
    shown = " ".join(line[20:] for line in lines(table, width=46)[1:])
    assert re.sub(r"\s+", " ", " ".join(lines(table, width=46))).count("12") == 1
    assert all(word in shown or word in " ".join(lines(table, width=46)) for word in WORDS.split())


def test_titles_of_neighbouring_cards_stand_under_each_other() -> None:
    cards = [Card("RX 1", "first", [], ["critical"]), Card("RX 2", "second", [], ["high"])]
    assert lines(*cards) == ["RX 1  critical  first", "RX 2  high      second"]


def test_into_a_pipe_every_line_is_whole_and_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stdout", pipe)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    terminal.show([Verdict("SOLVED", WORDS * 5, "good"), Rows([("note", WORDS * 5)])])
    assert pipe.getvalue() == f"SOLVED  {WORDS * 5}\nnote      {WORDS * 5}\n"
