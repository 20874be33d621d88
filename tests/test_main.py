"""The command begins in rlclinic/__main__.py, which imports the rest."""

import subprocess
import sys

INTERRUPTED = """
import sys

class Interrupt:
    def find_spec(self, name, *rest):
        if name == "rlclinic.serve.cli.app":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from rlclinic.__main__ import main
main()
"""


def test_an_interrupt_while_importing_ends_without_a_traceback() -> None:
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


TOO_SOON = """
import typer.main

def interrupt(*rest):
    raise KeyboardInterrupt

typer.main.get_command = typer.main.get_group = interrupt
from rlclinic.__main__ import main
main()
"""


def test_an_interrupt_before_the_command_begins_ends_without_a_traceback() -> None:
    ended = subprocess.run([sys.executable, "-c", TOO_SOON], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
