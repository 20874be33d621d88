"""The end of a search: the best config against the one that it began with, on fresh seeds, within what may still be erred."""

import math
from typing import Final

from rlclinic.config import Config
from rlclinic.launch.batch import Study
from rlclinic.runs import trials
from rlclinic.runs.store import Store
from rlclinic.treatment.optimize.ledger import Best, Ledger, Round
from rlclinic.treatment.trial import arms, conduct
from rlclinic.treatment.trial.models import Trial, TrialPlan
from rlclinic.treatment.trial.sequential import NORMAL_FROM

SHARES: Final = (0.7, 0.2, 0.1)
"""Of the error budget, for the first, second and third confirmation: together no more than the whole."""
PER_LOOK: Final = 6
"""Seeds an arm: six against six that all do better pass the bound of one look."""
LOOKS: Final = 3
FEWEST_PER_LOOK: Final = 5


def seeds(ledger: Ledger) -> tuple[int, int]:
    """Seeds an arm per look: as many as are wanted, and the fewest that will do. A spread takes more to be seen at all."""
    return (NORMAL_FROM, NORMAL_FROM) if ledger.outcome == "stability" else (PER_LOOK, FEWEST_PER_LOOK)


def cost(ledger: Ledger, looks: int, per_look: int) -> int:
    """Env steps that a confirmation may take: the start is taken to miss the threshold, the best to do as it did."""
    best = ledger.best
    treated = best.score * 1.5 if best is not None and ledger.outcome == "steps" else ledger.run_env_steps
    return int(looks * per_look * (ledger.run_env_steps + min(treated, ledger.run_env_steps)))


def reserve(ledger: Ledger) -> int:
    """What a search keeps back for its confirmation."""
    return min(2 * seeds(ledger)[0] * ledger.run_env_steps, ledger.budget // 3)


def planned(ledger: Ledger, best: Best) -> Round | None:
    """A confirmation that is still affordable; None if there is nothing to confirm, or no error or budget left."""
    made = len(ledger.confirmations)
    already = any(each.entries[0].name == best.entry.name for each in ledger.confirmations)
    if best.entry.source == "start" or already or made >= len(SHARES) or ledger.left < cost(ledger, 1, seeds(ledger)[1]):
        return None
    return Round(number=len(ledger.rounds) + 1, kind="confirm", seeds=(), entries=(best.entry,), alpha=SHARES[made] * ledger.alpha)


def confirm(store: Store, work: Study, ledger: Ledger, current: Round) -> Round:
    """Carry out (or go on with) a confirmation; the round with its verdict."""
    found = _existing(store, ledger, current)
    if found is not None:
        result = conduct.resume(store, found, cores=work.cores, stop=work.stop)
    else:
        result = conduct.run(store, _plan(ledger, current), cores=work.cores, stop=work.stop)
    return _concluded(current, result)


def _existing(store: Store, ledger: Ledger, current: Round) -> str | None:
    """The trial of this round that was begun before a kill."""
    for known in trials.trials(store):
        if known.context.get("optimize") == ledger.id and known.context.get("round") == current.number:
            return known.id
    return None


def _plan(ledger: Ledger, current: Round) -> TrialPlan:
    entry = current.entries[0]
    start, best = Config(**ledger.start), entry.made()
    wanted, fewest = seeds(ledger)
    affordable = ledger.left // max(cost(ledger, 1, wanted), 1)
    per_look = wanted if affordable >= 1 else fewest
    return conduct.plan(
        arms.control(start),
        [arms.against(start, best, entry.name)],
        outcome=ledger.outcome,
        per_look=per_look,
        looks=int(min(max(affordable, 1), LOOKS)),
        alpha=current.alpha,
        context={"optimize": ledger.id, "round": current.number, "cause": entry.cause, "steps": []},
    )


def _concluded(current: Round, result: Trial) -> Round:
    leading = result.leading
    ratio = leading.ratio if leading is not None else None
    score = ratio.value if ratio is not None and ratio.value is not None and math.isfinite(ratio.value) else None
    entry = current.entries[0].model_copy(update={"score": score, "n": 0})
    return current.model_copy(
        update={
            "done": True,
            "trial": result.id,
            "verdict": result.verdict or "undecided",
            "winner": result.winner or "",
            "entries": (entry,),
            "used_env_steps": result.used_env_steps,
            "seconds": result.seconds,
        }
    )
