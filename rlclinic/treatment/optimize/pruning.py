"""Which runs of a round may stop: those that are behind at a rung, and those that something better has already overtaken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

from rlclinic.runs.record import Group, Run
from rlclinic.runs.status_file import Status

RUNGS: Final = (0.3, 0.6)
"""Shares of a run at which configs are compared by their returns; the worse half stops."""
FEWEST: Final = 4
"""Configs that must have passed a rung before any is stopped there."""
PATIENCE: Final = 2.0
"""How many times the steps of the best so far a run may take: a search by two seeds is a noisy judge."""


@dataclass
class Pruner:
    """Looks at the configs of a round while they train. What it saw at a rung is kept, so that late comers are judged by all."""

    run_env_steps: int
    known: float | None = None
    """Slowest run of the best config so far, in env steps; None if it is not known to reach the threshold."""
    capped: bool = True
    """Whether steps are what counts: else a run that got there late may still end higher."""
    rungs: dict[float, dict[str, float]] = field(default_factory=dict)

    def __call__(self, groups: Mapping[str, Group]) -> Sequence[Run]:
        """The runs that cannot win any more."""
        states = {name: [(run, run.status) for run in group.runs] for name, group in groups.items()}
        cap = self._cap([[state for _, state in members] for members in states.values()])
        # All are written down before any is judged: the order of looking must not matter.
        for name, members in states.items():
            self._note(name, [state for _, state in members])
        stopped = []
        for name, members in states.items():
            live = [(run, state) for run, state in members if state.state in ("running", "queued")]
            behind = self._behind(name, [state for _, state in members])
            stopped += [run for run, state in live if behind or (cap is not None and state.env_steps > cap)]
        return stopped

    def _cap(self, configs: Sequence[Sequence[Status]]) -> float | None:
        """Env steps past which nothing wins: the best config's slowest run, with patience."""
        if not self.capped:
            return None
        found = [] if self.known is None else [self.known]
        for states in configs:
            reached = [state.threshold_reached_at for state in states if state.threshold_reached_at is not None]
            if reached and len(reached) == len(states):
                found.append(float(max(reached)))
        return PATIENCE * min(found) if found else None

    def _note(self, name: str, states: Sequence[Status]) -> None:
        """Write down a config's return at each rung that all its runs have passed."""
        for rung in RUNGS:
            seen = self.rungs.setdefault(rung, {})
            if name not in seen and all(state.env_steps >= rung * self.run_env_steps for state in states):
                returns = [value for state in states if (value := state.return_mean) is not None]
                if len(returns) == len(states):
                    seen[name] = fmean(returns)

    def _behind(self, name: str, states: Sequence[Status]) -> bool:
        """Whether a config is in the worse half at a rung; never if one of its runs got there."""
        if any(state.threshold_reached_at is not None for state in states):
            return False
        passed = [seen for seen in self.rungs.values() if name in seen and len(seen) >= FEWEST]
        return any(sum(other > seen[name] for other in seen.values()) >= len(seen) / 2 for seen in passed)
