"""Recorded data that a run learns from."""

from pydantic import Field

from rlclinic.config.schema import Real, Strict

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
