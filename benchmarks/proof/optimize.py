"""`optimize`: how often a search of configs that are all equal ends with "adopted", and how often a confirmation is not paid for."""

from typing import Any

import numpy as np

from benchmarks.proof import scenarios
from benchmarks.proof.shares import describe_share
from rlclinic.config import files, to_record
from rlclinic.treatment.optimize import budget, confirm, search
from rlclinic.treatment.optimize.ledger import Best, Entry, Ledger, Round
from rlclinic.treatment.trial import sequential
from rlclinic.treatment.trial.sequential import Rule

ALPHA = 0.05
LENGTH = 20_000
WORLDS = {
    "all arrive": {"arriving": 1.0},
    "30 % never arrive": {"arriving": 0.7},
    "80 % never arrive": {"arriving": 0.2},
    "evaluations at a quarter of the median": {"spacing": 0.25},
}


def adopted(rng: np.random.Generator, simulations: int, *, arriving: float = 1.0, spacing: float | None = None) -> Any:
    """Whether any of the three confirmations that a search may make adopts a config that is as good as the start."""
    wrong = np.zeros(simulations, dtype=bool)
    for share in confirm.SHARES:
        rule = Rule(budget.LOOKS, budget.PER_LOOK, share * ALPHA)
        shape = (rule.looks, simulations, rule.per_look)
        control, treatment = (scenarios.draw_times(rng, shape, arriving=arriving) for _ in range(2))
        if spacing is not None:
            control, treatment = scenarios.round_up(control, spacing), scenarios.round_up(treatment, spacing)
        open_ = np.ones(simulations, dtype=bool)
        for look, bound in enumerate(rule.bounds, 1):
            z = sequential.statistics(control[:look], treatment[:look])
            wrong |= open_ & (z > bound.better)
            open_ &= (z <= bound.better) & (z >= -bound.worse)
    return wrong


def unpaid(rng: np.random.Generator, simulations: int) -> int:
    """Confirmations that may cost more than is left, over random budgets, lengths of rollouts and winners that look fast."""
    made = []
    for steps in (32, 96, 480, 2400):
        settings = [f"algo.n_steps={steps}", f"run.max_env_steps={LENGTH}"]
        made.append(search.prepare(files.load("CartPole-v1:ppo_zoo", settings).config, LENGTH, "steps"))
    entries = [Entry(name=f"c{place}", source="search", why="", changes=("x",), config=to_record(one)) for place, one in enumerate(made)]
    exceeded = 0
    for _ in range(simulations):
        entry = entries[rng.integers(len(entries))]
        left = int(rng.integers(1, 80 * LENGTH))
        ledger = Ledger(
            id="o1",
            created=0.0,
            target="x",
            env_id="CartPole-v1",
            algo="ppo",
            outcome="steps",
            budget=10**6 + left,
            alpha=ALPHA,
            threshold=475,
            start=to_record(made[0]),
            run_env_steps=LENGTH,
            rounds=(Round(number=1, kind="screen", seeds=(), entries=(entry,), done=True, used_env_steps=10**6),),
            best=Best(entry=entry, n=6, reached=6, score=float(rng.integers(500, LENGTH)), settled=True),
        )
        size = budget.affordable_confirmation(ledger, entry)
        exceeded += size is not None and budget.confirmation_cost(ledger, entry, size) > left
    return exceeded


def rows(simulations: int) -> list[dict[str, Any]]:
    """Family-wise error by world, and confirmations beyond the budget."""
    rng = np.random.default_rng(20_261_116)
    made = []
    for name, world in WORLDS.items():
        count = int(adopted(rng, simulations, **world).sum())
        made.append(describe_share(f"optimize: searches of equal configs that adopt one, {name}", count, simulations, 0.05, 0.025))
    what = "optimize: confirmations that may cost more than is left of the budget"
    return [*made, describe_share(what, unpaid(rng, simulations), simulations, 0.0, 0.0)]
