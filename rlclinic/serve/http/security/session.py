"""Coming in with a browser: a token is exchanged for a cookie that scripts cannot read, with a CSRF token beside it."""

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import RedirectResponse

from rlclinic.errors import NotFound
from rlclinic.report.models import Result
from rlclinic.serve.http import problems
from rlclinic.serve.http.context import Context, Here
from rlclinic.serve.http.security.access import SharedPatience
from rlclinic.serve.http.security.guard import COOKIE, locked, session_cookie, set_cookie
from rlclinic.serve.http.security.projects import COOKIE as PROJECT
from rlclinic.serve.http.security.projects import choose, find_allowed
from rlclinic.serve.http.security.tokens import SESSION_SECONDS, Principal

router = APIRouter(prefix="/api/v1", tags=["session"])
pages = APIRouter(include_in_schema=False)


class Login(BaseModel):
    """A token, as `rlclinic serve token add` printed it."""

    model_config = ConfigDict(extra="forbid")

    token: str = Field(min_length=1, max_length=200)


class Session(Result):
    """Who is asking, and what they may do."""

    name: str
    """local, token:NAME, or nobody."""
    read: bool
    write: bool
    login: bool
    """A token is needed to go on."""
    project: str = ""
    """The project that is looked at; empty: the server's own store."""
    projects: list[str] = Field(default_factory=list)
    """All that may be looked at; one is chosen by the header X-Project, in a browser at /projects/NAME."""
    csrf: str | None
    """To be sent as X-CSRF-Token with every change by a page that came in with a cookie."""


@router.get("/session", response_model=Session)
async def get_session(request: Request, here: Here) -> Session:
    """Who is asking: what a page needs to know before it shows a button."""
    state = request.scope["state"]
    known = _session(here, state["principal"], session_cookie(request.headers))
    return known.model_copy(update={"project": state.get("project", ""), "projects": state.get("projects", [])})


@router.post("/session", response_model=Session)
async def login(request: Request, response: Response, here: Here, body: Login) -> Session | Response:
    """Exchange a token for a cookie. The cookie is HttpOnly and SameSite=Strict, and ends with its token."""
    state = request.scope["state"]
    patience: SharedPatience = state["patience"]
    if wait := await patience.locked_seconds(state["address"]):
        return locked(wait)
    principal = await run_in_threadpool(here.tokens.verify, body.token)
    if principal is None:
        await patience.fail(state["address"])
        state["why"] = "wrong token"
        return problems.answer(
            401, "wrong token", "this token is not known here.\n  Nobody came in.\n  See which there are: rlclinic serve token list"
        )
    await patience.succeed(state["address"])
    cookie = set_cookie(response, here.tokens, principal, secure=here.settings.https)
    # Not those of whoever used this browser before.
    response.delete_cookie(PROJECT, path="/", httponly=True, samesite="strict")
    name, chosen = choose(principal, Headers(), here.settings.projects)
    listed = sorted(find_allowed(principal, here.settings.projects))
    return _session(here, chosen, cookie).model_copy(update={"project": name, "projects": listed})


@pages.get("/projects/")
@pages.get("/projects/{name}")
def choose_project(request: Request, here: Here, name: str = "") -> Response:
    """Look at another project from here on; one that may not be seen is not said to be there."""
    if name not in request.scope["state"]["projects"]:
        raise NotFound(f"there is no project {name[:40]!r} for {request.scope['state']['principal'].name}.\n  Nothing was changed")
    answer = RedirectResponse(f"{here.settings.root_path}/", 303)
    answer.set_cookie(PROJECT, name, max_age=SESSION_SECONDS, path="/", httponly=True, samesite="strict")
    return answer


@router.delete("/session", status_code=204)
def logout(request: Request, response: Response, here: Here) -> None:
    """End the session: the cookie is forgotten here and in the browser."""
    cookie = session_cookie(request.headers)
    if cookie is not None:
        here.tokens.end(cookie)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")


def _session(here: Context, principal: Principal, cookie: str | None) -> Session:
    known = bool(principal.scopes)
    return Session(
        name=principal.name,
        read=known,
        write="write" in principal.scopes and not here.settings.read_only,
        login=not known,
        csrf=here.tokens.csrf(cookie) if cookie is not None and known else None,
    )
