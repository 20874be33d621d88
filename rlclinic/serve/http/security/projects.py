"""Projects of a shared server: each is a folder with its own runs and configs, served by an app of its own behind one guard.

What one project has is not in the store of another, so no list, search, stream, comparison or agent can reach it: a request is answered
by the app of the project that it was let into, and by no other.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from http.cookies import CookieError, SimpleCookie
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from rlclinic.errors import NotFound, UsageError
from rlclinic.serve.http.security.tokens import LOCAL, Principal

HEADER: Final = "x-project"
COOKIE: Final = "rlclinic_project"


def choose(principal: Principal, headers: Headers, served: Collection[str]) -> tuple[str, Principal]:
    """Which project a request is about ("" is the server's own store), and who asks with the scopes that they have there.

    A program names one in a header; a browser has it in a cookie; else it is the first that whoever asks may see. NotFound for one
    that they may not see, whether or not there is such a project.
    """
    allowed = find_allowed(principal, served)
    asked = headers.get(HEADER)
    if asked is not None and asked not in allowed:
        raise NotFound(
            f"there is no project {asked[:40]!r} for {principal.name}.\n  Nothing was done.\n  See which there are: GET /api/v1/session"
        )
    if not allowed:
        raise UsageError(f"{principal.name} is for projects that this server does not serve.\n  Nothing was done.\n  Ask whoever runs it")
    name = asked if asked is not None else _in_cookie(headers)
    if name not in allowed:
        name = next(iter(allowed))
    return name, replace(principal, scopes=allowed[name])


def find_allowed(principal: Principal, served: Collection[str]) -> dict[str, frozenset[str]]:
    """The projects that somebody may see, with their scopes there. Whoever runs the server sees all of them."""
    own = {"": principal.scopes} if principal.scopes else {}
    if principal.name == LOCAL:
        return own | dict.fromkeys(served, principal.scopes)
    return own | {name: scopes for name, scopes in principal.projects.items() if name in served}


def _in_cookie(headers: Headers) -> str | None:
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if cookie is None else cookie.value


class Projects:
    """ASGI middleware behind the guard: hands a request to the app of its project."""

    def __init__(self, app: ASGIApp, apps: Mapping[str, ASGIApp]) -> None:
        self.app, self.apps = app, apps

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request that the guard let into no project is about the server's own store."""
        project = scope.get("state", {}).get("project", "") if scope["type"] == "http" else ""
        await (self.apps[project] if project else self.app)(scope, receive, send)
