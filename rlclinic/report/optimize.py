"""A search as a document: what was tried, what won, and how sure that is."""

from collections.abc import Sequence

from rlclinic.report.document import Block, Gap, Rows, Text, Verdict
from rlclinic.report.format import clip, number, short
from rlclinic.treatment.optimize.ledger import Entry, Ledger, Round
from rlclinic.treatment.trial.arms import Arm


def describe(ledger: Ledger, changes: Sequence[str], evidence: Sequence[str] = (), *, spent: int | None = None) -> list[Block]:
    """Every round with its configs, the verdict, and what the best config changes. `spent`: env steps so far, where they are asked for."""
    blocks: list[Block] = [Text(f"{ledger.id}  {ledger.env_id} · {ledger.algo} · from {ledger.target}")]
    if spent is not None:
        blocks.append(Text(f"spent {short(spent)} of {short(ledger.budget)} env steps; {len(ledger.tried)} configs tried"))
    blocks.append(Gap())
    for each in ledger.rounds:
        wrong = f"  {each.diagnosis}" if each.diagnosis else ""
        blocks.append(Text(f"round {each.number:<3}{each.kind:<9}{short(each.used_env_steps):>7} env steps{wrong}"))
        if each.kind == "confirm":
            outcome = f"{each.verdict} (alpha {each.alpha:.3g})" if each.done else "under way"
            blocks.append(Rows([("", f"trial {each.trial}: {outcome}")], 0, 4))
        else:
            blocks.append(Rows([_describe_entry(entry, each, ledger) for entry in each.entries], 22, 2))
    blocks += [Gap(), Verdict(ledger.verdict.upper() or ledger.state.upper(), "")]
    if ledger.best is not None and spent is not None:
        rows = [("best", f"{ledger.best.reached}/{ledger.best.n} reach it; {' '.join(changes) or 'the start itself'}")]
    else:
        rows = [("", text) for text in [*evidence, *(f"--set '{change}'" for change in changes)]]
    blocks.append(Rows(rows, 0, 2))
    searched = any(entry.source == "search" for entry in ledger.tried)
    return [*blocks, Rows([("note", note) for note in ledger.notes if searched])]


def _describe_entry(entry: Entry, within: Round, ledger: Ledger) -> tuple[str, str]:
    pruned = f", {entry.pruned} stopped early" if entry.pruned else ""
    done = f"{entry.reached}/{entry.n} reach it{pruned}" if ledger.threshold is not None else f"return {number(entry.final)}"
    change = clip(Arm(name=entry.name, changes=entry.changes).title, 110) if entry.changes else ""
    return f"{'→' if entry.name == within.winner else ' '} {entry.name}", f"{done:<32}{change}".rstrip()
