"""Recorded data that a run learns from."""

from typing import Annotated, Literal

from pydantic import Field

from rlclinic.config.schema import Kind, Real, Shape, Strict

__all__ = ["DataConfig"]


class DataConfig(Strict):
    """Which recorded transitions are learned from."""

    path: str = Field("", max_length=4_000)
    """A dataset: a folder of rlclinic, Minari or LeRobot; HDF5 of D4RL or d3rlpy; .npz or .csv. `--data` sets it."""
    best: Real = Field(1.0, gt=0, le=1)
    """Share of the steps that are kept, those of the episodes with the highest returns. Below 1 it is filtered imitation: good where the
    best episodes are many and much better than the mean, starving where they are few. Usual: 1, or 0.1-0.5 for bc."""
    holdout: Real = Field(0.05, ge=0, lt=1)
    """Share of the episodes that are not learned from: what is learned is measured on them now and then. Whole episodes, the same ones in
    every run; none of fewer than ten. Usual: 0.05-0.1."""
    # Left out where nobody asked for them: settings from before them stay the same, letter by letter.
    reward_scale: Annotated[Literal["deviation", "returns"], Kind.SHAPE] = Field("deviation", exclude_if=lambda value: value == "deviation")
    """What env.normalize_reward divides rewards by. `deviation`: that of the discounted return, as in the environment. `returns`: a
    thousandth of the range of the episodes' returns, as IQL's authors have it (arXiv:2110.06169); algo.beta=3 then means the same in
    every task. No reward becomes larger than env.clip_reward by it. Usual: returns for iql."""
    then_online: Annotated[bool, Kind.SHAPE] = Field(False, exclude_if=lambda value: value is False)
    """Go on in the environment after offline_steps: from there on a step is an env step, and batches are drawn from the recorded data and
    from what is collected. `--then-online` sets it."""
    offline_steps: Annotated[Shape, Field(ge=0)] | None = Field(None, exclude_if=lambda value: value is None)
    """then_online: gradient steps on the recorded data alone, before the first env step; both count in run.max_env_steps. None: 10,000, and
    0 for rlpd, which begins in the environment."""
    recorded_share: Real = Field(0.5, ge=0, lt=1, exclude_if=lambda value: value == 0.5)
    """then_online: the share of each batch that is recorded. More remembers better what the data knew, less follows what is new. Usual:
    0.5; 0.25-0.75."""
    updates_per_step: Annotated[Shape, Field(ge=1)] | None = Field(None, exclude_if=lambda value: value is None)
    """then_online: gradient steps after each env step. More learns more from each of them and costs in proportion. None: 1, and 4 for
    rlpd. Usual: 1-20."""
