"""Runs in the peers' environment: tables of steps on stdin as JSON, the arms that AdaStop leaves unbeaten and its runs on stdout."""

import json
import sys

import numpy as np
from adastop import MultipleAgentsComparator  # type: ignore[import-not-found]

LEVEL = 0.05


def race(table: list[list[float]], per_round: int, rounds: int, permutations: int) -> tuple[list[int], int]:
    """Arms that no other was shown to be better than, by minus the log of the steps, and the runs that it took."""
    values = -np.log(np.array(table))
    arms = len(values)
    comparator = MultipleAgentsComparator(n=per_round, K=rounds, B=permutations, alpha=LEVEL, seed=0)
    given = {str(arm): np.array([]) for arm in range(arms)}
    for number in range(1, rounds + 1):
        for arm in range(arms):
            if number == 1 or arm in comparator.current_comparisons.ravel():
                given[str(arm)] = values[arm, : number * per_round]
        comparator.partial_compare({name: scores.copy() for name, scores in given.items()}, False)
        if comparator.is_finished:
            break
    beaten = set()
    for pair, said in comparator.decisions.items():
        first, second = (int(arm) for arm in pair.strip("[]").split())
        beaten |= {second} if said == "larger" else {first} if said == "smaller" else set()
    return [arm for arm in range(arms) if arm not in beaten], sum(len(scores) for scores in given.values())


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    settings = (asked["per_round"], asked["rounds"], asked["permutations"])
    print(json.dumps([race(table, *settings) for table in asked["tables"]]))
