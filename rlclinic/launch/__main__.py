"""The supervisor of detached runs: starts cohorts as cores come free, and records how each ended.

It is what `rlclinic train --detach` leaves behind; SIGTERM makes it stop its runs after a checkpoint.
"""

import json
import signal
import sys

from rlclinic.launch import places


def main() -> int:
    """Run the order in the first argument (see `local._detach`) to its end."""
    order = json.loads(sys.argv[1])
    launch = places.start(
        order["cohorts"],
        parallel=order["parallel"],
        resume=order["resume"],
        threads=order["threads"],
        module=order["module"],
        device=order["device"],
    )
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: asked.append(number))
    # Not from the handler itself: it may interrupt the launch in the middle of a change.
    launch.wait(tick=lambda: launch.stop() if asked and not launch.stopping else None)
    return 1 if launch.failed else 0


if __name__ == "__main__":
    sys.exit(main())
