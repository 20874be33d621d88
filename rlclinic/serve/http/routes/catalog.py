"""Routes that only look at what is not a run: trials, studies, comparisons, rules, environments, configs, jobs, the audit log."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from rlclinic.errors import NotFound
from rlclinic.ops.compare import compare as comparing
from rlclinic.ops.compare.compare import Comparison
from rlclinic.ops.diagnose import guides, history, lint, rules
from rlclinic.ops.diagnose.guides import GuideList, GuidePage
from rlclinic.ops.diagnose.history import EnvironmentHistory
from rlclinic.ops.diagnose.lint import EnvLintReport, LintReport
from rlclinic.ops.diagnose.rules import RuleList, RulePage
from rlclinic.ops.jobs import audit, budget, daily_report, models, progress, queue, start
from rlclinic.ops.jobs.audit import AuditLog, Ledger
from rlclinic.ops.jobs.budget import Budget
from rlclinic.ops.jobs.daily_report import MorningReport
from rlclinic.ops.jobs.models import Job, JobList
from rlclinic.ops.jobs.progress import SearchView, SensitivityView, TrialView
from rlclinic.ops.runs import environments
from rlclinic.ops.train import machine
from rlclinic.ops.treat import trial
from rlclinic.ops.treat.trial import TrialList
from rlclinic.report.models import ConfigView, Diagnostics, EnvironmentList, Part, Result
from rlclinic.runs import coerce, studies
from rlclinic.runs.store import Store
from rlclinic.serve.http.context import Here, find, tagged
from rlclinic.serve.http.security import requests
from rlclinic.serve.http.security.requests import ExamineBody

router = APIRouter(prefix="/api/v1")

Id = Annotated[str, Path(pattern=r"^(@last|[A-Za-z0-9][A-Za-z0-9._-]{0,63})$")]
Limit = Annotated[int, Query(ge=1, le=500)]
StudyKind = Literal["optimize", "sensitivity"]


class StudyRow(Part):
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


class Validated(Result):
    """A config as it would be trained, and what is to be said about it before anything is spent."""

    view: ConfigView
    lint: LintReport


class ConfigBody(BaseModel):
    """A config to look at."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    ref: str = Field(min_length=1, max_length=200)
    """CartPole-v1:ppo, an environment, a run or a group."""
    changes: list[requests.Change] = Field([], max_length=50)
    """KEY=VALUE settings."""


# ── trials and studies ──


@router.get("/trials", response_model=TrialList, tags=["trials"])
async def list_trials(request: Request, here: Here) -> Response:
    """Trials, newest first."""

    def listed() -> TrialList:
        waiting, found = queue.waiting(here.store), trial.list_trials(here.root)
        return TrialList(trials=[row.model_copy(update={"state": "queued"}) if row.id in waiting else row for row in found.trials])

    return tagged(request, await run_in_threadpool(listed))


@router.get("/trials/{id}", response_model=TrialView, tags=["trials"])
async def get_trial(request: Request, here: Here, id: Id) -> Response:
    """A trial: arms, looks, effects with their intervals, verdict."""
    found: Any = await run_in_threadpool(progress.get_trial, id, here.root)
    return tagged(request, found)


@router.get("/studies", response_model=StudyList, tags=["studies"])
def list_studies(request: Request, here: Here) -> Response:
    """Searches and sensitivity studies, newest first."""
    kinds: tuple[StudyKind, ...] = ("optimize", "sensitivity")
    waiting = queue.waiting(here.store)
    found = [_study_row(here.store, kind, id, id in waiting) for kind in kinds for id in studies.ids(here.store, kind)]
    return tagged(request, StudyList(studies=sorted(found, key=lambda row: -row.created)))


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
    found: Any = await run_in_threadpool(progress.get_optimize, id, here.root)
    return tagged(request, found)


@router.get("/studies/sensitivity/{id}", response_model=SensitivityView, tags=["studies"])
async def get_sensitivity(request: Request, here: Here, id: Id) -> Response:
    """A sensitivity study: what each number of a config does, or how far it is."""
    found: Any = await run_in_threadpool(progress.get_sensitivity, id, here.root)
    return tagged(request, found)


# ── comparing ──


@router.get("/compare", response_model=Comparison, tags=["compare"])
async def compare(
    request: Request,
    here: Here,
    of: Annotated[list[str], Query(min_length=2, max_length=12, description="Runs or groups; the first is what others are compared with.")],
    pairwise: bool = False,
) -> Response:
    """Two or more groups: curves, tests, config differences and what they are known to do."""
    targets = [find(here, each).id for each in of]
    found: Any = await run_in_threadpool(lambda: comparing.compare(targets, here.root, pairwise=pairwise))
    return tagged(request, found)


