"""What is wrong with runs and groups and what to change; configs and environments before they are trained; rules and guides."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from starlette.concurrency import run_in_threadpool

from rlclinic.ops.diagnose import diagnose, history, lint, prescribe, rules, run_environments
from rlclinic.ops.diagnose.ask import guides
from rlclinic.ops.diagnose.ask.answer import ask
from rlclinic.ops.diagnose.export.export import export_zip
from rlclinic.ops.diagnose.export.page import render_page
from rlclinic.ops.diagnose.history import EnvironmentHistory
from rlclinic.ops.diagnose.lint import EnvLintReport, LintReport
from rlclinic.ops.diagnose.requests import AskRequest, DiagnoseRequest, HistoryRequest, LintRequest, RewardBalanceRequest, RuleRequest
from rlclinic.ops.diagnose.rules import RuleList, RulePage
from rlclinic.ops.runs import environments
from rlclinic.ops.runs.ranking import RankedGroup
from rlclinic.ops.runs.requests import ConfigRequest, ExportZipRequest
from rlclinic.ops.tasks import curriculum, explore, reward
from rlclinic.report.ask import AskAnswer
from rlclinic.report.guide import GuideList, GuidePage
from rlclinic.report.models import ConfigView, CurriculumReport, DiagnosisReport, ExplorationReport, Result, RewardBalanceReport
from rlclinic.report.prescription import Prescriptions
from rlclinic.runs import fingerprint
from rlclinic.runs.history import of_run
from rlclinic.runs.record import Group, Run
from rlclinic.serve.http import cache
from rlclinic.serve.http.bodies import takes_body, takes_query
from rlclinic.serve.http.context import (
    BOXED,
    Context,
    Here,
    Named,
    answer_from_cache,
    answer_with_etag,
    encode,
    find,
    find_group,
    find_run,
    patience_of,
)
from rlclinic.serve.http.security import requests

router = APIRouter(prefix="/api/v1")


class Validated(Result):
    """A config as it would be trained, and what is to be said about it before anything is spent."""

    view: ConfigView
    lint: LintReport


# ── runs and groups ──


@router.get("/groups/{group}/diagnosis", response_model=DiagnosisReport, tags=["diagnosis"])
async def get_group_diagnosis(request: Request, here: Here, group: Named) -> Response:
    """What is wrong with a group: ranked causes, findings with the env steps they rest on, what to change, what could not be judged."""
    return cache.respond(request, await diagnosis_of(here, find_group(here, group), patience_of(request)))


@router.get("/runs/{run}/diagnosis", response_model=DiagnosisReport, tags=["diagnosis"])
async def get_run_diagnosis(request: Request, here: Here, run: Named) -> Response:
    """What is wrong with one run."""
    owner = find_run(here, run)
    return await answer_from_cache(request, here, owner, ("diagnosis",), lambda: _diagnose(owner), keep=True, heavy=True)


@router.post("/groups/{group}/diagnosis", response_model=DiagnosisReport, tags=["diagnosis"])
@takes_body
async def diagnose_with_environment(here: Here, group: Named, request: DiagnoseRequest) -> DiagnosisReport:
    """What is wrong with a group, with what its environment shows: that is stepped for some seconds, in a process of its own."""
    owner = find_group(here, group)
    env, evaluation = str(request.env), request.eval_env
    for named in {env, evaluation} - {run_environments.TRAINED, run_environments.OWN, None}:
        requests.registered(here.store, str(named))
    own = env == run_environments.OWN and evaluation is None
    async with here.examining:
        report: DiagnosisReport = await run_in_threadpool(
            lambda: diagnose.diagnose(owner.id, here.root, write=False, env=None if own else env, eval_env=evaluation, own_env=own)
        )
    return report


async def diagnosis_of(here: Context, owner: Group, patience: float | None = None) -> cache.Answer:
    """A group's diagnosis, made if nobody has, or if its files or the best of its peers have changed."""
    peers = await here.peers.of(owner.env_id, owner.algo)
    mark = f"{fingerprint.of(owner)} {peers.mark}"
    make = partial(_encode_diagnosis, owner, peers.outcomes)
    return await here.answers.get(diagnosis_key(owner.id), mark, make, keep=True, heavy=True, patience=patience, group=owner.id)


def diagnosis_key(group: str) -> tuple[str, str]:
    """What a group's diagnosis is kept under."""
    return ("diagnosis", group)


def _encode_diagnosis(owner: Group, others: Sequence[RankedGroup]) -> bytes:
    return encode(_diagnose(owner, others))


def _diagnose(owner: Run | Group, others: Sequence[RankedGroup] = ()) -> DiagnosisReport:
    runs = owner.runs if isinstance(owner, Group) else [owner]
    report = diagnose.examine(owner, [of_run(run) for run in runs], owner.id, others=others)
    # Kept for as long as nothing changes: it must not say how long ago that was.
    return report.model_copy(update={"ended_seconds_ago": None})


@router.get("/groups/{group}/prescriptions", response_model=Prescriptions, tags=["diagnosis"])
async def get_prescriptions(request: Request, here: Here, group: Named) -> Response:
    """At most three config patches for what is wrong, with rationale, expected effect and risk."""
    owner = find_group(here, group)
    return await answer_from_cache(request, here, owner, ("prescriptions",), lambda: _prescribe(owner), keep=True, heavy=True)


