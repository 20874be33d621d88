"""The process that does a job: `python -m rlclinic.ops.jobs.worker STORE JOB ATTEMPT`.

It belongs to nobody's terminal and to no server. SIGTERM, a request in the queue, the job's own limit or the end of the budget
make it stop with checkpoints; starting the job again goes on from there. Whatever happens, job.json and the ledger say how it ended.

A job that any worker may do (`Job.shared`) is given back to the queue where only its process was asked to leave. Its lease is renewed
here, and its deadline kept in a file that the training processes look at before they write (`runs.lease`). Where the database does not
answer for two thirds of a lease, runs write a checkpoint and stop while they still may.

Where the worker shares no disk with whoever started the job, it brings the job first, and hands it in at the end (`remote`).
"""

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rlclinic import trust
from rlclinic.diagnosis.findings import Severity
from rlclinic.errors import DiskFailed, RlclinicError, RunBusy, RunError
from rlclinic.launch import batch
from rlclinic.launch.batch import Interrupted, is_open
from rlclinic.ops.compare import regress
from rlclinic.ops.jobs import budget, models, prepare, queue, remote, start
from rlclinic.ops.jobs.audit import close_entry, record_outcome
from rlclinic.ops.jobs.models import Job, JobState
from rlclinic.ops.train import run, signals
from rlclinic.ops.treat import optimize, race, sensitivity, trial
from rlclinic.ray_cluster import ClusterAway
from rlclinic.report.format import duration, number
from rlclinic.report.gate import decision_line
from rlclinic.report.race import describe_verdict
from rlclinic.report.trial import effect_text, headline
from rlclinic.runs import control, disk, jobs, launcher_status, lease, lock
from rlclinic.runs.database import connections, job_queue
from rlclinic.runs.lease import LeaseLost
from rlclinic.runs.object_store import artifacts
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store

BEAT_SECONDS = 2.0
TURN_SECONDS = 1.0
"""How often a job that waits looks whether it is its turn."""
RENEW_SECONDS = 0.5
"""How often a worker's job says that it is alive, and hears whether it is to stop."""
ASKED = "stopped when asked to"
CUT_OFF = 3
"""Exit code: the lease is lost, or the database does not answer."""
AWAY = 4
"""Exit code: the object store does not answer, through which the job comes and goes."""


class Ending(NamedTuple):
    """How a job ended, for its record and for the ledger."""

    state: JobState
    verdict: str | None
    outcome: str
    reason: str | None = None
    retry: bool = False
    """Not the config's fault: another attempt may do better."""
    lost: bool = False
    """Nor the job's: nothing that it does to a machine can be the reason."""


def main() -> int:
    """Do the job that the arguments name, once it is its turn."""
    store, jid = Store(Path(sys.argv[1])), sys.argv[2]
    attempt = int(sys.argv[3]) if len(sys.argv) > 3 else None
    try:
        with signals.caught_signals() as caught:
            remote.fetch(store, jid)
            job = _at_its_turn(store, jid, caught, attempt)
        if job is None:
            sys.stderr.write(f"there is no job {jid} in {store.root}, or another process does it\n")
            return 2
        if job.state == "running":
            ending = do(store, job)
        elif job.shared and job.reason != ASKED:
            ending = Ending("stopped", None, "its worker left before it began")
            _give_back(store, job, ending, failed=False)
        else:
            ending = give_up(store, job)
    except RunError as error:
        if lease.VARIABLE not in os.environ:
            raise
        # Its lease is lost, or the database does not answer: who does the job next finds what was written until then.
        sys.stderr.write(f"{error}\n")
        return AWAY if isinstance(error, artifacts.Away) else CUT_OFF
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
            if job.shared and row is not None and not job.live:
                # An earlier attempt had put down its end, and was killed before the queue knew.
                job_queue.finish(store, job_queue.Claim(jid, row.attempt), "stopped" if job.state == "stopped" else "finished")
                return None
            known = {"pid": os.getpid(), "process_started": lock.started(os.getpid()), "host": lock.HOST, "heartbeat": time.time()}
            job = job.model_copy(update=known)
            if job.shared and row is not None and row.stop:
                return job.model_copy(update={"state": "queued", "reason": ASKED})
            waits_for = [] if job.shared else queue.ahead(store, job)
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
    close(store, job, ending)
    return ending


