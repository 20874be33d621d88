"""Recorded transitions: read from the formats in use, kept as episodes in memory-mapped arrays, examined. Free of torch.

    data = datasets.read("pendulum/medium-v0")      # a folder of ours or of Minari, HDF5 of D4RL or d3rlpy, .npz, .csv, LeRobot
    batch = data.transitions(np.arange(256))

An episode of T steps has T + 1 observations, so that what an action led to is never made up; and it ends in one of two ways:
terminated (there is no future) or truncated (its future has a value).
"""

from rlclinic.datasets.episodes import Dataset, Episode, Space, Transitions
from rlclinic.datasets.folder import Writer
from rlclinic.datasets.formats import read

__all__ = ["Dataset", "Episode", "Space", "Transitions", "Writer", "read"]
