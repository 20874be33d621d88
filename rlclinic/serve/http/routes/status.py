"""How groups stand that train now, stopping them, and changing their numbers as they train."""

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from rlclinic.ops.jobs import audited
from rlclinic.ops.jobs.audited import Stopped
from rlclinic.ops.status import label
from rlclinic.ops.status.requests import AdjustRequest, LabelRequest, StatusRequest
from rlclinic.ops.status.status import get_training_status
from rlclinic.report.models import LabelQuestion, Requested, StatusReport
from rlclinic.serve.http.bodies import takes_body, takes_query
from rlclinic.serve.http.context import By, Here, Id, Named, answer_with_etag, find_group, find_run

router = APIRouter(prefix="/api/v1")


@router.get("/status", response_model=StatusReport, tags=["groups"])
@takes_query
async def get_status(request: Request, here: Here, asked: StatusRequest) -> Response:
    """How groups stand that are training (or one that is named), what to expect of them, and what to do."""
    named = None if asked.selector is None else find_group(here, asked.selector).id
    report: Any = await run_in_threadpool(get_training_status, named, here.root)
    return answer_with_etag(request, report)


@router.post("/runs/{run}/stop", response_model=Stopped, tags=["runs"])
def stop_run(here: Here, by: By, run: Named) -> Stopped:
    """Ask a run to save a checkpoint and stop."""
    return audited.stop_training(find_run(here, run).id, here.root, by=by)


@router.post("/groups/{group}/stop", response_model=Stopped, tags=["groups"])
def stop_group(here: Here, by: By, group: Named) -> Stopped:
    """Ask all runs of a group to save a checkpoint and stop."""
    return audited.stop_training(find_group(here, group).id, here.root, by=by)


@router.post("/jobs/{id}/stop", response_model=Stopped, tags=["jobs"])
def stop_job(here: Here, by: By, id: Id) -> Stopped:
    """Ask a trial, a search or any job to write checkpoints and stop; started again with its key, it goes on."""
    return audited.stop_training(id, here.root, by=by)


@router.post("/runs/{run}/adjust", response_model=Requested, tags=["runs"])
@takes_body
def adjust_run(here: Here, by: By, run: Named, request: AdjustRequest) -> Requested:
    """Change numbers of a run while it trains (learning_rate, ent_coef, …); recorded, and replayed by a resume."""
    return audited.adjust_run(find_run(here, run).id, request.changes, here.root, by=by)


@router.get("/runs/{run}/question", response_model=LabelQuestion, tags=["runs"])
def get_question(here: Here, run: Named) -> LabelQuestion:
    """What a run asks its expert, who is a person; without an id where nothing is asked."""
    return label.get_question(find_run(here, run).id, here.root)


@router.post("/runs/{run}/question", response_model=LabelQuestion, tags=["runs"])
@takes_body
def answer_question(here: Here, run: Named, request: LabelRequest) -> LabelQuestion:
    """Answer it, and hear what is asked next, if it is asked at once."""
    return label.answer_question(request.model_copy(update={"target": find_run(here, run).id}))


@router.post("/groups/{group}/adjust", response_model=Requested, tags=["groups"])
@takes_body
def adjust_group(here: Here, by: By, group: Named, request: AdjustRequest) -> Requested:
    """Change numbers of all runs of a group while they train."""
    return audited.adjust_run(find_group(here, group).id, request.changes, here.root, by=by)
