"""Telling two close causes apart by an experiment: what it would cost, and what it showed."""

from collections.abc import Callable
from pathlib import Path

from rlclinic.actions import Action
from rlclinic.errors import UsageError
from rlclinic.launch.batch import Progress
from rlclinic.report.models import Result
from rlclinic.runs.store import Store
from rlclinic.treatment.probe import probe
from rlclinic.treatment.probe.models import Experiment, Probed


class ProbePlan(Result):
    """The experiment that would separate the two likeliest causes, or why there is none."""

    group: str
    experiment: Experiment | None
    why_none: str = ""
    max_env_steps: int = 0
    seconds: float | None = None
    """How long it takes at most, at the group's own speed; None where that is unknown."""


class ProbeReport(Result):
    """What an experiment showed."""

    group: str
    probed: Probed


def plan(target: str = "@last", runs_dir: Path = Path("runs")) -> ProbePlan:
    """What would be trained to separate the likeliest causes of a group of ours."""
    group = Store(runs_dir).group(target)
    if group.record.get("source"):
        raise UsageError(
            f"{group.id} was trained by another framework.\n"
            "  Its runs cannot be gone on with, nor repeated, from here.\n"
            "  See what would help: ",
            Action("prescribe", group.id),
        )
    diagnosis = probe.diagnosed(group)
    experiment = probe.propose(diagnosis, group, group.config)
    if experiment is None:
        first = diagnosis.causes[0]
        return ProbePlan(group=group.id, experiment=None, why_none=f"no experiment is needed: {first.title} (p {first.probability:.2f})")
    speeds = [speed for run in group.runs if (speed := run.status.fps)]
    cost = experiment.max_env_steps
    return ProbePlan(group=group.id, experiment=experiment, max_env_steps=cost, seconds=cost / sum(speeds) if speeds else None)


def run(
    planned: ProbePlan,
    runs_dir: Path = Path("runs"),
    *,
    watch: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
    cores: int | None = None,
) -> ProbeReport:
    """Make the experiment; Interrupted if `stop` says so."""
    if planned.experiment is None:
        raise UsageError(
            f"{planned.group}: {planned.why_none}.\n  There is nothing to try.\n  See its causes: ", Action("diagnose", planned.group)
        )
    return ProbeReport(group=planned.group, probed=probe.run(Store(runs_dir), planned.experiment, watch=watch, stop=stop, cores=cores))
