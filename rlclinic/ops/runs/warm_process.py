"""A process that has imported PyTorch and Gymnasium ahead, so that an episode is played as soon as somebody asks for it.

Started when a page shows checkpoints (`warm`), gone after a while without work. Each episode is played in a fork of it: an environment
that crashes takes nothing with it, and none sees what another imported. Where processes cannot be forked there is none, and whoever
asks starts an ordinary one.
"""

import atexit
import importlib
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

from rlclinic.errors import RlclinicError
from rlclinic.ops.runs import policy

IDLE_SECONDS: Final = 300.0
_lock = threading.Lock()
_process: subprocess.Popen[str] | None = None


def warm() -> None:
    """Start it, unless it is there; returns at once."""
    global _process
    atexit.register(stop)
    if not hasattr(os, "fork") or sys.platform == "darwin" or not _lock.acquire(blocking=False):
        return
    try:
        if _process is None or _process.poll() is not None:
            command = [sys.executable, "-m", "rlclinic.ops.runs.warm_process"]
            _process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
    finally:
        _lock.release()


def record(checkpoint: str, runs_dir: Path, video: Path, trace: Path, seconds: float) -> subprocess.CompletedProcess[str] | None:
    """Record an episode in a fork of the warm process; None where there is none, or it is busy."""
    global _process
    if _process is None or not _lock.acquire(blocking=False):
        return None
    try:
        if _process.poll() is not None or _process.stdin is None or _process.stdout is None:
            _process = None
            return None
        places = {"runs_dir": str(runs_dir), "video": str(video), "trace": str(trace), "folder": str(Path.cwd())}
        request = {"checkpoint": checkpoint, **places, "seconds": seconds, "environment": dict(os.environ)}
        try:
            _process.stdin.write(json.dumps(request) + "\n")
            _process.stdin.flush()
            answer = json.loads(_process.stdout.readline())
        except (OSError, ValueError):
            _process.kill()
            _process = None
            return None
        return subprocess.CompletedProcess([checkpoint], answer["returncode"], "", answer["stderr"])
    finally:
        _lock.release()


def stop() -> None:
    """End it."""
    global _process
    with _lock:
        if _process is not None:
            _process.kill()
            _process.wait()
            for pipe in (_process.stdin, _process.stdout):
                if pipe is not None:
                    pipe.close()
            _process = None


def main() -> None:
    """Import what takes long, then record episodes, each in a fork, until nobody asks any more."""
    for name in ("rlclinic.training.recording.films", "rlclinic.training.policy", "PIL.GifImagePlugin"):
        importlib.import_module(name)
    parent, asked = os.getppid(), time.monotonic()
    while os.getppid() == parent and time.monotonic() - asked < IDLE_SECONDS:
        if not select.select([sys.stdin], [], [], 2.0)[0]:
            continue
        line = sys.stdin.readline()
        if not line:
            return
        print(json.dumps(_record_forked(json.loads(line))), flush=True)
        asked = time.monotonic()


def _record_forked(request: dict[str, Any]) -> dict[str, object]:
    with tempfile.TemporaryFile("w+") as errors:
        child = os.fork()
        if child == 0:
            _record_and_exit(request, errors.fileno())
        code = _wait(child, float(request["seconds"]))
        errors.seek(0)
        return {"returncode": code, "stderr": errors.read()}


def _record_and_exit(request: dict[str, Any], errors: int) -> None:
    code = 1
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for place, stream in ((nowhere, 0), (nowhere, 1), (errors, 2)):
            os.dup2(place, stream)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        store, video, trace = (Path(request[name]) for name in ("runs_dir", "video", "trace"))
        policy.evaluate(request["checkpoint"], store, episodes=1, video=video, trace=trace)
        code = 0
    except RlclinicError as error:
        os.write(2, str(error).encode())
    except Exception as error:  # noqa: BLE001 - an environment's own: whatever it is, somebody reads what it says
        os.write(2, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(code)  # never on as a second warm process


def _wait(child: int, seconds: float) -> int:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return 124


if __name__ == "__main__":
    main()
