"""Values as a file has them: of the kind that is expected, or none. A damaged file must not end a list of runs."""

import re
from collections.abc import Mapping
from typing import Any, Final

_LARGEST: Final = 1e300
_BREAKS: Final = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")


def within(record: Mapping[str, Any], section: str, name: str) -> Any:
    """A value of a section; None where the section is missing or no mapping."""
    found = record.get(section)
    return found.get(name) if isinstance(found, Mapping) else None


def real(value: Any) -> float | None:
    """A finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST < value < _LARGEST:
        return None
    return float(value)


def whole(value: Any) -> int | None:
    """A count; None for anything else."""
    return None if real(value) is None else int(value)


def text(value: Any) -> str | None:
    """A text; None for anything else, and for none."""
    return value if isinstance(value, str) and value else None


def one_line(value: Any) -> str | None:
    """A text on one line; None for anything else. A name with a line break in it could pretend to be a line of ours."""
    return _BREAKS.sub(" ", value) if isinstance(value, str) and value else None


def pair(value: Any) -> tuple[float, float] | None:
    """Two finite numbers; None for anything else."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    low, high = real(value[0]), real(value[1])
    return None if low is None or high is None else (low, high)
