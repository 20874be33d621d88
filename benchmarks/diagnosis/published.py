"""`python -m benchmarks.diagnosis.published FOLDER`: the diagnosis of published agents, of which only logs are read.

FOLDER holds DLR-RM/rl-trained-agents (`git clone https://github.com/DLR-RM/rl-trained-agents`); none of it is kept here. Every answer at
MEDIUM or HIGH was checked by hand against the agent's curve and settings: the verdicts are in published_verdicts.json, by agent and cause.
Prints the shares and writes results/published.json; what nobody has checked counts as wrong.
"""

import argparse
import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import provenance
from rlclinic.diagnosis.findings import Severity
from rlclinic.errors import RlclinicError
from rlclinic.ops.diagnose.diagnose import diagnose

VERDICTS: Final = Path(__file__).with_name("published_verdicts.json")


@dataclass(frozen=True)
class Said:
    """What was said about one agent, and whether that is so."""

    agent: str
    what: str
    """The first cause's id, or a rule's."""
    level: str
    probability: float | None
    text: str
    verdict: str = "not checked"
    because: str = ""


def read(folder: Path) -> tuple[list[Said], list[str], Counter[str]]:
    """What is said at MEDIUM and HIGH, which agents crashed it, and how often each answer came first."""
    known = json.loads(VERDICTS.read_text("utf-8"))["verdicts"] if VERDICTS.exists() else {}
    said: list[Said] = []
    crashed: list[str] = []
    answers: Counter[str] = Counter()
    for file in sorted(folder.glob("*/*/evaluations.npz")):
        agent = str(file.parent.relative_to(folder))
        try:
            report = diagnose(str(file.parent), write=False)
        except RlclinicError as error:
            crashed.append(f"{agent}: refused: {str(error).splitlines()[0]}")
            continue
        except Exception as error:  # noqa: BLE001 — a crash is what is counted here
            crashed.append(f"{agent}: {type(error).__name__}: {error}")
            continue
        for each in (report, *report.more):
            first = each.diagnosis.causes[0]
            answers[first.id] += 1
            if not first.calm and first.severity is not Severity.LOW:
                said.append(Said(agent, first.id, first.severity.value, first.probability, first.moved_first or first.because))
            said += [
                Said(agent, finding.rule, finding.severity.value, None, finding.text)
                for finding in each.diagnosis.findings
                if finding.severity is not Severity.LOW and finding.rule not in first.rules
            ]
    return [_judge(one, known) for one in said], crashed, answers


def _judge(one: Said, known: dict[str, Any]) -> Said:
    verdict = known.get(f"{one.agent} {one.what}", known.get(f"* {one.what}"))
    if verdict is None:
        return one
    return Said(one.agent, one.what, one.level, one.probability, one.text, verdict["verdict"], verdict["because"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    said, crashed, answers = read(asked.folder)
    for one in said:
        odds = "" if one.probability is None else f"p {one.probability:.2f}"
        print(f"{one.level:6} {one.verdict:11} {one.agent:40} {one.what:24} {odds:7} {one.text[:90]}")
    wrong = {level: sum(one.verdict not in ("right", "plausible") for one in said if one.level == level) for level in ("high", "medium")}
    agents = sum(answers.values()) + len(crashed)
    counted = (("crashes", 0, 0, len(crashed)), ("wrong at HIGH", 1, 0, wrong["high"]), ("wrong at MEDIUM", 5, 2, wrong["medium"]))
    rows: list[dict[str, Any]] = [
        {
            "what": f"published agents: {what}",
            "unit": "agents",
            "better": "lower",
            "bar": bar,
            "stretch": stretch,
            "value": value,
            "n": agents,
        }
        for what, bar, stretch, value in counted
    ]
    for row in rows:
        print(f"{row['what']:40} {row['value']} of {row['n']}")
    print(", ".join(f"{count} {cause}" for cause, count in answers.most_common()))
    about = provenance.provenance("python -m benchmarks.diagnosis.published FOLDER")
    # What was said stands with the row that counts it.
    rows[0]["said"] = crashed
    rows[1]["said"], rows[2]["said"] = ([asdict(one) for one in said if one.level == level] for level in ("high", "medium"))
    provenance.write("published", rows, about, quick=False)


if __name__ == "__main__":
    main()
