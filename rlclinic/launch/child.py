"""How a training process begins: it asks the kernel to end with its parent, then becomes `python -m MODULE ARG ...`.

    python -m rlclinic.launch.child PARENT_PID MODULE ARG ...

A launcher that is killed cannot clean up; the kernel can. PARENT_PID 0 means to outlive whoever started it.
"""

import ctypes
import os
import runpy
import signal
import sys
import threading
import time
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_POLL_SECONDS: Final = 1.0


def die_with(parent: int) -> None:
    """Get SIGTERM (checkpoint and stop) when the process that started this one ends, however it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    # It may have ended before the kernel was asked.
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Replace this module by the one that was asked for; `sys.argv` and `__main__` are as with `python -m`."""
    parent, module, *arguments = sys.argv[1:]
    if int(parent):
        die_with(int(parent))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
