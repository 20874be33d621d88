"""Runs and groups: lists, series, logs, checkpoints, configs, notes; environments; files to take away; films and scores of policies."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path as File
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import FileResponse

from rlclinic.errors import NotFound, RunBusy
from rlclinic.ops.jobs import audited
from rlclinic.ops.jobs.audit import Caller, audit
from rlclinic.ops.runs import detail, environments, plot, search, series, table, video
from rlclinic.ops.runs.detail import GroupDetail, LogPage, NotesView, RunDetail, TagResult
from rlclinic.ops.runs.listing import list_checkpoints, remove_runs
from rlclinic.ops.runs.requests import (
    CurvesRequest,
    EnvironmentsRequest,
    EvaluateRequest,
    GroupSeriesRequest,
    LogPageRequest,
    NotesRequest,
    PlotRequest,
    RemoveRequest,
    SeriesRequest,
    TableRequest,
    TagRequest,
    VideoRequest,
)
from rlclinic.ops.runs.search import Facets, GroupPage, RunPage
from rlclinic.ops.runs.series import Curves, Series
from rlclinic.ops.runs.table import TablePage
from rlclinic.ops.runs.video import Film, FilmList, Histograms
from rlclinic.report.models import CheckpointList, ConfigView, EnvironmentList, EvaluationResult, Removed
from rlclinic.runs import fingerprint
from rlclinic.runs.record import METRICS
from rlclinic.serve.http import cache
from rlclinic.serve.http.bodies import takes_body, takes_query
from rlclinic.serve.http.context import (
    BOXED,
    By,
    Context,
    Here,
    Named,
    answer_from_cache,
    answer_with_etag,
    encode,
    find,
    find_group,
    find_run,
)

router = APIRouter(prefix="/api/v1")
Names = Annotated[list[str] | None, Query(max_length=64, description="Columns, or parts of their names; none: the main ones.")]
Search = Annotated[search.Query, Query()]
Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,80}$")]

KINDS: Final = {
    ".png": "image/png",
    ".gif": "image/gif",
    ".mp4": "video/mp4",
    ".csv": "text/csv; charset=utf-8",
    ".json": "application/json",
    ".md": "text/plain; charset=utf-8",
    ".yaml": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".html": "text/html; charset=utf-8",
}
MOST_PROCESSES: Final = 2
_processes = threading.BoundedSemaphore(MOST_PROCESSES)


# ── lists ──


@router.get("/runs", response_model=RunPage, tags=["runs"])
async def list_runs(request: Request, here: Here, asked: Search) -> Response:
    """Runs that match, a page at a time."""
    return await _answer_list(request, here, "runs", asked)


@router.get("/groups", response_model=GroupPage, tags=["groups"])
async def list_groups(request: Request, here: Here, asked: Search) -> Response:
    """Groups that match, a page at a time."""
    return await _answer_list(request, here, "groups", asked)


@router.get("/table", response_model=TablePage, tags=["groups"])
@takes_query
async def get_table(request: Request, here: Here, asked: TableRequest) -> Response:
    """Groups or runs as a table: sorted, filtered and grouped by any result, tag or setting, a window of rows at a time."""
    answer = await here.answers.get(("table", str(asked)), here.watch.version, lambda: encode(table.make_page(here.tables, asked)))
    return cache.respond(request, answer)


@router.get("/facets", response_model=Facets, tags=["groups"])
async def get_facets(request: Request, here: Here) -> Response:
    """What lists can be narrowed to, with how many groups each."""
    answer = await here.answers.get("facets", here.watch.version, lambda: encode(search.facets(here.index)))
    return cache.respond(request, answer)


async def _answer_list(request: Request, here: Here, kind: str, asked: search.Query) -> Response:
    look = search.search_runs if kind == "runs" else search.search_groups
    # The same question about an unchanged index has the same answer.
    answer = await here.answers.get((kind, asked), here.watch.version, lambda: encode(look(here.index, asked)))
    return cache.respond(request, answer)


@router.get("/environments", response_model=EnvironmentList, tags=["catalogue"])
@takes_query
def list_environments(request: Request, here: Here, asked: EnvironmentsRequest) -> Response:
    """Environments with tuned variants, their thresholds and what was measured."""
    return answer_with_etag(request, environments.list_environments(asked.pattern))


# ── one run ──


@router.get("/runs/{run}", response_model=RunDetail, tags=["runs"])
async def get_run(request: Request, here: Here, run: Named) -> Response:
    """Everything about a run but its series."""
    owner = find_run(here, run)
    return await answer_from_cache(request, here, owner, ("run",), lambda: detail.run_detail(owner))


@router.get("/runs/{run}/metrics", response_model=Series, tags=["runs"])
@takes_query
async def get_run_metrics(request: Request, here: Here, run: Named, asked: SeriesRequest) -> Response:
    """Columns of numbers on one axis, bucketed with mean, min and max so that a spike survives; `since` an env step: what came after."""
    owner = find_run(here, run)
    key = ("metrics", tuple(asked.names), asked.points, asked.since)
    make = partial(series.run_series, owner, asked.names, points=asked.points, since=asked.since)
    return await answer_from_cache(request, here, owner, key, make)


@router.get("/runs/{run}/log", response_model=LogPage, tags=["runs"])
@takes_query
def get_run_log(request: Request, here: Here, run: Named, asked: LogPageRequest) -> Response:
    """The end of a run's log, what came after a byte of it, or what lies before one."""
    page = detail.read_log(find_run(here, run), after=asked.after, before=asked.before, most_bytes=asked.bytes)
    return answer_with_etag(request, page)


