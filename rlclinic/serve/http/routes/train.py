"""Training, and whether this machine is fit for it."""

import time

from fastapi import APIRouter, Request, Response

from rlclinic.ops.jobs import start
from rlclinic.ops.jobs.models import Job
from rlclinic.ops.jobs.requests import StartRequest
from rlclinic.ops.train import machine
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.report.models import Diagnostics
from rlclinic.serve.http import cache
from rlclinic.serve.http.bodies import takes_body
from rlclinic.serve.http.context import By, Here, Once, announce, encode

router = APIRouter(prefix="/api/v1")


@router.post("/trainings", response_model=Job, status_code=202, tags=["jobs"])
@takes_body
def start_training(response: Response, here: Here, by: By, request: TrainRequest, about: StartRequest, once: Once = None) -> Job:
    """Train in the background. The job names the group and its runs at once; they outlive the server."""
    return announce(here, response, start.start_training(request, by=by, idempotency_key=once, hypothesis=about.hypothesis))


@router.get("/doctor", response_model=Diagnostics, tags=["catalogue"])
async def get_doctor(request: Request, here: Here) -> Response:
    """The state of this installation and machine."""
    # It imports what is installed, and takes seconds: once a minute is often enough, however many ask.
    minute = str(int(time.time() // 60))
    return cache.respond(request, await here.answers.get(("doctor",), minute, lambda: encode(machine.doctor(here.root))))
