"""The ledger of a search: what was tried, what it cost, what is best so far. Stored as ledger.json after every step."""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from rlclinic.config import Config, from_record

SearchOutcome = Literal["steps", "return", "wall", "stability"]
Kind = Literal["baseline", "screen", "settle", "improve", "confirm"]
State = Literal["running", "interrupted", "finished"]
Source = Literal["start", "prescription", "merged", "computed", "neighbour", "search"]

SCHEMA_VERSION: Final = 1
_MODEL = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, defer_build=True)


class Entry(BaseModel):
    """One config in one round: how it came about, and how it did."""

    model_config = _MODEL

    name: str
    source: Source
    why: str
    """The reason, in a sentence: a prescription's rationale, or how the values were drawn."""
    changes: tuple[str, ...]
    """Against the start, as --set takes them."""
    config: dict[str, Any]
    cause: str = ""
    """The diagnosed cause that it treats."""
    params: dict[str, float] = Field(default_factory=dict)
    """Where a search drew it: its point in the unit cube."""
    group: str | None = None
    n: int = 0
    reached: int = 0
    score: float | None = None
    """Lower is better: mean steps (or seconds) to the threshold, a run that misses it counted whole; minus the return; the spread."""
    final: float | None = None
    """Mean of the last evaluations."""
    env_steps: int = 0
    pruned: int = 0
    """Runs that were stopped because they could not win any more."""
    lost: int = 0
    """Runs whose process was killed every time that it was started: they say nothing about the config, and are not scored."""

    def load_config(self) -> Config:
        """The config."""
        return from_record(self.config)

    @property
    def whole(self) -> bool:
        """Every run reached the threshold."""
        return self.n > 0 and self.reached == self.n


class Confirmed(BaseModel):
    """What fresh seeds say about the best config: the figures of a search, where the seeds that picked a winner flatter it."""

    model_config = _MODEL

    seeds: int
    """Of each arm."""
    reached: int | None
    """Runs of the best config that reached the threshold; None where there is none."""
    start_reached: int | None
    """The same of the start."""
    effect: Literal["ratio", "gain"]
    """ratio: steps, seconds or spread of the best over those of the start; gain: its return minus the start's."""
    value: float | None
    low: float | None
    high: float | None
    level: float
    """Of the interval: one minus what this confirmation may err by."""


class Round(BaseModel):
    """Configs that were trained side by side, on the same seeds."""

    model_config = _MODEL

    number: int
    kind: Kind
    seeds: tuple[int, ...]
    entries: tuple[Entry, ...]
    diagnosis: str = ""
    """What was wrong with the best config before this round."""
    done: bool = False
    winner: str = ""
    trial: str = ""
    """Of a confirmation: the trial's id."""
    verdict: str = ""
    alpha: float = 0.0
    """What a confirmation may err by."""
    confirmed: Confirmed | None = None
    used_env_steps: int = 0
    seconds: float = 0.0


class Best(BaseModel):
    """The best config so far, over all runs of it."""

    model_config = _MODEL

    entry: Entry
    n: int
    reached: int
    score: float
    settled: bool = False
    """It was trained on more seeds than those that picked it."""
    since_env_steps: int = 0
    """Env steps of the search when it took the lead."""

    @property
    def reliable(self) -> bool:
        """It reaches the threshold in at least five of six runs, over the seeds that picked it and fresh ones."""
        return self.settled and self.n >= 4 and self.reached >= 0.8 * self.n


class Ledger(BaseModel):
    """A whole search."""

    model_config = _MODEL

    schema_version: int = SCHEMA_VERSION
    id: str
    created: float
    target: str
    env_id: str
    algo: str
    outcome: SearchOutcome
    budget: int
    """Env steps that everything together may take, confirmations included."""
    alpha: float
    threshold: float | None
    start: dict[str, Any]
    """The config to begin with, with the length of a run that the search uses."""
    run_env_steps: int
    own_group: str | None = None
    """A group of the start's runs that existed before: its diagnosis costs nothing."""
    use_optuna: bool = False
    recorded: bool = True
    """Whether the outcomes that ship with the package are used."""
    rounds: tuple[Round, ...] = ()
    best: Best | None = None
    state: State = "running"
    verdict: str = ""
    """adopted, not proven, nothing better found."""
    notes: tuple[str, ...] = ()
    not_afforded: tuple[str, ...] = ()
    """What the budget did not pay for, and what it would have cost."""

    def load_start(self) -> Config:
        """The config to begin with."""
        return from_record(self.start)

    @property
    def spent(self) -> int:
        """Env steps so far."""
        return sum(each.used_env_steps for each in self.rounds)

    @property
    def left(self) -> int:
        return self.budget - self.spent

    @property
    def spent_alpha(self) -> float:
        return sum(each.alpha for each in self.rounds if each.kind == "confirm")

    @property
    def tried(self) -> list[Entry]:
        """Every config that was trained, in order."""
        return [entry for each in self.rounds for entry in each.entries]

    @property
    def confirmations(self) -> list[Round]:
        return [each for each in self.rounds if each.kind == "confirm"]
