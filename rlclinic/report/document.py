"""A document as a list of blocks, written once and rendered twice: as Markdown and as the body of a page that needs nothing beside it.

Texts may hold anything that a log held. Both renderings make it harmless: markup is escaped, control characters are dropped.
"""

import re
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CODE = re.compile(r"`([^`]+)`")
_BOLD = re.compile(r"\*\*([^*]+)\*\*")


class Heading(NamedTuple):
    text: str
    level: int = 2


class Text(NamedTuple):
    """A paragraph. `code` in backticks and **bold** are understood."""

    text: str
    quiet: bool = False


class Points(NamedTuple):
    items: Sequence[str]


class Table(NamedTuple):
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


class Code(NamedTuple):
    text: str
    language: str = ""


class Figure(NamedTuple):
    """A picture, drawn when it is needed; `text` says in words what it shows, and stands for it in Markdown (with `file`, if any)."""

    svg: Callable[[], str]
    text: str
    file: str | None = None


class Figures(NamedTuple):
    """Small pictures side by side."""

    parts: Sequence[Figure]


class Tiles(NamedTuple):
    """Key numbers."""

    facts: Sequence[tuple[str, str]]


class Card(NamedTuple):
    """One cause or recommendation: a title with a badge, and lines of (label, text)."""

    badge: str
    title: str
    lines: Sequence[tuple[str, str]]
    colour: str


Block = Heading | Text | Points | Table | Code | Figure | Figures | Tiles | Card


def clean(text: str) -> str:
    """A text of unknown origin without control characters: a log may hold colours, bells and cursor movements."""
    return _CONTROL.sub("", text)


# ── Markdown ──


def markdown(blocks: Sequence[Block]) -> str:
    """The blocks as Markdown."""
    return "\n".join(line for block in blocks for line in [*_markdown(block), ""])


def _markdown(block: Block) -> list[str]:
    match block:
        case Heading(text, level):
            return [f"{'#' * level} {_md(text)}"]
        case Text(text, _):
            return [_md(text)]
        case Points(items):
            return [f"- {_md(item)}" for item in items]
        case Table(heads, rows):
            return [_row(heads), "|" + "---|" * len(heads), *map(_row, rows)]
        case Code(text, language):
            return [f"```{language}", clean(text).replace("```", "'''"), "```"]
        case Figure(_, text, file):
            return [f"![{_md(text)}]({file})"] if file else [f"*{_md(text)}*"]
        case Figures(parts):
            return [f"- {_md(part.text)}" for part in parts]
        case Tiles(facts):
            return ["| | |", "|---|---|", *(_row(fact) for fact in facts)]
        case Card(badge, title, lines, _):
            return [f"**{_md(badge)}** {_md(title)}".strip(), "", *(f"- *{_md(label)}*: {_md(text)}" for label, text in lines)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_md(cell).replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in cells)} |"


def _md(text: str) -> str:
    # A tag or a link that a log brought along must stay text. Code keeps its own signs.
    parts = _CODE.split(clean(text))
    return "".join(
        f"`{part}`" if place % 2 else part.replace("&", "&amp;").replace("<", "&lt;").replace("](", "]\\(")
        for place, part in enumerate(parts)
    )


# ── HTML ──


def html(blocks: Sequence[Block]) -> str:
    """The blocks as the inside of a page's body."""
    return "\n".join(_html(block) for block in blocks)


def _html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{_inline(text)}</h{level}>"
        case Text(text, quiet):
            return f"<p{' class=quiet' if quiet else ''}>{_inline(text)}</p>"
        case Points(items):
            return f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</ul>"
        case Table(heads, rows):
            head = "".join(f"<th>{_inline(cell)}</th>" for cell in heads)
            body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
            return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        case Code(text, _):
            return f"<pre>{escape(clean(text))}</pre>"
        case Figure(svg, text, _):
            return f"<figure>{svg()}<figcaption>{_inline(text)}</figcaption></figure>"
        case Figures(parts):
            return f'<div class="panels">{"".join(_html(part) for part in parts)}</div>'
        case Tiles(facts):
            tiles = "".join(f'<div class="fact"><b>{_inline(value)}</b><span>{_inline(name)}</span></div>' for name, value in facts)
            return f'<div class="facts">{tiles}</div>'
        case Card(badge, title, lines, colour):
            rows = "".join(f"<dt>{_inline(label)}</dt><dd>{_inline(text)}</dd>" for label, text in lines)
            head = f'<span class="badge" style="background:{colour}">{_inline(badge)}</span> ' if badge else ""
            return f'<section class="card" style="border-left-color:{colour}"><h3>{head}{_inline(title)}</h3><dl>{rows}</dl></section>'


def _cell(text: str) -> str:
    """Short cells stay on one line: "3 of 3" must not break."""
    return f"<td>{_inline(text)}</td>" if len(text) > 14 else f'<td class="short">{_inline(text)}</td>'


def _inline(text: str) -> str:
    return _BOLD.sub(r"<b>\1</b>", _CODE.sub(r"<code>\1</code>", escape(clean(text))))
