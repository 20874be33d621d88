"""Hostile files through everything that reads: crashes, hangs, memory, and whether any of it was executed.

Each case (see `hostile_files`) is read, diagnosed, linted, loaded as a config, compared, listed, imported, and checked and converted as
recorded data, in a process that is watched: more than 10 s of a core, or a minute without an answer, count as a hang, more than 300 MB of
memory as too much, and an exception that is not one of rlclinic's as a crash.
"""

import json
import os
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.attack import hostile_files

FILES: Final = {"quick": 60, "bar": 800, "stretch": 3_000}
MOST_SECONDS: Final = 10.0
MOST_BYTES: Final = 300 << 20
PATIENCE: Final = 6
"""A machine may be busy: what works is given 10 s of a core, and what waits, so many times that."""
FRESH: Final = 100
"""After so many cases another process reads: what Python keeps of the cases before is not memory that a case takes."""
ADDRESS_SPACE: Final = 4 << 30
"""So that a case which takes everything ends itself, and not the machine."""


def rows(size: str) -> Iterator[dict[str, Any]]:
    """How many of the files did each kind of harm."""
    found = attack(FILES[size])
    limits = {"unit": "files", "better": "lower", "bar": 0, "stretch": 0}
    count = found["files"]
    for harm, what in (
        ("crashes", "that crash it"),
        ("hangs", "that take more than 10 s"),
        ("memory", "that take more than 300 MB"),
        ("executed", "of which something was executed"),
    ):
        for case in found[harm][:5]:
            print(f"  {harm}: {case}", flush=True)
        yield {"what": f"hostile files, {count:,}: {what}", "value": float(len(found[harm])), **limits}
    yield {"what": f"hostile files, {count:,}: the longest", "unit": "s", "value": found["longest"], "better": "lower", "bar": MOST_SECONDS}


def attack(count: int, seed: int = 0, first: int = 0) -> dict[str, Any]:
    """Put so many hostile files through all readers, from case `first` on; what came of it."""
    found: dict[str, Any] = {"files": 0, "crashes": [], "hangs": [], "memory": [], "executed": [], "longest": 0.0}
    with tempfile.TemporaryDirectory(prefix="rlclinic-hostile-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        reader = _Reader(folder)
        for number, (case, place) in enumerate(hostile_files.make(folder, first + count, seed)):
            if number >= first:
                if found["files"] % FRESH == FRESH - 1:
                    reader.end()
                    reader = _Reader(folder)
                answer = reader.read(place)
                found["files"] += 1
                found["longest"] = max(found["longest"], PATIENCE * MOST_SECONDS if answer is None else answer["seconds"])
                if answer is None:
                    found["hangs"].append(case)
                else:
                    found["crashes"] += [f"{case}: {text}" for text in answer["crashes"]]
                    found["memory"] += [f"{case}: {answer['peak'] >> 20} MB"] if answer["peak"] > MOST_BYTES else []
                if (folder / hostile_files.MARK).exists():
                    found["executed"].append(case)
                    (folder / hostile_files.MARK).unlink()
            shutil.rmtree(place, ignore_errors=True)
        reader.end()
    return found


class _Reader:
    """The process that reads; another one takes its place when it hangs or dies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "benchmarks.attack.files"]
        stranger = {**os.environ, "RLCLINIC_TRUST": "", "RLCLINIC_STATE": str(self._folder / "state")}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, **pipes, text=True, env=stranger)
        assert process.stdout is not None
        process.stdout.readline()  # it has imported everything
        return process

    def read(self, place: Path) -> dict[str, Any] | None:
        """What came of a case; None if it did not come back."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.write(f"{place}\n")
            process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE * MOST_SECONDS)
        line = process.stdout.readline() if ready else ""
        if not line:
            died = process.poll() if ready else None
            self.end()
            self._process = self._start()
            return None if not ready else {"crashes": [f"the process died ({died})"], "peak": 0, "seconds": 0.0}
        answer: dict[str, Any] = json.loads(line)
        return None if answer["seconds"] > MOST_SECONDS else answer

    def end(self) -> None:
        self._process.kill()
        with suppress(BrokenPipeError):
            self._process.communicate()  # and closes its pipes


