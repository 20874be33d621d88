"""What the data of a race say: who trains next, and at the end a ranking with intervals that hold together."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from rlclinic import stats
from rlclinic.treatment.race.models import RacePlan, RaceVerdict, RankedArm, Round, Shown
from rlclinic.treatment.race.rule import Leaderboard, Pair
from rlclinic.treatment.trial import analysis, outcomes, sequential
from rlclinic.treatment.trial.models import CENSORED_OUTCOMES, Observation, Range, as_range
from rlclinic.treatment.trial.sequential import Arrivals, Bounds, Interval

NOBODY: Final = "no run of any arm reached the threshold: nothing tells the arms apart"
NO_NUMBER: Final = "no run of any arm left a number to compare"
ALL_TIED: Final = "all runs came out the same (at the first evaluation?): nothing tells the arms apart"
FUTILE: Final = "a difference that this race sees in 9 of 10 cases would have shown by now; the rest was not trained"


@dataclass
class Standing:
    """Where a race stands after its rounds so far."""

    plan: RacePlan
    rounds: list[Round] = field(default_factory=list)
    reason: str = ""
    """Why more seeds could not help."""
    not_afforded: str = ""
    extended: int = 0
    """Extensions so far."""
    data: analysis.Standing = field(init=False)
    """The runs, as a trial keeps them."""
    board: Leaderboard = field(init=False)

    def __post_init__(self) -> None:
        self.data = analysis.Standing(self.plan.trial)
        self.board = Leaderboard(self.plan.rule, self._arrivals)

    @property
    def names(self) -> list[str]:
        return [arm.name for arm in self.plan.arms]

    @property
    def used_env_steps(self) -> int:
        return sum(seen.env_steps for name in self.names for seen in self.data.observations(name))

    def add(self, observed: Mapping[str, Sequence[Observation]], seconds: float = 0.0) -> Round:
        """One more round."""
        before = set(self.board.alive) if self.rounds else set(range(len(self.names)))
        self.data.data.append(observed)
        names = self.names
        fresh = {names.index(name): outcomes.scores(seen, self.plan.outcome) for name, seen in observed.items()}
        if self.extended:
            self.board.extend(fresh)
        else:
            self.board.add(fresh)
        self.reason = self._find_dead_end()
        better = {second: first for first, second in sorted(self.board.better, key=lambda pair: float(self.board.z[pair]))}
        alive = self.board.alive
        made = Round(
            number=len(self.data.data),
            seeds={name: len(self.data.observations(name)) for name in observed},
            dropped={names[arm]: names[better[arm]] for arm in sorted(before - set(alive))},
            left=len(alive),
            leader=names[self.board.leader],
            env_steps=self.used_env_steps,
            seconds=seconds,
        )
        self.rounds.append(made)
        return made

    @property
    def look(self) -> int:
        """The number by which the seeds of the next batch are known; those of extensions come after all that were planned."""
        return self.plan.trial.looks + self.extended if self.extended else len(self.rounds) + 1

    def choose(self) -> list[str]:
        """Arms that train next, those that need it most first. None: it is over. After the last round come the extensions, each with all
        arms that nobody was shown to be better than."""
        chosen = [] if self.extended else self._choose_by_rule()
        if not chosen and self.extended < len(self.plan.trial.extensions):
            self.extended += 1
            self.not_afforded = ""
            chosen = [self.names[arm] for arm in self.board.alive]
        return chosen

    def _choose_by_rule(self) -> list[str]:
        """As many as the budget pays for."""
        names = self.names
        if not self.rounds:
            return names
        chosen = [] if self.reason else [names[arm] for arm in self.board.choose()]
        if not chosen or self.plan.budget is None:
            return chosen
        left = self.plan.budget - self.used_env_steps
        paid = list(chosen)
        while paid and (self.plan.cost(tuple(paid)) or 0) > left:
            paid.pop()
        if len(paid) < min(2, len(chosen)):
            asked = self.plan.cost(tuple(chosen)) or 0
            self.not_afforded = (
                f"the next {self.plan.per_round} seeds of {', '.join(chosen)} may take {asked:,} env steps; "
                f"{left:,} of {self.plan.budget:,} are left"
            )
            return []
        return paid

    def _find_dead_end(self) -> str:
        seen = [observation for name in self.names for observation in self.data.observations(name)]
        scores = np.concatenate(self.board.scores)
        if all(each.state in outcomes.FAILED for each in seen):
            return f"every run of every arm failed: {(seen[0].reason or 'no reason was recorded').splitlines()[0]}"
        if np.isinf(scores).all():
            return NOBODY if self.plan.outcome in CENSORED_OUTCOMES else NO_NUMBER
        if np.all(scores == scores[0]) and len(self.rounds) > 0:
            return ALL_TIED
        return ""

    def _arrivals(self, first: int, second: int) -> Arrivals:
        ours, theirs = (self.data.observations(self.names[arm]) for arm in (first, second))
        hits = [outcomes.count_arrived(side, theirs, self.plan.trial.threshold) for side in (theirs, ours)]
        return Arrivals(np.asarray(hits[0]), len(theirs), np.asarray(hits[1]), len(ours))


def verdict(standing: Standing) -> tuple[RaceVerdict, str | None, str]:
    """The verdict, the arm to keep if there is one, and why it ended so where the numbers alone do not say."""
    board, names = standing.board, standing.names
    alive = board.alive
    if len(alive) == 1:
        return "best", names[alive[0]], ""
    if standing.reason or standing.not_afforded:
        return "undecided", None, standing.reason
    if any(set(pair) <= set(alive) for pair in board.apart - board.better):
        return "less reliable", None, ""
    open_still = not standing.extended and any(board.batches[arm] < standing.plan.rounds for arm in alive)
    return "several", None, FUTILE if open_still else ""


def rank(standing: Standing, groups: Mapping[str, Sequence[str]]) -> tuple[RankedArm, ...]:
    """Every arm with the ranks that it may have and its distance from the first, the best first."""
    order = standing.board.placed()
    return tuple(_ranked(standing, arm, place, order[0], groups) for place, arm in enumerate(order, 1))


def _ranked(standing: Standing, arm: int, place: int, first: int, groups: Mapping[str, Sequence[str]]) -> RankedArm:
    board, names, data = standing.board, standing.names, standing.data
    held = sorted(board.apart - board.better)
    compared = _compare(standing, first, arm) if arm != first and board.batches[arm] else None
    relative = data.relative
    theirs = data.observations(names[first])
    return RankedArm(
        place=place,
        ranks=board.ranks()[arm],
        shown=_shown(standing, arm),
        arm=analysis.arm_result(data, names[arm], groups.get(names[arm], ())),
        batches=board.batches[arm],
        arrived=outcomes.count_arrived(data.observations(names[arm]), theirs, standing.plan.trial.threshold),
        better_than=tuple(names[worse] for better, worse in sorted(board.better) if better == arm),
        worse_than=tuple(names[better] for better, worse in sorted(board.better) if worse == arm),
        less_reliable_than=tuple(names[slower] for faster, slower in held if faster == arm),
        ratio=_ratio(compared[0]) if compared is not None and relative and compared[0] is not None else None,
        gain=as_range(compared[0]) if compared is not None and not relative and compared[0] is not None else None,
        behind=as_range(compared[1]) if compared is not None else None,
        seeds_needed=compared[2] if compared is not None else None,
    )


def _shown(standing: Standing, arm: int) -> Shown:
    board = standing.board
    alive = board.alive
    if arm not in alive:
        return "worse"
    if alive == [arm]:
        return "best"
    if any(faster == arm and slower in alive for faster, slower in board.apart - board.better):
        return "faster but less reliable"
    # Whoever is told from somebody has been shown to be better than that one; of arms that are not, nothing is known.
    return "among the best" if board.better else "not told apart"


def _compare(standing: Standing, first: int, arm: int) -> tuple[Interval | None, Interval, int | None]:
    """An arm against the first one: the effect (log ratio, or gain), P(the first does better), and the seeds that would settle it."""
    board, data = standing.board, standing.data
    best, other = ([board.scores[each]] for each in (first, arm))
    sizes = len(best[0]), len(other[0])
    # All pairs at once, nothing told apart before: so the intervals of all arms hold together.
    rule, arms = standing.plan.rule, len(standing.names)
    bound = rule.bound(arms, board.batches[first], board.batches[arm])
    if board.extensions:
        bound = sequential.pooled_bound((rule.extension_level(board.extensions, arms),) * 2).better
    limit = stats.as_normal_bound(bound, *sizes)
    limits = Bounds(limit, limit)
    behind = sequential.improvement(other, best, Bounds(bound, bound))
    effect: Interval | None
    if not data.relative:
        effect = sequential.shift(best, other, limits)
        agrees = effect.low < 0
    elif standing.plan.trial.own_budgets:
        effect, agrees = None, True
    else:
        ratio = sequential.ratio(best, other, limits, _horizon(standing, (first, arm)), _spacing(standing))
        effect = analysis.as_logs(ratio)
        agrees = effect.high > 0
    if effect is not None and (first, arm) in board.better:
        # Shown to be worse: what was refused in steps leaves no room on the other side, nor for "no effect".
        behind = Interval(behind.value, max(behind.low, 0.5), behind.high)
        if not agrees:
            effect = None
        elif data.relative:
            effect = Interval(effect.value, max(effect.low, 0.0), effect.high)
        else:
            effect = Interval(effect.value, effect.low, min(effect.high, 0.0))
        return effect, behind, None
    needed = None
    if effect is not None and (first, arm) not in board.apart:
        needed = sequential.seeds_needed(effect, min(sizes), data.margin, limits, limits)
    return effect, behind, needed


def _ratio(interval: Interval) -> Range:
    return as_range(Interval(*(math.inf if end > 700 else math.exp(end) for end in interval)))


def _horizon(standing: Standing, pair: Pair) -> float:
    """Up to where every run of both arms was watched; the last rollout may end a little after the budget, and its evaluation counts."""
    seen = [observation for arm in pair for observation in standing.data.observations(standing.names[arm])]
    given = standing.plan.trial.budget or max((each.env_steps for each in seen), default=0)
    return max([float(given), *(float(each.reached_at) for each in seen if each.reached_at is not None)])


def _spacing(standing: Standing) -> float:
    """Env steps between two evaluations."""
    config = standing.plan.arms[0].config
    if config is None:
        return outcomes.measure_spacing([seen for name in standing.names for seen in standing.data.observations(name)])
    return float(config.run.eval_every_env_steps or 0)
