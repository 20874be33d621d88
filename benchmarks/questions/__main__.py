"""How often `rlclinic ask` understands a question: 60 paraphrases of the thirteen questions, and 16 that nothing here answers.

    python -m benchmarks.questions                              the half that words and phrases were tuned on
    python -m benchmarks.questions --held-out "why"             also the half that was kept; the look is recorded in looks.json

A paraphrase is right if its guide comes first, or another whose first command is the same (the first row counts both, the second the guide
alone). A question that nothing here answers is right if the answer is that it is not known.

The kept half is not blind: one author wrote both halves, some words of words.yaml were added with it in mind, and weights were chosen
between looks at it. Its first look (24 of 30) is the fairer figure; blind.yaml is by somebody else, and was looked at once.
"""

import json
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks import provenance
from rlclinic.ops.diagnose.ask import guides
from rlclinic.ops.diagnose.ask.search import search

FILES: Final = {
    half: Path(__file__).parent / name
    for half, name in (("tuned", "paraphrases.yaml"), ("held", "paraphrases.yaml"), ("blind", "blind.yaml"))
}
LOOKS: Final = Path(__file__).parent / "looks.json"
COMMAND: Final = "python -m benchmarks.questions"
UNKNOWN: Final = "unknown"
HALVES: Final = {"tuned": "tuned", "held": "kept, not blind,", "blind": "blind"}


def find(question: str) -> str:
    """The guide (or other document) that comes first; unknown where none does."""
    matches = search(question)
    return matches[0].document.name if matches else UNKNOWN


def verb(name: str) -> str | None:
    """The command that a guide begins with."""
    known = {guide.name: guide.type[0].split()[1] for guide in guides.list_guides().guides}
    return known.get(name)


def measure(half: str, *, misses: bool) -> list[dict[str, Any]]:
    """The rows of one half."""
    entries = yaml.safe_load(FILES[half].read_text())
    asked = [(entry["guide"], question, find(question)) for entry in entries for question in entry[half]]
    known = [each for each in asked if each[0] != UNKNOWN]
    unknown = [each for each in asked if each[0] == UNKNOWN]
    right = [each for each in known if each[0] == each[2]]
    by_command = [each for each in known if each[0] != each[2] and verb(each[0]) == verb(each[2])]
    refused = [each for each in unknown if each[2] == UNKNOWN]
    for wanted, question, got in asked if misses else ():
        if wanted != got:
            print(f"  {wanted}: {question!r} -> {got}")
    # Only a set that nobody tuned to is held to the bar.
    name, bars = HALVES[half], {"bar": 85, "stretch": 95} if half == "blind" else {"bar": None, "stretch": None}
    either = len(right) + len(by_command)
    return [
        {
            "what": f"{name} paraphrases: the right guide or command first", "unit": "%", "better": "higher", **bars,
            "value": 100 * either / len(known), "found": either, "of": len(known),
        },
        {
            "what": f"{name} paraphrases: the right guide first", "unit": "%", "better": "higher", "bar": None, "stretch": None,
            "value": 100 * len(right) / len(known), "found": len(right), "of": len(known),
        },
        {
            "what": f"{name} questions that nothing here answers: said so", "unit": "%", "better": "higher", "bar": None, "stretch": None,
            "value": 100 * len(refused) / len(unknown), "found": len(refused), "of": len(unknown),
        },
    ]  # fmt: skip


def main() -> None:
    """Measure, and save the rows as benchmarks/results/questions.json."""
    parser = provenance.parser(__doc__)
    parser.add_argument("--held-out", metavar="WHY", help="look at the held-out half, too, and record it")
    parser.add_argument("--misses", action="store_true", help="list what was not understood")
    args = parser.parse_args()
    rows = measure("tuned", misses=args.misses)
    if args.held_out:
        held = [*measure("held", misses=args.misses), *measure("blind", misses=args.misses)]
        looks = json.loads(LOOKS.read_text()) if LOOKS.exists() else []
        figures = [{key: row[key] for key in ("what", "found", "of")} for row in held]
        looks.append({"look": len(looks) + 1, "why": args.held_out + (" (misses listed)" if args.misses else ""), "rows": figures})
        LOOKS.write_text(json.dumps(looks, indent=1) + "\n")
        rows += held
    for row in rows:
        print(f"{row['what']}: {row['value']:.1f} % ({row['found']} of {row['of']}; bar {row['bar']})")
    print(provenance.write("questions", rows, provenance.provenance(COMMAND), args.quick))


if __name__ == "__main__":
    main()
