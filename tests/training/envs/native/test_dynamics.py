"""Every native environment is held to Gymnasium's own, one step at a time from random states."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlclinic.training.envs import native

# CartPole-v0 is there to be compared with; Gymnasium would rather have v1.
pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning")

ROWS = 1500
CLASSIC = ("CartPole-v0", "CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1")
KWARGS: list[tuple[str, dict[str, Any]]] = [
    *((env_id, {}) for env_id in CLASSIC),
    ("CartPole-v1", {"sutton_barto_reward": True}),
    ("MountainCar-v0", {"goal_velocity": 0.03}),
    ("MountainCarContinuous-v0", {"goal_velocity": 0.03}),
    ("Pendulum-v1", {"g": 9.81}),
]


def random_states(env_id: str, rng: np.random.Generator) -> np.ndarray:
    """States all over the space and beyond the ends of an episode, float32."""
    high = {
        "CartPole": [2.5, 3.0, 0.25, 3.0],
        "Acrobot": [np.pi, np.pi, 4 * np.pi, 9 * np.pi],
        "Pendulum": [np.pi, 8.0],
    }
    name = env_id.split("-")[0]
    if name.startswith("MountainCar"):
        return rng.uniform([-1.2, -0.07], [0.6, 0.07], (ROWS, 2)).astype(np.float32)
    return (rng.uniform(-1, 1, (ROWS, len(high[name]))) * high[name]).astype(np.float32)


@pytest.fixture(scope="module", params=KWARGS, ids=lambda param: f"{param[0]}-{param[1]}")
def pair(request: pytest.FixtureRequest) -> Any:
    """Our step and Gymnasium's, from the same states with the same actions; box actions reach beyond the bounds."""
    env_id, kwargs = request.param
    rng = np.random.default_rng(0)
    dynamics = native.CATALOG[env_id].build("cpu", **kwargs)
    states = random_states(env_id, rng)
    if dynamics.action.kind == "discrete":
        actions: Any = rng.integers(0, dynamics.action.sizes[0], ROWS)
    else:
        actions = rng.normal(scale=1.5 * dynamics.action.high, size=(ROWS, 1)).astype(np.float32)
    state, reward, terminated = dynamics.advance(torch.tensor(states)[None], torch.tensor(actions)[None], None)
    ours = dynamics.observe(state)[0].numpy(), reward[0].numpy(), terminated[0].numpy()
    return ours, theirs(env_id, kwargs, states, actions, dynamics), dynamics


def theirs(env_id: str, kwargs: Any, states: np.ndarray, actions: np.ndarray, dynamics: Any) -> Any:
    env: Any = gym.make(env_id, disable_env_checker=True, **kwargs).unwrapped
    env.reset(seed=0)
    rows = []
    for state, action in zip(states, actions, strict=True):
        env.state = state.astype(np.float64)
        env.steps_beyond_terminated = None
        act = action if dynamics.action.low is None else np.clip(action, dynamics.action.low, dynamics.action.high)
        obs, reward, terminated, _, _ = env.step(act)
        rows.append((obs, reward, terminated))
    return tuple(np.array(column) for column in zip(*rows, strict=True))


def test_observations_after_one_step_equal_gymnasiums(pair: Any) -> None:
    (ours, _, _), (theirs, _, _), _ = pair
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


def test_rewards_equal_gymnasiums(pair: Any) -> None:
    (_, ours, _), (_, theirs, _), _ = pair
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


def test_terminations_equal_gymnasiums_and_both_kinds_occur(pair: Any) -> None:
    (_, _, ours), (_, _, theirs), dynamics = pair
    np.testing.assert_array_equal(ours, theirs)
    if dynamics.obs_shape != (3,):  # Pendulum never terminates
        assert 0 < ours.sum() < ROWS


@pytest.mark.parametrize("env_id", CLASSIC)
def test_spaces_and_time_limits_are_those_that_gymnasium_registers(env_id: str) -> None:
    dynamics, env = native.CATALOG[env_id].build("cpu"), gym.make(env_id, disable_env_checker=True)
    space: Any = env.observation_space
    assert dynamics.obs_shape == space.shape
    np.testing.assert_array_equal(dynamics.obs_low, space.low)
    np.testing.assert_array_equal(dynamics.obs_high, space.high)
    assert native.CATALOG[env_id].max_episode_steps == gym.spec(env_id).max_episode_steps
    if isinstance(env.action_space, gym.spaces.Discrete):
        assert dynamics.action.sizes == (env.action_space.n,)
    else:
        np.testing.assert_array_equal(dynamics.action.low, env.action_space.low)  # type: ignore[attr-defined]


@pytest.mark.parametrize("env_id", CLASSIC)
def test_start_states_fill_the_range_that_gymnasium_draws_from(env_id: str) -> None:
    dynamics = native.CATALOG[env_id].build("cpu")
    uniform = torch.rand(4000, dynamics.noise, generator=torch.Generator().manual_seed(0))
    ours = dynamics.observe(dynamics.start(uniform)).numpy()
    env = gym.make(env_id, disable_env_checker=True)
    theirs = np.array([env.reset(seed=seed)[0] for seed in range(4000)])
    np.testing.assert_allclose(ours.mean(0), theirs.mean(0), atol=4 * theirs.std(0).max() / 60)
    np.testing.assert_allclose(ours.std(0), theirs.std(0), rtol=0.05, atol=1e-6)
    np.testing.assert_allclose(ours.min(0), theirs.min(0), atol=0.02 * np.ptp(theirs, 0).max())
    np.testing.assert_allclose(ours.max(0), theirs.max(0), atol=0.02 * np.ptp(theirs, 0).max())


@pytest.mark.parametrize("env_id", CLASSIC)
def test_a_step_leaves_the_state_it_came_from_as_it_was(env_id: str) -> None:
    dynamics = native.CATALOG[env_id].build("cpu")
    state = torch.tensor(random_states(env_id, np.random.default_rng(1)))[None]
    before = state.clone()
    action = torch.zeros((1, ROWS), dtype=torch.int64) if dynamics.action.kind == "discrete" else torch.ones((1, ROWS, 1))
    first = dynamics.advance(state, action, None)
    kept = [tensor.clone() for tensor in first]
    dynamics.advance(first[0], action, None)
    assert torch.equal(state, before)
    assert all(torch.equal(tensor, copy) for tensor, copy in zip(first, kept, strict=True))
