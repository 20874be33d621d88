"""Reaching a Ray cluster, for whoever starts something there: cohorts (`launch.ray`) and actors (`training.actors.on_ray`)."""

import atexit
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rlclinic.errors import RunError, UsageError

ADDRESS: Final = "RAY_ADDRESS"
ANSWER_SECONDS: Final = 5.0
"""How long a cluster may take to be reached at all."""
OBJECT_STORE_BYTES: Final = 100_000_000
"""Of a cluster of our own: what is sent through it is small."""


class ClusterAway(RunError):
    """A cluster that cannot be reached, or has no node now. It may come back: a queue tries again what it ends."""


def load() -> Any:
    """The module `ray`; UsageError where it is not installed."""
    try:
        import ray
    except ImportError:
        raise UsageError("Ray is not installed.\n  Nothing can be started on it.\n  Type: pip install 'rlclinic[ray]'") from None
    return ray


def connect(address: str | None, cores: int) -> Any:
    """The module `ray`, connected to a cluster: None is the one that RAY_ADDRESS names, or else one of our own with that many cores."""
    own = address is None and ADDRESS not in os.environ
    if own:
        _keep_to_ourselves()
    ray = load()
    options: dict[str, Any] = {"address": "local" if own else _find_address(address), "namespace": "rlclinic"}
    if own:
        options |= {"num_cpus": cores, "include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
        options |= {"_temp_dir": _find_own_folder()}
    in_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)} if in_main else {}
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, configure_logging=False, **options)
    except Exception as error:  # noqa: BLE001 - Ray says it with whatever is at hand: a node that is slow to start is a plain Exception
        raise ClusterAway(
            f"the Ray cluster {options['address']} cannot be used: {shorten(error)}.\n  Nothing was started.\n"
            "  See that it runs (ray status), that RAY_ADDRESS names it, and that its token is yours"
        ) from None
    finally:
        # Ray would end this process at the first SIGTERM, and with it its runs, before they have a checkpoint.
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return ray


def errors_of(ray: Any) -> tuple[type[Exception], ...]:
    """What is raised where a cluster is lost, or the way to it: Ray's own errors, and its Client's."""
    return ray.exceptions.RayError, ConnectionError


@contextmanager
def reached(ray: Any) -> Iterator[None]:
    """ClusterAway for whatever the block is told of a cluster that was lost since it was connected to."""
    try:
        yield
    except errors_of(ray) as error:
        raise ClusterAway(
            f"the Ray cluster was lost: {shorten(error)}.\n  What trains there stops with its lease.\n  See ray status, and try again"
        ) from None


def is_connected() -> bool:
    """Whether this process is connected to a cluster already."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def find_own_address() -> str | None:
    """Where the cluster is reached that this process is connected to; None: to none."""
    return str(load().get_runtime_context().gcs_address) if is_connected() else None


def shorten(error: BaseException) -> str:
    """What an error of Ray's says, in a line. Its Client puts the reason of the other side last, behind where it was raised."""
    lines = (str(error).strip() or type(error).__name__).splitlines()
    said = f"{lines[0]} {lines[-1].strip()}" if len(lines) > 1 and lines[0].endswith(":") else lines[0]
    return said.rstrip(".")[:300]


def _find_address(given: str | None) -> str:
    """The address of a cluster that answers. Ray itself may wait for one that is gone for longer than ten minutes."""
    address = given or os.environ[ADDRESS]
    known = Path(os.environ.get("RAY_TMPDIR", "/tmp")) / "ray" / "ray_current_cluster"
    if address == "auto":
        # Left behind by whatever cluster was started last, also by one that was killed.
        address = known.read_text().strip() if known.exists() else ""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS).close()
    except (OSError, ValueError, OverflowError) as error:
        where = f"of this machine ({known})" if given == "auto" else address
        raise ClusterAway(
            f"the Ray cluster {where} does not answer: {shorten(error)}.\n  Nothing was started.\n"
            "  Start it (ray start --head), or see that RAY_ADDRESS or --on names the one that runs"
        ) from None
    return address


_own: list[str] = []


def _find_own_folder() -> str:
    """A folder for a cluster of our own, that ends with this process. Short: the paths of sockets in it have 107 letters at most."""
    if not _own:
        _own.append(tempfile.mkdtemp(prefix="rlclinic-ray-", dir="/tmp"))
        atexit.register(_disconnect, _own[0], os.getpid())
    return _own[0]


def _disconnect(folder: str, process: int) -> None:
    if process == os.getpid() and "ray" in sys.modules:
        sys.modules["ray"].shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def _keep_to_ourselves() -> None:
    """A cluster of our own asks for a token that nobody else knows, and leaves nothing in the user's home or where others look for one."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray would have workers, and with them the training processes, give way to everything else on this machine.
    os.environ.setdefault("RAY_worker_niceness", "0")
    if not any(name.startswith("RAY_AUTH") for name in os.environ):
        token = Path(_find_own_folder()) / "token"
        token.touch(0o600)
        token.write_text(secrets.token_hex(32))
        os.environ["RAY_AUTH_TOKEN_PATH"] = str(token)
        if "ray" not in sys.modules:
            # Ray reads this when it is imported. Later it would be half believed; then a token that is there decides.
            os.environ["RAY_AUTH_MODE"] = "token"
