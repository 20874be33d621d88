"""A race in words, and as report.md and report.html: the ranking with its sets of ranks and intervals, as a table and as a picture."""

import math
from collections.abc import Sequence
from html import escape
from typing import Final

from rlclinic.report.charts import Scale
from rlclinic.report.document import (
    COLOURS,
    Block,
    Commands,
    Figure,
    Gap,
    Heading,
    Points,
    Rows,
    Table,
    Text,
    Tone,
    Verdict,
    render_markdown,
    render_page,
)
from rlclinic.report.format import BLANK, clip, count, duration, listed, number, percent, plural, short
from rlclinic.report.trial import cost_text, gain_text, range_text, ratio_text
from rlclinic.treatment.race.models import Race, RacePlan, RankedArm, Round
from rlclinic.treatment.race.power import RacePower
from rlclinic.treatment.trial.models import CENSORED_OUTCOMES, Range

WORDS: Final = {
    "best": "BEST SHOWN",
    "less reliable": "FASTER BUT LESS RELIABLE",
    "several": "NOT TOLD APART",
    "undecided": "UNDECIDED",
}
TONES: Final[dict[str, Tone]] = {"best": "good", "less reliable": "bad", "several": "warn", "undecided": "warn"}
_MOST_NAMED: Final = 8
_WIDTH, _ROW, _LEFT, _RIGHT = 820, 26, 190, 230


# ── before ──


def describe_race_plan(
    question: str, plan: RacePlan, power: RacePower, max_seconds: float | None, cores: int, warnings: Sequence[str] = ()
) -> list[Block]:
    """The question, arms, rule, what the race can see and what it costs."""
    rows = [("note", warning) for warning in warnings]
    rows.append(("arms", listed([arm.name for arm in plan.arms], 12)))
    rows.append(("rule", rule_text(plan)))
    if plan.outcome in CENSORED_OUTCOMES and plan.trial.source != "command":
        end = f"a run ends at its first evaluation at or above {number(plan.trial.threshold, 4)}"
        rows.append(("ends", "every run uses its whole budget" if plan.trial.whole_budget else end))
    cost = cost_text(plan.max_env_steps, plan.trial.step_unit, max_seconds, None, cores)
    first = plan.cost()
    budget = f", within a budget of {short(plan.budget)}" if plan.budget is not None else ""
    rows += [
        ("can see", power_text(plan, power)),
        ("cost", f"{cost}{f', the first round ≤ {short(first)}' if first is not None else ''}{budget}"),
    ]
    return [Verdict("RACE", question), Rows(rows, 9, 2)]


def rule_text(plan: RacePlan) -> str:
    """8 seeds an arm and round, at most 5 rounds · any two equal arms told apart in ≤ 5 % of races."""
    alpha = f"{100 * plan.trial.alpha:.3g} %"
    return (
        f"{plan.per_round} seeds an arm and round, at most {plural(plan.rounds, 'round')} an arm; arms that are behind wait, those shown "
        f"worse are out · any two equal arms told apart in ≤ {alpha} of races, over all pairs and rounds"
    )


def power_text(plan: RacePlan, power: RacePower) -> str:
    """The best is named with power 0.97 if it needs 50 % fewer steps than each other · 30 %: 0.75 · 10 %: 0.02."""
    shift = power.kind == "shift"
    sizes = [f"{size} SD" if shift else f"{100 * float(size):.0f} %" for size in power.by_effect]
    what = "more (over seeds)" if shift else "fewer steps"
    first, *rest = zip(sizes, power.by_effect.values(), strict=True)
    basis = "" if shift else "; assuming a usual spread" if power.assumed else f"; with these runs' spread, sigma {power.sigma:.2f}"
    more = " · ".join(f"{size}: {chance:.2f}" for size, chance in rest)
    return (
        f"the best named with power {first[1]:.2f} if it takes {first[0]} {what} than each of {len(plan.arms) - 1} others · {more}{basis}"
    )


# ── rounds ──


