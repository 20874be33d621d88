"""`runs checkpoints --inspect` as text."""

from typing import TYPE_CHECKING

from rlclinic.report.format import BLANK, count, number, percent
from rlclinic.serve.cli import console
from rlclinic.serve.cli.text import results

if TYPE_CHECKING:
    from rlclinic.diagnosis.checkpoints.inspect_run import Inspection, LayerView


def print_inspection(found: "Inspection") -> None:
    """A line of facts, a row per tensor, what is wrong, and what could not be looked at."""
    since = f", changes since {count(found.before)}" if found.before is not None else ""
    steps = f" · {count(found.optimizer_steps)} optimizer steps" if found.optimizer_steps is not None else ""
    results.print_lines([f"{found.run} · env step {count(found.step)}{since}{steps}"])
    if found.layers:
        table = results.bare_table("tensor", "shape", ">norm", ">change", ">rank", ">dead", ">saturated", "")
        for layer in found.layers:
            table.add_row(*_cells(layer))
        console.results().print(table)
    if found.observations and any(layer.width for layer in found.layers):
        results.print_lines([f"units     judged on {found.observations}"])
    for each in found.findings:
        results.print_lines([f"{each.severity.value.upper():<10}{each.text}  {each.rule}", *_fixes([fix.text for fix in each.remedies])])
    for missing in found.unassessable:
        results.print_lines(["NOT ASSESSABLE  a pickled model is not opened: reading it would run what it says. Save the weights first:"])
        results.print_lines([f"          {line}" for line in missing.paste])
    if not found.findings and not found.unassessable:
        results.print_lines(["nothing is wrong with it"])


def _fixes(texts: list[str]) -> list[str]:
    return [f"          {text}" for text in texts]


def _cells(layer: "LayerView") -> list[str]:
    rank = BLANK if layer.rank is None else f"{number(layer.rank)}/{min(layer.shape)}"
    units = [BLANK if value is None else f"{value}/{layer.width}" for value in (layer.dead, layer.saturated)]
    broken = f"{count(layer.not_finite)} not finite" if layer.not_finite else ""
    change = BLANK if layer.change is None else percent(layer.change)
    return [layer.name, "x".join(map(str, layer.shape)), number(layer.norm), change, rank, *units, broken]
