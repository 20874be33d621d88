"""In which direction a setting differs, whatever kind of value it is."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rlclinic.comparison.impacts import Direction
from rlclinic.config.schedule import Schedule
from rlclinic.errors import RlclinicError
from rlclinic.runs.coerce import real

Numeric = float | Schedule


def numeric(value: Any) -> Numeric | None:
    """A setting as a number or a schedule; None for anything else."""
    if isinstance(value, Mapping) and ("start" in value or "points" in value):
        try:
            return Schedule.model_validate(dict(value))
        except (RlclinicError, ValueError):
            return None
    return real(value)


def same(before: Any, after: Any) -> bool:
    """Whether two values are one setting: 1 and 1.0 are, and so are a number and a schedule that holds it."""
    ours, theirs = _plain(numeric(before)), _plain(numeric(after))
    if ours is not None and theirs is not None:
        return bool(ours == theirs)
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        return list(before) == list(after)
    return bool(before == after)


def _plain(value: Numeric | None) -> Numeric | None:
    """A schedule that never changes is its number."""
    if isinstance(value, Schedule) and value.schedule == "constant" and value.warmup == 0:
        return value.start
    return value


def direction_of(before: Any, after: Any) -> Direction | None:
    """How the second value differs from the first; None if it does not."""
    if same(before, after):
        return None
    if isinstance(before, bool) and isinstance(after, bool):
        return "on" if after else "off"
    if before is None or after is None:
        return "on" if before is None else "off"
    ours, theirs = numeric(before), numeric(after)
    if ours is not None and theirs is not None:
        return _numbers(ours, theirs)
    sizes = [_size(value) for value in (before, after)]
    if sizes[0] is not None and sizes[1] is not None and sizes[0] != sizes[1]:
        return "up" if sizes[1] > sizes[0] else "down"
    return "changed"


def _numbers(before: Numeric, after: Numeric) -> Direction:
    (start, end), (new_start, new_end) = _ends(before), _ends(after)
    if not math.isclose(start, new_start, rel_tol=1e-9):
        return "up" if new_start > start else "down"
    if math.isclose(end, new_end, rel_tol=1e-9, abs_tol=1e-300):
        return "changed"
    return "falls" if new_end < end else "holds"


def _ends(value: Numeric) -> tuple[float, float]:
    """Where a number starts and ends over the run."""
    if not isinstance(value, Schedule):
        return value, value
    if value.schedule == "piecewise":
        return value.points[0][1], value.points[-1][1]
    return value.start, value.start if value.schedule in ("constant", "kl_adaptive") else value.end


def _size(value: Any) -> float | None:
    """Units of a list of layer widths."""
    if isinstance(value, Sequence) and not isinstance(value, str) and all(real(item) is not None for item in value):
        return float(sum(value))
    return None


def in_words(before: Any, after: Any) -> str:
    """The difference of two numbers: "10x smaller", "+2"; empty for anything else."""
    ours, theirs = numeric(before), numeric(after)
    if ours is None or theirs is None or isinstance(before, bool) or isinstance(after, bool):
        return ""
    start, new = _ends(ours)[0], _ends(theirs)[0]
    if start == new:
        return {"falls": "now falls", "holds": "no longer falls"}.get(_numbers(ours, theirs), "another schedule")
    if start <= 0 or new <= 0:
        return f"{new - start:+.3g}"
    ratio = max(new / start, start / new)
    size = f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.2g}x" if ratio >= 1.2 else f"{100 * (ratio - 1):.2g} %"
    return f"{size} {'larger' if new > start else 'smaller'}"


def shown(value: Any) -> str:
    """A setting for people: "1e-3, linear to 0", "none", "64, 64"."""
    made = _plain(numeric(value)) if not isinstance(value, bool) else None
    if isinstance(made, Schedule):
        return _schedule(made)
    if made is not None:
        return _number(made)
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(shown(item) for item in value) or "none"
    return str(value)


def _schedule(made: Schedule) -> str:
    if made.schedule == "piecewise":
        return "piecewise " + " → ".join(f"{_number(value)} at {_number(at)}" for at, value in made.points)
    if made.schedule == "kl_adaptive":
        return f"{_number(made.start)}, steered to KL {_number(made.target_kl)}"
    more = f", warm-up {_number(made.warmup)}" if made.warmup else ""
    window = f" from {_number(made.from_)} to {_number(made.to)}" if (made.from_, made.to) != (0.0, 1.0) else ""
    if made.schedule == "constant":
        return _number(made.start) + more
    return f"{_number(made.start)}, {made.schedule} to {_number(made.end)}{window}{more}"


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}" if abs(value) >= 10_000 else str(int(value))
    text = f"{value:.6g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        return f"{mantissa}e{int(exponent)}"
    # 0.0003 is read wrong more often than 3e-4.
    return f"{value:.6g}" if abs(value) >= 1e-3 else _scientific(value)


def _scientific(value: float) -> str:
    mantissa, exponent = f"{value:.5e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
