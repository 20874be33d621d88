"""`python -m rlclinic`: the same as the `rlclinic` command."""

import sys


def main() -> None:
    """Importing takes a moment, and so does putting the commands together: Ctrl-C then ends it without a traceback, too."""
    try:
        from rlclinic.serve.cli import app

        app.main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
