"""Trials, races, searches and sensitivity studies: planning, starting, looking at them, and keeping what won."""

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from rlclinic.ops.jobs import audited, progress, queue, start
from rlclinic.ops.jobs.models import Job
from rlclinic.ops.jobs.progress import RaceView, SearchView, SensitivityView, TrialView
from rlclinic.ops.jobs.requests import StartRequest
from rlclinic.ops.treat import questions, race, sensitivity, trial
from rlclinic.ops.treat.adopt import Adopted
from rlclinic.ops.treat.race import RaceList, RacePreview, RaceRow
from rlclinic.ops.treat.requests import AdoptRequest, OptimizeRequest, QuestionsRequest, RaceRequest, SensitivityRequest, TrialRequest
from rlclinic.ops.treat.sensitivity import SensitivityPlan
from rlclinic.ops.treat.trial import Preview, TrialList, TrialRow
from rlclinic.report.models import Result, ResultPart
from rlclinic.report.questions import QuestionList
from rlclinic.runs import coerce, studies
from rlclinic.runs.store import Store
from rlclinic.serve.http.bodies import takes_body, takes_query
from rlclinic.serve.http.context import By, Here, Id, Once, announce, answer_with_etag
from rlclinic.serve.http.security import requests

router = APIRouter(prefix="/api/v1")

StudyKind = Literal["optimize", "sensitivity"]


class StudyRow(ResultPart):
    """A search or a sensitivity study in a list."""

    id: str
    kind: StudyKind
    target: str
    env: str
    algo: str
    state: str
    created: float


class StudyList(Result):
    """Searches and sensitivity studies, newest first."""

    studies: list[StudyRow]


Row = TypeVar("Row", TrialRow, RaceRow)


def _mark_waiting(store: Store, rows: Sequence[Row]) -> list[Row]:
    """Those whose turn has not come are queued, whatever their own files say."""
    waiting = queue.waiting(store)
    return [row.model_copy(update={"state": "queued"}) if row.id in waiting else row for row in rows]


# ── trials ──


@router.get("/trials", response_model=TrialList, tags=["trials"])
async def list_trials(request: Request, here: Here) -> Response:
    """Trials, newest first."""
    listed = await run_in_threadpool(trial.list_trials, here.root)
    return answer_with_etag(request, TrialList(trials=await run_in_threadpool(_mark_waiting, here.store, listed.trials)))


@router.get("/trials/{id}", response_model=TrialView, tags=["trials"])
async def get_trial(request: Request, here: Here, id: Id) -> Response:
    """A trial: arms, looks, effects with their intervals, verdict."""
    view: Any = await run_in_threadpool(progress.get_trial, id, here.root)
    return answer_with_etag(request, view)


@router.post("/trials", response_model=Job, status_code=202, tags=["trials"])
@takes_body
def start_trial(response: Response, here: Here, by: By, request: TrialRequest, about: StartRequest, once: Once = None) -> Job:
    """Try a change against its control on fresh seeds, in the background. The job names the trial at once."""
    return announce(here, response, start.start_trial(request, by=by, idempotency_key=once, hypothesis=about.hypothesis))


@router.post("/trials/preview", response_model=Preview, tags=["trials"])
@takes_body
async def preview_trial(here: Here, request: TrialRequest, about: StartRequest) -> Preview:
    """What a trial would do, cost and be able to see. Nothing is started."""
    preview: Preview = await run_in_threadpool(trial.plan_trial, request)
    return preview


@router.post("/trials/{id}/adopt", response_model=Adopted, tags=["trials"])
@takes_body
def adopt(here: Here, by: By, id: Id, request: AdoptRequest) -> Adopted:
    """Keep the winner of a trial as ENV:VARIANT in config/environments of the server's working folder."""
    requests.safe(here.store, request.ref.rpartition(":")[0] or request.ref)
    return audited.adopt_trial(**request.arguments, runs_dir=here.root, by=by)


@router.get("/questions", response_model=QuestionList, tags=["trials"])
@takes_query
async def list_questions(request: Request, here: Here, asked: QuestionsRequest) -> Response:
    """What was asked of the store, how often, with which verdicts, and the error that is spent on each question."""
    found: Any = await run_in_threadpool(questions.list_questions, asked)
    return answer_with_etag(request, found)


# ── races ──


