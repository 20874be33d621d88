"""TensorBoard: an event file for each run, and its settings as a file beside it."""

import json
from pathlib import Path

from rlclinic.runs import disk
from rlclinic.runs.export.events import EventFile
from rlclinic.runs.export.rows import read_rows, read_settings
from rlclinic.runs.record import Run


def write(run: Run, folder: Path) -> list[Path]:
    """FOLDER/RUN/events.out.tfevents.…"""
    place = folder / run.id
    with disk.guarded(place):
        place.mkdir(parents=True, exist_ok=True)
    events = EventFile(place)
    for steps, wall, numbers in read_rows(run):
        events.add(steps, wall, numbers)
    disk.write(place / "params.json", json.dumps(read_settings(run), indent=1, default=str) + "\n")
    return [events.path]
