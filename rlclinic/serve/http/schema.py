"""The OpenAPI description: what FastAPI knows, with our problem bodies and tokens put in. Checked in as docs/openapi.json."""

import json
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from rlclinic.serve.http.problems import MEDIA_TYPE, Problem

_PROBLEM: Final = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
_EVERYWHERE: Final = {
    "400": "This request cannot be done as it was asked",
    "401": "A token is needed, or this one is wrong",
    "403": "Reading only, another site, or no CSRF token",
    "404": "Nothing has this name",
    "409": "Not as things stand: somebody writes there, a file is damaged, a process failed",
    "413": "The body is too large",
    "421": "Another host is meant",
    "422": "This config cannot be run, or the request does not fit its schema",
}


def describe(app: FastAPI) -> dict[str, Any]:
    """The whole description of an app, made once."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        schemas["Problem"] = Problem.model_json_schema()
        schema["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer", "description": "rlclinic serve token add NAME"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": "rlclinic_session", "description": "POST /api/v1/session"},
        }
        schema["security"] = [{}, {"token": []}, {"cookie": []}]
        for operations in schema["paths"].values():
            for operation in operations.values():
                for status, text in _EVERYWHERE.items():
                    operation["responses"][status] = {"description": text, **_PROBLEM}
        app.openapi_schema = schema
    return app.openapi_schema


def text(app: FastAPI) -> str:
    """The description as it is checked in."""
    return json.dumps(describe(app), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
