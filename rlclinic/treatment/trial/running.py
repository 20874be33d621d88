"""Training the runs of a look: groups are found or made, cohorts are launched over the cores, and progress is told."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rlclinic.actions import Action
from rlclinic.config import Config
from rlclinic.errors import RunError
from rlclinic.launch import local
from rlclinic.launch.plan import plan as plan_cohorts
from rlclinic.runs import trials
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store
from rlclinic.treatment.trial.arms import Arm
from rlclinic.treatment.trial.models import ArmProgress, Event, TrialPlan

WATCH_SECONDS: Final = 0.5
RESTARTS: Final = 2
"""How often a run whose process was killed is taken up again before it counts as failed."""
_SMALL_COHORT: Final = 4
_LARGE_COHORT: Final = 8
# What the machine did to a run, not the arm: it is worth another try.
_KILLED: Final = ("killed by", "out of memory", "aborted", "stopped before")

Progress = Callable[[Event], None]
Stop = Callable[[], int]
"""How often somebody has asked to stop: once lets runs write a checkpoint, twice does not wait for it."""


class Interrupted(RunError):
    """Somebody asked the trial to stop: its runs have checkpoints, and it can be resumed."""


@dataclass
class Job:
    """What every look needs to know."""

    store: Store
    tid: str
    plan: TrialPlan
    seed0: int
    cores: int
    progress: Progress | None = None
    stop: Stop | None = None

    def label(self, arm: Arm, look: int) -> str:
        """What a group of this trial is called: it is found by this after a kill."""
        return f"{self.tid} {arm.name} look {look}"

    def tell(self, look: int, arms: Sequence[ArmProgress], seconds: float) -> None:
        """Show progress to whoever watches."""
        if self.progress is not None:
            self.progress(Event(kind="progress", trial=self.tid, look=look, arms=tuple(arms), seconds=seconds))

    def stopping(self) -> int:
        """How often somebody has asked the trial to stop."""
        return 0 if self.stop is None else int(self.stop())


def train_look(job: Job, look: int, arms: Sequence[Arm]) -> dict[str, Group]:
    """Train every arm's seeds of a look to their end; Interrupted if somebody stops it. What has ended already is left alone."""
    groups = _groups(job, look, arms)
    began = time.monotonic()
    for attempt in range(RESTARTS + 1):
        runs = [run for group in groups.values() for run in group.runs if _open(run, last=attempt == RESTARTS)]
        if not runs:
            return groups
        launch = _launch(job, runs)
        launch.wait(tick=_Tick(job, look, groups, launch, began))
        if launch.stopping:
            raise Interrupted(
                f"trial {job.tid} was interrupted in look {look}; its runs have checkpoints.\n  Go on: ", Action("trial", resume=job.tid)
            )
    return groups


def _groups(job: Job, look: int, arms: Sequence[Arm]) -> dict[str, Group]:
    """The groups of a look: those that an interrupted trial has made already, and new ones."""
    known = {group.label: group for group in trials.groups(job.store, job.tid)}
    found = {}
    for arm in arms:
        label = job.label(arm, look)
        found[arm.name] = known.get(label) or _create(job, look, arm, label)
    return found


def _create(job: Job, look: int, arm: Arm, label: str) -> Group:
    assert arm.config is not None
    place = [each.name for each in job.plan.arms].index(arm.name)
    configs = [arm.config.model_copy(update={"seed": seed}) for seed in job.plan.seeds(job.seed0, look, place)]
    origins = {change.partition("=")[0]: "trial" for change in arm.changes}
    return job.store.create_group(configs, name=label, extra={"trial": job.tid, "origins": origins})


def forget_half_made(job: Job) -> None:
    """Remove runs of this trial whose group was never finished: a kill came between; they are made again."""
    known = {run.id for group in trials.groups(job.store, job.tid) for run in group.runs}
    for run in job.store.runs():
        if trials.trial_of(run) == job.tid and run.id not in known and run.group is None:
            job.store.remove(run)


def _open(run: Run, *, last: bool) -> bool:
    """Whether a run still has something to train; after the last restart, one that was killed again counts as it is."""
    status = run.status
    if status.state == "finished" or last:
        return False
    return status.state != "failed" or any(word in (status.reason or "") for word in _KILLED)


def _launch(job: Job, runs: list[Run]) -> local.Launch:
    configs = [run.config for run in runs]
    device, threads = configs[0].run.device, configs[0].run.threads
    again = any(run.status.env_steps or run.status.state != "queued" or run.status.resumes for run in runs)
    if again:
        runs = sorted(runs, key=_last_step)
        configs = [run.config for run in runs]
    cohorts = [[runs[place].path for place in cohort] for cohort in _cohorts(job, configs, device)]
    cores = max(1, job.cores // threads)
    return local.start(cohorts, parallel=cores if device == "cpu" else 1, resume=again, threads=threads)


def _cohorts(job: Job, configs: Sequence[Config], device: str) -> list[list[int]]:
    """Cohorts over the cores. Runs are in the order of their arms, and smaller cohorts end sooner where runs end at their threshold."""
    share = math.ceil(len(configs) / job.cores)
    if configs[0].run.stop_at_threshold:
        share = min(share, _LARGE_COHORT, max(_SMALL_COHORT, math.ceil(share / 2)))
    if job.plan.outcome == "wall":
        # Arms in one process would share its clock.
        share = min(share, job.plan.per_look)
    return plan_cohorts(configs, math.ceil(len(configs) / share), device)


def _last_step(run: Run) -> int:
    return next((checkpoint.step for checkpoint in reversed(run.checkpoints) if checkpoint.valid), 0)


class _Tick:
    """Between two looks at the processes: somebody may want to stop, or to see how it goes."""

    def __init__(self, job: Job, look: int, groups: Mapping[str, Group], launch: local.Launch, began: float) -> None:
        self._job, self._look, self._groups, self._launch, self._began = job, look, groups, launch, began
        self._next = 0.0

    def __call__(self) -> None:
        now = time.monotonic()
        asked = self._job.stopping()
        if asked > 1:
            self._launch.abort()
        elif asked and not self._launch.stopping:
            self._launch.stop()
        if now >= self._next:
            self._job.tell(self._look, progress_of(self._groups), now - self._began)
            # With hundreds of runs a look takes a while: never spend more than a tenth of the time on it.
            self._next = time.monotonic() + max(WATCH_SECONDS, 9 * (time.monotonic() - now))


def progress_of(groups: Mapping[str, Group]) -> tuple[ArmProgress, ...]:
    """How far the arms of a look are."""
    return tuple(_progress(name, group) for name, group in groups.items())


def _progress(name: str, group: Group) -> ArmProgress:
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
        return_mean=sum(returns) / len(returns) if returns else None,
    )
