"""What the diagnosis said about off-policy runs when no rule had met them: one file for each time that fresh ones were recorded.

`python -m benchmarks.diagnosis.measure --first-look NAME` writes it: one line for each group that counts, with what was planted and
what was answered. A second time it is refused, as whatever was changed since was changed with these runs in sight.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

LOOKS: Final = {
    "first": frozenset(
        {
            "dqn-acrobot", "dqn-mountaincar", "dqn-variants-cartpole", "dqn-greenhouse",
            "ddpg-pendulum", "td3-docking-continuous", "sac-mcc", "sac-greenhouse-continuous",
        }
    ),
    "second": frozenset({"td3-pendulum", "sac-docking-continuous"}),
    "third": frozenset({"dqn-buoy", "td3-greenhouse-continuous", "sac-docking-three-envs"}),
}  # fmt: skip
"""The tasks of each: those of the second and third were recorded when rules had been mended after the first."""


@dataclass(frozen=True)
class Seen:
    """One group's answer at that time."""

    id: str
    role: str
    answers: tuple[str, ...]
    """The first three."""
    probability: float
    """Of the first answer."""
    alarmed: bool
    right: bool
    among_three: bool


def file(look: str) -> Path:
    return Path(__file__).with_name(f"{look}_look.json")


def load(look: str) -> list[Seen]:
    """Every group's answer."""
    return [Seen(**{**row, "answers": tuple(row["answers"])}) for row in json.loads(file(look).read_text("utf-8"))["groups"]]


def write(look: str, rows: Sequence[Seen], origin: dict[str, Any]) -> None:
    """Keep them for good."""
    if file(look).exists():
        raise SystemExit(
            f"{file(look).name} is there already: such a look is taken once.\n"
            "  Measure today's rules: python -m benchmarks.diagnosis.measure"
        )
    head = json.dumps({key: origin[key] for key in ("date", "commit", "command")})
    body = ",\n".join(json.dumps(vars(row)) for row in rows)
    file(look).write_text(f'{{"provenance": {head},\n"groups": [\n{body}\n]}}\n', "utf-8")
