"""A comparison in words and tables, as Markdown and as one HTML file that needs nothing beside it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from rlclinic.comparison.models import Compared, Contrast, Difference, Interval, Pair, SideOutcome
from rlclinic.references import cite
from rlclinic.report import charts
from rlclinic.report.format import BLANK, count, duration, interval, number, percent, plural, short

if TYPE_CHECKING:
    from rlclinic.report.gate import Regression

VERDICTS = {
    "better": "BETTER",
    "worse": "WORSE",
    "mixed": "MIXED",
    "no difference shown": "NO DIFFERENCE SHOWN",
    "not assessable": "NOT ASSESSABLE",
}
Say = Callable[[float | None], str]


@dataclass(frozen=True)
class Table:
    """A titled table; the first column is text, the others are numbers. Remarks belong to the rows above them."""

    title: str
    heads: list[str]
    rows: list[list[str]]
    remarks: dict[int, str] = field(default_factory=dict)
    """By row: what stands below it."""
    note: str = ""
    words: bool = False
    """The last column is text, too."""


def headline(compared: Compared) -> str:
    """What is compared, in one line."""
    sides = " · ".join(f"{side.label} {side.name} ({_sample(side.kind, side.runs)})" for side in compared.sides)
    unknown = "environment not recorded" if all(side.env is None for side in compared.sides) else "several environments"
    return f"{compared.env or unknown} · {sides}"


def _sample(kind: str, runs: int) -> str:
    return "config" if kind == "config" else plural(runs, "run" if kind == "foreign" else "seed")


def verdicts(compared: Compared) -> list[tuple[str, str]]:
    """For each pair: the verdict's word and the sentence behind it."""
    return [(VERDICTS[pair.verdict], f"{pair.second} against {pair.first}: {_sentence(pair)}") for pair in compared.pairs]


def _sentence(pair: Pair) -> str:
    returns = next(each for each in pair.contrasts if each.outcome == "return")
    parts = [f"return {_signed(returns.difference)}{_beside(returns)}"]
    if pair.improvement is not None:
        parts.append(f"P(better) {_estimate(pair.improvement, _share)}")
    steps = next((each for each in pair.contrasts if each.outcome.startswith("env steps")), None)
    if steps is not None and steps.ratio is not None:
        parts.append(f"{times(steps.ratio)} the steps{_beside(steps)}")
    return " · ".join([*parts, pair.reason])


def _beside(contrast: Contrast) -> str:
    return "" if contrast.p_holm is None else f" (p {chance(contrast.p_holm)})"


def tables(compared: Compared) -> list[Table]:
    """Every table of the report that has a row."""
    made = [_settings(compared), _derived(compared), _outcomes(compared), _pairs(compared), _speed(compared), *_phases(compared)]
    return [table for table in made if table.rows]


def _labels(compared: Compared) -> list[str]:
    return [side.label for side in compared.sides]


def _settings(compared: Compared) -> Table:
    found = compared.config.differences
    rows = [[each.key, *each.shown, each.change] for each in found]
    remarks = {row: said for row, each in enumerate(found) if (said := usually(each))}
    total = len(found) + compared.config.same
    note = "; ".join([f"{len(found)} of {plural(total, 'setting')} differ", *compared.config.notes])
    return Table("Settings that differ", ["setting", *_labels(compared), "change"], rows, remarks, note, words=True)


def usually(each: Difference) -> str:
    """What such a change usually does, who says so, and what recorded trials say."""
    tried = f"{each.adopted} of {plural(each.trials, 'recorded trial')} adopted it" if each.trials else "no recorded trial"
    if not each.usual:
        return f"no recorded effect in the literature table; {tried}" if each.trials else ""
    return f"usually: {each.usual} [{', '.join(each.cites)}]; {tried}"


def _derived(compared: Compared) -> Table:
    apart = [row for row in compared.config.derived if row.differs or None in row.values]
    rows = [[row.name, *(number(value, 4) for value in row.values), row.meaning] for row in apart]
    said = " · ".join(f"{row.name} {number(row.values[0], 4)}" for row in compared.config.derived if row not in apart)
    return Table(
        "What follows from them", ["number", *_labels(compared), "meaning"], rows, note=f"the same for all: {said}" if said else ""
    )


