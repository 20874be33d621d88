"""When arms of a race are told apart, and who trains next.

Every run has a *score*, lower is better, infinity for the worst. Arms train in batches of seeds; after every round all pairs of arms are
compared, each by all the seeds that the two have.

**The statistic** of a pair is read twice, as in a trial: as a rank sum, whose tail is counted (`stats.exact_rank_z`), and against the
spread that each arm shows by itself (Brunner and Munzel 2000). The smaller counts. Eight runs that all lie on one side of another arm show
no spread in ranks, and are rare only among arms that scatter alike: beside an arm that hardly scatters it happens to one of 128 equal arms.
So where one arm scatters WIDER times as far as the other, its runs on either side of the other's middle are counted, too (a sign test).

**Bounds.** Were k arms equal, the largest statistic over all their pairs, all rounds and *all ways to divide the batches over the arms*
would pass C_k t^(SHAPE - 1/2) with chance alpha; t is the share of the pair's information that all rounds would give. So whoever gets
the next seeds may be chosen by what was seen. A tenth of the error is kept for seeds that somebody adds later (`Leaderboard.extend`).

**Families.** A pair is told apart only if every set of arms that could still all be equal, and has both in it, is refused (closed testing:
Marcus, Peritz and Gabriel 1976). Sets with a pair that was told apart before are refused already; of the others the largest has the highest
bound. So its size k is the only thing that counts: all arms at first, fewer with every arm that falls behind. The chance that any pair of
equal arms is told apart, in any round, is at most alpha, whatever the other arms are.

**Arrival.** An arm that is faster but got there in fewer of its seeds is not called better (`sequential.speaks_of_a_drop`), nor is one of
which only a few seeds are known.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Final

import numpy as np

from rlclinic import stats
from rlclinic.treatment.trial import sequential
from rlclinic.treatment.trial.sequential import Arrivals, Bounds, Numbers, Scores

ROUNDS: Final = 5
PER_ROUND: Final = 8
MOST_ARMS: Final = 32
SHAPE: Final = 0.4
"""Between O'Brien and Fleming's bounds (0) and Pocock's (0.5): arms that are far behind are dropped early."""
BEHIND: Final = 2.5
"""An arm that is so far behind the leader waits: the leader's next seeds alone may settle it."""
ARRIVAL_SEEDS: Final = 16
"""Seeds of an arm before it is called better: one that fails in a quarter of them shows no failure in 1 % of cases; in 8, in 10 %."""
FUTILE: Final = 0.05
"""Chance that a pair is still told apart below which it is given up, if its difference were one that a race sees in nine of ten cases."""
WIDER: Final = 2.5
"""Times the other arm's standard deviation from which on an arm is compared with the other's middle alone."""
SIMULATED: Final = 40_000
_CHUNK: Final = 4_000

Pair = tuple[int, int]
ArrivalsOf = Callable[[int, int], Arrivals | None]
"""Arrivals of two arms, by their places: the first one's as the treatment's, the second one's as the control's."""


@dataclass(frozen=True)
class Rule:
    """How long a race may last, and how sure it must be."""

    arms: int
    rounds: int = ROUNDS
    """Batches of an arm, at most."""
    per_round: int = PER_ROUND
    alpha: float = 0.05
    arrival_margin: float = 0.10
    ratios: bool = False
    """Scores are times: spreads are compared by their logs."""
    reserve: float = sequential.EXTENSION_SHARE
    """Of the error, kept for seeds that are added after the last round; races of before kept none."""

    def bound(self, family: int, ours: int, theirs: int) -> float:
        """What the statistic of two arms with so many batches must pass, if so many arms could all be equal."""
        information = 2.0 / (1.0 / ours + 1.0 / theirs) / self.rounds
        return float(_constants(self.arms, self.rounds, self.alpha * (1.0 - self.reserve))[max(family, 2)] * information ** (SHAPE - 0.5))

    def extension_level(self, number: int, family: int) -> float:
        """The error that extension `number` (from 1) may add, whatever was seen before, to one arm of a pair being called better than the
        other, if so many arms could all be equal: half of the reserve for the first extension, half of the rest for the next, divided
        among the pairs (Bonferroni)."""
        return self.alpha * self.reserve * 0.5**number / (family * (family - 1))