@router.get("/races", response_model=RaceList, tags=["races"])
async def list_races(request: Request, here: Here) -> Response:
    """Races, newest first."""
    listed = await run_in_threadpool(race.list_races, here.root)
    return answer_with_etag(request, RaceList(races=await run_in_threadpool(_mark_waiting, here.store, listed.races)))


@router.get("/races/{id}", response_model=RaceView, tags=["races"])
async def get_race(request: Request, here: Here, id: Id) -> Response:
    """A race: the ranking with sets of ranks and intervals, rounds, verdict."""
    view: Any = await run_in_threadpool(progress.get_race, id, here.root)
    return answer_with_etag(request, view)


@router.post("/races", response_model=Job, status_code=202, tags=["races"])
@takes_body
def start_race(response: Response, here: Here, by: By, request: RaceRequest, about: StartRequest, once: Once = None) -> Job:
    """Find out which of many configs is best, in the background. The job names the race at once."""
    return announce(here, response, start.start_race(request, by=by, idempotency_key=once, hypothesis=about.hypothesis))


@router.post("/races/preview", response_model=RacePreview, tags=["races"])
@takes_body
async def preview_race(here: Here, request: RaceRequest, about: StartRequest) -> RacePreview:
    """What a race would do, cost and be able to see. Nothing is started."""
    preview: RacePreview = await run_in_threadpool(race.plan_race, request)
    return preview


# ── searches and studies ──


@router.get("/studies", response_model=StudyList, tags=["studies"])
def list_studies(request: Request, here: Here) -> Response:
    """Searches and sensitivity studies, newest first."""
    kinds: tuple[StudyKind, ...] = ("optimize", "sensitivity")
    waiting = queue.waiting(here.store)
    rows = [_study_row(here.store, kind, id, id in waiting) for kind in kinds for id in studies.ids(here.store, kind)]
    return answer_with_etag(request, StudyList(studies=sorted(rows, key=lambda row: -row.created)))


def _study_row(store: Store, kind: StudyKind, id: str, waits: bool) -> StudyRow:
    about = studies.read(store, kind, id)
    texts = {name: coerce.text(about.get(name)) or "?" for name in ("target", "env_id", "algo", "state")}
    created = coerce.real(about.get("created")) or 0.0
    return StudyRow(
        id=id,
        kind=kind,
        target=texts["target"],
        env=texts["env_id"],
        algo=texts["algo"],
        state="queued" if waits else texts["state"],
        created=created,
    )


@router.get("/studies/optimize/{id}", response_model=SearchView, tags=["studies"])
async def get_optimize(request: Request, here: Here, id: Id) -> Response:
    """A search: rounds, entries, what is best so far, what it cost."""
    view: Any = await run_in_threadpool(progress.get_optimize, id, here.root)
    return answer_with_etag(request, view)


@router.get("/studies/sensitivity/{id}", response_model=SensitivityView, tags=["studies"])
async def get_sensitivity(request: Request, here: Here, id: Id) -> Response:
    """A sensitivity study: what each number of a config does, or how far it is."""
    view: Any = await run_in_threadpool(progress.get_sensitivity, id, here.root)
    return answer_with_etag(request, view)


@router.post("/studies/optimize", response_model=Job, status_code=202, tags=["studies"])
@takes_body
def start_optimize(response: Response, here: Here, by: By, request: OptimizeRequest, about: StartRequest, once: Once = None) -> Job:
    """Search for a better config in the background. The job names the search at once."""
    return announce(here, response, start.start_optimize(request, by=by, idempotency_key=once, hypothesis=about.hypothesis))


@router.post("/studies/sensitivity", response_model=Job, status_code=202, tags=["studies"])
@takes_body
def start_sensitivity(response: Response, here: Here, by: By, request: SensitivityRequest, about: StartRequest, once: Once = None) -> Job:
    """Vary every number of a config in the background. The job names the study at once."""
    return announce(here, response, start.start_sensitivity(request, by=by, idempotency_key=once, hypothesis=about.hypothesis))


@router.post("/studies/sensitivity/preview", response_model=SensitivityPlan, tags=["studies"])
@takes_body
async def preview_sensitivity(here: Here, request: SensitivityRequest, about: StartRequest) -> SensitivityPlan:
    """What a study would train and cost. Nothing is started."""
    # Also where a study to go on with is named, which a preview does not look at.
    requests.safe(here.store, request.target, request.changes)
    plan: SensitivityPlan = await run_in_threadpool(sensitivity.plan, request)
    return plan