def _outcomes(compared: Compared) -> Table:
    common = short(compared.common_env_steps)
    bar = number(compared.threshold, 4)
    wanted: list[tuple[str, Callable[[SideOutcome], str]]] = [
        (f"{compared.measure} return at {common}, IQM", lambda side: _estimate(side.common)),
        ("return at the end, IQM", lambda side: _estimate(side.last)),
        ("mean return on the way", lambda side: _estimate(side.area)),
        ("best", lambda side: number(side.best)),
        (f"reached {bar}", _reached),
        (f"env steps to {bar}, mean", lambda side: _estimate(side.steps, short)),
        (f"env steps to {bar}, median", _median),
        (f"wall time to {bar}, mean", lambda side: _estimate(side.wall, duration)),
        ("success rate", lambda side: _estimate(side.success, percent)),
        ("spread over seeds (standard deviation)", lambda side: _estimate(side.spread)),
        ("lowest and highest seed", lambda side: f"{number(side.lowest)} – {number(side.highest)}"),
        ("fall from a run's own best", lambda side: _estimate(side.fall)),
        ("evaluation minus training", lambda side: _estimate(side.gap)),
    ]
    rows = [[name, *(say(side) for side in compared.outcomes)] for name, say in wanted]
    rows = [row for row in rows if any(cell != BLANK for cell in row[1:])]
    note = "intervals are 95 %, bootstrap over seeds (Wilson's for shares); runs that never reached the threshold count the whole horizon"
    return Table("Outcomes", ["outcome", *(side.label for side in compared.outcomes)], rows if compared.outcomes else [], note=note)


def _reached(side: SideOutcome) -> str:
    if side.reached is None:
        return BLANK
    lost = side.reached - min(side.kept or 0, side.reached)
    return f"{side.reached} of {side.runs}" + (f", {lost} lost it again" if lost else "")


def _median(side: SideOutcome) -> str:
    if side.reached is None:
        return BLANK
    return short(side.median_steps) if side.median_steps is not None else "more than half never did"


def _pairs(compared: Compared) -> Table:
    rows = []
    for pair in compared.pairs:
        name = f"{pair.second} against {pair.first}"
        rows += [[f"{name}: {each.outcome}", *_tested(each)] for each in pair.contrasts]
        if pair.improvement is not None:
            rows.append([f"{name}: P(improvement)", _estimate(pair.improvement, _share), BLANK, BLANK, BLANK, "score interval (Newcombe)"])
        if pair.reached is not None:
            rows.append([f"{name}: share that reached it", _points(pair.reached), BLANK, BLANK, BLANK, "Newcombe's interval"])
        if pair.spread is not None:
            rows.append([f"{name}: {pair.spread.outcome}", *_tested(pair.spread)])
    note = "p after Holm: corrected over every return and steps comparison in this table" if rows else ""
    return Table("Tests", ["question", "difference", "ratio", "p", "p (Holm)", "test"], rows, note=note, words=True)


def _tested(each: Contrast) -> list[str]:
    say: Say = short if "env steps" in each.outcome else duration if "seconds" in each.outcome else number
    ratio = BLANK if each.ratio is None else times(each.ratio)
    method = each.why if each.p is None else f"{each.method} ({each.why})"
    return [_signed(each.difference, say), ratio, chance(each.p), chance(each.p_holm), method]


def _speed(compared: Compared) -> Table:
    rows = [["env steps per second of a run", *(count(side.fps) for side in compared.outcomes)]]
    rows.append(["time per 100k env steps", *(duration(side.seconds_per_100k) for side in compared.outcomes)])
    phases = dict.fromkeys(name for side in compared.outcomes for name in side.split)
    rows += [[f"share of {name}", *(percent(side.split.get(name)) for side in compared.outcomes)] for name in phases]
    rows = [row for row in rows if any(cell != BLANK for cell in row[1:])]
    note = "seconds are those of the process; seeds that were trained together share them" if rows else ""
    return Table("Where the time went", ["", *(side.label for side in compared.outcomes)], rows, note=note)


