"""A comparison in words and tables, as Markdown and as one HTML file that needs nothing beside it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from rlclinic.comparison.models import Compared, Contrast, Difference, Interval, Pair, SideOutcome
from rlclinic.references import cite
from rlclinic.report import charts
from rlclinic.report.document import Block, Figure, Gap, Heading, Points, Rows, Table, Text, Tone, Verdict, render_markdown, render_page
from rlclinic.report.format import BLANK, INTERVAL_FROM, count, duration, interval, number, percent, plural, short

TONES: Final[dict[str, Tone]] = {
    "better": "good",
    "worse": "bad",
    "mixed": "warn",
    "no difference shown": "plain",
    "not assessable": "plain",
}
SETTINGS, DERIVED, OUTCOMES, TESTS = "Settings that differ", "What follows from them", "Outcomes", "Tests"
PICTURES: Final = {"env steps": "compare-env-steps.svg", "wall seconds": "compare-wall-time.svg"}
Say = Callable[[float | None], str]


def headline(compared: Compared) -> str:
    """What is compared, in one line."""
    sides = " · ".join(f"{side.label} {side.name} ({_sample(side.kind, side.runs)})" for side in compared.sides)
    unknown = "environment not recorded" if all(side.env is None for side in compared.sides) else "several environments"
    return f"{compared.env or unknown} · {sides}"


def _sample(kind: str, runs: int) -> str:
    return "config" if kind == "config" else plural(runs, "run" if kind == "foreign" else "seed")


def verdicts(compared: Compared) -> list[Verdict]:
    """For each pair: the verdict's word and the sentence behind it."""
    return [
        Verdict(pair.verdict.upper(), f"{pair.second} against {pair.first}: {_sentence(pair)}", TONES[pair.verdict])
        for pair in compared.pairs
    ]


def _sentence(pair: Pair) -> str:
    returns = next(contrast for contrast in pair.contrasts if contrast.outcome == "return")
    parts = [f"return {signed(returns.difference)}{_show_p(returns)}"]
    if returns.middle is not None and returns.middle.low is not None:
        parts[0] += f", IQM {signed(returns.middle)}"
    if pair.improvement is not None:
        parts.append(f"P(better) {_estimate(pair.improvement, _share)}")
    steps = next((contrast for contrast in pair.contrasts if contrast.outcome.startswith("env steps")), None)
    if steps is not None and steps.ratio is not None:
        middle = "" if steps.middle is None or steps.middle.low is None else f", IQM {times(steps.middle)}"
        parts.append(f"{times(steps.ratio)} the steps{_show_p(steps)}{middle}")
    elif steps is not None:
        parts.append("no run of either side reached the threshold")
    return " · ".join([*parts, pair.reason])


def _show_p(contrast: Contrast) -> str:
    return "" if contrast.p_holm is None else f" (p {chance(contrast.p_holm)})"


def tables(compared: Compared) -> list[Table]:
    """Every table of the report that has a row."""
    made = [_settings(compared), _derived(compared), _outcomes(compared), _pairs(compared), _speed(compared), *_phases(compared)]
    return [table for table in made if table.rows]


def _labels(compared: Compared) -> list[str]:
    return [f">{side.label}" for side in compared.sides]


def _settings(compared: Compared) -> Table:
    found = compared.config.differences
    rows = [[each.key, *each.shown, each.change] for each in found]
    remarks = {row: said for row, each in enumerate(found) if (said := usually(each))}
    total = len(found) + compared.config.same
    note = "; ".join([f"{len(found)} of {plural(total, 'setting')} differ", *compared.config.notes])
    return Table(["setting", *_labels(compared), "change"], rows, SETTINGS, remarks, "what it usually does", note)


def usually(each: Difference) -> str:
    """What such a change usually does, who says so, and what trials of it in this store say."""
    tried = f"it helped in {each.adopted} of {plural(each.trials, 'trial')} of it here" if each.trials else "no trial of it here"
    if not each.usual:
        return f"no recorded effect in the literature table; {tried}" if each.trials else ""
    return f"usually: {each.usual} [{', '.join(each.cites)}]; {tried}"