def round_text(made: Round) -> str:
    """12 arms trained, 3 dropped (a, b, c); 9 left, x leads."""
    dropped = f"; out: {listed([f'{arm} (worse than {by})' for arm, by in made.dropped.items()], 4)}" if made.dropped else ""
    return f"{plural(len(made.seeds), 'arm')} trained{dropped}; {made.left} left, {made.leader} leads · {short(made.env_steps)} steps"


# ── after ──


def describe_verdict(race: Race) -> str:
    """The verdict in a line."""
    if race.verdict is None:
        return f"{race.state.upper()} after {plural(len(race.rounds), 'round')}"
    return WORDS[race.verdict] + (f": {race.winner}" if race.winner else "")


def summary(race: Race) -> str:
    """What was shown, in a sentence."""
    best = listed(list(race.best), _MOST_NAMED)
    if race.verdict == "best":
        return f"{race.winner} is better than {_others(race)}; ≤ {percent(race.alpha)} of races name an arm that is not better"
    if race.verdict == "less reliable":
        fast = next(arm for arm in race.arms if arm.less_reliable_than)
        return f"{fast.arm.name} is faster than {listed(list(fast.less_reliable_than), 4)}, but {_arrived(race, fast)}; best: {best}"
    if race.verdict == "several":
        return f"best: {best}: nobody was shown to be better than these{_seeds_text(race)}"
    if race.verdict == "undecided":
        return f"{race.reason}; left: {best}" if race.reason else f"the budget is used up; left: {best}{_seeds_text(race)}"
    return f"left: {best}" if best else "no round has ended"


def _others(race: Race) -> str:
    return "the other arm" if len(race.arms) == 2 else f"each of {len(race.arms) - 1} others"


def _arrived(race: Race, arm: RankedArm) -> str:
    what = "stays above the threshold" if race.threshold is not None else "does not collapse"
    other = race.find(arm.less_reliable_than[0])
    return f"{what} in {arm.arrived} of {arm.arm.n} seeds, {other.arm.name} in {other.arrived} of {other.arm.n}"


def _seeds_text(race: Race) -> str:
    """About how many seeds would tell the closest two apart."""
    needed = [arm.seeds_needed for arm in race.arms if arm.arm.name in race.best and arm.seeds_needed is not None]
    return f" (about {count(max(needed))} seeds an arm would tell the closest from the first)" if needed else ""


def rank_text(arm: RankedArm) -> str:
    """ "1", "1–2": the ranks that an arm may have."""
    low, high = arm.ranks
    return str(low) if low == high else f"{low}–{high}"


def difference_text(race: Race, arm: RankedArm) -> str:
    """An arm against the first, with an interval that holds together with all others."""
    if arm.place == 1:
        return "first"
    if arm.ratio is not None:
        return ratio_text(arm.ratio)
    if arm.gain is not None:
        return gain_text(arm.gain, points=race.outcome == "success")
    return _behind(arm.behind)


def _behind(behind: Range | None) -> str:
    if behind is None or behind.value is None:
        return BLANK
    low, high = behind.low or 0.0, 1.0 if behind.high is None else behind.high
    return f"the first does better in {behind.value:.2f} [{low:.2f}, {high:.2f}] of pairs"


def measure_text(race: Race, arm: RankedArm) -> str:
    """The arm's own figure: median steps, the IQM of returns, the success rate; its interval is for itself."""
    result = arm.arm
    if race.outcome == "steps":
        steps = result.steps
        if steps is None or steps.value is None:
            budget = race.plan.trial.budget or result.env_steps / max(result.n, 1)
            return f"> {short(budget)}" if budget else BLANK
        high = "never" if steps.high is None else short(steps.high)
        return f"{short(steps.value)}{f' [{short(steps.low)}, {high}]' if steps.low is not None else ''}"
    return range_text(result.success if race.outcome == "success" else result.final)


