"""What is in recorded data, as a document."""

from rlclinic.actions import Action
from rlclinic.report.document import Block, Card, Commands, Rows, Text, Tone, Verdict
from rlclinic.report.format import count, number, percent, plural
from rlclinic.report.models import DataReport, DataWritten

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
    if report.zero_rewards > 0:
        rows.append(("zero reward", percent(report.zero_rewards)))
    cards = [
        Card(finding.level, finding.name, [("what", finding.what), ("do", finding.do)], tone=TONES[finding.level])
        for finding in report.findings
    ]
    return [verdict, Rows(rows, 12), *cards]


def describe_written(result: DataWritten) -> list[Block]:
    """What was written, and what to do next."""
    about = f"{plural(result.episodes, 'episode')}, {count(result.transitions)} transitions, mean return {number(result.return_mean)}"
    return [Text(f"{result.data}: {about}"), Commands([("check it", Action("data check", result.data))])]
