"""d3rlpy's ReplayBuffer files (version 2.1): one set of arrays an episode. The observation after the last action is not in them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rlclinic.datasets.episodes import Episode
from rlclinic.datasets.formats.source import Source, check_array, guess_action_space, guess_observation_space, open_hdf5
from rlclinic.errors import ConfigError

__all__ = ["knows", "open_source"]


def knows(path: Path) -> bool:
    """An HDF5 file with numbered arrays and how many there are."""
    if path.suffix not in (".h5", ".hdf5") or not path.is_file():
        return False
    with open_hdf5(path) as file:
        return "num_episodes" in file and "columns" in file


def open_source(path: Path) -> Source:
    """Its episodes; the last step of one that was cut by a limit is left out, since nobody knows what it led to."""
    with open_hdf5(path) as file:
        try:
            first = {name: np.asarray(check_array(path, file[f"{name}_0"])) for name in ("observations", "actions")}
            # Choices are known when all have been seen: the largest of them all is the last one.
            discrete = first["actions"].dtype.kind in "iu"
            actions = (
                np.concatenate([np.asarray(check_array(path, file[f"actions_{index}"])) for index in range(int(file["num_episodes"][()]))])
                if discrete
                else first["actions"]
            )
        except KeyError as error:
            raise ConfigError(f"{path} has no episode: {error}.\n  Dump the replay buffer again") from error
    source = Source(
        iter(()), guess_observation_space(first["observations"].shape[1:]), guess_action_space(actions), source=f"d3rlpy {path.name}"
    )
    source.episodes = _episodes(path, source)
    return source


def _episodes(path: Path, source: Source) -> Iterator[Episode]:
    dropped = 0
    with open_hdf5(path) as file:
        for index in range(int(file["num_episodes"][()])):
            columns: list[Any] = [np.asarray(check_array(path, file[f"{name}_{index}"])) for name in ("observations", "actions", "rewards")]
            observations, actions, rewards = columns
            rewards = rewards.reshape(len(rewards))
            if source.action_space.kind == "discrete":
                actions = actions.reshape(len(actions))
            if bool(np.asarray(file[f"terminated_{index}"])):
                yield Episode(np.concatenate([observations, observations[-1:]]), actions, rewards, True, False, final_known=False)
                continue
            dropped += 1
            if len(rewards) > 1:
                yield Episode(observations, actions[:-1], rewards[:-1], False, True)
    if dropped:
        source.notes.append(f"the last step of {dropped:,} truncated episodes is left out: the file does not say what it led to")
