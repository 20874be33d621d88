"""What a round may cost at most, and what is kept back for the proof: a search never takes more env steps than its budget.

Before a round starts, every run in it is counted as one that trains to its very end. Runs that end at the threshold, or are stopped,
cost less, and what they leave is there for the next round. Work that a killed process lost is trained again from its last checkpoint,
and is not counted twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rlclinic.config import Config
from rlclinic.treatment.optimize.ledger import Entry, Ledger
from rlclinic.treatment.trial.sequential import NORMAL_FROM

PER_LOOK: Final = 6
"""Seeds an arm at each look of a confirmation: six against six that all do better pass the bound of one look."""
FEWEST_PER_LOOK: Final = 5
MOST_PER_LOOK: Final = 10
LOOKS: Final = 3
KEPT_SHARE: Final = 1 / 3
"""Of the budget, for a confirmation as it is wanted; the smallest one may be kept back where it takes MOST_KEPT of it at most."""
MOST_KEPT: Final = 0.45


@dataclass(frozen=True)
class Size:
    """Looks of a confirmation, and seeds an arm at each of them."""

    looks: int
    per_look: int


def run_cost(config: Config) -> int:
    """Env steps that a run may take: whole rollouts, of which the last may end after its budget."""
    return config.iterations * config.rollout_size


def round_cost(entries: Sequence[Entry], seeds: int) -> int:
    """What a round takes if every run of it trains to its end."""
    return seeds * sum(run_cost(entry.load_config()) for entry in entries)


def confirmation_cost(ledger: Ledger, best: Entry, size: Size) -> int:
    """What a confirmation takes if no look decides and no run of either arm ends early."""
    return size.looks * size.per_look * _pair_cost(ledger, best)


def _pair_cost(ledger: Ledger, best: Entry | None) -> int:
    """One seed of the start and one of the best."""
    start = run_cost(ledger.load_start())
    return start + (run_cost(best.load_config()) if best is not None else start)


def seeds_per_look(ledger: Ledger) -> tuple[int, int, int]:
    """Seeds an arm at a look: the fewest that will do, as many as are wanted, and the most. A spread takes more to be seen at all."""
    if ledger.outcome == "stability":
        return NORMAL_FROM, NORMAL_FROM, MOST_PER_LOOK
    return FEWEST_PER_LOOK, PER_LOOK, MOST_PER_LOOK


def smallest_confirmation(ledger: Ledger) -> Size:
    return Size(1, seeds_per_look(ledger)[0])


def affordable_confirmation(ledger: Ledger, best: Entry) -> Size | None:
    """The largest confirmation that what is left pays for even if no run ends early; None if not even the smallest."""
    fewest, wanted, most = seeds_per_look(ledger)
    pairs = ledger.left // _pair_cost(ledger, best)
    if pairs < fewest:
        return None
    looks = min(max(pairs // wanted, 1), LOOKS)
    return Size(looks, min(pairs // looks, most))


def reserve(ledger: Ledger) -> int:
    """What a search keeps back for its confirmation: one look as it is wanted, or the smallest, or a third of the budget."""
    best = ledger.best.entry if ledger.best is not None else None
    fewest, wanted, _ = seeds_per_look(ledger)
    pair, share = _pair_cost(ledger, best), int(ledger.budget * KEPT_SHARE)
    if wanted * pair <= share:
        return wanted * pair
    return fewest * pair if fewest * pair <= MOST_KEPT * ledger.budget else share