def _derived(compared: Compared) -> Table:
    apart = [row for row in compared.config.derived if row.differs or None in row.values]
    rows = [[row.name, *(number(value, 4) for value in row.values), row.meaning] for row in apart]
    said = " · ".join(f"{row.name} {number(row.values[0], 4)}" for row in compared.config.derived if row not in apart)
    return Table(["number", *_labels(compared), "meaning"], rows, DERIVED, note=f"the same for all: {said}" if said else "")


def _outcomes(compared: Compared) -> Table:
    common = short(compared.common_env_steps)
    bar = number(compared.threshold, 4)
    # A return above it alone is not enough where the environment reports success.
    goal = f"{bar}, and success with it" if any(side.success is not None for side in compared.outcomes) else bar
    wanted: list[tuple[str, Callable[[SideOutcome], str]]] = [
        (f"{compared.measure} return at {common}, IQM", lambda side: _middle(side, side.common)),
        ("return at the end, IQM", lambda side: _middle(side, side.last)),
        ("mean return on the way, IQM", lambda side: _middle(side, side.area)),
        ("best", lambda side: number(side.best)),
        (f"reached {goal}", _reached),
        (f"env steps to {bar}, mean", lambda side: _censored(side, side.steps, short)),
        (f"env steps to {bar}, median", _median),
        (f"wall time to {bar}, mean", lambda side: _censored(side, side.wall, duration)),
        ("success rate", lambda side: _range(side.success, percent)),
        ("spread over seeds (standard deviation)", lambda side: _estimate(side.spread)),
        ("lowest and highest seed", lambda side: f"{number(side.lowest)} – {number(side.highest)}"),
        ("fall from a run's own best, IQM", lambda side: _middle(side, side.fall)),
        ("evaluation minus training, IQM", lambda side: _middle(side, side.gap)),
    ]
    rows = [[name, *(say(side) for side in compared.outcomes)] for name, say in wanted]
    rows = [row for row in rows if any(cell != BLANK for cell in row[1:])]
    note = (
        "[ ]: 95 % intervals; ( ): lowest and highest seed, where no interval of so few holds; runs that never reached the threshold count"
    )
    note += " the whole horizon"
    return Table(["outcome", *(f">{side.label}" for side in compared.outcomes)], rows if compared.outcomes else [], OUTCOMES, note=note)


def _reached(side: SideOutcome) -> str:
    if side.reached is None:
        return BLANK
    lost = side.reached - min(side.kept or 0, side.reached)
    return f"{side.reached} of {side.runs}" + (f", {lost} lost it again" if lost else "")


def _censored(side: SideOutcome, value: Interval | None, say: Say) -> str:
    """A mean until the threshold; where runs never got there only what it is at least, and nothing but the horizon where none did."""
    if value is None or value.value is None or side.reached is None or side.reached == side.runs:
        return _range(value, say)
    return f"> {say(value.value)}" if side.reached == 0 else f"≥ {_range(value, say)}"


def _median(side: SideOutcome) -> str:
    if side.reached is None:
        return BLANK
    if side.median_steps is None:
        return "more than half never did"
    if side.median_steps_interval is None:
        return short(side.median_steps)
    low, high = side.median_steps_interval
    return f"{short(side.median_steps)} [{short(low)}, {'never' if high is None else short(high)}]"


def _middle(side: SideOutcome, value: Interval | None) -> str:
    """An interquartile mean with its interval, or with the range of few seeds."""
    return _estimate(value) if side.runs >= INTERVAL_FROM else _range(value)


def _range(value: Interval | None, say: Say = number) -> str:
    """A number with the lowest and the highest seed: 23.3k (20.1k – 27k)."""
    if value is None or value.value is None:
        return BLANK
    return say(value.value) + ("" if value.low is None or value.high is None else f" ({say(value.low)} – {say(value.high)})")