def _prescribe(owner: Group) -> Prescriptions:
    return prescribe.prescribe_group(owner).model_copy(update={"target": owner.id})


@router.get("/groups/{group}/exploration", response_model=ExplorationReport, tags=["diagnosis"])
async def get_exploration(request: Request, here: Here, group: Named) -> Response:
    """Whether exploration is what holds the task back, when what is wanted was first met, and which bonus to try."""
    owner = find_group(here, group)
    return await answer_from_cache(request, here, owner, ("exploration",), lambda: explore.explore(owner.id, here.root))


@router.get("/groups/{group}/curriculum", response_model=CurriculumReport, tags=["diagnosis"])
async def get_curriculum(request: Request, here: Here, group: Named) -> Response:
    """Which stages the group went through, how it left them, and what it still can do."""
    owner = find_group(here, group)
    return await answer_from_cache(request, here, owner, ("curriculum",), lambda: curriculum.show_curriculum(owner.id, here.root))


@router.get("/groups/{group}/reward-balance", response_model=RewardBalanceReport, tags=["diagnosis"])
@takes_query
async def get_reward_balance(request: Request, here: Here, group: Named, asked: RewardBalanceRequest) -> Response:
    """Which terms of the reward decided what was learned, and which pull against each other or the task."""
    owner = find_group(here, group)
    key = ("reward-balance", asked.truth or "")
    return await answer_from_cache(request, here, owner, key, lambda: reward.balance_reward(owner.id, here.root, asked.truth))


@router.get("/history", response_model=EnvironmentHistory, tags=["groups"])
@takes_query
async def get_history(request: Request, here: Here, asked: HistoryRequest) -> Response:
    """What was tried on an environment in this store, and what came of it."""
    result: Any = await run_in_threadpool(history.history_of, asked.env, here.root)
    return answer_with_etag(request, result)


# ── before anything is trained ──


@router.post("/config/validate", response_model=Validated, tags=["catalogue"])
@takes_body
def validate_config(here: Here, request: ConfigRequest) -> Validated:
    """A whole config as it would be trained, the numbers that follow from it, and what speaks against it. Nothing is started."""
    ref = requests.safe(here.store, request.ref, request.changes)
    view = environments.show_config(ref, request.changes, here.root)
    return Validated(view=view, lint=lint.lint(ref, request.changes, here.root))


@router.post("/environments/examine", response_model=EnvLintReport, tags=["catalogue"])
@takes_body
async def examine_environment(here: Here, request: LintRequest) -> EnvLintReport:
    """Step a registered environment for some seconds, in a process of its own: spaces, rewards, ends, what simple actions return."""
    env = requests.registered(here.store, str(request.env))
    async with here.examining:
        report: EnvLintReport = await run_in_threadpool(lambda: lint.lint_env(env, seconds=request.seconds))
    return report


@router.get("/groups/{group}/export.html", response_class=Response, responses={200: {"content": {"text/html": {}}}}, tags=["groups"])
def export_page(here: Here, group: Named) -> Response:
    """A group as one HTML file with everything in it: report, diagnosis, a chart of every metric, config, notes, log."""
    owner = find_group(here, group)
    headers = {"content-disposition": f'attachment; filename="{owner.id}.html"', **BOXED}
    return Response(render_page(owner), media_type="text/html; charset=utf-8", headers=headers)


@router.get("/export.zip", response_class=Response, responses={200: {"content": {"application/zip": {}}}}, tags=["groups"])
@takes_query
def export_packed(here: Here, asked: ExportZipRequest) -> Response:
    """Groups or runs as other programs keep them (wandb, mlflow, tensorboard, hf), or as HTML files, in one packed file."""
    ids = [find(here, named).id for named in asked.of]
    packed = export_zip(asked.model_copy(update={"of": ids}))
    name = f"{ids[0] if len(ids) == 1 else 'rlclinic'}-{asked.to}.zip"
    return Response(packed, media_type="application/zip", headers={"content-disposition": f'attachment; filename="{name}"'})


# ── what is known ──


@router.get("/rules", response_model=RuleList, tags=["catalogue"])
@takes_query
def list_rules(request: Request, here: Here, asked: RuleRequest) -> Response:
    """Every rule of the diagnosis, or those of a family."""
    return answer_with_etag(request, rules.list_rules(asked.family))


@router.get("/rules/{id}", response_model=RulePage, tags=["catalogue"])
def get_rule(request: Request, id: Annotated[str, Path(max_length=80)]) -> Response:
    """A rule: why it matters, what it needs, thresholds, an example, references."""
    return answer_with_etag(request, rules.explain_rule(id))


@router.get("/ask", response_model=AskAnswer, tags=["catalogue"])
@takes_query
def answer_question(request: Request, here: Here, asked: AskRequest) -> Response:
    """A question in plain words: what is meant, what the store says about it in numbers, and what to type."""
    return answer_with_etag(request, ask(asked))


@router.get("/guides", response_model=GuideList, tags=["catalogue"])
def list_guides(request: Request) -> Response:
    """Questions that people bring, and what answers them here."""
    return answer_with_etag(request, guides.list_guides())


@router.get("/guides/{name}", response_model=GuidePage, tags=["catalogue"])
def get_guide(request: Request, name: Annotated[str, Path(max_length=300)]) -> Response:
    """One question: what to type, call or open, the steps, what cannot be told, and where it is known from."""
    return answer_with_etag(request, guides.get_guide(name))
