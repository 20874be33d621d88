"""Routes that change something: starts, stops, adjustments, adoptions, notes, removals. Each is written to the audit log."""

from typing import Annotated

from fastapi import APIRouter, Header, Response
from starlette.concurrency import run_in_threadpool

from rlclinic.ops.jobs import audited, start
from rlclinic.ops.jobs.audit import Caller, audit
from rlclinic.ops.jobs.audited import Stopped
from rlclinic.ops.jobs.models import Job
from rlclinic.ops.jobs.prepare import OptimizeRequest, SensitivityRequest, TrialStart
from rlclinic.ops.runs import detail
from rlclinic.ops.runs.detail import NotesView
from rlclinic.ops.runs.listing import remove_runs
from rlclinic.ops.train.plan import TrainRequest
from rlclinic.ops.treat import sensitivity, trial
from rlclinic.ops.treat.adopt import Adopted
from rlclinic.ops.treat.arms import TrialRequest
from rlclinic.ops.treat.sensitivity import SensitivityPlan
from rlclinic.ops.treat.trial import Preview
from rlclinic.report.models import Removed, Requested
from rlclinic.runs.store import Store
from rlclinic.serve.http.context import By, Context, Here, find_group, find_run
from rlclinic.serve.http.routes.catalog import Id
from rlclinic.serve.http.routes.reading import Named
from rlclinic.serve.http.security import requests
from rlclinic.serve.http.security.requests import AdjustBody, AdoptBody, NotesBody, OptimizeBody, SensitivityBody, TrainBody, TrialBody
from rlclinic.treatment.sensitivity.study import Scope

router = APIRouter(prefix="/api/v1")

Once = Annotated[requests.Key | None, Header(alias="Idempotency-Key", description="The same key is the same start: it is made once.")]


# ── starting ──


@router.post("/trainings", response_model=Job, status_code=202, tags=["jobs"])
def start_training(response: Response, here: Here, by: By, body: TrainBody, once: Once = None) -> Job:
    """Train in the background. The job names the group and its runs at once; they outlive the server."""
    _check_training(here.store, body)
    asked = TrainRequest(**body.model_dump(exclude={"hypothesis"}), runs_dir=here.root)
    return _started(here, response, start.start_training(asked, by=by, idempotency_key=once, hypothesis=body.hypothesis))


@router.post("/trials", response_model=Job, status_code=202, tags=["trials"])
def start_trial(response: Response, here: Here, by: By, body: TrialBody, once: Once = None) -> Job:
    """Try a change against its control on fresh seeds, in the background. The job names the trial at once."""
    _check_trial(here.store, body)
    asked = TrialStart(**body.model_dump(exclude={"hypothesis"}), runs_dir=here.root)
    return _started(here, response, start.start_trial(asked, by=by, idempotency_key=once, hypothesis=body.hypothesis))


@router.post("/trials/preview", response_model=Preview, tags=["trials"])
async def preview_trial(here: Here, body: TrialBody) -> Preview:
    """What a trial would do, cost and be able to see. Nothing is started."""
    _check_trial(here.store, body)
    asked = TrialRequest(**body.model_dump(exclude={"hypothesis", "resume"}), runs_dir=here.root)
    found: Preview = await run_in_threadpool(trial.plan_trial, asked)
    return found


@router.post("/studies/optimize", response_model=Job, status_code=202, tags=["studies"])
def start_optimize(response: Response, here: Here, by: By, body: OptimizeBody, once: Once = None) -> Job:
    """Search for a better config in the background. The job names the search at once."""
    if body.resume is None:
        requests.safe(here.store, body.target, body.changes)
    asked = OptimizeRequest(**body.model_dump(exclude={"hypothesis"}), runs_dir=here.root)
    return _started(here, response, start.start_optimize(asked, by=by, idempotency_key=once, hypothesis=body.hypothesis))


@router.post("/studies/sensitivity", response_model=Job, status_code=202, tags=["studies"])
def start_sensitivity(response: Response, here: Here, by: By, body: SensitivityBody, once: Once = None) -> Job:
    """Vary every number of a config in the background. The job names the study at once."""
    if body.resume is None:
        requests.safe(here.store, body.target, body.changes)
    asked = SensitivityRequest(**body.model_dump(exclude={"hypothesis"}), runs_dir=here.root)
    return _started(here, response, start.start_sensitivity(asked, by=by, idempotency_key=once, hypothesis=body.hypothesis))


