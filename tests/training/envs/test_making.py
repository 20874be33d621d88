"""Environments are made as Gymnasium makes them, and what cannot be made says what to type."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.wrappers import ClipReward, OrderEnforcing, PassiveEnvChecker, TimeLimit

from rlclinic.config import EnvConfig
from rlclinic.errors import ConfigError, NotFound, UsageError
from rlclinic.training import envs
from rlclinic.training.envs import making
from tests.training.envs import toys


def test_an_unknown_id_offers_the_nearest() -> None:
    with pytest.raises(NotFound, match=r"(?s)CartPol-v1.*Try: .*CartPole-v1"):
        making.make_single(EnvConfig(id="CartPol-v1"))


def test_a_version_that_is_gone_offers_the_one_that_is_there() -> None:
    with pytest.raises(NotFound, match=r"(?s)LunarLander-v2.*Try: .*LunarLander-v3"):
        making.make_single(EnvConfig(id="LunarLander-v2"))


@pytest.mark.skipif("Taxi-v3" in gym.registry, reason="this Gymnasium still has Taxi-v3")
def test_taxi_v3_is_made_by_its_successor_unless_they_differ() -> None:
    assert making.make_single(EnvConfig(id="Taxi-v3")).spec.id == "Taxi-v4"  # type: ignore[union-attr]
    with pytest.raises(NotFound, match=r"(?s)Taxi-v3.*Try: Taxi-v4"):
        making.make_single(EnvConfig(id="Taxi-v3", kwargs={"is_rainy": True}))


def test_a_missing_atari_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None if name == "ale_py" else find_spec(name, package))
    for env_id in [env_id for env_id in gym.registry if env_id.startswith("ALE/")]:
        monkeypatch.delitem(gym.registry, env_id)
    with pytest.raises(NotFound, match=r"(?s)ALE/Pong-v5.*Try: pip install ale-py"):
        making.make_single(EnvConfig(id="ALE/Pong-v5"))


@pytest.mark.parametrize(("env_id", "module", "line"), [("LunarLander-v3", "Box2D", "box2d"), ("HalfCheetah-v5", "mujoco", "mujoco")])
def test_a_missing_simulator_says_what_to_install(env_id: str, module: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith((f"gymnasium.envs.{line}", module))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf'(?s){env_id} needs a package.*pip install "gymnasium\[{line}\]"'):
        making.make_single(EnvConfig(id=env_id))


def test_making_a_robot_leaves_no_words_of_its_simulator_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    mujoco = pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    before = mujoco.get_mju_user_warning()
    making.make_single(EnvConfig(id="HalfCheetah-v5")).close()
    assert capfd.readouterr().err == ""
    assert list(tmp_path.iterdir()) == [], "no MUJOCO_LOG.TXT"
    assert mujoco.get_mju_user_warning() == before, "what it says of a simulation is heard"


def test_a_module_before_the_id_is_imported_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_rooms.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Room-v0', entry_point='tests.training.envs.toys:Walk', max_episode_steps=17, kwargs={'length': 3})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    env = making.make_single(EnvConfig(id="my_rooms:Room-v0"))
    assert isinstance(env.unwrapped, toys.Walk)
    assert env.unwrapped.length == 3
    assert making.find_time_limit(env) == 17
    gym.registry.pop("Room-v0")


@pytest.mark.parametrize("target", ["my_halls:Hall", "halls/my_halls.py:Hall", "my_halls:hall"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_class_or_function_of_a_module_or_file_needs_no_registration(
    target: str, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "halls").mkdir()
    (tmp_path / "halls/my_halls.py").write_text(
        "import gymnasium\nfrom tests.training.envs import toys\n\n\nclass Hall(toys.Walk):\n    pass\n\n\n"
        "def hall(**kwargs):\n    return Hall(**kwargs)\n\n\n"
        "if 'Hall-v0' not in gymnasium.registry:\n    gymnasium.register('Hall-v0', entry_point=Hall)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "halls")
    monkeypatch.delitem(sys.modules, "my_halls", raising=False)
    config = EnvConfig(id=target, kwargs={"length": 3}, max_episode_steps=17, n_envs=2, workers=workers)
    env = making.make_single(config)
    assert type(env.unwrapped).__name__ == "Hall"
    assert env.unwrapped.length == 3  # type: ignore[attr-defined]
    assert making.find_time_limit(env) == 17
    assert type(making.make_single(config).unwrapped) is type(env.unwrapped), "the file is run once"
    batch = envs.make(config, [0], 2)
    assert batch.reset().shape[:2] == (1, 2)
    batch.close()


def test_a_name_that_a_module_does_not_have_offers_its_environments() -> None:
    with pytest.raises(NotFound, match=r"(?s)no class or function Wolk in tests.training.envs.toys.*Try: Walk"):
        making.make_single(EnvConfig(id="tests.training.envs.toys:Wolk"))


def test_a_file_that_fails_to_import_is_told_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "halls_broken.py").write_text("raise OSError('no map')\n")
    with pytest.raises(ConfigError, match=r"(?s)halls_broken.py raised OSError: no map.*Try: python "):
        making.make_single(EnvConfig(id=f"{tmp_path}/halls_broken.py:Hall"))


def test_a_module_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFound, match=r"(?s)no_such_module:Room-v0: the module no_such_module cannot be imported.*pip install"):
        making.make_single(EnvConfig(id="no_such_module:Room-v0"))


def test_wrong_kwargs_show_the_constructor() -> None:
    with pytest.raises(ConfigError, match=r"(?s)LunarLander-v3.*gravitas.*Try: LunarLander\(.*gravity"):
        making.make_single(EnvConfig(id="LunarLander-v3", kwargs={"gravitas": 1}))


def test_the_time_limit_of_the_config_replaces_the_registered_one() -> None:
    assert making.find_time_limit(making.make_single(EnvConfig(id="CartPole-v1"))) == 500
    assert making.find_time_limit(making.make_single(EnvConfig(id="CartPole-v1", max_episode_steps=7))) == 7
    assert making.find_time_limit(making.make_single(EnvConfig(id="Own", max_episode_steps=7), toys.Walk)) == 7


def test_wrappers_are_put_on_from_the_inside_out() -> None:
    wrappers: Any = [{"id": "ClipReward", "max_reward": 0.5}, {"id": "gymnasium.wrappers:TimeAwareObservation"}]
    env = making.make_single(EnvConfig(id="CartPole-v1", wrappers=wrappers))
    assert isinstance(env, gym.wrappers.TimeAwareObservation)
    assert isinstance(env.env, ClipReward)


def test_an_unknown_wrapper_offers_the_nearest() -> None:
    wrappers: Any = [{"id": "ClipRewards"}]
    with pytest.raises(NotFound, match=r"(?s)no ClipRewards in gymnasium.wrappers.*did you mean ClipReward\?"):
        making.make_single(EnvConfig(id="CartPole-v1", wrappers=wrappers))


def test_wrong_wrapper_arguments_show_its_signature() -> None:
    wrappers: Any = [{"id": "ClipReward", "most": 1}]
    with pytest.raises(ConfigError, match=r"(?s)ClipReward\(most=1\) raised TypeError.*Try: ClipReward\(.*max_reward"):
        making.make_single(EnvConfig(id="CartPole-v1", wrappers=wrappers))


def test_only_gymnasiums_own_outer_wrappers_are_peeled_off() -> None:
    walk = toys.Walk()
    env, limit = making.peel(TimeLimit(OrderEnforcing(PassiveEnvChecker(walk)), 9))
    assert (env, limit) == (walk, 9)
    clipped = ClipReward(TimeLimit(walk, 9), max_reward=1)
    assert making.peel(clipped) == (clipped, None)
    assert making.peel(TimeLimit(TimeLimit(walk, 4), 9)) == (walk, 4)


def test_a_factory_that_makes_something_else_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"(?s)dict returned a dict, which is not a gymnasium.Env"):
        making.make_single(EnvConfig(id="Own"), dict)


def test_an_instance_instead_of_a_class_is_refused() -> None:
    with pytest.raises(UsageError, match=r"(?s)cannot be called.*Try: env=MyEnv"):
        making.make_single(EnvConfig(id="Own"), toys.Walk())  # type: ignore[arg-type]


def test_a_factory_that_raises_is_named_with_its_arguments() -> None:
    with pytest.raises(ConfigError, match=r"(?s)Walk\(width=3\) raised TypeError.*width"):
        making.make_single(EnvConfig(id="Own", kwargs={"width": 3}), toys.Walk)
