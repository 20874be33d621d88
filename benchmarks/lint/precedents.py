"""What every law of the linter has shown: alarms over published code, and planted faults that it named; it decides how loud each may speak.

    python -m benchmarks.lint.precedents DIR [DIR …] --keep FILE      count; write precedents.json and the table in docs/lint.md
    python -m benchmarks.lint.precedents --keep FILE                  from what FILE holds
    python -m benchmarks.lint.precedents DIR [DIR …] --judge          how loud the laws are over code that nothing was counted on

Each folder holds repositories, one a folder. Every Python file and notebook that speaks of rewards is read once, in the order of the hash
of its path; tests are left out. The faults are those of the sets that were read, and of their halves that are open: never a sealed one.
An alarm is a false one until somebody has read it: verdicts.yaml names the files in which a law was right.
`--keep` makes it go on where it was ended.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks import provenance
from benchmarks.lint import mutants, sets
from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import linter, precedents
from rlclinic.diagnosis.lint.code.reading import sources
from rlclinic.diagnosis.lint.code.reading.script import position
from rlclinic.diagnosis.lint.code.reading.sources import Source
from rlclinic.errors import UsageError

COMMAND: Final = "python -m benchmarks.lint.precedents"
HERE: Final = Path(__file__).parent
COUNTS: Final = Path(precedents.__file__).with_name("precedents.json")
PAGE: Final = HERE.parent.parent / "docs" / "lint.md"
BEGIN: Final = "<!-- laws: written by benchmarks.lint.precedents -->"
END: Final = "<!-- end of laws -->"
_TEST: Final = re.compile(r"(^|/)tests?/|test_|_test\.py|/setup\.py")
_TRAINS: Final = re.compile(r"backward\(\)|apply_gradients|minimize\(|\.learn\(|value_and_grad")


def heard(source: Source) -> list[dict[str, Any]]:
    """Every place that a law names in a script, with what it would weigh if every law had its precedent."""
    script = linter.parse(source)
    rows = []
    for check in checks.checks("COD"):
        for spot in linter.heard(check, script):
            severity = linter.severity_of(check, script, spot)
            rows.append({"law": spot.law, "severity": severity.value, "line": position(spot.node)[0], "text": script.line(spot.node)})
    return rows


def published(folders: list[Path]) -> Iterator[tuple[str, Source, bool]]:
    """Files of others that speak of rewards: by repository and path, and whether they train something. Copies are read once."""
    paths = [path for folder in folders for pattern in ("*.py", "*.ipynb") for path in folder.rglob(pattern) if path.is_file()]
    named = {str(path.relative_to(folder)): path for folder in folders for path in paths if path.is_relative_to(folder)}
    seen: set[str] = set()
    for name in sorted(named, key=lambda name: hashlib.sha256(name.encode()).hexdigest()):
        text = named[name].read_text(encoding="utf-8", errors="replace")
        mark = hashlib.sha256(text.encode()).hexdigest()
        if _TEST.search(name) or mark in seen or not ("reward" in text or "gym" in text):
            continue
        seen.add(mark)
        try:
            yield name, sources.read(str(named[name]))[0], bool(_TRAINS.search(text))
        except UsageError:
            continue


def readable() -> list[tuple[str, mutants.Mutant]]:
    """Planted faults that may be read, in the order of a hash: any beginning of them is a sample."""
    planted = [
        (each.name, mutant)
        for each in sets.SETS.values()
        for mutant in each.faults()
        if mutant.style in each.open or each.was_read or each.name == "second"
    ]
    return sorted(planted, key=lambda one: hashlib.sha256("".join(one[1][:4]).encode()).hexdigest())


def count(folders: list[Path], keep: Path, most_files: int, most_faults: int) -> None:
    """Add to a file what laws say of published files and of planted faults."""
    rows = [json.loads(line) for line in keep.read_text().splitlines()] if keep.exists() else []
    done = {row.get("file") or tuple(row["fault"]) for row in rows}
    known: dict[str, set[tuple[str, str]]] = {}
    with keep.open("a") as file:
        for place, (name, source, trains) in enumerate(published(folders)):
            if place < most_files and name not in done:
                try:
                    file.write(json.dumps({"file": name, "trains": trains, "heard": heard(source)}) + "\n")
                except UsageError:
                    continue
        for owner, mutant in readable()[:most_faults]:
            key = (owner, mutant.script, mutant.fault, mutant.wrong)
            if key in done:
                continue
            if mutant.script not in known:
                known[mutant.script] = {
                    (row["law"].split()[0], row["text"]) for row in heard(Source(mutant.script, mutants.text_of(mutant.script)))
                }
            new = [
                row["law"]
                for row in heard(Source(mutant.script, mutant.text))
                if row["line"] in mutant.lines
                and row["law"].split()[0] in sets.checks_for(mutant)
                and (row["law"].split()[0], row["text"]) not in known[mutant.script]
            ]
            file.write(json.dumps({"fault": key, "found": sorted(set(new))}) + "\n")


def tally(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The counts of all laws, as the linter reads them."""
    verdicts: dict[str, list[str]] = yaml.safe_load((HERE / "verdicts.yaml").read_text())
    files, faults = [row for row in rows if "file" in row], [row for row in rows if "fault" in row]
    alarms, true, found = Counter[str](), Counter[str](), Counter[str]()
    for row in files:
        loud = {each["law"] for each in row["heard"] if each["severity"] != "low"}
        alarms.update(loud)
        true.update(law for law in loud if row["file"] in verdicts.get(law, ()))
    for row in faults:
        found.update(row["found"])
    laws = [law for check in checks.checks("COD") for law in linter.laws_of(check) if law in alarms or law in found]
    return {
        "files": sum(row["trains"] for row in files),
        "read": len(files),
        "faults": len(faults),
        "laws": {law: {"alarms": alarms[law], "true": true[law], "found": found[law]} for law in sorted(laws)},
    }


