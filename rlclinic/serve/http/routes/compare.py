"""Groups and runs side by side."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from rlclinic.ops.compare.compare import Comparison
from rlclinic.serve.http.context import Here, answer_with_etag, find

router = APIRouter(prefix="/api/v1")


@router.get("/compare", response_model=Comparison, tags=["compare"])
async def compare(
    request: Request,
    here: Here,
    of: Annotated[list[str], Query(min_length=2, max_length=12, description="Runs or groups; the first is what others are compared with.")],
    pairwise: bool = False,
) -> Response:
    """Two or more groups: curves, tests, config differences and what they are known to do."""
    from rlclinic.ops.compare.compare import compare

    targets = [find(here, each).id for each in of]
    comparison: Any = await run_in_threadpool(lambda: compare(targets, here.root, pairwise=pairwise))
    return answer_with_etag(request, comparison)
