"""Prescriptions as text for people. Nothing here decides anything."""

from typing import TYPE_CHECKING

from rlclinic.report.format import plural
from rlclinic.serve.cli import console
from rlclinic.serve.cli.text.results import print_lines

if TYPE_CHECKING:
    from rlclinic.ops.diagnose.prescribe import Prescriptions, Written
    from rlclinic.treatment.prescription.prescription import Prescription

LABEL = 10
STYLES = {"critical": "bold red", "high": "bold yellow", "medium": "yellow", "low": "dim"}
COMMANDS = {"rlclinic trial": "prove it", "rlclinic train": "use it", "rlclinic optimize": "search"}


def print_prescriptions(result: "Prescriptions") -> None:
    """What is wrong, then each prescription with its reasons and spellings, then what to type."""
    facts = result.facts
    what = " · ".join(
        [facts.id, (facts.algo or "unknown algorithm").upper(), facts.env or "unknown environment", plural(facts.runs, "seed")]
    )
    print_lines([what, f"{result.verdict}  {result.answer}  p {result.probability:.2f}"])
    if result.translated and result.prescriptions:
        print_lines(["note      settings that the log does not tell are taken to be usual ones"])
    told: set[str] = set()
    for rx, written in zip(result.prescriptions, result.written, strict=True):
        print_lines([""])
        # What speaks for a cause is said once.
        _print_prescription(rx if rx.cause not in told else rx.model_copy(update={"evidence": ()}), written)
        told.add(rx.cause)
    if not result.prescriptions:
        print_lines([f"nothing is prescribed: {result.why_none}"])
    endings = [(next((name for start, name in COMMANDS.items() if text.startswith(start)), "next"), text) for text in result.next]
    print_lines(["", *(f"{label:<{LABEL}}{text}" for label, text in endings)] if endings else [])


def _print_prescription(rx: "Prescription", written: "Written") -> None:
    from rich.text import Text

    line = Text(f"RX {rx.number}  ")
    line.append(f"{rx.priority:<9}", style=STYLES[rx.priority])
    line.append(f" {rx.title}", style="bold")
    console.results().print(line, soft_wrap=True)
    print_lines(prescription_lines(rx, written))


def prescription_lines(rx: "Prescription", written: "Written") -> list[str]:
    """All but the first line of a prescription."""
    rows = [
        ("because", rx.rationale),
        ("seen", " · ".join(rx.evidence)),
        ("expect", f"{rx.effect}: {rx.expected.text} (80 %)" if rx.expected is not None else "no data: no trial of it is recorded"),
        ("risk", rx.risk),
        ("yaml", written.yaml.replace("\n", "; ")),
        ("set", " ".join(f"--set '{text}'" for text in written.overrides)),
        *((name, text) for name, text in written.foreign.items()),
    ]
    if not rx.trialable:
        rows = [("because", rx.rationale), ("seen", " · ".join(rx.evidence))]
    return [f"      {label:<{LABEL}}{text}" for label, text in rows if text]
