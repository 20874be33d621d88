"""A document in a terminal: plain lines into a pipe; colours, and lines wrapped under their own text, where somebody reads them."""

import itertools
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from rlclinic.report.document import (
    BOLD,
    Block,
    Card,
    Code,
    Commands,
    Figure,
    Figures,
    Gap,
    Heading,
    Points,
    Rows,
    Table,
    Text,
    Tiles,
    Tone,
    Verdict,
    clean_block,
)
from rlclinic.report.format import listed
from rlclinic.serve.cli import console

if TYPE_CHECKING:
    from rich.text import Text as Styled

STYLES: Final[dict[Tone, str]] = {
    "good": "bold green",
    "bad": "bold red",
    "warn": "bold yellow",
    "note": "bold",
    "quiet": "dim",
    "plain": "bold",
}
ASIDE_AT: Final = 76
"""The column at which a card's aside stands."""
FIRST_COLUMN: Final = 17
"""Columns of the labels in a table that answers something."""
NARROWEST: Final = 4
"""Columns that a table's cell keeps where a terminal is narrow."""


class Line(NamedTuple):
    """One line: what it says, how far it is indented where it must be wrapped (None: never), and a word of it that stands out."""

    text: str
    hang: int | None = None
    word: str = ""
    style: str = ""


def show(blocks: Iterable[Block], stream: TextIO | None = None) -> None:
    """Print a document, on stdout unless told otherwise."""
    stream = stream or sys.stdout
    if not stream.isatty() and "FORCE_COLOR" not in os.environ:
        # No rich: a script that reads this should not wait for colours. Its lines stay whole, those of tables too.
        stream.write("".join(f"{line.text}\n" for line in lay_out(blocks, sys.maxsize)))
        return
    out = console.progress() if stream is sys.stderr else console.results()
    for line in lay_out(blocks, out.width):
        out.print(style_line(line, out.width), soft_wrap=True)