@router.post("/studies/sensitivity/preview", response_model=SensitivityPlan, tags=["studies"])
async def preview_sensitivity(here: Here, body: SensitivityBody) -> SensitivityPlan:
    """What a study would train and cost. Nothing is started."""
    requests.safe(here.store, body.target, body.changes)
    scope = Scope(body.factors, body.seeds, body.only, body.shapes)
    found: SensitivityPlan = await run_in_threadpool(sensitivity.plan, body.target, here.root, scope, body.changes)
    return found


def _check_training(store: Store, body: TrainBody) -> None:
    if body.ref is not None:
        requests.safe(store, body.ref, body.changes)
    if body.resume is not None:
        requests.safe(store, body.resume, body.changes)


def _check_trial(store: Store, body: TrialBody) -> None:
    for target in body.targets or (["@last"] if body.resume is None else []):
        requests.safe(store, target, body.changes)


def _started(here: Context, response: Response, job: Job) -> Job:
    if job.repeated:
        response.status_code = 200
    response.headers["location"] = f"/api/v1/jobs/{job.id}"
    here.watch.look(now=True)
    return job


# ── runs that train now ──


@router.post("/runs/{run}/stop", response_model=Stopped, tags=["runs"])
def stop_run(here: Here, by: By, run: Named) -> Stopped:
    """Ask a run to save a checkpoint and stop."""
    return audited.stop_training(find_run(here, run).id, here.root, by=by)


@router.post("/groups/{group}/stop", response_model=Stopped, tags=["groups"])
def stop_group(here: Here, by: By, group: Named) -> Stopped:
    """Ask all runs of a group to save a checkpoint and stop."""
    return audited.stop_training(find_group(here, group).id, here.root, by=by)


@router.post("/runs/{run}/adjust", response_model=Requested, tags=["runs"])
def adjust_run(here: Here, by: By, run: Named, body: AdjustBody) -> Requested:
    """Change numbers of a run while it trains (learning_rate, ent_coef, …); recorded, and replayed by a resume."""
    return audited.adjust_run(find_run(here, run).id, list(body.changes), here.root, by=by)


@router.post("/groups/{group}/adjust", response_model=Requested, tags=["groups"])
def adjust_group(here: Here, by: By, group: Named, body: AdjustBody) -> Requested:
    """Change numbers of all runs of a group while they train."""
    return audited.adjust_run(find_group(here, group).id, list(body.changes), here.root, by=by)


# ── what is kept ──


@router.post("/jobs/{id}/stop", response_model=Stopped, tags=["jobs"])
def stop_job(here: Here, by: By, id: Id) -> Stopped:
    """Ask a trial, a search or any job to write checkpoints and stop; started again with its key, it goes on."""
    return audited.stop_training(id, here.root, by=by)


@router.post("/trials/{id}/adopt", response_model=Adopted, tags=["trials"])
def adopt(here: Here, by: By, id: Id, body: AdoptBody) -> Adopted:
    """Keep the winner of a trial as ENV:VARIANT in config/environments of the server's working folder."""
    requests.safe(here.store, body.ref.rpartition(":")[0] or body.ref)
    return audited.adopt_trial(id, body.ref, here.root, by=by, force=body.force, dry_run=body.dry_run)


@router.put("/runs/{run}/notes", response_model=NotesView, tags=["runs"])
def put_run_notes(here: Here, run: Named, body: NotesBody) -> NotesView:
    """Replace the tags or the note of a run."""
    return _noted(here, find_run(here, run).id, body)


@router.put("/groups/{group}/notes", response_model=NotesView, tags=["groups"])
def put_group_notes(here: Here, group: Named, body: NotesBody) -> NotesView:
    """Replace the tags or the note of a group."""
    return _noted(here, find_group(here, group).id, body)


def _noted(here: Context, id: str, body: NotesBody) -> NotesView:
    done = detail.annotate(id, here.root, tags=body.tags, note=body.note)
    here.watch.look(now=True)
    return done


@router.delete("/runs/{run}", response_model=Removed, tags=["runs"])
def remove_run(here: Here, by: By, run: Named, dry_run: bool = False) -> Removed:
    """Delete a run that is not being written."""
    return _removed(here, by, find_run(here, run).id, dry_run)


@router.delete("/groups/{group}", response_model=Removed, tags=["groups"])
def remove_group(here: Here, by: By, group: Named, dry_run: bool = False) -> Removed:
    """Delete a group with all its runs, none of which is being written."""
    return _removed(here, by, find_group(here, group).id, dry_run)


def _removed(here: Context, by: Caller, id: str, dry_run: bool) -> Removed:
    done = remove_runs([id], here.root, dry_run=dry_run)
    if not dry_run:
        audit(here.store, by, "remove", id, runs=done.runs, groups=done.groups)
        here.watch.look(now=True)
    return done
