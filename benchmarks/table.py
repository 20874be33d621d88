"""Write docs/benchmarks.md from benchmarks/results/*.json. Nothing in that page is typed by hand.

python -m benchmarks.table            write the page
python -m benchmarks.table --check    only say whether it is current (exit code 1 if not)
"""

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.provenance import RESULTS, ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
TITLES = {
    "speed": "Training speed",
    "before_after": "Training speed before and after the source was rearranged (commit 50a35e7)",
    "gpu": "Training on a GPU",
    "images": "Training from a screen",
    "images_gpu": "Training from a screen on a GPU: shorter numbers",
    "mujoco": "Training a MuJoCo robot",
    "workers": "Stepping environments in other processes",
    "cluster": "The queue that workers on many machines share",
    "asynchronous": "Actors that play while the learner learns, and RLlib's",
    "data_parallel": "Several processes that train one run",
    "steps_to_threshold": "Env steps to the threshold",
    "off_policy_speed": "Training speed with a replay",
    "off_policy_steps": "Env steps to the threshold with a replay",
    "off_policy_gpu": "Training with a replay on a GPU",
    "hopper": "A hopping robot in few steps",
    "footprint": "What it costs to have it",
    "diagnosis": "Is the diagnosis right?",
    "outside": "The same, on tasks, faults and scripts written without a look at the rules",
    "witness": "Does an environment that is examined name its own fault?",
    "published": "What is said of 192 published agents?",
    "diagnosis_latency": "How long a diagnosis takes",
    "forecast": "Are forecasts of running runs right?",
    "proof": "Do verdicts hold when seeds collapse?",
    "proof-peers": "The same runs judged by others",
    "treatment_trials": "Trials",
    "treatment_cures": "Do prescriptions cure?",
    "environment_cures": "Do prescriptions cure faults of environments?",
    "environment_cures_fourth": "The same in families that were drawn later, the fault inside of what is put around it",
    "environment_cures_sixth": "The same in families of the sixth look",
    "environment_cures_seventh": "The same in families of the seventh look",
    "testimony_cost": "What testimony about the environment costs",
    "slow_sb3": "Are prescriptions for healthy, slow SB3 runs harmless?",
    "treatment_optimize": "Searches: optimize beside random search and TPE",
    "agents": "Do the tools of the MCP server suffice?",
    "serving": "How long the server lets people wait",
    "dashboard": "How long the dashboard lets people wait",
    "questions": "Are questions in words understood?",
    "data_check": "How long a look at recorded data takes",
    "imitation": "Does imitation learn from few labels?",
    "offline": "What is learned from recorded data, and what going online costs",
    "offline_gpu": "Learning from recorded data on a GPU",
    "offline_stitching": "Who puts halves of episodes together?",
    "hopper_recorded": "A hopping robot from recorded data, beside d3rlpy, and then in the environment",
    "offline_asked_returns": "Does a Decision Transformer earn what it is asked for?",
    "offline_faults": "Planted faults of recorded data and of imitation",
    "off_policy_evaluation": "Are policies ranked without playing them?",
    "tasks": "Exploration and rewards",
    "exploration": "Deep seas, rooms and doors: what a bonus finds, what it costs, and whether explore sees the need",
    "curriculum": "Curricula",
    "attack": "Attacks, strangers' files and kills",
    "lint": "Does the linter of scripts find what people write?",
    "reward_gaming": "Are rewards that can be farmed found?",
    "reward_hacking": "Are runs found that game their reward?",
    "scaffold": "Is a new environment sound, and are mistakes in it found?",
}
INTRODUCTION = """# Benchmarks

Generated from `benchmarks/results/*.json` by `python -m benchmarks.table`; do not edit. `make bench` measures everything again.
Each section names the commit, the machine and the command. A *bar* must be met, a *stretch* is what we hope for.
"""


def shown(value: float, unit: str) -> str:
    """A figure with as many digits as its unit deserves."""
    digits = 3 if unit == "x before" or (unit == "M/s" and value < 1) else 2 if unit in ("s", "x", "x SB3", "%", "M/s", "a file") else 0
    text = f"{value:.{digits}f}"
    return f"{text} {unit}" if unit != "x SB3" else f"{text}x"


def is_met(row: dict[str, Any], limit: float | None) -> bool:
    """Whether a row's figure, or the end of its interval that counts, is at or beyond a limit, in the direction that is better."""
    figure = row["interval"][0] if row.get("counts") == "lower end" else row["value"]
    return limit is not None and (figure >= limit if row["better"] == "higher" else figure <= limit)


