"""A user's own VectorEnv, in each of Gymnasium's three ways to reset, tells the same story."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rlclinic.config import EnvConfig
from rlclinic.errors import ConfigError
from rlclinic.training import envs
from tests.training.envs import toys

LENGTHS = (2, 3, 5)


class Lengths(toys.Walk):
    """A Walk whose `length` differs between the copies."""


def vector(num_envs: int, mode: AutoresetMode) -> SyncVectorEnv:
    return SyncVectorEnv([partial(Lengths, LENGTHS[n % 3]) for n in range(num_envs)], autoreset_mode=mode)


def singles() -> Any:
    """The same envs one by one, as the yardstick."""
    made = iter(LENGTHS * 2)
    return lambda: Lengths(next(made))


def transitions(env: Any, steps: int) -> list[list[tuple[Any, ...]]]:
    """Per env: (obs acted on, next_obs, reward, terminated, success) of every real transition."""
    obs, story = env.reset(), [[] for _ in range(3)]  # type: ignore[var-annotated]
    counts = [0, 0, 0]
    for _ in range(steps):
        action = torch.tensor([[count % 3 for count in counts]] * env.members)
        step = env.step(action)
        for n in range(3):
            if step.valid is None or step.valid[0, n]:
                row = (obs[0, n].tolist(), step.next_obs[0, n].tolist(), step.reward[0, n].item(), step.terminated[0, n].item())
                story[n].append((*row, str(step.success[0, n].item())))
                counts[n] += 1
        obs = step.obs
    return story


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_all_ways_to_reset_give_the_transitions_of_the_single_envs(mode: AutoresetMode) -> None:
    config = EnvConfig(id="Own")
    expected = transitions(envs.make(config, [1, 2], 3, factory=singles()), 30)
    ours = transitions(envs.make(config, [1, 2], 3, factory=partial(vector, mode=mode)), 30)
    for theirs, mine in zip(expected, ours, strict=True):
        assert mine == theirs[: len(mine)]
        assert len(mine) == 30 if mode is not AutoresetMode.NEXT_STEP else len(mine) < 30
    assert any(row[-1] == "1.0" for row in ours[0])


def test_a_next_step_env_marks_its_reset_rows_as_no_transition() -> None:
    env = envs.make(EnvConfig(id="Own"), [0], 3, factory=partial(vector, mode=AutoresetMode.NEXT_STEP))
    env.reset()
    zero = torch.zeros((1, 3), dtype=torch.int64)
    valid = torch.cat([env.step(zero + 1).valid for _ in range(6)])  # type: ignore[misc]
    assert valid[:, 0].tolist() == [True, True, False, True, True, False]
    assert valid[:, 1].tolist() == [True, True, True, False, True, True]
    assert valid[:, 2].tolist() == [True] * 5 + [False]


def test_a_custom_vector_env_is_stepped_as_it_is() -> None:
    env = envs.make(EnvConfig(id="Own"), [0, 1], 4, factory=CartPoleVectorEnv)
    assert torch.equal(env.reset(), env.reset())
    assert env.reset().shape == (2, 4, 4)
    invalid = 0
    for _ in range(60):
        step = env.step(torch.ones((2, 4), dtype=torch.int64))
        assert step.valid is not None
        assert not step.reward[~step.valid].any()
        assert (step.obs[~step.valid].abs() <= 0.05).all()
        invalid += int((~step.valid).sum())
    assert invalid > 10


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_evaluation_counts_one_episode_per_env(mode: AutoresetMode) -> None:
    env = envs.make(EnvConfig(id="Own"), [0], 3, evaluation=True, factory=partial(vector, mode=mode))
    starts = env.reset()
    ones = torch.ones((1, 3), dtype=torch.int64)
    steps = [env.step(ones) for _ in range(9)]
    assert torch.stack([step.reward for step in steps]).sum(0).tolist() == [[2.0, 3.0, 5.0]]
    assert torch.stack([step.terminated for step in steps]).sum(0).tolist() == [[1, 1, 1]]
    assert torch.equal(env.reset(), starts)


def test_nested_observations_of_a_vector_env_are_flattened() -> None:
    space = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(-1, 1, (2,), np.float32)})

    def factory(num_envs: int) -> SyncVectorEnv:
        return SyncVectorEnv([partial(toys.Shaped, space, spaces.Discrete(2))] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)

    env = envs.make(EnvConfig(id="Own"), [0], 2, factory=factory)
    obs = env.reset()
    assert obs.shape == (1, 2, 5)
    assert torch.equal(obs[..., :3].sum(-1), torch.ones(1, 2))


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_masks_of_a_vector_env_are_read(mode: AutoresetMode) -> None:
    def factory(num_envs: int) -> SyncVectorEnv:
        return SyncVectorEnv([partial(toys.Masked, 4)] * num_envs, autoreset_mode=mode)

    env = envs.make(EnvConfig(id="Own", action_mask=True), [0], 2, factory=factory)
    obs = env.reset()
    for _ in range(9):
        assert env.action_mask is not None
        expected = torch.nn.functional.one_hot(obs[..., 0].long() % 3, 3).bool()
        assert torch.equal(env.action_mask, expected)
        obs = env.step(torch.zeros((1, 2), dtype=torch.int64)).obs


def test_a_vector_env_that_goes_wrong_fails_its_member_only() -> None:
    def factory(num_envs: int) -> SyncVectorEnv:
        return SyncVectorEnv([partial(toys.Faulty, "obs", 2, 0.12)] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)

    env = envs.make(EnvConfig(id="Own"), [0, 1, 2], 3, factory=factory)
    chosen = (env.reset()[..., 1] < 0.12).any(-1)
    for _ in range(3):
        step = env.step(torch.ones((3, 3), dtype=torch.int64))
    assert 0 < len(env.failures) < 3
    assert [member in env.failures for member in range(3)] == chosen.tolist()
    assert torch.equal(step.reward.any(-1), ~chosen)


def test_a_vector_env_that_does_not_say_how_it_resets_is_refused() -> None:
    def factory(num_envs: int) -> SyncVectorEnv:
        env = vector(num_envs, AutoresetMode.SAME_STEP)
        env.metadata.pop("autoreset_mode")
        return env

    with pytest.raises(ConfigError, match=r'(?s)metadata\["autoreset_mode"\].*AutoresetMode.NEXT_STEP'):
        envs.make(EnvConfig(id="Own"), [0], 2, factory=factory)


def test_a_vector_env_of_another_size_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"(?s)a vector of 4 environments, but 2 are wanted.*env.n_envs=4"):
        envs.make(EnvConfig(id="Own"), [0], 2, factory=lambda: vector(4, AutoresetMode.SAME_STEP))


@pytest.mark.parametrize("field", [{"max_episode_steps": 3}, {"workers": 1}, {"wrappers": [{"id": "ClipReward"}]}])
def test_what_only_single_envs_can_have_is_refused(field: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"env.{next(iter(field))}=.*cannot be applied to vector"):
        envs.make(EnvConfig(id="Own", **field), [0], 2, factory=named)


def named(num_envs: int) -> SyncVectorEnv:
    return vector(num_envs, AutoresetMode.SAME_STEP)


named.__qualname__ = "vector"
