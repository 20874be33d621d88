"""Which way suits recorded data: imitation, offline RL, online RL, or both; from numbers, each with where it comes from.

Every reason speaks for a way (points above zero) or against it. The way with the most points is advised; where none has any, it is better
to collect other data, and what is lacking is said.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from rlclinic.datasets.episodes import Dataset
from rlclinic.datasets.quality import Quality

__all__ = [
    "WAYS",
    "Cloning",
    "Lack",
    "Option",
    "Reason",
    "Situation",
    "Suit",
    "Way",
    "find_lacks",
    "judge_algorithms",
    "measure_returns",
    "rank",
]

Way = Literal["imitation", "offline", "hybrid", "online"]
Grade = Literal["good", "medium", "poor"]
WAYS: Final[tuple[Way, ...]] = ("imitation", "offline", "hybrid", "online")
GOOD: Final = 0.85
"""Share of the way from a random return to a good one above which data is as good as what is wanted."""
POOR: Final = 0.1
"""Below this share, and with hardly a good episode, nobody in the data knows what to do."""
FEW_GOOD: Final = 0.05
NARROW: Final = 0.25
"""Spread of actions within a state below which the data shows one way to act (a steep deterministic policy has up to 0.2)."""
AIMLESS: Final = 0.9
"""Spread of actions within a state above which states say nothing about actions."""
TWO_KINDS: Final = 0.6
"""Sarle's coefficient of bimodality: 0.33 of a normal distribution, 0.56 of an even one, 1 of two points."""
BY_START: Final = 0.5
"""Share of the returns' variance above which where an episode starts decides, not who acts."""
FEWEST_EPISODES: Final = 5
FEWEST_TRANSITIONS: Final = 1_000
PATIENCE_SECONDS: Final = 3_600.0
"""How long simulating what online RL is known to need may take."""
LABELLED_EPISODES: Final = 8
"""Episodes of answers with which DAgger came close to its expert (benchmarks/imitation.py)."""
WORKING_DAY: Final = 8.0
"""Hours of an expert."""
NEAREST: Final = 5
FEWEST_GOOD: Final = 10
"""Good episodes without which imitating only those knows too few states."""


@dataclass(frozen=True)
class Cloning:
    """What imitating the data would earn by fitted Q evaluation, beside what was recorded, judged by the same critics; discounted."""

    value: float
    behaviour: float
    low: float
    high: float
    """A 95 % interval of the difference."""


@dataclass(frozen=True)
class Situation:
    """What is known when somebody asks. None: neither measured nor given."""

    quality: Quality
    mixture: float | None = None
    """Sarle's coefficient of bimodality of the returns."""
    start_explains: float | None = None
    """Share of the returns' variance that the first observation explains."""
    good_return: float | None = None
    good_share: float | None = None
    """Share of episodes with at least a good return."""
    random_return: float | None = None
    above_random: float | None = None
    """(mean return − random) / a random return's deviation."""
    cloning: Cloning | None = None
    steps_per_second: float | None = None
    """Of the simulator; None: there is none."""
    needed_steps: int | None = None
    """Env steps that online RL is known to need, or is given."""
    budget: int | None = None
    """Env steps that may be taken."""
    expert_seconds: float | None = None
    """What an answer of the expert takes; None: nobody can be asked."""

    @property
    def rewarded(self) -> bool:
        """Whether rewards tell episodes apart."""
        zero = any(finding.name == "constant-reward" and finding.level == "warning" for finding in self.quality.findings)
        return not zero and not (self.quality.return_std == 0 and self.quality.episodes > 1)

    @property
    def grade(self) -> Grade | None:
        """How good the data is; None where nothing says what good is."""
        share = self.quality.trajectory_quality
        if not self.rewarded and self.good_share is None:
            return None
        if share is not None:
            if share >= GOOD:
                return "good"
            return "poor" if share < POOR and (self.good_share or 0.0) < FEW_GOOD else "medium"
        if self.good_share is not None:
            return "good" if self.good_share >= 0.5 else "medium" if self.good_share >= FEW_GOOD else None
        if self.above_random is not None:
            return "poor" if self.above_random < 0.5 and not self.mixed else "medium"
        return None

    @property
    def mixed(self) -> bool:
        """Whether good and bad episodes lie side by side, for another reason than where they start."""
        return (self.mixture or 0.0) >= TWO_KINDS and (self.start_explains or 0.0) < BY_START

    @property
    def aimless(self) -> bool:
        """Whether nobody in the data knows what to do."""
        spread = self.quality.action_spread
        return self.grade == "poor" or (self.grade is None and spread is not None and spread >= AIMLESS and not self.mixed)

    @property
    def narrow(self) -> bool:
        """Whether nearly the same was done whenever a state came up."""
        return self.quality.action_spread is not None and self.quality.action_spread < NARROW

    @property
    def few(self) -> bool:
        """Whether there is too little to learn from."""
        return self.quality.episodes < FEWEST_EPISODES or self.quality.transitions < FEWEST_TRANSITIONS

    @property
    def may_act(self) -> bool:
        """Whether there is a simulator, and leave to use it."""
        return self.steps_per_second is not None and (self.budget is None or self.budget > 0)

    @property
    def asks(self) -> bool:
        """Whether an expert can be asked about states that the policy gets into."""
        return self.expert_seconds is not None and self.may_act