def style_line(line: Line, width: int) -> "Styled":
    """A line with its colours, wrapped to a width."""
    from rich.text import Text as Styled

    text = line.text
    if line.hang is not None and len(text) > width:
        hang = " " * min(line.hang, width // 3)
        # What stands apart on the line gets one of its own.
        first, *apart = re.split(r"(?<=\S) {8,}", text)
        wrapped = textwrap.wrap(first, width, subsequent_indent=hang, break_on_hyphens=False)
        for part in apart:
            wrapped += textwrap.wrap(part, width, initial_indent=hang, subsequent_indent=hang, break_on_hyphens=False)
        text = "\n".join(wrapped)
    styled = Styled(text)
    at = styled.plain.find(line.word) if line.word else -1
    if at >= 0:
        styled.stylize(line.style, at, at + len(line.word))
    return styled


def lay_out(blocks: Iterable[Block], width: int) -> Iterator[Line]:
    """The lines of a document for a terminal of a width."""
    kept: list[Block] = [clean_block(block) for block in blocks]
    for place, block in enumerate(kept):
        if isinstance(block, Card):
            yield from _lay_out_card(block, _badge_widths(kept, place, block))
        else:
            yield from _lay_out(block, width)


def _lay_out(block: Block, width: int) -> Iterator[Line]:
    match block:
        case Heading(text, _):
            yield Line(flat(text).upper(), 2, flat(text).upper(), "bold")
        case Text(text, _):
            first, *rest = plain(text).split("\n")
            yield Line(first, 2)
            yield from (Line(f"  {line}", 2) for line in rest)
        case Verdict(word, text, tone, wide):
            start = f"{flat(word)}  " if len(word) >= wide else f"{flat(word):<{wide}}"
            yield Line(f"{start}{flat(text)}".rstrip(), wide or 2, flat(word), STYLES[tone])
        case Rows(rows, wide, indent):
            yield from (line for label, text in rows for line in label_lines(label, text, wide, indent))
        case Commands(rows):
            yield from (Line(f"{label:<10}{flat(command)}") for label, command in rows)
        case Points(items, title, most, aside):
            if title:
                joined_items = listed([flat(item) for item in items], most, " · ") if most else " · ".join(map(flat, items))
                apart = " " * 8 if joined_items else ""
                yield Line(f"{title.upper()}  {joined_items}{f'{apart}{aside}' if aside else ''}", len(title) + 2)
            else:
                yield from (Line(f"  {flat(item)}", 4) for item in items)
        case Table():
            yield from lay_out_table(block, width)
        case Code(text, language, lead, most):
            lines = text.splitlines()
            yield from [Line(f"  {lead}:")] if lead else []
            for line in lines[:most]:
                # A difference between two files has its usual colours.
                style = {"+": "green", "-": "red"}.get(line[:1], "dim") if language == "diff" else ""
                yield Line(f"{'    ' if lead else ''}{line}", None, line if style else "", style)
            if most is not None and len(lines) > most:
                yield Line(f"    … and {len(lines) - most} more: --json")
        case Tiles(facts):
            yield from (line for label, text in facts for line in label_lines(label, text, 52, 2))
        case Gap():
            yield Line("")
        case Figure(_, _, _, drawn):
            yield from map(Line, _draw(drawn, width))
        case Figures() | Card():
            # Small pictures have no room here; cards are laid out with their neighbours.
            return


def _draw(drawn: object, width: int) -> list[str]:
    """A picture in characters, where there is a way to draw it."""
    # Imported here: most documents have no picture, and these need numpy.
    from rlclinic.comparison.models import Course
    from rlclinic.report.charts import BandsDrawing, CurveDrawing, TimelineDrawing, TornadoDrawing
    from rlclinic.serve.cli.text import compare_plot, plot

    chart = min(width, console.CHART_WIDTH, shutil.get_terminal_size((console.CHART_WIDTH, 24)).columns)
    match drawn:
        case CurveDrawing(curve, height, marked):
            bounds = None if marked is None else (marked.start, marked.end)
            return plot.curve_lines(curve, chart, height, marked=bounds, note=f"{plot.MARKED} evidence")
        case BandsDrawing(bands, threshold, line):
            return compare_plot.lines(bands, threshold, chart, line=line)
        case TornadoDrawing(bars):
            return plot.tornado_lines(bars)
        case TimelineDrawing(bars, seconds):
            return plot.timeline_lines(bars, seconds, chart)
        case Course():
            sides = compare_plot.course_lines(drawn)
            line = f"  {drawn.key} over the run  {'   '.join(sides)}"
            return [line] if len(line) <= width else [f"  {drawn.key} over the run", *(f"    {side}" for side in sides)]
        case _:
            return []


def label_lines(label: str, text: str, width: int, indent: int, style: str = "") -> Iterator[Line]:
    """A label and its text; what follows a line break in it stands under the text."""
    lead = f"{flat(label)}  " if label and len(label) >= width else f"{flat(label):<{width}}"
    first, *rest = plain(text).split("\n")
    yield Line(f"{' ' * indent}{lead}{first}".rstrip(), indent + max(width, 2), label if style else "", style)
    yield from (Line(f"{' ' * (indent + width)}{line}", indent + width) for line in rest)


def plain(text: str) -> str:
    """A text without the signs for bold; those for code are read as they are."""
    return BOLD.sub(r"\1", text)


def flat(text: str) -> str:
    """The same on one line."""
    return " ".join(plain(text).split("\n"))


# ── cards ──


def _badge_widths(blocks: Sequence[Block], place: int, card: Card) -> list[int]:
    """How wide the badges of this card and its neighbours are: their titles stand under each other, and over what follows them."""
    before = itertools.takewhile(lambda block: isinstance(block, Card | Gap), reversed(blocks[:place]))
    after = itertools.takewhile(lambda block: isinstance(block, Card | Gap), blocks[place:])
    alike = [block for block in (*before, *after) if isinstance(block, Card) and block.kind.split()[:1] == card.kind.split()[:1]]
    widths = [max(map(len, column)) for column in itertools.zip_longest(*(block.badges for block in alike), fillvalue="")]
    if widths and len(card.kind) + 2 == card.indent:
        widths[-1] = max(widths[-1], card.width - 2)
    return widths


def _lay_out_card(card: Card, widths: Sequence[int]) -> Iterator[Line]:
    badges = [f"{badge:<{wide}}" for badge, wide in zip(card.badges, widths, strict=False)]
    head = "  ".join([flat(card.kind), *badges, flat(card.title), *([card.rule] if card.rule else [])])
    if card.aside:
        head = f"{head:<{ASIDE_AT - 2}}  {flat(card.aside)}"
    words = [badge for badge in card.badges if badge and not badge.startswith("p ")]
    yield Line(head.rstrip(), len(card.kind) + 2, words[0] if words else "" if len(card.badges) > 1 else card.kind, STYLES[card.tone])
    for label, text in card.lines:
        yield from label_lines(label, text, card.width, card.indent)


# ── tables ──


def lay_out_table(table: Table, width: int) -> Iterator[Line]:
    """Columns as wide as their cells; where the terminal is narrower, the widest cells are folded."""
    indent = "  " if table.title or table.verdict else ""
    if table.title:
        yield Line("")
        yield Line(flat(table.title).upper(), 2)
    heads = [flat(head.lstrip(">")) for head in table.heads]
    word, style = "", "" if table.title else "bold"
    if table.verdict is not None:
        word, style = flat(table.verdict.word), STYLES[table.verdict.tone]
        heads[0] = ""
        if len(word) > FIRST_COLUMN:
            yield Line(word, 2, word, style)
            word = ""
    right = [head.startswith(">") for head in table.heads]
    rows = [[flat(cell) for cell in row] for row in table.rows]
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    widths[0] = max(widths[0], FIRST_COLUMN if table.verdict else 0)
    room = width - len(indent) - 2 * (len(heads) - 1)
    while sum(widths) > room and max(widths) > NARROWEST:
        # The widest gives way, down to the next one.
        widest = max(range(len(widths)), key=widths.__getitem__)
        others = [wide for wide in widths if wide < widths[widest]]
        widths[widest] = max(NARROWEST, max(others, default=0), widths[widest] - (sum(widths) - room))
    for place, row in enumerate([heads, *rows]):
        folded = [textwrap.wrap(cell, max(wide, 1), break_on_hyphens=False) or [""] for cell, wide in zip(row, widths, strict=True)]
        for line in range(max(map(len, folded))):
            cells = [part[line] if line < len(part) else "" for part in folded]
            drawn = [cell.rjust(wide) if side else cell.ljust(wide) for cell, wide, side in zip(cells, widths, right, strict=True)]
            text = f"{indent}{'  '.join(drawn)}".rstrip()
            if place == 0 and table.verdict is not None:
                yield Line(f"{word}{text[len(word) :]}", None, word, style)
            else:
                yield Line(text, None, text if place == 0 else "", style)
        if place and (remark := table.remarks.get(place - 1)):
            yield Line(f"      {flat(remark)}", 6)
    if table.note:
        yield Line(f"{indent}{flat(table.note)}", len(indent))
