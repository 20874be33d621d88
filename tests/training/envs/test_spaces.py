"""Every supported space becomes numbers as Gymnasium's own flatten makes them, and actions come back in the env's own shape."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.spaces.utils import flatten

from rlclinic.config import EnvConfig
from rlclinic.errors import ConfigError
from rlclinic.training import envs
from rlclinic.training.envs.spaces import actions, observations
from tests.training.envs import toys

FLAT = [
    spaces.Discrete(4),
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiBinary(3),
    spaces.MultiBinary([2, 2]),
    spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(-1, 1, (2, 2), np.float64), "c": spaces.Tuple((spaces.MultiBinary(2),))}),
    spaces.Tuple((spaces.Discrete(3), spaces.Box(0, 5, (2,), np.float32))),
]
PLAIN = spaces.Box(-1, 1, (2,), np.float32)


@pytest.mark.parametrize("space", FLAT, ids=str)
def test_observations_are_flattened_as_gymnasium_does(space: Any) -> None:
    space.seed(0)
    taken = observations(space, "Toy")
    assert taken.write is not None
    for _ in range(20):
        value = space.sample()
        row = np.full(taken.shape, 7.0, np.float32)
        taken.write(row, value)
        np.testing.assert_allclose(row, flatten(space, value), rtol=1e-6)
        assert (taken.low <= row).all()
        assert (row <= taken.high).all()


def test_a_box_keeps_its_shape_and_bounds() -> None:
    taken = observations(spaces.Box(-2, 3, (4, 3), np.float64), "Toy")
    assert (taken.shape, taken.write, taken.dtype, taken.picture) == ((4, 3), None, "float32", None)
    assert (taken.low.dtype, taken.high.max()) == (np.float32, 3)


@pytest.mark.parametrize(
    ("space", "dtype"),
    [
        (spaces.Box(0, 255, (3, 5, 4), np.uint8), "uint8"),
        (spaces.Box(0, 255, (5, 4, 3), np.uint8), "uint8"),
        (spaces.Box(0, 255, (5, 4), np.uint8), "uint8"),
        (spaces.Box(-1, 1, (5, 4, 3), np.float64), "float32"),
    ],
    ids=str,
)
def test_an_image_has_its_channels_last_and_stays_bytes(space: Any, dtype: str) -> None:
    taken = observations(space, "Toy")
    assert taken.picture is not None
    assert (taken.picture.height, taken.picture.width, taken.dtype) == (5, 4, dtype)
    assert taken.low.shape == taken.high.shape == taken.shape == (5, 4, taken.picture.channels)
    space.seed(0)
    value = space.sample()
    row = np.zeros(taken.shape, taken.dtype)
    if taken.write is None:
        row[...] = value
    else:
        taken.write(row, value)
    channels_first = value.reshape(5, 4, -1) if value.shape[0] == 5 else np.transpose(value, (1, 2, 0))
    np.testing.assert_array_equal(row, channels_first.astype(dtype))


def test_a_dict_with_images_becomes_one_image_and_the_numbers_behind_it() -> None:
    parts = {
        "left": spaces.Box(0, 255, (4, 4, 3), np.uint8),
        "speed": spaces.Box(-1, 1, (2,)),
        "right": spaces.Box(0, 255, (1, 4, 4), np.uint8),
    }
    space = spaces.Dict({**parts, "gear": spaces.Discrete(3)})
    taken = observations(space, "Toy")
    assert taken.picture is not None
    assert taken.write is not None
    assert (taken.picture.channels, taken.picture.vector, taken.dtype) == (4, 5, "uint8")
    space.seed(1)
    value = space.sample()
    row = np.zeros(taken.shape, taken.dtype)
    taken.write(row, value)
    image = row[: taken.picture.size].reshape(4, 4, 4)
    np.testing.assert_array_equal(image[..., :3], value["left"])
    np.testing.assert_array_equal(image[..., 3], value["right"][0])
    rest = spaces.Dict({"speed": parts["speed"], "gear": spaces.Discrete(3)})
    np.testing.assert_allclose(row[taken.picture.size :].view(np.float32), flatten(rest, {key: value[key] for key in rest.spaces}))


def test_a_dict_of_images_alone_is_an_image() -> None:
    space = spaces.Dict({"a": spaces.Box(0, 255, (4, 4), np.uint8), "b": spaces.Box(0, 255, (4, 4), np.uint8)})
    taken = observations(space, "Toy")
    assert taken.shape == (4, 4, 2)
    assert taken.write is not None
    row = np.zeros(taken.shape, taken.dtype)
    taken.write(row, {"a": np.full((4, 4), 3, np.uint8), "b": np.full((4, 4), 9, np.uint8)})
    assert (row == [3, 9]).all()


def test_images_of_different_sizes_are_refused() -> None:
    space = spaces.Dict({"near": spaces.Box(0, 255, (8, 8, 3), np.uint8), "far": spaces.Box(0, 255, (4, 4, 3), np.uint8)})
    with pytest.raises(ConfigError, match=r"(?s)far 4x4x3 uint8, near 8x8x3 uint8.*Try: a wrapper that resizes"):
        observations(space, "Toy")


def test_a_box_without_axes_becomes_a_vector_of_one() -> None:
    assert observations(spaces.Box(-1, 1, (), np.float32), "Toy").shape == (1,)


def test_an_observation_without_a_fixed_size_is_refused_by_its_field() -> None:
    space = spaces.Dict({"pose": PLAIN, "words": spaces.Text(5)})
    with pytest.raises(ConfigError, match=r"(?s)Toy has a Text space as field words of its observation.*Try: a wrapper"):
        observations(space, "Toy")


def test_a_nested_action_space_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"(?s)Toy has the action space Dict.*Try: a wrapper"):
        actions(spaces.Dict({"gas": PLAIN}), "Toy")


ACTIONS: list[tuple[Any, str, tuple[int, ...], Any, list[Any]]] = [
    (spaces.Discrete(3), "discrete", (3,), [[0, 2]], [0, 2]),
    (spaces.Discrete(3, start=5), "discrete", (3,), [[0, 2]], [5, 7]),
    (spaces.MultiDiscrete([2, 4]), "multi_discrete", (2, 4), [[[1, 3], [0, 2]]], [[1, 3], [0, 2]]),
    (spaces.MultiDiscrete([[2], [4]], start=[[1], [0]]), "multi_discrete", (2, 4), [[[1, 3], [0, 2]]], [[[2], [3]], [[1], [2]]]),
    (spaces.MultiBinary(2), "multi_binary", (2, 2), [[[1, 0], [0, 1]]], [[1, 0], [0, 1]]),
    (spaces.Box(-1, 2, (2,), np.float32), "box", (2,), [[[5.0, -5.0], [0.5, 1.5]]], [[2.0, -1.0], [0.5, 1.5]]),
    (spaces.Box(-1, 2, (2, 1), np.float64), "box", (2,), [[[5.0, -5.0], [0.5, 1.5]]], [[[2.0], [-1.0]], [[0.5], [1.5]]]),
    (spaces.Box(0, 9, (1,), np.int32), "box", (1,), [[[2.6], [11.0]]], [[3], [9]]),
]


@pytest.mark.parametrize(("space", "kind", "sizes", "given", "expected"), ACTIONS, ids=lambda value: str(value)[:40])
def test_envs_receive_actions_of_their_own_shape_type_and_bounds(space: Any, kind: str, sizes: Any, given: Any, expected: Any) -> None:
    made: list[toys.Shaped] = []

    def factory() -> toys.Shaped:
        made.append(toys.Shaped(PLAIN, space))
        return made[-1]

    env = envs.make(EnvConfig(id="Toy"), [0], 2, factory=factory)
    env.reset()
    assert (env.action.kind, env.action.sizes) == (kind, sizes)
    env.step(torch.tensor(given, dtype=torch.float32 if kind == "box" else torch.int64))
    for toy, value in zip(made, expected, strict=True):
        np.testing.assert_array_equal(toy.acted[0], np.array(value))
        assert space.contains(toy.acted[0])


def test_nested_observations_reach_training_as_one_vector() -> None:
    space = FLAT[5]
    made: list[toys.Shaped] = []

    def factory() -> toys.Shaped:
        made.append(toys.Shaped(space, spaces.Discrete(2)))
        return made[-1]

    env = envs.make(EnvConfig(id="Toy"), [0, 1], 2, factory=factory)
    obs = env.reset()
    assert obs.shape == (2, 2, 8)
    np.testing.assert_allclose(obs.view(4, 8).numpy(), [flatten(space, toy.seen) for toy in made], rtol=1e-6)
    step = env.step(torch.zeros((2, 2), dtype=torch.int64))
    np.testing.assert_allclose(step.next_obs.view(4, 8).numpy(), [flatten(space, toy.seen) for toy in made], rtol=1e-6)


def test_an_observation_of_another_shape_than_its_space_fails_the_member() -> None:
    class Liar(toys.Walk):
        def _obs(self) -> Any:
            return np.float32(1.0)

    env = envs.make(EnvConfig(id="Toy"), [0], 2, factory=partial(Liar))
    env.reset()
    assert r"shape (), but its observation_space has the shape (2,)" in str(env.failures[0])


BYTES = spaces.Box(0, 255, (3, 8, 8), np.uint8)
MISSHAPEN: dict[str, tuple[spaces.Space[Any], Any, str]] = {
    "a vector": (PLAIN, np.zeros(1, np.float32), "(1,)"),
    "a matrix": (spaces.Box(-1, 1, (2, 3), np.float32), np.zeros(3, np.float32), "(3,)"),
    "an image": (BYTES, np.zeros((8, 8), np.uint8), "(8, 8)"),
    "an image with the channels last": (spaces.Box(0, 255, (8, 8, 3), np.uint8), np.zeros((8, 8, 1), np.uint8), "(8, 8, 1)"),
    "several states": (spaces.MultiDiscrete([3, 3]), np.int64(1), "()"),
    "one state": (spaces.Discrete(3), np.array([0, 1]), "(2,)"),
    "a field of a dict": (spaces.Dict({"a": PLAIN, "b": spaces.Discrete(2)}), {"a": np.zeros(1), "b": 0}, "field a of an observation"),
    "an image in a dict": (spaces.Dict({"a": PLAIN, "b": BYTES}), {"a": np.zeros(2), "b": np.zeros((1, 8, 8), np.uint8)}, "(1, 8, 8)"),
}


@pytest.mark.parametrize(("name", "workers"), [*((name, 0) for name in MISSHAPEN), ("a vector", 1), ("a field of a dict", 1)])
def test_a_step_whose_observation_would_be_repeated_to_fit_fails_the_member(name: str, workers: int) -> None:
    space, wrong, text = MISSHAPEN[name]
    env = envs.make(EnvConfig(id="Toy", workers=workers), [0], 1, factory=partial(toys.Misshapen, space, wrong))
    env.reset()
    for _ in range(2):
        env.step(torch.zeros((1, 1), dtype=torch.int64))
    assert not env.failures
    env.step(torch.zeros((1, 1), dtype=torch.int64))
    message = str(env.failures[0])
    assert text in message
    assert "at step 3" in message
    env.close()


@pytest.mark.parametrize("fault", ["obs", "reward", "terminated", "truncated"])
def test_a_vector_env_that_gives_one_row_for_all_fails_the_member(fault: str) -> None:
    env = envs.make(EnvConfig(id="Toy"), [0], 2, factory=partial(toys.MisshapenVector, fault=fault))
    env.reset()
    for _ in range(3):
        assert not env.failures
        env.step(torch.zeros((1, 2), dtype=torch.int64))
    assert "shape (1," in str(env.failures[0])


def test_an_action_mask_of_one_entry_fails_the_member() -> None:
    class Short(toys.Masked):
        def _mask(self) -> Any:
            return np.ones(1, np.int8) if self.taken == 2 else super()._mask()

    env = envs.make(EnvConfig(id="Toy", action_mask=True), [0], 1, factory=Short)
    env.reset()
    for _ in range(2):
        assert not env.failures
        env.step(torch.zeros((1, 1), dtype=torch.int64))
    assert "an action mask of shape (1,), but its action_space has the shape (3,)" in str(env.failures[0])


@pytest.mark.parametrize(
    ("space", "given"),
    [(spaces.Discrete(6), -1), (spaces.Discrete(6), 6), (spaces.Discrete(3, start=2), 1), (spaces.MultiDiscrete([3, 2]), [3, 0])],
)
def test_a_state_that_its_space_does_not_have_is_not_taken_for_another(space: Any, given: Any) -> None:
    known = observations(space, "Own")
    assert known.write is not None
    with pytest.raises(ValueError, match="its observation_space has the numbers"):
        known.write(np.zeros(known.shape, np.float32), np.array(given))


def test_an_observation_without_any_number_is_refused() -> None:
    with pytest.raises(ConfigError, match="holds no number"):
        observations(spaces.Box(-1, 1, (0,)), "Own")


class Spaceless(toys.gym.Env[Any, Any]):
    """Nobody knows what it gives and takes."""


class Stubborn(toys.Walk):
    def close(self) -> None:
        raise RuntimeError("it does not close")


@pytest.mark.parametrize("workers", [0, 1])
def test_an_environment_that_does_not_close_is_stepped_all_the_same(workers: int) -> None:
    env = envs.make(EnvConfig(id="Stubborn", n_envs=1, workers=workers), [0], 1, factory=Stubborn)
    env.reset()
    assert not env.failures
    env.close()


def test_an_environment_without_spaces_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no observation_space"):
        envs.make(EnvConfig(id="Spaceless", n_envs=1), [0], 1, factory=Spaceless)
