"""Groups and runs side by side, and gates: whether a candidate is as good as a baseline."""

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from rlclinic.ops.compare.compare import Comparison
from rlclinic.ops.compare.requests import CompareRequest, RegressRequest
from rlclinic.ops.jobs import progress, start
from rlclinic.ops.jobs.models import Job
from rlclinic.ops.jobs.progress import RegressionView
from rlclinic.ops.jobs.requests import StartRequest
from rlclinic.serve.http.bodies import takes_body, takes_query
from rlclinic.serve.http.context import By, Here, Id, Once, announce, answer_with_etag, find

router = APIRouter(prefix="/api/v1")


@router.get("/compare", response_model=Comparison, tags=["compare"])
@takes_query
async def compare(request: Request, here: Here, asked: CompareRequest) -> Response:
    """Two or more groups: curves, tests, config differences and what they are known to do."""
    from rlclinic.ops.compare.compare import compare

    targets = [find(here, target).id for target in asked.targets]
    comparison: Any = await run_in_threadpool(lambda: compare(targets, here.root, pairwise=asked.pairwise))
    return answer_with_etag(request, comparison)


@router.post("/regressions", response_model=Job, status_code=202, tags=["compare"])
@takes_body
def start_regression(response: Response, here: Here, by: By, request: RegressRequest, about: StartRequest, once: Once = None) -> Job:
    """Train a config on fresh seeds and judge it by a group, in the background. The job names the gate at once."""
    return announce(here, response, start.start_regression(request, by=by, idempotency_key=once, hypothesis=about.hypothesis))


@router.get("/regressions/{id}", response_model=RegressionView, tags=["compare"])
async def get_regression(request: Request, here: Here, id: Id) -> Response:
    """A gate: its rule, its looks, and whether the candidate passed; or how far it is."""
    view: Any = await run_in_threadpool(progress.get_regression, id, here.root)
    return answer_with_etag(request, view)
