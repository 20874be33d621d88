"""Questions that are asked again: the chance of at least one false "adopt" or "reject" over all times, with and without a charge."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.proof import scenarios
from benchmarks.proof.shares import describe_share
from rlclinic.runs import questions
from rlclinic.treatment.trial import sequential
from rlclinic.treatment.trial.sequential import Rule

ALPHA: Final = 0.05
SEEDS: Final = 8


def any_false(rng: np.random.Generator, simulations: int, times: int, *, charged: bool) -> NDArray[np.bool_]:
    """Whether any of so many trials of equal arms, each on fresh seeds and with one look, calls them different."""
    wrong = np.zeros(simulations, dtype=bool)
    for repeats in range(times):
        alpha = questions.next_alpha(ALPHA, repeats) if charged else ALPHA
        bound = Rule(1, SEEDS, alpha).bounds[0]
        control, treatment = (scenarios.draw_times(rng, (1, simulations, SEEDS)) for _ in range(2))
        z = sequential.statistics(control, treatment)
        wrong |= (z > bound.better) | (z < -bound.worse)
    return wrong


def rows(simulations: int) -> list[dict[str, Any]]:
    """By times that a question is asked."""
    rng = np.random.default_rng(20_261_118)
    made = []
    for times in (1, 3, 10):
        for charged in (True, False):
            count = int(any_false(rng, simulations, times, charged=charged).sum())
            how = "charged" if charged else "not charged (--independent)"
            bar = 2 * ALPHA if charged else 1.0
            made.append(describe_share(f"questions: asked {times} times, at least one false verdict, {how}", count, simulations, bar))
    return made
