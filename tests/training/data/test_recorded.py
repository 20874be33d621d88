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
from rlclinic.runs.store import Store
from rlclinic.training import assembly, envs
from rlclinic.training.__main__ import train_runs
from rlclinic.training.data import recorded
from rlclinic.training.maths import normalize
from tests.training.cohorts import Interrupted, interrupt_at, saved, train
from tests.training.pictures import Bright
from tests.training.recordings import bench, episodes, make_config


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


def of_rewards(path: Path, *rewards: list[float]) -> str:
    """Episodes with these rewards, that a limit cut."""
    draw = np.random.default_rng(0)
    made = [
        Episode(draw.normal(size=(len(each) + 1, 3)).astype(np.float32), np.zeros((len(each), 1), np.float32), np.array(each), False, True)
        for each in rewards
    ]
    folder.write(path, iter(made), Space("box", (3,)), Space("box", (1,), low=(-2.0,), high=(2.0,)))
    return str(path)


def test_rewards_are_divided_by_a_thousandth_of_the_range_of_returns_and_none_is_cut(tmp_path: Path) -> None:
    """Returns of 100 and 600: a reward becomes twice as large. Where the largest would pass 10, all are divided by more."""
    config = make_config("iql", env={"normalize_reward": True}, data={"holdout": 0.0})

    def scaled(data: str, reward: float) -> float:
        at = bench(config.model_copy(update={"data": DataConfig(path=data, holdout=0.0, reward_scale="returns")}))
        stats = at.data.return_moments(1, 10.0)
        assert stats is not None
        return float(normalize.rewards(stats, torch.full((1, 1, 1), reward), 10.0))

    assert scaled(of_rewards(tmp_path / "usual", [2.0] * 50, [4.0] * 150), 3.0) == pytest.approx(6.0)
    sparse = of_rewards(tmp_path / "sparse", [0.0, 0.0, 1.0], [0.0, 0.0, 0.0, -0.1])
    assert [scaled(sparse, reward) for reward in (1.0, -0.1)] == pytest.approx([10.0, -1.0], rel=1e-5)
    alike = bench(config.model_copy(update={"data": DataConfig(path=of_rewards(tmp_path / "alike", [1.0] * 5, [1.0] * 5), holdout=0.0)}))
    assert alike.data.return_moments(1, 10.0) is None


def test_what_is_learned_from_says_by_what_rewards_are_divided(tmp_path: Path) -> None:
    """Filtered episodes do not count; and what was divided by is the same behind a resume."""
    data = of_rewards(tmp_path / "data", *[[1.0] * (10 * (1 + index)) for index in range(10)], [50.0] * 5)
    run = {"max_env_steps": 200, "checkpoint_every_env_steps": 100}
    settings = {"path": data, "holdout": 0.0, "reward_scale": "returns"}
    config = make_config("iql", env={"normalize_reward": True}, data=settings, run=run)
    at = bench(config).data.return_moments(2, 100.0)
    assert at is not None
    assert at.var.flatten().tolist() == pytest.approx([0.5**2] * 2), "the largest reward decides: 50 of at most 100"
    filtered = make_config("iql", env={"normalize_reward": True}, data={**settings, "best": 0.5}, run=run)
    of_best = bench(filtered).data
    assert of_best.chosen is not None
    assert float(of_best.return_moments(1, 1e6).mean) > float(at.mean[0])  # type: ignore[union-attr]
    whole, cut = train(tmp_path / "whole", [config])[0], Store(tmp_path / "cut").create_group([config]).runs[0]
    with pytest.raises(Interrupted):
        train_runs([cut], callback=interrupt_at(100))
    train_runs([cut], resume=True)
    assert saved(cut) == saved(whole)
    usual = train(tmp_path / "usual", [config.model_copy(update={"data": DataConfig(path=data, holdout=0.0)})])[0]
    assert saved(usual) != saved(whole)