def _phases(compared: Compared) -> list[Table]:
    trained = [side.label for side in compared.sides if side.kind != "config"]
    heads = [f"{label} {third}" for label in trained for third in ("early", "middle", "late")]
    rows = [[row.metric, *(number(value) for side in row.values for value in side)] for row in compared.phases]
    note = "means over the first, second and last third of each run, IQM over runs"
    shares = []
    for side in compared.losses:
        for name, values in (("policy", side.policy), ("value", side.value), ("entropy", side.entropy)):
            shares.append([f"{side.label} {name}", *(percent(value) for value in values)])
    mixed = Table(
        "What the optimizer worked on", ["weighted loss term", "early", "middle", "late"], shares, note="share of |weight x term|"
    )
    return [Table("Losses, gradients and updates by phase", ["metric", *heads], rows, note=note), mixed]


def references(compared: Compared) -> list[str]:
    """The sources that the settings table cites."""
    keys = dict.fromkeys(key for each in compared.config.differences for key in each.cites)
    return [f"[{key}] {cite(key)}" for key in keys]


def times(ratio: Interval) -> str:
    """A ratio: 0.84x [0.81, 0.88]."""
    return f"{number(ratio.value)}x {interval(ratio.low, ratio.high)}".strip()


def chance(p: float | None) -> str:
    """A p-value: 0.031, < 0.0001."""
    if p is None:
        return BLANK
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def _estimate(value: Interval | None, say: Say = number) -> str:
    if value is None or value.value is None:
        return BLANK
    if say is number:
        return f"{number(value.value)} {interval(value.low, value.high)}".strip()
    ends = "" if value.low is None or value.high is None else f" [{say(value.low)}, {say(value.high)}]"
    return say(value.value) + ends


def _signed(value: Interval, say: Say = number) -> str:
    def signed(amount: float | None) -> str:
        if amount is None:
            return BLANK
        sign = "+" if amount > 0 else "−" if amount < 0 else "±"
        return sign + say(abs(amount))

    ends = "" if value.low is None or value.high is None else f" [{signed(value.low)}, {signed(value.high)}]"
    return signed(value.value) + ends


def _share(value: float | None) -> str:
    return BLANK if value is None else f"{value:.2f}"


def _points(value: Interval) -> str:
    """A difference of shares in percentage points."""
    ends = "" if value.low is None or value.high is None else f" [{100 * value.low:+.0f}, {100 * value.high:+.0f}]"
    return f"{100 * (value.value or 0):+.0f} points{ends}"


def listed_notes(compared: Compared) -> Sequence[str]:
    """Remarks about the comparison, then those about its sides."""
    return [*compared.notes, *(f"{side.label}: {note}" for side in compared.sides for note in side.notes)]


# ── the gate ──

LOSS_NAMES = {"steps": "more env steps", "wall": "more seconds", "return": "less return", "success": "fewer successes"}


def rule_lines(result: "Regression") -> list[tuple[str, str]]:
    """What is judged and how, and what the gate can see."""
    rule = result.rule
    what = {
        "steps": f"env steps to {number(result.threshold, 4)}",
        "wall": f"seconds to {number(result.threshold, 4)}",
        "return": "return at the end",
        "success": "success rate",
    }[rule.outcome]
    over = f"over {plural(rule.looks, 'look')}" + (" (O'Brien-Fleming)" if rule.looks > 1 else "")
    lines = [("judged", f"{what} · a loss of up to {percent(rule.margin)} may pass")]
    lines.append(("errors", f"false alarms ≤ {percent(rule.alpha)}, wrong passes ≤ {percent(rule.alpha)}, {over}"))
    seen = [each for each in result.power if each.loss > 0]
    if seen:
        said = " · ".join(f"{percent(each.loss)}: {each.alarm:.2f}" for each in seen)
        same = next((each for each in result.power if each.loss == 0), None)
        calm = "" if same is None else f" · none: {same.alarm:.3f}, passing {same.passed:.2f}"
        lines.append(("can see", f"{LOSS_NAMES[rule.outcome]}, share of alarms (simulated from the baseline): {said}{calm}"))
    return lines


