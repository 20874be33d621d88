"""MLflow: a file store (`mlruns`) with an experiment and a run for each seed, as `mlflow ui --backend-store-uri DIR` opens it.

<experiment>/meta.yaml
<experiment>/<run>/meta.yaml, params/NAME, tags/NAME, metrics/NAME with lines `milliseconds value step`
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any, Final

from rlclinic.runs import disk
from rlclinic.runs.export.rows import read_rows, read_settings
from rlclinic.runs.record import Run

STATES: Final = {"finished": 3, "failed": 4, "crashed": 4, "stopped": 5, "running": 1, "queued": 2}
_NAME: Final = re.compile(r"[^\w./ -]")
"""What MLflow allows in no name."""
_LONGEST: Final = 6_000
"""Characters of a param."""


def write(run: Run, folder: Path) -> list[Path]:
    """FOLDER/EXPERIMENT/RUN: the experiment is the config's name."""
    experiment = str(int(hashlib.blake2b(run.name.encode(), digest_size=8).hexdigest(), 16))[:18]
    # As MLflow makes them, and the same each time: exporting again replaces the run instead of adding another.
    id = hashlib.blake2b(f"{run.group_id} {run.id}".encode(), digest_size=16).hexdigest()
    place = folder / experiment / id
    rows, settings, status = list(read_rows(run)), read_settings(run), run.status
    milliseconds = [int(1000 * wall) for _, wall, _ in rows] or [int(1000 * run.created)]
    with disk.guarded(folder):
        for part in ("metrics", "params", "tags", "artifacts"):
            (place / part).mkdir(parents=True, exist_ok=True)
    about: dict[str, Any] = {
        "artifact_location": (folder / experiment).absolute().as_uri(),
        "experiment_id": experiment,
        "lifecycle_stage": "active",
    }
    about |= {"name": run.name, "creation_time": milliseconds[0], "last_update_time": milliseconds[-1]}
    disk.write(folder / experiment / "meta.yaml", _yaml(about))
    record = {
        "artifact_uri": (place / "artifacts").absolute().as_uri(), "end_time": milliseconds[-1], "entry_point_name": "",
        "experiment_id": experiment, "lifecycle_stage": "active", "run_id": id, "run_name": run.id, "run_uuid": id,
        "source_name": "rlclinic", "source_type": 4,
        "source_version": "", "start_time": milliseconds[0], "status": STATES.get(status.state, 3), "tags": [], "user_id": "",
    }  # fmt: skip
    disk.write(place / "meta.yaml", _yaml(record))
    for name, value in settings.items():
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        _write(place / "params", name, text.replace("\n", " ")[:_LONGEST])
    tags = {"mlflow.runName": run.id, "mlflow.user": "", "mlflow.source.name": "rlclinic", "mlflow.source.type": "LOCAL"}
    for name, text in (tags | {"rlclinic.group": run.group_id or "", "rlclinic.state": status.state}).items():
        _write(place / "tags", name, text)
    columns: dict[str, list[str]] = {}
    for steps, wall, numbers in rows:
        for name, number in (numbers | {"total_timesteps": float(steps)}).items():
            columns.setdefault(name, []).append(f"{int(1000 * wall)} {number!r} {steps}\n")
    for name, lines in columns.items():
        _write(place / "metrics", name, "".join(lines))
    return [place]


def _write(folder: Path, name: str, text: str) -> None:
    path = folder / _NAME.sub("_", name)
    with disk.guarded(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    disk.write(path, text)


def _yaml(record: dict[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(record, sort_keys=True)
