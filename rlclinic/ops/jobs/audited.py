"""Changing what runs or what is kept, with a line in the audit log: stop, adjust, adopt, import, evaluate.

Whose something is counts: agents, and tokens that may act on their own work only, leave everything else alone.
"""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from rlclinic.actions import Action
from rlclinic.errors import RlclinicError, RunError, UsageError
from rlclinic.ops.jobs import budget, models, queue
from rlclinic.ops.jobs.audit import Caller, audit, record_outcome, record_start
from rlclinic.ops.jobs.models import Job, Planned
from rlclinic.ops.status import status
from rlclinic.report.jobs.daily_report import LedgerLine
from rlclinic.report.models import EvaluationResult, Requested, Result
from rlclinic.runs import jobs, lock, trials
from rlclinic.runs.database import connections, job_queue
from rlclinic.runs.record import Checkpoint, Group, Run
from rlclinic.runs.store import Store

# Stopping a run must not wait for what adopting or importing needs.
if TYPE_CHECKING:
    from rlclinic.ops.runs.import_runs import ImportResult
    from rlclinic.ops.treat.adopt import Adopted

EVALUATE_SECONDS: Final = 300.0
PERSON: Final = Caller()


class Stopped(Result):
    """What was asked to stop."""

    target: str
    job: str | None
    """The job whose process was told, if there is one: a trial or search stops as a whole, and can be taken up again."""
    runs: list[str]
    skipped: dict[str, str]
    changes: dict[str, Any] = Field(default_factory=dict)
    """None: as in other requests to runs."""


def stop_training(target: str = "@running", runs_dir: Path = Path("runs"), *, by: Caller = PERSON) -> Stopped:
    """Ask runs, a group, a trial, a search or a job to write checkpoints and stop."""
    store = Store(runs_dir)
    check_owner(store, by, target)
    job = models.of(store, target)
    goes_on = job is not None and (job.live or (job.state == "crashed" and queue.is_open(store, job)))
    # A training that waits has no runs to ask yet.
    if job is not None and goes_on and (job.kind != "training" or job.state in ("queued", "crashed") or target == job.id):
        if not _stop_waiting(store, job):
            _signal(job)
        stopped = Stopped(target=target, job=job.id, runs=job.runs, skipped={})
    else:
        asked = status.stop(target, runs_dir)
        _forward(store)
        stopped = Stopped(target=target, job=None, runs=asked.runs, skipped=asked.skipped)
    audit(store, by, "stop", target, job=stopped.job, runs=stopped.runs)
    return stopped


def _stop_waiting(store: Store, job: Job) -> bool:
    """Take a job out of the queue, or have its worker told; False if it has a process of this machine by now."""
    from rlclinic.ops.jobs import worker

    state = job_queue.ask_stop(store, job.id)
    if job.shared and state == "claimed":
        return True  # its worker is told with its next word
    with jobs.alone(store):
        now = models.load(store, job.id)
        if now is None or now.state != "queued" or now.pid is not None:
            return False
        worker.give_up(store, now)
    return True


def _signal(job: Job) -> None:
    import os
    import signal

    if job.shared:
        raise UsageError(
            f"job {job.id} is done by a worker of a database, and none is named here, or it does not know the job.\n"
            f"  It cannot be reached.\n  Name its database: export {connections.VARIABLE}=…"
        )
    if job.host != lock.HOST or job.pid is None:
        raise UsageError(f"job {job.id} runs on {job.host}.\n  It cannot be reached from here.\n  Stop it there")
    os.kill(job.pid, signal.SIGTERM)


def _forward(store: Store) -> None:
    """Send requests to runs that other machines train on disks of their own."""
    from rlclinic.ops.jobs import remote

    remote.follow(store)


def adjust_run(target: str, changes: Sequence[str], runs_dir: Path = Path("runs"), *, by: Caller = PERSON) -> Requested:
    """Change numbers of live runs (learning_rate, clip_range, ent_coef, ...); recorded, and replayed by a resume."""
    store = Store(runs_dir)
    check_owner(store, by, target)
    # By the clock of this machine a worker's last word may be an hour old; the queue knows better.
    elsewhere = {run for job in models.everything(store) if job.state == "crashed" and queue.is_open(store, job) for run in job.runs}
    asked = status.adjust(target, changes, runs_dir, live=elsewhere)
    _forward(store)
    audit(store, by, "adjust", target, changes=asked.changes, runs=asked.runs)
    return asked