def _pairs(compared: Compared) -> Table:
    rows = []
    for pair in compared.pairs:
        name = f"{pair.second} against {pair.first}"
        rows += [[f"{name}: {contrast.outcome}", *_tested(contrast)] for contrast in pair.contrasts]
        if pair.improvement is not None:
            better = _estimate(pair.improvement, _share)
            rows.append([f"{name}: P(improvement)", better, BLANK, BLANK, BLANK, BLANK, "score interval (Newcombe)"])
        if pair.reached is not None:
            rows.append([f"{name}: share that reached it", points(pair.reached), BLANK, BLANK, BLANK, BLANK, "Newcombe's interval"])
        if pair.spread is not None:
            rows.append([f"{name}: {pair.spread.outcome}", *_tested(pair.spread)])
    note = (
        "p is of the means (of steps: of the ratio), and corrected over every return and steps comparison in this table (Holm); IQM leaves"
    )
    note += " out the lowest and the highest quarter of the seeds, and has an interval from 8 seeds on"
    note = note if rows else ""
    return Table(["question", ">means", ">ratio", ">IQM", ">p", ">p (Holm)", "test"], rows, TESTS, note=note)


def _tested(each: Contrast) -> list[str]:
    say: Say = short if "env steps" in each.outcome else duration if "seconds" in each.outcome else number
    ratio = BLANK if each.ratio is None else times(each.ratio)
    method = each.why if each.p is None else f"{each.method} ({each.why})"
    middle = BLANK if each.middle is None else signed(each.middle, say) if each.ratio is None else times(each.middle)
    return [signed(each.difference, say), ratio, middle, chance(each.p), chance(each.p_holm), method]


def _speed(compared: Compared) -> Table:
    rows = [["env steps per second of a run", *(count(side.fps) for side in compared.outcomes)]]
    rows.append(["time per 100k env steps", *(duration(side.seconds_per_100k) for side in compared.outcomes)])
    phases = dict.fromkeys(name for side in compared.outcomes for name in side.split)
    rows += [[f"share of {name}", *(percent(side.split.get(name)) for side in compared.outcomes)] for name in phases]
    rows = [row for row in rows if any(cell != BLANK for cell in row[1:])]
    note = "seconds are those of the process; seeds that were trained together share them" if rows else ""
    return Table(["", *(f">{side.label}" for side in compared.outcomes)], rows, "Where the time went", note=note)


def _phases(compared: Compared) -> list[Table]:
    trained = [side.label for side in compared.sides if side.kind != "config"]
    heads = [f">{label} {third}" for label in trained for third in ("early", "middle", "late")]
    rows = [[row.metric, *(number(value) for side in row.values for value in side)] for row in compared.phases]
    note = "means over the first, second and last third of each run, IQM over runs"
    shares = []
    for side in compared.losses:
        for name, values in (("policy", side.policy), ("value", side.value), ("entropy", side.entropy)):
            shares.append([f"{side.label} {name}", *(percent(value) for value in values)])
    return [
        Table(["metric", *heads], rows, "Losses, gradients and updates by phase", note=note),
        Table(
            ["weighted loss term", ">early", ">middle", ">late"], shares, "What the optimizer worked on", note="share of |weight x term|"
        ),
    ]


def references(compared: Compared) -> list[str]:
    """The sources that the settings table cites."""
    keys = dict.fromkeys(key for difference in compared.config.differences for key in difference.cites)
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


def signed(value: Interval, say: Say = number) -> str:
    """A difference with its interval: −429 [−451, −408]."""
    amounts = []
    for amount in (value.value, value.low, value.high):
        sign = "" if amount is None else "+" if amount > 0 else "−" if amount < 0 else "±"
        amounts.append(BLANK if amount is None else sign + say(abs(amount)))
    return amounts[0] if value.low is None or value.high is None else f"{amounts[0]} [{amounts[1]}, {amounts[2]}]"


