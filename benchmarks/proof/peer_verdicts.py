"""Runs in the peers' environment: peer_verdicts.py draws.npz writes all calls (1: better, -1: worse, 0: neither) to the file."""

import sys
import warnings
from typing import Any

import numpy as np
from adastop import MultipleAgentsComparator  # type: ignore[import-not-found]
from numpy.typing import NDArray
from rliable import library, metrics  # type: ignore[import-not-found]
from scipy import stats  # type: ignore[import-untyped]

Scores = NDArray[np.float64]
Calls = NDArray[Any]

LEVEL = 0.05
REPS = 400
"""Of rliable's bootstrap, and of AdaStop's permutations; both recommend more, which changes hardly anything and takes hours here."""


def judge_by_welch(control: Scores, treatment: Scores) -> Calls:
    p = stats.ttest_ind(treatment, control, axis=1, equal_var=False).pvalue
    return np.where(p < LEVEL, np.sign(treatment.mean(1) - control.mean(1)), 0)


def judge_by_rliable(control: Scores, treatment: Scores) -> tuple[Calls, Calls]:
    apart, likelier = [], []
    for theirs, ours in zip(control, treatment, strict=True):
        scores = {"control": theirs[:, None], "treatment": ours[:, None]}
        _, ends = library.get_interval_estimates(scores, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=REPS)
        (low, high), (their_low, their_high) = ends["treatment"][:, 0], ends["control"][:, 0]
        apart.append(1 if low > their_high else -1 if high < their_low else 0)
        pair = {"pair": (ours[:, None], theirs[:, None])}
        _, ends = library.get_interval_estimates(pair, lambda x, y: np.array([metrics.probability_of_improvement(x, y)]), reps=REPS)
        low, high = ends["pair"][:, 0]
        likelier.append(1 if low > 0.5 else -1 if high < 0.5 else 0)
    return np.array(apart), np.array(likelier)


def judge_by_adastop(control: Scores, treatment: Scores) -> tuple[Calls, Calls]:
    """Control and treatment are [looks, cases, seeds a look]."""
    calls, seeds = [], []
    looks, cases, per_look = control.shape
    for case in range(cases):
        comparator = MultipleAgentsComparator(n=per_look, K=looks, B=REPS, alpha=LEVEL, seed=case)
        for look in range(1, looks + 1):
            sides = {"control": control[:look, case].ravel(), "treatment": treatment[:look, case].ravel()}
            comparator.partial_compare(sides, verbose=False)
            if comparator.is_finished:
                break
        said = next(iter(comparator.decisions.values()))
        calls.append({"smaller": 1, "larger": -1}.get(said, 0))
        seeds.append(look * per_look)
    return np.array(calls), np.array(seeds)


def main(file: str) -> None:
    warnings.simplefilter("ignore")
    draws = np.load(file)
    control, treatment = draws["control"], draws["treatment"]
    looks, cases, per_look = control.shape
    whole = [np.moveaxis(side, 0, 1).reshape(cases, -1) for side in (control, treatment)]
    fixed = np.full(cases, looks * per_look)
    apart, likelier = judge_by_rliable(*whole)
    stopped, seeds = judge_by_adastop(control, treatment)
    calls: dict[str, Any] = {
        "Welch": judge_by_welch(*whole),
        "rliable, IQMs apart": apart,
        "rliable, P(improvement)": likelier,
        "AdaStop": stopped,
    }
    taken: dict[str, Any] = {"Welch": fixed, "rliable, IQMs apart": fixed, "rliable, P(improvement)": fixed, "AdaStop": seeds}
    np.savez(file, **calls, **{f"{peer} seeds": count for peer, count in taken.items()})


if __name__ == "__main__":
    main(sys.argv[1])
