"""What training adds to the task's reward, and takes off it: a bonus for what is new, a limit on what episodes may cost."""

from typing import Annotated, Literal

from pydantic import Field

from rlclinic.config.schema import Real, Shape, Strict

__all__ = ["BonusConfig", "CostConfig"]


class BonusConfig(Strict):
    """A reward of our own for states that were rarely met. Evaluations and reported returns are by the task's reward alone."""

    kind: Literal["count", "episodic_count", "rnd", "noveld", "icm"]
    """What counts as new. `count`: 1 / sqrt(visits) of the state, for few or discrete observations. `episodic_count`: the same within an
    episode, for levels that are another one every time. `rnd`: the error of a network that learns to predict a random one
    (arXiv:1810.12894), for many numbers. `noveld`: where that error rises, at the first visit in an episode. `icm`: how badly
    the next state was predicted, in features that matter to actions (arXiv:1705.05363)."""
    coef: Real = Field(0.05, ge=0)
    """What the bonus is worth beside the reward. Too much and the task is forgotten: 0.5 broke tasks that need no bonus. Usual: 0.01-0.5
    where rewards are about 1."""
    gamma: Real = Field(0.99, ge=0, lt=1)
    """Discount of the bonus, where it has a value head of its own: how far ahead the agent goes for something new. Usual: 0.99."""
    episodic: bool = False
    """Whether the bonus' return ends with the episode. false: what is new may lie in the next one, so that dying does not cost it."""
    value_head: Literal["own", "shared"] | None = None
    """`own`: values of its own for the bonus, so that the task's value stays that of the task: a table over the cells that are counted,
    or a critic. `shared`: the bonus is added to the reward. none: own where there is a critic, shared for dqn."""
    until: Literal["first_success"] | None = None
    """`first_success`: nothing is paid any more once an episode has succeeded (without a success flag: once a reward was above 0).
    none: until the end; what is known pays less and less anyway."""
    cells: Shape = Field(16, ge=2, le=1024)
    """Counts: into how many cells each bounded component of an observation is divided; yes-or-no components have two; of images, which are
    seen as 12 x 12 pixels: the shades of grey. Usual: 8-64; 4-8 for images."""
    buckets: Shape = Field(65_536, ge=16, le=1 << 24)
    """Counts: places of the table that states are hashed into; one-hot states have one each. Usual: ten times the states."""
    learning_rate: Annotated[Real, Field(gt=0)] = 1e-3
    """Of the networks that tell what is new, and of the bonus' own critic. Higher forgets faster what was new. Usual: 1e-4 to 1e-3."""


class CostConfig(Strict):
    """Keeps the mean cost of an episode (`info["cost"]`, or the sum of `info["costs"]`) at or below a limit, by a multiplier that rises
    as long as it is above: PPO-Lagrangian (Ray, Achiam & Amodei 2019), for any on-policy learner."""

    limit: Annotated[Real, Field(ge=0)]
    """What an episode may cost on average."""
    learning_rate: Annotated[Real, Field(gt=0)] = 0.05
    """By how much the multiplier moves per unit of cost above or below the limit, once per rollout. Higher reacts faster and swings.
    Usual: 0.01-0.1 where episodes cost about 1-50."""
    multiplier: Annotated[Real, Field(ge=0)] = 0.0
    """What a unit of cost is worth at first, in units of the reward. Usual: 0-1."""
    multiplier_max: Annotated[Real, Field(gt=0)] = 100.0
    """The most that it may become. At 100 the reward hardly counts any more. Usual: 10-100."""
