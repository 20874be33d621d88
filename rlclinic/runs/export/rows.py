"""What every exporter writes of a run: its rows as numbers by column, its settings by dotted name, and how it ended."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rlclinic.runs import history
from rlclinic.runs.record import Run, settings


def read_rows(run: Run) -> Iterator[tuple[int, float, dict[str, float]]]:
    """(env steps, unix seconds, finite numbers by column) of each row; blanks are left out."""
    table = run.metrics
    names = [name for name in table.names if name not in ("time", "total_timesteps")]
    columns = {name: table[name] for name in names}
    steps = table["total_timesteps"]
    times = table["time"] if "time" in table.names else None
    for place in range(len(table)):
        if not math.isfinite(steps[place]):
            continue
        wall = float(times[place]) if times is not None and math.isfinite(times[place]) else run.created + place
        numbers = {name: float(column[place]) for name, column in columns.items() if math.isfinite(column[place])}
        yield int(steps[place]), wall, numbers


def read_settings(run: Run) -> dict[str, Any]:
    """By dotted name, with its seed; environment and algorithm also by the names that scripts give them."""
    return {"env_id": run.env_id, "algo": run.algo, **history.dotted(settings(run.record))}


def summarize(rows: list[tuple[int, float, dict[str, float]]]) -> Mapping[str, float]:
    """The last number of each column."""
    last: dict[str, float] = {}
    for steps, _, numbers in rows:
        last |= numbers
        last["total_timesteps"] = float(steps)
    return last
