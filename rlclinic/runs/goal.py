"""What solved means for a run: a mean return, a share of episodes that succeed, or both.

`spec.threshold` is the mean return. `spec.success` is the share of episodes that the environment must call a success (`is_success` or
`success` in the `info` of an episode's last step):

    spec.success      the environment reports success        it reports none
    none (default)    0.9 is required                        nothing is required
    0                 nothing is required                    nothing is required
    0.6               0.6 is required                        0.6 is required, so nothing passes

An evaluation passes when it meets everything that is required: where there are a threshold and a required success, both; where there is
only one, that one. A reward can be farmed by an agent that never does what the environment calls success: a return above the threshold
is then not enough.

FrozenLake's return is its success rate, and no policy brings more than three of four walkers over the slippery one: there the threshold
alone is required, unless the config names a share.

This module imports nothing heavy: lists of runs read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rlclinic.runs import coerce

REQUIRED_SUCCESS: Final = 0.9
"""The share of successful episodes that is required where an environment reports success and the config names no other."""
RETURN_IS_SUCCESS: Final = "FrozenLake"
"""The environments whose return is their success rate begin with this."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What a run is to reach, as its config says."""

    threshold: float | None = None
    """Mean return of an evaluation."""
    success: float | None = None
    """Share of successful episodes: `spec.success`."""
    eval_episodes: int | None = None
    """Episodes of an evaluation, where that is known: what a success rate is a share of."""

    def require_success(self, *, reported: bool) -> float | None:
        """The share of successful episodes that is required; None: none. `reported`: whether the run has any success rate."""
        if self.success is None:
            return REQUIRED_SUCCESS if reported else None
        return self.success if self.success > 0 else None

    def is_passed(self, mean_return: float, success_rate: float | None) -> bool:
        """Whether one evaluation passes. `success_rate`: None where the environment reports no success."""
        required = self.require_success(reported=success_rate is not None)
        if self.threshold is None and required is None:
            return False
        good = self.threshold is None or mean_return >= self.threshold
        return good and (required is None or (success_rate is not None and success_rate >= required))


@dataclass(frozen=True, slots=True)
class SuccessRate:
    """How many episodes succeeded."""

    rate: float
    successes: int | None
    episodes: int | None
    """None where the log has only the rate."""
    low: float | None
    high: float | None
    """Wilson's 95 % interval; None without a number of episodes."""


def make_goal(env_id: str | None, threshold: float | None, success: float | None = None, eval_episodes: int | None = None) -> Goal:
    """The goal of a run from its settings `env.id`, `spec.threshold`, `spec.success` and `run.eval_episodes`."""
    if success is None and threshold is not None and (env_id or "").startswith(RETURN_IS_SUCCESS):
        success = 0.0
    return Goal(threshold, success, eval_episodes)


def read_goal(record: Mapping[str, Any]) -> Goal:
    """The goal in a run's config.json or a group's group.json."""
    threshold, success = (coerce.real(coerce.within(record, "spec", name)) for name in ("threshold", "success"))
    episodes = coerce.whole(coerce.within(record, "run", "eval_episodes"))
    return make_goal(coerce.text(coerce.within(record, "env", "id")), threshold, success, episodes)
