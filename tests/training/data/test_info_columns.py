"""Terms of the reward and numbers of `info` as columns: counted by hand, by workers, across resumes."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch

import rlclinic
from rlclinic import metrics
from rlclinic.config import EnvConfig, files
from rlclinic.errors import ConfigError
from rlclinic.runs.record import Run
from rlclinic.training import envs, rows
from rlclinic.training.data import info_columns
from tests.training.envs.toys import Talking, Walk

NAMES: Any = {"log_terms": ("goal", "cost"), "log_info": ("taken", "missing")}


class Silent(Walk):
    """Draws from the generator that all share, and says nothing."""

    def step(self, action: Any) -> Any:
        random.random()
        return super().step(action)


def make(members: int = 2, workers: int = 0, **fields: Any) -> Any:
    return envs.make(EnvConfig(id="own", n_envs=2, workers=workers, **{**NAMES, **fields}), list(range(members)), 2, factory=Talking)


def play(env: Any, steps: int, members: Sequence[int] = (0, 1)) -> dict[str, list[float | None]]:
    for _ in range(steps):
        env.step(torch.zeros(len(members), 2, dtype=torch.int64))
    cells: dict[str, list[float | None]] = env.info.cells()
    return cells


@pytest.mark.parametrize("workers", [0, 1])
def test_terms_are_added_up_and_numbers_averaged_over_an_episode(workers: int) -> None:
    env = make(workers=workers)
    try:
        env.reset()
        assert {cell for cells in play(env, 2).values() for cell in cells} == {None}  # no episode has ended yet
        cells = play(env, 2)
    finally:
        env.close()
    assert cells == {
        "train/terms/goal/return": [4.0, 4.0],
        "train/terms/cost/return": [-3.0, -3.0],
        "train/terms/goal/share": [pytest.approx(4 / 7)] * 2,
        "train/terms/cost/share": [pytest.approx(3 / 7)] * 2,
        "train/info/taken/mean": [2.0, 2.0],
        "train/info/missing/mean": [None, None],
        "train/info/taken/last": [3.0, 3.0],
        "train/info/missing/last": [None, None],
    }
    assert all(metrics.find(name) is not None for name in cells)


def test_what_episodes_said_goes_on_after_a_resume_and_an_older_checkpoint_lacks_it() -> None:
    env = make()
    env.reset()
    before = play(env, 4)
    saved = env.state()
    again = make()
    again.load_state(saved)
    assert again.info.cells() == before
    bare = make()
    bare.load_state({"resumes": saved["resumes"]})
    assert {cell for cells in bare.info.cells().values() for cell in cells} == {None}


def test_under_stacked_frames_and_scaled_rewards_it_is_still_there() -> None:
    env = make(frame_stack=2, reward_scale=2.0)
    env.reset()
    assert play(env, 3)["train/terms/goal/return"] == [4.0, 4.0]


def test_vectors_of_the_users_own_are_counted_too() -> None:
    for mode in gym.vector.AutoresetMode:
        if mode is gym.vector.AutoresetMode.DISABLED:
            continue
        env: Any = envs.make(
            EnvConfig(id="own", n_envs=2, **NAMES),
            [0],
            2,
            factory=lambda num_envs, mode=mode: gym.vector.SyncVectorEnv([Talking] * num_envs, autoreset_mode=mode),
        )
        env.reset()
        cells = play(env, 8, [0])
        assert cells["train/terms/goal/return"] == [4.0]
        assert cells["train/terms/cost/return"] == [-3.0]
        assert cells["train/info/taken/last"] == [3.0]


def test_terms_are_found_by_a_look_that_changes_no_generator() -> None:
    assert info_columns.find_terms(EnvConfig(id="own"), Talking) == ("goal", "cost")
    before = random.getstate()
    assert info_columns.find_terms(EnvConfig(id="own"), Silent) == ()
    assert random.getstate() == before
    assert info_columns.find_terms(EnvConfig(id="CartPole-v1"), None) == ()  # not looked at: it is nobody's own


def test_the_table_has_the_columns_and_settings_without_them_are_as_before(tmp_path: Path) -> None:
    plain = files.load("CartPole-v1:ppo").config
    assert "log_info" not in plain.env.model_dump()
    assert "log_terms" not in plain.env.model_dump()
    named = files.load("CartPole-v1:ppo", ["env.log_info=[progress]"]).config
    assert rows.columns(named) == [*rows.columns(plain), "train/info/progress/mean", "train/info/progress/last"]
    with pytest.raises(ConfigError, match="log_info"):
        files.load("CartPole-v1:ppo", ["env.log_info=['a,b']"])


def test_training_an_own_environment_logs_its_terms_by_itself(tmp_path: Path) -> None:
    small = ["env.n_envs=2", "algo.n_steps=16", "algo.batch_size=32", "run.max_env_steps=320", "run.eval_episodes=0"]
    group = rlclinic.train("tests.training.envs.toys:Talking:ppo", seeds=2, overrides=small, runs_dir=tmp_path)
    run = Run(group.runs[1].path)
    assert run.record["reward_terms"] == ["goal", "cost"]
    assert run.metrics["train/terms/goal/return"][-1] == 4.0
    assert "log_terms" not in run.record["env"]
