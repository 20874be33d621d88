"""What the diagnosis says about the groups of an outside look: from the callback's log, from the plain one, and with the environment.

python -m benchmarks.diagnosis.outside.look FOLDER --part first             takes the look and keeps it; once
python -m benchmarks.diagnosis.outside.look FOLDER --part first --again     prints where the diagnosis stands on material that was read
python -m benchmarks.diagnosis.outside.look FOLDER --record                 writes both into results/outside.json
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks import provenance
from benchmarks.diagnosis.outside.cases import PARTS, Case
from benchmarks.diagnosis.outside.planted import PLAIN, TRUTH

LOOKS: Final = Path(__file__).parents[1] / "looks"
VIEWS: Final = ("callback", "plain", "env")
SURE: Final = 0.75
HARM: Final = 0.25
"""Share of what the sound run gained that a fault must cost before it counts as harmful."""
ENV_FILE: Final = """from benchmarks.diagnosis.outside.planted import Faulty


class Env(Faulty):
    def __init__(self):
        super().__init__({name!r}, {fault!r}, {size!r})
"""


def _load_truth(folder: Path, name: str) -> dict[str, float | None]:
    seeds = [json.loads((folder / "truth" / f"{name}-{seed}.json").read_text()) for seed in (0, 1)]
    values = {key: [seed[key] for seed in seeds if seed[key] is not None] for key in ("late", "early")}
    return {key: sum(each) / len(each) if each else None for key, each in values.items()}


def _load_last_evaluation(folder: Path, name: str, seed: int) -> float:
    import numpy as np

    with np.load(folder / "plain" / name / f"seed_{seed}" / "evaluations.npz") as kept:
        return float(kept["results"][-3:].mean())


def _costs(folder: Path, case: Case) -> bool:
    """Whether the fault cost a good part of what the sound run learned; where no episode ended, it did."""
    faulty, sound = _load_truth(folder, case.name), _load_truth(folder, f"{case.env}-{case.algo}-sound")
    if case.fault == "seeds-equal":
        return True  # what it costs is a seed
    if case.fault in ("same-start", "eval-raw", "eval-other"):
        # What they cost is not seen in training.
        faulty = {**faulty, "late": min(_load_last_evaluation(folder, case.name, seed) for seed in (0, 1))}
    if faulty["late"] is None or sound["late"] is None or sound["early"] is None:
        return True
    return sound["late"] - faulty["late"] > HARM * (sound["late"] - sound["early"])


def _ask(folder: Path, case: Case, view: str) -> dict[str, Any]:
    from rlclinic.ops.diagnose.diagnose import diagnose

    options: dict[str, Any] = {"write": False}
    if view == "env":
        file = folder / "envs" / f"{case.name.replace('-', '_')}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(ENV_FILE.format(name=case.env, fault=case.env_fault, size=case.size))
        options["env"] = f"{file}:Env"
    began = time.perf_counter()
    try:
        report = diagnose(str(folder / ("callback" if view == "env" else view) / case.name), **options)
    except Exception as error:  # noqa: BLE001 — whatever it is, it counts as a crash
        return {
            "answers": ["crash"],
            "error": f"{type(error).__name__}: {error}"[:300],
            "p": 0.0,
            "kind": "crash",
            "severity": "",
            "alarms": [],
        }
    found = report.diagnosis
    first = found.causes[0]
    alarms = [f"{each.rule} {each.severity.value}" for each in found.findings if each.severity.value in ("high", "medium")]
    return {
        "answers": [cause.id for cause in found.causes][:4],
        "p": round(first.probability, 3),
        "kind": first.kind,
        "severity": first.severity.value,
        "alarms": alarms,
        "groups": 1 + len(report.more),
        "seconds": round(time.perf_counter() - began, 2),
    }


def recount(folder: Path, part: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Answers that were kept, with what each fault cost as it is reckoned today."""
    cases = {case.name: case for case in PARTS[part]}
    return [{**row, "costs": bool(row["fault"]) and _costs(folder, cases[row["case"]])} for row in rows]


def take(folder: Path, part: str, views: Sequence[str] = VIEWS, only: str = "") -> list[dict[str, Any]]:
    """Every group that was trained, in every view."""
    rows = []
    for case in PARTS[part]:
        if only not in case.name or not all((folder / "truth" / f"{case.name}-{seed}.json").exists() for seed in (0, 1)):
            continue
        costs = case.fault is not None and _costs(folder, case)
        for view in views:
            about = {"case": case.name, "view": view, "fault": case.fault, "env_fault": bool(case.env_fault), "costs": costs}
            rows.append(about | _ask(folder, case, view))
    return rows


def is_right(row: dict[str, Any]) -> bool:
    return row["answers"][0] in TRUTH[row["fault"]]


def says_nothing(row: dict[str, Any]) -> bool:
    return row["kind"] in ("symptom", "cannot tell")


def _is_among(rows: Sequence[dict[str, Any]], row: dict[str, Any]) -> bool:
    return any(each is row for each in rows)


def is_sure_and_wrong(row: dict[str, Any]) -> bool:
    return not is_right(row) and row["severity"] == "high" and row["p"] >= SURE and row["kind"].startswith("fault")


