import pytest

from rlclinic.config.network import NetConfig
from rlclinic.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"log_std_init": 3}, r"net.log_std_init=3 lies outside(?s:.*)--set net.log_std_init=2"),
        ({"log_std_init": -2, "log_std_min": -1}, "--set net.log_std_init=-1"),
        ({"shared": True, "critic_hidden": [8]}, r"net.critic_hidden=\[8\] has no meaning with shared=true"),
        ({"hidden": [64, 0]}, r"net.hidden.1=0: must be at least 1(?s:.*)--set net.hidden=\[64, 64\]"),
        ({"hidden": 64}, r"net.hidden=64: must be a list, e.g. \[64, 64\]"),
        ({"policy_gain": 0}, "net.policy_gain=0: must be more than 0"),
    ],
)
def test_a_network_that_cannot_be_built_is_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        NetConfig(**settings)


def test_a_network_may_be_linear() -> None:
    assert NetConfig(hidden=[]).hidden == ()
