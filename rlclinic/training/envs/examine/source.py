"""The text of an environment, where it is a file of the user's own: it is read beside what was measured. Free of torch."""

from __future__ import annotations

import inspect
import linecache
import sys
from typing import Any, Final

MOST_CHARACTERS: Final = 200_000
LIBRARIES: Final = ("gymnasium", "rlclinic")
"""Whose environments are taken to be as they are meant."""


def read(env: Any) -> dict[str, Any]:
    """{"source": {"class", "file", "text"}} with the whole module of the environment's class; {} where there is none to read."""
    made = type(getattr(env, "unwrapped", env))
    home = sys.modules.get(made.__module__)
    if made.__module__.split(".")[0] in LIBRARIES or home is None:
        return {}
    try:
        file = inspect.getsourcefile(made) or getattr(home, "__file__", None)
    except TypeError:
        file = getattr(home, "__file__", None)
    text = "".join(linecache.getlines(file)) if file else ""
    return {"source": {"class": made.__name__, "file": file, "text": text}} if 0 < len(text) <= MOST_CHARACTERS else {}
