"""What a reward pays for, as a document."""

from rlclinic.report.document import Block, Card, Rows, Table, Tone, Verdict
from rlclinic.report.format import count, number, percent, plural
from rlclinic.report.models import RewardReport

TONES: dict[str, Tone] = {"error": "bad", "warning": "warn", "note": "note"}


def describe(report: RewardReport) -> list[Block]:
    """The verdict, each term, and what was seen."""
    errors, warnings = (sum(remark.level == level for remark in report.remarks) for level in ("error", "warning"))
    verdict = Verdict("SOUND", "nothing was found that pays for something else", "good")
    if errors:
        verdict = Verdict("PAYS FOR SOMETHING ELSE", plural(errors, "error"), "bad")
    elif warnings:
        verdict = Verdict("LOOK AGAIN", plural(warnings, "warning"), "warn")
    played = f"{count(report.steps)} random steps in {plural(report.episodes, 'episode')}, {count(report.terminations)} terminated"
    paid = f"{percent(report.density)} of the steps pay; median {number(report.scale_median)}, at most {number(report.scale_max)}"
    blocks: list[Block] = [verdict, Rows([("looked at", f"{played}; gamma {report.gamma:g}"), ("paid", paid)], 12)]
    if report.terms:
        cells = [
            [
                term.name,
                term.potential,
                "" if term.residual is None else percent(term.residual),
                "" if term.best is None or term.kept is None else f"{number(term.kept)} of {number(term.best)}",
                term.why,
            ]
            for term in report.terms
        ]
        blocks.append(Table(["term", "potential?", ">unexplained", ">task's return kept", "why"], cells))
    cards = [
        Card(remark.level, remark.name, [("what", remark.what), ("do", remark.do)], tone=TONES[remark.level]) for remark in report.remarks
    ]
    return [*blocks, *cards]
