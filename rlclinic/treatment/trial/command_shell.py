"""What a run of the user's own command begins as: `python -m rlclinic.launch.child PID rlclinic.treatment.trial.command_shell COMMAND`.

It becomes the shell that runs the command; the kernel's promise to end it with its parent outlives the change. Imports nothing:
every run pays for it.
"""

import os
import sys


def main() -> None:
    """Become the shell."""
    os.execv("/bin/sh", ["sh", "-c", sys.argv[1]])


if __name__ == "__main__":
    main()
