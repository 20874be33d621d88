"""Whose something is: whoever started it. Agents, and tokens that may act on their own work only, leave everything else alone."""

from rlclinic.actions import Action
from rlclinic.errors import RlclinicError, UsageError
from rlclinic.ops.jobs import budget, models
from rlclinic.ops.jobs.audit import Caller
from rlclinic.ops.jobs.models import Job
from rlclinic.runs import trials
from rlclinic.runs.record import Checkpoint, Group, Run
from rlclinic.runs.store import Store


def check(store: Store, by: Caller, *targets: str) -> None:
    """UsageError if a caller who may act on their own work only did not start all of this."""
    if not by.own_only:
        return
    for target in targets:
        for owner in _find_owners(store, target):
            if owner is None or _identity(owner) != _identity(by):
                whose = "a person at a terminal" if owner is None else f"{owner.face}:{owner.name}"
                raise UsageError(
                    f"{target} was started by {whose}, and {by.name} acts only on what it has started itself.\n  Nothing was changed.\n"
                    "  A person does it, or lets agents: ",
                    Action("mcp", all_runs=True) if by.budgeted else Action("serve token add", "NAME", scope="write"),
                )


def _identity(caller: Caller) -> tuple[bool, str]:
    """An account of this machine and a token may have the same name, and are two."""
    return caller.face in ("cli", "python"), caller.name


def _find_owners(store: Store, target: str) -> list[Caller | None]:
    """Everybody who started a part of this, or went on with it; None for what no job made: a person typed it."""
    everything = models.everything(store)
    direct = [job.by for job in everything if target in (job.id, job.refers)]
    if direct:
        return list(direct)
    try:
        selected = store.resolve(target)
    except RlclinicError:
        return []  # there is no such thing: whoever acts on it is told
    named: Run | Group = selected.run if isinstance(selected, Checkpoint) else selected
    group = named if isinstance(named, Group) else named.group
    runs = named.runs if isinstance(named, Group) else [named]
    owners: list[Caller | None] = []
    for run in runs:
        made: list[Caller | None] = [job.by for job in everything if _made(store, job, run, group)]
        owners += made or [None]
    return owners or [None]


def _made(store: Store, job: Job, run: Run, group: Group | None) -> bool:
    if run.id in job.runs:
        return True
    trial = None if group is None else trials.trial_of(group)
    return trial is not None and (trial == job.refers or trial in budget.find_confirmations(store, job))
