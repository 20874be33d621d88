from typing import Any

import pytest

from rlclinic.config.environment import EnvConfig, Spec, Wrapper
from rlclinic.errors import ConfigError


@pytest.mark.parametrize("given", ["TimeAwareObservation", {"id": "TimeAwareObservation"}])
def test_a_wrapper_without_arguments_may_be_a_bare_name(given: object) -> None:
    assert EnvConfig(id="x", wrappers=[given]).wrappers == (Wrapper(id="TimeAwareObservation"),)


def test_a_wrappers_arguments_stand_beside_its_id() -> None:
    wrapper = Wrapper.model_validate({"id": "my.module:Scale", "low": -1, "high": 1})
    assert (wrapper.id, wrapper.kwargs) == ("my.module:Scale", {"low": -1, "high": 1})
    assert wrapper.model_dump() == {"id": "my.module:Scale", "low": -1, "high": 1}


def test_a_wrapper_may_take_an_argument_called_id() -> None:
    wrapper = Wrapper.model_validate({"id": "a:B", "kwargs": {"id": 3, "kwargs": 4}})
    assert Wrapper.model_validate(wrapper.model_dump()) == wrapper


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"workers": 9}, r"env.workers=9 is more than n_envs=8.\n.*\n  Try: --set env.workers=8"),
        ({"native": "always", "wrappers": ["X"]}, "native=always cannot go with wrappers"),
        ({"native": "always", "workers": 2}, "native=always cannot go with workers"),
        ({"id": ""}, "env.id="),
        ({"frame_stack": 0}, "env.frame_stack=0: must be at least 1"),
        ({"wrappers": "X"}, "env.wrappers=X: must be a list"),
        ({"wrappers": [{"low": 1}]}, "env.wrappers.0.id is missing"),
    ],
)
def test_an_environment_that_cannot_be_made_is_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        EnvConfig(**{"id": "CartPole-v1", **settings})


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"return_range": [500, 0]}, r"spec.return_range=\[500, 0\] does not rise"),
        ({"return_range": [0, 500], "threshold": 501}, "--set spec.threshold=500"),
        ({"return_range": [0]}, "spec.return_range"),
        ({"max_episode_steps": 0}, "at least 1"),
    ],
)
def test_a_task_that_contradicts_itself_is_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Spec(**settings)


@pytest.mark.parametrize(("setting", "value"), [("frame_skip", 4), ("sticky_actions", 0.25), ("episodic_life", True)])
def test_settings_of_atari_games_are_refused_elsewhere(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"(?s){setting}={value} has no meaning for CartPole-v1.*--set env.{setting}="):
        EnvConfig(id="CartPole-v1", **{setting: value})
    EnvConfig(id="ALE/Pong-v5", **{setting: value})


def test_a_step_of_an_atari_game_is_so_many_frames() -> None:
    assert EnvConfig(id="ALE/Pong-v5").frames_per_step == 4
    assert EnvConfig(id="ALE/Pong-v5", frame_skip=2).frames_per_step == 2
    assert EnvConfig(id="CartPole-v1").frames_per_step is None