def count(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The table: shares of the faults that cost something, and of all planted ones; alarms over the sound groups."""
    from benchmarks.diagnosis.measure import wilson

    def share(chosen: Sequence[dict[str, Any]], holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        return wilson(sum(holds(row) for row in chosen), len(chosen))

    table: dict[str, Any] = {}
    for view in VIEWS:
        seen = [row for row in rows if row["view"] == view]
        sound, faults = [row for row in seen if not row["fault"]], [row for row in seen if row["fault"]]
        costly = [row for row in faults if row["costs"]]
        if not seen:
            continue
        if view == "plain":
            told = [row for row in costly if row["fault"] in PLAIN]
            silent = [row for row in costly if row["fault"] not in PLAIN]
            table[f"{view}: top-1 where the log can tell"] = share(told, is_right)
            table[f"{view}: says that it cannot tell where it cannot"] = share(silent, lambda row: says_nothing(row) or is_right(row))
            # "It learns; whether it learned enough cannot be told without a threshold" is such an answer, too.
            table[f"{view}: the same, or that it takes a threshold to tell"] = share(
                silent, lambda row: says_nothing(row) or is_right(row) or row["answers"][0] == "no-reference"
            )
        else:
            table[f"{view}: top-1, faults that cost something"] = share(costly, is_right)
            table[f"{view}: top-1, every planted fault"] = share(faults, is_right)
            table[f"{view}: top-1, faults of the environment"] = share([row for row in costly if row["env_fault"]], is_right)
        table[f"{view}: confidently wrong"] = share(faults, is_sure_and_wrong)
        table[f"{view}: right at HIGH"] = share(costly, lambda row: is_right(row) and row["severity"] == "high")
        for level in ("high", "medium"):
            alarmed = [row for row in sound if row["severity"] == level or any(each.endswith(level) for each in row["alarms"])]
            table[f"{view}: sound groups with an alarm at {level.upper()}"] = share(sound, partial(_is_among, alarmed))
        table[f"{view}: crashes"] = sum(row["kind"] == "crash" for row in seen)
        table[f"{view}: seconds, worst"] = max(row.get("seconds", 0.0) for row in seen)
    return table


def record(again: dict[str, Sequence[dict[str, Any]]]) -> None:
    """The rows of the results file: each look as it was taken, and beside it where the diagnosis stands on the same groups today."""
    made = []
    for part in PARTS:
        kept = LOOKS / f"outside_{part}.json"
        if not kept.exists():
            continue
        tables = {"as it was looked at": json.loads(kept.read_text("utf-8"))["table"]}
        tables |= {"mended since, with these groups in sight": count(again[part])} if part in again else {}
        for when, table in tables.items():
            for what, value in table.items():
                if isinstance(value, dict) and value["n"]:
                    row = {
                        "what": f"{part.replace('_', ' ')} set, {when}: {what}",
                        "unit": "%",
                        "value": 100 * value["share"],
                        "n": value["n"],
                    }
                    lower = "alarm" in what or "wrong" in what
                    made.append(row | {"interval": [100 * value["low"], 100 * value["high"]], "better": "lower" if lower else "higher"})
    provenance.write("outside", made, provenance.provenance("python -m benchmarks.diagnosis.outside.look FOLDER --record"), quick=False)


def _write(kept: Path, head: str, rows: Sequence[dict[str, Any]]) -> None:
    body = ",\n".join(json.dumps(row) for row in rows)
    kept.write_text(f'{{"provenance": {head},\n"table": {json.dumps(count(rows), indent=1)},\n"groups": [\n{body}\n]}}\n', "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", default="first")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--record", action="store_true", help="write results/outside.json: looks that were taken, and today's answers")
    parser.add_argument("--recount", action="store_true", help="the table of a look that was taken, from its answers")
    parser.add_argument("--views", default=",".join(VIEWS))
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    kept = LOOKS / f"outside_{args.part}.json"
    if args.recount:
        found = json.loads(kept.read_text("utf-8"))
        _write(kept, json.dumps(found["provenance"]), recount(args.folder, args.part, found["groups"]))
        return
    if args.record:
        # The groups of the first set and of the half that was kept back lie in one folder.
        record({part: take(args.folder, part, ("callback", "plain")) for part in ("first", "kept_back")})
        return
    if kept.exists() and not args.again:
        raise SystemExit(f"{kept.name} is there already: such a look is taken once. Where the diagnosis stands today: --again")
    rows = take(args.folder, args.part, args.views.split(","), args.only)
    if not args.again:
        origin = provenance.provenance(f"python -m benchmarks.diagnosis.outside.look FOLDER --part {args.part}")
        _write(kept, json.dumps({key: origin[key] for key in ("date", "commit", "command")}), rows)
    for row in rows:
        mark = "" if not row["fault"] else "ok" if is_right(row) else "SURE" if is_sure_and_wrong(row) else "-"
        costs = "cost" if row["costs"] else ""
        print(
            f"{row['case']:34} {row['view']:9} {mark:4} {costs:4} {row['p']:.2f} {row['severity']:7} {row['answers']}",
            row["alarms"],
            row.get("error", ""),
        )
    for name, value in count(rows).items():
        print(f"{name:70} {value}")


if __name__ == "__main__":
    main()
