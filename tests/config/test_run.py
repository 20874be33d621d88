import pytest

from rlclinic.config.run import RunConfig
from rlclinic.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"stop_at_threshold": True}, "--set run.eval_every_env_steps=50000"),
        ({"stop_at_threshold": True, "eval_every_env_steps": 5, "eval_episodes": 0}, "--set run.eval_episodes=20"),
        ({"max_env_steps": 0}, "at least 1"),
        ({"device": "gpu"}, "must be one of 'cpu', 'cuda' or 'auto'"),
        ({"eval_every_env_steps": 0}, "run.eval_every_env_steps=0: must be at least 1"),
        ({"tensorboard": "maybe"}, "run.tensorboard=maybe: must be true or false"),
    ],
)
def test_a_run_that_cannot_be_kept_is_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        RunConfig(**settings)


def test_a_run_that_looks_at_its_threshold_may_stop_there() -> None:
    assert RunConfig(stop_at_threshold=True, eval_every_env_steps=1000).stop_at_threshold
