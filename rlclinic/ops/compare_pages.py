"""A comparison as Markdown and as one HTML file that needs nothing beside it."""

from html import escape

from rlclinic.comparison.models import Compared
from rlclinic.ops import compare_chart, compare_words
from rlclinic.ops.compare_words import Table

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.quiet, .remark td { color: #777; font-size: .85rem; } .key { font-weight: 700; margin-right: .3rem; }
.verdict { font-weight: 700; margin-right: .5rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid #8883; vertical-align: top; }
th:first-child, td:first-child { text-align: left; } .remark td { text-align: left; border-bottom: 0; }
.words th:last-child, .words td:last-child { text-align: left; }
.scroll { overflow-x: auto; }
svg { width: 100%; height: auto; }
"""


def pictures(compared: Compared) -> dict[str, str]:
    """The curves as SVG files to lie beside compare.md, by file name."""
    order = [side.label for side in compared.sides]
    made = {}
    for axis, name in (("env steps", "compare-env-steps.svg"), ("wall seconds", "compare-wall-time.svg")):
        bands = [band for band in compared.curves if band.axis == axis]
        if bands:
            made[name] = compare_chart.bands_svg(bands, order, compared.threshold) + "\n"
    return made


def markdown(compared: Compared) -> str:
    """compare.md: readable as text, with the pictures beside it."""
    lines = [f"# {compare_words.headline(compared)}", ""]
    for word, sentence in compare_words.verdicts(compared):
        lines += [f"**{word}** {sentence}", ""]
    for name in pictures(compared):
        lines += [f"![{name.removesuffix('.svg').replace('-', ' ')}]({name})", ""]
    for table in compare_words.tables(compared):
        lines += _markdown_table(table)
    if notes := compare_words.listed_notes(compared):
        lines += ["## Notes", "", *(f"- {note}" for note in notes), ""]
    if references := compare_words.references(compared):
        lines += ["## References", "", *(f"- {reference}" for reference in references), ""]
    return "\n".join(lines)


def _markdown_table(table: Table) -> list[str]:
    heads = [*table.heads, *(["what it usually does"] if table.remarks else [])]
    lines = [f"## {table.title}", "", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for place, row in enumerate(table.rows):
        cells = [*row, *([table.remarks.get(place, "")] if table.remarks else [])]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return [*lines, "", *([table.note, ""] if table.note else [])]


def html(compared: Compared) -> str:
    """compare.html: styles and curves are inside; nothing is fetched."""
    title = escape(compare_words.headline(compared))
    said = "".join(
        f'<p><span class="verdict">{escape(word)}</span>{escape(sentence)}</p>' for word, sentence in compare_words.verdicts(compared)
    )
    body = [_legend(compared), *_pictures(compared), *(_html_table(table) for table in compare_words.tables(compared))]
    for name, lines in (("Notes", compare_words.listed_notes(compared)), ("References", compare_words.references(compared))):
        if lines:
            body.append(f"<h2>{name}</h2><ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{title}</h1>
{said}
{chr(10).join(part for part in body if part)}
</body>
</html>
"""


def _legend(compared: Compared) -> str:
    items = [
        f'<span class="key" style="color:{compare_chart.colour(place)}">{escape(side.label)}</span>{escape(side.name)}'
        for place, side in enumerate(compared.sides)
    ]
    return f'<p class="quiet">{" &nbsp; ".join(items)}</p>'


def _pictures(compared: Compared) -> list[str]:
    order = [side.label for side in compared.sides]
    parts = []
    for axis in ("env steps", "wall seconds"):
        bands = [band for band in compared.curves if band.axis == axis]
        if bands:
            parts.append(f"<h2>Return against {axis}</h2>{compare_chart.bands_svg(bands, order, compared.threshold)}")
    if parts:
        parts.append('<p class="quiet">Lines: interquartile mean over runs; bands: its 95 % bootstrap interval; dashes: threshold.</p>')
    drawn = [(course.key, compare_chart.course_svg(course, order)) for course in compared.config.courses]
    return parts + [f"<h2>{escape(key)} over the run</h2>{picture}" for key, picture in drawn]


def _html_table(table: Table) -> str:
    heads = "".join(f"<th>{escape(head)}</th>" for head in table.heads)
    rows = []
    for place, row in enumerate(table.rows):
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>")
        if place in table.remarks:
            rows.append(f'<tr class="remark"><td colspan="{len(table.heads)}">{escape(table.remarks[place])}</td></tr>')
    note = f'<p class="quiet">{escape(table.note)}</p>' if table.note else ""
    kind = ' class="words"' if table.words else ""
    body = f"<table{kind}><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<h2>{escape(table.title)}</h2><div class="scroll">{body}</div>{note}'
