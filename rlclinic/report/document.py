"""A document as a list of blocks, written once and rendered four ways: Markdown, HTML and compact text here, the terminal's in serve.

Texts may hold anything that a log held. Every rendering makes it harmless: markup is escaped, control characters are dropped, and a line
break inside a text starts no line of its own.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, Final, Literal, NamedTuple

from rlclinic import plain_text
from rlclinic.actions import Action
from rlclinic.plain_text import INVISIBLE
from rlclinic.report.format import clip

Tone = Literal["good", "bad", "warn", "note", "quiet", "plain"]
"""What a word means for the reader; each rendering has its own colour for it."""
COLOURS: Final[dict[Tone, str]] = {
    "good": "#15803d",
    "bad": "#b91c1c",
    "warn": "#b45309",
    "note": "#2563eb",
    "quiet": "#6b7280",
    "plain": "#6b7280",
}
VERDICT_TONES: Final[Mapping[str, Tone]] = {
    "SOLVED": "good",
    "PARTLY SOLVED": "warn",
    "REACHED, THEN LOST": "warn",
    "NOT SOLVED": "bad",
    "FAILED": "bad",
}
CLIPPED: Final = 160
"""Characters of a text in a compact document."""
MOST_ROWS: Final = 40
"""Rows of a table in a compact document."""

_ESCAPED = re.compile(rf"[\x7f-\x9f{INVISIBLE}]")
_CODE = re.compile(r"`([^`]+)`")
BOLD = re.compile(r"\*\*([^*]+)\*\*")
_WIDE = re.compile(r" {6,}")  # what stands apart on a terminal
_BLOCK_START = re.compile(r"^(#{1,6}\s|>|[-+*]\s|\d+[.)]\s|```|~~~|\|)")


# ── the blocks ──


class Heading(NamedTuple):
    text: str
    level: int = 2


class Text(NamedTuple):
    """A paragraph. `code` in backticks and **bold** are understood, here and in all other texts."""

    text: str
    quiet: bool = False


class Verdict(NamedTuple):
    """The answer: a word that stands out, and the sentence behind it."""

    word: str
    text: str
    tone: Tone = "plain"
    width: int = 0
    """Columns that the word takes in a terminal; 0: its own length and two spaces."""


class Rows(NamedTuple):
    """Labelled lines."""

    rows: Sequence[tuple[str, str]]
    width: int = 10
    """Columns that a label takes in a terminal."""
    indent: int = 0


class Commands(NamedTuple):
    """What to type next, each with a word for what it is for. Terminals never break these lines."""

    rows: Sequence[tuple[str, str]]


class Points(NamedTuple):
    """A list; with a title, terminals write it on one line."""

    items: Sequence[str]
    title: str = ""
    most: int | None = None
    """How many a terminal shows."""
    aside: str = ""


class Table(NamedTuple):
    """Heads that start with > stand over numbers, which are aligned to the right."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    remarks: Mapping[int, str] = {}
    """By row: what stands below it."""
    remark_head: str = ""
    """What the remarks are, where they are a column."""
    note: str = ""
    verdict: Verdict | None = None
    """The answer that the table gives; terminals write a short one before its heads."""


class Code(NamedTuple):
    """Lines to copy, as they are."""

    text: str
    language: str = ""
    lead: str = ""
    """What to do with them."""
    most: int | None = None
    """How many lines a terminal shows."""


class Figure(NamedTuple):
    """A picture, drawn when it is needed; `text` says in words what it shows, and stands for it in Markdown (with `file`, if any)."""

    svg: Callable[[], str]
    text: str
    file: str | None = None
    drawn: Any = None
    """What a terminal can draw in characters, if anything: a `Curve`, or `Bands` and the like."""


class Figures(NamedTuple):
    """Small pictures side by side, and what their signs mean."""

    parts: Sequence[Figure]
    legend: str = ""


class Tiles(NamedTuple):
    """Key numbers."""

    facts: Sequence[tuple[str, str]]


class Card(NamedTuple):
    """One cause or recommendation: what it is, with badges, and lines of (label, text)."""

    kind: str
    title: str
    lines: Sequence[tuple[str, str]]
    badges: Sequence[str] = ()
    tone: Tone = "quiet"
    rule: str = ""
    aside: str = ""
    width: int = 13
    """Columns that a label takes in a terminal."""
    indent: int = 2


class Gap(NamedTuple):
    """An empty line in a terminal."""


Block = Heading | Text | Verdict | Rows | Commands | Points | Table | Code | Figure | Figures | Tiles | Card | Gap


