"""sentinels.json, which rlclinic's callback leaves beside another framework's log: the settings that a log never says."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rlclinic.runs.coerce import whole

FILE: Final = "sentinels.json"
_FORMAT: Final = "rlclinic-sentinels"
_MAX_BYTES: Final = 1 << 20
_BOX: Final = re.compile(r"Box\((-?\d[\d.e+-]*), (-?\d[\d.e+-]*), ")
"""One low and one high for every dimension; a box with bounds of its own for each prints them as lists."""
_SECTIONS: Final = ("spec.", "env.", "algo.", "net.", "run.")


@dataclass(frozen=True)
class Testimony:
    """What the file says."""

    settings: dict[str, Any] = field(default_factory=dict)
    broken: str = ""
    """Where the environment gave a number that is none, in words; empty if it did not."""


def read(path: Path, notes: list[str]) -> Testimony:
    """The file's content; empty, with a note, if it is damaged or somebody else's."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8")) if path.stat().st_size <= _MAX_BYTES else None
    except (OSError, ValueError, RecursionError):
        raw = None
    if not isinstance(raw, Mapping) or raw.get("format") != _FORMAT or not isinstance(raw.get("settings"), Mapping):
        notes.append(f"{path.name} holds no settings of rlclinic's callback and was left out")
        return Testimony()
    settings = {
        key: value for key, value in raw["settings"].items() if isinstance(key, str) and (key.startswith(_SECTIONS) or key == "seed")
    }
    about = raw.get("about")
    box = _BOX.match(str(about.get("action_space"))) if isinstance(about, Mapping) else None
    if box is not None:
        settings["about.action_low"], settings["about.action_high"] = float(box[1]), float(box[2])
    return Testimony(settings, _broken(raw.get("not_finite")))


def _broken(found: Any) -> str:
    if not isinstance(found, Mapping):
        return ""
    place = found.get("component")
    component = f", component {', '.join(str(whole(each)) for each in place[:4])}" if isinstance(place, list) and place else ""
    where, step = str(found.get("where"))[:40], whole(found.get("env_steps"))
    return f"the {where} of env {whole(found.get('env'))} is not finite at env step {step}{component}"
