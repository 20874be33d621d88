import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlclinic.report import document
from rlclinic.report.document import Block, Card, Code, Figure, Figures, Heading, Points, Table, Text, Tiles

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
        Card(text, text, [(text, text)], "#b91c1c"),
    ]


def test_text_from_a_log_cannot_become_markup_in_a_page() -> None:
    page = document.html(everywhere(HOSTILE))
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\x07" not in page
    assert "&lt;script&gt;" in page


def test_text_from_a_log_cannot_become_a_tag_a_link_or_a_cell_in_markdown() -> None:
    text = document.markdown([Heading(HOSTILE), Text(HOSTILE), Points([HOSTILE]), Table(["a"], [[HOSTILE]])])
    assert "<script" not in text
    assert "](javascript" not in text
    assert "\x1b" not in text
    row = next(line for line in text.splitlines() if line.startswith("| ") and "alert" in line)
    assert len(re.findall(r"(?<!\\)\|", row)) == 2


def test_a_code_block_cannot_be_left_from_inside() -> None:
    text = document.markdown([Code("a\n```\n<b>", "yaml")])
    assert text.count("```") == 2


def test_code_and_bold_are_understood_in_both() -> None:
    assert document.html([Text("**now** type `rlclinic train`")]) == "<p><b>now</b> type <code>rlclinic train</code></p>"
    assert "`a < b`" in document.markdown([Text("type `a < b`")])


def test_a_picture_is_a_file_or_its_own_words_in_markdown() -> None:
    assert document.markdown([Figure(lambda: "<svg/>", "curve", "curve.png")]).strip() == "![curve](curve.png)"
    assert document.markdown([Figure(lambda: "<svg/>", "curve")]).strip() == "*curve*"
    assert "<svg/>" in document.html([Figure(lambda: "<svg/>", "curve")])


@given(st.text())
def test_any_text_gives_a_page_without_foreign_tags(text: str) -> None:
    page = document.html(everywhere(text))
    allowed = "h2|p|ul|li|div|table|thead|tbody|tr|th|td|pre|figure|svg|figcaption|b|span|section|h3|dl|dt|dd|code"
    assert re.sub(rf"</?(?:{allowed})(?: class=[\w\"]+| style=\"[-\w:#]+\")*>", "", page).count("<") == 0


@pytest.mark.parametrize("sequence", ["\x1b[2J", "\x1b[1;31m", "\x1b]0;title\x07", "\x00", "\x9b31m", "\r"])
def test_control_sequences_are_taken_out(sequence: str) -> None:
    cleaned = document.clean(f"a{sequence}b")
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in cleaned)
    assert cleaned.startswith("a")
    assert cleaned.endswith("b")
