"""What was started in the background, what agents may use and did, and who did what."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from starlette.concurrency import run_in_threadpool

from rlclinic.errors import NotFound
from rlclinic.ops.jobs import audit, budget, daily_report, efficiency, models, start
from rlclinic.ops.jobs.audit import AuditLog, Ledger
from rlclinic.ops.jobs.models import Job, JobList
from rlclinic.ops.jobs.requests import AuditRequest, JobsRequest, LedgerRequest, ReportRequest
from rlclinic.report.jobs.daily_report import Budget, MorningReport
from rlclinic.report.jobs.efficiency import EfficiencyReport
from rlclinic.serve.http.bodies import takes_query
from rlclinic.serve.http.context import Here, Named, answer_with_etag, find_group

router = APIRouter(prefix="/api/v1")


@router.get("/jobs", response_model=JobList, tags=["jobs"])
@takes_query
def list_jobs(request: Request, here: Here, asked: JobsRequest) -> Response:
    """What was started in the background, newest first."""
    return answer_with_etag(request, start.list_jobs(here.root, limit=asked.limit))


@router.get("/jobs/{id}", response_model=Job, tags=["jobs"])
def get_job(request: Request, here: Here, id: Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]) -> Response:
    """A start, by its own id or by the group, trial or search that it made."""
    job = models.of(here.store, id)
    if job is None:
        raise NotFound(f"no job {id!r} in {here.root}.\n  See what there is: GET /api/v1/jobs")
    return answer_with_etag(request, job)


@router.get("/ledger", response_model=Ledger, tags=["jobs"])
@takes_query
def get_ledger(request: Request, here: Here, asked: LedgerRequest) -> Response:
    """What was tried, with its hypothesis and its outcome, newest first."""
    return answer_with_etag(request, audit.get_ledger(here.root, limit=asked.limit))


@router.get("/morning", response_model=MorningReport, tags=["jobs"])
@takes_query
async def get_morning(request: Request, here: Here, asked: ReportRequest) -> Response:
    """What ran, what was found, what is adopted and what is left, over the last day or another time."""
    report: Any = await run_in_threadpool(lambda: daily_report.morning_report(here.root, hours=asked.hours))
    return answer_with_etag(request, report)


@router.get("/budget", response_model=Budget, tags=["jobs"])
def get_budget(request: Request, here: Here) -> Response:
    """What agents may use in this store, and what is left of it."""
    return answer_with_etag(request, budget.get_budget(here.root))


@router.get("/audit", response_model=AuditLog, tags=["jobs"])
@takes_query
def get_audit(request: Request, here: Here, asked: AuditRequest) -> Response:
    """Who started, stopped, adjusted or adopted what, newest first."""
    return answer_with_etag(request, audit.audit_log(here.root, limit=asked.limit))


@router.get("/groups/{group}/efficiency", response_model=EfficiencyReport, tags=["groups"])
async def get_efficiency(request: Request, here: Here, group: Named) -> Response:
    """Where the time of a group's training went, what it cost, and what another worker would gain."""
    named = find_group(here, group).id
    report: Any = await run_in_threadpool(efficiency.report_efficiency, named, here.root)
    return answer_with_etag(request, report)