@router.get("/runs/{run}/checkpoints", response_model=CheckpointList, tags=["runs"])
async def get_run_checkpoints(request: Request, here: Here, run: Named) -> Response:
    """A run's checkpoints, oldest first."""
    owner = find_run(here, run)
    return await answer_from_cache(request, here, owner, ("checkpoints",), lambda: list_checkpoints(owner.id, here.root))


# ── one group ──


@router.get("/groups/{group}", response_model=GroupDetail, tags=["groups"])
async def get_group(request: Request, here: Here, group: Named) -> Response:
    """A group's report: verdict, numbers, every seed's curve and the band over them, config with origins."""
    owner = find_group(here, group)
    return await answer_from_cache(request, here, owner, ("group",), lambda: detail.group_detail(owner), keep=True)


@router.get("/groups/{group}/metrics", response_model=Curves, tags=["groups"])
@takes_query
async def get_group_metrics(request: Request, here: Here, group: Named, asked: GroupSeriesRequest) -> Response:
    """Columns of all seeds on one axis, with the band over them and the healthy band."""
    owner = find_group(here, group)
    key = ("curves", tuple(asked.names), asked.points, asked.axis)
    make = partial(series.get_curves, [owner.id], here.root, names=asked.names, points=asked.points, axis=asked.axis)
    return await answer_from_cache(request, here, owner, key, make)


@router.get("/curves", response_model=Curves, tags=["groups"])
@takes_query
async def get_curves(request: Request, here: Here, asked: CurvesRequest) -> Response:
    """Columns of several groups' and runs' seeds on one axis."""
    owners = [find(here, each) for each in asked.of]
    ids, mark = [owner.id for owner in owners], " ".join(map(fingerprint.of, owners))
    key = ("curves", tuple(ids), tuple(asked.names), asked.points, asked.axis)
    make = partial(series.get_curves, ids, here.root, names=asked.names, points=asked.points, axis=asked.axis)
    return cache.respond(request, await here.answers.get(key, mark, lambda: encode(make())))


@router.get("/groups/{group}/config", response_model=ConfigView, tags=["groups"])
async def get_group_config(request: Request, here: Here, group: Named) -> Response:
    """A group's whole config, where each value came from, and the numbers that follow from it."""
    owner = find_group(here, group)
    return await answer_from_cache(request, here, owner, ("config",), lambda: environments.show_config(owner.id, (), here.root))


# ── files ──


@router.get("/runs/{run}/metrics.csv", response_class=FileResponse, tags=["runs"])
def get_metrics_csv(here: Here, run: Named) -> Response:
    """Every row that the run has written, as it lies on disk."""
    owner = find_run(here, run)
    return _send_file(owner.path / METRICS, f"{owner.id}.csv")


@router.get("/groups/{group}/files/{name}", response_class=FileResponse, tags=["groups"])
def get_group_file(here: Here, group: Named, name: Name) -> Response:
    """A report, a picture or the solution of a group: report.md, report.html, curve.png, solution.yaml, diagnosis.json."""
    owner = find_group(here, group)
    return _send_file(owner.path / name, None)


def _send_file(path: File, attachment: str | None) -> Response:
    kind = KINDS.get(path.suffix)
    if kind is None or path.is_symlink() or path.parent.is_symlink() or not path.is_file():
        raise NotFound(f"there is no file {path.name} here.\n  See what there is: GET /api/v1/groups/GROUP (files)")
    boxed = BOXED if path.suffix in (".html", ".svg") else {}
    return FileResponse(path, media_type=kind, filename=attachment, headers=dict(boxed))


@router.get("/plot.png", response_class=Response, responses={200: {"content": {"image/png": {}}}}, tags=["groups"])
@takes_query
def get_plot(here: Here, asked: PlotRequest) -> Response:
    """Metrics of runs or groups against env steps as a picture, one panel for each metric."""
    owners = [find(here, each).id for each in asked.of]
    drawn = plot.plot_metrics(owners, asked.names, here.root, width=asked.width, height=asked.height)
    return Response(drawn.png, media_type="image/png")


# ── policies ──