def adopt_trial(
    tid: str,
    ref: str,
    runs_dir: Path = Path("runs"),
    *,
    by: Caller = PERSON,
    force: bool = False,
    dry_run: bool = False,
    folder: Path | None = None,
) -> "Adopted":
    """Keep a trial's winner as ENV:VARIANT; agents may not force what was not shown to help."""
    if force and by.budgeted:
        raise UsageError(
            "force keeps a change that was not shown to help.\n  That is for a person to decide.\n  Make a larger trial instead"
        )
    from rlclinic.ops.treat import adopt

    store = Store(runs_dir)
    adopted = adopt.adopt(tid, ref, runs_dir, force=force, dry_run=dry_run, folder=folder)
    if adopted.written:
        audit(store, by, "adopt", adopted.ref, trial=adopted.trial, file=adopted.file, changes=adopted.changes)
        line = LedgerLine(
            job=f"adopt-{adopted.trial}-{adopted.ref}",
            kind="adopt",
            started=time.time(),
            by=f"{by.face}:{by.name}",
            target=adopted.trial,
            hypothesis="",
            change=adopted.changes,
        )
        record_start(store, line)
        record_outcome(store, line.job, f"kept as {adopted.ref}", "adopted", 0)
    return adopted


def import_run(
    path: str,
    runs_dir: Path = Path("runs"),
    *,
    by: Caller = PERSON,
    name: str | None = None,
    threshold: float | None = None,
    budget: int | None = None,
    mapping: Sequence[str] = (),
) -> "ImportResult":
    """Copy runs of other frameworks into the store; their folder is only read."""
    from rlclinic.ops.runs import import_runs

    imported = import_runs.import_path(path, runs_dir, name=name, threshold=threshold, budget=budget, mapping=mapping)
    audit(Store(runs_dir), by, "import", ", ".join(imported.groups), path=path)
    return imported


def evaluate_checkpoint(
    target: str = "@last",
    runs_dir: Path = Path("runs"),
    *,
    by: Caller = PERSON,
    episodes: int = 20,
    deterministic: bool = True,
    target_returns: Sequence[float] = (),
) -> EvaluationResult:
    """Score a checkpoint in a process of its own: an environment may crash, and whoever asks must not. Its env steps count."""
    from rlclinic.ops.jobs import budget

    store = Store(runs_dir)
    budget.check(store, by, Planned(target=target, change=[], max_env_steps=0, runs=1))
    command = [sys.executable, "-m", "rlclinic", "evaluate", "--episodes", str(episodes), "--json", "--runs-dir", str(runs_dir)]
    asked = [text for wanted in target_returns for text in ("--target-return", repr(wanted))]
    command += [*([] if deterministic else ["--sampled"]), *asked, "--", target]
    began = time.time()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=EVALUATE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise RunError(f"{episodes} episodes took longer than {EVALUATE_SECONDS:g} s.\n  Nothing was scored.\n  Ask for fewer") from None
    if done.returncode:
        raise RunError(done.stderr.strip() or f"the evaluation ended with {done.returncode}")
    result = EvaluationResult.model_validate_json(done.stdout)
    _charge(store, by, target, result, began)
    return result


def _charge(store: Store, by: Caller, target: str, result: EvaluationResult, began: float) -> None:
    """Episodes are env steps, too."""
    used = round(result.length_mean * result.episodes * (1 + len(result.asked)))
    with jobs.alone(store):
        job = Job(
            id=jobs.reserve(store),
            kind="evaluation",
            state="finished",
            by=by,
            digest="",
            request={"episodes": result.episodes},
            target=target,
            refers=None,
            created=began,
            started=began,
            ended=time.time(),
            used_env_steps=used,
        )
        models.save(store, job)
    audit(store, by, "evaluate", result.checkpoint, episodes=result.episodes, env_steps=used)


# ── whose something is ──


def check_owner(store: Store, by: Caller, *targets: str) -> None:
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