# ── the process that reads ──


def _work() -> None:
    import rlclinic.ops.compare.compare
    import rlclinic.ops.data.check
    import rlclinic.ops.data.convert
    import rlclinic.ops.diagnose.diagnose
    import rlclinic.ops.diagnose.lint
    import rlclinic.ops.runs.import_runs
    import rlclinic.ops.runs.listing  # noqa: F401

    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    print("ready", flush=True)
    for line in sys.stdin:
        place = Path(line.rstrip("\n"))
        began = time.process_time()
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins anew
        crashes = [text for work in WAYS if (text := _try(work, place))]
        print(json.dumps({"crashes": crashes, "seconds": time.process_time() - began, "peak": _peak()}), flush=True)


def _try(work: Any, place: Path) -> str | None:
    from rlclinic.errors import RlclinicError

    try:
        work(place)
    except RlclinicError:
        return None
    except BaseException as error:  # noqa: BLE001 — whatever it is, it is what is looked for
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else "?"
        return f"{work.__name__.strip('_')}: {type(error).__name__}: {str(error)[:120]} ({where})"
    return None


def _peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _diagnose(place: Path) -> None:
    from rlclinic.ops.diagnose.diagnose import diagnose

    diagnose(str(place), place / "store", write=False)


def _diagnose_files(place: Path) -> None:
    from rlclinic.ops.diagnose.diagnose import diagnose

    for file in sorted(place.iterdir())[:3]:
        with suppress_ours():
            diagnose(str(file), place / "store", write=False)


def _lint(place: Path) -> None:
    from rlclinic.ops.diagnose.lint import lint

    lint(str(place), (), place / "store")


def _load_configs(place: Path) -> None:
    from rlclinic.config import files

    for file in (*place.glob("*.yaml"), *place.glob("*.yml")):
        for variant in ("", ":ppo"):
            with suppress_ours():
                files.load(f"{file}{variant}")
        with suppress_ours():
            files.available(place)


def _compare(place: Path) -> None:
    from rlclinic.ops.compare.compare import compare

    compare([str(place), str(place)], place / "store")


def _list(place: Path) -> None:
    """The case as a run of a store: listed, shown, summed up."""
    from rlclinic.ops.runs.listing import get_run_info, get_run_logs, list_runs
    from rlclinic.runs.store import Store

    list_runs(place.parent, limit=3)
    with suppress_ours():
        Store(place.parent).resolve(place.name)
    for look in (get_run_info, get_run_logs):
        with suppress_ours():
            look(place.name, place.parent)


def _import(place: Path) -> None:
    from rlclinic.ops.runs.import_runs import import_path

    import_path(str(place), place.parent / "imported")


def _check_data(place: Path) -> None:
    """The case, and every file in it, as recorded data: looked at, and converted."""
    from rlclinic.ops.data.check import check
    from rlclinic.ops.data.convert import convert
    from rlclinic.ops.data.requests import CheckRequest, ConvertRequest

    for file in (place, *sorted(place.iterdir())[:3]):
        with suppress_ours():
            check(CheckRequest(data=str(file)))
        with suppress_ours():
            convert(ConvertRequest(data=str(file), out=place.with_name(f"{place.name}-converted")))
        shutil.rmtree(place.with_name(f"{place.name}-converted"), ignore_errors=True)


def suppress_ours() -> Any:
    """Refusals are what is wanted; what follows is tried all the same."""
    from rlclinic.errors import RlclinicError

    return suppress(RlclinicError)


WAYS: Final = (_diagnose, _diagnose_files, _lint, _load_configs, _compare, _list, _import, _check_data)


if __name__ == "__main__":
    _work()