@router.get("/runs/{run}/videos", response_model=FilmList, tags=["runs"])
def list_videos(here: Here, run: Named) -> FilmList:
    """Episodes of a run that were recorded, while it trained or since."""
    return video.list_films(find_run(here, run))


@router.get("/runs/{run}/histograms", response_model=Histograms, tags=["runs"])
def get_histograms(request: Request, here: Here, run: Named) -> Response:
    """What `run.histograms_every_env_steps` recorded: returns, advantages, actions, observations, each layer's weights and steps."""
    return answer_with_etag(request, video.list_histograms(find_run(here, run)))


@router.get("/runs/{run}/videos/{name}", response_class=FileResponse, tags=["runs"])
def get_video(here: Here, run: Named, name: Name) -> Response:
    """A recorded episode."""
    return _send_file(find_run(here, run).path / video.FOLDER / name, None)


@router.post("/runs/{run}/videos", response_model=Film, status_code=201, tags=["runs"])
@takes_body
def record_video(here: Here, run: Named, request: VideoRequest) -> Film:
    """Record an episode of a checkpoint where the environment renders; the second time it is found, not recorded."""
    owner = find_run(here, run)
    with _limit_processes():
        return video.film(owner.id, here.root, checkpoint=request.checkpoint, kind=request.kind, again=request.again)


@router.post("/runs/{run}/evaluations", response_model=EvaluationResult, tags=["runs"])
@takes_body
def evaluate(here: Here, by: By, run: Named, request: EvaluateRequest) -> EvaluationResult:
    """Score a checkpoint from fixed start states, in a process of its own."""
    target = f"{find_run(here, run).id}/{request.selector}"
    with _limit_processes():
        return audited.evaluate_checkpoint(
            target,
            here.root,
            by=by,
            episodes=request.episodes,
            deterministic=request.deterministic,
            target_returns=request.target_returns,
        )


@contextmanager
def _limit_processes() -> Iterator[None]:
    """For a process that a request starts: few at a time, or they would take the machine from those who train."""
    if not _processes.acquire(blocking=False):
        raise RunBusy(f"{MOST_PROCESSES} evaluations or recordings are going on.\n  More would slow every training.\n  Ask again later.")
    try:
        yield
    finally:
        _processes.release()


# ── notes and removals ──


@router.put("/runs/{run}/notes", response_model=NotesView, tags=["runs"])
@takes_body
def put_run_notes(here: Here, by: By, run: Named, request: NotesRequest) -> NotesView:
    """Replace the tags or the note of a run."""
    return _write_notes(here, by, find_run(here, run).id, request)


@router.put("/groups/{group}/notes", response_model=NotesView, tags=["groups"])
@takes_body
def put_group_notes(here: Here, by: By, group: Named, request: NotesRequest) -> NotesView:
    """Replace the tags or the note of a group."""
    return _write_notes(here, by, find_group(here, group).id, request)


def _write_notes(here: Context, by: Caller, id: str, request: NotesRequest) -> NotesView:
    audited.check_owner(here.store, by, id)
    done = detail.annotate(id, here.root, tags=request.tags, note=request.note)
    here.watch.look(now=True)
    return done


@router.post("/tags", response_model=TagResult, tags=["groups"])
@takes_body
def put_tags(here: Here, by: By, request: TagRequest) -> TagResult:
    """Add tags to many runs or groups at once, or take them away."""
    ids = [find(here, named).id for named in request.of]
    for id in ids:
        audited.check_owner(here.store, by, id)
    done = detail.tag(request.model_copy(update={"of": ids}))
    here.watch.look(now=True)
    return done


@router.post("/removals", response_model=Removed, tags=["groups"])
@takes_body
def remove_many(here: Here, by: By, request: RemoveRequest) -> Removed:
    """Delete many runs, or groups with all their runs, none of which is being written."""
    return _remove(here, by, [find(here, named).id for named in request.runs], request.dry_run)


@router.delete("/runs/{run}", response_model=Removed, tags=["runs"])
def remove_run(here: Here, by: By, run: Named, dry_run: bool = False) -> Removed:
    """Delete a run that is not being written."""
    return _remove(here, by, [find_run(here, run).id], dry_run)


@router.delete("/groups/{group}", response_model=Removed, tags=["groups"])
def remove_group(here: Here, by: By, group: Named, dry_run: bool = False) -> Removed:
    """Delete a group with all its runs, none of which is being written."""
    return _remove(here, by, [find_group(here, group).id], dry_run)


def _remove(here: Context, by: Caller, ids: list[str], dry_run: bool) -> Removed:
    for id in ids:
        audited.check_owner(here.store, by, id)
    done = remove_runs(ids, here.root, dry_run=dry_run)
    if not dry_run:
        audit(
            here.store, by, "remove", ids[0] if len(ids) == 1 else f"{ids[0]} and {len(ids) - 1} more", runs=done.runs, groups=done.groups
        )
        here.watch.look(now=True)
    return done
