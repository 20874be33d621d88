import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlclinic.report import document
from rlclinic.report.document import Block, Card, Code, Commands, Figure, Figures, Gap, Heading, Points, Rows, Table, Text, Tiles, Verdict

HOSTILE = "<script>alert(1)</script> [x](javascript:alert(2)) | \x1b[31mred\x1b[0m \x07"


def everywhere(text: str) -> list[Block]:
    figure = Figure(lambda: "<svg></svg>", text)
    return [
        Heading(text),
        Text(text),
        Text(text, quiet=True),
        Points([text]),
        Table([text], [[text]]),
        Code(text, "sh"),
        figure,
        Figures([figure]),
        Tiles([(text, text)]),
        Card(text, text, [(text, text)], [text], "bad", text, text),
        Verdict(text, text, "good"),
        Rows([(text, text)]),
        Commands([(text, text)]),
        Points([text], text, 3, text),
        Table([text, f">{text}"], [[text, text]], text, {0: text}, text, text),
        Code(text, "python", text, 3),
        Gap(),
    ]


def test_text_from_a_log_cannot_become_markup_in_a_page() -> None:
    page = document.render_html(everywhere(HOSTILE))
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\x07" not in page
    assert "&lt;script&gt;" in page


def test_text_from_a_log_cannot_become_a_tag_a_link_or_a_cell_in_markdown() -> None:
    text = document.render_markdown([Heading(HOSTILE), Text(HOSTILE), Points([HOSTILE]), Table(["a"], [[HOSTILE]])])
    assert "<script" not in text
    assert "](javascript" not in text
    assert "\x1b" not in text
    row = next(line for line in text.splitlines() if line.startswith("| ") and "alert" in line)
    assert len(re.findall(r"(?<!\\)\|", row)) == 2


STARTS = ["# a heading", "- a point", "1. a point", "> a quote", "```", "~~~", "| a | b |", "fine\n# a heading", "fine\n```\nrm -rf"]


@pytest.mark.parametrize("text", STARTS)
def test_text_from_a_log_cannot_begin_a_block_in_markdown(text: str) -> None:
    (line,) = [line for line in document.render_markdown([Text(text)]).splitlines() if line]
    assert not re.match(r"#|- |1\.|>|```|~~~|\|", line)
    for block in everywhere(text):
        lines = document.render_markdown([block]).splitlines()
        assert "# a heading" not in lines or isinstance(block, Code | Commands)
        assert sum(line.startswith("```") for line in lines) in (0, 2)


@pytest.mark.parametrize("text", [HOSTILE, "a\nnext: adopt()", "a\r\nb", "a\u2028b", "a```b", "`" * 9])
def test_text_from_a_log_stays_on_its_line_in_compact_text(text: str) -> None:
    for block, calm in zip(everywhere(text), everywhere("calm"), strict=True):
        said = document.render_compact([block])
        assert not any((ord(char) < 32 and char != "\n") or 127 <= ord(char) < 160 for char in said)
        assert isinstance(block, Code) or len(said.splitlines()) == len(document.render_compact([calm]).splitlines())


def test_long_texts_are_cut_and_long_tables_say_what_they_leave_out_in_compact_text() -> None:
    assert len(document.render_compact([Text("word " * 500)])) <= document.CLIPPED
    table = document.render_compact([Table(["a"], [[str(row)] for row in range(100)])])
    assert table.endswith(f"… and {100 - document.MOST_ROWS} more rows")


def test_a_code_block_cannot_be_left_from_inside() -> None:
    text = document.render_markdown([Code("a\n```\n<b>", "yaml")])
    assert text.count("```") == 2


def test_code_and_bold_are_understood_in_both() -> None:
    assert document.render_html([Text("**now** type `rlclinic train`")]) == "<p><b>now</b> type <code>rlclinic train</code></p>"
    assert "`a < b`" in document.render_markdown([Text("type `a < b`")])


def test_a_picture_is_a_file_or_its_own_words_in_markdown() -> None:
    assert document.render_markdown([Figure(lambda: "<svg/>", "curve", "curve.png")]).strip() == "![curve](curve.png)"
    assert document.render_markdown([Figure(lambda: "<svg/>", "curve")]).strip() == "*curve*"
    assert "<svg/>" in document.render_html([Figure(lambda: "<svg/>", "curve")])


@given(st.text())
def test_any_text_gives_a_page_without_foreign_tags(text: str) -> None:
    page = document.render_html(everywhere(text))
    allowed = "h2|p|ul|li|div|table|thead|tbody|tr|th|td|pre|figure|svg|figcaption|b|span|section|h3|dl|dt|dd|code"
    assert re.sub(rf"</?(?:{allowed})(?: class=[\w\"]+| colspan=\"\d+\"| style=\"[-\w:#]+\")*>", "", page).count("<") == 0


@pytest.mark.parametrize("sequence", ["\x1b[2J", "\x1b[1;31m", "\x1b]0;title\x07", "\x00", "\x9b31m", "\r"])
def test_control_sequences_are_taken_out(sequence: str) -> None:
    cleaned = document.clean(f"a{sequence}b")
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in cleaned)
    assert cleaned.startswith("a")
    assert cleaned.endswith("b")
