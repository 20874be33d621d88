"""A reward as the sum of named terms: weights that may change over time, potentials, and costs apart."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlclinic.errors import UsageError, nearest


@dataclass(frozen=True)
class Ramp:
    """A weight that goes in a straight line from `start` to `end` over `steps` of one environment, and stays there.

    A run that is resumed goes on along it. Evaluations pay by `end` all along, so that they have one measure. Versions of a Gymnasium
    environment that a curriculum plays, and environments of actors, each count the steps since they were made.
    """

    start: float
    end: float
    steps: int

    def at(self, step: int) -> float:
        """The weight after so many steps."""
        return self.start + (self.end - self.start) * min(step / max(self.steps, 1), 1.0)


class Rewards:
    """The reward of one environment. Call `reset` when an episode begins and `step` once in each step."""

    def __init__(
        self,
        gamma: float,
        weights: Mapping[str, float | Ramp],
        potentials: Mapping[str, Callable[[Any], float]] | None = None,
        costs: Sequence[str] = (),
    ) -> None:
        """`gamma` is the learner's own: with another one a potential changes what is best. `costs` are names that `step` may be given."""
        if not 0 <= gamma <= 1:
            raise UsageError(f"gamma={gamma} is no discount.\n  Potentials would grow without bound.\n  Give the learner's own, e.g. 0.99")
        self.gamma, self.weights, self.potentials, self.costs = float(gamma), dict(weights), dict(potentials or {}), tuple(costs)
        names = [*self.weights, *self.potentials, *self.costs]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UsageError(f"{twice[0]} is two things at once.\n  Its column would mean neither.\n  Give each a name of its own")
        for name, weight in self.weights.items():
            for number in (weight.start, weight.end) if isinstance(weight, Ramp) else (weight,):
                read_number(f"the weight of {name}", number)
        self.taken = 0
        self._before: dict[str, float] | None = None

    @property
    def potential_now(self) -> dict[str, float]:
        """What each potential is worth where the episode is; 0 once it has terminated, nothing before the first reset."""
        return dict(self._before or {})

    @property
    def weights_now(self) -> dict[str, float]:
        """What 1 of each term is worth at present; a potential pays its own units."""
        return {name: self._weight(name) for name in self.weights} | dict.fromkeys(self.potentials, 1.0)

    def reset(self, obs: Any) -> None:
        """An episode begins in a state that looks like `obs`."""
        self._before = {name: self._evaluate(name, obs) for name in self.potentials}

    def step(self, values: Mapping[str, float], obs: Any, terminated: bool) -> tuple[float, dict[str, dict[str, float]]]:
        """The reward of a step that led to `obs`, and what belongs into info: `reward_terms`, which sum to it exactly, and `costs`.

        Say `terminated` where the task itself has ended. At a time limit it is False, and the potential stays: the future has a value.
        """
        if self._before is None:
            raise UsageError("step() was called before reset().\n  No potential has a state to start from.\n  Call reset(obs) first")
        given = set(values)
        if unknown := sorted(given - set(self.weights) - set(self.costs)):
            offered = nearest(unknown[0], [*self.weights, *self.costs])
            raise UsageError(
                f"{unknown[0]} is no term of this reward.\n  It would count for nothing.\n"
                f"  Try: {' or '.join(offered) or list(self.weights)}"
            )
        if missing := sorted((set(self.weights) | set(self.costs)) - given):
            raise UsageError(
                f"the step has no value for {missing[0]}.\n  Its sum would mean something else than in other steps.\n"
                "  Give 0.0 where there is nothing to pay"
            )
        terms = {name: self._weight(name) * read_number(name, values[name]) for name in self.weights}
        after = {name: 0.0 if terminated else self._evaluate(name, obs) for name in self.potentials}
        terms |= {name: self.gamma * after[name] - self._before[name] for name in self.potentials}
        self._before = after
        self.taken += 1
        costs = {name: read_number(name, values[name]) for name in self.costs}
        return sum(terms.values()), {"reward_terms": terms} | ({"costs": costs} if costs else {})

    def _weight(self, name: str) -> float:
        weight = self.weights[name]
        return weight.at(self.taken) if isinstance(weight, Ramp) else float(weight)

    def _evaluate(self, name: str, obs: Any) -> float:
        return read_number(f"the potential {name}", self.potentials[name](obs))


def read_number(name: str, value: Any) -> float:
    """One finite number; UsageError says what it is instead."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):  # words, or lists of unequal length
        array = None
    if array is None or array.size != 1 or not np.isfinite(array).all():
        shown = f"{value!r:.80}" if array is None else f"of shape {array.shape}" if array.size != 1 else str(float(array.reshape(())))
        raise UsageError(
            f"{name} is {shown}, where one finite number is needed.\n"
            "  Everything that is learned from it would be wrong.\n  Mend how it is computed"
        )
    return float(array.reshape(()))
