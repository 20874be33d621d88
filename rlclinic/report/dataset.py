"""What is in recorded data, as a document."""

from rlclinic.actions import Action
from rlclinic.report.document import Block, Card, Commands, Rows, Text, Tone, Verdict
from rlclinic.report.format import count, number, percent, plural
from rlclinic.report.models import DataAdvice, DataReport, DataWritten, PolicyEvaluation

TONES: dict[str, Tone] = {"error": "bad", "warning": "warn", "note": "note"}


def describe(report: DataReport) -> list[Block]:
    """Numbers first, then what will matter to whoever learns from it."""
    counts = [sum(finding.level == level for finding in report.findings) for level in ("error", "warning")]
    verdict = Verdict("SOUND", "nothing wrong was found", "good")
    if counts[0]:
        verdict = Verdict("DAMAGED", plural(counts[0], "error"), "bad")
    elif counts[1]:
        verdict = Verdict("LOOK AGAIN", plural(counts[1], "warning"), "warn")
    lowest, highest, best = (number(value) for value in (report.return_min, report.return_max, report.return_top_tenth))
    rows = [
        ("data", f"{count(report.transitions)} transitions in {plural(report.episodes, 'episode')}; {report.source}"),
        ("environment", f"{report.env or 'not recorded'}; observations {report.observations}, actions {report.actions}"),
        (
            "returns",
            f"mean {number(report.return_mean)} ± {number(report.return_std)}, from {lowest} to {highest}, best tenth {best}",
        ),
        ("length", f"mean {number(report.length_mean)}, from {count(report.length_min)} to {count(report.length_max)}"),
        ("ends", f"{percent(report.terminated)} terminated, {percent(1 - report.terminated)} truncated"),
        ("coverage", f"{count(report.state_coverage)} distinct states; {percent(report.unique)} of the state-actions are distinct"),
    ]
    if report.action_spread is not None:
        rows.append(("behaviour", f"{number(report.action_spread, 2)} of the actions' spread within a state (0: one action, 1: at random)"))
    if report.at_bounds is not None:
        rows.append(("at bounds", f"{percent(report.at_bounds)} of the actions"))
    if report.trajectory_quality is not None:
        rows.append(("quality", f"{number(report.trajectory_quality, 2)} (0: as random, 1: as good)"))
    if report.coverage_ratio is not None:
        rows.append(("beside", f"{number(report.coverage_ratio, 2)} distinct state-actions for one of the other data (SACo)"))
    if report.zero_rewards > 0:
        rows.append(("zero reward", percent(report.zero_rewards)))
    if not counts[0]:
        for label, good in (("suits", True), ("not for", False)):
            by_reason: dict[str, list[str]] = {}
            for each in report.suits:
                if each.suits == good:
                    by_reason.setdefault(each.why, []).append(each.algorithm)
            rows += [(label, f"{', '.join(names)}: {why}") for why, names in by_reason.items()]
        rows += [("collect", what) for what in report.collect]
    cards = [
        Card(finding.level, finding.name, [("what", finding.what), ("do", finding.do)], tone=TONES[finding.level])
        for finding in report.findings
    ]
    return [verdict, Rows(rows, 12), *cards]


def describe_written(result: DataWritten) -> list[Block]:
    """What was written, and what to do next."""
    about = f"{plural(result.episodes, 'episode')}, {count(result.transitions)} transitions, mean return {number(result.return_mean)}"
    return [Text(f"{result.data}: {about}"), Commands([("check it", Action("data check", result.data))])]


ADVICE: dict[str, tuple[str, str, Tone]] = {
    "imitation": ("IMITATION", "copy what was done", "good"),
    "offline": ("OFFLINE", "learn from the data alone", "good"),
    "hybrid": ("HYBRID", "begin with the data, go on in the environment", "good"),
    "online": ("ONLINE", "learn in the environment, without the data", "good"),
    "collect": ("COLLECT", "no way suits this data: collect other data", "warn"),
    "repair": ("REPAIR", "the data is damaged", "bad"),
}


def describe_advice(result: DataAdvice) -> list[Block]:
    """The way first, then what speaks for and against each, and what would settle it."""
    report = result.report
    cards = [
        Card(
            "" if way.impossible else f"{way.points:+d}",
            way.way,
            [
                *([("impossible", way.impossible)] if way.impossible else []),
                *((f"{reason.points:+d}", f"{reason.what} [{reason.source}]") for reason in way.reasons),
                *([] if way.impossible else [("with", way.algorithm)]),
            ],
            tone="note" if way.impossible else "good" if way.way == result.verdict else "plain",
        )
        for way in result.ways
    ]
    lacks = [Card("instead", lack.what, [("collect", lack.collect)], tone="warn") for lack in result.lacks]
    damage = [
        Card(finding.level, finding.name, [("what", finding.what), ("do", finding.do)], tone=TONES[finding.level])
        for finding in report.findings
        if result.verdict == "repair" and finding.level == "error"
    ]
    rows = [("data", f"{count(report.transitions)} transitions in {plural(report.episodes, 'episode')}; {report.source}")]
    rows += [("note", note) for note in result.notes if not damage]
    best = next((way for way in result.ways if way.way == result.verdict), None)
    commands = [] if best is None else [("train", best.command)]
    commands += [("collect", lack.command) for lack in result.lacks[:1]]
    commands += [("settle it" if index == 0 else "", command) for index, command in enumerate(result.settle[1:])]
    blocks: list[Block] = [Verdict(*ADVICE[result.verdict]), Rows(rows, 12), *damage, *lacks, *cards]
    return [*blocks, Commands(commands)] if commands else blocks


METHODS = {"fqe": "fitted Q", "wis": "weighted IS", "pdis": "per decision", "dr": "doubly robust"}


def describe_policy(result: PolicyEvaluation) -> list[Block]:
    """Estimates first, then what they rest on."""
    told = [each for each in result.estimates if each.value is not None]
    verdict = Verdict("CANNOT TELL", "the data says nothing about this policy", "warn")
    if told:
        better = all((each.low or 0.0) > result.behaviour for each in told)
        worse = all((each.high or 0.0) < result.behaviour for each in told)
        words = "better than" if better else "worse than" if worse else "not told apart from"
        verdict = Verdict("ESTIMATED", f"{words} what was recorded", "good" if better else "bad" if worse else "note")
    rows = [("policy", result.policy), ("recorded", f"{number(result.behaviour)} discounted return (gamma {result.gamma:g})")]
    for each in result.estimates:
        if each.value is None:
            rows.append((METHODS[each.method], f"refused: {each.refused}"))
        else:
            span = f"95 % interval {number(each.low or 0.0)} to {number(each.high or 0.0)}"
            rows.append((METHODS[each.method], f"{number(each.value)}, {span}; {number(each.effective_episodes or 0.0)} episodes"))
    rows.append(("untried", f"{percent(result.untried)} of its actions were hardly ever tried"))
    for place, ranked in enumerate(result.ranking, 1):
        said = f"refused: {ranked.refused}"
        if ranked.value is not None:
            said = f"{number(ranked.value)}, {number(ranked.low or 0.0)} to {number(ranked.high or 0.0)}"
        rows.append(("by fitted Q" if place == 1 else "", f"{place}. {ranked.policy}  {said}"))
    return [verdict, Rows(rows, 14)]
