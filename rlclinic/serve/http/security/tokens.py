"""Who may come in: tokens with scopes, of which only hashes are stored, and the signed cookie that a browser gets for one."""

import base64
import binascii
import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field

from rlclinic.actions import Action
from rlclinic.errors import NotFound, RlclinicError, UsageError, nearest
from rlclinic.report.models import Result, ResultPart
from rlclinic.runs import disk

Scope = Literal["read", "own", "write"]
"""`own` starts things, and stops, changes and removes what it has started; `write` whatever there is."""
PREFIX: Final = "rlc_"
LINK: Final = "@link"
"""The token of the link that is printed when the server starts: in no file, and ended with the server."""
LOCAL: Final = "local"
"""The user who runs the server: known by the system, or by the link."""
SESSION_SECONDS: Final = 7 * 24 * 3_600
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{32,200}")
_SCOPES: Final = {"read": frozenset({"read"}), "own": frozenset({"read", "write", "own"}), "write": frozenset({"read", "write"})}
_SECRET: Final = "cookie.key"
KEY: Final = "RLCLINIC_COOKIE_KEY"
"""How workers get the key of cookies where no file can hold it."""
_ENDED: Final = "ended.json"


class TokenRow(ResultPart):
    """A token without its secret."""

    name: str
    scope: Scope
    created: float
    """Unix seconds."""
    projects: dict[str, Scope] = Field(default_factory=dict)
    """What it may do in which project; with any, it sees nothing but these."""


class TokenList(Result):
    """The tokens there are."""

    file: str
    tokens: list[TokenRow]


