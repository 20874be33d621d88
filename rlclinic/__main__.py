"""`python -m rlclinic`: the same as the `rlclinic` command."""

import sys


def main() -> None:
    """Importing takes a moment, too: Ctrl-C then ends it without a traceback."""
    try:
        from rlclinic.serve.cli import app
    except KeyboardInterrupt:
        sys.exit(130)
    app.main()


if __name__ == "__main__":
    main()