@dataclass(frozen=True)
class Reason:
    """What speaks for a way, or against it."""

    way: Way
    points: int
    what: str
    number: float
    source: str
    """`measured`, `given`, a key of the bibliography, or a benchmark."""


@dataclass(frozen=True)
class Option:
    """A way, with everything that speaks for and against it."""

    way: Way
    points: int
    reasons: tuple[Reason, ...]
    impossible: str | None
    """Why it cannot be gone at all."""


@dataclass(frozen=True)
class Suit:
    """Whether an algorithm suits the data, and the number that says so."""

    algorithm: str
    suits: bool
    why: str


@dataclass(frozen=True)
class Lack:
    """Something that the data should have, and how to collect it."""

    what: str
    collect: str
    noise: float | None
    episodes: int


def measure_returns(data: Dataset) -> tuple[float | None, float | None]:
    """Bimodality of the returns, and the share of their variance that the start explains; None where there are too few."""
    returns = data.returns[np.isfinite(data.returns)]
    if len(returns) < 2 * NEAREST or len(returns) < data.n_episodes or not returns.std() > 0:
        return None, None
    scores = (returns - returns.mean()) / returns.std()
    mixture = float((np.mean(scores**3) ** 2 + 1.0) / np.mean(scores**4))
    starts = data.ends - data.lengths + np.arange(data.n_episodes)
    return mixture, _explain_by_neighbours(np.asarray(data.observations[starts], np.float64).reshape(len(starts), -1), returns)


