"""A search as a document: what was tried, what won, and how sure that is."""

from collections.abc import Sequence

from rlclinic.actions import Change
from rlclinic.report.document import Block, Gap, Rows, Text, Verdict
from rlclinic.report.format import clip, number, short, step_unit
from rlclinic.treatment.optimize.ledger import Confirmed, Entry, Ledger, Round
from rlclinic.treatment.trial.arms import Arm


def describe(ledger: Ledger, changes: Sequence[str], evidence: Sequence[str] = (), *, spent: int | None = None) -> list[Block]:
    """Every round with its configs, the verdict, and what the best config changes. `spent`: env steps so far, where they are asked for."""
    unit = step_unit(ledger.algo, ledger.start)
    blocks: list[Block] = [Text(f"{ledger.id}  {ledger.env_id} · {ledger.algo} · from {ledger.target}")]
    if spent is not None:
        blocks.append(Text(f"spent {short(spent)} of {short(ledger.budget)} {unit}; {len(ledger.tried)} configs tried"))
    blocks.append(Gap())
    for each in ledger.rounds:
        wrong = f"  {each.diagnosis}" if each.diagnosis else ""
        blocks.append(Text(f"round {each.number:<3}{each.kind:<9}{short(each.used_env_steps):>7} {unit}{wrong}"))
        if each.kind == "confirm":
            said = describe_confirmation(ledger, each) if each.done else f"{each.entries[0].name} against the start: under way"
            blocks.append(Rows([("", said)], 0, 4))
        else:
            blocks.append(Rows([_describe_entry(entry, each, ledger) for entry in each.entries], 22, 2))
    blocks += [Gap(), Verdict(ledger.verdict.upper() or ledger.state.upper(), "")]
    if ledger.best is not None and spent is not None:
        proven = [describe_confirmation(ledger, confirmation) for confirmation in ledger.confirmations if confirmation.done]
        said = proven[-1] if proven else f"{ledger.best.reached}/{ledger.best.n} of the runs that picked it reach it; not confirmed"
        rows = [("best", f"{said}; {' '.join(changes) or 'the start itself'}")]
        rows += [("not affordable", text) for text in ledger.not_afforded]
    else:
        rows = [("", text) for text in [*evidence, *(Change.typed([change], quoted=True) for change in changes)]]
    blocks.append(Rows(rows, 0, 2))
    searched = any(entry.source == "search" for entry in ledger.tried)
    return [*blocks, Rows([("note", note) for note in ledger.notes if searched])]


def describe_confirmation(ledger: Ledger, confirmation: Round) -> str:
    """What fresh seeds say: "trial tf4p: adopt on 6 fresh seeds an arm: 6/6 reach it, the start 0/6; 0.41x the steps …, alpha 0.035"."""
    figures = confirmation.confirmed
    if figures is None:
        return f"trial {confirmation.trial}: {confirmation.verdict} against the start, on fresh seeds, alpha {confirmation.alpha:.3g}"
    said = []
    if figures.reached is not None:
        said.append(f"{figures.reached}/{figures.seeds} reach it, the start {figures.start_reached}/{figures.seeds}")
    if figures.value is not None or figures.low is not None or figures.high is not None:
        said.append(_describe_effect(ledger, figures))
    seeds = f"on {figures.seeds} fresh seeds an arm" + (f": {'; '.join(said)}" if said else "")
    return f"trial {confirmation.trial}: {confirmation.verdict} {seeds} (alpha {confirmation.alpha:.3g})"


def _describe_effect(ledger: Ledger, figures: Confirmed) -> str:
    unit = {"steps": "x the steps", "wall": "x the time", "stability": "x the spread", "return": " of return"}[ledger.outcome]
    ends = ["–" if end is None else number(end, 2) for end in (figures.low, figures.high)]
    sign = "+" if figures.effect == "gain" and (figures.value or 0.0) > 0 else ""
    value = "" if figures.value is None else f"{sign}{number(figures.value, 2)}{unit} "
    return f"{value or unit.removeprefix('x ') + ' '}[{ends[0]}, {ends[1]}] at {100 * figures.level:.3g} %"


def _describe_entry(entry: Entry, within: Round, ledger: Ledger) -> tuple[str, str]:
    pruned = f", {entry.pruned} stopped early" if entry.pruned else ""
    pruned += f", {entry.lost} killed by the machine and not scored" if entry.lost else ""
    done = f"{entry.reached}/{entry.n} reach it{pruned}" if ledger.threshold is not None else f"return {number(entry.final)}"
    change = clip(Arm(name=entry.name, changes=entry.changes).title, 110) if entry.changes else ""
    return f"{'→' if entry.name == within.winner else ' '} {entry.name}", f"{done:<32}{change}".rstrip()