def clean(text: str) -> str:
    """A text of unknown origin without control characters: a log may hold colours, bells and cursor movements."""
    return plain_text.clean(text)


def escape_json(text: str) -> str:
    """JSON that means the same, in which every such character is written as its number."""
    return _ESCAPED.sub(lambda found: json.dumps(found[0])[1:-1], text)


def clean_block(block: Any) -> Any:
    """A block, or any part of one, whose texts are clean."""
    if isinstance(block, str):
        return clean(block)
    if isinstance(block, tuple) and hasattr(block, "_fields"):
        return type(block)(*map(clean_block, block))
    if isinstance(block, list | tuple):
        return [clean_block(part) for part in block]
    return {key: clean_block(part) for key, part in block.items()} if isinstance(block, dict) else block


def strip_marks(text: str) -> str:
    """A text without the signs for code and bold, for renderings that have neither."""
    return BOLD.sub(r"\1", _CODE.sub(r"\1", text))


# ── Markdown ──


def render_markdown(blocks: Sequence[Block]) -> str:
    """The blocks as Markdown."""
    return "\n".join(line for block in blocks for lines in [_markdown(clean_block(block))] if lines for line in [*lines, ""])


def _markdown(block: Block) -> list[str]:
    match block:
        case Heading(text, level):
            return [f"{'#' * level} {_md(text)}"]
        case Text(text, _):
            return [_md_paragraph(text)]
        case Verdict(word, text, _):
            return [f"**{_md(word)}** {_md(text)}".strip()]
        case Rows(rows):
            return [f"- **{_md(label)}**: {_md(text)}" if label else f"- {_md(text)}" for label, text in rows]
        case Commands(rows):
            return _fence("\n".join(command for _, command in rows), "sh") if rows else []
        case Points(items, title, _, aside):
            lines = [f"- {_md(item)}" for item in items]
            return [*([f"### {_md(title)}", ""] if title else []), *lines, *(["", _md_paragraph(aside)] if aside else [])]
        case Table():
            return _markdown_table(block)
        case Code(text, language, lead):
            return [*([_md_paragraph(_sentence(lead)), ""] if lead else []), *_fence(text, language)]
        case Figure(_, text, file):
            return [f"![{_md(text)}]({file})"] if file else [f"*{_md(text)}*"]
        case Figures(parts, legend):
            return [*(f"- {_md(part.text)}" for part in parts), *(["", _md_paragraph(legend)] if legend else [])]
        case Tiles(facts):
            return ["| | |", "|---|---|", *(_row(fact) for fact in facts)]
        case Card(_, _, lines):
            badge = f"**{_md(_badge(block))}** " if _badge(block) else ""
            return [f"{badge}{_md(_card_title(block))}", "", *(f"- *{_md(label)}*: {_md(text)}" for label, text in lines)]
        case Gap():
            return []


def _markdown_table(table: Table) -> list[str]:
    heads = [*(head.lstrip(">") for head in table.heads), *([table.remark_head] if table.remarks else [])]
    rows = [[*row, *([table.remarks.get(place, "")] if table.remarks else [])] for place, row in enumerate(table.rows)]
    title = [f"## {_md(table.title)}", ""] if table.title else []
    title += [*_markdown(table.verdict), ""] if table.verdict else []
    return [*title, _row(heads), "|" + "---|" * len(heads), *map(_row, rows), *(["", _md_paragraph(table.note)] if table.note else [])]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_md(cell).replace('|', chr(92) + '|') for cell in cells)} |"


def _fence(text: str, language: str) -> list[str]:
    return [f"```{language}", text.replace("```", "'''"), "```"]


def longer_fence(text: str) -> str:
    """Backticks that open and close a block of code, more than the text has anywhere in a row."""
    return "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))


def _md_paragraph(text: str) -> str:
    # A log's text at the start of a line must not become a heading, a list or a fence.
    return _BLOCK_START.sub(r"\\\g<0>", _md(text))


def _md(text: str) -> str:
    # A tag or a link that a log brought along must stay text, on its line. Code keeps its own signs.
    parts = _CODE.split(_WIDE.sub(" ", text.replace("\n", " ")))
    return "".join(
        f"`{part}`" if place % 2 else part.replace("&", "&amp;").replace("<", "&lt;").replace("](", "]\\(")
        for place, part in enumerate(parts)
    )


def _badge(card: Card) -> str:
    return " · ".join(badge for badge in card.badges if badge)


