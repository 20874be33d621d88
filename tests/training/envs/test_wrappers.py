"""Stacked frames and the time in the observation, for native and Gymnasium environments alike."""

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rlclinic.config import EnvConfig
from rlclinic.errors import ConfigError
from rlclinic.training import envs
from tests.training.envs import toys


def test_frames_equal_gymnasiums_own_wrapper() -> None:
    env: Any = envs.make(EnvConfig(id="CartPole-v1", native="never", frame_stack=3, max_episode_steps=12), [0], 2)
    obs = env.reset()
    seeds = env._env._env_seeds()[0]
    theirs = [gym.wrappers.FrameStackObservation(gym.make("CartPole-v1", max_episode_steps=12), 3, padding_type="reset") for _ in seeds]
    for n, (single, seed) in enumerate(zip(theirs, seeds, strict=True)):
        np.testing.assert_array_equal(obs[0, n], single.reset(seed=seed)[0].ravel())
    for index in range(40):
        step = env.step(torch.full((1, 2), index % 2))
        for n, single in enumerate(theirs):
            frames, _, terminated, truncated, _ = single.step(index % 2)
            np.testing.assert_array_equal(step.next_obs[0, n], frames.ravel())
            after = single.reset()[0] if terminated or truncated else frames
            np.testing.assert_array_equal(step.obs[0, n], after.ravel())


def test_the_newest_frame_is_last_and_a_new_episode_forgets_the_old() -> None:
    env = envs.make(EnvConfig(id="Own", frame_stack=3, kwargs={"length": 4}), [0], 1, factory=toys.Walk)
    assert env.reset()[0, 0, ::2].tolist() == [0, 0, 0]
    steps = [env.step(torch.tensor([[0]])) for _ in range(5)]
    assert [step.next_obs[0, 0, ::2].tolist() for step in steps] == [[0, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [0, 0, 1]]
    assert steps[3].obs[0, 0, ::2].tolist() == [0, 0, 0]
    assert env.obs_shape == (6,)
    assert env.obs_low.shape == (6,)


def test_the_time_shown_is_the_share_of_the_limit_that_has_passed() -> None:
    env = envs.make(EnvConfig(id="CartPole-v1", time_in_obs=True, max_episode_steps=4), [0, 1], 2)
    assert env.obs_shape == (5,)
    assert (env.obs_low[-1], env.obs_high[-1]) == (0.0, 1.0)
    assert env.reset()[..., -1].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    steps = [env.step(torch.zeros((2, 2), dtype=torch.int64)) for _ in range(5)]
    assert [step.next_obs[0, 0, -1].item() for step in steps] == [0.25, 0.5, 0.75, 1.0, 0.25]
    assert [step.obs[0, 0, -1].item() for step in steps] == [0.25, 0.5, 0.75, 0.0, 0.25]


def test_frames_and_time_go_together() -> None:
    env = envs.make(EnvConfig(id="CartPole-v1", time_in_obs=True, frame_stack=2), [0], 2)
    assert env.reset().shape == (1, 2, 9)
    assert env.obs_high.shape == (9,)


def test_a_next_step_env_starts_its_frames_and_clock_in_the_reset_row() -> None:
    def factory(num_envs: int) -> SyncVectorEnv:
        return SyncVectorEnv([partial(toys.Walk, 2)] * num_envs, autoreset_mode=AutoresetMode.NEXT_STEP)

    env = envs.make(EnvConfig(id="Own", frame_stack=2), [0], 1, factory=factory)
    env.reset()
    steps = [env.step(torch.zeros((1, 1), dtype=torch.int64)) for _ in range(4)]
    assert [step.obs[0, 0, ::2].tolist() for step in steps] == [[0, 1], [1, 2], [0, 0], [0, 1]]


@pytest.mark.parametrize("env_id", ["CartPole-v1", "FrozenLake-v1"])
def test_a_resumed_env_continues_bit_for_bit(env_id: str) -> None:
    config = EnvConfig(id=env_id, frame_stack=3, time_in_obs=True, max_episode_steps=6)
    env, other = envs.make(config, [0, 1], 3), envs.make(config, [0, 1], 3)
    action = torch.zeros((2, 3), dtype=torch.int64)
    env.reset()
    for _ in range(8):
        last = env.step(action)
    assert torch.equal(other.load_state(env.state()), last.obs)
    for _ in range(20):
        ours, theirs = env.step(action), other.step(action)
        assert torch.equal(ours.next_obs, theirs.next_obs)
        assert torch.equal(ours.obs, theirs.obs)


def test_an_inexact_env_resumes_with_fresh_frames() -> None:
    config = EnvConfig(id="Own", frame_stack=2)
    env = envs.make(config, [0], 1, factory=toys.Walk)
    env.reset()
    env.step(torch.tensor([[0]]))
    obs = envs.make(config, [0], 1, factory=toys.Walk).load_state(env.state())
    assert obs[0, 0, ::2].tolist() == [0, 0]
    assert obs[0, 0, 1] == obs[0, 0, 3]


def test_the_time_needs_a_limit_and_a_vector() -> None:
    with pytest.raises(ConfigError, match=r"(?s)no time limit.*--set env.max_episode_steps=1000"):
        envs.make(EnvConfig(id="CliffWalking-v1", time_in_obs=True), [0], 1)
    image = partial(toys.Shaped, gym.spaces.Box(0, 255, (3, 4, 4), np.uint8), gym.spaces.Discrete(2))
    with pytest.raises(ConfigError, match=r"(?s)shape \(4, 4, 3\).*env.time_in_obs=false"):
        envs.make(EnvConfig(id="Own", time_in_obs=True, max_episode_steps=5), [0], 1, factory=image)


def test_images_are_stacked_along_their_channels() -> None:
    image = partial(toys.Shaped, gym.spaces.Box(0, 255, (3, 4, 4), np.uint8), gym.spaces.Discrete(2))
    env = envs.make(EnvConfig(id="Own", frame_stack=4), [0], 2, factory=image)
    assert env.reset().shape == (1, 2, 4, 4, 12)
    assert env.obs_high.shape == (4, 4, 12)


@pytest.mark.parametrize(("native", "copied"), [("auto", False), ("never", True)])
@pytest.mark.parametrize("frame_stack", [1, 2])
def test_every_environment_says_whose_steps_take_its_time(native: Any, copied: bool, frame_stack: int) -> None:
    env = envs.make(EnvConfig(id="CartPole-v1", native=native, frame_stack=frame_stack), [0], 1)
    env.reset()
    calls: list[str] = []
    for owner, name in zip(env.stepping, ("simulates", "copies"), strict=True):
        if owner is not None:
            step = owner.step
            owner.step = lambda *args, step=step, name=name: calls.append(name) or step(*args)  # type: ignore[method-assign]
    env.step(torch.zeros(1, 1, dtype=torch.int64))
    assert calls == (["copies", "simulates"] if copied else ["simulates"])
