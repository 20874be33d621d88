"""Whether recorded data fits an environment: choices however they were stored, and nothing that the environment does not take."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.wrappers import FlattenObservation

from rlclinic.config import Config, DataConfig, load
from rlclinic.datasets import Episode, Space, folder
from rlclinic.errors import ConfigError
from rlclinic.training import assembly, envs
from rlclinic.training.data import recorded
from tests.training.pictures import Bright
from tests.training.recordings import episodes


def write(path: Path, space: Space, **change: Any) -> str:
    """Data of CartPole with its actions as `change` makes them."""
    made = [replace(each, actions=change["actions"](each.actions)) for each in episodes("discrete")]
    folder.write(path, made, Space("box", (4,)), space)
    return str(path)


def learn_from(path: str) -> recorded.Recorded:
    config = load("CartPole-v1:bc", [f"data.path={path}"]).config
    env = envs.make(config.env, [0], 1)
    try:
        return recorded.load(config, env, torch.device("cpu"))
    finally:
        env.close()


@pytest.mark.parametrize("shape", [(), (1,)])
def test_choices_stored_as_floating_point_numbers_are_choices(tmp_path: Path, shape: tuple[int, ...]) -> None:
    stored = write(tmp_path / "d", Space("box", shape or (1,)), actions=lambda found: found.reshape(-1, *shape).astype(np.float32))
    actions = learn_from(stored).actions
    assert (actions.dtype, actions.shape) == (torch.int64, (198,))
    assert actions.unique().tolist() == [0, 1]


def test_choices_that_nobody_took_are_not_missed_where_nobody_said_how_many_there_are(tmp_path: Path) -> None:
    guessed = write(tmp_path / "guessed", Space("discrete", n=1, guessed=True), actions=np.zeros_like)
    assert folder.read(tmp_path / "guessed").action_space.guessed
    assert learn_from(guessed).actions.unique().tolist() == [0]
    said = write(tmp_path / "said", Space("discrete", n=1), actions=np.zeros_like)
    with pytest.raises(ConfigError, match="1 choices, and CartPole-v1 takes 2"):
        learn_from(said)


@pytest.mark.parametrize("wrong", [0.5, 2.0, -1.0])
def test_numbers_that_are_no_choice_of_the_environment_are_refused(tmp_path: Path, wrong: float) -> None:
    stored = write(tmp_path / "d", Space("box", (1,)), actions=lambda found: np.where(found[:, None] > 0, wrong, 0.0).astype(np.float32))
    with pytest.raises(ConfigError, match="1 numbers, and CartPole-v1 takes 2 choices"):
        learn_from(stored)


def test_choices_that_were_changed_on_disk_are_refused(tmp_path: Path) -> None:
    stored = write(tmp_path / "d", Space("discrete", n=2), actions=np.asarray)
    actions = np.load(tmp_path / "d" / "actions.npy")
    actions[5] = 7
    np.save(tmp_path / "d" / "actions.npy", actions)
    with pytest.raises(ConfigError, match="go from 0 to 7, and CartPole-v1 has the choices 0 to 1"):
        learn_from(stored)


PIXELS = {"env": {"id": "Bright", "n_envs": 1, "kwargs": {"size": 12, "cell": 2, "layout": "dict"}}, "algo": {"name": "bc"}}


def test_a_picture_with_numbers_beside_it_is_no_vector_to_learn_from() -> None:
    config = Config.model_validate(PIXELS | {"data": {"path": "somewhere"}})
    env = envs.make(config.env, [0], 1, factory=Bright)
    with pytest.raises(ConfigError, match=r"(?s)a picture with numbers beside it; bc here learns from vectors.*FlattenObservation"):
        assembly.plan_for(config, env)


def test_pictures_are_learned_from_where_the_environment_flattens_its_own(tmp_path: Path) -> None:
    config = Config.model_validate({**PIXELS, "env": {"id": "Bright", "n_envs": 1, "wrappers": [{"id": "FlattenObservation"}]}})
    env = envs.make(config.env, [0], 1, factory=lambda: FlattenObservation(Bright(12, "hwc", 2)))
    pictures = np.random.default_rng(0).integers(0, 255, (6, 12, 12, 1), dtype=np.uint8)
    made = folder.write(
        tmp_path / "d",
        [Episode(pictures, np.array([0, 1, 0, 1, 1]), np.zeros(5), True, False)],
        Space("box", (12, 12, 1)),
        Space("discrete", n=2),
    )
    recorded.check_fit(made, env, "Bright")
    kept = recorded.load(config.model_copy(update={"data": DataConfig(path=str(tmp_path / "d"))}), env, torch.device("cpu"))
    assert torch.equal(kept.observations[2], torch.from_numpy(pictures[2].ravel()))
