"""How a group did, from its status files alone: cheap enough to rank every group of a store."""

import statistics
from collections.abc import Sequence

from rlclinic.runs import coerce, status_file
from rlclinic.runs.record import Group


class RankedGroup:
    """How a group did: of each seed, the env step at which it reached the threshold, its last evaluation, and whether it was lost."""

    def __init__(self, group: Group, seeds: Sequence[tuple[float | None, float | None, bool]]) -> None:
        reached = [at for at, _, _ in seeds if at is not None]
        finals = [value for _, value, _ in seeds if value is not None]
        self.group = group
        self.seeds = len(seeds)
        self.reached = len(reached)
        self.kept = self.reached - sum(lost for _, _, lost in seeds)
        self.steps = statistics.median(reached) if reached else None
        self.score = statistics.median(finals) if finals else None
        share = self.kept / self.seeds if self.seeds else 0.0
        soon = -(self.steps if self.steps is not None else float("inf"))
        self.rank = (share, soon, self.score if self.score is not None else float("-inf"))
        """Larger is better: the share of seeds that reached the threshold and kept it, how soon, and the last evaluation."""


def outcome(group: Group) -> RankedGroup:
    """How a group did, from its status files alone: cheap enough to ask of every group of a store."""
    states = [status_file.raw(run.path) for run in group.runs]
    return RankedGroup(
        group, [(coerce.real(state.threshold_reached_at), coerce.real(state.eval_mean), state.lost is True) for state in states]
    )
