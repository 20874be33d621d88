"""What every test can rely on: one thread per process, no display, no colours, repeatable property tests, no waits for disks or imports."""

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from tests.launch.warm import Warm
    from tests.servers import redis_server as redis_servers
    from tests.servers.postgres import Server

# Before torch and numpy are imported: pytest runs one process per core, and a thread pool in each would fight for them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ["MPLBACKEND"] = "Agg"
os.environ["SDL_VIDEODRIVER"] = "dummy"
os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = "1"
# Help texts and tables are compared as plain text, whatever terminal the tests were started from.
os.environ["NO_COLOR"] = "1"
os.environ["TERM"] = "dumb"
os.environ["COLUMNS"] = "120"
# Environments of the tests are ours. tests/attack, which has a stranger's, asks for approval as users are asked.
os.environ["RLCLINIC_TRUST"] = "all"


def find_memory() -> str | None:
    """A file system in memory that is large enough for what tests write, and from which compiled units can be loaded."""
    folder = Path("/dev/shm")
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        return None
    there = os.statvfs(folder)
    return str(folder) if there.f_bavail * there.f_frsize > 4e9 and not there.f_flag & os.ST_NOEXEC else None


# Thousands of runs of a few rows are written and deleted: on a disk that takes a quarter of their time.
if "TMPDIR" not in os.environ and (memory := find_memory()):
    os.environ["TMPDIR"] = memory
    tempfile.tempdir = None
OWN_STATE = None if "RLCLINIC_STATE" in os.environ else tempfile.mkdtemp(prefix="rlclinic-state-")
if OWN_STATE:
    os.environ["RLCLINIC_STATE"] = OWN_STATE
for forced in ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS"):
    os.environ.pop(forced, None)

# The same examples every time: a failure that comes and goes would be rerun, not read. Slow machines have no deadline.
hypothesis.settings.register_profile("rlclinic", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("rlclinic")


# A third of the collecting would be spent on looking for garbage among modules and tests, which all stay until the end.
gc.disable()


def pytest_collection_finish() -> None:
    """From here on garbage is looked for among what tests make, and not among what was there before them."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    if OWN_STATE:
        shutil.rmtree(OWN_STATE, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `cuda` where there is no CUDA device; torch is imported only if there is one to ask about."""
    marked = [item for item in items if item.get_closest_marker("cuda")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


@pytest.fixture(autouse=True)
def _limits_end_with_their_test() -> Iterator[None]:
    """A server limits its process, and those that it starts, by variables of the environment: this process goes on with other tests."""
    before = {name: value for name, value in os.environ.items() if name.startswith("RLCLINIC_")}
    yield
    for name in [name for name in os.environ if name.startswith("RLCLINIC_")]:
        if name not in before:
            del os.environ[name]
    os.environ.update(before)


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Thousands of small files are written, and none must outlive a power cut: what a process has written is there without it, too."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session")
def warm() -> "Iterator[Warm]":
    """A process that has imported torch, and forks training processes; it starts when the first one is needed."""
    from tests.launch.warm import Warm

    with Warm() as parent:
        yield parent


@pytest.fixture(scope="session", autouse=True)
def _training_starts_warm(warm: "Warm") -> Iterator[None]:
    """The launcher forks its training processes. Real ones, imports and all, start wherever a test starts a process that launches."""
    from tests.launch.warm import used_by_the_launcher

    with used_by_the_launcher(warm):
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator["Server"]:
    """A PostgreSQL server for all tests of a process. Each store has its own rows in it."""
    from tests.servers import postgres

    if postgres.find_binaries() is None:
        # In continuous integration nothing that can be tested goes untested.
        (pytest.fail if os.environ.get("RLCLINIC_CI") else pytest.skip)(postgres.MISSING)
    with postgres.serve() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: "Server", monkeypatch: pytest.MonkeyPatch) -> "Server":
    """The queue is in PostgreSQL."""
    monkeypatch.setenv("RLCLINIC_DB", postgres_server.url)
    return postgres_server


@pytest.fixture(scope="session")
def started_redis() -> Iterator["redis_servers.Server"]:
    """A Redis server for all tests of a process. Each store has its own keys in it."""
    from tests.servers import redis_server as redis_servers

    if redis_servers.find_binary() is None:
        (pytest.fail if os.environ.get("RLCLINIC_CI") else pytest.skip)(redis_servers.MISSING)
    with redis_servers.serve() as server:
        yield server


@pytest.fixture
def redis(started_redis: "redis_servers.Server", monkeypatch: pytest.MonkeyPatch) -> Iterator["redis_servers.Server"]:
    """Servers tell each other what has changed, and count together."""
    monkeypatch.setenv("RLCLINIC_REDIS", started_redis.url)
    yield started_redis
    started_redis.start()