def verdict(row: dict[str, Any]) -> str:
    """The best limit that a row meets."""
    if is_met(row, row.get("stretch")):
        return "stretch met"
    return "" if row.get("bar") is None else "bar met" if is_met(row, row.get("bar")) else "missed"


def table(rows: list[dict[str, Any]]) -> list[str]:
    """A Markdown table, one line per row; the command that repeats it in the last column."""
    lines = ["| what | measured | 95 % interval | bar | stretch | | command |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        sign = "≥" if row["better"] == "higher" else "≤"
        limits = [f"{sign} {limit:g}" if limit is not None else "" for limit in (row.get("bar"), row.get("stretch"))]
        digits = 3 if row["unit"] == "x before" else 2
        interval = "–".join(f"{end:.{digits}f}" for end in row["interval"]) if "interval" in row else ""
        what = row["what"] + (f" ({row['note']})" if "note" in row else "")
        cells = [what, shown(row["value"], row["unit"]), interval, *limits, verdict(row), f"`{row['command']}`"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


_ONE_BY_ONE = re.compile(r"(intervals, [^:]*|compare|regress, passed|regress, false alarms): ")
"""Scenarios of which the worst has a row of its own: they are in the results, and would fill the page."""


def table_of_shares(rows: list[dict[str, Any]]) -> list[str]:
    """What was simulated, how often it happened, in how many cases; the command of each row runs the module that it begins with."""
    lines = ["| what | measured | cases | bar | stretch | |", "|---|---|---|---|---|---|"]
    for row in rows:
        if _ONE_BY_ONE.match(row["what"]):
            continue
        sign = "≥" if row["better"] == "higher" else "≤"
        limits = [f"{sign} {limit:g}" if limit is not None else "" for limit in (row.get("bar"), row.get("stretch"))]
        measured = f"{row['value']:.1f}" if row["value"] > 2 else f"{row['value']:.3f}"
        what = row["what"] + (f" ({row['note']})" if "note" in row else "")
        cells = [what, measured, f"{row['simulations']:,}", *limits, verdict(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def table_of_peers(rows: list[dict[str, Any]]) -> list[str]:
    """One line for each world, one column for each that judged it; seeds an arm (of a race: runs) in brackets."""
    worlds: dict[str, dict[str, str]] = {}
    cases: dict[str, int] = {}
    for row in rows:
        world, _, rest = row["what"].rpartition(", rliable, ") if ", rliable, " in row["what"] else row["what"].rpartition(", ")
        who, _, asked = rest.partition(": ")
        who = f"rliable, {who}" if ", rliable, " in row["what"] else who
        key = f"{world}: {asked}"
        taken = row.get("seeds", row.get("runs"))
        worlds.setdefault(key, {})[who] = f"{row['value']:.2f}" + (f" ({taken:.0f})" if taken is not None else "")
        cases[key] = row["simulations"]
    judges = list(dict.fromkeys(who for made in worlds.values() for who in made))
    lines = [f"| world: asked | {' | '.join(judges)} | cases |", "|---" * (len(judges) + 2) + "|"]
    return lines + [f"| {key} | {' | '.join(made.get(who, '') for who in judges)} | {cases[key]} |" for key, made in worlds.items()]


TABLES: dict[str, Callable[[list[dict[str, Any]]], list[str]]] = {"proof": table_of_shares, "proof-peers": table_of_peers}
"""Results that are not shown row by row with their commands."""


def section(name: str, result: dict[str, Any]) -> list[str]:
    """One results file: its provenance, then its table."""
    origin = result["provenance"]
    versions = ", ".join(f"{package} {version}" for package, version in origin["versions"].items())
    peers = ", ".join(f"{package} {version}" for package, version in origin["peer_versions"].items())
    return [
        f"## {TITLES[name]}",
        "",
        f"`{origin['command']}` · {origin['date']} · commit {origin['commit']} · {origin['cpu']} · Python {origin['python']} · {versions}"
        + (f" · against {peers}" if peers else ""),
        "",
        *TABLES.get(name, table)(result["rows"]),
        "",
    ]


def render(results: Path = RESULTS) -> str:
    """The whole page."""
    lines = [INTRODUCTION]
    for name in TITLES:
        path = results / f"{name}.json"
        if path.exists():
            lines += section(name, json.loads(path.read_text()))
        else:
            lines += [f"## {TITLES[name]}", "", "Not measured yet.", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="do not write; fail if the page is not current")
    args = parser.parse_args()
    page = render()
    if not args.check:
        PAGE.write_text(page)
    elif not PAGE.exists() or PAGE.read_text() != page:
        raise SystemExit("docs/benchmarks.md is not what the results say.\n  Try: python -m benchmarks.table")


if __name__ == "__main__":
    main()
