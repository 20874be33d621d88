"""What every request passes before it is answered: Host, Origin, size, token or cookie, scope, CSRF; and the headers of every answer.

The guard refuses by default: a request that changes something needs the scope write, unless its path is listed here.
"""

import hmac
import math
import re
import time
from collections.abc import Iterable
from dataclasses import replace
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rlclinic.errors import RlclinicError
from rlclinic.serve.http import problems
from rlclinic.serve.http.security import peer, projects
from rlclinic.serve.http.security.access import STRANGER_RATE, TOKEN_RATE, AccessLog, SharedPatience, find_address
from rlclinic.serve.http.security.tokens import LOCAL, SESSION_SECONDS, Principal, Tokens
from rlclinic.serve.http.settings import Settings

COOKIE: Final = "rlclinic_session"
CSRF_HEADER: Final = "x-csrf-token"
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN: Final = re.compile(r"/login|/static/.*|/favicon\.ico|/api/v1/(health|ready|session)")
"""Reached without a token: what the login page is made of, and what probes ask."""
ASKS: Final = re.compile(
    r"/api/v1/(config/validate|environments/examine|trials/preview|races/preview|studies/sensitivity/preview|session)|/mcp(/.*)?"
)
"""Answered to readers though they are posted: they change nothing, and MCP looks at the scope of each tool itself."""
EVERYBODY: Final = Principal(LOCAL, frozenset({"read", "write"}))

