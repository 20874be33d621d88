"""How ppo_penalty fails: a rule with its cause, its dose, and a bad and a good case."""

from collections.abc import Iterator

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import KL
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import cause, change, evidence, grade, rule, say
from rlclinic.diagnosis.rules import cases

HIGH_PRICE = 20.0

cause(
    "kl-penalty-too-strong",
    "the KL penalty leaves no room to learn",
    "fault of settings",
    doses=["weaker-penalty"],
    explains="POL102 BUD101",
)


@rule(
    "PEN101",
    severity=Severity.HIGH,
    algos=["ppo_penalty"],
    needs=[KL, "config:algo.kl_coef"],
    cites=["schulman2017ppo"],
    causes=["kl-penalty-too-strong"],
    bad=lambda: cases.unsolved({KL: 1e-6}, algo="ppo_penalty", settings={"algo.kl_coef": 1000.0}),
    good=[lambda: cases.unsolved({KL: 1e-2}, algo="ppo_penalty", settings={"algo.kl_coef": 1.0})],
)
def kl_penalty_too_strong(case: Case) -> Iterator[Finding]:
    """The price on changing the policy is so high that it stays where it was.

    ## Why it hurts
    The best step is the one that the penalty still allows: at this price it is next to none, whatever the advantages say.

    ## When it is fine
    After the task is solved, and where a good policy is only to be polished.
    """
    price, moved = case.number("kl_coef"), case.learning(KL).median
    if price is None or not case.sick:
        return
    strength = min(grade(price, HIGH_PRICE / 4, HIGH_PRICE), grade(-moved, -1e-3, -1e-4))
    if strength <= 0:
        return
    text = f"KL {say(moved)} per update (median) at a price of {say(price)}"
    fix = change(case, "algo.kl_coef", 1.0, "let an update move the policy again", "> 30 %", "larger steps: watch KL")
    yield Finding(strength=strength, text=text, evidence=(evidence(KL, text, *case.span, median=moved, price=price),), remedies=(fix,))