def _share(value: float | None) -> str:
    return BLANK if value is None else f"{value:.2f}"


def points(value: Interval) -> str:
    """A difference of shares in percentage points."""
    ends = "" if value.low is None or value.high is None else f" [{100 * value.low:+.0f}, {100 * value.high:+.0f}]"
    return f"{100 * (value.value or 0):+.0f} points{ends}"


def listed_notes(compared: Compared) -> Sequence[str]:
    """Remarks about the comparison, then those about its sides."""
    return [*compared.notes, *(f"{side.label}: {note}" for side in compared.sides for note in side.notes)]


def document(compared: Compared) -> list[Block]:
    """Everything that compare.md and compare.html say below their title."""
    notes, cited = listed_notes(compared), references(compared)
    blocks: list[Block] = [*verdicts(compared), *curve_figures(compared), *tables(compared)]
    order = [side.label for side in compared.sides]
    blocks += [Figure(partial(charts.course_svg, course, order), f"{course.key} over the run.") for course in compared.config.courses]
    for title, items in (("Notes", notes), ("References", cited)):
        blocks += [Heading(title), Points(items)] if items else []
    return blocks


def answer(compared: Compared, full: bool = True) -> list[Block]:
    """Sides, verdicts, the picture, settings, outcomes, tests; with `full` also phases and where the time went."""
    figures = curve_figures(compared)
    blocks: list[Block] = [Verdict("COMPARE", headline(compared)), *verdicts(compared), *(figures if full else figures[:1])]
    if not compared.config.differences:
        blocks += [Gap(), Text(f"SETTINGS  no difference among {compared.config.same} settings")]
    for table in tables(compared):
        if full or table.title in (SETTINGS, DERIVED, OUTCOMES, TESTS):
            blocks.append(table)
        if table.title == SETTINGS:
            blocks += [Figure(str, f"{course.key} over the run", None, course) for course in compared.config.courses]
    rows = [("note", note) for note in listed_notes(compared)]
    rows += [("more", "losses, gradients, updates by phase, wall time and throughput: --full")] if not full and compared.phases else []
    return [*blocks, Gap(), Rows(rows)]


def brief_answer(compared: Compared) -> list[Block]:
    """Sides, verdicts, settings that differ, outcomes, the first notes."""
    kept = [table._replace(remarks={}, note="") for table in tables(compared) if table.title in (SETTINGS, OUTCOMES)]
    notes = Rows([("note", note) for note in listed_notes(compared)[:4]])
    return [Verdict("COMPARE", headline(compared)), *verdicts(compared), *kept, notes]


def curve_figures(compared: Compared) -> list[Figure]:
    """Return against env steps, and against wall time."""
    names = [f"{side.label} {side.name}" for side in compared.sides]
    order = [side.label for side in compared.sides]
    figures = []
    for axis, name in PICTURES.items():
        bands = [band for band in compared.curves if band.axis == axis]
        if bands:
            text = f"Return against {axis}: interquartile mean over runs, its 95 % interval (below 8 runs their range); dashes: threshold."
            svg = charts.bands_svg(bands, order, compared.threshold)
            drawing = charts.BandsDrawing(bands, compared.threshold)
            figures.append(Figure(partial(charts.add_names, svg, names), text, name, drawing))
    return figures


def pictures(compared: Compared) -> dict[str, str]:
    """The curves as SVG files to lie beside compare.md, by file name."""
    return {str(figure.file): figure.svg() + "\n" for figure in curve_figures(compared)}


def markdown(compared: Compared) -> str:
    """compare.md: readable as text, with the pictures beside it."""
    return render_markdown([Heading(headline(compared), 1), *document(compared)])


def html(compared: Compared) -> str:
    """compare.html: styles and curves are inside; nothing is fetched."""
    return render_page(headline(compared), document(compared))
