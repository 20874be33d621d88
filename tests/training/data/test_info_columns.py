"""Terms of the reward and numbers of `info` as columns: counted by hand, by workers, across resumes."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import rlclinic
from rlclinic import metrics
from rlclinic.config import EnvConfig, files
from rlclinic.errors import ConfigError
from rlclinic.rewards import Rewards
from rlclinic.runs.history import of_run
from rlclinic.runs.record import Run
from rlclinic.training import envs, rows
from rlclinic.training.data import info_columns
from tests.training.cohorts import make_config as config_of
from tests.training.cohorts import table, train
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
    # As the reported return, of which they are parts.
    assert play(env, 3)["train/terms/goal/return"] == [8.0, 8.0]


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


class Split(gym.Env[Any, Any]):
    """A reward that is the sum of three parts, in numbers that binary fractions do not hold."""

    observation_space = gym.spaces.Box(-9, 9, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, wrong: Any = None) -> None:
        self.wrong = wrong

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.taken = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.taken += 1
        terms: dict[str, Any] = {"goal": 0.1 * int(action), "price": -0.7, "noise": np.float32(self.np_random.normal())}
        reward = sum(float(value) for value in terms.values())
        if self.wrong is not None:
            terms["goal"] = self.wrong
        return np.full(2, self.taken % 5, np.float32), reward, False, self.taken >= 7, {"reward_terms": terms}


AROUND: list[dict[str, Any]] = [
    {},
    {"frame_stack": 3},
    {"normalize_obs": True, "normalize_reward": True, "clip_reward": 0.5},
    {"train_reward_scale": 3.0, "train_reward_shift": 1.0},
    {"time_in_obs": True, "max_episode_steps": 7},
    {"max_episode_steps": 4},
    {"workers": 1},
    {"term_weights": {"price": 2.0}, "log_terms": ("goal", "price", "noise")},
    {"wrappers": [{"id": "RecordEpisodeStatistics"}, {"id": "OrderEnforcing"}, {"id": "FlattenObservation"}]},
    {"wrappers": [{"id": "FrameStackObservation", "stack_size": 2}, {"id": "FlattenObservation"}, {"id": "RecordEpisodeStatistics"}]},
    {"wrappers": [{"id": "NormalizeObservation"}, {"id": "DtypeObservation", "dtype": "float32"}]},
    {"reward_scale": 2.0},
    {"clip_raw_reward": 0.5},
    # What these add or take away is a term of its own.
    {"wrappers": [{"id": "ClipReward", "min_reward": -0.5, "max_reward": 0.5}], "log_terms": ("goal", "price", "noise", "wrappers")},
    {"wrappers": [{"id": "NormalizeReward"}], "log_terms": ("goal", "price", "noise", "wrappers"), "reward_scale": 0.5},
    # The terms of all steps that it takes in one, not of the last.
    {"wrappers": [{"id": "MaxAndSkipObservation", "skip": 2}]},
]


@pytest.mark.parametrize("around", AROUND, ids=str)
def test_terms_sum_to_the_reported_return_whatever_is_around_the_environment(around: dict[str, Any], tmp_path: Path) -> None:
    config = config_of("ppo", {"id": "Split", "log_terms": ("goal", "price", "noise"), "max_episode_steps": None, **around})
    rows_ = table(train(tmp_path, [config], factory=Split)[0])
    told = [row for row in rows_ if row["train/roll/ep_rew_mean"]]
    assert told
    for row in told:
        # What a term pays is logged as the environment pays it; env.term_weights weigh what is learned from.
        weights = dict.fromkeys(config.env.log_terms or (), 1.0) | around.get("term_weights", {})
        parts = [weight * float(row[f"train/terms/{name}/return"]) for name, weight in weights.items()]
        assert sum(parts) == pytest.approx(float(row["train/roll/ep_rew_mean"]), abs=1e-5)


class Crashing(Walk):
    """Crashes in every second step."""

    def step(self, action: Any) -> Any:
        obs, reward, *ends, info = super().step(action)
        return obs, reward, *ends, {**info, "costs": {"crash": self.taken % 2}, "wheel.left": 3.0}


@pytest.mark.parametrize("workers", [0, 1])
def test_a_cost_is_logged_by_its_name_without_a_limit(workers: int) -> None:
    asked = ("costs.crash", "wheel.left", "costs.fire", "taken.at")
    env: Any = envs.make(EnvConfig(id="own", n_envs=2, workers=workers, log_info=asked), [0], 2, factory=Crashing)
    try:
        env.reset()
        cells = play(env, 5, [0])
    finally:
        env.close()
    assert cells["train/info/costs.crash/mean"] == [0.6]  # three of five steps
    assert cells["train/info/wheel.left/last"] == [3.0]
    assert cells["train/info/costs.fire/mean"] == cells["train/info/taken.at/mean"] == [None]


class Shaped(Walk):
    """A Walk with a potential that is discounted by 0.9."""

    def __init__(self) -> None:
        super().__init__()
        self.rewards = Rewards(0.9, {"goal": 1.0}, {"near": lambda place: float(place)})

    def reset(self, **given: Any) -> Any:
        self.rewards.reset(0)
        return super().reset(**given)

    def step(self, action: Any) -> Any:
        obs, _, *ends, info = super().step(action)
        reward, said = self.rewards.step({"goal": 1.0}, obs[0], ends[0])
        return obs, reward, *ends, {**info, **said}


@pytest.mark.parametrize(
    ("gamma", "more"), [(0.9, {}), (0.99, {}), (0.99, {"workers": 1, "term_weights": {"goal": 2.0}}), (0.99, {"frame_stack": 3})]
)
def test_potentials_of_another_discount_than_the_learners_are_said_and_recorded(gamma: float, more: dict[str, Any], tmp_path: Path) -> None:
    algo = {"name": "ppo", "n_steps": 16, "batch_size": 32, "n_epochs": 1, "gamma": gamma}
    env = {"id": "Shaped", "n_envs": 2, **more}
    given = {"name": "Shaped", "env": env, "algo": algo, "run": {"max_env_steps": 64}}
    run = rlclinic.train(given, env=Shaped, runs_dir=tmp_path).runs[0]
    said = "potentials are discounted by 0.9, the learner discounts by 0.99" in (run.path / "run.log").read_text()
    assert said == (gamma != 0.9)
    settings = of_run(run).settings
    assert (settings["about.potential_gamma"], settings["about.potentials"]) == (0.9, ["near"])


def test_what_wrappers_pay_is_found_as_a_term_of_its_own_where_they_pay_anything() -> None:
    def terms(wrapper: str, **more: Any) -> tuple[str, ...]:
        return info_columns.find_terms(EnvConfig(id="own", wrappers=[{"id": wrapper, **more}]), Split)  # type: ignore[list-item]

    assert terms("ClipReward", min_reward=-1e9) == ("goal", "price", "noise", "wrappers")  # it may cut something later
    assert terms("NormalizeReward") == ("goal", "price", "noise", "wrappers")
    assert terms("MaxAndSkipObservation", skip=2) == ("goal", "price", "noise")


@pytest.mark.parametrize(("wrong", "words"), [(np.zeros(2), r"goal is of shape \(2,\)"), ([1.0, 2.0, 3.0], r"goal is of shape \(3,\)")])
def test_a_term_that_is_several_numbers_is_refused_before_anything_is_trained(wrong: Any, words: str) -> None:
    class Wrong(Split):
        def __init__(self) -> None:
            super().__init__(wrong)

    with pytest.raises(ConfigError, match=words):
        info_columns.find_terms(EnvConfig(id="own"), Wrong)


def test_a_term_in_an_array_of_one_number_is_that_number() -> None:
    class One(Split):
        def __init__(self) -> None:
            super().__init__(np.array([0.5]))

    assert info_columns.find_terms(EnvConfig(id="own"), One) == ("goal", "price", "noise")
