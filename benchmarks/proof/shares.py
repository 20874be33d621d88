"""A share of simulated cases as a row of results."""

from typing import Any

from rlclinic import stats


def describe_share(
    what: str, count: int, of: int, bar: float | None, stretch: float | None = None, *, better: str = "lower"
) -> dict[str, Any]:
    """So many of so many cases, with Wilson's interval, and what the share is held to."""
    found = stats.share_interval(count, of)
    row = {"what": what, "unit": "share", "value": count / of, "interval": [found.low, found.high], "better": better, "bar": bar}
    return {**row, "stretch": stretch, "simulations": of}


def describe_value(what: str, value: float, of: int, bar: float | None, stretch: float | None, better: str = "lower") -> dict[str, Any]:
    """The same, of a share that is known as one."""
    return describe_share(what, round(value * of), of, bar, stretch, better=better)
