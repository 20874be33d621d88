"""The folder of arrays: written one episode after another, read without loading, never half there."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rlclinic.datasets import Episode, Space, Writer, folder
from rlclinic.errors import ConfigError
from tests.datasets.made import BOX, TORQUE, dataset, episode


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    data = dataset((5, 3, 7))
    again = folder.write(tmp_path / "d", iter(data), BOX, TORQUE, env_id="Walk-v0", source="a test", facts={"noise": 0.3})
    for name in ("observations", "actions", "rewards", "lengths", "terminated", "truncated"):
        np.testing.assert_array_equal(getattr(again, name), getattr(data, name))
    assert (again.env_id, again.source, again.facts) == ("Walk-v0", "a test", {"noise": 0.3})
    assert (again.observation_space, again.action_space) == (BOX, TORQUE)
    assert isinstance(again.observations, np.memmap)


def test_choices_stay_whole_numbers_and_bounds_may_be_infinite(tmp_path: Path) -> None:
    free = Space("box", (2,), low=(-np.inf, 0.0), high=(np.inf, 1.0))
    again = folder.write(tmp_path / "d", iter(dataset(discrete=True)), free, Space("discrete", n=3))
    assert again.actions.dtype == np.int64
    assert again.observation_space == free


def test_pictures_stay_bytes(tmp_path: Path) -> None:
    frames = Episode(np.zeros((4, 8, 8, 1), np.uint8), np.zeros(3, np.int64), np.zeros(3), True, False)
    again = folder.write(tmp_path / "d", [frames], Space("box", (8, 8, 1)), Space("discrete", n=2))
    assert again.observations.dtype == np.uint8


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    def interrupted() -> Iterator[Episode]:
        yield episode(4)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        folder.write(tmp_path / "d", interrupted(), BOX, TORQUE)
    assert list(tmp_path.iterdir()) == []


def test_data_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with pytest.raises(ConfigError, match="not overwritten"):
        Writer(tmp_path / "d", BOX, TORQUE)


def test_episodes_of_two_environments_are_refused(tmp_path: Path) -> None:
    other = Episode(np.zeros((4, 3)), np.zeros((3, 1)), np.zeros(3), False, True)
    with pytest.raises(ConfigError, match="two environments"):
        folder.write(tmp_path / "d", [episode(3), other], BOX, TORQUE)


@pytest.mark.parametrize("damage", ["cut", "missing", "json", "version", "empty", "endless", "words", "wide", "counts"])
def test_damage_is_said(tmp_path: Path, damage: str) -> None:
    folder.write(tmp_path / "d", iter(dataset()), BOX, TORQUE)
    about = tmp_path / "d" / "dataset.json"
    if damage == "cut":
        file = tmp_path / "d" / "rewards.npy"
        file.write_bytes(file.read_bytes()[:-4])
    elif damage == "missing":
        (tmp_path / "d" / "lengths.npy").unlink()
    elif damage == "json":
        about.write_text("{")
    elif damage == "version":
        about.write_text(json.dumps(json.loads(about.read_text()) | {"version": 99}))
    elif damage == "endless":
        np.save(tmp_path / "d" / "truncated.npy", np.zeros(3, bool))
    elif damage == "words":
        np.save(tmp_path / "d" / "observations.npy", np.load(tmp_path / "d" / "observations.npy").astype(str))
    elif damage == "wide":
        np.save(tmp_path / "d" / "observations.npy", np.repeat(np.load(tmp_path / "d" / "observations.npy"), 2, axis=1))
    elif damage == "counts":
        np.save(tmp_path / "d" / "terminated.npy", np.full(3, 7))
    else:
        np.save(tmp_path / "d" / "lengths.npy", np.array([0, 8, 7]))
    with pytest.raises(ConfigError, match=r"again|Upgrade"):
        folder.read(tmp_path / "d")


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    folder.write(tmp_path / "d", iter(dataset()), BOX, TORQUE)
    np.save(tmp_path / "d" / "rewards.npy", np.array([print], dtype=object), allow_pickle=True)
    with pytest.raises(ConfigError, match="not a whole dataset"):
        folder.read(tmp_path / "d")