def _card_title(card: Card) -> str:
    kind = f"{card.kind} " if card.kind.endswith((".", "?")) else f"{card.kind}: " if card.kind else ""
    rule = f" `{card.rule}`" if card.rule else ""
    return f"{kind}{card.title}{rule}{f' · {card.aside}' if card.aside else ''}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}:"


# ── HTML ──


def render_html(blocks: Sequence[Block]) -> str:
    """The blocks as the inside of a page's body."""
    return "\n".join(part for block in blocks if (part := _html(clean_block(block))))


def _html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{_inline(text)}</h{level}>"
        case Text(text, quiet):
            return f"<p{' class=quiet' if quiet else ''}>{_inline(text)}</p>"
        case Verdict(word, text, _):
            return f"<p><b>{_inline(word)}</b> {_inline(text)}</p>"
        case Rows(rows):
            lines = (f"<b>{_inline(label)}</b>: {_inline(text)}" if label else _inline(text) for label, text in rows)
            return f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>"
        case Commands(rows):
            return f"<pre>{escape(chr(10).join(command for _, command in rows))}</pre>" if rows else ""
        case Points(items, title, _, aside):
            head = f"<h3>{_inline(title)}</h3>\n" if title else ""
            under = f"\n<p class=quiet>{_inline(aside)}</p>" if aside else ""
            return f"{head}<ul>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</ul>{under}"
        case Table():
            return _html_table(block)
        case Code(text, _, lead):
            return f"{f'<p>{_inline(_sentence(lead))}</p>' if lead else ''}<pre>{escape(text)}</pre>"
        case Figure(svg, text, _):
            return f"<figure>{svg()}<figcaption>{_inline(text)}</figcaption></figure>"
        case Figures(parts, legend):
            under = f"\n<p class=quiet>{_inline(legend)}</p>" if legend else ""
            return f'<div class="panels">{"".join(_html(part) for part in parts)}</div>{under}'
        case Tiles(facts):
            tiles = "".join(f'<div class="fact"><b>{_inline(value)}</b><span>{_inline(name)}</span></div>' for name, value in facts)
            return f'<div class="facts">{tiles}</div>'
        case Card(_, _, lines, _, tone):
            terms = "".join(f"<dt>{_inline(label)}</dt><dd>{_inline(text)}</dd>" for label, text in lines)
            colour, badge = COLOURS[tone], _badge(block)
            head = f'<span class="badge" style="background:{colour}">{_inline(badge)}</span> ' if badge else ""
            title = _inline(_card_title(block))
            return f'<section class="card" style="border-left-color:{colour}"><h3>{head}{title}</h3><dl>{terms}</dl></section>'
        case Gap():
            return ""


def _html_table(table: Table) -> str:
    right = [head.startswith(">") for head in table.heads]
    head = "".join(f"<th{_side(side)}>{_inline(cell.lstrip('>'))}</th>" for cell, side in zip(table.heads, right, strict=True))
    rows = []
    for place, row in enumerate(table.rows):
        rows.append(f"<tr>{''.join(_cell(cell, side) for cell, side in zip(row, right, strict=True))}</tr>")
        if remark := table.remarks.get(place):
            rows.append(f'<tr class="remark"><td colspan="{len(table.heads)}">{_inline(remark)}</td></tr>')
    title = f"<h2>{_inline(table.title)}</h2>\n" if table.title else ""
    title += f"{_html(table.verdict)}\n" if table.verdict else ""
    note = f"\n<p class=quiet>{_inline(table.note)}</p>" if table.note else ""
    return f'{title}<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>{note}'


def _side(right: bool) -> str:
    return ' class="number"' if right else ""


def _cell(text: str, right: bool) -> str:
    """Short cells stay on one line: "3 of 3" must not break."""
    if right or len(text) > 14:
        return f"<td{_side(right)}>{_inline(text)}</td>"
    return f'<td class="short">{_inline(text)}</td>'


def _inline(text: str) -> str:
    return BOLD.sub(r"<b>\1</b>", _CODE.sub(r"<code>\1</code>", escape(text)))


