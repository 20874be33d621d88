"""Files to take away: rows as CSV, reports and pictures of a group, films of a run. Nothing outside a run's or group's folder."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path as File
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import FileResponse

from rlclinic.errors import NotFound, RunBusy
from rlclinic.ops.jobs import audited
from rlclinic.ops.runs import plot, video
from rlclinic.ops.runs.video import Film, FilmList
from rlclinic.report.models import EvaluationResult
from rlclinic.runs.record import METRICS
from rlclinic.serve.http.context import By, Here, find, find_group, find_run
from rlclinic.serve.http.routes.reading import Named, Names
from rlclinic.serve.http.security.requests import EvaluateBody, FilmBody

router = APIRouter(prefix="/api/v1")

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
_BOXED: Final = {"content-security-policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline'; sandbox"}
"""A report brings its own styles; it may run nothing and reach nothing."""

MOST_PROCESSES: Final = 2
_processes = threading.BoundedSemaphore(MOST_PROCESSES)

Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,80}$")]


@router.get("/runs/{run}/metrics.csv", response_class=FileResponse, tags=["runs"])
def get_metrics_csv(here: Here, run: Named) -> Response:
    """Every row that the run has written, as it lies on disk."""
    owner = find_run(here, run)
    return _sent(owner.path / METRICS, f"{owner.id}.csv")


@router.get("/groups/{group}/files/{name}", response_class=FileResponse, tags=["groups"])
def get_group_file(here: Here, group: Named, name: Name) -> Response:
    """A report, a picture or the solution of a group: report.md, report.html, curve.png, solution.yaml, diagnosis.json."""
    owner = find_group(here, group)
    return _sent(owner.path / name, None)


@router.get("/plot.png", response_class=Response, responses={200: {"content": {"image/png": {}}}}, tags=["groups"])
def get_plot(
    here: Here,
    of: Annotated[list[str], Query(min_length=1, max_length=plot.MOST_LINES, description="Runs or groups.")],
    names: Names = None,
    width: Annotated[int, Query(ge=200, le=2_000)] = 800,
    height: Annotated[int, Query(ge=100, le=1_000)] = 300,
) -> Response:
    """Metrics of runs or groups against env steps as a picture, one panel for each metric."""
    drawn = plot.plot_metrics([find(here, each).id for each in of], names or (), here.root, width=width, height=height)
    return Response(drawn.png, media_type="image/png")


@router.get("/runs/{run}/videos", response_model=FilmList, tags=["runs"])
def list_videos(here: Here, run: Named) -> FilmList:
    """Episodes of a run that were recorded."""
    return video.list_films(find_run(here, run))


@router.get("/runs/{run}/videos/{name}", response_class=FileResponse, tags=["runs"])
def get_video(here: Here, run: Named, name: Name) -> Response:
    """A recorded episode."""
    return _sent(find_run(here, run).path / video.FOLDER / name, None)


@router.post("/runs/{run}/videos", response_model=Film, status_code=201, tags=["runs"])
def record_video(here: Here, run: Named, body: FilmBody) -> Film:
    """Record an episode of a checkpoint where the environment renders; the second time it is found, not recorded."""
    owner = find_run(here, run)
    with _room():
        return video.film(owner.id, here.root, checkpoint=body.checkpoint, kind=body.kind)


@router.post("/runs/{run}/evaluations", response_model=EvaluationResult, tags=["runs"])
def evaluate(here: Here, by: By, run: Named, body: EvaluateBody) -> EvaluationResult:
    """Score a checkpoint from fixed start states, in a process of its own."""
    target = f"{find_run(here, run).id}/{body.checkpoint}"
    with _room():
        return audited.evaluate_checkpoint(target, here.root, by=by, episodes=body.episodes, deterministic=not body.sampled)


@contextmanager
def _room() -> Iterator[None]:
    """For a process that a request starts: few at a time, or they would take the machine from those who train."""
    if not _processes.acquire(blocking=False):
        raise RunBusy(f"{MOST_PROCESSES} evaluations or recordings are going on.\n  More would slow every training.\n  Ask again later.")
    try:
        yield
    finally:
        _processes.release()


def _sent(path: File, attachment: str | None) -> Response:
    kind = KINDS.get(path.suffix)
    if kind is None or path.is_symlink() or path.parent.is_symlink() or not path.is_file():
        raise NotFound(f"there is no file {path.name} here.\n  See what there is: GET /api/v1/groups/GROUP (files)")
    boxed = _BOXED if path.suffix in (".html", ".svg") else {}
    return FileResponse(path, media_type=kind, filename=attachment, headers=dict(boxed))