@lru_cache(maxsize=64)
def _constants(arms: int, rounds: int, alpha: float) -> tuple[float, ...]:
    """C_k for k = 0, 1, 2 ... arms, by simulation of means of equal arms; the same numbers every time."""
    rng = np.random.default_rng(20_261_116)
    batches = np.arange(1, rounds + 1)
    largest = np.empty((SIMULATED, arms))
    for start in range(0, SIMULATED, _CHUNK):
        means = np.cumsum(rng.standard_normal((_CHUNK, rounds, arms)), axis=1) / batches[:, None]
        # The highest and the lowest mean of the first k arms, for every k at once.
        highest, lowest = np.maximum.accumulate(means, axis=-1), np.minimum.accumulate(means, axis=-1)
        passed = np.zeros((_CHUNK, arms))
        for ours in range(rounds):
            for theirs in range(rounds):
                variance = 1.0 / (ours + 1) + 1.0 / (theirs + 1)
                scale = math.sqrt(variance) * (2.0 / variance / rounds) ** (SHAPE - 0.5)
                np.maximum(passed, (highest[:, ours] - lowest[:, theirs]) / scale, out=passed)
        largest[start : start + _CHUNK] = passed
    found = np.quantile(largest, 1.0 - alpha, axis=0)
    return (math.nan, *map(float, found))


def statistic(ours: Scores, theirs: Scores, *, ratios: bool = False) -> float:
    """About standard normal where neither arm is better, positive where ours is; `ratios`: scores are times."""
    return float(statistics(ours[None], theirs[None], ratios=ratios)[0])


def statistics(ours: Scores, theirs: Scores, *, ratios: bool = False) -> Numbers:
    """The statistic of each row of two arms' scores, [pairs, runs]."""
    z = _read_ranks(ours, theirs)
    if min(ours.shape[-1], theirs.shape[-1]) < 3:
        return z
    spreads = [_measure_spread(side, ratios=ratios) for side in (ours, theirs)]
    narrow, wide = np.minimum(*spreads), np.maximum(*spreads)
    for row in np.flatnonzero((wide > WIDER * narrow) & (narrow > 0.0) & (z != 0.0)):
        ours_wider = spreads[0][row] > spreads[1][row]
        side = _read_sides(ours[row], theirs[row]) if ours_wider else -_read_sides(theirs[row], ours[row])
        z[row] = side if abs(side) < abs(z[row]) else z[row]
    return z


def _measure_spread(scores: Scores, *, ratios: bool) -> Numbers:
    """The standard deviation of those runs of each row that came to something (of their logs, for times); 0 where fewer than three did."""
    known = np.isfinite(scores)
    count = known.sum(-1)
    values = np.where(known, scores, 1.0)
    values = np.where(known, np.log(np.maximum(values, 1e-9)) if ratios else values, 0.0)
    mean = values.sum(-1) / np.maximum(count, 1)
    squares = (np.where(known, values - mean[:, None], 0.0) ** 2).sum(-1)
    return np.where(count >= 3, np.sqrt(squares / np.maximum(count - 1, 1)), 0.0)


def _read_sides(wider: Scores, narrow: Scores) -> float:
    """How many runs of an arm lie on one side of the middle of another that hardly scatters: a sign test, counted."""
    middle = float(np.median(narrow))
    below, above = int((wider < middle).sum()), int((wider > middle).sum())
    tail = sum(math.comb(below + above, more) for more in range(max(below, above), below + above + 1)) / 2.0 ** (below + above)
    return math.copysign(max(-stats.normal_quantile(max(tail, 1e-15)), 0.0), below - above)


