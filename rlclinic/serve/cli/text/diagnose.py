"""`diagnose` on a terminal."""

from typing import TYPE_CHECKING

from rlclinic.report.diagnosis import answer, ending
from rlclinic.report.document import Block, Gap
from rlclinic.serve.cli.text import terminal

if TYPE_CHECKING:
    from rlclinic.report.models import DiagnosisReport


def print_diagnosis(result: "DiagnosisReport", seconds: float) -> None:
    """What is wrong with each config, then what to type."""
    blocks: list[Block] = []
    for report in (result, *result.more):
        blocks += [*([Gap()] if blocks else []), *answer(report)]
    terminal.show([*blocks, *ending(result, seconds)])
