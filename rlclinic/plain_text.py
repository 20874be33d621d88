"""Text of unknown origin, made harmless for a terminal and a page: what a log, a config or a file name may hold is shown, never obeyed."""

import re
from typing import Final

__all__ = ["INVISIBLE", "clean", "figure"]

INVISIBLE: Final = (
    # Line and paragraph separators, what turns the direction of text around, zero widths, and the tags in which a whole sentence can be
    # hidden from people and not from language models.
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000e0000-\U000e0fff"
)
"""Characters that are not seen, or make others be seen where they are not, as a regular expression's class has them."""
_HARMFUL: Final = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]"  # colours and cursor movements
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles and links of a terminal
    rf"|[\x00-\x08\x0b-\x1f\x7f-\x9f{INVISIBLE}]"  # other control characters, but for newlines and tabs
)


def clean(text: str) -> str:
    """The text without what would move the cursor, turn the reading direction, or hide."""
    return _HARMFUL.sub("", text)


def figure(value: float, digits: int = 6) -> str:
    """A number as people write it, with up to `digits` digits: 0.0003, 1e-5 (not 1e-05), 100000."""
    mantissa, exponential, exponent = f"{value:.{digits}g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponential else mantissa
