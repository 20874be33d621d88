"""A stand-in for the training process: does what the environment variable PRETEND says, in the way training would."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

from rlclinic.runs import disk
from rlclinic.runs.writer import RunWriter


def main() -> None:
    what = os.environ["PRETEND"]
    paths = [Path(argument) for argument in sys.argv[1:] if argument != "--resume"]
    if what == "raise early":
        raise ValueError("no such thing")
    if what == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    asked = threading.Event()
    if what != "deaf":
        signal.signal(signal.SIGTERM, lambda *_: asked.set())
    worker = os.fork() if what == "worker" else None
    if worker == 0:
        time.sleep(120)
        os._exit(0)
    writers = [RunWriter(path, ["total_timesteps"], 0 if "--resume" in sys.argv else None) for path in paths]
    for path, out in zip(paths, writers, strict=True):
        out.status("running", 1)
        facts = [
            os.getpid(),
            worker or 0,
            os.environ["OMP_NUM_THREADS"],
            os.environ["MKL_NUM_THREADS"],
            os.getpgid(0),
            " ".join(sys.argv[1:]),
        ]
        (path / "facts").write_text("\n".join(map(str, facts)))
    if what.startswith("steps "):
        _, count, file, job, attempt = what.split()
        for _ in range(int(count)):
            disk.append_line(Path(file), f"{job} {attempt} {os.getpid()} {time.time()}")
            if asked.wait(0.05):
                break
    if what == "raise":
        raise ValueError("no such thing")
    if what == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what in ("wait", "deaf", "worker"):
        asked.wait(120)
    for out in writers:
        out.status("stopped" if asked.is_set() else "finished", 2)
        out.close()
    print("done" if what == "talk" else "", end="")


if __name__ == "__main__":
    main()
