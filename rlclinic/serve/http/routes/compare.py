"""Groups and runs side by side."""

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from rlclinic.ops.compare.compare import Comparison
from rlclinic.ops.compare.requests import CompareRequest
from rlclinic.serve.http.bodies import takes_query
from rlclinic.serve.http.context import Here, answer_with_etag, find

router = APIRouter(prefix="/api/v1")


@router.get("/compare", response_model=Comparison, tags=["compare"])
@takes_query
async def compare(request: Request, here: Here, asked: CompareRequest) -> Response:
    """Two or more groups: curves, tests, config differences and what they are known to do."""
    from rlclinic.ops.compare.compare import compare

    targets = [find(here, target).id for target in asked.targets]
    comparison: Any = await run_in_threadpool(lambda: compare(targets, here.root, pairwise=asked.pairwise))
    return answer_with_etag(request, comparison)