def table() -> str:
    """What docs/lint.md shows: every check whose laws may say more than a note, and how many may not."""
    held = json.loads(COUNTS.read_text())
    by_check: dict[str, list[str]] = {}
    for check in checks.checks("COD"):
        by_check[check.id] = [law for law in linter.laws_of(check) if precedents.ceiling(law) is not Severity.LOW]
    laws = sum(len(linter.laws_of(check)) for check in checks.checks("COD"))
    loud = sum(map(len, by_check.values()))
    lines = [
        f"Counted over {held['read']:,} published files ({held['files']:,} that train something) and {held['faults']:,} planted faults: "
        f"{loud} of {laws} laws, of {sum(map(bool, by_check.values()))} of {len(by_check)} checks, may say more than a note.",
        "",
        "| check | most | laws above a note | planted faults named | published files: alarms | of them true |",
        "|---|---|---|---|---|---|",
    ]
    for id, above in by_check.items():
        if above:
            check = checks.find(id)
            most = max((min(check.severity, precedents.ceiling(law), key=lambda one: one.rank) for law in above), key=lambda one: one.rank)
            sums = [sum(held["laws"].get(law, {}).get(name, 0) for law in above) for name in ("found", "alarms", "true")]
            lines.append(
                f"| {id} {check.name} | {most.value} | {len(above)} of {len(linter.laws_of(check))} | {sums[0]} | {sums[1]} | {sums[2]} |"
            )
    return "\n".join(lines)


def judge(folders: list[Path], most_files: int) -> Iterator[dict[str, Any]]:
    """Alarms over code that no law was counted on, with the voices that laws have, and as if all had their precedent."""
    before, now, training = 0, 0, [0, 0]
    files = 0
    for name, source, trains in published(folders):
        if files >= most_files:
            break
        try:
            rows = heard(source)
        except UsageError:
            continue
        files += 1
        loud = [row for row in rows if row["severity"] != "low"]
        kept = [row for row in loud if precedents.ceiling(row["law"]) is not Severity.LOW]
        before, now = before + len(loud), now + len(kept)
        training = [training[0] + trains, training[1] + (len(kept) if trains else 0)]
        for row in kept:
            print(f"  {name}:{row['line']} {row['law']} {row['text'][:90]}")
    shared = {"unit": "a file", "better": "lower", "bar": 0.1, "stretch": 0.02, "files": files}
    yield {
        "what": "published code that no law was counted on: alarms a file",
        "value": now / files,
        "without_precedents": before / files,
        **shared,
    }
    yield {
        "what": "of it, files that train something: alarms a file",
        "value": training[1] / max(training[0], 1),
        **shared,
        "files": training[0],
    }


def main() -> None:
    """Count, or judge, as the command line asks."""
    parser = provenance.parser(__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--keep", type=Path, help="a file of what was counted so far")
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--files", type=int, default=2_000, help="the most published files")
    parser.add_argument("--faults", type=int, default=10_000, help="the most planted faults")
    args = parser.parse_args()
    if args.judge:
        rows = [{**row, "command": f"{COMMAND} DIR --judge"} for row in judge(args.folders, args.files)]
        for row in rows:
            print(f"{row['what']}: {row['value']:.3g} (bar {row['bar']}) of {row['files']}")
        print(provenance.write("lint", rows, provenance.provenance(COMMAND), args.quick))
        return
    if args.keep is None:
        parser.error("--keep FILE: what is counted takes half an hour, and is kept there")
    if args.folders:
        count(args.folders, args.keep, args.files, args.faults)
    COUNTS.write_text(json.dumps(tally([json.loads(line) for line in args.keep.read_text().splitlines()]), indent=1) + "\n")
    precedents.counted.cache_clear()
    page = PAGE.read_text()
    PAGE.write_text(f"{page.partition(BEGIN)[0]}{BEGIN}\n\n{table()}\n\n{END}{page.partition(END)[2]}")


if __name__ == "__main__":
    main()
