"""The dashboard's files: one page for every address of ours, and what it loads. What it shows comes from the API, its first curve
from here."""

import re
from functools import cache
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles

from rlclinic.metrics import EVAL_RETURN, TRAIN_RETURN
from rlclinic.ops.runs import warm_process
from rlclinic.ops.runs.requests import Axis
from rlclinic.ops.runs.series import get_curves
from rlclinic.serve.http.context import Here, answer_with_etag, find

FILES: Final = Path(__file__).parent / "static"
PAGES: Final = (
    "/",
    "/login",
    "/groups/{id}",
    "/runs/{id}",
    "/compare",
    "/trials",
    "/trials/{id}",
    "/studies",
    "/sensitivity/{id}",
    "/optimize/{id}",
    "/race/{id}",
    "/environments",
    "/guide",
    "/guide/{id}",
)

router = APIRouter(include_in_schema=False)


async def page(here: Here) -> Response:
    """The frame of every page; the address says which one it draws. Behind a proxy its addresses begin with the proxy's path."""
    if not here.settings.root_path:
        return FileResponse(FILES / "index.html", media_type="text/html")
    return Response(_frame(here.settings.root_path), media_type="text/html")


@cache
def _frame(root: str) -> str:
    text = (FILES / "index.html").read_text(encoding="utf-8")
    named = re.sub(r'\b(href|src)="/', rf'\1="{root}/', text)
    return named.replace("<title>", f'<meta name="rlclinic-root" content="{root}">\n<title>', 1)


def icon() -> FileResponse:
    """What browsers ask for unasked."""
    return FileResponse(FILES / "icon.svg", media_type="image/svg+xml")


@router.get("/first-curve")
def first_curve(request: Request, here: Here, of: Annotated[str, Query(max_length=80)], axis: Axis = "steps") -> Response:
    """The return of a group or run as far as it can be had at once: the page draws it while the rest is read."""
    return answer_with_etag(request, get_curves([find(here, of).id], here.root, names=[TRAIN_RETURN, EVAL_RETURN], axis=axis, rough=True))


@router.post("/prepare-films", status_code=204)
def prepare_films(here: Here) -> None:
    """A page shows checkpoints, and whoever looks at it may soon ask for an episode: what takes long to import is imported ahead."""
    if here.settings.prepare_films and not here.settings.read_only:
        warm_process.warm()


for address in PAGES:
    router.add_api_route(address, page, methods=["GET", "HEAD"])
router.add_api_route("/favicon.ico", icon)


def mount(app: FastAPI) -> None:
    """Serve the dashboard from an app that has the API."""
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=FILES), name="static")