HEADERS: Final = {
    # Scripts and styles come from files of ours only: a run name or a log line that holds a tag stays text.
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; font-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """ASGI middleware around the whole app, what is mounted included."""

    def __init__(self, app: ASGIApp, settings: Settings, tokens: Tokens, access: AccessLog, patience: SharedPatience) -> None:
        self.app, self.settings, self.tokens, self.access, self.patience = app, settings, tokens, access, patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a refusal, or let the request through with `scope["state"]["principal"]`."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        address = find_address(scope, headers, behind_proxy=self.settings.https)
        state = scope.setdefault("state", {})
        state |= {"address": address, "patience": self.patience}
        send = _with_headers(self._with_log(scope, send))
        try:
            refusal = await self._answered(scope, headers)
        except RlclinicError as error:
            refusal = problems.of(error)
        if refusal is None and scope["method"] not in SAFE:
            try:
                body = await _body(receive, self.settings.max_body_bytes)
            except ClientDisconnect:
                return  # half a body asks for nothing, and nobody is there to be told
            refusal, receive = (self._too_large(), receive) if body is None else (None, _replay(body, receive))
        await (self.app if refusal is None else refusal)(scope, receive, send)

    def _with_log(self, scope: Scope, send: Send) -> Send:
        began = time.monotonic()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and not scope["path"].startswith("/static/"):
                state = scope["state"]
                name = state["principal"].name if "principal" in state else "nobody"
                seconds = time.monotonic() - began
                self.access.add(state["address"], name, scope["method"], scope["path"], message["status"], seconds, state.get("why", ""))
            await send(message)

        return sending

    async def _answered(self, scope: Scope, headers: Headers) -> Response | None:
        """What the guard itself answers; None if the request goes on to the app."""
        foreign = self._foreign(headers)
        if foreign is not None:
            return foreign
        hurry = await self._hurry(scope, headers)
        if hurry is not None:
            return hurry
        if scope["method"] in SAFE and b"token=" in scope["query_string"] and not scope["path"].startswith("/api/"):
            return await self._follow_link(scope)
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self.settings.max_body_bytes:
            return self._too_large()
        principal = await self._principal(scope, headers)
        path, method = scope["path"], scope["method"]
        if principal is None and not OPEN.fullmatch(path):
            wait = await self.patience.locked_seconds(scope["state"]["address"]) if "why" in scope["state"] else 0.0
            return locked(wait) if wait else _login(headers, method, self.settings.root_path)
        if principal is not None and OPEN.fullmatch(path) and not projects.find_allowed(principal, self.settings.projects):
            principal = None  # of projects that are not served here: as far as the login page
        if principal is not None:
            # Before anything is decided by scopes: they may differ from project to project.
            scope["state"]["projects"] = sorted(projects.find_allowed(principal, self.settings.projects))
            scope["state"]["project"], principal = projects.choose(principal, headers, self.settings.projects)
            if self.settings.read_only:
                principal = replace(principal, scopes=principal.scopes - {"write"})
        scope["state"]["principal"] = principal or Principal("nobody", frozenset())
        if principal is not None and principal.name != LOCAL:
            wait = await self.patience.wait_seconds(principal.name, TOKEN_RATE)
            if wait:
                return too_often(wait)
        if method in SAFE or principal is None:
            return None
        if principal.by_cookie and not self._csrf_held(headers):
            return problems.answer(403, "not allowed", "the CSRF token is missing or wrong.\n  Load the page again, then repeat.")
        if "write" not in principal.scopes and not ASKS.fullmatch(path):
            return self._read_only(principal)
        return None

    async def _follow_link(self, scope: Scope) -> Response:
        """Exchange the token in a link for a cookie, and go on to the same page without it: it must not stay in the address."""
        asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        rest = urlencode([(name, value) for name, value in asked if name != "token"])
        if wait := await self.patience.locked_seconds(scope["state"]["address"]):
            return locked(wait)
        principal = self.tokens.verify(next((value for name, value in asked if name == "token"), ""))
        if principal is None:
            return await self._failed(scope, RedirectResponse(f"{self.settings.root_path}/login", 303))
        await self.patience.succeed(scope["state"]["address"])
        # Of this server: a path with two slashes would name another.
        answer = RedirectResponse(f"{self.settings.root_path}/" + scope["path"].lstrip("/\\") + (f"?{rest}" if rest else ""), 303)
        set_cookie(answer, self.tokens, principal, secure=self.settings.https)
        return answer

    def _foreign(self, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        name = _hostname(host)
        if not self.settings.knows_host(name):
            return problems.answer(
                421,
                "another host is meant",
                f"this server is not {name[:100]!r}.\n  A page elsewhere could have pointed that name here to read your runs.\n"
                f"  If it is yours: rlclinic serve --allow-host NAME",
            )
        origin = headers.get("origin")
        if origin is not None and (_hostport(origin) != host.lower() or headers.get("sec-fetch-site") == "cross-site"):
            asked = f"{origin[:100]!r} may not ask: only this server's own pages may."
            proxied = "Behind a proxy, its own name must be passed on: proxy_set_header Host $host (docs/security.md)."
            return problems.answer(403, "another site asks", f"{asked} {proxied}")
        return None

    async def _principal(self, scope: Scope, headers: Headers) -> Principal | None:
        """Who asks; None if nobody that is known. A wrong token is not made better by being on this machine."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        cookie = session_cookie(headers)
        if scheme.lower() == "bearer":
            principal = self.tokens.verify(token.strip())
            if principal is None:
                await self._failed(scope)
        elif cookie is not None and (principal := self.tokens.from_session(cookie)) is not None:
            pass
        else:
            principal = EVERYBODY if self._needs_no_token(scope) else None
        return principal

    def _needs_no_token(self, scope: Scope) -> bool:
        state = scope["state"]
        if "trusted" not in state:
            state["trusted"] = not self.settings.guarded and (self.settings.no_token or peer.is_us(scope))
        return bool(state["trusted"])

    async def _failed(self, scope: Scope, answer: Response | None = None) -> Response:
        """Note a wrong token; its address has to wait by and by. A right one is taken all the while: others may share the address."""
        scope["state"]["why"] = "wrong token"
        await self.patience.fail(scope["state"]["address"])
        return answer or Response(status_code=401)

    async def _hurry(self, scope: Scope, headers: Headers) -> Response | None:
        """429 for an address that asks too often without saying who it is."""
        if "authorization" in headers or COOKIE in headers.get("cookie", "") or scope["path"].startswith("/static/"):
            return None
        if self._needs_no_token(scope):
            return None
        wait = await self.patience.wait_seconds(scope["state"]["address"], STRANGER_RATE)
        return too_often(wait) if wait else None

    def _csrf_held(self, headers: Headers) -> bool:
        given, cookie = headers.get(CSRF_HEADER, ""), session_cookie(headers) or ""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.tokens.csrf(cookie).encode())

    def _read_only(self, principal: Principal) -> Response:
        advice = "it was started with --read-only" if self.settings.read_only else "rlclinic serve token add NAME --scope write"
        return problems.answer(403, "not allowed", f"{principal.name} may read only.\n  Nothing was changed.\n  {advice}")

    def _too_large(self) -> Response:
        most = self.settings.max_body_bytes
        return problems.answer(413, "too large", f"the body is larger than {most:,} bytes.\n  Nothing was done.\n  Send less.")


def session_cookie(headers: Headers) -> str | None:
    """The session cookie of a request."""
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if cookie is None else cookie.value


def set_cookie(answer: Response, tokens: Tokens, principal: Principal, *, secure: bool) -> str:
    """Give a browser the cookie of a session, which scripts cannot read and other sites cannot send."""
    cookie = tokens.session(principal)
    answer.set_cookie(COOKIE, cookie, max_age=SESSION_SECONDS, path="/", httponly=True, samesite="strict", secure=secure)
    return cookie


def locked(seconds: float) -> Response:
    """For an address that has sent too many wrong tokens."""
    text = "too many wrong tokens came from this address.\n  Nothing was looked at.\n  Wait, then use the right one"
    return problems.answer(429, "too many wrong tokens", text, {"Retry-After": str(math.ceil(seconds))})


def too_often(seconds: float) -> Response:
    """For whoever asks more often than a page or a program does."""
    text = "these are too many requests at once.\n  Nothing was done.\n  Ask again later, and less often"
    return problems.answer(429, "too many requests", text, {"Retry-After": str(math.ceil(seconds))})


def _login(headers: Headers, method: str, root: str) -> Response:
    """People are sent to the login page, programs are told what to send."""
    if method in SAFE and "text/html" in headers.get("accept", ""):
        return RedirectResponse(f"{root}/login", 303)
    return problems.answer(
        401,
        "no token",
        "this needs a token.\n  Use the link that rlclinic serve printed, or make one: rlclinic serve token add NAME\n"
        "  Send it as: Authorization: Bearer TOKEN",
        {"WWW-Authenticate": "Bearer"},
    )


def _hostname(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _hostport(origin: str) -> str:
    return origin.partition("://")[2].lower()


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "private, no-cache")
        await send(message)

    return sending


async def _body(receive: Receive, most: int) -> bytes | None:
    """The whole body; None if it is too large, whatever length was announced. ClientDisconnect if its end never comes."""
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            return None
        more = message.get("more_body", False)
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once more for the app; after it, what the client does."""
    waiting: Iterable[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receiving() -> Message:
        for message in waiting:
            return message
        return await receive()

    return receiving
