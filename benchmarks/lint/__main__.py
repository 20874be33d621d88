"""How many planted faults the checks of scripts find, how often they cry over clean code, whether they crash, and how long they take.

    python -m benchmarks.lint                                   faults and clean scripts of the styles that checks began with
    python -m benchmarks.lint --look eighth "after the repair"  a set of sets.py; each look is recorded in looks.json with its why.
                                                                Of a half that is sealed nothing but totals is ever shown
    python -m benchmarks.lint --misses                          also lists what was not found, of the styles that were looked at
    python -m benchmarks.lint --folder cleanrl=DIR sb3=DIR      also alarms, crashes and seconds a file over code of others

Pinned for the rows in docs/benchmarks.md: CleanRL at fe8d8a03, and the source distributions of stable-baselines3 2.9.2, sb3-contrib 2.9.2,
tianshou 2.0.1, d3rlpy 2.8.1 and cleanrl 0.4.8 (pip download --no-deps --no-binary :all:), in one row as "five RL packages".

A fault is found if one of the checks that `mutants.FAULTS` names for it (from the third set on: any check) names one of
the lines where the fault may be reported, and does not say the same of the clean script. A false alarm is a finding of medium level or more
on a clean script; findings of low level are counted apart. A fault may be found by a note: of how many that is not so is `above_a_note`.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks import provenance
from benchmarks.lint import mutants, sets
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import linter
from rlclinic.diagnosis.lint.code.reading.sources import Source
from rlclinic.errors import UsageError

LOOKS: Final = Path(__file__).parent / "looks.json"
COMMAND: Final = "python -m benchmarks.lint"


class Checked(NamedTuple):
    """What all checks say of one script."""

    findings: list[Finding]
    crashes: list[str]
    seconds: float


def check(name: str, text: str) -> Checked:
    """Put every check to a script; a check that raises is noted, and the others go on. UsageError for what is no Python."""
    began = time.process_time()
    script = linter.parse(Source(name, text))
    findings, crashes = [], []
    for each in checks.checks("COD"):
        try:
            findings += linter.examine(each, script)
        except Exception as problem:  # noqa: BLE001 — whatever it is, it is counted
            crashes.append(f"{name}: {each.id}: {problem!r}")
    return Checked(findings, crashes, time.process_time() - began)


@cache
def check_clean(script: str) -> Checked:
    """A script without a fault."""
    return check(script, mutants.text_of(script))


def is_found(mutant: mutants.Mutant) -> bool:
    """Whether the fault is reported, on its line, by a check that is meant for it."""
    return voice(mutant) is not None


def voice(mutant: mutants.Mutant) -> Severity | None:
    """How loud the fault is reported, on its line, by a check that is meant for it; None: not at all."""
    accepted = sets.checks_for(mutant)
    before = {(each.rule, place.text) for each in check_clean(mutant.script).findings for place in each.evidence}
    voices = [
        each.severity
        for each in check(mutant.script, mutant.text).findings
        for place in each.evidence
        if each.rule in accepted and int(place.numbers["line"]) in mutant.lines and (each.rule, place.text) not in before
    ]
    return max(voices, key=lambda severity: severity.rank, default=None)


def alarms(findings: list[Finding]) -> list[Finding]:
    """Findings that somebody would stop for."""
    return [each for each in findings if each.severity is not Severity.LOW]


def measure(styles: tuple[str, ...], kind: str, misses: bool, processes: int = 2) -> Iterator[dict[str, Any]]:
    """The rows of some styles: faults found, and alarms on their clean scripts."""
    planted = sets.faults_of(styles)
    with ProcessPoolExecutor(processes) as pool:
        voices = dict(zip(planted, pool.map(voice, planted, chunksize=8), strict=True))
    found = [mutant for mutant in planted if voices[mutant] is not None]
    above = sum(voices[mutant] is not Severity.LOW for mutant in found)
    by_style = {style: f"{sum(m.style == style for m in found)} of {sum(m.style == style for m in planted)}" for style in styles}
    yield {
        "what": f"{kind} styles: planted faults found on their line", "unit": "%", "better": "higher", "bar": 85, "stretch": 95,
        "value": 100 * len(found) / len(planted), "found": len(found), "above_a_note": above, "of": len(planted), "by_style": by_style,
    }  # fmt: skip
    for mutant in planted if misses else ():
        if mutant not in found:
            places = [(each.rule, int(place.numbers["line"])) for each in check("script", mutant.text).findings for place in each.evidence]
            said = sorted({f"{rule}@{line}" for rule, line in places})
            print(f"  missed {mutant.script} {mutant.fault} lines {sorted(mutant.lines)}: {' '.join(said)} | {mutant.wrong.strip()[:90]!r}")
    yield from measure_clean(styles, kind, misses)


def measure_clean(styles: tuple[str, ...], kind: str, misses: bool) -> Iterator[dict[str, Any]]:
    """The row of some styles' clean scripts: alarms on them."""
    scripts = [script for script in mutants.clean(styles) if script.partition("/")[0] in styles]
    checked = {script: check_clean(script) for script in scripts}
    cries = [each for one in checked.values() for each in alarms(one.findings)]
    for script, one in checked.items() if misses else ():
        for each in one.findings:
            print(f"  said of the clean {script}: {each.rule} {each.severity.value} {each.evidence[0].series} {each.text}")
    yield {
        "what": f"{kind} styles: false alarms a clean script", "unit": "a file", "better": "lower", "bar": 0.1, "stretch": 0.02,
        "value": len(cries) / len(scripts), "files": len(scripts), "low": sum(len(one.findings) for one in checked.values()) - len(cries),
        "crashes": sum(len(one.crashes) for one in checked.values()),
    }  # fmt: skip


