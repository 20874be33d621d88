"""A real server in a process of its own, and streams read from it line by line."""

import http.client
import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any


class Server:
    """`rlclinic serve` on a free port."""

    def __init__(self, root: Path, *options: str, mcp: bool = False, most_files: int | None = None, said: Path | None = None) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        command = [sys.executable, "-m", "rlclinic", "serve", "--port", str(self.port), "--runs-dir", str(root), *options]
        command += [] if mcp else ["--no-mcp"]
        limit = None if most_files is None else partial(resource.setrlimit, resource.RLIMIT_NOFILE, (most_files, most_files))
        log = None if said is None else said.open("w")
        self.process = subprocess.Popen(command, cwd=root.parent, env={**os.environ, "OMP_NUM_THREADS": "1"}, preexec_fn=limit, stderr=log)
        if log is not None:
            log.close()
        self._wait()

    def _wait(self) -> None:
        for _ in range(600):
            try:
                self.ask("GET", "/api/v1/health")
            except (ConnectionError, http.client.HTTPException):
                assert self.process.poll() is None, "the server ended"
                time.sleep(0.05)
            else:
                return
        raise AssertionError("the server does not answer")

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and JSON of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        content = {"content-type": "application/json"} if body is not None else {}
        connection.request(method, path, None if body is None else json.dumps(body), {**content, **headers})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if text else None

    def events(self, path: str, **headers: str) -> Iterator[tuple[str, Any, str | None]]:
        """Events of a stream as (kind, data, id)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        try:
            fields: dict[str, str] = {}
            for raw in answer:
                name, _, value = raw.decode().rstrip("\n").partition(": ")
                if name:
                    fields[name] = value
                elif "event" in fields:
                    yield fields["event"], json.loads(fields["data"]), fields.get("id")
                    fields = {}
        finally:
            connection.close()

    def kill(self) -> None:
        """As the kernel does when memory runs out: no word, no clean-up."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(20)


def wait_for(look: Any, seconds: float = 60.0) -> Any:
    """The first true answer of `look`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen")
