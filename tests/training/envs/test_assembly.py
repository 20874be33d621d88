"""Which way a config's environments are stepped."""

import subprocess
import sys
from typing import Any

import pytest

from rlclinic.config import EnvConfig
from rlclinic.errors import ConfigError
from rlclinic.training import envs
from rlclinic.training.envs.adapter import GymnasiumEnv
from rlclinic.training.envs.native import CATALOG, NativeEnv
from tests.training.envs import toys


@pytest.mark.parametrize("env_id", CATALOG)
def test_native_is_the_default_where_there_is_one(env_id: str) -> None:
    assert isinstance(envs.make(EnvConfig(id=env_id), [0], 1), NativeEnv)


FORCED: list[dict[str, Any]] = [
    {"native": "never"},
    {"wrappers": [{"id": "ClipReward", "max_reward": 0.5}]},
    {"workers": 1},
    {"kwargs": {"render_mode": "rgb_array"}},
]


@pytest.mark.parametrize("field", FORCED, ids=str)
def test_what_native_cannot_do_goes_to_gymnasium(field: dict[str, Any]) -> None:
    env = envs.make(EnvConfig(id="CartPole-v1", **field), [0], 1)
    assert isinstance(env, GymnasiumEnv)
    env.close()


def test_a_random_map_goes_to_gymnasium() -> None:
    env = envs.make(EnvConfig(id="FrozenLake-v1", kwargs={"map_name": None}), [0], 1)
    assert isinstance(env, GymnasiumEnv)


def test_always_native_says_what_stands_in_the_way() -> None:
    with pytest.raises(ConfigError, match=r"(?s)no native version of LunarLander-v3.*--set env.native=auto"):
        envs.make(EnvConfig(id="LunarLander-v3", native="always"), [0], 1)
    with pytest.raises(ConfigError, match=r"does not understand env\.kwargs render_mode"):
        envs.make(EnvConfig(id="CartPole-v1", native="always", kwargs={"render_mode": "human"}), [0], 1)
    with pytest.raises(ConfigError, match="your own"):
        envs.make(EnvConfig(id="CartPole-v1", native="always"), [0], 1, factory=toys.Walk)


def test_the_users_own_env_takes_the_place_of_the_id() -> None:
    env = envs.make(EnvConfig(id="CartPole-v1"), [0], 1, factory=toys.Walk)
    assert env.obs_shape == (2,)


@pytest.mark.parametrize("field", [{"id": "probe:9"}, {"id": "probe:1", "wrappers": [{"id": "ClipReward"}]}])
def test_a_probe_has_no_gymnasium_version(field: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"(?s)exists only as a native environment.*probe:continuous"):
        envs.make(EnvConfig(**field), [0], 1)


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import rlclinic.training.envs.worker", "torch"),
        (
            "from rlclinic.training import envs; from rlclinic.config import EnvConfig; envs.make(EnvConfig(id='CartPole-v1'), [0], 1)",
            "gymnasium",
        ),
    ],
    ids=["workers-without-torch", "native-without-gymnasium"],
)
def test_what_is_not_needed_is_not_imported(statement: str, absent: str) -> None:
    code = f"{statement}\nimport sys; sys.exit({absent!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