def check_file(path: Path) -> Checked | None:
    """One file of others; None for what is no Python of today."""
    try:
        return check(str(path), path.read_text(encoding="utf-8", errors="replace"))
    except UsageError:
        return None


def measure_folder(name: str, folders: list[Path], misses: bool, processes: int, every: int) -> Iterator[dict[str, Any]]:
    """Alarms, crashes and seconds a file over every Python file below some folders, or every n-th of them."""
    said: Counter[str] = Counter()
    crashes: list[str] = []
    seconds = []
    cries = low = 0
    paths = [path for folder in folders for path in sorted(folder.rglob("*.py")) if path.is_file()][::every]
    with ProcessPoolExecutor(processes) as pool:
        for path, one in zip(paths, pool.map(check_file, paths, chunksize=20), strict=True):
            if one is None:
                continue
            seconds.append(one.seconds)
            crashes += one.crashes
            cries += len(alarms(one.findings))
            low += len(one.findings) - len(alarms(one.findings))
            said.update(each.rule for each in alarms(one.findings))
            for each in alarms(one.findings) if misses else ():
                print(f"  {name}: {each.rule} {each.severity.value} {each.evidence[0].series} {each.text[:120]}")
            if misses and one.seconds > 0.5:
                print(f"  {name}: {one.seconds:.2f} s for {path}")
    print(*crashes[:20], *said.most_common(), sep="\n  ")
    seconds.sort()
    shared = {"files": len(seconds), "better": "lower"}
    yield {
        "what": f"{name}: alarms a file",
        "unit": "a file",
        "bar": 0.1,
        "stretch": 0.02,
        "value": cries / len(seconds),
        "low": low,
        **shared,
    }
    yield {"what": f"{name}: crashes", "unit": "", "bar": 0, "stretch": 0, "value": len(crashes), **shared}
    p99 = seconds[int(0.99 * (len(seconds) - 1))]
    yield {
        "what": f"{name}: 99th percentile of seconds a file", "unit": "s", "bar": 0.5, "stretch": 0.2, "value": p99,
        "longest": seconds[-1], **shared,
    }  # fmt: skip


def record_look(why: str, row: dict[str, Any]) -> None:
    """Note a look at one half of a set: its number, why it was taken, and what it showed."""
    looks = json.loads(LOOKS.read_text()) if LOOKS.exists() else []
    looks.append(
        {
            "look": len(looks) + 1,
            "why": why,
            "found": row["found"],
            "above_a_note": row["above_a_note"],
            "of": row["of"],
            "by_style": row["by_style"],
        }
    )
    LOOKS.write_text(json.dumps(looks, indent=1) + "\n")


def main() -> None:
    """Measure what the command line asks for, and save the rows as benchmarks/results/lint.json."""
    parser = provenance.parser(__doc__)
    parser.add_argument(
        "--look", nargs=2, action="append", default=[], metavar=("SET", "WHY"), help="look at a set of sets.py, too, and record it"
    )
    parser.add_argument("--misses", action="store_true", help="list what was not found and what was said of clean code")
    parser.add_argument("--folder", nargs="*", default=[], metavar="NAME=DIR[,DIR]", help="code of others; docs/benchmarks.md says which")
    parser.add_argument("--processes", type=int, default=2, help="how many work side by side")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every n-th file of --folder")
    args = parser.parse_args()
    if unknown := {name for name, _ in args.look} - set(sets.SETS):
        parser.error(f"no such set: {', '.join(sorted(unknown))}; there are {', '.join(sets.SETS)}")
    rows = [] if args.folder or args.look else list(measure(mutants.DEVELOPMENT, "development", args.misses, args.processes))
    for name, why in args.look:
        for kind, styles, may_be_listed in sets.SETS[name].halves:
            measured = list(measure(styles, kind, args.misses and may_be_listed, args.processes))
            record_look(f"{kind}: {why}", measured[0])
            rows += measured
        if sets.SETS[name].clean:
            rows += measure_clean(sets.SETS[name].clean, f"{name} set, clean", args.misses)
    for given in args.folder:
        name, _, folders = given.partition("=")
        others = measure_folder(name, [Path(folder) for folder in folders.split(",")], args.misses, args.processes, args.every)
        rows += [{**row, "command": f"{COMMAND} --folder {name}=DIR"} for row in others]
    for row in rows:
        more = " ".join(f"{name} {row[name]}" for name in ("above_a_note", "low", "by_style") if name in row)
        print(f"{row['what']}: {row['value']:.4g} {row['unit']} (bar {row['bar']}) {more}")
    print(provenance.write("lint", rows, provenance.provenance(COMMAND), args.quick))


if __name__ == "__main__":
    main()
