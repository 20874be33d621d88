"""How far something is that was started in the background, and waiting for it: runs, groups, trials, searches, studies."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from rlclinic.ops.compare import regress
from rlclinic.ops.jobs import models
from rlclinic.ops.jobs.models import Job
from rlclinic.ops.status import alerts
from rlclinic.ops.status.status import get_training_status, observe
from rlclinic.report.gate import GateRecord
from rlclinic.report.models import LiveGroup, Result
from rlclinic.runs import status_file, studies, trials
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store
from rlclinic.treatment.optimize import search
from rlclinic.treatment.optimize.ledger import Ledger
from rlclinic.treatment.race.conduct import load_race
from rlclinic.treatment.race.models import Race
from rlclinic.treatment.sensitivity.study import Sensitivity, load
from rlclinic.treatment.trial import conduct
from rlclinic.treatment.trial.models import Trial

Kind = Literal["group", "trial", "race", "optimize", "sensitivity", "regress"]
LOOK_SECONDS: Final = 0.5
OUTLOOK_SECONDS: Final = 10.0
"""A forecast reads whole logs: it is made this often while somebody waits."""
OVER: Final = ("finished", "stopped", "failed", "crashed", "interrupted")


class Progress(Result):
    """How something stands now."""

    id: str
    kind: Kind
    state: str
    """queued, running, finished, stopped, failed, crashed; of a trial or search also interrupted."""
    done: bool
    env_steps: int
    max_env_steps: int | None
    steps_per_second: float | None
    eta_seconds: float | None
    runs: int
    ended: int
    reached: int
    """Runs that reached the threshold."""
    return_mean: float | None
    alert: str | None = None
    """Something that should not wait: a failure, or a forecast that it is in vain."""
    reason: str | None = None
    waited_seconds: float = 0.0


class TrialView(Result):
    """A trial as it ended or stands, with the job that carries it out."""

    trial: Trial
    job: Job | None
    progress: Progress


class RaceView(Result):
    """A race as it ended or stands, with the job that carries it out."""

    race: Race
    job: Job | None
    progress: Progress


class SensitivityView(Result):
    """A sensitivity study as it ended or stands, with the job that carries it out."""

    study: Sensitivity
    ranking: list[tuple[str, float]]
    """Settings by how much they matter, the largest effect first."""
    job: Job | None
    progress: Progress


class RegressionView(Result):
    """A gate as it ended or stands, with the job that carries it out."""

    gate: GateRecord
    job: Job | None
    progress: Progress


class SearchView(Result):
    """A search as it ended or stands, with the job that carries it out."""

    ledger: Ledger
    spent: int
    changes: list[str]
    """What the best config changes in the start, as overrides."""
    confirmed: str | None
    """The trial that proved it, if one did."""
    job: Job | None
    progress: Progress


def get_trial(tid: str = "@last", runs_dir: Path = Path("runs")) -> TrialView:
    """A trial by its id, its job's id, or @last. Nothing is written."""
    store = Store(runs_dir)
    trial = conduct.load(store, _made_by(store, tid))
    return TrialView(trial=trial, job=models.of(store, trial.id), progress=_trial(store, trial.id))


def get_race(rid: str = "@last", runs_dir: Path = Path("runs")) -> RaceView:
    """A race by its id, its job's id, or @last. Nothing is written."""
    store = Store(runs_dir)
    race = load_race(store, _made_by(store, rid))
    return RaceView(race=race, job=models.of(store, race.id), progress=_race(store, race.id))


def get_optimize(sid: str = "@last", runs_dir: Path = Path("runs")) -> SearchView:
    """A search by its id, its job's id, or @last. Nothing is written."""
    store = Store(runs_dir)
    ledger = search.load(store, _made_by(store, sid))
    proven = [confirmation.trial for confirmation in ledger.confirmations if confirmation.verdict == "adopt"]
    return SearchView(
        ledger=ledger,
        spent=ledger.spent,
        changes=list(ledger.best.entry.changes) if ledger.best is not None else [],
        confirmed=proven[-1] if proven else None,
        job=models.of(store, ledger.id),
        progress=_search(store, ledger.id),
    )


def get_sensitivity(sid: str = "@last", runs_dir: Path = Path("runs")) -> SensitivityView:
    """A sensitivity study by its id, its job's id, or @last. Nothing is written."""
    store = Store(runs_dir)
    study = load(store, _made_by(store, sid))
    return SensitivityView(study=study, ranking=study.ranking, job=models.of(store, study.id), progress=_varied(store, study.id))


def get_regression(rid: str = "@last", runs_dir: Path = Path("runs")) -> RegressionView:
    """A gate by its id, its job's id, or @last. Nothing is written."""
    store = Store(runs_dir)
    gate = regress.load(store, _made_by(store, rid))
    return RegressionView(gate=gate, job=models.of(store, gate.id), progress=_gate(store, gate.id))


def get_progress(target: str = "@last", runs_dir: Path = Path("runs"), *, forecast: bool = False) -> Progress:
    """How a run, group, trial, search, study or job stands; `forecast` also says whether it is in vain."""
    store = Store(runs_dir)
    name = _made_by(store, target)
    if (trials.folder(store, name) / trials.TRIAL).exists():
        return _trial(store, name)
    if is_race(name, runs_dir):
        return _race(store, name)
    if (studies.folder(store, "optimize", name) / studies.FILES["optimize"]).exists():
        return _search(store, name)
    if (studies.folder(store, "sensitivity", name) / studies.FILES["sensitivity"]).exists():
        return _varied(store, name)
    if is_regression(name, runs_dir):
        return _gate(store, name)
    return _group(store, name, forecast)


