"""What a race is made of, as data: its plan before it starts, and everything that came of it. Stored as race.json."""

from typing import Final, Literal

from rlclinic.treatment.race.rule import Rule
from rlclinic.treatment.trial.arms import Arm
from rlclinic.treatment.trial.models import CENSORED_OUTCOMES, ArmProgress, ArmResult, Range, State, TrialOutcome, TrialPart, TrialPlan

RaceOutcome = Literal["steps", "return", "success"]
RaceVerdict = Literal["best", "less reliable", "several", "undecided"]
"""One arm was shown to be better than all others; it is faster but gets there less often; several cannot be told apart; nothing to say."""
Shown = Literal["best", "among the best", "faster but less reliable", "worse", "not told apart"]
SCHEMA_VERSION: Final = 1


class RacePlan(TrialPart):
    """A race before it starts."""

    trial: TrialPlan
    """The arms and what they share: budgets, evaluations, outcome, level; as a trial of all of them would train them."""
    rounds: int
    """Batches of an arm, at most."""
    budget: int | None = None
    """Env steps that everything may take."""
    reserve: float = 0.0
    """Of the error, kept for extensions; none in races of before."""

    @property
    def arms(self) -> tuple[Arm, ...]:
        return self.trial.arms

    @property
    def per_round(self) -> int:
        """Seeds of a batch."""
        return self.trial.per_look

    @property
    def outcome(self) -> TrialOutcome:
        return self.trial.outcome

    @property
    def rule(self) -> Rule:
        ratios = self.outcome in CENSORED_OUTCOMES
        return Rule(len(self.arms), self.rounds, self.per_round, self.trial.alpha, self.trial.arrival_margin, ratios, self.reserve)

    def cost(self, arms: tuple[str, ...] | None = None, seeds: int | None = None) -> int | None:
        """Env steps that a batch (or so many seeds) of some arms (None: of all) takes if no run ends early; None where only a user's
        command knows."""
        configs = [arm.config for arm in self.arms if arms is None or arm.name in arms]
        steps = [config.iterations * config.rollout_size for config in configs if config is not None]
        return (seeds or self.per_round) * sum(steps) if len(steps) == len(configs) else None

    @property
    def max_env_steps(self) -> int | None:
        """What it costs if nothing is told apart and no run ends early."""
        batch = self.cost()
        if batch is None:
            return None
        return batch * self.rounds if self.budget is None else min(batch * self.rounds, self.budget)


class Round(TrialPart):
    """One batch of some arms, and what it showed."""

    number: int
    seeds: dict[str, int]
    """Arms that trained in it, with their seeds so far."""
    dropped: dict[str, str]
    """Arms that were shown to be worse, each with an arm that is better."""
    left: int
    """Arms that nobody was shown to be better than."""
    leader: str
    env_steps: int
    """Of all rounds so far."""
    seconds: float = 0.0


class RankedArm(TrialPart):
    """One arm in the ranking."""

    place: int
    """From 1, by these seeds."""
    ranks: tuple[int, int]
    """The ranks that it may have: those of all arms hold together."""
    shown: Shown
    arm: ArmResult
    batches: int
    arrived: int
    """Runs that got there and stayed, or did not collapse beside the leader's."""
    better_than: tuple[str, ...] = ()
    worse_than: tuple[str, ...] = ()
    less_reliable_than: tuple[str, ...] = ()
    """Arms that it is faster than, but that get there more often."""
    ratio: Range | None = None
    """Steps to the threshold over those of the first arm; the intervals of all arms hold together."""
    gain: Range | None = None
    """Return or success minus that of the first arm; the intervals of all arms hold together."""
    behind: Range | None = None
    """P(a run of the first arm does better than one of this)."""
    seeds_needed: int | None = None
    """Seeds an arm, in all, at which it would probably be told from the first; where it was not."""


class Race(TrialPart):
    """A race and everything that came of it."""

    schema_version: int = SCHEMA_VERSION
    id: str
    question: str
    state: State
    created: float
    seconds: float = 0.0
    env_id: str
    algo: str
    outcome: TrialOutcome
    threshold: float | None
    alpha: float
    seed0: int
    plan: RacePlan
    rounds: tuple[Round, ...] = ()
    arms: tuple[RankedArm, ...] = ()
    """From the best to the worst."""
    verdict: RaceVerdict | None = None
    """None until it has ended."""
    winner: str | None = None
    best: tuple[str, ...] = ()
    """Arms that nobody was shown to be better than."""
    reason: str = ""
    """Why it ended as it did, where the numbers alone do not say."""
    not_afforded: str = ""
    """What the budget did not pay for."""
    used_env_steps: int = 0
    max_env_steps: int | None = None
    notes: tuple[str, ...] = ()

    def find(self, name: str) -> RankedArm:
        """An arm by its name."""
        return next(arm for arm in self.arms if arm.arm.name == name)


class RaceEvent(TrialPart):
    """What a race tells whoever watches: progress several times a second, and each round when it is over."""

    kind: Literal["started", "progress", "round"]
    race: str
    number: int
    arms: tuple[ArmProgress, ...] = ()
    seconds: float = 0.0
    result: Round | None = None
