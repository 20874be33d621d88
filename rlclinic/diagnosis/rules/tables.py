"""Tables of values: how far they have moved, and whether what they hold was ever tried."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import change, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import off_policy

TABLES: Final = ("q_learning",)
RATE: Final = "config:algo.learning_rate"
STATES: Final = "config:about.obs_flags"


@rule(
    "TAB101",
    severity=Severity.HIGH,
    algos=TABLES,
    needs=[RATE, STATES],
    cites=["sutton2018book"],
    causes=["learning-rate-too-low"],
    bad=lambda: cases.q_learner(settings={"algo.learning_rate": 1e-05, "about.obs_flags": 16.0}, algo="q_learning"),
)
def the_table_hardly_moves(case: Case) -> Iterator[Finding]:
    """The learning rate moves a value so little per visit that the whole run covers a fraction of the way to its target.

    A value that is visited n times covers 1 - (1 - learning_rate)^n of it; n is at most the env steps for each state.

    ## Why it hurts
    The table stays what it was at the start, and so does the policy.

    ## When it is fine
    A table that was learned before, and is only polished.
    """
    rate, states = case.real("algo.learning_rate"), case.real("about.obs_flags")
    if not rate or not states or rate >= 1 or not case.sick:
        return
    visits = case.trained / states
    covered = 1 - (1 - rate) ** visits
    strength = grade(-covered, -0.6, -0.2)
    if strength <= 0:
        return
    text = f"learning_rate {say(rate)}: {say(visits)} visits of a state move its values {percent(covered)} of the way"
    fix = change(case, "algo.learning_rate", 0.1, "a usual rate of a table", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(RATE, text, value=rate, covered=covered),), remedies=(fix,))


@rule(
    "TAB102",
    severity=Severity.HIGH,
    algos=TABLES,
    needs=["config:algo.exploration_fraction", "budget"],
    cites=["sutton2018book"],
    causes=["exploration-ends-too-early"],
    bad=lambda: cases.q_learner({"train/hp/epsilon": 0.01}, settings={"algo.exploration_initial_eps": 0.01}, algo="q_learning"),
)
def a_table_that_tries_nothing_new(case: Case) -> Iterator[Finding]:
    """Hardly any action is random from the first per cent of the run on, and the table's first values invite no trying either.

    ## Why it hurts
    Whichever action is tried first is repeated; what the others are worth is never seen.

    ## When it is fine
    First values above every return (initial_value): each action looks best until it was tried.
    """
    share, budget = off_policy.epsilon(case), float(case.budget or 1)
    if len(share) < 4 or not case.sick or case.setting("algo.exploration") == "ucb" or (case.real("algo.initial_value") or 0.0) > 0:
        return
    low = share.values <= 0.1
    reached = float(share.steps[np.argmax(low)]) if low.any() else budget
    until = 0.0 if low[0] else reached / budget
    strength = min(grade(-until, -0.05, -0.02), grade(-share.share(0.3).median, -0.15, -0.1))
    if strength <= 0:
        return
    text = f"from {percent(until)} of the run on, no more than {percent(share.share(0.3).median)} of the actions are random"
    fix = change(case, "algo.exploration_fraction", 0.5, "let it fall over half of the run", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(off_policy.EPSILON, text, 0, reached, share=until),), remedies=(fix,))