def look_lines(result: "Regression") -> list[str]:
    """One line for each look."""
    said = []
    for look in result.looks:
        scores = [f"{name} z {number(z, 3)}" for name, z in (("worse", look.alarm), ("within the margin", look.passing)) if z is not None]
        parts = [plural(look.seeds, "seed"), effect(result, look.effect), *scores, f"bound {number(look.bound, 3)}", look.decision]
        said.append(" · ".join(parts))
    return said


def effect(result: "Regression", value: Interval) -> str:
    """How the candidate differs: 1.3x the env steps [1.1, 1.6]; -20 return."""
    if value.value is None:
        return "no return to compare"
    if result.rule.outcome in ("steps", "wall"):
        return f"{times(value)} the {'env steps' if result.rule.outcome == 'steps' else 'seconds'}"
    return f"return {_signed(value)}" if result.rule.outcome == "return" else f"success {_points(value)}"


def decision_line(result: "Regression") -> str:
    """The decision in a sentence."""
    if not result.looks:
        return "ended before the first look"
    shown = effect(result, result.looks[-1].effect)
    if min(result.baseline_seeds, result.candidate_seeds) < 2:
        return f"n = 1, not assessable: {shown}; train more seeds: --seeds 8"
    if result.decision == "passed":
        return f"not worse by {percent(result.rule.margin)} or more: {shown}"
    if result.decision == "regression":
        return f"worse than the baseline: {shown}"
    if result.needed is None:
        more = "the seeds lean to neither side; no number of seeds worth training is in sight"
    else:
        more = f"about {plural(result.needed.candidate, 'seed')} of the candidate"
        more += f" and {result.needed.baseline} of the baseline" if result.needed.baseline > result.baseline_seeds else ""
        more += " would settle it, if this holds"
    return f"neither worse nor within {percent(result.rule.margin)} is shown: {shown}; {more}"


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
            made[name] = charts.bands_svg(bands, order, compared.threshold) + "\n"
    return made


def markdown(compared: Compared) -> str:
    """compare.md: readable as text, with the pictures beside it."""
    lines = [f"# {headline(compared)}", ""]
    for word, sentence in verdicts(compared):
        lines += [f"**{word}** {sentence}", ""]
    for name in pictures(compared):
        lines += [f"![{name.removesuffix('.svg').replace('-', ' ')}]({name})", ""]
    for table in tables(compared):
        lines += _markdown_table(table)
    if notes := listed_notes(compared):
        lines += ["## Notes", "", *(f"- {note}" for note in notes), ""]
    if cited := references(compared):
        lines += ["## References", "", *(f"- {reference}" for reference in cited), ""]
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
    title = escape(headline(compared))
    said = "".join(f'<p><span class="verdict">{escape(word)}</span>{escape(sentence)}</p>' for word, sentence in verdicts(compared))
    body = [_legend(compared), *_pictures(compared), *(_html_table(table) for table in tables(compared))]
    for name, lines in (("Notes", listed_notes(compared)), ("References", references(compared))):
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
        f'<span class="key" style="color:{charts.colour(place)}">{escape(side.label)}</span>{escape(side.name)}'
        for place, side in enumerate(compared.sides)
    ]
    return f'<p class="quiet">{" &nbsp; ".join(items)}</p>'


def _pictures(compared: Compared) -> list[str]:
    order = [side.label for side in compared.sides]
    parts = []
    for axis in ("env steps", "wall seconds"):
        bands = [band for band in compared.curves if band.axis == axis]
        if bands:
            parts.append(f"<h2>Return against {axis}</h2>{charts.bands_svg(bands, order, compared.threshold)}")
    if parts:
        parts.append('<p class="quiet">Lines: interquartile mean over runs; bands: its 95 % bootstrap interval; dashes: threshold.</p>')
    drawn = [(course.key, charts.course_svg(course, order)) for course in compared.config.courses]
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