def do(store: Store, job: Job) -> Ending:
    """Carry out a job to its end, or until it must stop; the record and the ledger are closed either way."""
    try:
        with _beating(store, job) as beat:
            with remote.held(store, job), start.queueing_cohorts(store, job):
                ending = _WORK[job.kind](store, job)
            # Still with a lease: an object store that is away for a while must not cost what was trained.
            remote.hand_in(store, job, leaving=lambda: beat.reason is not None)
    except Interrupted as error:
        ending = Ending("stopped", None, "stopped before its end", str(error).splitlines()[0])
    except LeaseLost:
        raise
    except (RunBusy, ClusterAway) as error:
        ending = Ending("failed", None, f"failed: {str(error).splitlines()[0]}", str(error), retry=True, lost=True)
    except RlclinicError as error:
        if job.shared and isinstance(error, connections.DatabaseDown | artifacts.Away | artifacts.Taken):
            raise
        # A disk that is full is this machine's.
        retry = isinstance(error, DiskFailed)
        ending = Ending("failed", None, f"failed: {str(error).splitlines()[0]}", str(error), retry=retry)
    except BaseException as error:
        ending = Ending("failed", None, f"failed: {type(error).__name__}", f"{type(error).__name__}: {error}", retry=True)
        if not job.shared or not isinstance(error, Exception):
            close(store, job, ending)
            raise
        # What nobody has thought of: a library that gave up, a file system that is away. It may go well elsewhere, or later.
        traceback.print_exc()
    if ending.state == "stopped" and beat.reason is not None:
        ending = ending._replace(reason=beat.reason, outcome=f"stopped: {beat.reason}")
    left = ending.state == "stopped" and (beat.reason is None or beat.unreachable) and ending.reason != ASKED
    if job.shared and (left or ending.retry):
        _give_back(store, job, ending, failed=not (left or ending.lost), lost=not left and ending.lost)
    else:
        close(store, job, ending)
    return ending


def _give_back(store: Store, job: Job, ending: Ending, *, failed: bool, lost: bool = False) -> None:
    """Put a job back into the queue: where its worker leaves at once, where it failed after a pause, and not too often."""
    reason = (ending.reason or ending.outcome).splitlines()[0]
    waiting = wait_again(store, models.load(store, job.id) or job, reason)
    claimed = job_queue.find_claim(store, job.id)
    remote.hand_in(store, job, leaving=lambda: True)
    if claimed is not None and job_queue.release(store, claimed, reason, failed=failed, lost=lost) == "failed":
        row = next(row for row in job_queue.list_rows(store) if row.id == job.id)
        close(store, waiting, Ending("failed", None, f"failed: {row.reason}", row.reason))


def wait_again(store: Store, job: Job, reason: str) -> Job:
    """Write down that a shared job waits for another attempt; the time of the last one counts."""
    again: dict[str, Any] = {"state": "queued", "pid": None, "host": None, "started": None, "heartbeat": None}
    again |= {"past_wall_seconds": job.wall_seconds, "reason": f"waits for a worker again: {reason}"}
    return models.save(store, job.model_copy(update=again))


def close(store: Store, job: Job, ending: Ending) -> None:
    """Write down how a job ended: in its record, in the queue and in the ledger."""
    now = models.load(store, job.id) or job
    ended = now.model_copy(update={"state": ending.state, "ended": time.time(), "reason": ending.reason})
    used = budget.used_env_steps(store, ended.model_copy(update={"used_env_steps": None}))
    models.save(store, ended.model_copy(update={"used_env_steps": used}))
    away = remote.is_worker(store)
    if away and job.parent is None:
        line = close_entry(job.id, ending.outcome, ending.verdict, used)
        disk.write_json(jobs.folder(store, job.id) / jobs.OUTCOME, line)
    remote.hand_in(store, job, leaving=lambda: True)
    claimed = job_queue.find_claim(store, job.id)
    if claimed is not None:
        job_queue.finish(store, claimed, "stopped" if ending.state == "stopped" else "finished", used=used)
    if away:
        remote.forget(store, job)
    elif job.parent is None:
        record_outcome(store, job.id, ending.outcome, ending.verdict, used)


# ── staying within the limits ──


