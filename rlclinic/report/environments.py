"""Environments with tuned variants, as a document."""

from typing import Final

from rlclinic.report.document import Block, Table
from rlclinic.report.format import number
from rlclinic.report.models import EnvironmentList

FEW: Final = 3
"""Up to so many environments, what each is about is said as well."""


def describe(result: EnvironmentList) -> list[Block]:
    """`envs`: each with its variants, its threshold, and what they were measured to do."""
    rows, remarks = [], {}
    for place, row in enumerate(result.environments):
        measured = row.problem or "; ".join(f"{variant}: {text}" for variant, text in row.measured.items())
        rows.append([row.id, ", ".join(row.variants), number(row.threshold, 4), measured or row.description])
        if measured and row.description and len(result.environments) <= FEW:
            remarks[place] = row.description
    return [Table(["environment", "variants", ">threshold", "measured"], rows, remarks=remarks, remark_head="about")]