@router.get("/history", response_model=EnvironmentHistory, tags=["groups"])
async def get_history(request: Request, here: Here, env: Annotated[str, Query(min_length=1, max_length=100)]) -> Response:
    """What was tried on an environment in this store, and what came of it."""
    found: Any = await run_in_threadpool(history.history_of, env, here.root)
    return tagged(request, found)


# ── what is known ──


@router.get("/rules", response_model=RuleList, tags=["catalogue"])
def list_rules(request: Request, family: Annotated[str | None, Query(max_length=60)] = None) -> Response:
    """Every rule of the diagnosis, or those of a family."""
    return tagged(request, rules.list_rules(family))


@router.get("/rules/{id}", response_model=RulePage, tags=["catalogue"])
def get_rule(request: Request, id: Annotated[str, Path(max_length=80)]) -> Response:
    """A rule: why it matters, what it needs, thresholds, an example, references."""
    return tagged(request, rules.explain_rule(id))


@router.get("/guides", response_model=GuideList, tags=["catalogue"])
def list_guides(request: Request) -> Response:
    """Questions that people bring, and what answers them here."""
    return tagged(request, guides.list_guides())


@router.get("/guides/{name}", response_model=GuidePage, tags=["catalogue"])
def get_guide(request: Request, name: Annotated[str, Path(max_length=300)]) -> Response:
    """One question: what to type, call or open, the steps, what cannot be told, and where it is known from."""
    return tagged(request, guides.get_guide(name))


@router.post("/environments/examine", response_model=EnvLintReport, tags=["catalogue"])
async def examine_environment(here: Here, body: ExamineBody) -> EnvLintReport:
    """Step a registered environment for some seconds, in a process of its own: spaces, rewards, ends, what simple actions return."""
    env = requests.registered(here.store, body.env)
    async with here.examining:
        found: EnvLintReport = await run_in_threadpool(lambda: lint.lint_env(env, seconds=body.seconds))
    return found


@router.get("/environments", response_model=EnvironmentList, tags=["catalogue"])
def list_environments(request: Request, pattern: Annotated[str, Query(max_length=100)] = "") -> Response:
    """Environments with tuned variants, their thresholds and what was measured."""
    return tagged(request, environments.list_environments(pattern))


@router.post("/config/validate", response_model=Validated, tags=["catalogue"])
def validate_config(here: Here, body: ConfigBody) -> Validated:
    """A whole config as it would be trained, the numbers that follow from it, and what speaks against it. Nothing is started."""
    ref = requests.safe(here.store, body.ref, body.changes)
    view = environments.show_config(ref, body.changes, here.root)
    return Validated(view=view, lint=lint.lint(ref, body.changes, here.root))


@router.get("/doctor", response_model=Diagnostics, tags=["catalogue"])
async def get_doctor(request: Request, here: Here) -> Response:
    """The state of this installation and machine."""
    found: Any = await run_in_threadpool(machine.doctor, here.root)
    return tagged(request, found)


# ── what was started and done ──


@router.get("/jobs", response_model=JobList, tags=["jobs"])
def list_jobs(request: Request, here: Here, limit: Limit = 50) -> Response:
    """What was started in the background, newest first."""
    return tagged(request, start.list_jobs(here.root, limit=limit))


@router.get("/jobs/{id}", response_model=Job, tags=["jobs"])
def get_job(request: Request, here: Here, id: Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]) -> Response:
    """A start, by its own id or by the group, trial or search that it made."""
    found = models.of(here.store, id)
    if found is None:
        raise NotFound(f"no job {id!r} in {here.root}.\n  See what there is: GET /api/v1/jobs")
    return tagged(request, found)


@router.get("/ledger", response_model=Ledger, tags=["jobs"])
def get_ledger(request: Request, here: Here, limit: Limit = 50) -> Response:
    """What was tried, with its hypothesis and its outcome, newest first."""
    return tagged(request, audit.get_ledger(here.root, limit=limit))


@router.get("/morning", response_model=MorningReport, tags=["jobs"])
async def get_morning(
    request: Request, here: Here, seconds: Annotated[float, Query(gt=0, le=1e8)] = daily_report.NIGHT_SECONDS
) -> Response:
    """What ran, what was found, what is adopted and what is left, over the last day or another time."""
    found: Any = await run_in_threadpool(lambda: daily_report.morning_report(here.root, since_seconds=seconds))
    return tagged(request, found)


@router.get("/budget", response_model=Budget, tags=["jobs"])
def get_budget(request: Request, here: Here) -> Response:
    """What agents may use in this store, and what is left of it."""
    return tagged(request, budget.get_budget(here.root))


@router.get("/audit", response_model=AuditLog, tags=["jobs"])
def get_audit(request: Request, here: Here, limit: Limit = 100) -> Response:
    """Who started, stopped, adjusted or adopted what, newest first."""
    return tagged(request, audit.audit_log(here.root, limit=limit))