def _read_ranks(ours: Scores, theirs: Scores) -> Numbers:
    """The rank sum, counted, or against the spread that each arm shows by itself: the smaller."""
    n, m = ours.shape[-1], theirs.shape[-1]
    placed = sequential.compare_runs(theirs, ours)
    ranks = np.concatenate([placed.treatment_ranks + m - placed.treatment, placed.control_ranks + placed.control], axis=-1)
    balance = placed.treatment.sum(-1) - n * m / 2.0
    variance = n * m * ranks.var(-1) / max(n + m - 1, 1)
    exact: Numbers = balance / np.sqrt(np.where(variance > 1e-12, variance, np.inf))
    for row in np.flatnonzero(np.abs(exact) >= stats.WORTH_COUNTING):
        exact[row] = stats.exact_rank_z(ours[row], theirs[row])
    if min(n, m) < 2:
        return exact
    own = n * placed.treatment.var(-1, ddof=1) + m * placed.control.var(-1, ddof=1)
    separate = sequential.as_normal(balance / np.sqrt(np.where(own > 1e-12, own, 1.0)), min(n, m) - 1)
    return np.where((own > 1e-12) & (exact != 0.0) & (np.abs(separate) < np.abs(exact)), separate, exact)


# ── who is better than whom ──


def _no_arrivals(first: int, second: int) -> None:
    """Where getting there is no outcome."""


