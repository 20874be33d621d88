"""The random baseline: what a policy that knows nothing gets, measured without touching anything else."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from rlclinic.config import EnvConfig
from rlclinic.runs import history
from rlclinic.training import assembly, envs
from rlclinic.training.__main__ import train_runs
from rlclinic.training.sentinels import random_policy
from tests.training.cohorts import TASKS, assert_same_run, make_config, table, train


class Fragile(gymnasium.Env[np.ndarray, int]):
    """Breaks in the first step."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        return np.zeros(2, np.float32), {}

    def step(self, action: int) -> Any:
        raise RuntimeError("broken")


def test_cart_pole_falls_as_fast_as_gymnasiums_does_at_random() -> None:
    found = random_policy.measure(make_config(), native=True)
    env, lengths = gymnasium.make("CartPole-v1"), []
    env.action_space.seed(0)
    for seed in range(200):
        env.reset(seed=seed)
        steps, ended = 0, False
        while not ended:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            steps, ended = steps + 1, terminated or truncated
        lengths.append(steps)
    error = np.std(lengths) / np.sqrt(random_policy.EPISODES)
    assert abs(found["random_length"] - np.mean(lengths)) < 3 * error
    assert found["random_return"] == found["random_length"]
    assert found["random_return_std"] > 0


@pytest.mark.parametrize(
    ("env_id", "at_least"), [("CartPole-v1", 400), ("MountainCar-v0", -130), ("Pendulum-v1", -300), ("CliffWalking-v1", -13)]
)
def test_a_policy_written_by_hand_is_played_beside_the_random_one(env_id: str, at_least: float) -> None:
    found = random_policy.measure(make_config(env={"id": env_id}), native=True)
    assert found["scripted_return"] >= at_least > found["random_return"]


def test_a_script_is_not_played_where_the_task_is_shown_in_another_way() -> None:
    assert "scripted_return" not in random_policy.measure(make_config(env={"frame_stack": 2}), native=True)


def test_an_episode_without_a_time_limit_counts_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_policy, "LONGEST", 30)
    found = random_policy.measure(make_config(env={"id": "CliffWalking-v1"}), native=True)
    assert found["random_length"] == 30


def test_an_environment_that_breaks_has_no_baseline_and_stops_nobody() -> None:
    assert random_policy.measure(make_config(), native=False, factory=Fragile) == {}


def test_gymnasiums_environments_are_left_alone_where_the_run_never_evaluates() -> None:
    config = make_config(run={"eval_episodes": 0})
    assert random_policy.measure(config, native=False, factory=Fragile) == {}
    assert random_policy.measure(config, native=True)["random_return"] > 0


@pytest.mark.parametrize("kind", ["discrete", "multi_discrete", "multi_binary"])
def test_every_choice_is_as_likely(kind: str) -> None:
    settings, factory = TASKS[kind]
    env = envs.make(EnvConfig(**settings), [0], 50, evaluation=True, factory=factory)
    taken = torch.cat([random_policy.uniform(env, None, t, torch.device("cpu")) for t in range(200)], 1).reshape(10_000, -1)
    for column, size in zip(taken.T, env.action.sizes if kind != "multi_binary" else [2] * taken.shape[1], strict=True):
        shares = torch.bincount(column, minlength=size) / 10_000
        assert shares.tolist() == pytest.approx([1 / size] * size, abs=0.03)


def test_a_forbidden_action_is_never_taken() -> None:
    env = envs.make(EnvConfig(id="Taxi-v3", action_mask=True), [0], 20, evaluation=True)
    env.reset()
    mask = env.action_mask
    assert mask is not None
    taken = [random_policy.uniform(env, mask, t, torch.device("cpu")) for t in range(50)]
    assert all(bool(mask.gather(-1, action.unsqueeze(-1)).all()) for action in taken)
    assert len(torch.cat(taken).unique()) > 3


def test_continuous_actions_fill_the_box_evenly() -> None:
    env = envs.make(EnvConfig(id="Pendulum-v1"), [0], 50, evaluation=True)
    taken = torch.cat([random_policy.uniform(env, None, t, torch.device("cpu")) for t in range(200)], 1).flatten()
    assert -2.0 <= taken.min() < -1.99
    assert 1.99 < taken.max() <= 2.0
    assert torch.histc(taken, 4, -2, 2).tolist() == pytest.approx([2500] * 4, rel=0.1)


# ── in a run ──


def test_every_row_and_the_record_say_it_and_every_seed_says_the_same(tmp_path: Path) -> None:
    runs = train(tmp_path, [make_config(seed=seed) for seed in range(2)])
    expected = random_policy.measure(make_config(), native=True)
    for run in runs:
        assert type(run)(run.path).record["random_policy"] == expected
        assert set(history.of_run(run)["train/sentinel/random_return"].values) == {expected["random_return"]}
        assert {row["train/sentinel/random_length"] for row in table(run)} == {str(expected["random_length"])}


def test_a_resume_repeats_what_was_measured_when_the_run_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run,) = train(tmp_path, [make_config()], callback=lambda row: False)
    monkeypatch.setattr(random_policy, "measure", lambda *_, **__: pytest.fail("measured again"))
    train_runs([type(run)(run.path)], resume=True)
    assert len({row["train/sentinel/random_return"] for row in table(run)}) == 1


def test_measuring_changes_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (measured,) = train(tmp_path / "measured", [make_config()])
    blank = dict.fromkeys(random_policy.NAMES, 0.0)
    monkeypatch.setattr(assembly.random_policy, "measure", lambda *_, **__: blank)
    (other,) = train(tmp_path / "other", [make_config()])
    columns = tuple(f"train/sentinel/{name}" for name in random_policy.NAMES)
    assert table(measured, without=columns) == table(other, without=columns)
    with pytest.raises(AssertionError):
        assert_same_run(measured, other)
