"""The end of a search: the best config against the one that it began with, on fresh seeds, within what may still be erred and spent."""

import math
from typing import Final, Literal

from rlclinic.launch.batch import Study
from rlclinic.runs import trials
from rlclinic.runs.store import Store
from rlclinic.treatment.optimize import budget
from rlclinic.treatment.optimize.ledger import Best, Confirmed, Ledger, Round
from rlclinic.treatment.trial import arms, conduct, questions
from rlclinic.treatment.trial.models import Trial, TrialPlan

SHARES: Final = (0.5, 0.13, 0.07)
"""Of the error budget, for the first, second and third confirmation: together 0.7 of it. A trial may err in 0.72 of its alpha towards
"better", so that a search of equal configs adopts one in at most 2.5 % of cases."""


def plan_round(ledger: Ledger, best: Best) -> Round | None:
    """A confirmation that is still affordable; None if there is nothing to confirm, or no error or budget left."""
    if not is_open(ledger, best) or budget.affordable_confirmation(ledger, best.entry) is None:
        return None
    alpha = SHARES[len(ledger.confirmations)] * ledger.alpha
    return Round(number=len(ledger.rounds) + 1, kind="confirm", seeds=(), entries=(best.entry,), alpha=alpha)


def is_open(ledger: Ledger, best: Best) -> bool:
    """Whether there is something to confirm that was not tried, and error left for it."""
    already = any(done.entries[0].name == best.entry.name for done in ledger.confirmations)
    return best.entry.source != "start" and not already and len(ledger.confirmations) < len(SHARES)


def confirm(store: Store, work: Study, ledger: Ledger, current: Round) -> Round:
    """Carry out (or go on with) a confirmation; the round with its verdict."""
    begun = _find_begun(store, ledger, current)
    if begun is not None:
        result = conduct.resume(store, begun, cores=work.cores, stop=work.stop)
    else:
        # A search that confirms what was asked before is charged for it.
        plan = questions.charge(store, plan_trial(ledger, current))
        result = conduct.run(store, plan, cores=work.cores, stop=work.stop)
    return conclude(current, result)


def _find_begun(store: Store, ledger: Ledger, current: Round) -> str | None:
    """The trial of this round that was begun before a kill."""
    for known in trials.trials(store):
        if known.context.get("optimize") == ledger.id and known.context.get("round") == current.number:
            return known.id
    return None


def plan_trial(ledger: Ledger, current: Round) -> TrialPlan:
    """The trial of a round: as many looks and seeds as what is left pays for, even if no run ends early."""
    entry = current.entries[0]
    start, best = ledger.load_start(), entry.load_config()
    size = budget.affordable_confirmation(ledger, entry) or budget.smallest_confirmation(ledger)
    return conduct.plan(
        arms.control(start),
        [arms.against(start, best, entry.name)],
        outcome=ledger.outcome,
        per_look=size.per_look,
        looks=size.looks,
        alpha=current.alpha,
        context={"optimize": ledger.id, "round": current.number, "cause": entry.cause, "steps": []},
    )


def conclude(current: Round, result: Trial) -> Round:
    """The round with what its trial came to."""
    leading = result.leading
    ratio = leading.ratio if leading is not None else None
    score = ratio.value if ratio is not None and ratio.value is not None and math.isfinite(ratio.value) else None
    return current.model_copy(
        update={
            "done": True,
            "trial": result.id,
            "verdict": result.verdict or "undecided",
            "winner": result.winner or "",
            "alpha": result.plan.alpha,
            "entries": (current.entries[0].model_copy(update={"score": score, "n": 0}),),
            "confirmed": _read_figures(result),
            "used_env_steps": result.used_env_steps,
            "seconds": result.seconds,
        }
    )


def _read_figures(result: Trial) -> Confirmed | None:
    """What the trial measured of both arms."""
    leading = result.leading
    if leading is None or len(result.arms) < 2:
        return None
    start, best = result.arms[0], result.arms[1]
    effect: Literal["ratio", "gain"] = "gain" if leading.ratio is None and leading.gain is not None else "ratio"
    size = leading.gain if effect == "gain" else leading.ratio
    return Confirmed(
        seeds=best.n,
        reached=best.reached,
        start_reached=start.reached,
        effect=effect,
        value=size.value if size is not None else None,
        low=size.low if size is not None else None,
        high=size.high if size is not None else None,
        level=1.0 - result.plan.alpha,
    )
