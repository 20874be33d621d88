"""The settings of tabular Q-learning: a table in place of a network, learned from each step once."""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from rlclinic.config.schedule import Number, Schedule
from rlclinic.config.schema import Kind, Real, Shape, Strict
from rlclinic.config.shared_settings import Gamma

__all__ = ["IN_UNITS_OF_THE_RETURN", "QLearningConfig"]

IN_UNITS_OF_THE_RETURN: Final = ("q_learning",)
"""Algorithms whose settings (initial_value, ucb_constant) are in units of the return, and which need no gradient of a certain size. They
do not take over a scaling of rewards that was chosen for another algorithm: before the first success it makes tiny costs as large as
any reward, and the value at which every action was to look worth trying is soon below none."""


class QLearningConfig(Strict):
    """Q-learning in a table (Watkins & Dayan 1992), for environments whose observation is the number of a state."""

    loop: ClassVar[str] = "off_policy"
    # A table learns from each step when it happens, and from all that have just happened: what other learners may choose is fixed.
    buffer_size: ClassVar[int] = 1
    learning_starts: ClassVar[int] = 0
    gradient_steps: ClassVar[int] = 1
    batch_size: ClassVar[int] = 0
    n_step: ClassVar[int] = 1
    optimize_memory_usage: ClassVar[bool] = False
    optimizer: ClassVar[str] = "sgd"
    adam_eps: ClassVar[float] = 1e-8
    weight_decay: ClassVar[float] = 0.0
    momentum: ClassVar[float] = 0.0
    rms_decay: ClassVar[float] = 0.99

    name: Literal["q_learning"] = "q_learning"
    """The algorithm: q_learning."""
    gamma: Gamma = 0.99
    learning_rate: Number = Field(Schedule(start=0.5, end=0.05, schedule="linear"), gt=0, le=1)
    """How far a value moves towards what a step says: 1 forgets what it was. Where steps are left to chance it has to fall, or values
    keep jumping. Usual: 0.1-1, falling."""
    train_freq: Shape = Field(1, ge=1)
    """Steps of every env between updates. They are learned from the last to the first, so that what an episode's end was worth is known at
    its beginning at once; until then the table stands still. Usual: 1; an episode's length where the reward comes at its end."""
    initial_value: Real = 0.0
    """What every action is believed to be worth at first. More than it can be makes the agent try everything once. Usual: 0, or a
    little more than the largest return."""
    exploration: Annotated[Literal["epsilon", "ucb", "optimistic"], Kind.SHAPE] = "epsilon"
    """`epsilon` takes a random action now and then; `ucb` the one that may still be best, by how often each was tried; `optimistic` the
    same, and also learns towards what may still be best (arXiv:2002.12174): what was never tried far ahead is then worth going there."""
    exploration_fraction: Number = Field(0.5, ge=0, le=1)
    """Share of the budget over which epsilon falls from exploration_initial_eps to exploration_final_eps. Usual: 0.3-0.8."""
    exploration_initial_eps: Number = Field(1.0, ge=0, le=1)
    """Epsilon at the start: the share of random actions. Usual: 1."""
    exploration_final_eps: Number = Field(0.05, ge=0, le=1)
    """Epsilon after exploration_fraction of the budget. Usual: 0.01-0.1."""
    exploration_eps: Annotated[Annotated[Number, Field(ge=0, le=1)] | None, Kind.NUMBER] = None
    """Epsilon as a schedule of your own, in place of the three settings above; none: they decide. Usual: none."""
    ucb_constant: Number = Field(1.0, ge=0)
    """`ucb` and `optimistic`: how much it counts that an action was tried rarely, in units of the return. Usual: 0.1-2; for
    `optimistic` the largest return."""
