"""Table-driven environments give exactly what Gymnasium's tables and info dictionaries say."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlclinic.config import EnvConfig
from rlclinic.errors import ConfigError
from rlclinic.training import envs
from rlclinic.training.envs import native
from rlclinic.training.envs.native import tables

TABLES: list[tuple[str, str, dict[str, Any]]] = [
    ("FrozenLake-v1", "FrozenLake-v1", {}),
    ("FrozenLake-v1", "FrozenLake-v1", {"is_slippery": False}),
    ("FrozenLake-v1", "FrozenLake-v1", {"desc": ["SFF", "FHF", "FFG"], "success_rate": 0.8, "reward_schedule": [10, -5, -1]}),
    ("FrozenLake8x8-v1", "FrozenLake8x8-v1", {}),
    ("Taxi-v3", "Taxi-v4", {}),
    ("Taxi-v4", "Taxi-v4", {"is_rainy": True}),
    ("CliffWalking-v1", "CliffWalking-v1", {}),
    ("CliffWalkingSlippery-v1", "CliffWalkingSlippery-v1", {}),
]


def ids(case: Any) -> str:
    return f"{case[0]}-{case[2]}"


@pytest.mark.parametrize("case", TABLES, ids=ids)
def test_every_transition_of_the_table_is_reached_by_its_share_of_chances(case: Any) -> None:
    env_id, registered, kwargs = case
    dynamics = native.CATALOG[env_id].build("cpu", **kwargs)
    env: Any = gym.make(registered, disable_env_checker=True, **kwargs).unwrapped
    # Chances evenly over [0, 1], both ends too: each outcome gets its probability's share of them.
    chances = torch.linspace(0, 1, 300)
    for state in range(0, env.observation_space.n, 7):
        for action in range(env.action_space.n):
            rows = torch.full((300,), state), torch.full((300,), action)
            reached, reward, ends = dynamics.advance(*rows, chances if dynamics.chance else None)
            ours: dict[Any, float] = {}
            for outcome in zip(reached.tolist(), reward.tolist(), ends.tolist(), strict=True):
                ours[outcome] = ours.get(outcome, 0.0) + 1 / 300
            theirs: dict[Any, float] = {}
            for probability, s, r, t in env.P[state][action]:
                theirs[int(s), float(r), bool(t)] = theirs.get((int(s), float(r), bool(t)), 0.0) + probability
            assert ours.keys() == {key for key, share in theirs.items() if share > 0}
            assert all(abs(ours[key] - theirs[key]) < 0.01 for key in ours)


@pytest.mark.parametrize("case", TABLES, ids=ids)
def test_episodes_start_where_gymnasiums_may_start(case: Any) -> None:
    env_id, registered, kwargs = case
    dynamics = native.CATALOG[env_id].build("cpu", **kwargs)
    env: Any = gym.make(registered, disable_env_checker=True, **kwargs).unwrapped
    starts = dynamics.start(torch.linspace(0, 1, 6001).unsqueeze(-1))  # both ends of the interval too
    share = np.bincount(starts.numpy(), minlength=env.observation_space.n) / 6001
    np.testing.assert_allclose(share, env.initial_state_distrib, atol=2 / 6000)
    assert not share[np.asarray(env.initial_state_distrib) == 0].any()


def test_observations_are_one_hot() -> None:
    env = envs.make(EnvConfig(id="Taxi-v3"), [0], 50)
    obs = env.reset()
    assert env.obs_shape == (500,)
    assert torch.equal(obs.sum(-1), torch.ones(1, 50))
    assert ((obs == 0) | (obs == 1)).all()


def test_a_deterministic_lake_is_walked_to_its_goal_and_reports_success() -> None:
    env = envs.make(EnvConfig(id="FrozenLake-v1", kwargs={"is_slippery": False}), [0], 1)
    rewards, successes, ends = [], [], []
    for action in (2, 2, 1, 1, 1, 2):  # right, right, down, down, down, right
        step = env.step(torch.tensor([[action]]))
        rewards.append(step.reward.item())
        assert step.success is not None
        successes.append(step.success.item())
        ends.append(step.terminated.item())
    assert rewards == [0, 0, 0, 0, 0, 1]
    assert ends == [False] * 5 + [True]
    assert successes[-1] == 1.0
    assert np.isnan(successes[:-1]).all()
    assert torch.equal(step.obs[0, 0], torch.eye(16)[0])
    assert torch.equal(step.next_obs[0, 0], torch.eye(16)[15])


def test_falling_into_a_hole_and_running_out_of_time_are_no_success() -> None:
    env = envs.make(EnvConfig(id="FrozenLake-v1", kwargs={"is_slippery": False}), [0], 1)
    env.step(torch.tensor([[2]]))
    hole = env.step(torch.tensor([[1]]))
    assert (hole.terminated.item(), hole.success.item()) == (True, 0.0)  # type: ignore[union-attr]
    env = envs.make(EnvConfig(id="FrozenLake-v1", max_episode_steps=1), [0], 1)
    late = env.step(torch.tensor([[0]]))
    assert (late.truncated.item(), late.success.item()) == (True, 0.0)  # type: ignore[union-attr]


def test_a_taxis_mask_is_gymnasiums_for_every_state() -> None:
    dynamics, env = tables.taxi(masked=True), gym.make("Taxi-v4", disable_env_checker=True).unwrapped
    masks = dynamics.mask(torch.arange(500))
    assert masks is not None
    theirs = np.array([env.action_mask(state) for state in range(500)], dtype=bool)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(masks.numpy(), theirs)


def test_the_mask_belongs_to_the_observation_to_act_on() -> None:
    env = envs.make(EnvConfig(id="Taxi-v3", action_mask=True, max_episode_steps=3), [0, 1], 8)
    masks = tables.taxi(masked=True)
    obs = env.reset()
    for _ in range(12):
        mask = masks.mask(obs.argmax(-1))
        assert mask is not None
        assert env.action_mask is not None
        assert torch.equal(env.action_mask, mask)
        step = env.step(torch.zeros((2, 8), dtype=torch.int64))
        obs = step.obs
        assert step.action_mask is env.action_mask


def test_an_action_mask_where_none_is_reported_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"(?s)CartPole-v1 reports no action mask.*--set env.action_mask=false"):
        envs.make(EnvConfig(id="CartPole-v1", action_mask=True), [0], 1)


def test_a_wrong_map_is_refused_with_the_arguments_that_are_understood() -> None:
    with pytest.raises(ConfigError, match=r"(?s)map_name.*5x5.*is_slippery"):
        envs.make(EnvConfig(id="FrozenLake-v1", kwargs={"map_name": "5x5"}), [0], 1)
