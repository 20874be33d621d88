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
