"""`explore`: is exploration what holds a task back?"""

from pathlib import Path

from rlclinic.actions import Action
from rlclinic.diagnosis import exploration
from rlclinic.errors import UsageError
from rlclinic.ops.diagnose.diagnose import read
from rlclinic.report.models import ExplorationReport, ExploredRun
from rlclinic.runs.record import Group


def explore(target: str = "@last", runs_dir: Path = Path("runs")) -> ExplorationReport:
    """Assess a group, a run, or another framework's folder or file."""
    owner, groups = read(target, runs_dir, None, None, ())
    if not groups or not groups[0]:
        raise UsageError(f"{target} has no runs that could be read.\n  There is nothing to assess.\n  Try: ", Action("runs list"))
    found = exploration.assess(groups[0])
    name = owner.id if owner is not None else target
    changes = [f"{key}={value}" for key, value in found.prescription.items()]
    runs = [ExploredRun(**{field: getattr(meeting, field) for field in ExploredRun.model_fields}) for meeting in found.meetings]
    return ExplorationReport(
        target=name,
        verdict=found.verdict,
        reason=found.reason,
        runs=runs,
        new_states=found.new_states,
        half_life=found.half_life,
        prescription=dict(found.prescription),
        notes=list(found.notes),
        next=Action("trial", name, set=changes) if changes and isinstance(owner, Group) else None,
    )
