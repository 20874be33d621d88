"""Routes that only look: runs and groups, their series, logs, checkpoints, diagnoses and prescriptions."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from rlclinic.ops.diagnose import diagnose, prescribe
from rlclinic.ops.diagnose.prescribe import Prescriptions
from rlclinic.ops.runs import curves, detail, environments, search, series
from rlclinic.ops.runs.curves import Axis, Curves
from rlclinic.ops.runs.detail import GroupDetail, LogPage, RunDetail
from rlclinic.ops.runs.listing import list_checkpoints
from rlclinic.ops.runs.ranking import Outcome
from rlclinic.ops.runs.search import Facets, GroupPage, RunPage
from rlclinic.ops.runs.series import Series
from rlclinic.ops.status.status import get_training_status
from rlclinic.report.models import CheckpointList, ConfigView, DiagnosisReport, StatusReport
from rlclinic.runs import fingerprint, history
from rlclinic.runs.record import Group, Run
from rlclinic.serve.http import cache
from rlclinic.serve.http.context import SELECTOR, Context, Here, cached, dumped, find, find_group, find_run, tagged

router = APIRouter(prefix="/api/v1")

Named = Annotated[str, Path(pattern=SELECTOR, description="An id, a unique beginning, @last, @last~1, @best or @running.")]
Names = Annotated[list[str] | None, Query(max_length=64, description="Columns, or parts of their names; none: the main ones.")]
Points = Annotated[int, Query(ge=2, le=series.MOST_POINTS, description="At most this many buckets.")]
Asked = Annotated[search.Query, Query()]


# ── lists ──


@router.get("/runs", response_model=RunPage, tags=["runs"])
async def list_runs(request: Request, here: Here, asked: Asked) -> Response:
    """Runs that match, a page at a time."""
    return await _listed(request, here, "runs", asked)


@router.get("/groups", response_model=GroupPage, tags=["groups"])
async def list_groups(request: Request, here: Here, asked: Asked) -> Response:
    """Groups that match, a page at a time."""
    return await _listed(request, here, "groups", asked)


@router.get("/facets", response_model=Facets, tags=["groups"])
async def get_facets(request: Request, here: Here) -> Response:
    """What lists can be narrowed to, with how many groups each."""
    found = await here.answers.get("facets", here.watch.version, lambda: dumped(search.facets(here.index)))
    return cache.respond(request, found)


async def _listed(request: Request, here: Here, kind: str, asked: search.Query) -> Response:
    look = search.search_runs if kind == "runs" else search.search_groups
    # The same question about an unchanged index has the same answer.
    found = await here.answers.get((kind, asked), here.watch.version, lambda: dumped(look(here.index, asked)))
    return cache.respond(request, found)


# ── one run ──


@router.get("/runs/{run}", response_model=RunDetail, tags=["runs"])
async def get_run(request: Request, here: Here, run: Named) -> Response:
    """Everything about a run but its series."""
    owner = find_run(here, run)
    return await cached(request, here, owner, ("run",), lambda: detail.run_detail(owner))


@router.get("/runs/{run}/metrics", response_model=Series, tags=["runs"])
async def get_run_metrics(
    request: Request, here: Here, run: Named, names: Names = None, points: Points = 500, since: Annotated[float, Query()] = -1.0
) -> Response:
    """Columns of numbers on one axis, bucketed with mean, min and max so that a spike survives; `since` an env step: what came after."""
    owner = find_run(here, run)
    key = ("metrics", tuple(names or ()), points, since)
    return await cached(request, here, owner, key, lambda: series.run_series(owner, names or (), points=points, since=since))


@router.get("/runs/{run}/log", response_model=LogPage, tags=["runs"])
def get_run_log(
    request: Request,
    here: Here,
    run: Named,
    after: Annotated[int | None, Query(ge=0)] = None,
    before: Annotated[int | None, Query(ge=0)] = None,
    bytes: Annotated[int, Query(ge=100, le=detail.MOST_LOG_BYTES)] = 65_536,
) -> Response:
    """The end of a run's log, what came after a byte of it, or what lies before one."""
    return tagged(request, detail.read_log(find_run(here, run), after=after, before=before, most_bytes=bytes))


@router.get("/runs/{run}/checkpoints", response_model=CheckpointList, tags=["runs"])
async def get_run_checkpoints(request: Request, here: Here, run: Named) -> Response:
    """A run's checkpoints, oldest first."""
    owner = find_run(here, run)
    return await cached(request, here, owner, ("checkpoints",), lambda: list_checkpoints(owner.id, here.root))


# ── one group ──


