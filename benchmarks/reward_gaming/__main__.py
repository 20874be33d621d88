"""Whether `lint --env` finds rewards that can be farmed, and says nothing of sound ones.

python -m benchmarks.reward_gaming                          the six to develop on, and the sound ones
python -m benchmarks.reward_gaming --held-out "why"         all twelve; the look is recorded in looks.json
python -m benchmarks.reward_gaming --second "why"           also nine farmable and thirteen sound ones of other kinds; recorded, too
"""

import json
import time
from pathlib import Path
from typing import Final

from benchmarks import provenance
from benchmarks.reward_gaming import environments, second
from rlclinic.diagnosis.lint.env import lint_facts
from rlclinic.training.envs.examine.environment import examine

LOOKS: Final = Path(__file__).parent / "looks.json"
COMMAND: Final = "python -m benchmarks.reward_gaming"
RULE: Final = "ENV214"


def find(name: str, seconds: float) -> tuple[bool, str, float]:
    """Whether the check speaks of an environment, what was seen, and the seconds that it took."""
    make = {**environments.DEVELOPMENT, **environments.HELD_OUT, **environments.SOUND, **second.FARMABLE, **second.SOUND}[name]
    began = time.perf_counter()
    facts = examine(make, name, seconds)
    said = any(each.rule == RULE for each in lint_facts(facts).findings)
    return said, json.dumps(facts.get("farming") or facts["skipped"], default=float), time.perf_counter() - began


def record_look(look: dict[str, object]) -> None:
    """Note a look at environments that are held out."""
    looks = json.loads(LOOKS.read_text()) if LOOKS.exists() else []
    looks.append({"look": len(looks) + 1, **look})
    LOOKS.write_text(json.dumps(looks, indent=1) + "\n")


def measure_second(why: str, seconds: float) -> list[dict[str, object]]:
    """The rows of the environments of other kinds."""
    found = {name: find(name, seconds) for name in (*second.FARMABLE, *second.SOUND)}
    for name, (said, seen, took) in found.items():
        print(f"{'SAID ' if said else 'quiet'} {name} ({took:.1f} s) {seen}")
    right, false = (sum(found[name][0] for name in names) for names in (second.FARMABLE, second.SOUND))
    print(f"other kinds: found {right} of {len(second.FARMABLE)}; false alarms {false} of {len(second.SOUND)}")
    record_look({"why": why, "second_found": right, "of": len(second.FARMABLE), "second_alarms": false, "of_sound": len(second.SOUND)})
    return [
        {
            "what": "farmable environments of other kinds found by lint --env", "unit": f"of {len(second.FARMABLE)}", "value": right,
            "bar": None, "stretch": None, "better": "higher",
        },
        {
            "what": "sound environments of other kinds called farmable", "unit": f"of {len(second.SOUND)}", "value": false,
            "bar": 0, "stretch": 0, "better": "lower",
        },
    ]  # fmt: skip


def main() -> None:
    """Measure, and save the rows as benchmarks/results/reward_gaming.json."""
    parser = provenance.parser(__doc__)
    parser.add_argument("--held-out", metavar="WHY", help="look at the held-out six, too, and record it")
    parser.add_argument("--second", metavar="WHY", help="look at those of other kinds, too, and record it")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each examination")
    args = parser.parse_args()
    rows = []
    farmable = {**environments.DEVELOPMENT, **(environments.HELD_OUT if args.held_out else {})}
    found = {name: find(name, args.seconds) for name in farmable}
    alarms = {name: find(name, args.seconds) for name in environments.SOUND}
    for name, (said, seen, seconds) in {**found, **alarms}.items():
        hidden = name in environments.HELD_OUT
        print(f"{'SAID ' if said else 'quiet'} {name} ({seconds:.1f} s) {'' if hidden else seen}")
    count = sum(said for said, _, _ in found.values())
    if args.held_out:
        rows.append(
            {
                "what": "farmable environments found by lint --env",
                "unit": f"of {len(found)}",
                "value": count,
                "bar": 10,
                "stretch": 12,
                "better": "higher",
            }
        )
        held = sum(found[name][0] for name in environments.HELD_OUT)
        record_look({"why": args.held_out, "found": count, "of": len(found), "held_out": held})
    false = sum(said for said, _, _ in alarms.values())
    rows.append(
        {
            "what": "sound environments called farmable",
            "unit": f"of {len(alarms)}",
            "value": false,
            "bar": 0,
            "stretch": 0,
            "better": "lower",
        }
    )
    print(f"found {count} of {len(found)}; false alarms {false} of {len(alarms)}")
    if args.second:
        rows += measure_second(args.second, args.seconds)
    print(provenance.write("reward_gaming", rows, provenance.provenance(COMMAND), args.quick))


if __name__ == "__main__":
    main()