@dataclass
class Leaderboard:
    """Who was shown to be better than whom, after the rounds so far. Arms go by their places, from 0."""

    rule: Rule
    arrivals: ArrivalsOf = _no_arrivals
    scores: list[Scores] = field(init=False)
    batches: list[int] = field(init=False)
    z: Numbers = field(init=False)
    """[arms, arms]: positive where the first is better."""
    apart: set[Pair] = field(init=False, default_factory=set)
    """Pairs that ranks tell apart, the better first."""
    better: set[Pair] = field(init=False, default_factory=set)
    """Those of them whose better arm gets there as often: what is shown."""
    steps: int = 0
    """Rounds of the race; an arm need not take part in each."""
    extensions: int = 0
    """How often seeds were added after the last round."""

    def __post_init__(self) -> None:
        arms = self.rule.arms
        self.scores = [np.empty(0) for _ in range(arms)]
        self.batches = [0] * arms
        self.z = np.zeros((arms, arms))

    def add(self, fresh: Mapping[int, Scores]) -> None:
        """One more batch of some arms."""
        self.steps += 1
        for arm, scores in fresh.items():
            self.scores[arm] = np.concatenate([self.scores[arm], scores])
            self.batches[arm] += 1
        trained = [arm for arm in range(self.rule.arms) if self.batches[arm]]
        self._compare([(i, j) for i, j in combinations(trained, 2) if i in fresh or j in fresh])
        self._tell_apart()
        self.better |= {pair for pair in self.apart if self._has_enough_seeds(pair[0]) and not self.is_held(pair)}

    def _compare(self, pairs: Sequence[Pair]) -> None:
        """The statistics of pairs by all seeds of theirs so far; pairs with as many seeds at once."""
        by_size: dict[tuple[int, int], list[Pair]] = {}
        for first, second in pairs:
            by_size.setdefault((len(self.scores[first]), len(self.scores[second])), []).append((first, second))
        for alike in by_size.values():
            ours, theirs = (np.stack([self.scores[pair[side]] for pair in alike]) for side in (0, 1))
            for (first, second), z in zip(alike, statistics(ours, theirs, ratios=self.rule.ratios), strict=True):
                self.z[first, second], self.z[second, first] = z, -z

    def extend(self, fresh: Mapping[int, Scores]) -> None:
        """Seeds that somebody added after the race had ended, of those arms that nobody was shown to be better than.

        They are tested by themselves, at what the seeds before have left of the extension's error (the conditional error, as in a trial),
        within the families that are left: so however many they are, and whatever made somebody add them, the error holds.
        """
        self.extensions += 1
        arms = sorted(fresh)
        before = self.z.copy()
        alone = np.zeros_like(before)
        for arm in arms:
            self.scores[arm] = np.concatenate([self.scores[arm], fresh[arm]])
        trained = [arm for arm in range(self.rule.arms) if self.batches[arm]]
        self._compare([(i, j) for i, j in combinations(trained, 2) if i in fresh or j in fresh])
        for first, second in combinations(arms, 2):
            z = statistic(fresh[first], fresh[second], ratios=self.rule.ratios)
            alone[first, second], alone[second, first] = z, -z
        left = [(i, j) for i in arms for j in arms if i != j and (i, j) not in self.apart and (j, i) not in self.apart]
        found = True
        while found:
            found = False
            for pair in list(left):
                level = self.rule.extension_level(self.extensions, self.family(pair))
                if pair not in self.apart and alone[pair] > sequential.extension_bound(float(before[pair]), (level, level)).better:
                    self.apart.add(pair)
                    left = [other for other in left if set(other) != set(pair)]
                    found = True
        self.better |= {pair for pair in self.apart if self._has_enough_seeds(pair[0]) and not self.is_held(pair)}

    def _tell_apart(self) -> None:
        """Find every pair that passes its bound; each one found makes the families of others smaller."""
        # No bound is lower than that of two arms with all of their batches: most pairs need no look at their own.
        lowest = self.rule.bound(2, self.rule.rounds, self.rule.rounds)
        near = [(int(i), int(j)) for i, j in np.argwhere(self.z > lowest) if (i, j) not in self.apart and (j, i) not in self.apart]
        bounds = {(i, j): self.rule.bound(2, self.batches[i], self.batches[j]) for i, j in near}
        left = sorted((pair for pair in near if self.z[pair] > bounds[pair]), key=lambda pair: -self.z[pair] / bounds[pair])
        found = True
        while found:
            found = False
            for pair in list(left):
                if self.z[pair] > self.bound(pair):
                    self.apart.add(pair)
                    left.remove(pair)
                    found = True

    def bound(self, pair: Pair) -> float:
        """What the statistic of a pair must pass, as things stand."""
        return self.rule.bound(self.family(pair), *(self.batches[arm] for arm in pair))

    def family(self, pair: Pair) -> int:
        """The most arms that could still all be equal, the two of this pair among them."""
        different = [0] * self.rule.arms
        for i, j in self.apart:
            different[i] |= 1 << j
            different[j] |= 1 << i
        others = (1 << self.rule.arms) - 1
        for arm in pair:
            others &= ~(different[arm] | 1 << arm)
        return 2 + _largest_equal(different, others)

    def _has_enough_seeds(self, arm: int) -> bool:
        """Whether an arm that fails in a quarter of its seeds would have shown it, or has no more to train."""
        return self.arrivals is _no_arrivals or len(self.scores[arm]) >= ARRIVAL_SEEDS or self.batches[arm] >= self.rule.rounds

    def is_held(self, pair: Pair) -> bool:
        """Whether the better arm of a pair got there in so many fewer seeds that it is not called better."""
        arrivals = self.arrivals(*pair)
        return arrivals is not None and bool(sequential.speaks_of_a_drop(arrivals, self.rule.arrival_margin))

    # ── who trains next ──

    @property
    def alive(self) -> list[int]:
        """Arms that nobody was shown to be better than; where they beat each other in a ring, all of it."""
        beaten = {second for _, second in self.better}
        return [arm for arm in range(self.rule.arms) if arm not in beaten] or list(range(self.rule.arms))

    @property
    def leader(self) -> int:
        """The arm that stands best among those."""
        alive = self.alive
        return max(alive, key=lambda arm: (float(self.z[arm, alive].sum()), -arm))

    def choose(self) -> list[int]:
        """Arms that get the next seeds, those that need them most first; none if more seeds cannot change anything.

        An arm that is far behind the leader waits. Once nobody else is near, the leader trains alone for a round; who is then still not
        shown to be worse trains again.
        """
        alive, leader = self.alive, self.leader
        if len(alive) < 2 or not self._may_change(alive, leader):
            return []
        near = [arm for arm in alive if arm == leader or not self._waits(arm, leader)]
        if self.steps >= 2 * self.rule.rounds or (len(near) == 1 and self.batches[leader] > min(self.batches[arm] for arm in alive)):
            near = alive
        able = [arm for arm in near if self.batches[arm] < self.rule.rounds] or [
            arm for arm in alive if self.batches[arm] < self.rule.rounds
        ]
        return sorted(able, key=lambda arm: (arm != leader, float(self.z[leader, arm]), arm))

    def _waits(self, arm: int, leader: int) -> bool:
        return float(self.z[leader, arm]) > BEHIND and not self.is_held((leader, arm))

    def _may_change(self, alive: Sequence[int], leader: int) -> bool:
        """Whether any arm may still be told from the leader, or the other way round."""
        rounds = self.rule.rounds
        for arm in alive:
            pair = (leader, arm) if float(self.z[leader, arm]) >= 0 else (arm, leader)
            if arm == leader or self.batches[arm] >= rounds <= self.batches[leader]:
                continue
            if pair in self.apart:
                if not self.is_surely_less_reliable(pair):
                    return True
                continue
            last = self.rule.bound(self.family(pair), rounds, rounds)
            information = 2.0 / (1.0 / self.batches[arm] + 1.0 / self.batches[leader]) / rounds
            if float(sequential.chance_of_better(np.asarray(self.z[pair]), information, Bounds(last, last))) >= FUTILE:
                return True
        return False

    def is_surely_less_reliable(self, pair: Pair) -> bool:
        """Whether it is beyond doubt that the faster arm of a pair gets there in fewer seeds."""
        arrivals = self.arrivals(*pair)
        limit = self.rule.bound(self.rule.arms, *(self.batches[arm] for arm in pair))
        return pair in self.apart and arrivals is not None and self.is_held(pair) and float(sequential.drop_z(arrivals)) > limit

    # ── the ranking ──

    def ranks(self) -> list[tuple[int, int]]:
        """The ranks that each arm may have, from 1: all of these sets hold together with confidence 1 - alpha."""
        order = self._order()
        return [(1 + int(order[:, arm].sum()), self.rule.arms - int(order[arm].sum())) for arm in range(self.rule.arms)]

    def _order(self) -> "np.ndarray[tuple[int, int], np.dtype[np.bool_]]":
        """[arms, arms]: the first is better than the second; what is better than something better is better, too."""
        order = np.zeros((self.rule.arms, self.rule.arms), dtype=bool)
        for pair in self.better:
            order[pair] = True
        for middle in range(self.rule.arms):
            order |= np.outer(order[:, middle], order[middle])
        np.fill_diagonal(order, False)
        return order

    def placed(self) -> list[int]:
        """Arms from the best to the worst, as far as these seeds say."""
        ranks = self.ranks()
        return sorted(range(self.rule.arms), key=lambda arm: (arm != self.leader, ranks[arm][0], -float(self.z[arm].sum()), arm))


def _largest_equal(different: Sequence[int], arms: int) -> int:
    """The size of the largest set among `arms` (bits) in which no two are known to differ: branch and bound over the most known arm."""
    alone, most, busiest = 0, 0, -1
    left = arms
    while left:
        arm = (left & -left).bit_length() - 1
        left &= left - 1
        degree = (different[arm] & arms).bit_count()
        if degree == 0:
            alone += 1
            arms &= ~(1 << arm)
        elif degree > most:
            most, busiest = degree, arm
    if busiest < 0:
        return alone
    without = arms & ~(1 << busiest)
    return alone + max(1 + _largest_equal(different, without & ~different[busiest]), _largest_equal(different, without))
