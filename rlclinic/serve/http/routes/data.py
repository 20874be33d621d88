"""Recorded data in the store or in Minari's folder: what is in it, which way suits it, and what a policy is worth by it."""

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool

from rlclinic.ops.data.requests import AdviseRequest, CheckRequest, EvaluateRequest
from rlclinic.report.models import DataAdvice, DataReport, PolicyEvaluation
from rlclinic.serve.http.bodies import takes_body
from rlclinic.serve.http.context import Here, find
from rlclinic.serve.http.security import requests

router = APIRouter(prefix="/api/v1")


@router.post("/data/check", response_model=DataReport, tags=["data"])
@takes_body
async def check_data(here: Here, request: CheckRequest) -> DataReport:
    """What is in recorded data, and what is wrong with it."""
    from rlclinic.ops.data.check import check

    requests.check_data(here.store, request.data)
    if request.beside is not None:
        requests.check_data(here.store, request.beside)
    async with here.examining:
        return await run_in_threadpool(check, request)


@router.post("/data/advice", response_model=DataAdvice, tags=["data"])
@takes_body
async def advise_data(here: Here, request: AdviseRequest) -> DataAdvice:
    """Which way suits recorded data: imitation, offline RL, online RL, or both; each reason with its number."""
    from rlclinic.ops.data.advise import advise

    requests.check_data(here.store, request.data)
    if request.env is not None:
        requests.registered(here.store, request.env)
    async with here.examining:
        return await run_in_threadpool(advise, request)


@router.post("/data/evaluation", response_model=PolicyEvaluation, tags=["data"])
@takes_body
async def evaluate_policy(here: Here, request: EvaluateRequest) -> PolicyEvaluation:
    """What a trained policy would earn, from recorded data alone; where the data cannot tell, that is said."""
    from rlclinic.ops.data.evaluate import evaluate

    requests.check_data(here.store, request.data)
    for policy in (request.policy, *request.beside):
        find(here, policy)
    async with here.examining:
        return await run_in_threadpool(evaluate, request)