def _explain_by_neighbours(points: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Share of the variance of values that is gone when each is told from its nearest neighbours'; a thousand of them at most."""
    points, values = points[:1_000], values[:1_000]
    scaled = (points - points.mean(0)) / np.where(points.std(0) > 0, points.std(0), 1.0)
    distance = np.square(scaled[:, None] - scaled[None]).sum(-1)
    np.fill_diagonal(distance, np.inf)
    nearest = np.argpartition(distance, NEAREST, axis=1)[:, :NEAREST]
    left = values - values[nearest].mean(1)
    return float(np.clip(1.0 - np.square(left).mean() / values.var(), 0.0, 1.0))


def rank(situation: Situation) -> list[Option]:
    """All ways, the best first; those that cannot be gone last."""
    reasons = list(_reasons(situation))
    options = []
    for way in WAYS:
        own = tuple(sorted((reason for reason in reasons if reason.way == way), key=lambda reason: -abs(reason.points)))
        options.append(Option(way, sum(reason.points for reason in own), own, _find_obstacle(way, situation)))
    return sorted(options, key=lambda option: (option.impossible is not None, -option.points, WAYS.index(option.way)))


def _find_obstacle(way: Way, situation: Situation) -> str | None:
    if way in ("online", "hybrid"):
        if situation.steps_per_second is None:
            return "there is no simulator: name the environment, or it cannot be made here"
        if not situation.may_act:
            return "no env steps may be taken (the budget is 0)"
    if way in ("offline", "hybrid") and not situation.rewarded:
        return "rewards tell no episode from another: there is nothing to learn a value from"
    return None


def _reasons(situation: Situation) -> Iterator[Reason]:
    yield from _of_experts(situation)
    yield from _of_behaviour(situation)
    yield from _of_returns(situation)
    yield from _of_amount(situation)
    yield from _of_simulator(situation)


def _of_experts(situation: Situation) -> Iterator[Reason]:
    if situation.asks and situation.expert_seconds is not None:
        labels = LABELLED_EPISODES * situation.quality.length_mean
        hours = labels * situation.expert_seconds / 3_600
        words = f"the expert can be asked: {labels:,.0f} answers take {hours:.2g} hours of it"
        yield Reason("imitation", 4 if hours <= WORKING_DAY else 1, words, hours, "ross2011dagger")


def _of_behaviour(situation: Situation) -> Iterator[Reason]:
    spread = situation.quality.action_spread
    if spread is None:
        return
    if situation.narrow:
        what = f"neighbouring states are acted in alike (spread {spread:.2f}): what else could have been done was not recorded"
        yield Reason("offline", -2, what, spread, "kumar2022offline")
        if not situation.asks:
            yield Reason("imitation", 2, f"one way to act in each state (spread {spread:.2f}), which can be copied", spread, "measured")
        return
    tried = f"different actions were tried in the same states (spread {spread:.2f})"
    if situation.rewarded:
        yield Reason("offline", 2, f"{tried}: rewards tell which were better", spread, "kumar2022offline")
        yield Reason("hybrid", 1, f"{tried}: values can be learned before acting", spread, "ball2023rlpd")
    if not situation.asks:
        yield Reason("imitation", -1, f"{tried}: a copy does what is done on the average, noise and all", spread, "benchmarks/offline.py")


def _of_returns(situation: Situation) -> Iterator[Reason]:
    quality, grade, copies = situation.quality, situation.grade, not situation.asks
    if situation.mixed and situation.mixture is not None and situation.rewarded:
        apart = f"good and bad episodes side by side (bimodality {situation.mixture:.2f}, the best tenth {quality.return_top_tenth:.4g}"
        apart += f" against {quality.return_mean:.4g} on the average)"
        yield Reason("offline", 2, apart, situation.mixture, "benchmarks/offline.py")
        if copies:
            yield Reason("imitation", -2, f"{apart}: a copy is neither", situation.mixture, "benchmarks/offline.py")
    if grade is not None:
        words, number = _describe_grade(situation)
        if grade == "good":
            if copies:
                yield Reason("imitation", 2, f"as good as what is wanted: {words}", number, "measured")
            yield Reason("hybrid", -1, f"little is left to gain by acting: {words}", number, "measured")
            if not situation.narrow and situation.rewarded:
                yield Reason("offline", 1, f"good already, and rewards tell its noise apart: {words}", number, "benchmarks/offline.py")
        elif grade == "medium":
            if situation.rewarded:
                yield Reason("offline", 1, f"better than random, and not good yet: {words}", number, "measured")
                yield Reason("hybrid", 2, f"a start, and not good yet: {words}", number, "ball2023rlpd")
            if copies:
                yield Reason("imitation", -2, f"a copy would be as mediocre: {words}", number, "measured")
    if situation.aimless:
        spread = quality.action_spread
        words, number = _describe_grade(situation) if grade == "poor" else (f"actions at random (spread {spread:.2f})", spread or 0.0)
        yield Reason("offline", -2, f"nobody in it knows what to do: {words}", number, "schweighofer2022dataset")
        yield Reason("hybrid", -2, f"it shows no way: {words}", number, "measured")
        if copies:
            yield Reason("imitation", -4, f"a copy would be no better: {words}", number, "measured")
        if situation.may_act:
            yield Reason("online", 1, f"the data is no help: {words}", number, "measured")
    if not situation.rewarded and copies:
        yield Reason("imitation", 1, "rewards tell no episode from another: only imitation can use it", quality.return_std, "measured")
    if situation.cloning is not None and copies:
        cloned = situation.cloning
        words = f"a copy would earn {cloned.value:.4g} (discounted, fitted Q), what was recorded {cloned.behaviour:.4g}"
        points = 1 if cloned.low > 0 else -1 if cloned.high < 0 else 0
        yield Reason("imitation", points, words, cloned.value - cloned.behaviour, "le2019fqe")


def _describe_grade(situation: Situation) -> tuple[str, float]:
    quality = situation.quality
    if quality.trajectory_quality is not None:
        known = f"{quality.return_mean:.4g}, random {situation.random_return:.4g}, good {situation.good_return:.4g}"
        return f"quality {quality.trajectory_quality:.2f} (mean return {known})", quality.trajectory_quality
    if situation.good_share is not None:
        return f"{situation.good_share:.0%} of the episodes return {situation.good_return:.4g} or more", situation.good_share
    above = situation.above_random or 0.0
    return f"{above:.2g} deviations above a random policy's {situation.random_return:.4g}", above


def _of_amount(situation: Situation) -> Iterator[Reason]:
    quality = situation.quality
    if situation.few:
        words = f"{quality.transitions:,} transitions in {quality.episodes:,} episodes are few"
        yield Reason("offline", -3, words, quality.transitions, "measured")
        yield Reason("hybrid", -1, words, quality.transitions, "measured")
        if not situation.asks:
            yield Reason("imitation", -2, words, quality.transitions, "measured")
    for finding in quality.findings:
        if finding.name == "action-never-tried":
            yield Reason("offline", -1, f"{finding.what}: they have no value that could be learned", 0.0, "measured")


def _of_simulator(situation: Situation) -> Iterator[Reason]:
    speed, needed = situation.steps_per_second, situation.needed_steps
    if speed is None or needed is None or not situation.may_act:
        return
    seconds = needed / max(speed, 1e-9)
    takes = f"{needed:,} env steps take {seconds:,.0f} s at {speed:,.0f} steps/s, simulating alone"
    if situation.budget is not None and situation.budget < needed:
        words = f"online RL needs about {needed:,} env steps, and {situation.budget:,} are allowed"
        yield Reason("online", -2, words, float(situation.budget), "given")
        yield Reason("hybrid", 1, f"{words}: data makes up for some", float(situation.budget), "ball2023rlpd")
    elif seconds > PATIENCE_SECONDS:
        yield Reason("online", -2, f"a slow simulator: {takes}", seconds, "measured")
        yield Reason("hybrid", 1, f"a slow simulator ({takes}): data makes up for some steps", seconds, "ball2023rlpd")
    else:
        yield Reason("online", 3, f"a fast simulator: {takes}", seconds, "measured")
        yield Reason("hybrid", 1, f"a fast simulator: {takes}", seconds, "measured")


def find_lacks(situation: Situation) -> list[Lack]:
    """What other data would have to have, where this one suits no way well."""
    quality, lacks = situation.quality, []
    episodes = max(20, round(20_000 / max(quality.length_mean, 1.0)))
    if situation.aimless:
        lacks.append(
            Lack("nobody in it knows what to do", "episodes of a better policy: a half-trained one, a controller, a person", 0.3, episodes)
        )
    elif situation.narrow and situation.grade != "good":
        lacks.append(Lack("only one action was tried in each state", "the same again, with some actions at random", 0.3, episodes))
    if situation.few:
        lacks.append(Lack(f"{quality.episodes:,} episodes are few", "more of them", None, episodes))
    if not situation.rewarded:
        lacks.append(
            Lack(
                "rewards tell no episode from another", "with the task's rewards, or episodes of somebody who is good at it", None, episodes
            )
        )
    return lacks


def judge_algorithms(situation: Situation, *, vectors: bool) -> list[Suit]:
    """Which algorithms suit the data; vectors: of its actions. None does where it is damaged."""
    quality = situation.quality
    damage = next((finding for finding in quality.findings if finding.level == "error"), None)
    names = ["bc", "bc with data.best", *(["td3_bc"] if vectors else []), "iql", "awac", "cql", "dt"]
    if damage is not None:
        return [Suit(name, False, f"the data is damaged: {damage.what}") for name in names]
    return [Suit(name, *_judge(name, situation)) for name in names]


def _judge(name: str, situation: Situation) -> tuple[bool, str]:
    quality, spread = situation.quality, situation.quality.action_spread
    said = "" if spread is None else f" (spread {spread:.2f})"
    best = f"the best tenth returns {quality.return_top_tenth:.4g}, all of it {quality.return_mean:.4g}"
    if situation.few:
        return False, f"{quality.transitions:,} transitions in {quality.episodes:,} episodes are few"
    if name == "bc":
        if situation.aimless:
            return False, f"nobody in it knows what to do{said}: a copy would not either"
        if situation.mixed and situation.rewarded:
            return False, f"good and bad episodes side by side (bimodality {situation.mixture:.2f}): a copy is neither"
        if situation.grade == "medium":
            return False, f"a copy would be as mediocre: {_describe_grade(situation)[0]}"
        return True, f"one way to act in each state{said}" if situation.narrow else f"it copies what is done on the average{said}"
    if not situation.rewarded:
        return False, "rewards tell no episode from another"
    if name in ("bc with data.best", "dt"):
        if quality.episodes < 2 * FEWEST_GOOD:
            return False, f"of {quality.episodes:,} episodes too few would be left"
        return (True, best) if situation.mixed else (False, f"no kind of episode stands out: {best}")
    if situation.narrow:
        return False, f"one action in each state{said}: what else could have been done was not recorded"
    if situation.aimless:
        return (True, f"bad as it is, it covers much{said}") if name == "cql" else (False, f"nobody in it knows what to do{said}")
    return True, f"different actions were tried in the same states{said}: rewards tell which were better"
