"""A store of recorded runs, and a client that talks to a server over it."""

import json
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import anyio
from mcp import Client, MCPError
from mcp.server import MCPServer

from rlclinic.runs.store import Store
from rlclinic.serve.mcp.server import build
from rlclinic.serve.mcp.settings import Settings


class Answer:
    """What a tool said: its text, its data, and whether it was an error."""

    def __init__(self, result: Any) -> None:
        self.text = result.content[0].text
        self.data = result.structured_content or {}
        self.error = bool(result.is_error)
        self.pictures = [part for part in result.content if part.type == "image"]


async def ask(client: Client, tool: str, **arguments: Any) -> Answer:
    """One call."""
    return Answer(await client.call_tool(tool, arguments))


@cache
def server(settings: Settings | None = None) -> MCPServer:
    """A server over ./runs, wherever that is."""
    return build(Store("runs"), settings or Settings(local=True))


def ran(work: Callable[[], Awaitable[Any]]) -> Any:
    """What a coroutine gives, in a thread of its own: a browser that tests keep open has a loop running in this one."""
    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(anyio.run, work).result()


def call(tool: str, /, settings: Settings | None = None, **arguments: Any) -> Answer:
    """One call to a server over ./runs, in this process."""

    async def asked() -> Answer:
        async with Client(server(settings)) as client:
            return await ask(client, tool, **arguments)

    return ran(asked)


def read(uri: str, settings: Settings | None = None) -> str:
    """A resource of a server over ./runs; LookupError with what the server said if it has none."""

    async def asked() -> str:
        async with Client(server(settings)) as client:
            try:
                return str((await client.read_resource(uri)).contents[0].text)
            except MCPError as error:
                refused.append(str(error))
                return ""

    refused: list[str] = []
    text = ran(asked)
    if refused:
        raise LookupError(refused[0])
    return text


def size(answer: Answer) -> int:
    """Characters that a model would have to read: the larger of text and data, whichever its client shows."""
    return max(len(answer.text), len(json.dumps(answer.data)))
