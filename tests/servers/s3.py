"""A server that speaks S3, for tests: moto's where RLCLINIC_MOTO names the Python of an environment that has it (its dependencies are not
ours), else a small one of our own, which knows puts (conditional ones too), reads, lists and deletions, and no signatures."""

import hashlib
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from urllib.request import Request, urlopen
from xml.sax.saxutils import escape

BUCKET = "runs"
_WHEN = "Mon, 02 Jan 2034 00:00:00 GMT"


class _Bucket(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes]
    lock: threading.Lock

    def _answer(self, status: int, body: bytes = b"", etag: str = "", *, head: bool = False) -> None:
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), "etag": etag, "last-modified": _WHEN if etag else ""}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if not head:
            self.wfile.write(body)

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}").lstrip("/")

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        with self.lock:
            if self.headers.get("if-none-match") == "*" and self._key() in self.objects:
                self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            self.objects[self._key()] = body
        self._answer(200, etag=_etag(body))

    def do_GET(self, *, head: bool = False) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        if "list-type" in asked:
            prefix = asked.get("prefix", [""])[0]
            with self.lock:
                found = sorted((key, body) for key, body in self.objects.items() if key.startswith(prefix))
            entry = "<Contents><Key>{}</Key><LastModified>2034-01-02T00:00:00.000Z</LastModified><ETag>{}</ETag><Size>{}</Size></Contents>"
            listed = "".join(entry.format(escape(key), escape(_etag(body)), len(body)) for key, body in found)
            self._answer(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{listed}</ListBucketResult>".encode())
            return
        body = self.objects.get(self._key())
        if body is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>", head=head)
        else:
            self._answer(200, body, _etag(body), head=head)

    def do_HEAD(self) -> None:
        self.do_GET(head=True)

    def do_POST(self) -> None:
        keys = re.findall(r"<Key>(.*?)</Key>", self.rfile.read(int(self.headers.get("content-length", "0"))).decode())
        with self.lock:
            for key in keys:
                self.objects.pop(key, None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def do_DELETE(self) -> None:
        with self.lock:
            self.objects.pop(self._key(), None)
        self._answer(204)

    def log_message(self, *_: object) -> None:
        pass


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body).hexdigest()}"'


@contextmanager
def serve_s3() -> Iterator[str]:
    """Its address, with an empty bucket `runs`."""
    if "RLCLINIC_MOTO" in os.environ:
        with _serve_moto(os.environ["RLCLINIC_MOTO"]) as address:
            yield address
        return
    bucket = type("Bucket", (_Bucket,), {"objects": {}, "lock": threading.Lock()})
    with ThreadingHTTPServer(("127.0.0.1", 0), bucket) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def _serve_moto(python: str) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    server = subprocess.Popen([python, "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=own)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                urlopen(Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT"), timeout=5).close()
                break
            except OSError:
                assert server.poll() is None, "the server ended"
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)
