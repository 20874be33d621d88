"""What a user types to name a run, a group or a checkpoint.

g7k2            a group            g7k2-s0          a run            g7, g7k2-s      any unique beginning
@last           the newest group (or run, where a run is meant)      @last~1         the one before
@best           the best by evaluation, on the environment of the newest run
@running        the newest that is training now
RUN/@best       its best checkpoint; also RUN/@last and RUN/STEP
RUN@STEP        its checkpoint at an env step
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rlclinic.actions import Action
from rlclinic.errors import UsageError

ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
WORDS: Final = ("@last", "@best", "@running")

_SELECTOR: Final = re.compile(
    r"(?P<base>@[a-z]+|[A-Za-z0-9][A-Za-z0-9._-]{0,63})(?:~(?P<back>\d+))?(?:/(?P<which>@best|@last|\d+)|@(?P<step>best|last|\d+))?"
)


@dataclass(frozen=True, slots=True)
class Selector:
    """A parsed selector: what is meant, how far back, and which checkpoint of it."""

    base: str
    back: int = 0
    checkpoint: str | None = None
    """@best, @last or a step in digits; None where the run or group itself is meant."""


def has_slash(text: str) -> bool:
    """Whether it is RUN/@best, RUN/@last, RUN/STEP or a folder: other names with a slash are environments, such as ALE/Pong-v5."""
    match = _SELECTOR.fullmatch(text)
    return (match is not None and match["which"] is not None) or ("/" in text and Path(text).is_dir())


def parse(text: str) -> Selector:
    """Split a selector into its parts; UsageError shows the forms there are."""
    match = _SELECTOR.fullmatch(text)
    if match is None or (match["base"].startswith("@") and match["base"] not in WORDS):
        raise UsageError(
            f"{text!r} names no run.\n"
            "  Forms: g7k2 (group), g7k2-s0 (run), a unique beginning, @last, @last~1, @best, @running, RUN/@best, RUN@STEP.\n"
            "  See what there is: ",
            Action("runs list"),
        )
    if match["back"] and not match["base"].startswith("@"):
        raise UsageError(f"{text!r}: ~{match['back']} counts back from @last, @best or @running; a name needs none")
    step = match["step"]
    which = match["which"] or (f"@{step}" if step in ("best", "last") else step)
    return Selector(match["base"], int(match["back"] or 0), which.lstrip("0") or "0" if which and which.isdigit() else which)