class TokenMade(Result):
    """A new token: the only time that its secret is shown."""

    name: str
    scope: Scope
    token: str
    file: str
    projects: dict[str, Scope] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks."""

    name: str
    """local, or token:NAME."""
    scopes: frozenset[str]
    """Of the server's own store; once a project was chosen, of that."""
    by_cookie: bool = False
    projects: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Scopes in projects, by their names."""


class Tokens:
    """A file of hashed tokens; it is read again whenever it changed, so that a revoked token ends at once."""

    def __init__(self, path: Path, link: str | None = None) -> None:
        """`link` is the hash of a token that is in no file."""
        self.path = path
        self._stamp: tuple[int, int] | None = None
        self._known: dict[str, dict[str, Any]] = {}
        self._link = {} if link is None else {LINK: {"hash": link, "scope": "write"}}
        self._ended: dict[str, float] = {}
        """Cookies that were logged out, by what they are signed with, and when they would have ended by themselves."""

    def __len__(self) -> int:
        return len(self._read())

    # ── kept by hand ──

    def add(self, name: str, scope: Scope = "read", projects: dict[str, Scope] | None = None) -> TokenMade:
        """A new token of 256 random bits. The file keeps its SHA-256: nobody can make the token from it.

        With `projects` it is for these alone, each with a scope of its own.
        """
        if name in self._read():
            raise UsageError(
                f"there is a token {name} already.\n  Two could not be told apart.\n  Type: ", Action("serve token revoke", name)
            )
        return self.put(name, make_token(), scope, projects)

    def put(self, name: str, token: str, scope: Scope = "read", projects: dict[str, Scope] | None = None) -> TokenMade:
        """Take a token that was made elsewhere, as a cluster's secret is. Done again it changes nothing; another token takes its place."""
        for project in projects or {}:
            check_name(project)
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} cannot be a token's name: letters, digits, dots, dashes and underscores, at most 40.")
        if not _TOKEN.fullmatch(token):
            raise UsageError(
                "this is no token: 32 to 200 letters, digits, dashes and underscores.\n  A shorter one could be guessed.\n"
                "  Make one: openssl rand -hex 32"
            )
        known = self._read()
        about = {"hash": hash_token(token), "scope": scope, **({"projects": projects} if projects else {})}
        if {key: value for key, value in known.get(name, {}).items() if key != "created"} != about:
            self._write({**known, name: {**about, "created": time.time()}})
        return TokenMade(name=name, scope=scope, token=token, file=str(self.path), projects=projects or {})

    def listed(self) -> TokenList:
        """All tokens, without their secrets."""
        rows = [
            TokenRow(name=name, scope=_scope(about.get("scope")), created=float(about.get("created", 0.0)), projects=_projects(about))
            for name, about in self._read().items()
        ]
        return TokenList(file=str(self.path), tokens=rows)

    def revoke(self, name: str) -> TokenList:
        """Forget a token, and every browser that came in with it."""
        known = self._read()
        if name not in known:
            offered = nearest(name, known) or list(known)[:3]
            raise NotFound(
                f"there is no token {name!r}" + (f"; there are: {', '.join(offered)}" if offered else "") + ".\n  ",
                Action("serve token list"),
            )
        self._write({key: about for key, about in known.items() if key != name})
        return self.listed()

    # ── asked at every request ──

    def verify(self, token: str) -> Principal | None:
        """Whose token it is. All hashes are compared, in the same time whether one fits or not."""
        digest, holder = hash_token(token), None
        for name, about in self._all().items():
            if hmac.compare_digest(digest, str(about.get("hash", ""))):
                holder = _principal(name, about)
        return holder

    def session(self, principal: Principal) -> str:
        """The cookie for a browser whose user gave a token: the token's name and an end, signed."""
        name = LINK if principal.name == LOCAL else principal.name.removeprefix("token:")
        about = self._all().get(name, {})
        payload = json.dumps([name, about.get("hash", "")[:16], int(time.time()) + SESSION_SECONDS, secrets.token_hex(8)])
        text = base64.urlsafe_b64encode(payload.encode()).decode()
        return f"{text}.{self._sign(text)}"

    def from_session(self, cookie: str) -> Principal | None:
        """Who a cookie belongs to; None if it is forged, has ended, was logged out, or its token was revoked."""
        text, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), self._sign(text).encode()):
            return None
        try:
            name, mark, ends, _ = json.loads(base64.urlsafe_b64decode(text))
        except (ValueError, TypeError, binascii.Error):
            return None
        about = self._all().get(name)
        if about is None or about.get("hash", "")[:16] != mark or ends < time.time() or self._was_ended(signature):
            return None
        return _principal(name, about, by_cookie=True)

    def end(self, cookie: str) -> None:
        """Log a cookie out: whoever has copied it cannot use it either, with any worker, also after a restart."""
        if self.from_session(cookie) is None:
            return
        self._ended[cookie.rpartition(".")[2]] = time.time() + SESSION_SECONDS
        with suppress(RlclinicError):  # a disk that cannot be written to: this process remembers
            listed = {**_read_ended(self._ended_path), **self._ended}
            _write_private(self._ended_path, json.dumps({mark: at for mark, at in listed.items() if at > time.time()}).encode())

    def _was_ended(self, signature: str) -> bool:
        # Read at every request of a browser: it is small, and rarely there.
        return signature in self._ended or signature in _read_ended(self._ended_path)

    @property
    def _ended_path(self) -> Path:
        return self.path.with_name(_ENDED)

    def csrf(self, cookie: str) -> str:
        """What a page of ours must send with every change: another site can make a browser send the cookie, but cannot read this."""
        return self._sign("csrf:" + cookie)

    def prepare(self) -> None:
        """Make the key that cookies are signed with, before several workers would each make one."""
        self._secret()

    def _sign(self, text: str) -> str:
        return hmac.new(self._secret(), text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    def _secret(self) -> bytes:
        path = self.path.with_name(_SECRET)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            if KEY in os.environ:
                return bytes.fromhex(os.environ[KEY])
            made = secrets.token_bytes(32)
            try:
                _write_private(path, made)
            except RlclinicError:
                # A store that cannot be written to: all workers of this server get the same one, until it ends.
                os.environ[KEY] = made.hex()
                return made
            return path.read_bytes()

    def _all(self) -> dict[str, dict[str, Any]]:
        return {**self._read(), **self._link}

    # ── the file ──

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            self._stamp, self._known = None, {}
            return {}
        stamp = (stat.st_mtime_ns, stat.st_ino)
        if stamp != self._stamp:
            record = disk.read_json(self.path)
            if record is None:
                raise UsageError(
                    f"{self.path} is not a file of tokens.\n  Nobody could come in.\n  Remove it, then: ", Action("serve token add", "NAME")
                )
            self._known = {name: about for name, about in record.items() if isinstance(about, dict)}
            self._stamp = stamp
        return self._known

    def _write(self, known: dict[str, dict[str, Any]]) -> None:
        _write_private(self.path, (json.dumps(known, indent=1) + "\n").encode())


def _write_private(path: Path, content: bytes) -> None:
    """Replace a file that only its owner may read."""
    with disk.guarded(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
        temporary.replace(path)


def _read_ended(path: Path) -> dict[str, float]:
    record = disk.read_json(path) or {}
    return {mark: at for mark, at in record.items() if isinstance(at, int | float)}


def _principal(name: str, about: dict[str, Any], *, by_cookie: bool = False) -> Principal:
    projects = {project: _SCOPES[scope] for project, scope in _projects(about).items()}
    # A token for projects is for nothing else.
    scopes = frozenset[str]() if "projects" in about else _SCOPES[_scope(about.get("scope"))]
    return Principal(LOCAL if name == LINK else f"token:{name}", scopes, by_cookie, projects)


def _scope(text: object) -> Scope:
    return text if text in ("own", "write") else "read"


def _projects(about: dict[str, Any]) -> dict[str, Scope]:
    given = about.get("projects")
    return {str(name): _scope(scope) for name, scope in given.items()} if isinstance(given, dict) else {}


def check_name(name: str) -> None:
    """UsageError if this cannot be the name of a project."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be a project's name: letters, digits, dots, dashes and underscores, at most 40.")


def make_token() -> str:
    """A secret of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
