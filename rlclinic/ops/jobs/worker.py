"""The process that does a job: `python -m rlclinic.ops.jobs.worker STORE JOB ATTEMPT`.

It belongs to nobody's terminal and to no server. SIGTERM, a request in the queue, the job's own limit or the end of the budget
make it stop with checkpoints; starting the job again goes on from there. Whatever happens, job.json and the ledger say how it ended.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rlclinic.errors import RlclinicError, RunError
from rlclinic.launch.batch import Interrupted
from rlclinic.ops.jobs import budget, models, prepare, queue, start
from rlclinic.ops.jobs.audit import record_outcome
from rlclinic.ops.jobs.models import Job, JobState
from rlclinic.ops.train import run, signals
from rlclinic.ops.treat import optimize, race, sensitivity, trial
from rlclinic.report.format import duration, number
from rlclinic.report.race import describe_verdict
from rlclinic.report.trial import effect_text, headline
from rlclinic.runs import jobs, launcher_status, lock
from rlclinic.runs.database import job_queue
from rlclinic.runs.store import Store

BEAT_SECONDS = 2.0
TURN_SECONDS = 1.0
"""How often a job that waits looks whether it is its turn."""


class Ending(NamedTuple):
    """How a job ended, for its record and for the ledger."""

    state: JobState
    verdict: str | None
    outcome: str
    reason: str | None = None


def main() -> int:
    """Do the job that the arguments name, once it is its turn."""
    store, jid = Store(Path(sys.argv[1])), sys.argv[2]
    attempt = int(sys.argv[3]) if len(sys.argv) > 3 else None
    with signals.caught_signals() as caught:
        job = _at_its_turn(store, jid, caught, attempt)
    if job is None:
        sys.stderr.write(f"there is no job {jid} in {store.root}, or another process does it\n")
        return 2
    ending = do(store, job) if job.state == "running" else give_up(store, job)
    start.dispatch(store)  # whoever waited for this one
    return 0 if ending.state == "finished" else 1


def _at_its_turn(store: Store, jid: str, caught: Sequence[object], attempt: int | None = None) -> Job | None:
    """The job once it may begin, and says so; or as it stood when it was told to stop while it waited.

    None: there is none, or it is another attempt's. Whoever made this process was killed before it had written down its number, and
    somebody else has made another one.
    """
    while True:
        # Whoever started it still writes the process number: after that, this process alone writes the record.
        with jobs.alone(store):
            job = models.load(store, jid)
            row = next((row for row in job_queue.list_rows(store) if row.id == jid), None)
            if job is None or (attempt is not None and row is not None and (row.state, row.attempt) != ("claimed", attempt)):
                return None
            known = {"pid": os.getpid(), "process_started": lock.started(os.getpid()), "host": lock.HOST, "heartbeat": time.time()}
            job = job.model_copy(update=known)
            waits_for = queue.ahead(store, job)
            if not waits_for and not caught:
                return models.save(store, job.model_copy(update={"state": "running", "started": time.time(), "reason": None}))
            job = models.save(store, job.model_copy(update={"state": "queued", "reason": queue.describe_wait(waits_for)}))
        if caught or _time_is_over(store, job):
            return job
        time.sleep(TURN_SECONDS)


def give_up(store: Store, job: Job) -> Ending:
    """Stopped while it waited: nothing was trained, and starting it again puts it back in the queue."""
    ending = Ending("stopped", None, "stopped before it began", _time_is_over(store, job) or "stopped before it began")
    for run_id in job.runs:
        launcher_status.close(store.root / run_id, "stopped", "stopped before it began")
    _close(store, job, ending)
    return ending


def do(store: Store, job: Job) -> Ending:
    """Carry out a job to its end, or until it must stop; the record and the ledger are closed either way."""
    try:
        with _beating(store, job) as beat:
            ending = _WORK[job.kind](store, job)
    except Interrupted as error:
        ending = Ending("stopped", None, "stopped before its end", str(error).splitlines()[0])
    except RlclinicError as error:
        ending = Ending("failed", None, f"failed: {str(error).splitlines()[0]}", str(error))
    except BaseException as error:
        _close(store, job, Ending("failed", None, f"failed: {type(error).__name__}", f"{type(error).__name__}: {error}"))
        raise
    if ending.state == "stopped" and beat.reason is not None:
        ending = ending._replace(reason=beat.reason, outcome=f"stopped: {beat.reason}")
    _close(store, job, ending)
    return ending


def _close(store: Store, job: Job, ending: Ending) -> None:
    now = models.load(store, job.id) or job
    ended = now.model_copy(update={"state": ending.state, "ended": time.time(), "reason": ending.reason})
    used = budget.used_env_steps(store, ended.model_copy(update={"used_env_steps": None}))
    models.save(store, ended.model_copy(update={"used_env_steps": used}))
    claimed = job_queue.find_claim(store, job.id)
    if claimed is not None:
        job_queue.finish(store, claimed, "stopped" if ending.state == "stopped" else "finished")
    record_outcome(store, job.id, ending.outcome, ending.verdict, used)


# ── staying within the limits ──


class _Beat:
    """Says every few seconds that the job is alive, and ends it when its time is over."""

    def __init__(self, store: Store, job: Job) -> None:
        self._store, self._job, self._over = store, job, threading.Event()
        self._claim = job_queue.find_claim(store, job.id)
        self.reason: str | None = None

    def run(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            self._job = self._job.model_copy(update={"heartbeat": time.time()})
            models.save(self._store, self._job)
            if self.reason is None and (reason := self._overdue() or self._renew()) is not None:
                self.reason = reason
                # As if somebody had asked: runs write a checkpoint, and the job can be taken up again.
                os.kill(os.getpid(), signal.SIGTERM)

    def _overdue(self) -> str | None:
        limit = self._job.max_wall_seconds
        if limit is not None and time.time() - (self._job.started or time.time()) > limit:
            return f"its {duration(limit)} are over"
        return _time_is_over(self._store, self._job)

    def _renew(self) -> str | None:
        """Say to the queue that the job is alive; why it must end, if it must."""
        if self._claim is None:
            return None
        try:
            return "stopped when asked to" if job_queue.renew(self._store, self._claim) else None
        except job_queue.LeaseLost as error:
            return str(error).splitlines()[0]
        except RunError:
            return None  # the queue cannot be reached now: the lease is longer than a beat

    def stop(self) -> None:
        self._over.set()


def _time_is_over(store: Store, job: Job) -> str | None:
    left = budget.standing(store).left_wall_seconds if job.by.budgeted else None
    return "the time that a person allowed is over" if left is not None and left <= 0 else None


@contextmanager
def _beating(store: Store, job: Job) -> Iterator[_Beat]:
    beat = _Beat(store, job)
    thread = threading.Thread(target=beat.run, daemon=True)
    thread.start()
    try:
        yield beat
    finally:
        beat.stop()
        thread.join()


# ── the work ──


def _train(store: Store, job: Job) -> Ending:
    plan, group, runs = prepare.resumed_plan(job, store)
    # Nothing is left to train where the process was killed while it reported.
    result = run.carry_out(plan, group, runs) if runs else run.reported(plan, group, group.runs)
    if result.signal is not None:
        return Ending("stopped", None, f"stopped by {result.signal}", f"stopped by {result.signal}")
    if result.failed and len(result.failed) == len(result.runs):
        reason = next((run.status.reason for run in group.runs if run.id in result.failed), None)
        return Ending("failed", None, f"failed: {(reason or 'no reason was recorded').splitlines()[0]}", reason)
    if all(run.status.state == "stopped" for run in group.runs if run.id in job.runs):
        return Ending("stopped", None, "stopped when asked to", "stopped when asked to")
    report, finding = result.report, result.finding
    verdict = report.verdict if report is not None else None
    outcome = f"{group.id} {verdict or 'ended'}"
    if report is not None and report.last.value is not None:
        outcome += f", return {number(report.last.value)}"
    if finding is not None:
        outcome += f"; {finding.title} (p {finding.probability:.2f})"
    return Ending("finished", verdict, outcome)


def _try(store: Store, job: Job) -> Ending:
    result = trial.resume_trial(str(job.refers), store.root)
    if result.trial.state != "finished":
        return Ending("stopped", None, f"stopped by {result.signal}", f"stopped by {result.signal}")
    leading = result.trial.leading
    effect = f": {effect_text(result.trial, leading)}" if leading is not None else ""
    return Ending("finished", result.trial.verdict, f"{result.trial.id} {headline(result.trial)}{effect}")


def _race(store: Store, job: Job) -> Ending:
    result = race.resume_race(str(job.refers), store.root)
    if result.race.state != "finished":
        return Ending("stopped", None, f"stopped by {result.signal}", f"stopped by {result.signal}")
    return Ending("finished", result.race.verdict, f"{result.race.id} {describe_verdict(result.race)}")


def _search(store: Store, job: Job) -> Ending:
    with signals.caught_signals() as caught:
        result = optimize.resume(str(job.refers), store.root, stop=lambda: bool(caught))
    changes = ", ".join(result.changes) or "no change"
    return Ending("finished", result.ledger.verdict, f"{result.ledger.id} {result.ledger.verdict}: {changes}")


def _vary(store: Store, job: Job) -> Ending:
    with signals.caught_signals() as caught:
        result = sensitivity.resume(str(job.refers), store.root, stop=lambda: bool(caught))
    most = ", ".join(f"{name.partition('.')[2]} {number(size)}" for name, size in result.ranking[:3])
    return Ending("finished", None, f"{result.study.id} matters most: {most or 'nothing that could be told'}")


_WORK = {"training": _train, "trial": _try, "race": _race, "optimize": _search, "sensitivity": _vary}


if __name__ == "__main__":
    sys.exit(main())
