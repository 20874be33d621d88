"""What a run's newest checkpoint holds, layer by layer, and what is wrong with it."""

from pathlib import Path

from rlclinic.diagnosis import forensics
from rlclinic.diagnosis.forensics import Inspection
from rlclinic.errors import NotFound
from rlclinic.ops.results import Result
from rlclinic.runs import history
from rlclinic.runs.store import Store


class InspectionReport(Result):
    """An inspection of saved weights."""

    inspection: Inspection


def inspect_checkpoints(selector: str = "@last", runs_dir: Path = Path("runs")) -> InspectionReport:
    """The newest checkpoint of a run, or a .safetensors file of anyone's. NotFound if nothing was saved."""
    path = Path(selector)
    if path.is_file():
        return InspectionReport(inspection=forensics.inspect_file(path))
    run = Store(runs_dir).run(selector)
    found = forensics.inspect(run, history.of_run(run))
    if found is None:
        raise NotFound(
            f"run {run.id} has no checkpoint yet.\n  There is nothing to inspect.\n  See how far it is: rlclinic status {run.id}"
        )
    return InspectionReport(inspection=found)