def ranking_table(race: Race) -> Table:
    """The ranking."""
    measure = {"steps": "median steps", "return": "return (IQM)", "success": "success"}[race.outcome]
    rows = []
    for arm in race.arms:
        failed = f", {arm.arm.failed} failed" if arm.arm.failed else ""
        rows.append(
            [
                rank_text(arm),
                arm.arm.name,
                str(arm.arm.n),
                f"{arm.arrived} of {arm.arm.n}{failed}",
                measure_text(race, arm),
                difference_text(race, arm),
                arm.shown,
            ]
        )
    there = "stayed there" if race.threshold is not None else "not collapsed"
    heads = [">rank", "arm", ">seeds", f">{there}", f">{measure}", "against the first", "shown"]
    note = f"ranks, and intervals against the first, hold for all arms together ({percent(1 - race.alpha)}), whenever an arm was dropped"
    return Table(heads, rows, note=f"{note}; an arm's own interval is 95 % for itself")


def used_text(race: Race) -> str:
    """1.07M of 6.4M env steps, 48 runs, 40 s."""
    most = f" of {short(race.max_env_steps)}" if race.max_env_steps else ""
    runs = sum(arm.arm.n for arm in race.arms)
    everything = max(len(race.plan.arms) * race.plan.rounds * race.plan.per_round, runs)
    used = f"{short(race.used_env_steps)}{most} {race.plan.trial.step_unit}"
    return f"{used}, {plural(runs, 'run')} of {count(everything)}, {duration(race.seconds)}"


def _remarks(race: Race) -> list[tuple[str, str]]:
    rows = [("note", note) for note in race.notes]
    rows.append(("not afforded", race.not_afforded))
    rows.append(("ended", race.reason if race.verdict == "several" else ""))
    for arm in race.arms:
        if arm.arm.failed:
            reason = (arm.arm.reason or "no reason was recorded").splitlines()[0]
            rows.append(("failed", f"{arm.arm.name}: {arm.arm.failed} of {arm.arm.n} runs, the first because: {reason}"))
    rows.append(("used", used_text(race)))
    return [row for row in rows if row[1]]


def _not_shown(race: Race) -> list[str]:
    said = ["other environments", "values between those that were raced"]
    if race.outcome in CENSORED_OUTCOMES and not race.plan.trial.whole_budget and race.plan.trial.source != "command":
        said.append(f"what happens after {number(race.threshold, 4)} (takes the whole budget)")
    if race.plan.reserve <= 0:
        said.append("this race cannot be extended: its error is spent; a trial of two arms asks again, on fresh seeds")
    return said


def describe_race(race: Race) -> list[Block]:
    """The verdict, the ranking, and what is not shown."""
    answer = Verdict(describe_verdict(race), summary(race), TONES.get(race.verdict or "", "plain"))
    if not race.arms:
        return [answer]
    blocks: list[Block] = [answer, ranking_table(race), Rows(_remarks(race), 14, 2)]
    return [*blocks, Points(_not_shown(race), "Not shown")] if race.verdict is not None else blocks


def ending(race: Race, commands: Sequence[str], files: Sequence[str]) -> list[Block]:
    """What to type next, and where the report is."""
    labels = {"adopt": "keep it", "race": "go on", "trial": "ask again"}
    rows = [(labels[command.split()[1]], command) for command in commands if command.split()[1] in labels]
    report = next((file for file in files if file.endswith(".html")), None)
    return [Gap(), Commands([*rows, *([("report", report)] if report is not None else [])])]


# ── documents ──


def document(race: Race) -> list[Block]:
    """Everything that the report says."""
    text = f"Each arm against the first, with intervals that hold together. {summary(race)}."
    figure = Figure(lambda: draw_ranking(race), text, "ranking.svg")
    rounds = [
        [
            str(made.number),
            listed([f"{arm} ({seeds})" for arm, seeds in made.seeds.items()], 8),
            listed(list(made.dropped), 8) or BLANK,
            str(made.left),
            made.leader,
            short(made.env_steps),
        ]
        for made in race.rounds
    ]
    changes = [[arm.arm.name, clip("; ".join(arm.arm.changes), 200) or BLANK, ", ".join(arm.arm.groups)] for arm in race.arms]
    return [
        Text(race.question),
        *describe_race(race),
        *([figure] if race.arms else []),
        Heading("Rounds"),
        Table([">round", "trained (seeds so far)", "out", ">left", "leads", f">{race.plan.trial.step_unit}"], rounds),
        Heading("Arms"),
        Table(["arm", "settings", "groups"], changes),
    ]


