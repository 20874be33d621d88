"""Errors as RFC 9457 problem bodies that keep our texts: what happened, what it would cause, what to type."""

import json
import logging
import math
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from rlclinic.actions import Argument, Change
from rlclinic.errors import ConfigError, NotFound, RlclinicError, RunBusy, UsageError
from rlclinic.ops.operations import find_argument
from rlclinic.ops.request import Http, say_misfit
from rlclinic.runs.database.connections import DatabaseDown
from rlclinic.serve.http.cache import NotYet

MEDIA_TYPE: Final = "application/problem+json"
_log = logging.getLogger("rlclinic.http")


class Problem(BaseModel):
    """What every error answer holds."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    """The whole text: what happened with the values, what it would cause, what to type."""
    advice: list[str] = []
    """The lines after the first: consequence and way out."""


def answer(status: int, title: str, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """A problem as a response."""
    advice = [line.strip() for line in detail.split("\n")[1:] if line.strip()]
    body = Problem(title=title, status=status, detail=detail, advice=advice).model_dump()
    return JSONResponse(body, status, headers=headers, media_type=MEDIA_TYPE)


def of(error: RlclinicError) -> JSONResponse:
    """One of our own errors as a response."""
    status, title = _kind(error)
    return answer(status, title, say(*error.parts))


def say(*parts: str) -> str:
    """A text of parts as a client reads it: settings and options as fields of a body; commands stay what people type."""
    return "".join(map(_say_part, parts))


def _say_part(part: str) -> str:
    if isinstance(part, Change):
        return f'"changes": {json.dumps([f"{key}={value}" for key, value in part.changes.items()], ensure_ascii=False)}'
    if isinstance(part, Argument):
        name = find_argument(part.name, Http)
        return str(part) if name is None else f'"{name}"' if part.value is None else f'"{name}": {json.dumps(part.value)}'
    return str(part)


def _kind(error: RlclinicError) -> tuple[int, str]:
    if isinstance(error, NotFound):
        return 404, "not found"
    if isinstance(error, ConfigError):
        return 422, "this config cannot be run"
    if isinstance(error, UsageError):
        return 400, "this request cannot be done as it was asked"
    if isinstance(error, RunBusy):
        return 409, "somebody else is writing there"
    if isinstance(error, DatabaseDown):
        return 503, "the database does not answer"
    return 409, "this cannot be done as things stand"


def install(app: FastAPI) -> None:
    """Answer every error of the app with a problem."""

    async def ours(_: Request, error: Exception) -> JSONResponse:
        return of(error) if isinstance(error, RlclinicError) else answer(500, "server error", "unexpected")

    async def http(_: Request, error: Exception) -> JSONResponse:
        if not isinstance(error, HTTPException):
            return answer(500, "server error", "unexpected")
        return answer(error.status_code, str(error.detail), str(error.detail), dict(error.headers or {}))

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        problems = error.errors() if isinstance(error, RequestValidationError | ValidationError) else []
        return answer(
            422, "the request does not fit its schema", "\n  ".join(["the request does not fit its schema:", *map(_line, problems)])
        )

    async def not_yet(_: Request, error: Exception) -> JSONResponse:
        seconds = math.ceil(error.seconds) if isinstance(error, NotYet) else 1
        return JSONResponse({"state": "being made", "retry_after_seconds": seconds}, 202, headers={"Retry-After": str(seconds)})

    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        _log.error("unexpected error at %s", request.url.path, exc_info=error)
        return answer(500, "server error", f"rlclinic failed unexpectedly ({type(error).__name__}).\n  The server's log says where.")

    app.add_exception_handler(RlclinicError, ours)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(ValidationError, invalid)
    app.add_exception_handler(NotYet, not_yet)
    app.add_exception_handler(Exception, unexpected)


def _line(error: Any) -> str:
    where = ".".join(str(part) for part in error.get("loc", ()))
    return f"{where}: {say_misfit(str(error.get('msg', '')))}"