class _Beat:
    """Says every few seconds that the job is alive, and ends it when its time is over."""

    def __init__(self, store: Store, job: Job) -> None:
        self._store, self._job, self._over = store, job, threading.Event()
        self._claim = job_queue.find_claim(store, job.id)
        self._lease = Path(os.environ[lease.VARIABLE]) if job.shared and lease.VARIABLE in os.environ else None
        self._heard: str | None = None
        self.reason: str | None = None
        self.unreachable = False
        """Whether it ended because the database did not answer."""

    def run(self) -> None:
        renewing = None
        if self._lease is not None:
            # Of its own: a database that hangs must not keep this one from seeing that time runs out.
            renewing = threading.Thread(target=self._keep_lease, args=(self._lease,), daemon=True)
            renewing.start()
        try:
            self._beat()
        finally:
            if renewing is not None:
                renewing.join(1.0)

    def _beat(self) -> None:
        due = 0.0
        while not self._over.wait(BEAT_SECONDS if self._lease is None else RENEW_SECONDS):
            if self._lease is None or time.monotonic() >= due:
                due = time.monotonic() + BEAT_SECONDS
                self._job = self._job.model_copy(update={"heartbeat": time.time()})
                try:
                    models.save(self._store, self._job)
                except LeaseLost:
                    self._end("its lease is over")
                    return
                except DiskFailed as error:
                    # For a moment, perhaps: whoever ends here hears of no request to stop any more.
                    sys.stderr.write(f"{error}\n")
            if (reason := self._overdue() or (self._renew() if self._lease is None else self._listen(self._lease))) is not None:
                self._end(reason)

    def _end(self, reason: str) -> None:
        if self.reason is None:
            self.reason = reason
            # As if somebody had asked: runs write a checkpoint, and the job can be taken up again.
            os.kill(os.getpid(), signal.SIGTERM)

    def _keep_lease(self, path: Path) -> None:
        """Renew the lease, and move the deadline on that the training processes keep, for as long as the job is this worker's."""
        lease.take_over(path)
        heard: set[int] = set()
        while not self._over.wait(RENEW_SECONDS) and self._claim is not None:
            asked = lease.now()
            try:
                stop = job_queue.renew(self._store, self._claim)
                remote.pass_on(self._store, self._claim, heard)
            except LeaseLost as error:
                lease.write_deadline(path, 0.0)
                self._heard = str(error).splitlines()[0]
                return
            except RunError:
                continue
            lease.extend(path, asked, job_queue.LEASE_SECONDS)
            if stop:
                self._heard = ASKED
        connections.forget()

    def _listen(self, path: Path) -> str | None:
        """Why the job must end, as far as the database says so; or that it says nothing, while there is time to save the runs."""
        if self._heard is None and lease.left(path) < job_queue.LEASE_SECONDS / 3:
            self.unreachable = True
            return "the database does not answer"
        return self._heard

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
            return ASKED if job_queue.renew(self._store, self._claim) else None
        except LeaseLost as error:
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
    if job.shared:
        # Those that were asked to stop since the job was queued stay so, whichever attempt it is.
        runs = [run for run in runs if (run.status.state, run.status.reason) != ("stopped", control.ASKED)]
    # Nothing is left to train where the process was killed while it reported.
    begins = bool(runs) and not plan.resumed and trust.names_code(runs[0].config.env.id)
    wrong = run.examine_own_environment(replace(plan, configs=[runs[0].config], unseen_code=True), say=_say) if begins else ()
    result = run.carry_out(plan, group, runs) if runs else run.reported(plan, group, group.runs)
    if result.signal is not None:
        return Ending("stopped", None, f"stopped by {result.signal}", f"stopped by {result.signal}")
    if lost := [run for run in runs if batch.is_lost(run)]:
        return _call_lost(lost)
    if result.failed and len(result.failed) == len(result.runs):
        reason = next((run.status.reason for run in group.runs if run.id in result.failed), None)
        retry = any(is_open(run) for run in group.runs if run.id in result.failed)
        return Ending("failed", None, f"failed: {(reason or 'no reason was recorded').splitlines()[0]}", reason, retry)
    if all(run.status.state == "stopped" for run in group.runs if run.id in job.runs):
        return Ending("stopped", None, ASKED, ASKED)
    report, finding = result.report, result.finding
    verdict = report.verdict if report is not None else None
    outcome = f"{group.id} {verdict or 'ended'}"
    if report is not None and report.last.value is not None:
        outcome += f", return {number(report.last.value)}"
    if finding is not None:
        outcome += f"; {finding.title} (p {finding.probability:.2f})"
    severe = [each for each in wrong if each.severity is Severity.HIGH]
    if severe:
        more = f" and {len(severe) - 1} more" if len(severe) > 1 else ""
        outcome += f"; its environment: {severe[0].rule} {severe[0].name}{more}"
    return Ending("finished", verdict, outcome)


def _call_lost(runs: Sequence[Run]) -> Ending:
    """Runs whose node is gone: another attempt goes on from their checkpoints."""
    reason = runs[0].status.reason or ""
    return Ending("failed", None, f"failed: {reason}", reason, retry=True, lost=True)


def _train_cohort(store: Store, job: Job) -> Ending:
    """Runs of a trial, race, search or study, whose own job looks at how they come out."""
    kind, refers = job.request["kind"], job.request["refers"]
    # Those that a search has stopped for good stay as they are, also where another attempt goes on with the rest.
    pruned = batch.Study(store, kind, refers).pruned if kind in ("optimize", "sensitivity") else set()
    runs = [run for run in map(store.run, job.runs) if is_open(run) and run.id not in pruned]
    with signals.caught_signals() as caught:
        if runs:
            batch.train_runs(runs, processes=1, restarts=0, stop=lambda: len(caught))
    if caught:
        return Ending("stopped", None, f"stopped by {caught[0].name}", f"stopped by {caught[0].name}")
    if lost := [run for run in runs if batch.is_lost(run)]:
        return _call_lost(lost)
    killed = [run for run in runs if run.status.state == "failed" and is_open(run)]
    if killed:
        return Ending("failed", None, "failed", killed[0].status.reason, retry=True)
    return Ending("finished", None, f"trained {len(runs)} runs")


def _say(text: str) -> None:
    """Into the log of the job."""
    print(text, flush=True)


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


def _judge(store: Store, job: Job) -> Ending:
    result = regress.carry_out(store, str(job.refers), say=_say)
    if result.signal is not None:
        return Ending("stopped", None, f"stopped by {result.signal}", f"stopped by {result.signal}")
    return Ending("finished", result.decision, f"{result.id} {result.decision}: {decision_line(result)}")


_WORK = {
    "training": _train,
    "trial": _try,
    "race": _race,
    "optimize": _search,
    "sensitivity": _vary,
    "regress": _judge,
    "cohort": _train_cohort,
}


if __name__ == "__main__":
    sys.exit(main())