def render_report(race: Race) -> str:
    """report.md."""
    return render_markdown([Heading(f"Race {race.id} · {describe_verdict(race)}", 1), *document(race)])


def render_race_page(race: Race) -> str:
    """report.html."""
    return render_page(race.question, document(race), (race.verdict or race.state).upper(), TONES.get(race.verdict or "", "plain"))


def draw_ranking(race: Race) -> str:
    """One line an arm, the best on top: its distance from the first with its interval, and the ranks that it may have."""
    ratios = all(arm.ratio is not None for arm in race.arms[1:]) and len(race.arms) > 1
    gains = not ratios and all(arm.gain is not None for arm in race.arms[1:]) and len(race.arms) > 1
    spans = [_span(arm, ratios, gains) for arm in race.arms]
    ends = [end for span in spans for end in span if end is not None and math.isfinite(end)]
    low, high = min([*ends, 0.0]), max([*ends, 0.0])
    air = max(0.05 * (high - low), 1e-9)
    scale = Scale(low - air, high + air, _LEFT, _WIDTH - _RIGHT)
    height = 46 + _ROW * len(race.arms)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" font-family="system-ui, sans-serif"',
        f' font-size="12"><title>{escape(race.question)}</title>',
        f'<line x1="{scale(0.0):.1f}" x2="{scale(0.0):.1f}" y1="8" y2="{height - 30}" stroke="#888" stroke-dasharray="4 3"/>',
    ]
    inks: dict[str, Tone] = {"best": "good", "among the best": "note", "worse": "bad", "faster but less reliable": "warn"}
    for place, (arm, span) in enumerate(zip(race.arms, spans, strict=True)):
        y, ink = 20 + _ROW * place, COLOURS[inks.get(arm.shown, "quiet")]
        value, left, right = span
        edges = [scale(low - air) if left is None else scale(left), scale(high + air) if right is None else scale(right)]
        name = escape(f"{rank_text(arm)}   {arm.arm.name}")
        said = escape(f"{arm.arrived}/{arm.arm.n} · {difference_text(race, arm)}")
        parts.append(f'<text x="{_LEFT - 12}" y="{y}" dy="4" text-anchor="end" fill="#777">{name}</text>')
        if place:
            parts.append(f'<line x1="{edges[0]:.1f}" x2="{edges[1]:.1f}" y1="{y}" y2="{y}" stroke="{ink}" stroke-width="3"/>')
        if value is not None:
            parts.append(f'<circle cx="{scale(value):.1f}" cy="{y}" r="5" fill="{ink}"/>')
        parts.append(f'<text x="{_WIDTH - _RIGHT + 10}" y="{y}" dy="4" fill="#777">{said}</text>')
    what = "times the steps of the first (log)" if ratios else "minus the first" if gains else "P(the first does better), from one half"
    parts.append(f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2:.0f}" y="{height - 10}" text-anchor="middle" fill="#777">{what}</text>')
    return "\n".join([*parts, "</svg>"])


def _span(arm: RankedArm, ratios: bool, gains: bool) -> tuple[float | None, float | None, float | None]:
    """Where an arm's distance from the first lies, and its interval, on an axis on which the first is 0."""
    if arm.place == 1:
        return 0.0, 0.0, 0.0
    given = arm.ratio if ratios else arm.gain if gains else arm.behind
    if given is None:
        return None, None, None
    value, low, high = (_place(end, ratios, gains) for end in (given.value, given.low, given.high))
    return value, low, high


def _place(end: float | None, ratios: bool, gains: bool) -> float | None:
    if end is None or (ratios and end <= 0):
        return None
    return math.log(end) if ratios else end if gains else end - 0.5