@router.get("/groups/{group}", response_model=GroupDetail, tags=["groups"])
async def get_group(request: Request, here: Here, group: Named) -> Response:
    """A group's report: verdict, numbers, every seed's curve and the band over them, config with origins."""
    owner = find_group(here, group)
    return await cached(request, here, owner, ("group",), lambda: detail.group_detail(owner), keep=True)


@router.get("/groups/{group}/metrics", response_model=Curves, tags=["groups"])
async def get_group_metrics(
    request: Request, here: Here, group: Named, names: Names = None, points: Points = 300, axis: Axis = "steps"
) -> Response:
    """Columns of all seeds on one axis, with the band over them and the healthy band."""
    owner = find_group(here, group)
    key = ("curves", tuple(names or ()), points, axis)
    return await cached(
        request, here, owner, key, lambda: curves.get_curves([owner.id], here.root, names=names or (), points=points, axis=axis)
    )


@router.get("/curves", response_model=Curves, tags=["groups"])
async def get_curves(
    request: Request,
    here: Here,
    of: Annotated[list[str], Query(min_length=1, max_length=16)],
    names: Names = None,
    points: Points = 400,
    axis: Axis = "steps",
) -> Response:
    """Columns of several groups' and runs' seeds on one axis."""
    owners = [find(here, each) for each in of]
    ids, mark = [owner.id for owner in owners], " ".join(map(fingerprint.of, owners))
    key = ("curves", tuple(ids), tuple(names or ()), points, axis)
    make = partial(curves.get_curves, ids, here.root, names=names or (), points=points, axis=axis)
    return cache.respond(request, await here.answers.get(key, mark, lambda: dumped(make())))


@router.get("/groups/{group}/config", response_model=ConfigView, tags=["groups"])
async def get_group_config(request: Request, here: Here, group: Named) -> Response:
    """A group's whole config, where each value came from, and the numbers that follow from it."""
    owner = find_group(here, group)
    return await cached(request, here, owner, ("config",), lambda: environments.show_config(owner.id, (), here.root))


@router.get("/groups/{group}/diagnosis", response_model=DiagnosisReport, tags=["diagnosis"])
async def get_group_diagnosis(request: Request, here: Here, group: Named) -> Response:
    """What is wrong with a group: ranked causes, findings with the env steps they rest on, what to change, what could not be judged."""
    return cache.respond(request, await diagnosis_of(here, find_group(here, group)))


@router.get("/runs/{run}/diagnosis", response_model=DiagnosisReport, tags=["diagnosis"])
async def get_run_diagnosis(request: Request, here: Here, run: Named) -> Response:
    """What is wrong with one run."""
    owner = find_run(here, run)
    return await cached(request, here, owner, ("diagnosis",), lambda: _diagnosed(owner), keep=True, heavy=True)


async def diagnosis_of(here: Context, owner: Group) -> cache.Answer:
    """A group's diagnosis, made if nobody has, or if its files or the best of its peers have changed."""
    peers = await here.peers.of(owner.env_id, owner.algo)
    mark = f"{fingerprint.of(owner)} {peers.mark}"
    return await here.answers.get(("diagnosis", owner.id), mark, lambda: dumped(_diagnosed(owner, peers.outcomes)), keep=True, heavy=True)


def _diagnosed(owner: Run | Group, others: Sequence[Outcome] = ()) -> DiagnosisReport:
    runs = owner.runs if isinstance(owner, Group) else [owner]
    found = diagnose.examine(owner, [history.of_run(run) for run in runs], owner.id, others=others)
    # Kept for as long as nothing changes: it must not say how long ago that was.
    return found.model_copy(update={"ended_seconds_ago": None})


@router.get("/groups/{group}/prescriptions", response_model=Prescriptions, tags=["diagnosis"])
async def get_prescriptions(request: Request, here: Here, group: Named) -> Response:
    """At most three config patches for what is wrong, with rationale, expected effect and risk."""
    owner = find_group(here, group)
    return await cached(request, here, owner, ("prescriptions",), lambda: _prescribed(owner), keep=True, heavy=True)


def _prescribed(owner: Group) -> Prescriptions:
    return prescribe.prescribe_group(owner).model_copy(update={"target": owner.id})


@router.get("/status", response_model=StatusReport, tags=["groups"])
async def get_status(request: Request, here: Here, group: Annotated[str | None, Query(pattern=SELECTOR)] = None) -> Response:
    """How groups stand that are training (or one that is named), what to expect of them, and what to do."""
    named = None if group is None else find_group(here, group).id
    found: Any = await run_in_threadpool(get_training_status, named, here.root)
    return tagged(request, found)
