"""What `prescribe` returns and says: which settings to change, to which values, why, and what to expect of it."""

from rlclinic.actions import Action, Change
from rlclinic.diagnosis.findings import Facts
from rlclinic.errors import NotFound
from rlclinic.report.diagnosis import PRIORITY_TONES, purpose_of
from rlclinic.report.document import Block, Card, Commands, Gap, Rows, Text, Verdict
from rlclinic.report.format import plural
from rlclinic.report.models import Result, ResultPart
from rlclinic.treatment.prescription.prescription import Prescription


class Written(ResultPart):
    """A prescription in every form that it can be typed or pasted in."""

    number: int
    yaml: str
    overrides: list[str]
    foreign: dict[str, str]
    """By framework: sb3, cleanrl, gymnasium-solver."""


class Prescriptions(Result):
    """What to change in a group, the most promising first."""

    target: str
    group: str | None
    """Id of our own group, if it is one."""
    facts: Facts
    verdict: str
    answer: str
    """The likeliest cause."""
    probability: float
    prescriptions: list[Prescription]
    written: list[Written]
    trials: int
    """Recorded trials that forecasts could rest on."""
    translated: bool
    """The run is another framework's: settings that it did not log are ours."""
    why_none: str = ""
    """Why nothing is prescribed, where nothing is."""
    next: list[Action]

    def find(self, number: int) -> Prescription:
        """The prescription with this number; NotFound says which there are."""
        for rx in self.prescriptions:
            if rx.number == number:
                return rx
        there = ", ".join(str(rx.number) for rx in self.prescriptions) or "none"
        raise NotFound(f"{self.target} has no prescription {number}; there: {there}.\n  See them: ", Action("prescribe", self.target))


def describe(result: Prescriptions, *, brief: bool = False) -> list[Block]:
    """What is wrong, then each prescription with its reasons and, unless `brief`, its spellings, then what to type."""
    facts = result.facts
    names = [facts.id, (facts.algo or "unknown algorithm").upper(), facts.env or "unknown environment", plural(facts.runs, "seed")]
    blocks: list[Block] = [Text(" · ".join(names)), Verdict(result.verdict, f"{result.answer}  p {result.probability:.2f}")]
    if result.translated and result.prescriptions:
        blocks.append(Rows([("note", "settings that the log does not tell are taken to be usual ones")]))
    explained: set[str] = set()
    for rx, written in zip(result.prescriptions, result.written, strict=True):
        # What speaks for a cause is said once.
        evidence = "" if rx.cause in explained or brief else " · ".join(rx.evidence)
        explained.add(rx.cause)
        expected = f"{rx.effect}: {rx.expected.text}" if rx.expected is not None else "no data: no cell and no trial of it is recorded"
        lines = [("because", rx.rationale), ("seen", evidence)]
        if rx.trialable:
            lines += [("expect", expected), ("risk", rx.risk or ("none known" if brief else ""))]
            lines += [("held back", rx.held_back or "")]
            lines += [("yaml", "" if brief else written.yaml.replace("\n", "; "))]
            lines += [("set", Change.typed(written.overrides, quoted=True)), *written.foreign.items()]
        kept = [(label, text) for label, text in lines if text]
        card = Card(f"RX {rx.number}", rx.title, kept, [rx.priority], PRIORITY_TONES[rx.priority], width=10, indent=6)
        blocks += [Gap(), card]
    if not result.prescriptions:
        blocks.append(Text(f"nothing is prescribed: {result.why_none}"))
    commands = [(purpose_of(action), action) for action in result.next]
    return [*blocks, Gap(), Commands(commands)] if commands else blocks