def is_regression(name: str, runs_dir: Path = Path("runs")) -> bool:
    """Whether a name is a gate's, or that of the job of one."""
    store = Store(runs_dir)
    return studies.exists(store, "regress", _made_by(store, name))


def is_race(name: str, runs_dir: Path = Path("runs")) -> bool:
    """Whether a name is a race's, or that of the job of one."""
    store = Store(runs_dir)
    return (studies.folder(store, "race", _made_by(store, name)) / studies.FILES["race"]).exists()


def wait_for_run(
    target: str = "@last",
    runs_dir: Path = Path("runs"),
    *,
    timeout_seconds: float = 60.0,
    watch: Callable[[Progress], None] | None = None,
) -> Progress:
    """Wait until it is done, something should not wait any longer, or the time is over; never longer than that."""
    began = time.monotonic()
    forecast_at = began + OUTLOOK_SECONDS
    while True:
        now = time.monotonic()
        progress = get_progress(target, runs_dir, forecast=now >= forecast_at)
        forecast_at = now + OUTLOOK_SECONDS if now >= forecast_at else forecast_at
        if watch is not None:
            watch(progress)
        waited = time.monotonic() - began
        if progress.done or progress.alert is not None or waited >= timeout_seconds:
            return progress.model_copy(update={"waited_seconds": round(waited, 1)})
        time.sleep(min(LOOK_SECONDS, max(0.0, timeout_seconds - waited)))


def _made_by(store: Store, name: str) -> str:
    """A job is asked about by what it makes."""
    job = models.load(store, name) if name.startswith("j") else None
    return name if job is None or job.refers is None else job.refers


# ── each kind ──


def _group(store: Store, name: str, forecast: bool) -> Progress:
    selected = store.resolve(name)
    members = selected.runs if isinstance(selected, Group) else [selected if isinstance(selected, Run) else selected.run]
    group = selected if isinstance(selected, Group) else store.group(name)
    live: LiveGroup = observe(group)
    if forecast and live.state == "running":
        live = get_training_status(group.id, store.root).groups[0]
    names = {run.id for run in members}
    rows = [member for member in live.members if member.run in names]
    alert_event = next((event for event in alerts.events(live) if event.kind in ("failed", "doomed")), None)
    state = rows[0].state if len(rows) == 1 else live.state
    job = models.of(store, group.id)
    if state == "queued" and job is not None and job.state in ("crashed", "failed", "stopped"):
        state = job.state
    returns = [member.eval_mean if member.eval_mean is not None else member.return_mean for member in rows]
    known = [value for value in returns if value is not None]
    return Progress(
        id=selected.id if isinstance(selected, Group | Run) else group.id,
        kind="group",
        state=state,
        # The process that trained them still diagnoses and reports: asked again now, it would be found alive.
        done=state in OVER and not (job is not None and job.live),
        env_steps=sum(member.env_steps for member in rows),
        max_env_steps=sum(member.max_env_steps or 0 for member in rows) or None,
        steps_per_second=live.steps_per_second,
        eta_seconds=live.eta_seconds,
        runs=len(rows),
        ended=sum(member.state in OVER for member in rows),
        reached=sum(member.threshold_reached_at is not None for member in rows),
        return_mean=sum(known) / len(known) if known else None,
        alert=None if alert_event is None or state == "finished" else f"{alert_event.kind}: {alert_event.reason}",
        reason=_why(job) or next((member.reason for member in rows if member.reason), None),
    )


def _why(job: Job | None) -> str | None:
    return None if job is None or job.state in ("starting", "running") else job.reason


def _trial(store: Store, tid: str) -> Progress:
    record = trials.find(store, tid).record
    return _study(store, tid, "trial", str(record.get("state", "?")), {tid}, record.get("max_env_steps"))


def _race(store: Store, rid: str) -> Progress:
    record = studies.read(store, "race", rid)
    return _study(store, rid, "race", str(record.get("state", "?")), {rid}, record.get("max_env_steps"))


def _search(store: Store, sid: str) -> Progress:
    record = studies.read(store, "optimize", sid)
    made = {sid, *(str(each.get("trial")) for each in record.get("rounds", []) if each.get("trial"))}
    return _study(store, sid, "optimize", str(record.get("state", "?")), made, record.get("budget"))


def _varied(store: Store, sid: str) -> Progress:
    study = load(store, sid)
    return _study(store, sid, "sensitivity", study.state, {sid}, study.max_env_steps)


def _gate(store: Store, rid: str) -> Progress:
    gate = regress.load(store, rid)
    return _study(store, gate.id, "regress", gate.state, {gate.id}, gate.max_env_steps)


def _study(store: Store, name: str, kind: Kind, state: str, made: set[str], most: int | None) -> Progress:
    """A trial or a search by the runs that it has made so far; what its file says holds, unless its process is gone."""
    runs = [status_file.read(run.path) for group in store.groups() if trials.trial_of(group) in made for run in group.runs]
    job = models.of(store, name)
    reason = None if job is None else job.reason
    if state == "running" and job is not None and not job.live:
        state, reason = job.state if job.state != "finished" else state, reason or "its process is gone"
    elif state == "running" and job is not None and job.state == "queued":
        state = "queued"
    rates = [run.fps for run in runs if run.state == "running" and run.fps]
    return Progress(
        id=name,
        kind=kind,
        state=state,
        done=state in OVER,
        env_steps=sum(run.env_steps for run in runs),
        max_env_steps=most,
        steps_per_second=sum(rates) if rates else None,
        eta_seconds=None,
        runs=len(runs),
        ended=sum(not run.live for run in runs),
        reached=sum(run.threshold_reached_at is not None for run in runs),
        return_mean=None,
        reason=reason,
    )
