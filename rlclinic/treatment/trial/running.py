"""Training the runs of a look: groups are found or made, cohorts are launched over the cores, and progress is told."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rlclinic import stats
from rlclinic.actions import Action
from rlclinic.launch import batch
from rlclinic.launch.batch import Interrupted, StopRequests
from rlclinic.runs import trials
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.treatment.trial.arms import Arm
from rlclinic.treatment.trial.models import ArmProgress, Event, TrialPlan

Progress = Callable[[Event], None]


@dataclass
class Job:
    """What every look needs to know."""

    store: Store
    tid: str
    plan: TrialPlan
    seed0: int
    cores: int
    progress: Progress | None = None
    stop: StopRequests | None = None

    def label(self, arm: Arm, look: int, env_id: str = "") -> str:
        """What a group of this trial is called: it is found by this after a kill."""
        return f"{self.tid} {arm.name} {f'on {env_id} ' if env_id else ''}look {look}"

    def tell(self, look: int, arms: Sequence[ArmProgress], seconds: float) -> None:
        """Show progress to whoever watches."""
        if self.progress is not None:
            self.progress(Event(kind="progress", trial=self.tid, look=look, arms=tuple(arms), seconds=seconds))


def train_look(job: Job, look: int, names: Sequence[str]) -> list[dict[str, Group]]:
    """Train every arm's seeds of a look to their end, in every environment at once. What has ended already is left alone.

    Groups by arm, one dict for each environment. Interrupted if somebody stops it; Killed if the machine ends runs each time that they are
    started.
    """
    known = {group.label: group for group in trials.groups(job.store, job.tid)}
    groups = [_find_or_create(job, look, names, place, known) for place in range(len(job.plan.parts))]
    began = time.monotonic()
    runs = [run for own in groups for group in own.values() for run in group.runs if batch.is_open(run)]
    if not runs:
        return groups
    configs = [run.config for run in runs]
    members = batch.choose_members(configs, job.cores)
    if job.plan.outcome == "wall":
        # Arms in one process would share its clock; runs are in the order of their arms.
        members = min(members, job.plan.per_look)
    if not batch.train_runs(
        runs,
        processes=batch.count_processes(configs, job.cores),
        members=members,
        stop=job.stop,
        observe=lambda: job.tell(look, progress_of(job.plan, groups), time.monotonic() - began),
    ):
        raise Interrupted(
            f"trial {job.tid} was interrupted in look {look}; its runs have checkpoints.\n  Go on: ", Action("trial", resume=job.tid)
        )
    batch.check_ended(runs, f"look {look} of trial {job.tid}", "\n  Go on: ", Action("trial", resume=job.tid))
    return groups


def _find_or_create(job: Job, look: int, names: Sequence[str], place: int, known: Mapping[str | None, Group]) -> dict[str, Group]:
    """The groups of a look in one environment: those that an interrupted trial has made already, and new ones."""
    part = job.plan.parts[place]
    found = {}
    for number, arm in enumerate(part.arms):
        if arm.name in names:
            label = job.label(arm, look, part.env_id if job.plan.environments else "")
            found[arm.name] = known.get(label) or _create(job, arm, label, job.plan.seeds(job.seed0, look, number, place))
    return found


def _create(job: Job, arm: Arm, label: str, seeds: Sequence[int]) -> Group:
    assert arm.config is not None
    configs = [arm.config.model_copy(update={"seed": seed}) for seed in seeds]
    origins = {change.partition("=")[0]: "trial" for change in arm.changes}
    return job.store.create_group(configs, name=label, extra={"trial": job.tid, "origins": origins})


def progress_of(plan: TrialPlan, groups: Sequence[Mapping[str, Group]]) -> tuple[ArmProgress, ...]:
    """How far the arms of a look are."""
    return tuple(
        _progress(name, group, part.env_id if plan.environments else None)
        for part, own in zip(plan.parts, groups, strict=True)
        for name, group in own.items()
    )


def _progress(name: str, group: Group, env_id: str | None) -> ArmProgress:
    statuses = [run.status for run in group.runs]
    returns = [status.eval_mean for status in statuses if status.eval_mean is not None]
    budgets = [status.max_env_steps for status in statuses if status.max_env_steps is not None]
    return ArmProgress(
        name=name,
        runs=len(statuses),
        ended=sum(not status.live for status in statuses),
        solved=sum(status.threshold_reached_at is not None for status in statuses),
        failed=sum(status.state in ("failed", "crashed") for status in statuses),
        env_steps=sum(status.env_steps for status in statuses),
        max_env_steps=sum(budgets) if budgets else None,
        return_mean=float(stats.iqm(returns)) if returns else None,
        env_id=env_id,
    )