_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --quiet: #6b7280; }
@media (prefers-color-scheme: dark) { :root { --quiet: #9ca3af; } body { background: #111418; color: #e5e7eb; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
.verdict, .badge { color: #fff; padding: .1rem .6rem; border-radius: .4rem; font-weight: 600; white-space: nowrap; }
.badge { font-size: .8rem; padding: .05rem .5rem; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); gap: .6rem; margin: 1rem 0; }
.fact { border: 1px solid var(--line); border-radius: .5rem; padding: .45rem .8rem; overflow-wrap: anywhere; }
.fact b { display: block; font-size: 1.05rem; } .fact span, .quiet, figcaption, .remark td { color: var(--quiet); font-size: .85rem; }
.card { border: 1px solid var(--line); border-left-width: 5px; border-radius: .5rem; padding: .5rem 1rem; margin: .8rem 0; }
.card h3 { margin: .1rem 0 .3rem; }
.card dl { display: grid; grid-template-columns: minmax(6rem, max-content) 1fr; gap: .15rem 1rem; margin: 0; }
.card dt { color: var(--quiet); font-size: .9rem; } .card dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th.number, td.number { text-align: right; }
td.short, td code { white-space: nowrap; overflow-wrap: normal; }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; display: block; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); gap: 1rem; } .panels figure { margin: 0; }
pre { background: var(--soft); padding: .8rem; border-radius: .5rem; overflow-x: auto; font-size: .85rem; }
code { background: var(--soft); padding: .05rem .3rem; border-radius: .25rem; font-size: .88em; overflow-wrap: anywhere; }
@media (max-width: 40rem) { .card dl { grid-template-columns: 1fr; } }
@media print { body { max-width: none; } .card, figure { break-inside: avoid; } }
"""


def render_page(title: str, blocks: Sequence[Block], verdict: str = "", tone: Tone = "plain") -> str:
    """A whole page: styles and pictures are inside; nothing is fetched, and no script runs."""
    badge = f' <span class="verdict" style="background:{COLOURS[tone]}">{escape(clean(verdict))}</span>' if verdict else ""
    head = escape(clean(title))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{head}{f" · {escape(clean(verdict))}" if verdict else ""}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{head}{badge}</h1>
{render_html(blocks)}
</body>
</html>
"""


# ── compact text, for language models: few characters, one line for each thing ──


def render_compact(blocks: Sequence[Block], clipped: int = CLIPPED, say: Callable[[str], str] | None = None) -> str:
    """The blocks as few lines; long texts are cut, pictures and empty lines left out.

    `say`: how the reader says a next step; without it, and where a step is none that it can take, none is named.
    """
    lines = []
    for block in blocks:
        if isinstance(block, Commands):
            steps = [say(command) for _, command in block.rows if isinstance(command, Action)] if say else []
            lines += [f"next: {clean(' | '.join(steps)).replace(chr(10), ' ')}"] if steps else []
        else:
            lines += _compact(clean_block(block), clipped)
    return "\n".join(lines)


def _compact(block: Block, most: int) -> list[str]:
    def short(text: str) -> str:
        return clip(_WIDE.sub(" · ", strip_marks(text)), most)

    match block:
        case Heading(text, _):
            return [short(text).upper()]
        case Text(text, _):
            return [short(text)]
        case Verdict(word, text, _):
            return [f"{short(word)}  {clip(strip_marks(text), 2 * most)}".rstrip()]
        case Rows(rows):
            return [f"{short(label)}: {short(text)}" if label else f"  {short(text)}" for label, text in rows]
        case Points(items, title, _, aside):
            if not title:
                return [f"- {short(item)}" for item in items]
            shown = clip(strip_marks(" · ".join(items)), 2 * most)
            return [f"{short(title).upper()}  {' · '.join(part for part in (shown, short(aside)) if part)}"]
        case Table(heads, rows, title, remarks, _, note):
            lines = [" | ".join(short(head.lstrip(">")) for head in heads)]
            lines[0] = f"{short(title).upper()}: {lines[0]}" if title else lines[0]
            for place, row in enumerate(rows[:MOST_ROWS]):
                lines.append(" | ".join(map(short, row)))
                lines += [f"  {short(remarks[place])}"] if place in remarks else []
            lines += [f"… and {len(rows) - MOST_ROWS} more rows"] if len(rows) > MOST_ROWS else []
            return [*(_compact(block.verdict, most) if block.verdict else []), *lines, *([short(note)] if note else [])]
        case Code(text, _, lead, lines):
            # What is copied must not begin a line that looks like a next step of ours.
            copied = [f"  {line}" if line.lower().startswith("next:") else line for line in text.splitlines()[:lines]]
            return [*([f"{short(lead)}:"] if lead else []), *copied]
        case Tiles(facts):
            return [f"{short(name)}: {short(value)}" for name, value in facts]
        case Card(kind, title, lines, badges, _, rule, aside):
            head = "  ".join(short(part) for part in (kind, *badges, title) if part)
            head += f" [{short(rule)}]" * bool(rule) + f" · {short(aside)}" * bool(aside)
            return [head, *(f"  {short(label)}: {short(text)}" for label, text in lines)]
        case Commands() | Figure() | Figures() | Gap():
            return []
